//! `tract gc`

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tract::engine::{GcOptions, GcProgress, GcReport, KeptBy, ObjectCount, OnGc};

use crate::context::Context;
use crate::failure::Outcome;
use crate::input;
use crate::render::{self, bytes};
use crate::style::{BOLD, Styled};

/// Delete unreachable objects and free their space.
///
/// Keeps everything that is reachable from a branch, a tag, a pending approval, a pin or another
/// document, or that was reachable within the last 30 days, so that `undo` still works. Deletes the
/// rest for good, for example undone messages and branches that were deleted long ago. Other
/// commands can run meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "\
The ref log is kept, but `undo` cannot return to deleted objects. Only one repository is collected;
--repo selects it.
Examples:
  tract gc --dry-run                         show what would be deleted
  tract gc
  tract gc --keep 7d                         undo works for the last week
  tract gc --keep 2026-11-27                 undo works for all since that day
  tract gc --keep 0s                         keep only reachable objects")]
pub(crate) struct Gc {
    /// Show what would be deleted, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep objects that were reachable within this time: a number and s, m, h, d or w, or since a
    /// day or time (UTC).
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = input::age)]
    keep: Duration,
}

#[derive(Serialize)]
struct Report {
    dry_run: bool,
    deleted: Deleted,
    kept: KeptCounts,
    disk_bytes_before: Option<u64>,
    disk_bytes_after: Option<u64>,
    note: Option<String>,
}

#[derive(Serialize)]
struct Deleted {
    objects: u64,
    bytes: u64,
    commits: Counted,
    blobs: Counted,
    toolsets: Counted,
    tools: u64,
}

#[derive(Serialize)]
struct KeptCounts {
    history: Counted,
    documents: Counted,
    ref_log: Counted,
}

#[derive(Serialize)]
struct Counted {
    objects: u64,
    bytes: u64,
}

impl From<ObjectCount> for Counted {
    fn from(ObjectCount { objects, bytes }: ObjectCount) -> Self {
        Self { objects, bytes }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, gc: Gc) -> Outcome<()> {
    let tract = context.open().await?;
    let bar = render::progress("collecting", "objects");
    let watched = bar.clone();
    let progress = OnGc::new(move |progress| match progress {
        GcProgress::Marking(found) => {
            watched.set_length(found);
            watched.set_position(0);
        }
        GcProgress::Listing(listed) => watched.set_position(listed),
        GcProgress::Sweeping { done, of } => {
            watched.set_length(of);
            watched.set_position(done);
        }
        _ => {}
    });
    let options = GcOptions {
        keep: gc.keep,
        dry_run: gc.dry_run,
        progress: Some(progress),
        ..GcOptions::default()
    };
    let report = tract.gc(&options).await;
    bar.finish_and_clear();
    let report = report?;
    if context.out.is_json() {
        return context.out.json(&document(&report, gc.dry_run));
    }
    print(context, &report, gc.dry_run)
}

fn kept(report: &GcReport, reason: KeptBy) -> ObjectCount {
    report.kept.get(&reason).copied().unwrap_or_default()
}

fn document(report: &GcReport, dry_run: bool) -> Report {
    let ObjectCount { objects, bytes } = report.deleted();
    let released = report.released.as_ref();
    Report {
        dry_run,
        deleted: Deleted {
            objects,
            bytes,
            commits: report.commits.into(),
            blobs: report.blobs.into(),
            toolsets: report.toolsets.into(),
            tools: report.tools,
        },
        kept: KeptCounts {
            history: kept(report, KeptBy::History).into(),
            documents: kept(report, KeptBy::Document).into(),
            ref_log: kept(report, KeptBy::RefLog).into(),
        },
        disk_bytes_before: released.map(|released| released.before),
        disk_bytes_after: released.map(|released| released.after),
        note: released.and_then(|released| released.note.clone()),
    }
}

fn print(context: &mut Context<'_>, report: &GcReport, dry_run: bool) -> Outcome<()> {
    let counted = |counted: ObjectCount, thing: &str| {
        format!("{}, {}", render::counted(counted.objects, thing), bytes(counted.bytes))
    };
    let verb = if dry_run { "would delete" } else { "deleted" };
    let deleted = counted(report.deleted(), "object");
    context.out.line(format_args!("{} {deleted}", Styled(BOLD, verb)))?;
    let kinds = [(report.commits, "commit"), (report.blobs, "blob"), (report.toolsets, "toolset")];
    for (of, thing) in kinds.into_iter().filter(|(of, _)| of.objects > 0) {
        context.out.line(format_args!("  {}", counted(of, thing)))?;
    }
    let reasons = [
        (KeptBy::History, "branches and tags"),
        (KeptBy::Document, "approvals, pins and other documents"),
        (KeptBy::RefLog, "undo"),
    ];
    for (reason, what) in reasons {
        let of = kept(report, reason);
        if of.objects > 0 {
            context.out.line(format_args!("kept {} for {what}", counted(of, "object")))?;
        }
    }
    if let Some(released) = &report.released {
        let (before, after) = (bytes(released.before), bytes(released.after));
        context.out.line(format_args!("on disk: {before} before, {after} after"))?;
        if let Some(note) = &released.note {
            context.out.say(format!("  note: {note}"));
        }
    }
    Ok(())
}
