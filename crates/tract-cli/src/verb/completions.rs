//! `tract completions`

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// The environment variable by which a shell asks for completions.
pub(crate) const VARIABLE: &str = "TRACT_COMPLETE";

/// Print the script with which a shell completes verbs, flags, branches, revisions, tools and
/// forms.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract completions bash > ~/.local/share/bash-completion/completions/tract
  tract completions zsh  > ~/.zfunc/_tract
  tract completions fish > ~/.config/fish/completions/tract.fish")]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(context: &mut Context<'_>, completions: &Completions) -> Outcome<()> {
    context.out.raw(script(completions.shell)?.trim())
}

/// Returns the script that sets up completions in a shell.
///
/// # Errors
/// `usage` if the shell is unknown.
fn script(shell: Shell) -> Outcome<String> {
    let shells = Shells::builtins();
    let shell = shell.to_string();
    let unknown = || Failure::usage(format!("no completions for shell {shell:?}"));
    let completer = shells.completer(&shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "tract", "tract", "tract", &mut script)
        .map_err(|error| Failure::stdout(&error))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}
