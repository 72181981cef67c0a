//! The pager for long answers.

use std::process::{Child, ChildStdin, Command, Stdio};

/// The options of `less` if `LESS` is not set: exit at once if everything fits on the screen, show
/// colors, keep the screen, and exit on Ctrl-C like the command.
const LESS: &str = "FRXK";

/// Starts the program in `PAGER`, else `less`, and returns it with its input. `None` if it cannot
/// be started, or if `PAGER` is empty or `cat`.
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
