//! Logs of Inspect: a zip with a document for each sample, compressed with deflate or zstd.
//!
//! A sample is read from its model calls, each of which contains its whole input. The messages that
//! a call adds to another one continue a branch, and an input that no branch leads to starts one.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde_json::{Map, Value};
use tract_core::{Content, Draft, JsonText, Part, ToolAnswer, ToolSchema, json};

use crate::damage::replacements;
use crate::document::{Conversation, Document, unreadable};
use crate::recording::{Cursor, RecordedMessage};
use crate::report::{AnomalyKind, TokenTotals};
use crate::values::{self, Metadata, model_config, recorded};

/// Maximum size of a sample in bytes.
const MAX_SAMPLE_BYTES: u64 = 256 << 20;
/// Maximum number of branches of a sample that an input is compared with.
const MAX_TIPS: usize = 64;
/// The zip method number of zstd.
const ZSTD: u16 = 93;

/// The end of a branch: its context, and the tools of its calls.
#[derive(Clone, Default)]
struct Tip {
    cursor: Cursor,
    /// Each set of tools, with the number of messages in the context when it came into force.
    tools: Vec<(usize, Option<JsonText>)>,
}

pub(crate) fn read(path: &Path) -> io::Result<Document> {
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(path)?)).map_err(damaged)?;
    let mut names: Vec<String> =
        archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect();
    names.retain(|name| name.starts_with("samples/") && name.ends_with(".json"));
    names.sort();
    let task = entry(&mut archive, "header.json").ok().and_then(|bytes| task(&bytes));
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let mut conversation = Conversation::default();
        let stem = name.trim_start_matches("samples/").trim_end_matches(".json");
        let run = task.as_ref().map(|(run, _)| run.as_str()).unwrap_or("sample");
        conversation.facts.session = Some(format!("{run}.{stem}"));
        conversation.facts.title = task.as_ref().and_then(|(_, title)| title.clone());
        conversation.recording.has_forks = true;
        let sample = entry(&mut archive, &name).and_then(|bytes| {
            let decoded = json::decode(&bytes);
            for (kind, what) in replacements(&decoded) {
                conversation.recording.odd(0, kind, what);
            }
            serde_json::from_str::<Value>(&decoded.text).map_err(|e| unreadable(&e))
        });
        match sample {
            Ok(sample) => say(&mut conversation, sample),
            Err(error) => {
                conversation.recording.report.lines += 1;
                conversation.recording.odd(
                    0,
                    AnomalyKind::UnreadableLine,
                    format!("{name}: {error}"),
                );
            }
        }
        all.push(conversation);
    }
    Ok(all)
}

fn damaged(error: zip::result::ZipError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the zip: {error}"))
}

fn task(header: &[u8]) -> Option<(String, Option<String>)> {
    let header: Value = serde_json::from_str(&json::decode(header).text).ok()?;
    let run = header.get("eval")?;
    let text = |name: &str| run.get(name).and_then(Value::as_str).map(str::to_owned);
    // Tasks of one run share the id of the run, and have an id each.
    let run = text("eval_id").or_else(|| Some(format!("{}.{}", text("run_id")?, text("task")?)));
    Some((run.or_else(|| text("run_id"))?, text("task")))
}

fn entry(archive: &mut zip::ZipArchive<impl Read + io::Seek>, name: &str) -> io::Result<Vec<u8>> {
    let index = archive.index_for_name(name).ok_or(io::ErrorKind::NotFound)?;
    let raw = archive.by_index_raw(index).map_err(damaged)?;
    #[expect(
        deprecated,
        reason = "the only way to name a method that the crate has no feature for"
    )]
    let method = raw.compression().to_u16();
    let mut bytes = Vec::new();
    if method == ZSTD {
        let decoder = ruzstd::decoding::StreamingDecoder::new(raw)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        decoder.take(MAX_SAMPLE_BYTES + 1).read_to_end(&mut bytes)?;
    } else {
        drop(raw);
        let file = archive.by_index(index).map_err(damaged)?;
        file.take(MAX_SAMPLE_BYTES + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_SAMPLE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than any sample may be"));
    }
    Ok(bytes)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn say(conversation: &mut Conversation, mut sample: Value) {
    let attachments = match sample.get_mut("attachments").map(Value::take) {
        Some(Value::Object(attachments)) => attachments,
        _ => Map::new(),
    };
    let mut pool = list(&sample, "message_pool").to_vec();
    if let (true, Some(data)) = (pool.is_empty(), sample.get("events_data")) {
        pool = list(data, "messages").to_vec();
    }
    let mut tips: Vec<Tip> = Vec::new();
    let events = match sample.get_mut("events").map(Value::take) {
        Some(Value::Array(events)) => events,
        _ => Vec::new(),
    };
    for (n, mut event) in events.into_iter().enumerate() {
        let number = n + 1;
        conversation.recording.report.lines += 1;
        let kind = event.get("event").and_then(Value::as_str).unwrap_or("untyped");
        if kind != "model" {
            conversation.recording.skip(kind);
            continue;
        }
        resolve(&mut event, &attachments);
        let mut input: Vec<Value> = list(&event, "input").to_vec();
        for range in list(&event, "input_refs") {
            let at = |n: usize| {
                let bound = range.get(n).and_then(Value::as_u64)?;
                usize::try_from(bound).ok()
            };
            let (from, to) = (at(0).unwrap_or_default(), at(1).unwrap_or_default());
            match pool.get(from..to) {
                Some(messages) => input.extend(messages.iter().cloned().map(|mut message| {
                    resolve(&mut message, &attachments);
                    message
                })),
                None => {
                    let what = "the input names messages that the pool does not have";
                    conversation.recording.unreadable(number, what);
                }
            }
        }
        call(conversation, number, &event, &input, &mut tips);
    }
    if tips.is_empty() {
        // No model call was logged, so use the final list.
        let mut input = list(&sample, "messages").to_vec();
        input.iter_mut().for_each(|message| resolve(message, &attachments));
        let messages = read_all(conversation, 0, None, &input);
        let mut cursor = Cursor::default();
        conversation.recording.change_to(&mut cursor, 0, messages);
    }
}

fn read_all(
    conversation: &mut Conversation,
    number: usize,
    at: Option<i64>,
    list: &[Value],
) -> Vec<RecordedMessage> {
    let mut messages = Vec::with_capacity(list.len());
    for value in list {
        match message(value, number, at) {
            Some(message) => messages.push(message),
            None => {
                conversation.recording.unreadable(number, "a message in no known shape");
            }
        }
    }
    messages
}

fn call(
    conversation: &mut Conversation,
    number: usize,
    event: &Value,
    input: &[Value],
    tips: &mut Vec<Tip>,
) {
    let at = values::time(event.get("timestamp").and_then(Value::as_str));
    let mut messages = read_all(conversation, number, at, input);
    // Find the branch that the input continues furthest.
    let best = tips.iter().enumerate().max_by_key(|(_, tip)| tip.cursor.shared_with(&messages));
    let best = best.filter(|(_, tip)| tip.cursor.shared_with(&messages) > 0).map(|(n, _)| n);
    let mut tip = best.and_then(|n| tips.get(n)).cloned().unwrap_or_default();
    let is_continued = tip.cursor.shared_with(&messages) == tip.cursor.entries().len();
    let cursor = &mut tip.cursor;
    cursor.truncate(cursor.shared_with(&messages));
    let shared = cursor.entries().len();
    tip.tools.retain(|(count, _)| *count <= shared);
    let offered = JsonText::of(event.get("tools").unwrap_or(&Value::Null)).ok();
    let mut tools = None;
    if tip.tools.last().and_then(|(_, tools)| tools.as_ref()) != offered.as_ref() {
        tools = Some(schemas(list(event, "tools")));
        tip.tools.push((messages.len().max(shared + 1), offered));
    }
    // The tools are stored with the last new message, which may be the answer.
    if let Some(last) = messages.get_mut(shared..).and_then(<[_]>::last_mut) {
        last.draft.tools = tools.take();
    }
    for message in messages.into_iter().skip(shared) {
        conversation.recording.append(cursor, message);
    }
    let output = event.get("output").unwrap_or(&Value::Null);
    let model = event.get("model").and_then(Value::as_str);
    let usage = output.get("usage").filter(|usage| usage.is_object()).map(usage);
    let (choice, others) = match list(output, "choices").split_first() {
        Some((choice, others)) => (Some(choice), others),
        None => (None, &[][..]),
    };
    let answer = choice.and_then(|choice| choice.get("message"));
    match answer.and_then(|answer| message(answer, number, at)) {
        Some(mut answer) => {
            let mut metadata = Metadata::default();
            metadata.set_some("message_id", answer.id.as_deref());
            if !others.is_empty() {
                metadata.set("other_choices", others.to_vec());
            }
            if let Some(usage) = &usage {
                metadata.usage(usage);
            }
            answer.draft.metadata = metadata.json();
            answer.draft.generation_config = model_config(model);
            answer.draft.tools = tools;
            conversation.recording.end_answer(cursor);
            conversation.recording.answer(model, usage.as_ref());
            conversation.recording.append(cursor, answer);
        }
        None => {
            conversation.recording.unreadable(number, "a call of the model without an answer");
        }
    }
    match best.filter(|_| is_continued).and_then(|n| tips.get_mut(n)) {
        Some(known) => *known = tip,
        None => {
            if tips.len() >= MAX_TIPS {
                tips.remove(0);
            }
            tips.push(tip);
        }
    }
}

fn usage(usage: &Value) -> TokenTotals {
    let number = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    TokenTotals {
        input: number("input_tokens"),
        output: number("output_tokens"),
        cache_read: number("input_tokens_cache_read"),
        cache_write: number("input_tokens_cache_write"),
        ..TokenTotals::default()
    }
}

/// Returns the tools of a call in the format of OpenAI's functions.
fn schemas(tools: &[Value]) -> Vec<ToolSchema> {
    let schema = |tool: &Value| {
        let function = serde_json::json!({
            "name": tool.get("name")?,
            "description": tool.get("description").unwrap_or(&Value::Null),
            "parameters": tool.get("parameters")?,
        });
        ToolSchema::of(&serde_json::json!({ "type": "function", "function": function })).ok()
    };
    tools.iter().filter_map(schema).collect()
}

/// Replaces the names of attachments with their contents.
fn resolve(value: &mut Value, attachments: &Map<String, Value>) {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("attachment://").or_else(|| text.strip_prefix("tc://"));
            if let Some(found) = name.and_then(|name| attachments.get(name)) {
                *value = found.clone();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| resolve(value, attachments)),
        Value::Object(members) => {
            members.values_mut().for_each(|value| resolve(value, attachments));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn message(value: &Value, line: usize, at: Option<i64>) -> Option<RecordedMessage> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let id = text("id");
    let parts = values::parts(value.get("content").unwrap_or(&Value::Null), part);
    let body = |parts: Vec<Part>| tract_core::Body { parts, name: None };
    let draft = match text("role")? {
        "system" => Draft::new(Content::System(body(parts))),
        "user" => Draft::new(Content::User(body(parts))),
        "assistant" => {
            let mut draft = parts.into_iter().fold(Draft::assistant(""), Draft::part);
            for call in list(value, "tool_calls") {
                let of = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
                let arguments = call.get("arguments").unwrap_or(&Value::Null);
                let arguments = match arguments {
                    Value::String(text) => text.clone(),
                    other => JsonText::of(other).ok()?.as_str().to_owned(),
                };
                draft = draft.call(of("id"), of("function"), arguments);
            }
            draft
        }
        "tool" => {
            let error = value.get("error").filter(|error| error.is_object());
            let error_text = error.and_then(|error| error.get("message")).and_then(Value::as_str);
            let parts = match error_text {
                Some(error_text) if parts.is_empty() => vec![Part::text(error_text)],
                _ => parts,
            };
            Draft::new(Content::ToolResult(ToolAnswer {
                call_id: text("tool_call_id").unwrap_or_default().to_owned(),
                name: text("function").map(str::to_owned),
                is_error: error.is_some(),
                parts,
            }))
        }
        _ => return None,
    };
    let draft = recorded(draft, id, at);
    Some(RecordedMessage { id: id.map(str::to_owned), line, draft })
}

fn part(block: &Value) -> Option<Part> {
    let text = |name: &str| block.get(name).and_then(Value::as_str).map(str::to_owned);
    match text("type")?.as_str() {
        "text" => text("text").map(Part::text),
        "reasoning" => {
            let is_redacted = block.get("redacted").and_then(Value::as_bool).unwrap_or_default();
            let (reasoning, signature) = (text("reasoning").unwrap_or_default(), text("signature"));
            Some(if is_redacted {
                Part::Reasoning { text: String::new(), signature, encrypted: Some(reasoning) }
            } else {
                Part::Reasoning { text: reasoning, signature, encrypted: None }
            })
        }
        _ => JsonText::of(block).ok().map(|json| Part::text(json.as_str())),
    }
}
