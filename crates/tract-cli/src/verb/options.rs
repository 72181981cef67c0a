//! `tract options`, which `tract help options` explains.

use clap::Args;

use crate::context::Context;
use crate::failure::Outcome;
use crate::help;

/// Show the options that every command takes, before or after its verb.
#[derive(Debug, Args)]
pub(crate) struct Options {}

pub(crate) fn run(context: &mut Context<'_>, _options: &Options) -> Outcome<()> {
    context.out.raw(help::global_options().to_string().trim_end())
}
