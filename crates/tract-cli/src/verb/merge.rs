//! `tract merge`

use clap::Args;
use serde::Serialize;
use tract::CommitId;
use tract::engine::{MergeOptions, Merged};

use super::Said;
use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render::{self, short};
use crate::style::{REF, Styled};

/// Merge another branch into this one.
///
/// If both sides changed the same message, nothing is written and the conflicts are listed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract merge terse
  tract diff HEAD terse && tract merge terse")]
pub(crate) struct Merge {
    /// The other branch, or any revision.
    #[arg(value_name = "REV")]
    source: String,
    /// Make a merge commit even if the branch could be fast-forwarded.
    #[arg(long)]
    no_fast_forward: bool,
    #[command(flatten)]
    said: Said,
}

#[derive(Serialize)]
struct Document {
    merged: &'static str,
    commit: Option<CommitId>,
}

pub(crate) async fn run(context: &mut Context<'_>, merge: Merge) -> Outcome<()> {
    let tract = context.open().await?;
    let mut options = MergeOptions::new().details(merge.said.details()?);
    if merge.no_fast_forward {
        options = options.no_fast_forward();
    }
    let merged = tract.merge_with(merge.source.as_str(), &options).await?;
    if context.out.is_json() {
        let (merged, commit) = match &merged {
            Merged::NothingToMerge => ("nothing_to_merge", tract.head().await?),
            Merged::FastForward { head } => ("fast_forward", Some(*head)),
            Merged::Commit(commit) => ("commit", Some(commit.id())),
            _ => ("other", tract.head().await?),
        };
        return context.out.json(&Document { merged, commit });
    }
    let branch = Styled(REF, escape::line(tract.branch_name()).into_owned());
    let source = escape::line(&merge.source);
    match merged {
        Merged::Commit(commit) => render::committed(context.out, &tract, &commit).await,
        Merged::FastForward { head } => {
            context.out.line(format_args!("{branch} forwarded to {}", short(head)))
        }
        _ => context.out.line(format_args!("nothing to merge: {branch} has all of {source}")),
    }
}
