//! Reads messages of LangChain: the dumps of their classes, the output of `messages_to_dict`, and
//! their members alone.

use std::collections::HashSet;

use serde_json::value::RawValue;
use tract_core::{Content, Draft, ImageSource, Part, ToolAnswer};

use crate::object::Object;
use crate::recording::{RecordedMessage, Recording};
use crate::report::TokenTotals;
use crate::values::{self, Metadata, canonical, model_config, recorded};

/// Returns whether a value is the dump of a message's class.
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
pub(crate) fn is_dump(value: &serde_json::Value) -> bool {
    let has_kind = |value: &Object<'_>| kind_of(value).is_some();
    value.get("kwargs").is_some() && Object::parse(&value.to_string()).is_some_and(|v| has_kind(&v))
}

/// Returns the word for a message's type, such as `human`, and its members.
fn kind_of<'a>(value: &Object<'a>) -> Option<(String, Object<'a>)> {
    if !value.has("kwargs") {
        return Some((value.text("type")?, value.object("data").unwrap_or_else(|| value.clone())));
    }
    let fields = value.object("kwargs")?;
    if let Some(kind) = fields.text("type") {
        return Some((kind, fields));
    }
    let class = values::text(value.list("id").last().copied())?;
    let kind = match class.as_str() {
        "HumanMessage" | "HumanMessageChunk" => "human",
        "AIMessage" | "AIMessageChunk" => "ai",
        "SystemMessage" | "SystemMessageChunk" => "system",
        "ToolMessage" | "ToolMessageChunk" => "tool",
        _ => return None,
    };
    Some((kind.to_owned(), fields))
}

pub(crate) fn messages(
    list: &[&RawValue],
    line: usize,
    at: Option<i64>,
    recording: &mut Recording,
    answers: &mut HashSet<String>,
) -> Vec<RecordedMessage> {
    let mut messages = Vec::with_capacity(list.len());
    for raw in list {
        let value = Object::of(Some(raw)).unwrap_or_default();
        let read = kind_of(&value);
        let draft = read.as_ref().and_then(|(kind, fields)| draft(kind, fields, line, recording));
        let (Some(draft), Some((_, fields))) = (draft, &read) else {
            recording.unreadable(line, "a message in no known shape");
            continue;
        };
        let id = fields.text("id");
        if matches!(draft.content, Content::Assistant(_)) {
            let key = id.clone().unwrap_or_else(|| format!("{:?}", draft.content));
            if answers.insert(key) {
                recording.answer(model(fields).as_deref(), usage(fields).as_ref());
            }
        }
        let draft = recorded(draft, id.as_deref(), at);
        messages.push(RecordedMessage { id, line, draft });
    }
    messages
}

fn model(fields: &Object<'_>) -> Option<String> {
    let facts = fields.object("response_metadata")?;
    facts.text("model_name").or_else(|| facts.text("model"))
}

fn usage(fields: &Object<'_>) -> Option<TokenTotals> {
    let usage = fields.object("usage_metadata")?;
    let details = usage.object("input_token_details").unwrap_or_default();
    let number = |object: &Object<'_>, name: &str| object.count(name).unwrap_or_default();
    let cached = number(&details, "cache_read");
    // The sum is 0 if the lifetimes are reported.
    let hour = number(&details, "ephemeral_1h_input_tokens");
    let split = number(&details, "ephemeral_5m_input_tokens").saturating_add(hour);
    let written = number(&details, "cache_creation").max(split);
    Some(TokenTotals {
        input: number(&usage, "input_tokens").saturating_sub(cached).saturating_sub(written),
        output: number(&usage, "output_tokens"),
        cache_read: cached,
        cache_write: written,
        cache_write_1h: hour,
    })
}

fn draft(kind: &str, fields: &Object<'_>, line: usize, recording: &mut Recording) -> Option<Draft> {
    let with = |draft: Draft, parts: Vec<Part>| parts.into_iter().fold(draft, Draft::part);
    let empty = || tract_core::Body::default();
    let mut parts = || recording.blocks(line, fields.raw("content"), part);
    Some(match kind {
        "system" | "developer" => with(Draft::new(Content::System(empty())), parts()),
        "human" | "user" | "HumanMessageChunk" => with(Draft::new(Content::User(empty())), parts()),
        "tool" | "ToolMessageChunk" => Draft::new(Content::ToolResult(ToolAnswer {
            call_id: fields.text("tool_call_id")?,
            name: fields.text("name"),
            is_error: fields.text("status").as_deref() == Some("error"),
            parts: parts(),
        })),
        "ai" | "assistant" | "AIMessageChunk" => {
            let mut draft = with(Draft::assistant(""), parts());
            for raw in fields.list("tool_calls") {
                let call = Object::of(Some(raw)).unwrap_or_default();
                // The arguments were parsed, so the model's original text is lost.
                let arguments = call.raw("args").map_or_else(|| "null".to_owned(), canonical);
                let (id, name) = (call.text("id"), call.text("name"));
                draft = draft.call(id.unwrap_or_default(), name.unwrap_or_default(), arguments);
            }
            // Calls whose arguments LangChain could not parse, which are a text.
            for raw in fields.list("invalid_tool_calls") {
                let call = Object::of(Some(raw)).unwrap_or_default();
                let arguments = call.raw("args").map(values::shown).unwrap_or_default();
                let (id, name) = (call.text("id"), call.text("name"));
                draft = draft.call(id.unwrap_or_default(), name.unwrap_or_default(), arguments);
            }
            let mut metadata = Metadata::default();
            metadata.set_some("message_id", fields.text("id"));
            if let Some(usage) = usage(fields) {
                metadata.usage(&usage);
            }
            if draft.content.calls().next().is_some() {
                metadata.set("arguments", "canonical");
            }
            draft.metadata = metadata.json();
            draft.generation_config = model_config(model(fields).as_deref());
            draft
        }
        _ => return None,
    })
}

/// Reads a block of a content: its part, or nothing for a call, which is listed separately; `None` for
/// an unknown format.
fn part(raw: &RawValue) -> Option<Option<Part>> {
    let block = Object::of(Some(raw))?;
    Some(Some(match block.text("type")?.as_str() {
        "text" => Part::text(block.text("text")?),
        "thinking" | "reasoning" => Part::Reasoning {
            text: block.text("thinking").or_else(|| block.text("reasoning")).unwrap_or_default(),
            signature: block.text("signature"),
            encrypted: None,
        },
        "tool_use" | "tool_call" => return Some(None),
        "image_url" => {
            let url = block.text("image_url");
            let url = url.or_else(|| block.object("image_url")?.text("url"))?;
            Part::Image { media_type: None, source: ImageSource::Url(url) }
        }
        _ => Part::text(canonical(raw)),
    }))
}
