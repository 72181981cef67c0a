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
        "FunctionMessage" | "FunctionMessageChunk" => "function",
        "ChatMessage" | "ChatMessageChunk" => "chat",
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
        let Some((kind, fields)) = &read else {
            recording.unreadable(line, "a message in no known shape, kept as its JSON");
            let draft = injected(Draft::user(canonical(raw)), "unknown");
            messages.push(RecordedMessage { id: None, line, draft: recorded(draft, None, at) });
            continue;
        };
        let draft = draft(kind, fields, line, recording).unwrap_or_else(|| {
            let what = format!("a message of the unknown type {kind:?}, kept as its JSON");
            recording.unreadable(line, what);
            injected(Draft::user(canonical(raw)), kind)
        });
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

/// Marks a message that no user typed.
fn injected(mut draft: Draft, by: &str) -> Draft {
    let mut metadata = Metadata::default();
    metadata.set("injected", by);
    draft.metadata = metadata.json();
    draft
}

/// Reads a message of any role. One of another role than the usual ones is a user's message.
fn chat(fields: &Object<'_>, line: usize, recording: &mut Recording) -> Option<Draft> {
    let role = fields.text("role").unwrap_or_default();
    let known = match role.as_str() {
        "user" | "human" => "human",
        "assistant" | "ai" | "model" => "ai",
        "system" | "developer" => "system",
        "tool" | "function" => "tool",
        _ => {
            let what = format!("a message of the unknown role {role:?}, kept as a user's");
            recording.unreadable(line, what);
            return Some(injected(draft("human", fields, line, recording)?, &role));
        }
    };
    draft(known, fields, line, recording)
}

/// Returns the id of the call of a function, which has none: results name their function.
fn call_of_function(name: &str) -> String {
    format!("call-{name}")
}

/// Returns the calls of a message as id, name and arguments: those that LangChain parsed, those
/// that it could not parse, else those of the provider's message.
fn calls(fields: &Object<'_>) -> Vec<(String, String, String)> {
    let listed = |name: &str, arguments: fn(&RawValue) -> String, without: &str| {
        let read = |raw: &RawValue| {
            let call = Object::of(Some(raw)).unwrap_or_default();
            let arguments = call.raw("args").map_or_else(|| without.to_owned(), arguments);
            let (id, name) = (call.text("id"), call.text("name"));
            (id.unwrap_or_default(), name.unwrap_or_default(), arguments)
        };
        fields.list(name).into_iter().map(read).collect::<Vec<_>>()
    };
    // The arguments were parsed, so the model's original text is lost.
    let mut calls = listed("tool_calls", canonical, "null");
    calls.extend(listed("invalid_tool_calls", values::shown, ""));
    let more = fields.object("additional_kwargs").filter(|_| calls.is_empty()).unwrap_or_default();
    for raw in more.list("tool_calls") {
        let call = Object::of(Some(raw)).unwrap_or_default();
        let function = call.object("function").unwrap_or_default();
        let arguments = function.raw("arguments").map(values::shown);
        let (id, name) = (call.text("id"), function.text("name"));
        let (id, name) = (id.unwrap_or_default(), name.unwrap_or_default());
        calls.push((id, name, arguments.unwrap_or_default()));
    }
    if let Some(function) = more.object("function_call") {
        let name = function.text("name").unwrap_or_default();
        let arguments = function.raw("arguments").map(values::shown);
        calls.push((call_of_function(&name), name, arguments.unwrap_or_default()));
    }
    calls
}

fn draft(kind: &str, fields: &Object<'_>, line: usize, recording: &mut Recording) -> Option<Draft> {
    if matches!(kind, "chat" | "ChatMessageChunk") {
        return chat(fields, line, recording);
    }
    let with = |draft: Draft, parts: Vec<Part>| parts.into_iter().fold(draft, Draft::part);
    let empty = || tract_core::Body::default();
    let mut parts = || recording.blocks(line, fields.raw("content"), part);
    Some(match kind {
        "system" | "developer" | "SystemMessageChunk" => {
            with(Draft::new(Content::System(empty())), parts())
        }
        "human" | "user" | "HumanMessageChunk" => with(Draft::new(Content::User(empty())), parts()),
        "tool" | "ToolMessageChunk" => Draft::new(Content::ToolResult(ToolAnswer {
            call_id: fields.text("tool_call_id").unwrap_or_default(),
            name: fields.text("name"),
            is_error: fields.text("status").as_deref() == Some("error"),
            parts: parts(),
        })),
        "function" | "FunctionMessageChunk" => Draft::new(Content::ToolResult(ToolAnswer {
            call_id: call_of_function(&fields.text("name").unwrap_or_default()),
            name: fields.text("name"),
            is_error: false,
            parts: parts(),
        })),
        "ai" | "assistant" | "AIMessageChunk" => {
            let mut draft = with(Draft::assistant(""), parts());
            for (id, name, arguments) in calls(fields) {
                draft = draft.call(id, name, arguments);
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
        _ => match values::element(raw)?.as_slice() {
            [part] => part.clone(),
            _ => return None,
        },
    }))
}
