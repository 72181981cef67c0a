//! `tract blame`

use clap::Args;
use serde::Serialize;
use tract::engine::{BlameCommit, BlameEntry};
use tract::{CommitId, Kind};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::out::Output;
use crate::style::{self, BOLD, DIM, ID, Styled};

/// Show which commits shaped each message of a context.
///
/// Lists, for each message, the commits that added, edited, prioritized or summarized it, oldest
/// first, and the author of each: a person, a model, a tool, a hook or an import.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract blame                                the context of this branch
  tract blame 'main~5' --json                one message per line
  tract log --slot 'main#3'                  the commits of one message, as a log")]
pub(crate) struct Blame {
    /// The revision.
    #[arg(value_name = "REV", default_value = "HEAD")]
    revision: String,
}

#[derive(Serialize)]
struct Document<'a> {
    number: usize,
    slot: CommitId,
    version: CommitId,
    kind: Option<&'a str>,
    commits: Vec<CommitDocument<'a>>,
}

#[derive(Serialize)]
struct CommitDocument<'a> {
    commit: CommitId,
    action: &'static str,
    by: &'static str,
    id: Option<&'a str>,
    triggered_by: Option<&'a str>,
    at: Option<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, blame: Blame) -> Outcome<()> {
    let tract = context.open().await?;
    let head = tract.resolve_position(blame.revision.as_str()).await?;
    let entries = tract.blame(head).await?;
    context.out.page();
    if context.out.is_json() {
        return entries.iter().try_for_each(|entry| context.out.json(&document(entry)));
    }
    let mut lines = Vec::with_capacity(entries.len());
    for entries in entries.chunks(512) {
        let mut versions = Vec::with_capacity(entries.len());
        for entry in entries {
            versions.push(tract.show(entry.version).await?);
        }
        lines.extend(tract::engine::describe(tract.repo(), &versions).await?);
    }
    for (entry, line) in entries.iter().zip(lines) {
        let kind = entry.kind.as_ref().map_or("", Kind::as_str);
        let number = format!("#{}", entry.number);
        let room = context.out.columns.saturating_sub(number.len() + kind.len() + 4);
        context.out.line(format_args!(
            "{}  {}  {}",
            Styled(BOLD, number),
            Styled(style::kind(kind), escape::line(kind)),
            escape::cut(&line.text, room),
        ))?;
        entry.commits.iter().try_for_each(|commit| print(context.out, commit))?;
    }
    if entries.is_empty() {
        context.out.say("no messages in this context");
    }
    Ok(())
}

fn print(out: &mut Output, BlameCommit { commit, action, .. }: &BlameCommit) -> Outcome<()> {
    let origin = &commit.origin;
    let mut who = origin.by.as_str().to_owned();
    for (word, text) in [("", &origin.id), ("via ", &origin.triggered_by)] {
        if let Some(text) = text {
            who.push_str(&format!(" {word}{}", escape::cut(text, 32)));
        }
    }
    let at = commit.created_at.and_then(crate::when::minute).unwrap_or_default();
    out.line(format_args!(
        "    {} {}  {:<10}  {who}",
        Styled(ID, commit.id().short()),
        Styled(DIM, format!("{at:16}")),
        action.as_str(),
    ))
}

fn document(entry: &BlameEntry) -> Document<'_> {
    Document {
        number: entry.number,
        slot: entry.slot,
        version: entry.version,
        kind: entry.kind.as_ref().map(Kind::as_str),
        commits: entry.commits.iter().map(commit_document).collect(),
    }
}

fn commit_document(BlameCommit { commit, action, .. }: &BlameCommit) -> CommitDocument<'_> {
    CommitDocument {
        commit: commit.id(),
        action: action.as_str(),
        by: commit.origin.by.as_str(),
        id: commit.origin.id.as_deref(),
        triggered_by: commit.origin.triggered_by.as_deref(),
        at: commit.created_at.and_then(tract::time::format_rfc3339),
    }
}
