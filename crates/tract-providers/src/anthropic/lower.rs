//! Blocks out: one neutral message as Anthropic's content blocks. What this writes for
//! `anthropic-1` is frozen. Content is always a list, so that merging neighbors changes no block.

use tract_compile::{PlaceholderResult, Speaker};
use tract_core::{Content, ImageSource, Part};
use tract_schema::Dialect;

use crate::neutral::{OutgoingMessage, arguments_object};
use crate::raw::{self, Object};
use crate::turns::{Block, BlockKind};

/// Takes a block as it was received.
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
        let inner = inner(out, &parts);
        let mut block = Object::new();
        block.text("type", "tool_result");
        block.text("tool_use_id", out.call_id(&answer.call_id));
        if !inner.is_empty() {
            block.nest("content", raw::array(inner));
        }
        block.raw("is_error", if answer.is_error { "true" } else { "false" });
        return vec![Block { sort: BlockKind::Result, text: block.end() }];
    }
    let speaker = out.speaker();
    let mut blocks = Vec::with_capacity(parts.len());
    let mut calls = out.content.calls().zip(0u32..);
    for part in parts.iter() {
        if let Part::ToolCall(_) = part {
            let Some((call, index)) = calls.next() else { continue };
            if speaker != Speaker::Assistant {
                out.left_out("a tool call outside of an assistant's message");
                continue;
            }
            let (id, name) = out.call(index, call);
            let input = arguments_object(out, &id, &call.arguments);
            let mut block = Object::new();
            block.text("type", "tool_use");
            block.text("id", &id);
            block.text("name", &name);
            block.raw("input", input);
            blocks.push(Block { sort: BlockKind::Call, text: block.end() });
        } else if let Some(text) = simple(out, part, speaker) {
            blocks.push(Block { sort: BlockKind::Other, text });
        }
    }
    blocks
}

/// The content of a result.
fn inner(out: &mut OutgoingMessage<'_>, parts: &[Part]) -> Vec<String> {
    parts.iter().filter_map(|part| simple(out, part, Speaker::Tool)).collect()
}

fn simple(out: &mut OutgoingMessage<'_>, part: &Part, speaker: Speaker) -> Option<String> {
    let mut block = Object::new();
    match part {
        Part::Text { text } => {
            // Blank blocks are refused.
            if !out.own && out.repairing && text.trim().is_empty() {
                return None;
            }
            block.text("type", "text");
            block.text("text", text);
        }
        Part::Image { media_type, source } => {
            if !out.own && matches!(speaker, Speaker::Assistant | Speaker::System) {
                out.left_out("an image outside of a user's message");
                return None;
            }
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
                ImageSource::File(_) if !out.own => {
                    out.left_out("an image that only its provider holds");
                    return None;
                }
                ImageSource::File(id) => {
                    inner.text("type", "file");
                    inner.text("file_id", id);
                }
            }
            block.text("type", "image");
            block.nest("source", inner.end());
        }
        Part::Reasoning { text, signature, encrypted } => {
            if !out.own {
                out.left_out("reasoning that this provider does not accept back");
                return None;
            }
            match (encrypted, signature) {
                (Some(data), _) => {
                    block.text("type", "redacted_thinking");
                    block.text("data", data);
                }
                (None, signature) => {
                    block.text("type", "thinking");
                    block.text("thinking", text);
                    block.text("signature", signature.as_deref().unwrap_or_default());
                }
            }
        }
        Part::Opaque { .. } if !out.own && speaker == Speaker::System => {
            out.left_out("a part of instructions that is no text");
            return None;
        }
        Part::Opaque { dialect, json } => {
            return out.opaque(Dialect::Anthropic, dialect, json);
        }
        // Only an assistant's message has calls; they are written above.
        Part::ToolCall(_) => {
            out.left_out("a tool call within a result");
            return None;
        }
    }
    Some(block.end())
}

/// Writes the placeholder of a missing result.
pub(crate) fn placeholder_result(answer: &PlaceholderResult, call_id: &str, _name: &str) -> Block {
    let mut block = Object::new();
    block.text("type", "tool_result");
    block.text("tool_use_id", call_id);
    block.raw("content", &raw::array([text(answer.text())]));
    block.raw("is_error", if answer.is_error() { "true" } else { "false" });
    Block { sort: BlockKind::Result, text: block.end() }
}

/// Writes a block of text.
pub(crate) fn text(text: &str) -> String {
    let mut block = Object::new();
    block.text("type", "text");
    block.text("text", text);
    block.end()
}

/// Writes a message around its content.
pub(crate) fn message(role: &str, content: &str) -> String {
    let mut message = Object::new();
    message.text("role", role);
    message.raw("content", content);
    message.end()
}
