//! Logs of Inspect: a zip with a document for each sample, compressed with deflate or zstd.
//!
//! A sample is read from its model calls, each of which contains its whole input. The messages that
//! a call adds to another one continue a branch, and an input that no branch leads to starts one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tract_core::{Content, Draft, JsonText, Part, ToolAnswer, ToolSchema, json};

use crate::damage::{last_of_repeated, read_object, replacements};
use crate::document::{Conversation, Document, unreadable};
use crate::misfits;
use crate::object::Object;
use crate::recording::{Cursor, RecordedMessage, Recording};
use crate::report::{AnomalyKind, TokenTotals};
use crate::values::{self, Metadata, canonical, lenient, model_config, recorded, shown};

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
    let (mut task, mut odds) = (None, Vec::new());
    // A run that ended early has no header, but the journal of its start.
    for (name, title) in [("header.json", "header"), ("_journal/start.json", "start")] {
        if let (None, Ok(bytes)) = (&task, entry(&mut archive, name)) {
            let (read, more) = task_of(title, &bytes);
            task = read;
            odds.extend(more);
        }
    }
    let file = path.file_stem().map(|name| name.to_string_lossy()).unwrap_or_default();
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let mut conversation = Conversation::default();
        let stem = name.trim_start_matches("samples/").trim_end_matches(".json");
        let run = task.as_ref().map(|(run, _)| run.as_str()).unwrap_or(&*file);
        conversation.facts.session = Some(format!("{run}.{stem}"));
        conversation.facts.title = task.as_ref().and_then(|(_, title)| title.clone());
        conversation.recording.has_forks = true;
        let sample = entry(&mut archive, &name).and_then(|bytes| {
            let decoded = json::decode(&bytes);
            for (kind, what) in replacements(&decoded) {
                conversation.recording.odd(0, kind, what);
            }
            let without = last_of_repeated(&decoded.text);
            let text = without.as_ref().map_or(&*decoded.text, |(text, _)| text.as_str());
            let sample = serde_json::from_str::<Value>(text).map_err(|e| unreadable(&e))?;
            if let Some((_, what)) = without {
                conversation.recording.odd(0, AnomalyKind::DamagedLine, what);
            }
            Ok(sample)
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
    if let Some(first) = all.first_mut() {
        first.recording.odds(0, odds);
    }
    Ok(all)
}

fn damaged(error: zip::result::ZipError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the zip: {error}"))
}

/// The name and the title of a log.
type Task = (String, Option<String>);

/// Returns the name and the title of a log, by its header or the journal of its start, and the
/// anomalies of that.
fn task_of(path: &str, header: &[u8]) -> (Option<Task>, Vec<(AnomalyKind, String)>) {
    read_object(path, &json::decode(header).text, |header| {
        let run = header.object("eval")?;
        // Tasks of one run share the id of the run, and have an id each.
        let name = run.text("eval_id");
        let name = name.or_else(|| Some(format!("{}.{}", run.text("run_id")?, run.text("task")?)));
        Some((name.or_else(|| run.text("run_id"))?, run.text("task")))
    })
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
        None | Some(Value::Null) => Map::new(),
        Some(_) => {
            conversation.recording.unreadable(0, "attachments: not an object");
            Map::new()
        }
    };
    let mut pool = list(&sample, "message_pool").to_vec();
    if let (true, Some(data)) = (pool.is_empty(), sample.get("events_data")) {
        pool = list(data, "messages").to_vec();
    }
    let mut tips: Vec<Tip> = Vec::new();
    let events = match sample.get_mut("events").map(Value::take) {
        Some(Value::Array(events)) => events,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => {
            conversation.recording.unreadable(0, "events: not a list");
            Vec::new()
        }
    };
    // Each call of the model contains its whole input again.
    let mut reported = HashSet::new();
    for (n, mut event) in events.into_iter().enumerate() {
        let number = n + 1;
        conversation.recording.report.lines += 1;
        let Some(kind) = event.get("event").and_then(Value::as_str) else {
            let what = format!("events[{n}]: no text \"event\"");
            conversation.recording.unreadable(number, what);
            continue;
        };
        if kind != "model" {
            conversation.recording.skip(kind);
            continue;
        }
        let refs = event.get_mut("input_refs").map(Value::take).unwrap_or_default();
        let ranges: Vec<Value> = match refs {
            Value::Array(ranges) => ranges,
            Value::Null => Vec::new(),
            other => vec![other],
        };
        for range in ranges {
            let at = |n: usize| usize::try_from(range.get(n)?.as_u64()?).ok();
            let range = at(0).zip(at(1)).and_then(|(from, to)| pool.get(from..to));
            match (range, event.get_mut("input").and_then(Value::as_array_mut)) {
                (Some(messages), Some(input)) => input.extend_from_slice(messages),
                (Some(messages), None) => {
                    let messages = Value::Array(messages.to_vec());
                    event.as_object_mut().map(|event| event.insert("input".to_owned(), messages));
                }
                (None, _) => {
                    let what = "input_refs: message_pool does not have these messages";
                    conversation.recording.unreadable(number, what);
                }
            }
        }
        resolve(&mut event, &attachments);
        let text = event.to_string();
        let ((), misfits) = misfits::watch(&text, || {
            let event = Object::parse(&text).unwrap_or_default();
            call(conversation, number, &event, &mut tips);
        });
        for what in misfits.into_iter().map(|(_, what)| what) {
            if reported.insert(what.clone()) {
                conversation.recording.unreadable(number, what);
            }
        }
    }
    if tips.is_empty() {
        // No model call was logged, so use the final list.
        let mut input = sample.get_mut("messages").map(Value::take).unwrap_or_default();
        resolve(&mut input, &attachments);
        let text = input.to_string();
        let (messages, misfits) = misfits::watch_within("messages", &text, || {
            let input = serde_json::from_str::<&RawValue>(&text).ok();
            let input: Vec<&RawValue> = lenient(values::given(input)).unwrap_or_default();
            read_all(conversation, 0, None, &input)
        });
        misfits.into_iter().for_each(|(_, what)| conversation.recording.unreadable(0, what));
        let mut cursor = Cursor::default();
        conversation.recording.change_to(&mut cursor, 0, messages);
    }
}

fn read_all(
    conversation: &mut Conversation,
    number: usize,
    at: Option<i64>,
    list: &[&RawValue],
) -> Vec<RecordedMessage> {
    let mut messages = Vec::with_capacity(list.len());
    for raw in list {
        match message(&mut conversation.recording, raw, number, at) {
            Some(message) => messages.push(message),
            None => {
                conversation.recording.unreadable(number, "a message in no known shape");
            }
        }
    }
    messages
}

fn call(conversation: &mut Conversation, number: usize, event: &Object<'_>, tips: &mut Vec<Tip>) {
    let at = values::time(event.text("timestamp").as_deref());
    let mut messages = read_all(conversation, number, at, &event.list("input"));
    // Find the branch that the input continues furthest.
    let best = tips.iter().enumerate().max_by_key(|(_, tip)| tip.cursor.shared_with(&messages));
    let best = best.filter(|(_, tip)| tip.cursor.shared_with(&messages) > 0).map(|(n, _)| n);
    let mut tip = best.and_then(|n| tips.get(n)).cloned().unwrap_or_default();
    let is_continued = tip.cursor.shared_with(&messages) == tip.cursor.entries().len();
    let cursor = &mut tip.cursor;
    cursor.truncate(cursor.shared_with(&messages));
    let shared = cursor.entries().len();
    tip.tools.retain(|(count, _)| *count <= shared);
    let given = event.raw("tools");
    let offered = JsonText::new(given.map_or("null", RawValue::get)).ok();
    let mut tools = None;
    if tip.tools.last().and_then(|(_, tools)| tools.as_ref()) != offered.as_ref() {
        let list = event.list("tools");
        let known = schemas(&list);
        if known.len() < list.len() {
            let what = format!("tools: {} without a name or parameters", list.len() - known.len());
            conversation.recording.unreadable(number, what);
        }
        tools = Some(known);
        tip.tools.push((messages.len().max(shared + 1), offered));
    }
    // The tools are stored with the last new message, which may be the answer.
    if let Some(last) = messages.get_mut(shared..).and_then(<[_]>::last_mut) {
        last.draft.tools = tools.take();
    }
    for message in messages.into_iter().skip(shared) {
        conversation.recording.append(cursor, message);
    }
    let output = event.object("output").unwrap_or_default();
    let model = event.text("model");
    let usage = output.object("usage").map(|usage| self::usage(&usage));
    let choices = output.list("choices");
    let choice = choices.first().and_then(|choice| Object::of(Some(choice)));
    let others: Vec<Value> = choices.iter().skip(1).filter_map(|raw| lenient(Some(raw))).collect();
    let answer = choice.and_then(|choice| choice.raw("message"));
    match answer.and_then(|answer| message(&mut conversation.recording, answer, number, at)) {
        Some(mut answer) => {
            let mut metadata = Metadata::default();
            metadata.set_some("message_id", answer.id.as_deref());
            if !others.is_empty() {
                metadata.set("other_choices", others);
            }
            if let Some(usage) = &usage {
                metadata.usage(usage);
            }
            answer.draft.metadata = metadata.json();
            answer.draft.generation_config = model_config(model.as_deref());
            answer.draft.tools = tools;
            conversation.recording.end_answer(cursor);
            conversation.recording.answer(model.as_deref(), usage.as_ref());
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

fn usage(usage: &Object<'_>) -> TokenTotals {
    let number = |name: &str| usage.count(name).unwrap_or_default();
    TokenTotals {
        input: number("input_tokens"),
        output: number("output_tokens"),
        cache_read: number("input_tokens_cache_read"),
        cache_write: number("input_tokens_cache_write"),
        ..TokenTotals::default()
    }
}

/// Returns the tools of a call in the format of OpenAI's functions.
fn schemas(tools: &[&RawValue]) -> Vec<ToolSchema> {
    let schema = |raw: &&RawValue| {
        let tool: Value = lenient(Some(raw))?;
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

fn message(
    recording: &mut Recording,
    raw: &RawValue,
    line: usize,
    at: Option<i64>,
) -> Option<RecordedMessage> {
    let value = Object::of(Some(raw))?;
    let role = value.text("role")?;
    let parts = recording.blocks(line, value.raw("content"), part);
    let body = |parts: Vec<Part>| tract_core::Body { parts, name: None };
    let draft = match role.as_str() {
        "system" => Draft::new(Content::System(body(parts))),
        "user" => Draft::new(Content::User(body(parts))),
        "assistant" => {
            let mut draft = parts.into_iter().fold(Draft::assistant(""), Draft::part);
            for raw in value.list("tool_calls") {
                let call = Object::of(Some(raw)).unwrap_or_default();
                let arguments = call.raw("arguments").map_or_else(|| "null".to_owned(), shown);
                let (id, name) = (call.text("id"), call.text("function"));
                draft = draft.call(id.unwrap_or_default(), name.unwrap_or_default(), arguments);
            }
            draft
        }
        "tool" => {
            let error = value.object("error");
            let error_text = error.as_ref().and_then(|error| error.text("message"));
            let parts = match error_text {
                Some(error_text) if parts.is_empty() => vec![Part::text(error_text)],
                _ => parts,
            };
            Draft::new(Content::ToolResult(ToolAnswer {
                call_id: value.text("tool_call_id").unwrap_or_default(),
                name: value.text("function"),
                is_error: error.is_some(),
                parts,
            }))
        }
        _ => return None,
    };
    let id = value.text("id");
    let draft = recorded(draft, id.as_deref(), at);
    Some(RecordedMessage { id, line, draft })
}

/// Reads a block of a content; `None` for an unknown format.
fn part(raw: &RawValue) -> Option<Option<Part>> {
    let block = Object::of(Some(raw))?;
    Some(Some(match block.text("type")?.as_str() {
        "text" => Part::text(block.text("text")?),
        "reasoning" => {
            let (reasoning, signature) =
                (block.text("reasoning").unwrap_or_default(), block.text("signature"));
            if block.is_true("redacted") {
                Part::Reasoning { text: String::new(), signature, encrypted: Some(reasoning) }
            } else {
                Part::Reasoning { text: reasoning, signature, encrypted: None }
            }
        }
        _ => Part::text(canonical(raw)),
    }))
}
