//! Writes items: one neutral message as items of Responses. The output for messages recorded as
//! `openai-responses-1` is frozen, because it decides which bytes are stored with them.

use tract_compile::{PlaceholderResult, RepairKind, Speaker};
use tract_core::{Content, ImageSource, Part};

use crate::format::MessageFormat;
use crate::neutral::OutgoingMessage;
use crate::openai::image_url;
use crate::raw::{self, Object};

/// The format of messages.
pub(crate) static FORMAT: MessageFormat = MessageFormat {
    form: "openai-responses-1",
    system_form: Some("openai-instructions-1"),
    opaque: "openai-responses",
    opaque_types: &[
        "*_call",
        "*_call_output",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "item_reference",
        "compaction",
        "compaction_summary",
        "context_compaction",
        "compaction_trigger",
        "input_file",
        "input_audio",
        "output_audio",
        "summary_text",
        "reasoning_text",
        "computer_screenshot",
        "encrypted_content",
        "additional_tools",
    ],
    list: "input",
    system: Some("instructions"),
    longest_id: Some(64),
    has_plain_ids: false,
    has_ids: true,
    sent_answer: |_| None,
};

/// Writes the items of a message; none if nothing in it would be accepted by the provider.
pub(crate) fn items(out: &mut OutgoingMessage<'_>) -> Vec<String> {
    let speaker = out.speaker();
    let parts = out.parts();
    let items = match speaker {
        Speaker::Assistant => assistant_items(out, &parts),
        Speaker::Tool => {
            let parts = out.parts_with_failure();
            let content = content(out, &parts, speaker).unwrap_or_else(|| r#""""#.to_owned());
            let Content::ToolResult(answer) = out.content else { return Vec::new() };
            vec![output(out.call_id(&answer.call_id), content)]
        }
        Speaker::System | Speaker::User => {
            if let [Part::Opaque { dialect, json }] = parts.as_ref() {
                return out.opaque(&FORMAT, dialect, json).into_iter().collect();
            }
            let role = out.role_word("developer");
            let content = content(out, &parts, speaker);
            content.map(|content| message(role, content)).into_iter().collect()
        }
    };
    if items.is_empty() && !out.own {
        out.note(RepairKind::EmptyMessage, "a message with nothing to say: left out".to_owned());
    }
    items
}

fn assistant_items(out: &mut OutgoingMessage<'_>, parts: &[Part]) -> Vec<String> {
    let mut items = Vec::new();
    let mut calls = out.content.calls().zip(0u32..);
    for part in parts {
        match part {
            Part::Text { text } => {
                if out.own || !out.repairing || !text.is_empty() {
                    items.push(message("assistant", raw::literal(text)));
                }
            }
            Part::ToolCall(_) => {
                let Some((call, index)) = calls.next() else { continue };
                let (id, name) = out.call(index, call);
                let mut item = Object::new();
                item.text("type", "function_call");
                item.text("call_id", &id);
                item.text("name", &name);
                item.text("arguments", &call.arguments);
                items.push(item.end());
            }
            Part::Reasoning { text, encrypted, .. } => {
                if !out.own {
                    out.left_out("reasoning that this provider does not accept back");
                    continue;
                }
                let mut summary = Vec::new();
                if !text.is_empty() {
                    let mut element = Object::new();
                    summary.push(element.text("type", "summary_text").text("text", text).end());
                }
                let mut item = Object::new();
                item.text("type", "reasoning");
                item.nest("summary", raw::array(summary));
                if let Some(encrypted) = encrypted {
                    item.text("encrypted_content", encrypted);
                }
                items.push(item.end());
            }
            Part::Image { .. } => out.left_out("an image outside of a user's message"),
            Part::Opaque { dialect, json } => {
                items.extend(out.opaque(&FORMAT, dialect, json));
            }
        }
    }
    items
}

/// Writes the content of a message or a result: a string if it is one text, else a list.
fn content(out: &mut OutgoingMessage<'_>, parts: &[Part], speaker: Speaker) -> Option<String> {
    if let [Part::Text { text }] = parts {
        return Some(raw::literal(text));
    }
    let mut elements = Vec::new();
    for part in parts {
        let mut element = Object::new();
        match part {
            Part::Text { text } => {
                element.text("type", "input_text");
                element.text("text", text);
            }
            Part::Image { media_type, source } => {
                if !out.own && speaker == Speaker::System {
                    out.left_out("an image outside of a user's message");
                    continue;
                }
                element.text("type", "input_image");
                // The reference requires it in an input, but the API accepted recordings without
                // it.
                if !out.own {
                    element.text("detail", "auto");
                }
                match (image_url(media_type.as_deref(), source), source) {
                    (Some(url), _) => element.text("image_url", &url),
                    (None, ImageSource::File(id)) if out.own => element.text("file_id", id),
                    (None, _) => {
                        out.left_out("an image that only its provider holds");
                        continue;
                    }
                };
            }
            Part::Opaque { dialect, json } => {
                elements.extend(out.opaque(&FORMAT, dialect, json));
                continue;
            }
            Part::Reasoning { .. } => {
                out.left_out("reasoning outside of an assistant's message");
                continue;
            }
            Part::ToolCall(_) => {
                out.left_out("a tool call outside of an assistant's message");
                continue;
            }
        }
        elements.push(element.end());
    }
    (!elements.is_empty()).then(|| raw::array(elements))
}

fn message(role: &str, content: String) -> String {
    Object::new().text("role", role).nest("content", content).end()
}

fn output(call_id: &str, content: String) -> String {
    let mut item = Object::new();
    item.text("type", "function_call_output");
    item.text("call_id", call_id);
    item.nest("output", content);
    item.end()
}

/// Writes a placeholder for a result.
pub(crate) fn placeholder_result(answer: &PlaceholderResult, call_id: &str) -> String {
    output(call_id, raw::literal(answer.text()))
}
