//! `tract merge`

mod conflicts;
mod kept;
mod resolve;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tract::Tract;
use tract::engine::{
    Error as EngineError, MergeOptions, MergeProgress, Merged, Refusal, Resolution,
};

use self::conflicts::{ConflictDocument, list};
use self::kept::MergeVerb;
use self::resolve::Resolutions;
use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::render::{self, short};
use crate::style::{REF, Styled};

/// Merge another branch into this one.
///
/// If both sides changed the same message, nothing is written and each conflict is listed with both
/// texts and message numbers. Merge again with --ours, --theirs or --both, or with a file that
/// resolves the conflicts one by one. With --keep the conflicts are stored instead, to be decided
/// later and by several people; the merge is written with the last decision. The merge commit
/// records the resolutions.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  tract merge terse
  tract merge terse --dry-run                list the conflicts, write nothing
  tract merge terse --theirs                 their side wins every conflict
  tract merge terse --dry-run --json > conflicts.json
  tract merge terse --resolve conflicts.json
  tract merge terse --keep                   store the conflicts, decide them later
  tract merge show m-7c1e
  tract merge resolve m-7c1e 3ed57d13 theirs

In FILE, add to each conflict \"resolution\": \"ours\", \"theirs\" or \"both\", or a new \"text\".
--both keeps our version in its place and adds theirs after our last message."
)]
pub(crate) struct Merge {
    #[command(subcommand)]
    verb: Option<MergeVerb>,
    /// The other branch, or any revision.
    #[arg(value_name = "REV", required = true)]
    source: Option<String>,
    /// Create a merge commit even if the branch could be fast-forwarded.
    #[arg(long)]
    no_fast_forward: bool,
    /// Resolve every conflict with our side.
    #[arg(long, group = "side")]
    ours: bool,
    /// Resolve every conflict with their side.
    #[arg(long, group = "side")]
    theirs: bool,
    /// Resolve every conflict by keeping both sides; refused where that is impossible.
    #[arg(long, group = "side")]
    both: bool,
    /// Resolve conflicts with this JSON file; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    resolve: Option<PathBuf>,
    /// Store conflicts that are not resolved as a pending decision.
    #[arg(long, conflicts_with = "dry_run")]
    keep: bool,
    /// Show what the merge would do, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Merge histories that have no commit in common.
    #[arg(long)]
    allow_unrelated: bool,
    #[command(flatten)]
    commit_args: CommitArgs,
}

impl Merge {
    /// The revision to merge; the parser requires it.
    fn source(&self) -> &str {
        self.source.as_deref().unwrap_or_default()
    }

    /// Whether the command writes to the store.
    pub(crate) fn writes(&self) -> bool {
        match &self.verb {
            Some(verb) => verb.writes(),
            None => !self.dry_run,
        }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, mut merge: Merge) -> Outcome<()> {
    if let Some(verb) = merge.verb.take() {
        return kept::run(context, verb).await;
    }
    let tract = context.open().await?;
    let mut options =
        MergeOptions { details: merge.commit_args.details()?, ..MergeOptions::default() };
    if merge.no_fast_forward {
        options.no_fast_forward = true;
    }
    if merge.allow_unrelated {
        options.allow_unrelated = true;
    }
    let side = side(merge.ours, merge.theirs, merge.both);
    let resolutions = Resolutions::read(merge.resolve.as_deref(), side)?;
    let shared = resolutions.clone();
    options = options.resolve(move |conflict| shared.answer(conflict));
    let source = tract.resolve_position(merge.source()).await?;
    let mut merged = tract.repo().preview_merge(tract.branch(), source, &options).await;
    if merged.is_ok() {
        resolutions.check_all_used()?;
        if !merge.dry_run {
            merged = tract.repo().merge(tract.branch(), source, &options).await;
        }
    }
    if merge.keep
        && let Err(EngineError::Refused(Refusal::Conflicts(_))) = &merged
    {
        resolutions.check_all_used()?;
        merged = match tract.repo().merge_or_keep(tract.branch(), source, &options).await? {
            MergeProgress::Kept(kept) => return keep(context, &tract, &kept).await,
            MergeProgress::Merged(merged) => Ok(merged),
        };
    }
    match merged {
        Ok(merged) => report(context.out, &tract, &merge, &merged).await,
        Err(error) => refused(context.out, &tract, &merge, error).await,
    }
}

/// Returns the side that the flags select.
fn side(ours: bool, theirs: bool, both: bool) -> Option<Resolution> {
    match (ours, theirs, both) {
        (true, ..) => Some(Resolution::Ours),
        (_, true, _) => Some(Resolution::Theirs),
        (_, _, true) => Some(Resolution::Both),
        _ => None,
    }
}

/// Prints the conflicts of a kept merge.
async fn keep(
    context: &mut Context<'_>,
    tract: &Tract,
    kept: &tract::engine::KeptMerge,
) -> Outcome<()> {
    if !context.out.is_json() {
        for described in &conflicts::describe(tract, kept).await? {
            list(context.out, described);
        }
    }
    kept::print(context, tract, kept).await
}

async fn report(out: &mut Output, tract: &Tract, merge: &Merge, merged: &Merged) -> Outcome<()> {
    if out.is_json() {
        let (merged, commit) = match &merged {
            Merged::NothingToMerge => ("nothing_to_merge", tract.head().await?),
            Merged::FastForward { head } => ("fast_forward", Some(*head)),
            Merged::Commit(_) if merge.dry_run => ("commit", None),
            Merged::Commit(commit) => ("commit", Some(commit.id())),
        };
        let mut json = json!({ "merged": merged, "commit": commit });
        if merge.dry_run {
            json["conflicts"] = json!([]);
        }
        return out.json(&json);
    }
    let branch = Styled(REF, escape::line(tract.branch_name()).into_owned());
    let source = escape::line(merge.source());
    match merged {
        Merged::Commit(_) if merge.dry_run => {
            out.line(format_args!("would merge {source} into {branch} with a commit"))
        }
        Merged::Commit(commit) => render::committed(out, tract, commit).await,
        Merged::FastForward { head } => {
            let would = if merge.dry_run { "would be " } else { "" };
            out.line(format_args!("{branch} {would}forwarded to {}", short(*head)))
        }
        _ => out.line(format_args!("nothing to merge: {branch} has all of {source}")),
    }
}

/// Prints the conflicts, if a merge was refused because of them.
async fn refused(
    out: &mut Output,
    tract: &Tract,
    merge: &Merge,
    error: EngineError,
) -> Outcome<()> {
    let EngineError::Refused(Refusal::Conflicts(conflicts)) = &error else {
        return Err(error.into());
    };
    let (ours, theirs) = (tract.head().await?, tract.resolve_position(merge.source()).await?);
    let described = tract.repo().describe_conflicts(ours, theirs, conflicts).await?;
    if out.is_json() {
        if !merge.dry_run {
            return Err(error.into());
        }
        let conflicts: Vec<_> = described.into_iter().map(ConflictDocument::from).collect();
        out.json(&json!({ "merged": "conflicts", "commit": null, "conflicts": conflicts }))?;
        return Err(Failure::reported_no());
    }
    for described in &described {
        list(out, described);
    }
    Err(error.into())
}
