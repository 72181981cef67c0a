//! `open`: messages of a conversation around one of them.

use schemars::JsonSchema;
use serde::Serialize;
use tract_core::{CommitId, ToolContext, ToolError, ToolResult};
use tract_tools::tool;

use crate::shared::{Shared, compiled};
use crate::shown::{self, ShownMessage};

/// A part of a conversation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenedConversation {
    /// The commit that it was read at.
    head: String,
    /// How many messages the context has.
    total: usize,
    messages: Vec<ShownMessage>,
    /// The names of the tools in force.
    tools: Vec<String>,
    /// The value of `number` for the earlier messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<usize>,
    /// The value of `number` for the later messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<usize>,
}

/// Reads messages of a conversation as its model sees them, around one message.
#[tool(read_only)]
pub(crate) async fn open(
    /// A branch, a tag, a commit id, or BRANCH#N for its N-th message.
    revision: String,
    /// The message to read around, from 1; the last one unless it is given. With a revision that
    /// names a message, that message.
    number: Option<usize>,
    /// How many messages before it.
    #[tool(default = 5)]
    #[schemars(range(max = 100))]
    before: usize,
    /// How many messages after it.
    #[tool(default = 5)]
    #[schemars(range(max = 100))]
    after: usize,
    /// Characters of each message, up to 20,000. `expand` reads the rest.
    #[tool(default = 2000)]
    #[schemars(range(min = 1, max = 20_000))]
    max_chars: usize,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<OpenedConversation>, ToolError> {
    let repo = Shared::of(context)?.repo(repo.as_deref()).await?;
    // `#N` names the commit of a message, where the conversation would end. The reader needs the
    // messages around it.
    let (line, place) = match revision.rsplit_once('#') {
        Some((line, place)) if place.parse::<usize>().is_ok() => (line, place.parse().ok()),
        _ => (revision.as_str(), None),
    };
    let (head, context) = compiled(&repo, line).await?;
    let total = context.message_count();
    let number = number.or(place).unwrap_or(total);
    if total > 0 && !(1..=total).contains(&number) {
        return Err(ToolError::validation(format!("there is no message {number} of {total}"))
            .at("number")
            .note(format!("numbers are from 1 to {total}")));
    }
    let from = number.saturating_sub(before).max(1);
    let to = number.saturating_add(after).min(total);
    let messages = match total {
        0 => Vec::new(),
        _ => shown::messages(&repo, &context, from..=to, number, max_chars).await?,
    };
    let first = messages.first().map_or(0, |message| message.number);
    let last = messages.last().map_or(0, |message| message.number);
    let opened = OpenedConversation {
        head: head.to_string(),
        total,
        tools: context.tools().iter().map(|tool| tool.name.clone()).collect(),
        before: (first > 1).then(|| first - 1),
        after: (last < total).then_some(last + 1),
        messages,
    };
    let text = text(line, head, &opened);
    Ok(ToolResult { message: text, exclude_value_from_context: true, ..ToolResult::ok(opened) })
}

fn text(line: &str, head: CommitId, opened: &OpenedConversation) -> String {
    let first = opened.messages.first().map_or(0, |message| message.number);
    let last = opened.messages.last().map_or(0, |message| message.number);
    let mut text =
        format!("{line} at {}: messages {first} to {last} of {}\n", head.short(), opened.total);
    for message in &opened.messages {
        text.push('\n');
        text.push_str(&message.lines());
    }
    if let Some(before) = opened.before {
        text.push_str(&format!("\nbefore: number {before}"));
    }
    if let Some(after) = opened.after {
        text.push_str(&format!("\nafter: number {after}"));
    }
    text
}
