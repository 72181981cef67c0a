//! `expand`: the whole text of a message, or its original where it was changed.

use schemars::JsonSchema;
use serde::Serialize;
use tract_core::{Content, Part, ToolContext, ToolError, ToolResult};
use tract_tools::tool;

use crate::shared::{Shared, failed, resolve};
use crate::shown::quoted;

/// A part of a text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExpandedText {
    /// The commit.
    commit: String,
    /// Whether this is what the message was before a handler, a summary or an edit changed it.
    original: bool,
    /// Characters of the text from `offset` on.
    text: String,
    /// Number of characters of the whole text.
    total_chars: usize,
    /// The value of `offset` for the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// Reads the whole text of one message: the original, where an edit, a summary or a handler replaced it.
#[tool(read_only)]
pub(crate) async fn expand(
    /// The commit of the message, or BRANCH#N.
    revision: String,
    /// Characters to pass over, from the answer before.
    #[tool(default)]
    offset: usize,
    /// Characters to read, up to 40,000.
    #[tool(default = 10_000)]
    #[schemars(range(min = 1, max = 40_000))]
    max_chars: usize,
    /// Read the current text of the message, not its original.
    #[tool(default)]
    current: bool,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<ExpandedText>, ToolError> {
    let repo = Shared::of(context)?.repo(repo.as_deref()).await?;
    let id = resolve(&repo, &revision).await?;
    let original = match current {
        true => None,
        false => repo.original_of(id).await.map_err(failed)?,
    };
    let is_original = original.is_some();
    let content = match original {
        Some(content) => content,
        None => {
            let commit = repo.require_commit(id).await.map_err(failed)?;
            repo.content(&commit).await.map_err(failed)?.ok_or_else(|| {
                ToolError::validation(format!("{} has no message", id.short()))
                    .at("revision")
                    .note("`open` shows which commits have messages")
            })?
        }
    };
    let whole = whole_text(&content);
    let total_chars = whole.chars().count();
    let text: String = whole.chars().skip(offset).take(max_chars).collect();
    let end = offset.saturating_add(max_chars);
    let next_offset = (end < total_chars).then_some(end);
    let more = match next_offset {
        Some(next) => format!("\n… {} characters more: offset {next}", total_chars - next),
        None => String::new(),
    };
    let message = format!("{}{more}", quoted(&text));
    let expanded = ExpandedText {
        commit: id.to_string(),
        original: is_original,
        text,
        total_chars,
        next_offset,
    };
    Ok(ToolResult { message, exclude_value_from_context: true, ..ToolResult::ok(expanded) })
}

/// The texts of a content, with calls as `name(arguments)`.
fn whole_text(content: &Content) -> String {
    if content.parts().is_empty() {
        return content.text();
    }
    let parts = content.parts().iter().map(|part| match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text.clone(),
        Part::ToolCall(call) => format!("{}({})", call.name, call.arguments),
        Part::Image { media_type, .. } => {
            format!("(image {})", media_type.as_deref().unwrap_or("of unknown type"))
        }
        Part::Opaque { json, .. } => json.to_string(),
    });
    parts.collect::<Vec<_>>().join("\n")
}
