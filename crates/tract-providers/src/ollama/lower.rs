//! Writes messages: one neutral message as a message of Ollama's chat API. The output for
//! `ollama-1` is frozen, because stored messages rely on it.

use tract_compile::{PlaceholderResult, RepairKind, Speaker};
use tract_core::{ImageSource, Part};

use crate::format::MessageFormat;
use crate::neutral::{OutgoingMessage, arguments_object};
use crate::raw::{self, Object};

/// The format of messages.
pub(crate) static FORMAT: MessageFormat = MessageFormat {
    form: "ollama-1",
    system_form: None,
    opaque: "ollama",
    opaque_types: &[],
    list: "messages",
    system: None,
    longest_id: None,
    has_plain_ids: false,
    has_ids: false,
    sent_answer: |_| None,
};

/// Writes a message; `None` if it would be empty.
pub(crate) fn message(out: &mut OutgoingMessage<'_>) -> Option<String> {
    let speaker = out.speaker();
    let parts = out.parts_with_failure();
    let (mut texts, mut thinking) = (Vec::new(), Vec::new());
    let (mut images, mut calls) = (Vec::new(), Vec::new());
    let mut recorded = out.content.calls().zip(0u32..);
    for part in parts.iter() {
        match part {
            Part::Text { text } => texts.push(text.as_str()),
            Part::Reasoning { text, .. } if out.own => thinking.push(text.as_str()),
            Part::Reasoning { .. } => {
                out.left_out("reasoning that this provider does not accept back");
            }
            Part::Image { source: ImageSource::Base64(data), .. } => {
                images.push(raw::literal(data))
            }
            Part::Image { source: ImageSource::Url(_) | ImageSource::File(_), .. } => {
                out.left_out("an image that is not carried along");
            }
            Part::ToolCall(_) => {
                let Some((call, index)) = recorded.next() else { continue };
                if speaker != Speaker::Assistant {
                    out.left_out("a tool call outside of an assistant's message");
                    continue;
                }
                let (id, name) = out.call(index, call);
                let mut function = Object::new();
                function.text("name", &name);
                function.raw("arguments", arguments_object(out, &id, &call.arguments));
                calls.push(Object::new().nest("function", function.end()).end());
            }
            Part::Opaque { dialect, .. } => {
                out.left_out(format!("a part that only {dialect} knows"));
            }
        }
    }
    let nothing = texts.iter().all(|text| text.is_empty()) && images.is_empty() && calls.is_empty();
    if out.repairing && !out.own && nothing && matches!(speaker, Speaker::User | Speaker::Assistant)
    {
        out.note(RepairKind::EmptyMessage, "a message with nothing to say: left out".to_owned());
        return None;
    }
    let mut message = Object::new();
    message.text("role", out.role_word("system"));
    message.text("content", &raw::joined(&texts));
    if !thinking.is_empty() {
        message.text("thinking", &raw::joined(&thinking));
    }
    if !images.is_empty() {
        message.nest("images", raw::array(images));
    }
    if speaker == Speaker::Tool {
        // Results are matched by the tool's name, which recordings of older clients lack.
        let name = if out.own { out.name() } else { out.tool_name().or(out.name()) };
        if let Some(name) = name {
            message.text("tool_name", name);
        }
    }
    if !calls.is_empty() {
        message.nest("tool_calls", raw::array(calls));
    }
    Some(message.end())
}

/// Writes a placeholder for a result. Ollama does not have a field for the call's id.
pub(crate) fn placeholder_result(answer: &PlaceholderResult, _call_id: &str, name: &str) -> String {
    Object::new().text("role", "tool").text("content", answer.text()).text("tool_name", name).end()
}
