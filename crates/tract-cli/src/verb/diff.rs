//! `tract diff`

use clap::Args;
use serde::Serialize;
use tract::engine::{self, MessageChange, ToolChange};
use tract::{CommitId, JsonText, Message};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::out::Out;
use crate::render::count;
use crate::style::{BAD, BOLD, DIM, GOOD, Styled, WARN};

/// Compare what two revisions compile to: messages, tools, tokens.
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
    messages: Vec<MessageLine<'a>>,
    unchanged: usize,
    tools: Vec<ToolLine<'a>>,
    tools_unchanged: usize,
    tools_reordered: bool,
    tokens: (u64, u64),
    config: Vec<ConfigLine<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
enum MessageLine<'a> {
    Added { place: usize, commit: CommitId, role: &'a str, text: String },
    Removed { place: usize, commit: CommitId, role: &'a str, text: String },
    Changed { place: usize, before: CommitId, after: CommitId, role: &'a str, diff: &'a str },
}

#[derive(Serialize)]
pub(super) struct ToolLine<'a> {
    change: &'static str,
    name: &'a str,
    before: Option<String>,
    after: Option<String>,
    differences: &'a [String],
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
    match context.out.is_json() {
        true => context.out.json(&document(&diff)),
        false => {
            context.out.page();
            print(context.out, &diff)
        }
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

fn message_line(change: &MessageChange) -> Option<MessageLine<'_>> {
    Some(match change {
        MessageChange::Added { place, message } => MessageLine::Added {
            place: *place,
            commit: message.commit,
            role: message.role.as_str(),
            text: engine::plain(message),
        },
        MessageChange::Removed { place, message } => MessageLine::Removed {
            place: *place,
            commit: message.commit,
            role: message.role.as_str(),
            text: engine::plain(message),
        },
        MessageChange::Changed { place, before, after, text } => MessageLine::Changed {
            place: *place,
            before: before.commit,
            after: after.commit,
            role: after.role.as_str(),
            diff: text,
        },
        _ => return None,
    })
}

pub(super) fn tool_lines(tools: &engine::ToolDiff) -> Vec<ToolLine<'_>> {
    tools
        .changes
        .iter()
        .map(|change| {
            let (word, before, after, differences) = parts(change);
            let hex = |tool: &tract::core::ActiveTool| tool.id.to_hex();
            ToolLine {
                change: word,
                name: change.name(),
                before: before.map(hex),
                after: after.map(hex),
                differences,
            }
        })
        .collect()
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
        _ => ("other", None, None, &[]),
    }
}

fn print(out: &mut Out, diff: &engine::Diff) -> Outcome<()> {
    for change in &diff.messages {
        match change {
            MessageChange::Added { place, message } => {
                head(out, *place, message, "added")?;
                whole(out, message, '+')?;
            }
            MessageChange::Removed { place, message } => {
                head(out, *place, message, "removed")?;
                whole(out, message, '-')?;
            }
            MessageChange::Changed { place, before, after, text } => {
                let from = format!("was {}", before.commit.short());
                head(out, *place, after, &from)?;
                unified(out, text)?;
            }
            _ => {}
        }
    }
    tool_text(&diff.tools).into_iter().try_for_each(|line| out.line(line))?;
    for change in &diff.config {
        let side = |json: &Option<JsonText>| {
            json.as_ref().map_or_else(|| "absent".to_owned(), |json| escape::cut(json.as_str(), 60))
        };
        let (before, after) = (side(&change.before), side(&change.after));
        let key = escape::line(&change.key);
        out.line(format_args!("{} {key}  {before} → {after}", Styled(WARN, '~')))?;
    }
    if diff.is_empty() && diff.tools.is_empty() {
        out.line("no difference")?;
    }
    let (before, after) = diff.token_counts;
    let summary = format!(
        "{} unchanged, {} → {} tokens ({:+})",
        count(diff.unchanged_count, "message"),
        before,
        after,
        diff.token_delta()
    );
    out.line(Styled(DIM, summary))
}

fn head(out: &mut Out, place: usize, message: &Message, what: &str) -> Outcome<()> {
    let role = escape::line(message.role.as_str());
    let line = format!("#{place} {role} {} ({what})", message.commit.short());
    out.line(Styled(BOLD, line))
}

fn whole(out: &mut Out, message: &Message, sign: char) -> Outcome<()> {
    for line in engine::plain(message).lines() {
        out.line(signed(sign, line))?;
    }
    Ok(())
}

/// Prints a unified diff.
pub(super) fn unified(out: &mut Out, text: &str) -> Outcome<()> {
    for line in text.lines() {
        let mut rest = line.chars();
        match rest.next() {
            Some(sign @ ('+' | '-')) => out.line(signed(sign, rest.as_str()))?,
            Some('@') => out.line(Styled(DIM, escape::line(line)))?,
            _ => out.line(format_args!("  {}", escape::block(rest.as_str())))?,
        }
    }
    Ok(())
}

/// Returns one line that comes or goes.
pub(super) fn signed(sign: char, line: &str) -> String {
    let style = if sign == '+' { GOOD } else { BAD };
    Styled(style, format!("{sign} {}", escape::block(line))).to_string()
}

/// Returns what differs between two lists of tools, as lines for people.
pub(super) fn tool_text(tools: &engine::ToolDiff) -> Vec<String> {
    let names = tools.changes.iter().map(|change| escape::width(&escape::line(change.name())));
    let width = names.max().unwrap_or(0);
    let mut lines = Vec::new();
    for change in &tools.changes {
        let (word, before, after, differences) = parts(change);
        let (sign, style) = match word {
            "added" => ('+', GOOD),
            "removed" => ('-', BAD),
            _ => ('~', WARN),
        };
        let name = escape::line(change.name());
        let pad = " ".repeat(width - escape::width(&name));
        let ids: Vec<String> =
            [before, after].into_iter().flatten().map(|t| t.id.short()).collect();
        let ids = match word {
            "respelled" => "the same schema, written in other bytes".to_owned(),
            _ => ids.join(" → "),
        };
        lines.push(format!("{} {name}{pad}  {}", Styled(style, sign), Styled(DIM, ids)));
        lines.extend(differences.iter().map(|line| format!("    {}", escape::line(line))));
    }
    if tools.reordered {
        lines.push(format!("{} the order of the tools", Styled(WARN, '~')));
    }
    lines
}
