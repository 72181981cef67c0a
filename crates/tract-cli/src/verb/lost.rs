//! `tract lost`

use clap::Args;
use serde::Serialize;
use tract::CommitId;
use tract::engine::{LostEntry, LostKind};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::input;
use crate::out::Output;
use crate::render::{self, count};
use crate::style::{BOLD, DIM, Styled};

/// Show details that summaries left out.
///
/// Checks each summary of the context at REV, or the one that REV itself wrote. Lists details of
/// the summarized messages that appear nowhere in the context:
///   text     a sentence; fewer than half of its words of 4 letters or more appear
///   command  the arguments of a tool call; at least one word is missing
///   name     a path, identifier, version or address
/// Nothing is deleted: `tract expand` shows the originals, `tract revert` restores them.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "\
Examples:
  tract lost                                 the summaries of this branch
  tract lost 'main#2' -n 0                   one summary, all that it lost
  tract lost --json                          one summary a line")]
pub(crate) struct Lost {
    /// A summary, or the revision whose summaries are checked.
    #[arg(value_name = "REV", default_value = "HEAD")]
    revision: String,
    /// Print at most this many items of each kind, the most frequent first; 0 for all
    #[arg(long, short = 'n', value_name = "N", default_value = "10", value_parser = input::limit)]
    limit: usize,
}

#[derive(Serialize)]
struct Document<'a> {
    number: usize,
    summary: CommitId,
    hidden: usize,
    items: Vec<ItemDocument<'a>>,
}

#[derive(Serialize)]
struct ItemDocument<'a> {
    kind: &'static str,
    text: &'a str,
    commit: CommitId,
    count: usize,
}

pub(crate) async fn run(context: &mut Context<'_>, lost: Lost) -> Outcome<()> {
    let tract = context.open().await?;
    let head = tract.resolve_position(lost.revision.as_str()).await?;
    let entries = tract.lost(head).await?;
    context.out.page();
    if context.out.is_json() {
        return entries.iter().try_for_each(|entry| context.out.json(&document(entry)));
    }
    entries.iter().try_for_each(|entry| print(context.out, entry, lost.limit))?;
    if entries.is_empty() {
        context.out.say("no summaries in this context");
    }
    Ok(())
}

fn print(out: &mut Output, entry: &LostEntry, limit: usize) -> Outcome<()> {
    let hidden = count(entry.hidden, "message");
    out.line(format_args!(
        "{}  {}  summary of {hidden}",
        Styled(BOLD, format!("#{}", entry.number)),
        render::short(entry.summary),
    ))?;
    for kind in [LostKind::Text, LostKind::Command, LostKind::Name] {
        let items: Vec<_> = entry.items.iter().filter(|item| item.kind == kind).collect();
        for item in items.iter().take(limit) {
            let times = if item.count > 1 { format!(" ×{}", item.count) } else { String::new() };
            let room = out.columns.saturating_sub(26 + times.len());
            out.line(format_args!(
                "    {} {:<7}  {}{}",
                render::short(item.commit),
                kind.as_str(),
                escape::cut(&item.text, room),
                Styled(DIM, times),
            ))?;
        }
        if let Some(more) = items.len().checked_sub(limit).filter(|more| *more > 0) {
            let more = format!("{more} more of kind {}; -n 0 prints all", kind.as_str());
            out.line(Styled(DIM, format!("    {more}")))?;
        }
    }
    if entry.items.is_empty() {
        out.line(Styled(DIM, "    nothing lost"))?;
    }
    Ok(())
}

fn document(entry: &LostEntry) -> Document<'_> {
    let items = entry.items.iter().map(|item| ItemDocument {
        kind: item.kind.as_str(),
        text: &item.text,
        commit: item.commit,
        count: item.count,
    });
    Document {
        number: entry.number,
        summary: entry.summary,
        hidden: entry.hidden,
        items: items.collect(),
    }
}
