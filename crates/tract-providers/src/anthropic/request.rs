//! Writes requests: separate instructions, then turns.

use super::lower;
use crate::prefix::PrefixSource;
use crate::raw::{self, Node, Object};
use crate::turns::{Block, BlockKind, Wording};

/// The member names of turns.
pub(super) const WORDING: Wording = Wording {
    format: &lower::FORMAT,
    assistant: "assistant",
    blocks_member: "content",
    lower: lower::blocks,
    from_content,
    placeholder_result: lower::placeholder_result,
    system: |blocks| blocks,
    text: lower::text,
    message: lower::message,
    is_paused,
    begins_with_user: true,
    sign: None,
    needs_signatures: |_| false,
    results_first: true,
    repaired: without_blank_texts,
    why_refused,
    is_nothing: |_| false,
};

/// Removes blank texts from a result: no text may be blank, and a result needs no content.
fn without_blank_texts(block: &str) -> Option<(String, &'static str)> {
    let fields = Node::root(block).object().ok()?;
    if fields.text("type").as_deref() != Some("tool_result") {
        return None;
    }
    let content = fields.some("content")?.array().ok()?;
    let kept: Vec<&str> = content
        .iter()
        .map(|inner| inner.raw)
        .filter(|inner| why_refused(inner) != Some(BLANK_TEXT))
        .collect();
    if kept.len() == content.len() {
        return None;
    }
    let mut out = Object::new();
    for (key, raw) in &fields.members {
        match key.as_str() {
            "content" if kept.is_empty() => {}
            "content" => drop(out.nest(key, raw::array(kept.iter().copied()))),
            _ => drop(out.raw(key, raw)),
        }
    }
    Some((out.end(), "a blank text within a result: left out"))
}

const BLANK_TEXT: &str = "a blank text";

/// Returns why a block is rejected, even a recorded one: Anthropic requires the signature of
/// thinking, which a recording may have lost, and no text may be blank.
fn why_refused(block: &str) -> Option<&'static str> {
    let fields = Node::root(block).object().ok()?;
    let lacks = |key: &str| fields.text(key).is_none_or(|text| text.trim().is_empty());
    match fields.text("type")?.as_str() {
        "thinking" => lacks("signature").then_some("thinking without a signature"),
        "redacted_thinking" => lacks("data").then_some("redacted thinking without data"),
        "text" => lacks("text").then_some(BLANK_TEXT),
        _ => None,
    }
}

/// Returns the blocks of a content as received; a text is one text block.
fn from_content(raw: &str) -> Vec<Block> {
    let node = Node::root(raw);
    match node.array() {
        Ok(blocks) => blocks.iter().map(|block| lower::received(block.raw)).collect(),
        Err(_) if node.is_string() => {
            let text = format!(r#"{{"type":"text","text":{}}}"#, node.raw);
            vec![Block { sort: BlockKind::Other, text }]
        }
        Err(_) => Vec::new(),
    }
}

/// Returns whether a server tool is still running (`pause_turn`): such a turn goes back unchanged,
/// and the model continues it.
fn is_paused(blocks: &[(PrefixSource, Block)]) -> bool {
    #[derive(serde::Deserialize)]
    struct Used {
        #[serde(rename = "type")]
        kind: String,
        id: Option<String>,
        tool_use_id: Option<String>,
    }
    let used = blocks.iter().filter_map(|(_, block)| serde_json::from_str(&block.text).ok());
    let mut open: Vec<String> = Vec::new();
    for Used { kind, id, tool_use_id } in used {
        match (kind.as_str(), id, tool_use_id) {
            ("server_tool_use" | "mcp_tool_use", Some(id), _) => open.push(id),
            (_, _, Some(answered)) => open.retain(|id| *id != answered),
            _ => {}
        }
    }
    !open.is_empty()
}
