//! `tract man`

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use crate::args::Cli;
use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Write the manual pages into a folder: tract.1, and one per verb. For packagers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract man /usr/local/share/man/man1        then: man tract, man tract-log")]
pub(crate) struct Man {
    /// The folder; it must exist.
    folder: PathBuf,
}

pub(crate) fn run(context: &mut Context<'_>, man: &Man) -> Outcome<()> {
    let written = |error| Failure::file(&man.folder, &error);
    // The help groups the verbs, but clap's manual page has its own list.
    clap_mangen::generate_to(Cli::command(), &man.folder).map_err(written)?;
    context.out.done(format_args!("wrote the manual pages to {}", man.folder.display()))
}
