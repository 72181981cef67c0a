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

/// Reads messages. `seen` has the answers that were counted and the members that were reported,
/// because a checkpoint contains all earlier messages again.
pub(crate) fn messages(
    list: &[&RawValue],
    line: usize,
    at: Option<i64>,
    recording: &mut Recording,
    seen: &mut HashSet<String>,
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
        let id = fields.text("id");
        let draft = match draft(kind, fields, line, recording) {
            Some(draft) => {
                for name in unread_members(&draft.content, fields) {
                    if seen.insert(format!("{name} {}", id.as_deref().unwrap_or(raw.get()))) {
                        recording.unreadable(line, format!("{name:?} is not read: unknown member"));
                    }
                }
                draft
            }
            None => {
                let what = format!("a message of the unknown type {kind:?}, kept as its JSON");
                recording.unreadable(line, what);
                injected(Draft::user(canonical(raw)), kind)
            }
        };
        if matches!(draft.content, Content::Assistant(_)) {
            let key = id.clone().unwrap_or_else(|| format!("{:?}", draft.content));
            if seen.insert(key) {
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

/// The ids and the names of the calls that a message lists.
struct ListedCalls<'a> {
    ids: HashSet<&'a str>,
    names: HashSet<&'a str>,
}

impl<'a> ListedCalls<'a> {
    fn new(calls: &'a [(String, String, String)]) -> Self {
        let ids = calls.iter().map(|(id, _, _)| id.as_str()).collect();
        Self { ids, names: calls.iter().map(|(_, name, _)| name.as_str()).collect() }
    }

    /// Returns whether a call is listed, by its id or else by its name.
    fn has(&self, id: Option<&str>, name: &str) -> bool {
        id.map_or_else(|| self.names.contains(name), |id| self.ids.contains(id))
    }
}

/// Returns the calls of a message as id, name and arguments: those that LangChain parsed, those that
/// it could not parse, else those of the provider's message.
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
    let is_answer = matches!(kind, "ai" | "assistant" | "AIMessageChunk");
    let calls = if is_answer { calls(fields) } else { Vec::new() };
    let listed = is_answer.then(|| ListedCalls::new(&calls));
    let read = |raw: &RawValue| part(raw, listed.as_ref());
    let mut parts = || recording.blocks(line, fields.raw("content"), read);
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
        _ if is_answer => {
            let parts = with_additional(fields, parts());
            let mut draft = with(Draft::assistant(""), parts);
            for (id, name, arguments) in calls {
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

/// Returns the members of a message that may hold content and are not read.
fn unread_members(content: &Content, fields: &Object<'_>) -> Vec<String> {
    // The members that `draft` reads, and what LangChain derives from them.
    const READ: [&str; 6] = [
        "tool_calls",
        "function_call",
        "reasoning_content",
        "reasoning",
        "refusal",
        "__openai_function_call_ids__",
    ];
    let is_answer = matches!(content, Content::Assistant(_));
    let mut names = Vec::new();
    let is_filled = |object: &Object<'_>, name: &str| {
        object.raw(name).is_some_and(|raw| !matches!(raw.get(), "\"\"" | "[]" | "{}"))
    };
    // The name of a result is that of its function.
    let member = if matches!(content, Content::ToolResult(_)) { "artifact" } else { "name" };
    if is_filled(fields, member) {
        names.push(member.to_owned());
    }
    let more = fields.object("additional_kwargs").unwrap_or_default();
    for name in more.names() {
        if is_filled(&more, name) && !(is_answer && READ.contains(&name)) {
            names.push(format!("additional_kwargs.{name}"));
        }
    }
    names
}

/// Adds the reasoning and the refusal that some providers' messages have next to the content.
fn with_additional(fields: &Object<'_>, mut parts: Vec<Part>) -> Vec<Part> {
    let Some(more) = fields.object("additional_kwargs") else { return parts };
    let summary = more.object("reasoning").map(|item| reasoning(&item));
    let text = more.filled("reasoning_content");
    let text = text.map(|text| Part::Reasoning { text, signature: None, encrypted: None });
    // The content may have the same reasoning in a block.
    let known = |part: &Part| match part {
        Part::Reasoning { text, encrypted, .. } => parts.iter().any(|other| {
            matches!(other, Part::Reasoning { text: other, encrypted: also, .. }
                if other == text && (encrypted.is_none() || also == encrypted))
        }),
        _ => false,
    };
    let is_empty = |part: &Part| matches!(part, Part::Reasoning { text, encrypted: None, .. } if text.is_empty());
    let mut first: Vec<Part> = [summary, text].into_iter().flatten().collect();
    first.retain(|part| !known(part) && !is_empty(part));
    first.dedup();
    first.append(&mut parts);
    // As in requests to OpenAI, a refusal is the text of the answer.
    let refusal = more.filled("refusal").map(Part::text);
    first.extend(refusal.filter(|refusal| !first.contains(refusal)));
    first
}

/// Reads a block of reasoning, or an item of reasoning of the Responses API.
fn reasoning(block: &Object<'_>) -> Part {
    let text = block.text("thinking").or_else(|| block.text("reasoning"));
    let summary = || {
        let texts = |name: &str| {
            let elements = block.list(name).into_iter();
            let texts = elements.filter_map(|raw| Object::of(Some(raw))?.text("text"));
            texts.collect::<Vec<_>>().join("\n\n")
        };
        let text = texts("summary");
        if text.is_empty() { texts("content") } else { text }
    };
    Part::Reasoning {
        text: text.unwrap_or_else(summary),
        signature: block.text("signature"),
        encrypted: block.text("encrypted_content"),
    }
}

/// Reads a block of a content: its part, or nothing for a call that is listed separately; `None` for
/// an unknown format. `listed` has the calls that an answer lists.
fn part(raw: &RawValue, listed: Option<&ListedCalls<'_>>) -> Option<Option<Part>> {
    let block = Object::of(Some(raw))?;
    Some(Some(match block.text("type")?.as_str() {
        "text" => Part::text(block.text("text")?),
        "thinking" | "reasoning" => reasoning(&block),
        "tool_use" | "tool_call" => {
            let (id, name) = (block.text("id"), block.text("name").unwrap_or_default());
            if listed?.has(id.as_deref(), &name) {
                return Some(None);
            }
            // The arguments of a streamed call are pieces of a text.
            let text = block.filled("partial_json");
            let value = || block.first(&["input", "args"]).map(values::shown);
            let arguments = text.or_else(value).unwrap_or_else(|| "{}".to_owned());
            Part::call(id.unwrap_or_default(), name, arguments)
        }
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
