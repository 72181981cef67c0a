//! Messages of pydantic-ai, as dumped by `ModelMessagesTypeAdapter`: a list of requests and
//! responses with their parts.

use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, ImageSource, Part, ToolAnswer};

use crate::document::{Conversation, Document};
use crate::object::Object;
use crate::recording::Recording;
use crate::report::TokenTotals;
use crate::tree::TreeEvent;
use crate::values::{self, Metadata, Raw, canonical, lenient, model_config, recorded, shown};

/// Returns whether an object is a message of a dump.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let kind = members.text("kind");
    let is_message = matches!(kind.as_deref(), Some("request" | "response"));
    is_message && members.list("parts").into_iter().all(|raw| part_kind(raw).is_some())
}

fn part_kind(raw: &RawValue) -> Option<String> {
    Object::of(Some(raw))?.text("part_kind")
}

/// Reads a single message. `instructions` are those of the message before.
pub(crate) fn item(text: &str, instructions: Option<&str>) -> Vec<Draft> {
    let mut conversation = Conversation::default();
    let mut instructions = instructions.map(str::to_owned);
    let Some(members) = Object::parse(text) else { return Vec::new() };
    message(&mut conversation, 1, &members, &mut instructions);
    let drafts = conversation.recording.events().into_iter().filter_map(|event| match event {
        TreeEvent::Message { draft, .. } => Some(*draft),
        _ => None,
    });
    drafts.collect()
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let mut conversation = Conversation::default();
    let messages: Vec<&RawValue> = match serde_json::from_slice(bytes) {
        Ok(list) => list,
        Err(_) => {
            let raw: &RawValue = serde_json::from_slice(bytes)?;
            let members = Object::of(Some(raw)).unwrap_or_default();
            conversation.facts.session = members.id("id").or_else(|| members.id("session_id"));
            members.list("messages")
        }
    };
    conversation.recording.report.lines = messages.len();
    let mut instructions = None;
    for (n, raw) in messages.into_iter().enumerate() {
        let line = n + 1;
        let Some(members) = Object::of(Some(raw)) else {
            conversation.recording.unreadable(line, "a message that is not an object");
            continue;
        };
        message(&mut conversation, line, &members, &mut instructions);
    }
    Ok(conversation.into())
}

fn message(
    conversation: &mut Conversation,
    line: usize,
    message: &Object<'_>,
    instructions: &mut Option<String>,
) {
    match message.text("kind").as_deref() {
        Some("request") => request(conversation, line, message, instructions),
        Some("response") => response(conversation, line, message),
        kind => {
            let what = format!("a message of the unknown kind {:?}", kind.unwrap_or(""));
            conversation.recording.unreadable(line, what);
        }
    }
}

fn request(
    conversation: &mut Conversation,
    line: usize,
    message: &Object<'_>,
    instructions: &mut Option<String>,
) {
    let sent = message.time("timestamp");
    conversation.recording.end_answer(&conversation.cursor);
    let given = message.filled("instructions");
    if given.is_some() && given != *instructions {
        let draft = Draft::system(given.as_deref().unwrap_or_default());
        conversation.say(None, line, recorded(draft, None, sent));
        *instructions = given;
    }
    for raw in message.list("parts") {
        let Some(part) = Object::of(Some(raw)) else {
            conversation.recording.unreadable(line, "a part that is not an object");
            continue;
        };
        let at = part.time("timestamp").or(sent);
        let recording = &mut conversation.recording;
        let content = part.raw("content");
        let body = |parts| Body { parts, name: None };
        let text = || content.map_or_else(String::new, shown);
        let draft = match part.text("part_kind").unwrap_or_default().as_str() {
            "system-prompt" => Draft::system(text()),
            "user-prompt" => Draft::new(Content::User(body(user(recording, line, content)))),
            "tool-return" | "builtin-tool-return" => result(&part, text(), false),
            // A retry of a call is its result; any other retry is a message of the framework.
            "retry-prompt" if part.has("tool_name") => result(&part, text(), true),
            "retry-prompt" => {
                let mut metadata = Metadata::default();
                metadata.set("injected", "retry-prompt");
                let mut draft = Draft::user(text());
                draft.metadata = metadata.json();
                draft
            }
            kind => {
                unknown(recording, line, kind);
                Draft::user(canonical(raw))
            }
        };
        conversation.say(None, line, recorded(draft, None, at));
    }
}

fn unknown(recording: &mut Recording, line: usize, kind: &str) {
    recording.unreadable(line, format!("a part of the unknown kind {kind:?}, kept as its JSON"));
}

fn result(part: &Object<'_>, text: String, is_error: bool) -> Draft {
    let call_id = part.text("tool_call_id").unwrap_or_default();
    let is_error = is_error || part.text("outcome").is_some_and(|outcome| outcome != "success");
    let (name, parts) = (part.text("tool_name"), vec![Part::text(text)]);
    Draft::new(Content::ToolResult(ToolAnswer { call_id, name, is_error, parts }))
}

/// Reads a user's content: a text, or a list of texts, images and files.
fn user(recording: &mut Recording, line: usize, content: Raw<'_>) -> Vec<Part> {
    let Some(list) = lenient::<Vec<&RawValue>>(content) else {
        return recording.message_content(line, content);
    };
    let mut parts = Vec::new();
    for raw in list {
        if let Some(text) = values::text(Some(raw)) {
            parts.push(Part::text(text));
            continue;
        }
        let element = Object::of(Some(raw)).unwrap_or_default();
        let media_type = element.text("media_type");
        let is_picture = media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
        let kind = element.text("kind").unwrap_or_default();
        let picture = match kind.as_str() {
            "image-url" => element.text("url").map(ImageSource::Url),
            // The data is URL-safe base64.
            "binary" if is_picture => element
                .text("data")
                .map(|data| ImageSource::Base64(data.replace('-', "+").replace('_', "/"))),
            _ => None,
        };
        match (picture, element.filled("content")) {
            (Some(source), _) => parts.push(Part::Image { media_type, source }),
            (None, Some(text)) => parts.push(Part::text(text)),
            (None, None) => {
                unknown(recording, line, &kind);
                parts.push(Part::text(canonical(raw)));
            }
        }
    }
    if parts.is_empty() { vec![Part::text("")] } else { parts }
}

fn response(conversation: &mut Conversation, line: usize, message: &Object<'_>) {
    let at = message.time("timestamp");
    let model = message.text("model_name");
    let usage = message.object("usage").map(|usage| tokens(&usage));
    let mut metadata = Metadata::default();
    metadata.set_some("message_id", message.text("provider_response_id"));
    metadata.set_some("stop_reason", message.text("finish_reason"));
    if let Some(usage) = &usage {
        metadata.usage(usage);
    }
    conversation.recording.end_answer(&conversation.cursor);
    conversation.recording.answer(model.as_deref(), usage.as_ref());
    let mut parts = Vec::new();
    let mut results = Vec::new();
    for raw in message.list("parts") {
        let part = Object::of(Some(raw)).unwrap_or_default();
        let kind = part.text("part_kind").unwrap_or_default();
        match kind.as_str() {
            "text" => parts.extend(part.filled("content").map(Part::text)),
            "thinking" => parts.push(Part::Reasoning {
                text: part.text("content").unwrap_or_default(),
                signature: part.text("signature"),
                encrypted: None,
            }),
            "tool-call" | "builtin-tool-call" => {
                let id = part.text("tool_call_id").unwrap_or_default();
                let name = part.text("tool_name").unwrap_or_default();
                // A text is the model's own; an object was parsed from it.
                let arguments = part.text("args").filter(|text| !text.is_empty());
                let arguments = arguments.or_else(|| part.raw("args").map(canonical));
                parts.push(Part::call(id, name, arguments.unwrap_or_else(|| "{}".to_owned())));
            }
            // A tool that the provider runs answers within the response.
            "builtin-tool-return" => {
                let text = part.raw("content").map_or_else(String::new, shown);
                results.push(result(&part, text, false));
            }
            "file" => {
                let content = part.raw("content").map(|raw| format!("[{}]", raw.get()));
                let list = content.and_then(|list| RawValue::from_string(list).ok());
                parts.extend(user(&mut conversation.recording, line, list.as_deref()));
            }
            _ => {
                unknown(&mut conversation.recording, line, &kind);
                parts.push(Part::text(canonical(raw)));
            }
        }
    }
    let mut draft = parts.into_iter().fold(Draft::assistant(""), Draft::part);
    draft.metadata = metadata.json();
    draft.generation_config = model_config(model.as_deref());
    conversation.say(None, line, recorded(draft, None, at));
    for draft in results {
        conversation.say(None, line, recorded(draft, None, at));
    }
}

/// Returns the tokens of a response. Those of the request include tokens read from a cache.
fn tokens(usage: &Object<'_>) -> TokenTotals {
    let input = usage.count("input_tokens").or_else(|| usage.count("request_tokens"));
    let output = usage.count("output_tokens").or_else(|| usage.count("response_tokens"));
    let all = TokenTotals::of_answer(input, usage.count("cache_read_tokens"), output);
    let cache_write = usage.count("cache_write_tokens").unwrap_or_default().min(all.input);
    TokenTotals { input: all.input - cache_write, cache_write, ..all }
}
