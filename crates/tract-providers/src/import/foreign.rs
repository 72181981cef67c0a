//! What a message of one dialect cannot say in another: calls, results, images. A reader of the
//! wrong dialect would pass over it, so it is refused.

use crate::dialect::Dialect;
use crate::error::ImportError;
use crate::raw::{Fields, Node};

/// Refuses a request with messages that say something in another dialect than the one that it is
/// to be read in.
pub(super) fn refuse(request: &Node<'_>, dialect: Dialect) -> Result<(), ImportError> {
    let list = match dialect {
        Dialect::Responses => "input",
        Dialect::OpenAi | Dialect::Anthropic | Dialect::Ollama => "messages",
    };
    let messages = match request.is_array() {
        true => Some(Node::at(request.raw, list)),
        false => request.object()?.get(list),
    };
    let Some(messages) = messages.filter(Node::is_array) else { return Ok(()) };
    for message in messages.each()? {
        // What is no object is refused by the reader, which says more about it.
        let Ok(fields) = message.object() else { return Ok(()) };
        let found = member(&fields, dialect).or_else(|| block(&fields, dialect));
        if let Some((path, shown)) = found {
            return Err(ImportError::OtherFormat { path, asked: dialect, shown });
        }
    }
    Ok(())
}

/// Finds a member of a message, or a role, that only another dialect has.
fn member(fields: &Fields<'_>, dialect: Dialect) -> Option<(String, Dialect)> {
    let chat: &[&str] = &["tool_calls", "function_call", "tool_call_id"];
    let (members, roles): (&[&str], &[&str]) = match dialect {
        Dialect::OpenAi => (&["tool_name"], &[]),
        // Its own calls are written like those of OpenAI, but for those of old.
        Dialect::Ollama => (&["function_call"], &["function"]),
        Dialect::Anthropic | Dialect::Responses => (chat, &["tool", "function"]),
    };
    let shown = match fields.has("tool_name") {
        true => Dialect::Ollama,
        false => Dialect::OpenAi,
    };
    let member = members
        .iter()
        .filter_map(|key| fields.some(key))
        .find(|node| !node.is_array() || node.array().is_ok_and(|list| !list.is_empty()))
        .or_else(|| {
            // A picture beside the text is how Ollama sends it; others would not see it.
            let images = fields.some("images").filter(|_| dialect != Dialect::Ollama)?;
            images.array().is_ok_and(|list| !list.is_empty()).then_some(images)
        });
    let role = || {
        let role = fields.text("role").unwrap_or_default();
        fields.get("role").filter(|_| roles.contains(&role.as_str()))
    };
    let images = |path: &str| path.ends_with(".images");
    member.or_else(role).map(|node| match images(&node.path) {
        true => (node.path, Dialect::Ollama),
        false => (node.path, shown),
    })
}

/// Finds a block of content that only another dialect has.
fn block(fields: &Fields<'_>, dialect: Dialect) -> Option<(String, Dialect)> {
    let foreign: &[(&str, Dialect)] = match dialect {
        Dialect::OpenAi | Dialect::Ollama | Dialect::Responses => {
            &[("tool_use", Dialect::Anthropic), ("tool_result", Dialect::Anthropic)]
        }
        Dialect::Anthropic => &[
            ("image_url", Dialect::OpenAi),
            ("input_text", Dialect::Responses),
            ("output_text", Dialect::Responses),
            ("input_image", Dialect::Responses),
        ],
    };
    let blocks = fields.get("content").filter(Node::is_array)?.array().ok()?;
    blocks.iter().find_map(|block| {
        let kind = block.object().ok()?.text("type")?;
        let (_, shown) = foreign.iter().find(|(name, _)| *name == kind)?;
        Some((block.path.clone(), *shown))
    })
}
