//! Reads requests: instructions, function responses and the rest of each content as drafts.

use tract_core::{Body, Content, Draft, ImageSource, Part, Role, ToolAnswer};

use super::lower::{self, UNNAMED};
use super::names::member;
use super::request::WORDING;
use crate::drafts::{OpenCalls, Watch, draft_of};
use crate::error::ImportError;
use crate::images;
use crate::raw::{self, Fields, Node};
use crate::reader::Reader;
use crate::turns::{around, is_same};

/// Members of a part, of which each part has exactly one.
const PART_MEMBERS: [&str; 9] = [
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
];

/// Returns whether a message has Gemini's shape: parts whose member determines their type.
pub(crate) fn is_content(message: &Fields<'_>) -> bool {
    let parts = message.get("parts").and_then(|parts| parts.array().ok());
    let is_part = |part: &Node<'_>| {
        let Ok(part) = part.object() else { return false };
        // Other formats have parts with a text, too, and a member for their type.
        !part.has("type")
            && !part.has("kind")
            && PART_MEMBERS.iter().any(|name| member(&part, name).is_some())
    };
    !message.has("content") && parts.is_some_and(|parts| parts.first().is_some_and(is_part))
}

/// Reads the `systemInstruction` of a request.
pub(crate) fn instructions(system: &Node<'_>, watch: &mut Watch) -> Result<Draft, ImportError> {
    let (fields, mut parts, mut raws) = (system.object()?, Vec::new(), Vec::new());
    for node in fields.require("parts")?.array()? {
        parts.push(part(&node, &node.object()?, watch)?);
        raws.push(node.raw);
    }
    let content = Content::System(Body { parts, name: None });
    let form = lower::FORMAT.system_form.unwrap_or_default();
    Ok(draft_of(system, content, Role::System, form, |out| {
        raw::same(r#"{"parts":[]}"#, &around(&fields, "parts", "[]".to_owned()))
            && is_same(&lower::parts(out), &raws)
    }))
}

/// Reads contents one by one: a draft for each response, and one for each run of other parts. It
/// remembers the calls, because responses often lack their ids.
#[derive(Default)]
pub(crate) struct Contents {
    open: OpenCalls,
}

impl<'a> Reader<'a> for Contents {
    fn message(&mut self, content: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError> {
        let fields = content.object()?;
        let word = fields.some("role").map(|role| role.string()).transpose()?;
        let role = match word.as_deref() {
            None | Some("user" | "function") => Role::User,
            Some("model") => Role::Assistant,
            Some(word) => Role::Other(word.to_owned()),
        };
        let content_of = |parts, watch: &mut Watch| {
            watch.content_of(&role, Body { parts, name: None }, &fields.path)
        };
        let nodes = fields.some("parts").map(|parts| parts.array()).transpose()?;
        let mut groups: Vec<(Content, Vec<&str>)> = Vec::new();
        for (n, node) in nodes.unwrap_or_default().iter().enumerate() {
            let inner = node.object()?;
            if let Some(response) =
                member(&inner, "functionResponse").filter(|_| role == Role::User)
            {
                groups.push((self.result(&response.object()?, watch)?, vec![node.raw]));
                continue;
            }
            let part = match member(&inner, "functionCall").filter(|_| role == Role::Assistant) {
                Some(call) => self.call(&call.object()?, n, watch)?,
                None => part(node, &inner, watch)?,
            };
            match groups.last_mut() {
                Some((
                    Content::User(body) | Content::Assistant(body) | Content::Custom { body, .. },
                    raws,
                )) => {
                    body.parts.push(part);
                    raws.push(node.raw);
                }
                _ => groups.push((content_of(vec![part], watch), vec![node.raw])),
            }
        }
        if groups.is_empty() {
            groups.push((content_of(Vec::new(), watch), Vec::new()));
        }
        let word = if role == Role::Assistant { "model" } else { "user" };
        watch.drafts.extend(WORDING.drafts(&fields, word, &role, groups));
        Ok(())
    }
}

impl Contents {
    fn call(
        &mut self,
        call: &Fields<'_>,
        n: usize,
        watch: &mut Watch,
    ) -> Result<Part, ImportError> {
        let id = call.text("id").filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("{UNNAMED}{}_{n}", watch.place));
        let name = call.require("name")?.string()?;
        let arguments = call.some("args");
        if let Some(node) = arguments.as_ref().filter(|node| !node.is_object()) {
            watch.note(&node.path, "args are no JSON object");
        }
        watch.call(&id, &call.path);
        self.open.push(watch.place, &id, &name);
        Ok(Part::call(id, name, arguments.map_or("{}", |node| node.raw)))
    }

    fn result(&mut self, response: &Fields<'_>, watch: &mut Watch) -> Result<Content, ImportError> {
        let name = response.require("name")?.string()?;
        let id = response.text("id").filter(|id| !id.is_empty());
        let call_id = self.open.answered(id, Some(&name));
        watch.result(&call_id, &response.path);
        let given = response.require("response")?;
        let fields = given.object()?;
        // Google uses these two names for a response that is a text.
        let alone = |key: &str| fields.text(key).filter(|_| fields.members.len() == 1);
        let (text, is_error) = match (alone("error"), alone("output")) {
            (Some(error), _) => (error, true),
            (None, Some(output)) if !raw::is_object(output.trim()) => (output, false),
            _ => (given.raw.to_owned(), false),
        };
        let mut parts = vec![Part::text(text)];
        // Pictures and files that belong to the response.
        if let Some(list) = response.some("parts") {
            for node in list.array()? {
                parts.push(part(&node, &node.object()?, watch)?);
            }
        }
        Ok(Content::ToolResult(ToolAnswer { call_id, name: Some(name), is_error, parts }))
    }
}

fn part(node: &Node<'_>, fields: &Fields<'_>, watch: &mut Watch) -> Result<Part, ImportError> {
    if let Some(text) = fields.some("text") {
        let text = text.string()?;
        if fields.raw("thought") == Some("true") {
            let signature =
                member(fields, "thoughtSignature").and_then(|node| raw::string(node.raw));
            return Ok(Part::Reasoning { text, signature, encrypted: None });
        }
        return Ok(Part::text(text));
    }
    for (key, data) in [("inlineData", "data"), ("fileData", "fileUri")] {
        let Some(blob) = member(fields, key) else { continue };
        let Ok(blob) = blob.object() else { return Ok(watch.unread_image(&lower::FORMAT, node)) };
        let media_type = member(&blob, "mimeType").and_then(|node| raw::string(node.raw));
        let given = member(&blob, data).and_then(|data| data.string().ok());
        let is_image = match &media_type {
            Some(kind) => kind.starts_with("image/"),
            // Without a type, the data has to be that of an image.
            None => given
                .as_ref()
                .is_none_or(|data| key == "inlineData" && images::type_of(data).is_some()),
        };
        if !is_image {
            return Ok(watch.opaque(&lower::FORMAT, node));
        }
        let Some(data) = given else {
            return Ok(watch.unread_image(&lower::FORMAT, node));
        };
        let source = match key {
            "inlineData" => ImageSource::Base64(data),
            _ => ImageSource::File(data),
        };
        return Ok(Part::Image { media_type, source });
    }
    Ok(watch.opaque(&lower::FORMAT, node))
}
