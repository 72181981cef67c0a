//! The program that shows long answers page by page.

use std::process::{Child, ChildStdin, Command, Stdio};

/// The options of `less` where `LESS` is not set: end at once when all fits on the screen, show
/// colors, leave the screen as it is, and end with Ctrl-C, as the command behind it does.
const LESS: &str = "FRXK";

/// Starts the program that `PAGER` names, else `less`, and returns it with its input; `None` when
/// there is none to start, or when `PAGER` is empty or `cat`.
pub(crate) fn start() -> Option<(Child, ChildStdin)> {
    let named = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    let words = shlex::split(&named)?;
    let (program, arguments) = words.split_first().filter(|(program, _)| *program != "cat")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let mut pager = command.spawn().ok()?;
    let input = pager.stdin.take()?;
    Some((pager, input))
}
