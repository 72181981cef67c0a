//! `tract merge show`, `merge resolve`, `merge abort`: merges with unresolved conflicts.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tract::engine::{
    ConflictKind, DescribedConflict, KeptMerge, MergeConflict, MergeProgress, Merged, Refusal,
    Resolution,
};
use tract::{CommitId, Tract};

use super::conflicts::{self, ConflictDocument};
use super::resolve::Resolutions;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{count, short};
use crate::style::{DIM, REF, Styled};

#[derive(Debug, Subcommand)]
pub(crate) enum MergeVerb {
    /// Show the conflicts of a kept merge with both texts, and what was decided.
    Show {
        /// Its name, or the beginning of it; `tract pending` lists them.
        id: String,
    },
    /// Decide conflicts of a kept merge; with the last one, the merge is written.
    #[command(after_help = "\
Examples:
  tract merge resolve m-7c1e 3ed57d13 theirs
  tract merge resolve m-7c1e '#2' --text \"Do I need a coat?\"
  tract merge resolve m-7c1e tools both
  tract merge resolve m-7c1e --ours            all that is still open

The merge is planned on the branch as it is now. Decisions hold for conflicts that are still the
same, and new conflicts are listed.")]
    Resolve(Box<Resolve>),
    /// Give a kept merge up; the branch stays as it is.
    Abort {
        /// Its name, or the beginning of it.
        id: String,
        /// Why.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// Its name, or the beginning of it.
    id: String,
    /// The message of the conflict, by the beginning of its ID or its number on our side, such as
    /// `#2`; or `tools`.
    slot: Option<String>,
    /// The side that wins; `both` keeps both.
    #[arg(conflicts_with_all = ["text", "side", "resolve"])]
    how: Option<Side>,
    /// Resolve it with this text.
    #[arg(long, value_name = "TEXT", requires = "slot", conflicts_with_all = ["side", "resolve"])]
    text: Option<String>,
    /// Which conflict, where a message has several: `version`, `mark`, `presence`, `answer`,
    /// `summary`
    #[arg(long, value_name = "KIND", requires = "slot")]
    kind: Option<String>,
    /// Resolve conflicts as this JSON file says; `-` reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "slot")]
    resolve: Option<PathBuf>,
    /// Resolve what is still open with our side.
    #[arg(long, group = "side", conflicts_with = "slot")]
    ours: bool,
    /// Resolve what is still open with their side.
    #[arg(long, group = "side", conflicts_with = "slot")]
    theirs: bool,
    /// Resolve what is still open by keeping both sides.
    #[arg(long, group = "side", conflicts_with = "slot")]
    both: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Side {
    Ours,
    Theirs,
    Both,
}

impl From<Side> for Resolution {
    fn from(side: Side) -> Self {
        match side {
            Side::Ours => Self::Ours,
            Side::Theirs => Self::Theirs,
            Side::Both => Self::Both,
        }
    }
}

impl MergeVerb {
    /// Whether the command writes to the store.
    pub(super) fn writes(&self) -> bool {
        !matches!(self, Self::Show { .. })
    }
}

#[derive(Serialize)]
struct KeptDocument<'a> {
    merged: &'static str,
    commit: Option<CommitId>,
    id: &'a str,
    branch: &'a str,
    head: Option<CommitId>,
    source: CommitId,
    conflicts: Vec<ConflictDocument>,
    outdated: Vec<String>,
}

pub(super) async fn run(context: &mut Context<'_>, verb: MergeVerb) -> Outcome<()> {
    let tract = context.open().await?;
    match verb {
        MergeVerb::Show { id } => {
            let kept = tract.repo().kept_merge(&id).await?;
            super::keep(context, &tract, &kept).await
        }
        MergeVerb::Resolve(resolve) => decide(context, &tract, *resolve).await,
        MergeVerb::Abort { id, reason } => {
            let decided = tract.repo().abort_merge(&id, reason).await?;
            crate::verb::pending::print_decision(context.out, &decided)
        }
    }
}

/// Resolves conflicts as the arguments request.
async fn decide(context: &mut Context<'_>, tract: &Tract, resolve: Resolve) -> Outcome<()> {
    let kept = tract.repo().kept_merge(&resolve.id).await?;
    let id = kept.pending.id.clone();
    let side = super::side(resolve.ours, resolve.theirs, resolve.both);
    let says_something = side.is_some() || resolve.resolve.is_some() || resolve.slot.is_some();
    let progress = if let Some(slot) = &resolve.slot {
        let how = match (resolve.how, &resolve.text) {
            (Some(how), _) => Resolution::from(how),
            (None, Some(text)) => Resolution::Text(text.clone()),
            (None, None) => {
                return Err(Failure::usage("expected ours, theirs, both or --text"));
            }
        };
        let described = conflicts::describe(tract, &kept).await?;
        let one = conflict_of(&kept, &described, slot, resolve.kind.as_deref())?;
        let answer = move |conflict: &MergeConflict| (*conflict == one).then(|| how.clone());
        tract.repo().resolve_merge(&id, answer).await?
    } else {
        let resolutions = Resolutions::read(resolve.resolve.as_deref(), None)?;
        let decided: HashSet<MergeConflict> = kept
            .conflicts
            .iter()
            .filter(|one| one.resolution.is_some())
            .map(|one| one.conflict.clone())
            .collect();
        let shared = resolutions.clone();
        let answer = move |conflict: &MergeConflict| {
            // A flag resolves only open conflicts; a file also replaces earlier resolutions.
            let open = side.clone().filter(|_| !decided.contains(conflict));
            shared.answer(conflict).or(open)
        };
        tract.repo().preview_resolve(&id, answer.clone()).await?;
        resolutions.check_all_used()?;
        tract.repo().resolve_merge(&id, answer).await?
    };
    match progress {
        MergeProgress::Kept(kept) if !says_something => {
            let open = kept.open().map(|one| one.conflict.clone()).collect();
            let error = tract::engine::Error::from(Refusal::Conflicts(open));
            Err(Failure::from(tract::Error::from(error))
                .note(format!("tract merge show {id} shows both texts")))
        }
        MergeProgress::Kept(kept) => print(context, tract, &kept).await,
        MergeProgress::Merged(merged) => finished(context, &kept, &merged),
    }
}

/// Finds the conflict that the arguments select.
fn conflict_of(
    kept: &KeptMerge,
    described: &[DescribedConflict],
    slot: &str,
    kind: Option<&str>,
) -> Outcome<MergeConflict> {
    if let Some(word) = kind
        && ConflictKind::parse(word).is_none()
    {
        return Err(Failure::usage(format!("unknown kind of conflict {word:?}"))
            .note("use version, mark, presence, answer or summary"));
    }
    let number = slot.strip_prefix('#').and_then(|number| number.parse::<usize>().ok());
    let fits = |one: &&DescribedConflict| {
        let conflict = &one.conflict;
        let here = match conflict.slot {
            _ if number.is_some() => one.ours.number == number,
            Some(id) => !slot.is_empty() && id.to_hex().starts_with(&slot.to_ascii_lowercase()),
            None => slot == "tools",
        };
        here && kind.is_none_or(|kind| kind == conflict.kind.as_str())
    };
    let id = &kept.pending.id;
    let found: Vec<&DescribedConflict> = described.iter().filter(fits).collect();
    match found.as_slice() {
        [one] => Ok(one.conflict.clone()),
        [] => Err(Failure::usage(format!("{id} has no conflict of {slot:?}"))
            .note(format!("`tract merge show {id}` lists its conflicts"))),
        [first, rest @ ..] if rest.iter().all(|one| one.conflict.slot == first.conflict.slot) => {
            let kinds: Vec<&str> = found.iter().map(|one| one.conflict.kind.as_str()).collect();
            Err(Failure::usage(format!("{slot:?} has {} conflicts", found.len()))
                .note(format!("choose one with --kind: {}", kinds.join(", "))))
        }
        _ => Err(Failure::usage(format!("{slot:?} fits {} conflicts", found.len()))
            .note("more digits tell the messages apart")),
    }
}

/// Prints the new head of the branch after the merge.
fn finished(context: &mut Context<'_>, kept: &KeptMerge, merged: &Merged) -> Outcome<()> {
    let pending = &kept.pending;
    let branch = pending.branch.branch_name().unwrap_or(pending.branch.as_str());
    let (word, commit) = match merged {
        Merged::Commit(commit) => ("commit", Some(commit.id())),
        Merged::FastForward { head } => ("fast_forward", Some(*head)),
        _ => ("nothing_to_merge", kept.head),
    };
    if context.out.is_json() {
        return context.out.json(&KeptDocument {
            merged: word,
            commit,
            id: &pending.id,
            branch,
            head: kept.head,
            source: kept.source,
            conflicts: Vec::new(),
            outdated: Vec::new(),
        });
    }
    let branch = Styled(REF, escape::line(branch));
    let source = short(kept.source);
    match (merged, commit) {
        (Merged::Commit(_), Some(commit)) => {
            context.out.line(format_args!("{} {branch}  merge  of {source}", short(commit)))
        }
        (Merged::FastForward { .. }, Some(head)) => {
            context.out.line(format_args!("{branch} forwarded to {}", short(head)))
        }
        _ => context.out.line(format_args!("nothing to merge: {branch} has all of {source}")),
    }
}

/// Prints the open conflicts of a kept merge.
pub(super) async fn print(
    context: &mut Context<'_>,
    tract: &Tract,
    kept: &KeptMerge,
) -> Outcome<()> {
    let pending = &kept.pending;
    let (id, branch) = (&pending.id, pending.branch.branch_name());
    let branch = branch.unwrap_or(pending.branch.as_str());
    if context.out.is_json() {
        let conflicts = conflicts::documents(tract, kept).await?;
        return context.out.json(&KeptDocument {
            merged: "kept",
            commit: None,
            id,
            branch,
            head: kept.head,
            source: kept.source,
            conflicts,
            outdated: kept.outdated.iter().map(ToString::to_string).collect(),
        });
    }
    let open = kept.open().count();
    let all = count(kept.conflicts.len(), "conflict");
    context.out.line(format_args!(
        "{} merge of {} into {}: {} of {all} decided",
        escape::line(id),
        short(kept.source),
        Styled(REF, escape::line(branch)),
        kept.conflicts.len() - open,
    ))?;
    for one in &kept.conflicts {
        let conflict = &one.conflict;
        let what = match conflict.slot {
            Some(slot) => format!("{} {}", slot.short(), conflict.kind.as_str()),
            None => conflict.kind.as_str().to_owned(),
        };
        let decision = match &one.resolution {
            Some(how) => how.kind().as_str().to_owned(),
            None => {
                let legal: Vec<&str> = one.legal.iter().map(|legal| legal.as_str()).collect();
                format!("open: {}", legal.join(", "))
            }
        };
        let new = if kept.new.contains(conflict) { ", new" } else { "" };
        context.out.line(format_args!("  {what}  {decision}{new}"))?;
    }
    for outdated in &kept.outdated {
        context.out.line(format_args!("  {outdated}  the decision no longer fits"))?;
    }
    let next = match kept.open().next() {
        Some(one) => {
            let slot = one.conflict.slot.map_or_else(|| "tools".to_owned(), |slot| slot.short());
            format!("next: tract merge resolve {id} {slot} ours, or theirs; tract merge abort {id}")
        }
        None => format!("next: tract merge resolve {id}"),
    };
    context.out.say(Styled(DIM, next));
    Ok(())
}
