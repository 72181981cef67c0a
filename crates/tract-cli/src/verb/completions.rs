//! `tract completions`

use clap::Args;
use clap_complete::Shell;

use crate::complete;
use crate::context::Context;
use crate::failure::Outcome;

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
    context.out.raw(complete::script(completions.shell)?.trim())
}
