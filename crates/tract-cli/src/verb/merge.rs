//! `tract merge`

mod resolve;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tract::engine::{
    ConflictSide, DescribedConflict, Error as EngineError, MergeOptions, Merged, Refusal,
    Resolution,
};
use tract::{CommitId, Tract};

use self::resolve::Resolutions;
use super::CommitArgs;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::render::{self, short};
use crate::style::{DIM, REF, Styled};

/// Merge another branch into this one.
///
/// If both sides changed the same message, nothing is written and each conflict is listed with both
/// texts and message numbers. Merge again with --ours, --theirs or --both, or with a file that
/// resolves the conflicts one by one. The merge commit records the resolutions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract merge terse
  tract merge terse --dry-run                list the conflicts, write nothing
  tract merge terse --theirs                 their side wins every conflict
  tract merge terse --dry-run --json > conflicts.json
  tract merge terse --resolve conflicts.json

In FILE, add to each conflict \"resolution\": \"ours\", \"theirs\" or \"both\", or a new \"text\".
--both keeps our version in its place and adds theirs after our last message.")]
pub(crate) struct Merge {
    /// The other branch, or any revision.
    #[arg(value_name = "REV")]
    source: String,
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
    /// Show what the merge would do, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Merge histories that have no commit in common.
    #[arg(long)]
    allow_unrelated: bool,
    #[command(flatten)]
    said: CommitArgs,
}

impl Merge {
    /// Whether the command writes to the store.
    pub(crate) fn writes(&self) -> bool {
        !self.dry_run
    }
}

#[derive(Serialize)]
struct Document {
    merged: &'static str,
    commit: Option<CommitId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conflicts: Option<Vec<ConflictDocument>>,
}

#[derive(Serialize)]
struct ConflictDocument {
    kind: &'static str,
    slot: Option<CommitId>,
    ours: Option<CommitId>,
    theirs: Option<CommitId>,
    our_number: Option<usize>,
    their_number: Option<usize>,
    our_text: Option<String>,
    their_text: Option<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, merge: Merge) -> Outcome<()> {
    let tract = context.open().await?;
    let mut options = MergeOptions::new().details(merge.said.details()?);
    if merge.no_fast_forward {
        options = options.no_fast_forward();
    }
    if merge.allow_unrelated {
        options = options.allow_unrelated();
    }
    let side = match (merge.ours, merge.theirs, merge.both) {
        (true, ..) => Some(Resolution::Ours),
        (_, true, _) => Some(Resolution::Theirs),
        (_, _, true) => Some(Resolution::Both),
        _ => None,
    };
    let resolutions = Resolutions::read(merge.resolve.as_deref(), side)?;
    let asked = resolutions.clone();
    options = options.resolve(move |conflict| asked.answer(conflict));
    let source = tract.resolve(merge.source.as_str()).await?;
    let mut merged = tract.repo().preview_merge(tract.branch(), source, &options).await;
    if merged.is_ok() {
        resolutions.check_all_used()?;
        if !merge.dry_run {
            merged = tract.repo().merge(tract.branch(), source, &options).await;
        }
    }
    match merged {
        Ok(merged) => report(context, &tract, &merge, &merged).await,
        Err(error) => refused(context, &tract, &merge, error.into()).await,
    }
}

async fn report(
    context: &mut Context<'_>,
    tract: &Tract,
    merge: &Merge,
    merged: &Merged,
) -> Outcome<()> {
    if context.out.is_json() {
        let (merged, commit) = match &merged {
            Merged::NothingToMerge => ("nothing_to_merge", tract.head().await?),
            Merged::FastForward { head } => ("fast_forward", Some(*head)),
            Merged::Commit(_) if merge.dry_run => ("commit", None),
            Merged::Commit(commit) => ("commit", Some(commit.id())),
            _ => ("other", tract.head().await?),
        };
        let conflicts = merge.dry_run.then(Vec::new);
        return context.out.json(&Document { merged, commit, conflicts });
    }
    let branch = Styled(REF, escape::line(tract.branch_name()).into_owned());
    let source = escape::line(&merge.source);
    match merged {
        Merged::Commit(_) if merge.dry_run => {
            context.out.line(format_args!("would merge {source} into {branch} with a commit"))
        }
        Merged::Commit(commit) => render::committed(context.out, tract, commit).await,
        Merged::FastForward { head } => {
            let would = if merge.dry_run { "would be " } else { "" };
            context.out.line(format_args!("{branch} {would}forwarded to {}", short(*head)))
        }
        _ => context.out.line(format_args!("nothing to merge: {branch} has all of {source}")),
    }
}

/// Lists the conflicts where that is why a merge was refused.
async fn refused(
    context: &mut Context<'_>,
    tract: &Tract,
    merge: &Merge,
    error: tract::Error,
) -> Outcome<()> {
    let conflicts = match &error {
        tract::Error::Engine(engine) => match engine.as_ref() {
            EngineError::Refused(Refusal::Conflicts(conflicts)) => conflicts.clone(),
            _ => return Err(error.into()),
        },
        _ => return Err(error.into()),
    };
    let (ours, theirs) = (tract.head().await?, tract.resolve(merge.source.as_str()).await?);
    let described = tract.repo().describe_conflicts(ours, theirs, &conflicts).await?;
    if context.out.is_json() {
        if !merge.dry_run {
            return Err(error.into());
        }
        let conflicts = described.into_iter().map(document).collect();
        let conflicts = Some(conflicts);
        context.out.json(&Document { merged: "conflicts", commit: None, conflicts })?;
        return Err(Failure::reported_no());
    }
    for described in &described {
        list(context.out, described);
    }
    Err(error.into())
}

fn document(described: DescribedConflict) -> ConflictDocument {
    let DescribedConflict { conflict, ours, theirs, .. } = described;
    ConflictDocument {
        kind: conflict.kind.as_str(),
        slot: conflict.slot,
        ours: conflict.ours,
        theirs: conflict.theirs,
        our_number: ours.number,
        their_number: theirs.number,
        our_text: ours.text,
        their_text: theirs.text,
    }
}

/// How many lines of a text are listed.
const LINES: usize = 12;

fn list(out: &mut Output, described: &DescribedConflict) {
    let conflict = &described.conflict;
    let of = conflict.slot.map(|slot| format!(" of {}", slot.short())).unwrap_or_default();
    out.say(format_args!("conflict: {}{of}", conflict.kind.as_str()));
    for (side, has) in [("ours", &described.ours), ("theirs", &described.theirs)] {
        let ConflictSide { number, text, .. } = has;
        let number = number.map(|number| format!(" #{number}")).unwrap_or_default();
        out.say(Styled(DIM, format!("  {side}{number}")));
        let Some(text) = text else {
            out.say(Styled(DIM, "    absent"));
            continue;
        };
        let text = escape::block(text);
        for line in text.lines().take(LINES) {
            out.say(format_args!("    {line}"));
        }
        if text.lines().nth(LINES).is_some() {
            out.say(Styled(DIM, "    …"));
        }
    }
}
