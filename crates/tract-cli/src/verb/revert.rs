//! `tract revert`

use clap::Args;
use tract::engine::Request;

use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::failure::Outcome;
use crate::render;
use crate::revisions::resolve_all;

/// Revert what commits changed, with a new commit.
///
/// To move the branch back instead, as if the last command had not run, use `tract undo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract revert 51b3c6e2                      the original text shows again
  tract revert 51b3c6e2 --cascade            and what was built on it")]
pub(crate) struct Revert {
    /// The commits.
    #[arg(value_name = "REV", required = true)]
    targets: Vec<String>,
    /// Also revert the commits that build on them.
    #[arg(long)]
    cascade: bool,
    #[command(flatten)]
    commit_args: CommitArgs,
}

pub(crate) async fn run(context: &mut Context<'_>, revert: Revert) -> Outcome<()> {
    let tract = context.open().await?;
    let request = Request::Revert {
        targets: resolve_all(&tract, &revert.targets).await?,
        cascade: revert.cascade,
        details: revert.commit_args.details()?,
    };
    let made = tract.record(request).await?;
    render::committed(context.out, &tract, &made).await
}
