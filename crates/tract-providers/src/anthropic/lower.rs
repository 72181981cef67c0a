//! Writes blocks: one neutral message as Anthropic's content blocks. The output for `anthropic-1`
//! is frozen, because stored messages rely on it. Content is always a list, so that merging
//! neighbors changes no block.

use tract_compile::{PlaceholderResult, Speaker};
use tract_core::{Content, ImageSource, Part};

use crate::format::MessageFormat;
use crate::neutral::OutgoingMessage;
use crate::raw::{self, Object};
use crate::turns::{self, Block, BlockKind};

/// The format of messages.
pub(crate) static FORMAT: MessageFormat = MessageFormat {
    form: "anthropic-1",
    system_form: Some("anthropic-system-1"),
    opaque: "anthropic",
    opaque_types: &[
        "document",
        "search_result",
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "*_tool_result",
        "*_tool_result_error",
        "container_upload",
        "tool_reference",
        "tool_addition",
        "compaction",
        "fallback",
    ],
    list: "messages",
    system: Some("system"),
    longest_id: Some(64),
    has_plain_ids: true,
    has_ids: true,
    sent_answer: super::answer::sent,
};

/// Uses a block as received.
pub(crate) fn received(raw: &str) -> Block {
    let kind = raw::Node::root(raw).object().ok().and_then(|fields| fields.text("type"));
    let sort = match kind.as_deref() {
        Some("tool_use") => BlockKind::Call,
        Some("tool_result") => BlockKind::Result,
        _ => BlockKind::Other,
    };
    Block { sort, text: raw.to_owned() }
}

/// Writes the blocks of a message.
pub(crate) fn blocks(out: &mut OutgoingMessage<'_>) -> Vec<Block> {
    let parts = out.parts();
    if let Content::ToolResult(answer) = out.content {
        let inner = parts.iter().filter_map(|part| simple(out, part, Speaker::Tool));
        let inner: Vec<String> = inner.collect();
        return vec![result(out.call_id(&answer.call_id), inner, answer.is_error)];
    }
    turns::blocks(out, &parts, call, simple)
}

fn result(call_id: &str, content: Vec<String>, is_error: bool) -> Block {
    let mut block = Object::new();
    block.text("type", "tool_result");
    block.text("tool_use_id", call_id);
    if !content.is_empty() {
        block.nest("content", raw::array(content));
    }
    block.raw("is_error", if is_error { "true" } else { "false" });
    Block { sort: BlockKind::Result, text: block.end() }
}

fn call(id: &str, name: &str, input: &str) -> String {
    let mut block = Object::new();
    block.text("type", "tool_use");
    block.text("id", id);
    block.text("name", name);
    block.raw("input", input);
    block.end()
}

fn simple(out: &mut OutgoingMessage<'_>, part: &Part, speaker: Speaker) -> Option<String> {
    if let Some(why) = out.why_left_out(part, speaker) {
        out.left_out(why);
        return None;
    }
    let mut block = Object::new();
    match part {
        Part::Text { text } => {
            // Anthropic rejects blank blocks.
            if !out.own && out.repairing && text.trim().is_empty() {
                return None;
            }
            block.text("type", "text");
            block.text("text", text);
        }
        Part::Image { media_type, source } => {
            let mut inner = Object::new();
            match source {
                ImageSource::Base64(data) => {
                    inner.text("type", "base64");
                    inner.text("media_type", media_type.as_deref().unwrap_or("image/png"));
                    inner.text("data", data);
                }
                ImageSource::Url(url) => {
                    inner.text("type", "url");
                    inner.text("url", url);
                }
                ImageSource::File(id) => {
                    inner.text("type", "file");
                    inner.text("file_id", id);
                }
            }
            block.text("type", "image");
            block.nest("source", inner.end());
        }
        Part::Reasoning { text, signature, encrypted } => match (encrypted, signature) {
            (Some(data), _) => {
                block.text("type", "redacted_thinking");
                block.text("data", data);
            }
            (None, signature) => {
                block.text("type", "thinking");
                block.text("thinking", text);
                block.text("signature", signature.as_deref().unwrap_or_default());
            }
        },
        Part::Opaque { dialect, json } => {
            return out.opaque(&FORMAT, dialect, json);
        }
        Part::ToolCall(_) => return None,
    }
    Some(block.end())
}

/// Writes the placeholder of a missing result.
pub(crate) fn placeholder_result(answer: &PlaceholderResult, call_id: &str, _name: &str) -> Block {
    result(call_id, vec![text(answer.text())], answer.is_error())
}

/// Writes a block of text.
pub(crate) fn text(text: &str) -> String {
    Object::new().text("type", "text").text("text", text).end()
}

/// Writes a message around its content.
pub(crate) fn message(role: &str, content: &str) -> String {
    Object::new().text("role", role).raw("content", content).end()
}
