//! `tract prune`

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tract::CommitId;
use tract::engine::{PruneKept, PruneOptions, PruneReport};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::input;
use crate::render::count;
use crate::style::{BOLD, DIM, ID, REF, Styled};

/// Delete branches that were not written to for a long time.
///
/// A branch is old when its newest commit is. The branch that HEAD points to stays, and so does one
/// with a pending approval. Tags stay with all their commits. What an import remembers of a deleted
/// branch goes too, so that importing again makes the branch again. All of it is one operation:
/// undo brings the branches back, until `tract gc` has deleted their commits.
#[derive(Debug, Args)]
#[command(after_help = "\
Commits of imports without times count as made in 1970, so a dry run first is a good idea.
Examples:
  tract prune --older-than 90d --dry-run     lists what it would delete
  tract prune --older-than 90d --keep-tags
  tract gc                                   frees the space, 30 days later
  tract gc --keep 0s                         frees it now, and undo cannot go back")]
pub(crate) struct Prune {
    /// Delete branches whose newest commit is older: a number and s, m, h, d or w, or a day or time
    /// (UTC).
    #[arg(long, value_name = "AGE", value_parser = input::age)]
    older_than: Duration,
    /// Keep branches whose head a tag names.
    #[arg(long)]
    keep_tags: bool,
    /// List what would be deleted, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    dry_run: bool,
    deleted: Vec<Deleted<'a>>,
    documents: Vec<&'a str>,
    kept: KeptCounts,
}

#[derive(Serialize)]
struct Deleted<'a> {
    branch: &'a str,
    head: CommitId,
    created_at: i64,
}

#[derive(Serialize)]
struct KeptCounts {
    checked_out: u64,
    pending: u64,
    tagged: u64,
}

pub(crate) async fn run(context: &mut Context<'_>, prune: Prune) -> Outcome<()> {
    let tract = context.open().await?;
    let options = PruneOptions {
        older_than: prune.older_than,
        keep_tagged: prune.keep_tags,
        dry_run: prune.dry_run,
    };
    let report = tract.prune(&options).await?;
    if context.out.is_json() {
        let deleted = report.branches.iter().map(|branch| Deleted {
            branch: &branch.name,
            head: branch.head,
            created_at: branch.created_at_us,
        });
        return context.out.json(&Document {
            dry_run: prune.dry_run,
            deleted: deleted.collect(),
            documents: report.documents.iter().map(|name| name.as_str()).collect(),
            kept: KeptCounts {
                checked_out: kept(&report, PruneKept::CheckedOut),
                pending: kept(&report, PruneKept::Pending),
                tagged: kept(&report, PruneKept::Tagged),
            },
        });
    }
    print(context, &report, prune.dry_run)
}

fn kept(report: &PruneReport, reason: PruneKept) -> u64 {
    report.kept.get(&reason).copied().unwrap_or_default()
}

fn print(context: &mut Context<'_>, report: &PruneReport, dry_run: bool) -> Outcome<()> {
    for branch in &report.branches {
        let at = Some(branch.created_at_us).filter(|at| *at != 0).and_then(crate::when::minute);
        let at = at.unwrap_or_else(|| "no time".to_owned());
        context.out.line(format_args!(
            "{}  {at}  {}",
            Styled(ID, branch.head.short()),
            Styled(REF, escape::line(&branch.name))
        ))?;
    }
    let verb = if dry_run { "would delete" } else { "deleted" };
    let branches = count(report.branches.len(), "branch");
    let documents = match report.documents.len() {
        0 => String::new(),
        many => format!(" and {}", count(many, "import document")),
    };
    context.out.line(format_args!("{} {branches}{documents}", Styled(BOLD, verb)))?;
    let reasons = [
        (PruneKept::CheckedOut, "checked out"),
        (PruneKept::Pending, "with a pending approval"),
        (PruneKept::Tagged, "with a tag"),
    ];
    for (reason, what) in reasons {
        let kept = kept(report, reason);
        if kept > 0 {
            context.out.line(format_args!("kept {kept} old, {what}"))?;
        }
    }
    if !dry_run && let Some(first) = report.branches.first() {
        let name = escape::line(&first.name);
        context.out.say(Styled(DIM, format!("back: tract undo --branch {name}")));
        let gc = "`tract gc` frees the space in 30 days, `tract gc --keep 0s` now";
        context.out.say(Styled(DIM, gc));
    }
    Ok(())
}
