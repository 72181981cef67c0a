//! Members of a message that other dialects lack: calls, results, images. A reader of the wrong
//! dialect would skip them, so such messages are rejected.

use tract_schema::Dialect;

use crate::error::ImportError;
use crate::profile_of;
use crate::raw::{Fields, Node};

/// Rejects a request whose messages have content of another dialect than the reader's.
pub(super) fn refuse(request: &Node<'_>, dialect: Dialect) -> Result<(), ImportError> {
    let list = profile_of(dialect).format.list;
    let messages = if request.is_array() {
        Some(Node::at(request.raw, list))
    } else {
        request.object()?.get(list)
    };
    let Some(messages) = messages.filter(Node::is_array) else { return Ok(()) };
    for message in messages.each()? {
        // The reader rejects values that are not objects, with a better message.
        let Ok(fields) = message.object() else { return Ok(()) };
        let found = member(&fields, dialect).or_else(|| block(&fields, dialect));
        if let Some((path, shown)) = found {
            return Err(ImportError::OtherFormat { path, requested: dialect, shown });
        }
    }
    Ok(())
}

/// Finds a member or role of a message that only another dialect has.
fn member(fields: &Fields<'_>, dialect: Dialect) -> Option<(String, Dialect)> {
    let foreign = &profile_of(dialect).foreign;
    for other in Dialect::ALL.into_iter().filter(|other| *other != dialect) {
        if let Some(member) = profile_of(other).adapter.own_member(fields) {
            return fields.get(member).map(|node| (node.path, other));
        }
    }
    let shown = match fields.has("tool_name") {
        true => Dialect::Ollama,
        false => Dialect::OpenAi,
    };
    let member = foreign
        .members
        .iter()
        .filter_map(|key| fields.some(key))
        .find(|node| !node.is_array() || node.array().is_ok_and(|list| !list.is_empty()))
        .or_else(|| {
            // Ollama sends an image next to the text; other dialects would ignore it.
            let images = fields.some("images").filter(|_| dialect != Dialect::Ollama)?;
            images.array().is_ok_and(|list| !list.is_empty()).then_some(images)
        });
    let role = || {
        let role = fields.text("role").unwrap_or_default();
        fields.get("role").filter(|_| foreign.roles.contains(&role.as_str()))
    };
    member.or_else(role).map(|node| {
        let images = node.path.ends_with(".images");
        (node.path, if images { Dialect::Ollama } else { shown })
    })
}

/// Finds a block of content that only another dialect has.
fn block(fields: &Fields<'_>, dialect: Dialect) -> Option<(String, Dialect)> {
    let foreign = profile_of(dialect).foreign.blocks;
    let blocks = fields.get("content").filter(Node::is_array)?.array().ok()?;
    blocks.iter().find_map(|block| {
        let kind = block.object().ok()?.text("type")?;
        let (_, shown) = foreign.iter().find(|(name, _)| *name == kind)?;
        Some((block.path.clone(), *shown))
    })
}
