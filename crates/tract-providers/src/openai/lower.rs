//! Writes messages: one neutral message as a message of OpenAI's Chat Completions. The output for
//! messages recorded as `openai-chat-1` is frozen, because it decides which bytes are stored with
//! them.

use std::borrow::Cow;

use tract_compile::{PlaceholderResult, RepairKind, Speaker};
use tract_core::{Content, ImageSource, Part};
use tract_schema::Dialect;

use crate::format::MessageFormat;
use crate::neutral::OutgoingMessage;
use crate::raw::{self, Object};

/// The format of messages.
pub(crate) static FORMAT: MessageFormat = MessageFormat {
    form: "openai-chat-1",
    system_form: None,
    opaque: "openai",
    opaque_types: &[
        "input_audio",
        "audio_url",
        "video_url",
        "file",
        "file_url",
        "refusal",
        // Of other vendors with this API.
        "thinking",
        "reference",
        "document_url",
        "document",
        "guarded_text",
    ],
    list: "messages",
    system: None,
    longest_id: Some(40),
    has_plain_ids: false,
    has_ids: true,
    sent_answer: super::answer::sent,
};

/// Writes a message; `None` if nothing in it would be accepted by the provider.
pub(crate) fn message(out: &mut OutgoingMessage<'_>) -> Option<String> {
    let speaker = out.speaker();
    let parts = out.parts_with_failure();
    let mut elements = Vec::new();
    let mut calls = Vec::new();
    let mut recorded = out.content.calls().zip(0u32..);
    // A single text becomes a plain string without another copy, because it may be large.
    let mut first_text = None;
    for part in parts.iter() {
        match part {
            Part::Text { text } => {
                if elements.is_empty() && first_text.is_none() {
                    first_text = Some(text.as_str());
                    continue;
                }
                elements.extend(first_text.take().map(text_element));
                elements.push(text_element(text));
            }
            Part::Image { media_type, source } => {
                if !out.own && speaker != Speaker::User {
                    out.left_out("an image outside of a user's message");
                    continue;
                }
                match image(media_type.as_deref(), source) {
                    Some(element) => {
                        elements.extend(first_text.take().map(text_element));
                        elements.push(element);
                    }
                    None => out.left_out("an image that only its provider holds"),
                }
            }
            Part::ToolCall(_) => {
                if speaker != Speaker::Assistant {
                    out.left_out("a tool call outside of an assistant's message");
                    continue;
                }
                let Some((call, index)) = recorded.next() else { continue };
                let (id, name) = out.call(index, call);
                let mut function = Object::new();
                function.text("name", &name).text("arguments", &call.arguments);
                let mut element = Object::new();
                element.text("id", &id);
                element.text("type", "function");
                element.nest("function", function.end());
                calls.push(element.end());
            }
            Part::Reasoning { .. } => {
                if !out.own {
                    out.left_out("reasoning that this provider does not accept back");
                }
            }
            Part::Opaque { dialect, json } => {
                if let Some(element) = out.opaque(&FORMAT, dialect, json) {
                    elements.extend(first_text.take().map(text_element));
                    elements.push(element);
                }
            }
        }
    }
    let is_empty = elements.is_empty() && first_text.is_none();
    if speaker == Speaker::Assistant && out.repairing && is_empty && calls.is_empty() {
        out.note(RepairKind::EmptyMessage, "an assistant's empty message: left out".to_owned());
        return None;
    }
    if speaker == Speaker::User && !out.own && out.repairing && is_empty && !parts.is_empty() {
        out.note(RepairKind::EmptyMessage, "a message with nothing left: left out".to_owned());
        return None;
    }
    let mut message = Object::new();
    message.text("role", out.role_word("developer"));
    if let Content::ToolResult(answer) = out.content {
        message.text("tool_call_id", out.call_id(&answer.call_id));
    }
    match first_text {
        Some(text) => message.text("content", text),
        None if !elements.is_empty() => message.nest("content", raw::array(elements)),
        None if speaker == Speaker::Assistant => message.raw("content", "null"),
        None => message.text("content", ""),
    };
    // Only a recorded name is sent: results of OpenAI do not have one.
    let takes_name = |name: &&str| out.own || (speaker != Speaker::Tool && plain(name));
    if let Some(name) = out.name().filter(takes_name) {
        message.text("name", name);
    }
    if !calls.is_empty() {
        message.nest("tool_calls", raw::array(calls));
    }
    Some(message.end())
}

fn text_element(text: &str) -> String {
    Object::new().text("type", "text").text("text", text).end()
}

/// Writes a placeholder for a result. The format does not have a field for the tool's name.
pub(crate) fn placeholder_result(answer: &PlaceholderResult, call_id: &str, _name: &str) -> String {
    let mut message = Object::new();
    message.text("role", "tool").text("tool_call_id", call_id).text("content", answer.text()).end()
}

/// Returns whether OpenAI accepts a name. It rejects spaces and markup.
fn plain(name: &str) -> bool {
    tract_schema::accepts(Dialect::OpenAi, name)
}

fn image(media_type: Option<&str>, source: &ImageSource) -> Option<String> {
    let inner = Object::new().text("url", &image_url(media_type, source)?).end();
    Some(Object::new().text("type", "image_url").nest("image_url", inner).end())
}

/// Returns the URL or data URL of an image; `None` for an uploaded file.
pub(crate) fn image_url<'a>(
    media_type: Option<&str>,
    source: &'a ImageSource,
) -> Option<Cow<'a, str>> {
    match source {
        ImageSource::Url(url) => Some(Cow::Borrowed(url)),
        ImageSource::Base64(data) => {
            Some(Cow::Owned(format!("data:{};base64,{data}", media_type.unwrap_or("image/png"))))
        }
        ImageSource::File(_) => None,
    }
}
