//! Reads requests: items as drafts.

use tract_core::{Blob, Body, Content, Draft, ImageSource, Part, Role, ToolAnswer};

use super::lower;
use crate::drafts::{Watch, draft, parts_of};
use crate::error::ImportError;
use crate::neutral::OutgoingMessage;
use crate::openai;
use crate::raw::{self, Fields, Node};
use crate::reader::Reader;

/// Reads the part of a request before its items, and an input that is a single text.
pub(super) fn begin(fields: &Fields<'_>, watch: &mut Watch) -> Result<bool, ImportError> {
    for key in ["previous_response_id", "conversation"] {
        if fields.some(key).is_some() {
            watch.note(key, "what was said before this request is not in it");
        }
    }
    if let Some(text) = fields.some("instructions") {
        let content = Content::System(Body::text(text.string()?));
        watch.drafts.push_back(draft(content, None, lower::FORMAT.system_form.unwrap_or_default()));
    }
    match fields.get("input") {
        Some(input) if input.is_string() => {
            let content = Content::User(Body::text(input.string()?));
            let mut draft = draft(content, None, lower::FORMAT.form);
            draft.verbatim = Some(Blob::seal(input.raw.as_bytes().to_vec()));
            watch.drafts.push_back(draft);
            Ok(true)
        }
        Some(input) if !input.is_array() => Err(input.expected("a string or an array")),
        Some(_) => Ok(false),
        None => Ok(fields.has("previous_response_id")),
    }
}

/// The neighboring items of the model so far, which become one draft.
#[derive(Default)]
pub(crate) struct ModelItems<'a> {
    parts: Vec<Part>,
    raws: Vec<&'a str>,
}

impl<'a> Reader<'a> for ModelItems<'a> {
    fn message(&mut self, item: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError> {
        let fields = item.object()?;
        if let Some(parsed) = parse_item(item, &fields, watch)? {
            self.parts.extend(parsed);
            self.raws.push(item.raw);
            return Ok(());
        }
        watch.drafts.extend(self.end());
        let (content, role) = other(item, &fields, watch)?;
        watch.drafts.push_back(sealed(content, role, &[item.raw], || item.raw.to_owned()));
        Ok(())
    }

    fn end(&mut self) -> Option<Draft> {
        if self.raws.is_empty() {
            return None;
        }
        let parts = std::mem::take(&mut self.parts);
        let content = Content::Assistant(Body { parts, name: None });
        let raws = std::mem::take(&mut self.raws);
        let received = || raw::array(raws.iter().copied());
        Some(sealed(content, Role::Assistant, &raws, received))
    }
}

/// Makes a draft. It keeps the bytes if lowering would write other items.
fn sealed(
    content: Content,
    role: Role,
    items: &[&str],
    received: impl FnOnce() -> String,
) -> Draft {
    let mut draft = draft(content, Some(role.clone()), lower::FORMAT.form);
    let lowered = lower::items(&mut OutgoingMessage::recorded(&draft.content, &role));
    // Compared one by one, without building the list, which may be large.
    let mut pairs = lowered.iter().zip(items);
    let is_same =
        lowered.len() == items.len() && pairs.all(|(lowered, item)| raw::same(lowered, item));
    drop(lowered);
    if !is_same {
        draft.verbatim = Some(Blob::seal(received().into_bytes()));
    }
    draft
}

fn kind(fields: &Fields<'_>) -> Result<String, ImportError> {
    match fields.some("type") {
        Some(kind) => kind.string(),
        // The type of a message is optional.
        None => fields.require("role").map(|_| "message".to_owned()),
    }
}

/// Returns the parts of an item of the model; `None` for other items.
fn parse_item(
    item: &Node<'_>,
    fields: &Fields<'_>,
    watch: &mut Watch,
) -> Result<Option<Vec<Part>>, ImportError> {
    let mut call = |arguments: &'static str| -> Result<Vec<Part>, ImportError> {
        let id = fields.require("call_id")?.string()?;
        let name = fields.require("name")?.string()?;
        let node = fields.require(arguments)?;
        let mut text = node.string()?;
        if arguments == "arguments" {
            text = watch.arguments(&node.path, text);
        }
        if arguments == "arguments" && !text.trim().is_empty() && !raw::is_object(text.trim()) {
            watch.note(&node.path, "arguments are no JSON object");
        }
        watch.call(&id, &item.path);
        Ok(vec![Part::call(id, name, text)])
    };
    Ok(Some(match kind(fields)?.as_str() {
        "message" if fields.text("role").as_deref() == Some("assistant") => parts(fields, watch)?,
        "message" => return Ok(None),
        "function_call" => call("arguments")?,
        "custom_tool_call" => call("input")?,
        "reasoning" => {
            let mut texts = Vec::new();
            // Models with open weights have their reasoning in `content`, and no summary.
            for list in ["summary", "content"] {
                if let Some(list) = fields.some(list).filter(|_| texts.is_empty()) {
                    for part in list.array()? {
                        texts.extend(part.object()?.text("text"));
                    }
                }
            }
            let encrypted =
                fields.some("encrypted_content").map(|node| node.string()).transpose()?;
            vec![Part::Reasoning { text: texts.join("\n\n"), signature: None, encrypted }]
        }
        kind if kind.ends_with("_output") || kind == "mcp_approval_response" => return Ok(None),
        _ if fields.has("role") => return Ok(None),
        _ => vec![watch.opaque(&lower::FORMAT, item)],
    }))
}

fn other(
    item: &Node<'_>,
    fields: &Fields<'_>,
    watch: &mut Watch,
) -> Result<(Content, Role), ImportError> {
    match kind(fields)?.as_str() {
        "message" => {
            let role = Role::parse(&fields.require("role")?.string()?);
            let body = Body { parts: parts(fields, watch)?, name: None };
            Ok((watch.content_of(&role, body, &item.path), role))
        }
        "function_call_output" | "custom_tool_call_output" => {
            let call_id = fields.require("call_id")?.string()?;
            watch.result(&call_id, &item.path);
            let parts = of_content(&fields.require("output")?, watch)?;
            let answer = ToolAnswer { call_id, name: None, is_error: false, parts };
            Ok((Content::ToolResult(answer), Role::Tool))
        }
        _ => {
            let body = Body { parts: vec![watch.opaque(&lower::FORMAT, item)], name: None };
            Ok(match fields.text("role").as_deref().map(Role::parse) {
                Some(role @ (Role::System | Role::Developer)) => (Content::System(body), role),
                _ => (Content::User(body), Role::User),
            })
        }
    }
}

fn parts(fields: &Fields<'_>, watch: &mut Watch) -> Result<Vec<Part>, ImportError> {
    match fields.some("content") {
        Some(content) => of_content(&content, watch),
        None => Ok(Vec::new()),
    }
}

fn of_content(content: &Node<'_>, watch: &mut Watch) -> Result<Vec<Part>, ImportError> {
    parts_of(content, "a string or an array", |node| part(node, watch))
}

fn part(node: &Node<'_>, watch: &mut Watch) -> Result<Part, ImportError> {
    let fields = node.object()?;
    Ok(match fields.require("type")?.string()?.as_str() {
        "input_text" | "output_text" | "text" => Part::text(fields.require("text")?.string()?),
        "refusal" => Part::text(fields.require("refusal")?.string()?),
        "input_image" => match (fields.text("image_url"), fields.text("file_id")) {
            (Some(url), _) => openai::image_at(url),
            (None, Some(id)) => Part::Image { media_type: None, source: ImageSource::File(id) },
            (None, None) => watch.unread_image(&lower::FORMAT, node),
        },
        _ => watch.opaque(&lower::FORMAT, node),
    })
}
