//! `tract show`

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use similar::{Change, ChangeTag, TextDiff};
use tract::hooks::DecisionRecord;
use tract::{AuthorKind, Commit, CommitId, Content, Op, Part, Tract};

use super::diff::signed;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::render::{self, count, short};
use crate::style::{BOLD, DIM, Styled};

/// Show the content and the changes of one commit, and how to revert it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract show                                 the head of this branch
  tract show 51b3c6e2                        what an edit changed
  tract show 'main#20'                       the 20th message of main
  tract show HEAD --json                     the record and the content")]
pub(crate) struct Show {
    /// The commit.
    #[arg(default_value = "HEAD", value_name = "REV")]
    revision: String,
}

#[derive(Serialize)]
struct Document {
    commit: CommitId,
    record: Box<RawValue>,
    content: Option<Box<RawValue>>,
}

pub(crate) async fn run(context: &mut Context<'_>, show: Show) -> Outcome<()> {
    let tract = context.open().await?;
    let id = tract.resolve(show.revision.as_str()).await?;
    let commit = tract.repo().require_commit(id).await?;
    if context.out.is_json() {
        let content = tract.repo().content(&commit).await?;
        let raw = |text: String| RawValue::from_string(text).map_err(Failure::json);
        let blob = match &content {
            Some(content) => Some(raw(content.to_blob().map_err(tract::Error::from)?)?),
            None => None,
        };
        let record = raw(commit.canonical())?;
        return context.out.json(&Document { commit: id, record, content: blob });
    }
    context.out.page();
    head(context.out, &tract, &commit).await?;
    changes(&tract, &commit).await?.into_iter().try_for_each(|line| context.out.line(line))
}

/// Returns the content or the changes of a commit, as lines for people.
pub(super) async fn changes(tract: &Tract, commit: &Commit) -> Outcome<Vec<String>> {
    let content = tract.repo().content(commit).await?;
    match (&commit.op, &content) {
        (Op::Edit { target }, Some(content)) => {
            let before = tract.repo().require_commit(*target).await?;
            let before = tract.repo().content(&before).await?;
            let before = before.as_ref().map(plain).unwrap_or_default();
            Ok(compare(&before, &plain(content)))
        }
        (_, Some(content)) => Ok(lines(&plain(content))),
        (Op::Tools, None) => tools(tract, commit).await,
        (_, None) => Ok(Vec::new()),
    }
}

fn lines(text: &str) -> Vec<String> {
    text.trim_end_matches('\n').split('\n').map(|line| escape::block(line).into_owned()).collect()
}

async fn head(out: &mut Output, tract: &Tract, commit: &Commit) -> Outcome<()> {
    let line = render::described(tract, commit).await?;
    let word = escape::line(&line.label).into_owned();
    out.line(format_args!("{} {}", short(commit.id()), Styled(BOLD, word)))?;
    let mut fact = |name: &str, value: String| {
        out.line(format_args!("{} {}", Styled(DIM, format!("{name:<10}")), value))
    };
    let targets: Vec<CommitId> = match &commit.op {
        Op::Edit { target } => vec![*target],
        Op::Annotate { targets, .. }
        | Op::Compress { targets }
        | Op::Revert { targets, .. }
        | Op::Merge { sources: targets } => targets.clone(),
        Op::Append { .. } | Op::Tools | Op::Note | Op::Unknown { .. } => Vec::new(),
    };
    if !targets.is_empty() {
        fact("of", ids(&targets))?;
    }
    if let Op::Annotate { priority, reason, .. } = &commit.op {
        fact("priority", priority.to_string())?;
        if let Some(reason) = reason {
            fact("reason", escape::line(reason).into_owned())?;
        }
    }
    if !commit.parents.is_empty() {
        fact("after", ids(&commit.parents))?;
    }
    if let Some(at) = commit.created_at.and_then(crate::when::second) {
        fact("at", at)?;
    }
    if commit.origin.by != AuthorKind::User {
        let by = commit.origin.by.as_str().to_owned();
        let id = commit.origin.id.as_deref().map(|id| format!(" {}", escape::line(id)));
        fact("by", by + &id.unwrap_or_default())?;
    }
    if let Some(form) = &commit.form {
        fact("form", escape::line(form).into_owned())?;
    }
    if commit.message.is_some() || line.message != line.text {
        fact("message", escape::line(&line.message).into_owned())?;
    }
    for (name, json) in [("metadata", &commit.metadata), ("config", &commit.generation_config)] {
        if let Some(json) = json {
            fact(name, escape::line(json.as_str()).into_owned())?;
        }
    }
    let own = tract.tools().own(commit.id()).await?;
    if !own.is_empty() {
        let names: Vec<&str> = own.iter().map(|tool| &*tool.name).collect();
        fact("tools", first_of(&names, |name| escape::line(name).into_owned()))?;
    }
    if let Some(record) = commit.origin.detail.as_ref().and_then(DecisionRecord::from_json) {
        let because = super::pending::because(&record);
        fact("because", escape::line(&because).into_owned())?;
        if record.original().is_some() {
            fact("as it came", format!("tract expand {}", commit.id().short()))?;
        }
    }
    if let Op::Edit { target } = &commit.op {
        fact("original", format!("tract show {}", target.short()))?;
    }
    if !matches!(commit.op, Op::Note | Op::Merge { .. }) {
        fact("revert", format!("tract revert {}", commit.id().short()))?;
    }
    out.line("")
}

fn ids(ids: &[CommitId]) -> String {
    first_of(ids, |id| short(*id).to_string())
}

/// Formats the first items of many, and the number of the others.
fn first_of<T>(all: &[T], show: impl Fn(&T) -> String) -> String {
    const SHOWN: usize = 8;
    let mut parts: Vec<String> = all.iter().take(SHOWN).map(show).collect();
    if all.len() > SHOWN {
        parts.push(format!("and {} more", all.len() - SHOWN));
    }
    parts.join(" ")
}

/// Returns a message as lines: its texts, then its calls.
fn plain(content: &Content) -> String {
    let mut out = String::new();
    if content.parts().is_empty() {
        out.push_str(&content.text());
        out.push('\n');
    }
    for part in content.parts() {
        let text = match part {
            Part::Text { text } => text.clone(),
            Part::ToolCall(call) => format!("{}({})  [{}]", call.name, call.arguments, call.id),
            Part::Image { media_type, .. } => {
                format!("[image {}]", media_type.as_deref().unwrap_or("of unknown type"))
            }
            Part::Reasoning { text, .. } => match part.unreadable_reasoning() {
                Some(why) => format!("[reasoning, {why}]"),
                None => format!("[reasoning] {text}"),
            },
            Part::Opaque { dialect, json } => format!("[{dialect}] {json}"),
        };
        out.push_str(&text);
        out.push('\n');
    }
    out
}

fn compare(before: &str, after: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(before, after);
    let line = |change: Change<&str>| {
        let line = change.value().trim_end_matches('\n');
        match change.tag() {
            ChangeTag::Delete => signed('-', line),
            ChangeTag::Insert => signed('+', line),
            ChangeTag::Equal => format!("  {}", escape::block(line)),
        }
    };
    diff.iter_all_changes().map(line).collect()
}

async fn tools(tract: &Tract, commit: &Commit) -> Outcome<Vec<String>> {
    let after = tract.tools().at(commit.id()).await?;
    let found = match commit.parent() {
        Some(parent) => tract.tools().diff(parent, commit.id()).await?,
        None => tract::engine::tool_diff(&[], &after, &tract::engine::no_schema_diff),
    };
    let mut lines: Vec<String> = found.lines().iter().map(super::diff::styled).collect();
    lines.push(Styled(DIM, format!("{} in force", count(after.len(), "tool"))).to_string());
    Ok(lines)
}
