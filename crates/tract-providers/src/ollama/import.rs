//! Reads requests: messages as drafts.

use tract_core::{Body, Content, ImageSource, Part, Role, ToolAnswer};

use super::lower;
use crate::drafts::{OpenCalls, Watch, whole_message};
use crate::error::ImportError;
use crate::raw::{Fields, Node};
use crate::reader::Reader;

/// Reads messages one by one, and remembers the calls.
#[derive(Default)]
pub(crate) struct Messages(OpenCalls);

impl<'a> Reader<'a> for Messages {
    fn message(&mut self, message: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError> {
        let fields = message.object()?;
        let role = Role::parse(&fields.require("role")?.string()?);
        let content = content(&fields, &role, &mut self.0, watch)?;
        let draft = whole_message(message, content, role, &lower::FORMAT, lower::message);
        watch.drafts.push_back(draft);
        Ok(())
    }
}

fn content(
    fields: &Fields<'_>,
    role: &Role,
    open: &mut OpenCalls,
    watch: &mut Watch,
) -> Result<Content, ImportError> {
    let optional = |key: &str| fields.some(key).map(|node| node.string()).transpose();
    let mut parts = Vec::new();
    if let Some(text) = optional("thinking")?.filter(|text| !text.is_empty()) {
        parts.push(Part::Reasoning { text, signature: None, encrypted: None });
    }
    if let Some(text) = optional("content")?.filter(|text| !text.is_empty()) {
        parts.push(Part::text(text));
    }
    if let Some(images) = fields.some("images") {
        for image in images.array()? {
            parts.push(match image.string() {
                Ok(data) => {
                    let source = ImageSource::Base64(data);
                    Part::Image { media_type: None, source }
                }
                Err(_) => watch.unread_image(&lower::FORMAT, &image),
            });
        }
    }
    if *role == Role::Tool {
        let name = optional("tool_name")?;
        let call_id = open.answered(optional("tool_call_id")?, name.as_deref());
        watch.result(&call_id, &fields.path);
        return Ok(Content::ToolResult(ToolAnswer { call_id, name, is_error: false, parts }));
    }
    if !fields.has("images") {
        crate::openai::note_missing(fields, watch);
    }
    if *role == Role::Assistant {
        calls(fields, &mut parts, open, watch)?;
    }
    Ok(watch.content_of(role, Body { parts, name: None }, &fields.path))
}

fn calls(
    fields: &Fields<'_>,
    parts: &mut Vec<Part>,
    open: &mut OpenCalls,
    watch: &mut Watch,
) -> Result<(), ImportError> {
    let Some(calls) = fields.some("tool_calls") else { return Ok(()) };
    for (n, node) in calls.array()?.iter().enumerate() {
        let call = node.object()?;
        let id = match call.some("id") {
            Some(id) => id.string()?,
            None => format!("call_{}_{n}", watch.place),
        };
        let function = call.require("function")?.object()?;
        let name = function.require("name")?.string()?;
        let arguments = match function.some("arguments") {
            None => String::new(),
            Some(node) if node.is_string() => watch.arguments(&node.path, node.string()?),
            Some(node) => {
                if !node.is_object() {
                    watch.note(&node.path, "arguments are no JSON object");
                }
                node.raw.to_owned()
            }
        };
        watch.call(&id, &node.path);
        open.push(watch.place, &id, &name);
        parts.push(Part::call(id, name, arguments));
    }
    Ok(())
}
