//! `tract repack`

use clap::Args;
use serde::Serialize;
use tract::engine::{OnRepack, RepackProgress, RepackReport};

use crate::context::Context;
use crate::failure::Outcome;
use crate::render::{self, bytes, counted};
use crate::style::{BOLD, Styled};

/// Compress what is stored, to save space.
///
/// Trains a dictionary on the contents of the repository and compresses each of them with it. Ids,
/// branches and the log stay as they are. Large contents are compressed when they are written;
/// `repack` also makes short ones smaller. Other commands can run meanwhile, except at the end,
/// when the file is rewritten.
#[derive(Debug, Args)]
#[command(after_help = "\
Only one repository is repacked; --repo selects it. Messages that are added later are stored as they
are until the next repack.
Examples:
  tract repack
  tract repack --json")]
pub(crate) struct Repack {}

#[derive(Serialize)]
struct Report {
    blobs: u64,
    rewritten: u64,
    unreadable: u64,
    blob_bytes_before: u64,
    blob_bytes_after: u64,
    disk_bytes_before: u64,
    disk_bytes_after: u64,
    note: Option<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, _repack: Repack) -> Outcome<()> {
    let tract = context.open().await?;
    let bar = render::progress("repacking", "blobs");
    let watched = bar.clone();
    let progress = OnRepack::new(move |progress| match progress {
        RepackProgress::Writing { done, of } => {
            watched.set_length(of);
            watched.set_position(done);
        }
        RepackProgress::Training => watched.set_message("training a dictionary"),
        RepackProgress::Shrinking => watched.set_message("rewriting the file"),
    });
    let report = tract.repack(Some(&progress)).await;
    bar.finish_and_clear();
    let report = report?;
    if context.out.is_json() {
        let RepackReport { blobs, written, unreadable, before, after, .. } = report;
        return context.out.json(&Report {
            blobs,
            rewritten: written,
            unreadable,
            blob_bytes_before: before,
            blob_bytes_after: after,
            disk_bytes_before: report.disk_before,
            disk_bytes_after: report.disk_after,
            note: report.note,
        });
    }
    let (blobs, written) = (counted(report.blobs, "blob"), report.written);
    context.out.line(format_args!("{} {written} of {blobs}", Styled(BOLD, "rewrote")))?;
    let (before, after) = (bytes(report.before), bytes(report.after));
    context.out.line(format_args!("contents: {before} before, {after} after"))?;
    let (before, after) = (bytes(report.disk_before), bytes(report.disk_after));
    context.out.line(format_args!("on disk: {before} before, {after} after"))?;
    if report.unreadable > 0 {
        let unreadable = counted(report.unreadable, "blob");
        context.out.say(format!("  {unreadable} could not be read: `tract verify` names them"));
    }
    if let Some(note) = &report.note {
        context.out.say(format!("  note: {note}"));
    }
    Ok(())
}
