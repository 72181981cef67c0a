//! Reads requests: instructions, results and the rest of each message as drafts.

use tract_core::{Body, Content, Draft, ImageSource, Part, Role, ToolAnswer};

use super::lower;
use super::request::WORDING;
use crate::drafts::{Watch, draft_of, parts_of};
use crate::error::ImportError;
use crate::neutral::OutgoingMessage;
use crate::raw::{Fields, Node};
use crate::reader::Reader;
use crate::turns::is_same;

/// Reads the `system` of a request: a text or blocks.
pub(crate) fn instructions(system: &Node<'_>, watch: &mut Watch) -> Result<Draft, ImportError> {
    let parts = parts(system, watch)?;
    let content = Content::System(Body { parts, name: None });
    let form = lower::FORMAT.system_form.unwrap_or_default();
    Ok(draft_of(system, content, Role::System, form, |out| is_list_of(system, out)))
}

/// Reads messages one by one: a draft for each result, and one for each run of other blocks.
pub(crate) struct Messages;

impl<'a> Reader<'a> for Messages {
    fn message(&mut self, message: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError> {
        let fields = message.object()?;
        let role = Role::parse(&fields.require("role")?.string()?);
        let received = fields.require("content")?;
        let blocks = match received.is_array() {
            true if role == Role::User => received.array()?,
            _ => Vec::new(),
        };
        let mut groups: Vec<(Content, Vec<&str>)> = Vec::new();
        for block in &blocks {
            let inner = block.object()?;
            if inner.text("type").as_deref() == Some("tool_result") {
                groups.push((result(&inner, watch)?, vec![block.raw]));
                continue;
            }
            let part = part(block, &inner, watch)?;
            match groups.last_mut() {
                Some((Content::User(body), raws)) => {
                    body.parts.push(part);
                    raws.push(block.raw);
                }
                _ => {
                    let body = Body { parts: vec![part], name: None };
                    groups.push((Content::User(body), vec![block.raw]));
                }
            }
        }
        if groups.is_empty() {
            let body = Body { parts: parts(&received, watch)?, name: None };
            let content = watch.content_of(&role, body, &fields.path);
            let form = lower::FORMAT.form;
            watch.drafts.push_back(draft_of(message, content, role, form, |out| {
                WORDING.says_only_role(&fields, out.role.as_str()) && is_list_of(&received, out)
            }));
            return Ok(());
        }
        watch.drafts.extend(WORDING.drafts(&fields, "user", &role, groups));
        Ok(())
    }
}

/// Returns whether a node is the list of a message's blocks. A text is not a list, even if it
/// contains one.
fn is_list_of(node: &Node<'_>, out: &mut OutgoingMessage<'_>) -> bool {
    if !node.is_array() {
        return false;
    }
    let Ok(received) = node.array() else { return false };
    is_same(&lower::blocks(out), &received.iter().map(|node| node.raw).collect::<Vec<_>>())
}

fn parts(content: &Node<'_>, watch: &mut Watch) -> Result<Vec<Part>, ImportError> {
    parts_of(content, "a string or an array", |block| part(block, &block.object()?, watch))
}

fn part(block: &Node<'_>, fields: &Fields<'_>, watch: &mut Watch) -> Result<Part, ImportError> {
    let optional = |key: &str| fields.some(key).map(|node| node.string()).transpose();
    Ok(match fields.require("type")?.string()?.as_str() {
        "text" => Part::text(fields.require("text")?.string()?),
        "tool_use" => {
            let id = fields.require("id")?.string()?;
            let input = fields.require("input")?;
            if !input.is_object() {
                watch.note(&input.path, "input is no JSON object");
            }
            watch.call(&id, &block.path);
            Part::call(id, fields.require("name")?.string()?, input.raw)
        }
        "thinking" => Part::Reasoning {
            text: fields.require("thinking")?.string()?,
            signature: optional("signature")?,
            encrypted: None,
        },
        "redacted_thinking" => Part::Reasoning {
            text: String::new(),
            signature: None,
            encrypted: Some(fields.require("data")?.string()?),
        },
        "image" => match image(fields) {
            Ok(Some(image)) => image,
            Ok(None) => lower::FORMAT.opaque_part(block),
            Err(_) => watch.unread_image(&lower::FORMAT, block),
        },
        _ => watch.opaque(&lower::FORMAT, block),
    })
}

fn image(fields: &Fields<'_>) -> Result<Option<Part>, ImportError> {
    let source = fields.require("source")?.object()?;
    let media_type = source.text("media_type");
    let source = match source.require("type")?.string()?.as_str() {
        "base64" => ImageSource::Base64(source.require("data")?.string()?),
        "url" => ImageSource::Url(source.require("url")?.string()?),
        "file" => ImageSource::File(source.require("file_id")?.string()?),
        _ => return Ok(None),
    };
    Ok(Some(Part::Image { media_type, source }))
}

fn result(fields: &Fields<'_>, watch: &mut Watch) -> Result<Content, ImportError> {
    let call_id = fields.require("tool_use_id")?.string()?;
    watch.result(&call_id, &fields.path);
    let parts = match fields.some("content") {
        Some(content) => parts(&content, watch)?,
        None => Vec::new(),
    };
    let is_error = match fields.some("is_error").map(|node| (node.raw, node)) {
        None | Some(("false", _)) => false,
        Some(("true", _)) => true,
        Some((_, node)) => return Err(node.expected("a boolean")),
    };
    Ok(Content::ToolResult(ToolAnswer { call_id, name: None, is_error, parts }))
}
