//! Reads messages of LangChain from the dumps of their classes.

use std::collections::HashSet;

use serde_json::Value;
use tract_core::{Content, Draft, ImageSource, JsonText, Part, ToolAnswer};

use crate::recording::{RecordedMessage, Recording};
use crate::report::TokenTotals;
use crate::values::{Metadata, model_config, parts, recorded};

/// Returns whether a value is the dump of a message.
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
pub(crate) fn is_message(value: &Value) -> bool {
    kind(value).is_some()
}

/// Returns the word for a message's type, such as `human`.
fn kind(value: &Value) -> Option<&str> {
    let fields = value.get("kwargs")?;
    if let Some(kind) = fields.get("type").and_then(Value::as_str) {
        return Some(kind);
    }
    match value.get("id")?.as_array()?.last()?.as_str()? {
        "HumanMessage" | "HumanMessageChunk" => Some("human"),
        "AIMessage" | "AIMessageChunk" => Some("ai"),
        "SystemMessage" | "SystemMessageChunk" => Some("system"),
        "ToolMessage" | "ToolMessageChunk" => Some("tool"),
        _ => None,
    }
}

pub(crate) fn messages(
    list: &[Value],
    line: usize,
    at: Option<i64>,
    recording: &mut Recording,
    answers: &mut HashSet<String>,
) -> Vec<RecordedMessage> {
    let mut messages = Vec::with_capacity(list.len());
    for value in list {
        let fields = value.get("kwargs").unwrap_or(&Value::Null);
        let id = fields.get("id").and_then(Value::as_str);
        let Some(draft) = kind(value).and_then(|kind| draft(kind, fields)) else {
            recording.unreadable(line, "a message in no known shape");
            continue;
        };
        if matches!(draft.content, Content::Assistant(_)) {
            let key = id.map_or_else(|| format!("{:?}", draft.content), str::to_owned);
            if answers.insert(key) {
                recording.answer(model(fields), usage(fields).as_ref());
            }
        }
        let draft = recorded(draft, id, at);
        messages.push(RecordedMessage { id: id.map(str::to_owned), line, draft });
    }
    messages
}

fn model(fields: &Value) -> Option<&str> {
    let facts = fields.get("response_metadata")?;
    facts.get("model_name").or_else(|| facts.get("model"))?.as_str()
}

fn usage(fields: &Value) -> Option<TokenTotals> {
    let usage = fields.get("usage_metadata").filter(|usage| usage.is_object())?;
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let details = usage.get("input_token_details").unwrap_or(&Value::Null);
    let cached = number(details, "cache_read");
    // The sum is 0 if the lifetimes are reported.
    let hour = number(details, "ephemeral_1h_input_tokens");
    let split = number(details, "ephemeral_5m_input_tokens").saturating_add(hour);
    let written = number(details, "cache_creation").max(split);
    Some(TokenTotals {
        input: number(usage, "input_tokens").saturating_sub(cached).saturating_sub(written),
        output: number(usage, "output_tokens"),
        cache_read: cached,
        cache_write: written,
        cache_write_1h: hour,
    })
}

fn draft(kind: &str, fields: &Value) -> Option<Draft> {
    let parts = parts(fields.get("content").unwrap_or(&Value::Null), part);
    let with = |draft: Draft, parts: Vec<Part>| parts.into_iter().fold(draft, Draft::part);
    let empty = || tract_core::Body::default();
    Some(match kind {
        "system" | "developer" => with(Draft::new(Content::System(empty())), parts),
        "human" | "user" | "HumanMessageChunk" => with(Draft::new(Content::User(empty())), parts),
        "tool" | "ToolMessageChunk" => Draft::new(Content::ToolResult(ToolAnswer {
            call_id: fields.get("tool_call_id")?.as_str()?.to_owned(),
            name: fields.get("name").and_then(Value::as_str).map(str::to_owned),
            is_error: fields.get("status").and_then(Value::as_str) == Some("error"),
            parts,
        })),
        "ai" | "assistant" | "AIMessageChunk" => {
            let mut draft = with(Draft::assistant(""), parts);
            let calls = fields.get("tool_calls").and_then(Value::as_array);
            for call in calls.into_iter().flatten() {
                let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
                // The arguments were parsed, so the model's original text is lost.
                let arguments = call.get("args").unwrap_or(&Value::Null);
                draft = draft.call(text("id"), text("name"), canonical(arguments));
            }
            let mut metadata = Metadata::default();
            metadata.set_some("message_id", fields.get("id").and_then(Value::as_str));
            if let Some(usage) = usage(fields) {
                metadata.usage(&usage);
            }
            if draft.content.calls().next().is_some() {
                metadata.set("arguments", "canonical");
            }
            draft.metadata = metadata.json();
            draft.generation_config = model_config(model(fields));
            draft
        }
        _ => return None,
    })
}

fn canonical(value: &Value) -> String {
    JsonText::of(value).map_or_else(|_| value.to_string(), |text| text.as_str().to_owned())
}

fn part(block: &Value) -> Option<Part> {
    if let Value::String(text) = block {
        return Some(Part::text(text));
    }
    let text = |name: &str| block.get(name).and_then(Value::as_str).map(str::to_owned);
    match text("type")?.as_str() {
        "text" => text("text").map(Part::text),
        "thinking" | "reasoning" => Some(Part::Reasoning {
            text: text("thinking").or_else(|| text("reasoning")).unwrap_or_default(),
            signature: text("signature"),
            encrypted: None,
        }),
        // The calls are listed separately.
        "tool_use" | "tool_call" => None,
        "image_url" => {
            let url = block.get("image_url")?;
            let url = url.get("url").unwrap_or(url).as_str()?.to_owned();
            Some(Part::Image { media_type: None, source: ImageSource::Url(url) })
        }
        _ => Some(Part::text(canonical(block))),
    }
}
