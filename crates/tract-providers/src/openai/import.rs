//! Reads requests: messages as drafts.

use tract_core::{Body, Content, ImageSource, Part, Role, ToolAnswer, ToolCall};

use super::lower;
use crate::drafts::{Watch, parts_of, whole_message};
use crate::error::ImportError;
use crate::raw::{self, Fields, Node};
use crate::reader::Reader;

/// Reads messages one by one.
pub(crate) struct Messages;

impl<'a> Reader<'a> for Messages {
    fn message(&mut self, message: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError> {
        let fields = message.object()?;
        let role = Role::parse(&fields.require("role")?.string()?);
        let content = content(&fields, &role, watch)?;
        let draft = whole_message(message, content, role, &lower::FORMAT, lower::message);
        watch.drafts.push_back(draft);
        Ok(())
    }
}

fn content(fields: &Fields<'_>, role: &Role, watch: &mut Watch) -> Result<Content, ImportError> {
    let mut parts = parts(fields, watch)?;
    let name = fields.some("name").map(|name| name.string()).transpose()?;
    let call_id = match role {
        Role::Tool => Some(fields.require("tool_call_id")?.string()?),
        // Legacy calls do not have ids: one call is followed by one answer.
        Role::Other(word) if word == "function" => Some(String::new()),
        _ => None,
    };
    if let Some(call_id) = call_id {
        watch.result(&call_id, &fields.path);
        return Ok(Content::ToolResult(ToolAnswer { call_id, name, is_error: false, parts }));
    }
    note_missing(fields, watch);
    if *role == Role::Assistant {
        reasoning(fields, &mut parts)?;
        if let Some(refusal) = fields.some("refusal") {
            let refusal = refusal.string()?;
            if parts.is_empty() {
                parts.push(Part::text(refusal));
            }
        }
        calls(fields, &mut parts, watch)?;
    }
    Ok(watch.content_of(role, Body { parts, name }, &fields.path))
}

/// A message without any of these members is empty.
pub(crate) const SAYING: [&str; 8] = [
    "content",
    "tool_calls",
    "function_call",
    "refusal",
    "audio",
    "reasoning",
    "reasoning_content",
    "thinking",
];

/// Notes a message whose text is in none of the members that are read.
pub(crate) fn note_missing(fields: &Fields<'_>, watch: &mut Watch) {
    if SAYING.iter().any(|key| fields.has(key)) {
        return;
    }
    let others = fields.members.iter().map(|(key, _)| key.as_str());
    let others = others.filter(|key| *key != "role").take(6);
    let others: Vec<_> = others.map(|key| format!("{key:?}")).collect();
    let what = match others.is_empty() {
        true => "message without content".to_owned(),
        false => {
            format!("message without content; members that are not read: {}", others.join(", "))
        }
    };
    watch.note(&fields.path, what);
}

fn parts(fields: &Fields<'_>, watch: &mut Watch) -> Result<Vec<Part>, ImportError> {
    let Some(content) = fields.some("content") else { return Ok(Vec::new()) };
    parts_of(&content, "a string, an array or null", |node| part(node, watch))
}

fn part(node: &Node<'_>, watch: &mut Watch) -> Result<Part, ImportError> {
    let fields = node.object()?;
    let kind = fields.require("type")?.string()?;
    Ok(match kind.as_str() {
        "text" => Part::text(fields.require("text")?.string()?),
        "image_url" => {
            let inner = || fields.some_object("image_url").ok().flatten()?.text("url");
            match fields.text("image_url").or_else(inner) {
                Some(url) => image_at(url),
                None => watch.unread_image(&lower::FORMAT, node),
            }
        }
        _ => watch.opaque(&lower::FORMAT, node),
    })
}

/// Returns the image at a URL, or in a data URL.
pub(crate) fn image_at(url: String) -> Part {
    match data_url(&url) {
        Some((media_type, data)) => Part::Image {
            media_type: Some(media_type.to_owned()),
            source: ImageSource::Base64(data.to_owned()),
        },
        None => Part::Image { media_type: None, source: ImageSource::Url(url) },
    }
}

fn data_url(url: &str) -> Option<(&str, &str)> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    (!media_type.is_empty()).then_some((media_type, data))
}

/// Reads the reasoning members of other vendors with this API. The bytes are kept with the message.
fn reasoning(fields: &Fields<'_>, parts: &mut Vec<Part>) -> Result<(), ImportError> {
    for key in ["reasoning_content", "reasoning"] {
        if let Some(text) = fields.some(key).filter(Node::is_string) {
            let text = text.string()?;
            if !text.is_empty() {
                parts.insert(0, Part::Reasoning { text, signature: None, encrypted: None });
                return Ok(());
            }
        }
    }
    Ok(())
}

fn calls(fields: &Fields<'_>, parts: &mut Vec<Part>, watch: &mut Watch) -> Result<(), ImportError> {
    if let Some(calls) = fields.some("tool_calls") {
        for node in calls.array()? {
            let call = call(&node, watch)?;
            watch.call(&call.id, &node.path);
            parts.push(Part::ToolCall(call));
        }
    }
    if let Some(node) = fields.some("function_call") {
        let function = node.object()?;
        let name = function.require("name")?.string()?;
        let arguments = arguments(&function, watch)?;
        // Some vendors write an empty one with every message.
        if !name.is_empty() {
            watch.call("", &node.path);
            parts.push(Part::call("", name, arguments));
        }
    }
    Ok(())
}

fn call(node: &Node<'_>, watch: &mut Watch) -> Result<ToolCall, ImportError> {
    let call = node.object()?;
    let id = match call.some("id") {
        Some(id) => id.string()?,
        None => {
            watch.note(&node.path, "tool call without an id");
            String::new()
        }
    };
    // Some vendors write both members and leave the unused one blank.
    let is_custom = call.text("type").as_deref() == Some("custom") || !call.has("function");
    if let Some(custom) = call.some("custom").filter(|_| is_custom) {
        let custom = custom.object()?;
        let name = custom.require("name")?.string()?;
        return Ok(ToolCall { id, name, arguments: custom.require("input")?.string()? });
    }
    let function = call.require("function")?.object()?;
    let name = function.require("name")?.string()?;
    Ok(ToolCall { id, name, arguments: arguments(&function, watch)? })
}

fn arguments(function: &Fields<'_>, watch: &mut Watch) -> Result<String, ImportError> {
    let Some(node) = function.some("arguments") else { return Ok(String::new()) };
    if node.is_object() {
        return Ok(node.raw.to_owned());
    }
    let text = watch.arguments(&node.path, node.string()?);
    if !text.trim().is_empty() && !raw::is_object(text.trim()) {
        watch.note(&node.path, "arguments are no JSON object");
    }
    Ok(text)
}
