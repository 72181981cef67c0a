//! `tract completions`

use clap::Args;
use clap_complete::Shell;

use crate::context::Context;
use crate::failure::Outcome;
use crate::help;

/// Write completions for a shell.
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
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut help::command(), "tract", &mut script);
    context.out.raw(String::from_utf8_lossy(&script).trim_end())
}
