//! Writes parts: one neutral message as parts of a content. The output for messages recorded as
//! `gemini-1` is frozen, because it decides which bytes are stored with them.

use std::borrow::Cow;

use tract_compile::{PlaceholderResult, RepairKind, Speaker};
use tract_core::{Content, ImageSource, Part, ToolAnswer};

use super::names::member;
use crate::format::MessageFormat;
use crate::neutral::OutgoingMessage;
use crate::raw::{self, Object};
use crate::turns::{self, Block, BlockKind};

/// The format of messages.
pub(crate) static FORMAT: MessageFormat = MessageFormat {
    form: "gemini-1",
    system_form: Some("gemini-system-1"),
    opaque: "gemini",
    opaque_types: &[
        "inlineData",
        "fileData",
        "executableCode",
        "codeExecutionResult",
        "functionCall",
        "functionResponse",
        "toolCall",
        "toolResponse",
        "thoughtSignature",
        "thought",
    ],
    list: "contents",
    system: Some("systemInstruction"),
    longest_id: None,
    has_plain_ids: false,
    has_ids: true,
    sent_answer: |_| None,
};

/// Prefix of the ids of calls that were recorded without one. Such an id is not sent.
pub(crate) const UNNAMED: &str = "unnamed_";

/// Writes the parts of a message.
pub(crate) fn parts(out: &mut OutgoingMessage<'_>) -> Vec<Block> {
    let parts = out.parts();
    if let Content::ToolResult(answer) = out.content {
        return result(out, answer, &parts);
    }
    turns::blocks(out, &parts, call, simple)
}

fn call(id: &str, name: &str, arguments: &str) -> String {
    let mut function = Object::new();
    identify(&mut function, id);
    function.text("name", name);
    function.raw("args", arguments);
    part("functionCall", function.end())
}

fn identify(function: &mut Object, id: &str) {
    if !id.is_empty() && !id.starts_with(UNNAMED) {
        function.text("id", id);
    }
}

fn part(kind: &str, inner: String) -> String {
    Object::new().nest(kind, inner).end()
}

/// Writes a result: its texts as the response, then its images.
fn result(out: &mut OutgoingMessage<'_>, answer: &ToolAnswer, parts: &[Part]) -> Vec<Block> {
    let mut texts: Vec<&str> = Vec::new();
    let mut others = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } => texts.push(text),
            part => others.extend(simple(out, part, Speaker::Tool)),
        }
    }
    let name = out.tool_name().or(answer.name.as_deref()).unwrap_or_default();
    let text = raw::joined(&texts);
    let refers = !out.own && out.repairing && has_reference(&text);
    if refers && !answer.is_error && raw::is_object(text.trim()) {
        let what = "a result with \"$ref\" is sent as a text: Gemini would look it up";
        out.note(RepairKind::Changed, what.to_owned());
    }
    let response = response(&text, answer.is_error, refers);
    let answered = answered(out.call_id(&answer.call_id), name, response);
    let others = others.into_iter().map(|text| Block { sort: BlockKind::Other, text });
    std::iter::once(answered).chain(others).collect()
}

/// Writes a text as a response, which must be an object. An object is sent as it is; other texts
/// get Google's member names. Google resolves `$ref` in an object as a reference to another part.
fn response<'a>(text: &'a str, is_error: bool, refers: bool) -> Cow<'a, str> {
    if !is_error && !refers && raw::is_object(text.trim()) {
        return Cow::Borrowed(text.trim());
    }
    Cow::Owned(Object::new().text(if is_error { "error" } else { "output" }, text).end())
}

/// Returns whether an object contains a member `$ref` at any depth.
fn has_reference(text: &str) -> bool {
    fn has(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Object(members) => {
                members.iter().any(|(key, value)| key == "$ref" || has(value))
            }
            serde_json::Value::Array(values) => values.iter().any(has),
            _ => false,
        }
    }
    // The name may be written with escapes.
    let may = text.contains("ref") && (text.contains('$') || text.contains("\\u0024"));
    may && serde_json::from_str(text).is_ok_and(|value| has(&value))
}

fn answered(id: &str, name: &str, response: Cow<'_, str>) -> Block {
    let mut function = Object::new();
    identify(&mut function, id);
    function.text("name", name);
    function.nest("response", response);
    Block { sort: BlockKind::Result, text: part("functionResponse", function.end()) }
}

fn simple(out: &mut OutgoingMessage<'_>, part: &Part, speaker: Speaker) -> Option<String> {
    if let Some(why) = out.why_left_out(part, speaker) {
        out.left_out(why);
        return None;
    }
    let mut written = Object::new();
    match part {
        Part::Text { text } => {
            if !out.own && out.repairing && text.is_empty() {
                return None;
            }
            written.text("text", text);
        }
        Part::Image { media_type, source } => {
            let mut inner = Object::new();
            match source {
                ImageSource::Base64(data) => {
                    inner.text("mimeType", media_type.as_deref().unwrap_or("image/png"));
                    inner.text("data", data);
                    written.nest("inlineData", inner.end());
                }
                ImageSource::Url(uri) | ImageSource::File(uri) => {
                    if let Some(media_type) = media_type {
                        inner.text("mimeType", media_type);
                    }
                    inner.text("fileUri", uri);
                    written.raw("fileData", &inner.end());
                }
            }
        }
        Part::Reasoning { text, signature, .. } => {
            written.text("text", text);
            written.raw("thought", "true");
            if let Some(signature) = signature {
                written.text("thoughtSignature", signature);
            }
        }
        Part::Opaque { dialect, json } => return out.opaque(&FORMAT, dialect, json),
        Part::ToolCall(_) => return None,
    }
    Some(written.end())
}

/// Writes the placeholder of a missing result.
pub(crate) fn placeholder_result(answer: &PlaceholderResult, call_id: &str, name: &str) -> Block {
    answered(call_id, name, response(answer.text(), answer.is_error(), false))
}

/// Uses a part as received.
pub(crate) fn received(raw: &str) -> Block {
    let fields = raw::Node::root(raw).object().ok();
    let has = |key: &str| fields.as_ref().is_some_and(|fields| member(fields, key).is_some());
    let sort = match (has("functionCall"), has("functionResponse")) {
        (true, _) => BlockKind::Call,
        (false, true) => BlockKind::Result,
        (false, false) => BlockKind::Other,
    };
    Block { sort, text: raw.to_owned() }
}

/// Writes a part of text.
pub(crate) fn text(text: &str) -> String {
    Object::new().text("text", text).end()
}

/// Writes a content around its parts.
pub(crate) fn content(role: &str, parts: &str) -> String {
    Object::new().text("role", role).raw("parts", parts).end()
}
