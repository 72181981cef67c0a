//! The program that shows long answers page by page.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// A pager that reads what is written to it.
pub(crate) struct Pager(Child);

/// The options of `less` where `LESS` is not set: end at once when all fits on the screen, show
/// colors, leave the screen as it is, and end with Ctrl-C, as the command behind it does.
const LESS: &str = "FRXK";

impl Pager {
    /// Starts the program that `PAGER` names, else `less`; `None` when there is none to start, or
    /// when `PAGER` is empty or `cat`.
    pub(crate) fn start() -> Option<Self> {
        let named = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
        let words = shlex::split(&named)?;
        let (program, arguments) = words.split_first().filter(|(program, _)| *program != "cat")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS);
        }
        command.spawn().ok().map(Self)
    }

    /// Ends its input and waits until the reader leaves it.
    pub(crate) fn close(&mut self) {
        drop(self.0.stdin.take());
        // How a pager ends says nothing about the command.
        let _ = self.0.wait();
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0.stdin {
            Some(input) => input.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.stdin.as_mut().map_or(Ok(()), Write::flush)
    }
}
