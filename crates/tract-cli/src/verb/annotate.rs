//! `tract annotate`

use clap::Args;
use tract::JsonText;
use tract::engine::Request;

use super::commit::PriorityWord;
use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::failure::Outcome;
use crate::input;
use crate::render;
use crate::revisions::resolve_all;

/// Set how much messages matter: skip, normal, important or pinned.
///
/// A skipped message stays in the history and comes back with `--priority normal`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract annotate 'HEAD#2' 'HEAD#3' --priority skip --reason \"small talk\"
  tract annotate 0a4f7712 --priority pinned")]
pub(crate) struct Annotate {
    /// The messages, by any of their versions.
    #[arg(value_name = "REV", required = true)]
    targets: Vec<String>,
    /// The new priority.
    #[arg(long, short, value_enum)]
    priority: PriorityWord,
    /// Record this reason.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With `important`: what summaries must keep, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = input::json_value)]
    retention: Option<JsonText>,
    #[command(flatten)]
    commit_args: CommitArgs,
}

pub(crate) async fn run(context: &mut Context<'_>, annotate: Annotate) -> Outcome<()> {
    let tract = context.open().await?;
    let request = Request::Annotate {
        targets: resolve_all(&tract, &annotate.targets).await?,
        priority: annotate.priority.into(),
        reason: annotate.reason,
        retention: annotate.retention,
        details: annotate.commit_args.details()?,
    };
    let made = tract.record(request).await?;
    render::committed(context.out, &tract, &made).await
}
