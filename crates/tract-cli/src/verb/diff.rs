//! `tract diff`

use anstyle::Style;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use tract::engine::{self, DiffLine, DiffLineKind, MessageChange, ToolChange};
use tract::{JsonText, Message};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::style::{BAD, BOLD, DIM, GOOD, Styled, WARN};

/// Compare the messages and tools of two revisions, and their tokens.
///
/// Messages are numbered as in B: `#20` is `B#20`. A message that B does not have is listed after
/// the message before it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract diff                                 what the last commit changed
  tract diff main terse                      two branches
  tract diff main~10 main --json")]
pub(crate) struct Diff {
    /// The first revision.
    #[arg(value_name = "A", default_value = "HEAD~1")]
    before: String,
    /// The second revision.
    #[arg(value_name = "B", default_value = "HEAD")]
    after: String,
}

#[derive(Serialize)]
struct Document<'a> {
    messages: Vec<Value>,
    unchanged: usize,
    tools: Vec<Value>,
    tools_unchanged: usize,
    tools_reordered: bool,
    tokens: (u64, u64),
    config: Vec<ConfigLine<'a>>,
}

#[derive(Serialize)]
struct ConfigLine<'a> {
    key: &'a str,
    before: Option<&'a JsonText>,
    after: Option<&'a JsonText>,
}

pub(crate) async fn run(context: &mut Context<'_>, diff: Diff) -> Outcome<()> {
    let tract = context.open().await?;
    let diff = tract.diff(diff.before.as_str(), diff.after.as_str()).await?;
    if context.out.is_json() {
        context.out.json(&document(&diff))
    } else {
        context.out.page();
        diff.lines().iter().try_for_each(|line| context.out.line(styled(line)))
    }
}

fn document(diff: &engine::Diff) -> Document<'_> {
    Document {
        messages: diff.messages.iter().filter_map(message_line).collect(),
        unchanged: diff.unchanged_count,
        tools: tool_lines(&diff.tools),
        tools_unchanged: diff.tools.unchanged_count,
        tools_reordered: diff.tools.reordered,
        tokens: diff.token_counts,
        config: diff
            .config
            .iter()
            .map(|change| ConfigLine {
                key: &change.key,
                before: change.before.as_ref(),
                after: change.after.as_ref(),
            })
            .collect(),
    }
}

fn message_line(change: &MessageChange) -> Option<Value> {
    let one_sided = |change: &str, place: usize, message: &Message| {
        json!({
            "change": change,
            "place": place,
            "commit": message.commit,
            "role": message.role.as_str(),
            "text": engine::plain(message),
        })
    };
    Some(match change {
        MessageChange::Added { place, message } => one_sided("added", *place, message),
        MessageChange::Removed { place, message, .. } => one_sided("removed", *place, message),
        MessageChange::Changed { place, before, after, text } => json!({
            "change": "changed",
            "place": place,
            "before": before.commit,
            "after": after.commit,
            "role": after.role.as_str(),
            "diff": text,
        }),
    })
}

pub(super) fn tool_lines(tools: &engine::ToolDiff) -> Vec<Value> {
    let line = |change: &ToolChange| {
        let (word, before, after, differences) = parts(change);
        json!({
            "change": word,
            "name": change.name(),
            "before": before.map(|tool| tool.id),
            "after": after.map(|tool| tool.id),
            "differences": differences,
        })
    };
    tools.changes.iter().map(line).collect()
}

type Tool = tract::core::ActiveTool;

fn parts(change: &ToolChange) -> (&'static str, Option<&Tool>, Option<&Tool>, &[String]) {
    match change {
        ToolChange::Added { tool } => ("added", None, Some(tool), &[]),
        ToolChange::Removed { tool } => ("removed", Some(tool), None, &[]),
        ToolChange::Changed { changes, before, after, .. } => {
            ("changed", Some(before), Some(after), changes)
        }
        ToolChange::Respelled { before, after } => ("respelled", Some(before), Some(after), &[]),
    }
}

/// Formats a line of a diff in its color, safe for a terminal.
pub(super) fn styled(line: &DiffLine) -> String {
    Styled(style(line), format!("{}{}", line.sign(), escape::block(&line.text))).to_string()
}

/// Returns the color of a line of a diff.
pub(super) fn style(line: &DiffLine) -> Style {
    match line.kind {
        DiffLineKind::Added => GOOD,
        DiffLineKind::Removed => BAD,
        DiffLineKind::Changed => WARN,
        DiffLineKind::Heading => BOLD,
        DiffLineKind::Summary => DIM,
        _ => Style::new(),
    }
}

/// Formats an added or removed line.
pub(super) fn signed(sign: char, line: &str) -> String {
    let style = if sign == '+' { GOOD } else { BAD };
    Styled(style, format!("{sign} {}", escape::block(line))).to_string()
}
