//! `tract options`, which `tract help options` explains.

use clap::Args;

use crate::context::Context;
use crate::failure::Outcome;
use crate::global::global_options;

/// Show the options that every command takes, before or after its verb.
#[derive(Debug, Args)]
pub(crate) struct Options {}

pub(crate) fn run(context: &mut Context<'_>, _options: &Options) -> Outcome<()> {
    context.out.raw(global_options().to_string().trim_end())
}
