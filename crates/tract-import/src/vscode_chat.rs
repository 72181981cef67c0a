//! Chats of VS Code: a JSON document each, or the JSONL files of newer versions, whose lines change
//! the document of the first line.

use std::collections::HashSet;

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, Part, ToolAnswer};

use crate::damage::recover;
use crate::document::{Conversation, Document};
use crate::misfits;
use crate::object::Object;
use crate::recording::Recording;
use crate::report::AnomalyKind;
use crate::values::{
    self, Metadata, canonical, has_members, lenient, model_config, recorded, shown,
};

/// Returns whether an object is a chat, or the first line of one.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let first = members.object("v").filter(|_| members.count("kind") == Some(0));
    let chat = first.as_ref().unwrap_or(members);
    chat.has_all(&["requests"])
        && (chat.has_all(&["sessionId", "creationDate"])
            || chat.has_all(&["requesterUsername", "responderUsername"]))
}

/// Maximum position of a change in a list, so that a damaged line does not fill the memory.
const MAX_PLACES: usize = 100_000;

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let mut conversation = Conversation::default();
    let document: Value = match serde_json::from_slice(bytes) {
        Ok(document) => document,
        Err(error) => replayed(bytes, &mut conversation.recording).ok_or_else(|| {
            let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            // Without the line that has the document, the others change nothing.
            let is_change = serde_json::from_slice::<IgnoredAny>(first).is_ok();
            if is_change { serde::de::Error::missing_field("kind") } else { error }
        })?,
    };
    let document = match document.get("kind").and_then(Value::as_u64) {
        // A file with only its first line, which contains the document.
        Some(0) => document.get("v").cloned().unwrap_or_default(),
        _ => document,
    };
    let text = document.to_string();
    let ((), misfits) = misfits::watch(&text, || {
        say(&mut conversation, &Object::parse(&text).unwrap_or_default());
    });
    // Members of the chat itself: the text has one line, and its changes are on other lines.
    misfits.into_iter().for_each(|(_, what)| conversation.recording.unreadable(0, what));
    Ok(conversation.into())
}

fn say(conversation: &mut Conversation, chat: &Object<'_>) {
    conversation.facts.session = chat.filled("sessionId");
    conversation.facts.title = chat.filled("customTitle");
    let requests = chat.list("requests");
    conversation.recording.report.lines = requests.len();
    for (n, raw) in requests.into_iter().enumerate() {
        let path = format!("requests[{n}]");
        let ((), misfits) =
            misfits::watch_within(&path, raw.get(), || match Object::of(Some(raw)) {
                Some(request) => exchange(conversation, n + 1, &request),
                None => conversation.recording.unreadable(n + 1, "a request that is not an object"),
            });
        misfits.into_iter().for_each(|(_, what)| conversation.recording.unreadable(n + 1, what));
    }
}

/// Replays the lines of a file: a document and its changes.
fn replayed(bytes: &[u8], recording: &mut Recording) -> Option<Value> {
    let mut document: Option<Value> = None;
    for (n, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let (number, line) = (n + 1, line.trim_ascii());
        if line.is_empty() {
            continue;
        }
        let changes = match serde_json::from_slice::<Value>(line) {
            Ok(change) => vec![change],
            Err(_) => changes_of_damaged(number, line, recording),
        };
        for change in changes {
            let mut replaced = Vec::new();
            let is_applied = apply(&mut document, change, &mut replaced);
            for step in replaced {
                let what = format!("{step}: not a list or an object, but a later line changes it");
                recording.unreadable(number, what);
            }
            if !is_applied {
                let what = "a change of no known \"kind\", or of a place \"k\" that the document does not have";
                recording.odd(number, AnomalyKind::UnreadableLine, what);
            }
        }
    }
    document
}

/// Reads the intact changes of a damaged line, and reports the damage.
fn changes_of_damaged(number: usize, line: &[u8], recording: &mut Recording) -> Vec<Value> {
    let text = String::from_utf8_lossy(line);
    let recovered = recover(&text, true, |record| has_members(record, &["kind"]));
    if recovered.records.is_empty() {
        recording.odd(number, AnomalyKind::UnreadableLine, "a line that is not JSON");
    } else {
        recording.odd(number, AnomalyKind::DamagedLine, recovered.describe());
    }
    recovered.records.iter().filter_map(|record| serde_json::from_str(record).ok()).collect()
}

/// Applies a change. Returns `false` if the document lacks its place.
fn apply(document: &mut Option<Value>, mut change: Value, replaced: &mut Vec<String>) -> bool {
    let kind = change.get("kind").and_then(Value::as_u64);
    let value = change.get_mut("v").map(Value::take);
    if kind == Some(0) {
        *document = value;
        return true;
    }
    let path = change.get("k").and_then(Value::as_array).cloned().unwrap_or_default();
    let from = change.get("i").and_then(Value::as_u64);
    let place = document.as_mut().and_then(|document| place(document, &path, replaced));
    match (kind, place) {
        (Some(1), Some(place)) => {
            *place = value.unwrap_or_default();
            true
        }
        (Some(2), Some(place)) => append(place, from, value, replaced),
        // Set to null, not removed, so that later changes still find the elements after it.
        (Some(3), Some(place)) => {
            *place = Value::Null;
            true
        }
        _ => false,
    }
}

/// Returns the place in a document at a path of names and numbers. Creates it if it is missing, also
/// in a value that is neither a list nor an object, which is added to `replaced`.
fn place<'a>(
    document: &'a mut Value,
    path: &[Value],
    replaced: &mut Vec<String>,
) -> Option<&'a mut Value> {
    let mut at = document;
    let mut before = String::from("v");
    for step in path {
        if !at.is_array() && !at.is_object() && !at.is_null() {
            replaced.push(before.clone());
            *at = Value::Null;
        }
        match step {
            Value::String(name) => before.push_str(&format!(".{name}")),
            step => before.push_str(&format!("[{step}]")),
        }
        at = match step {
            Value::String(name) => {
                if at.is_null() {
                    *at = Value::Object(serde_json::Map::new());
                }
                at.as_object_mut()?.entry(name.clone()).or_insert(Value::Null)
            }
            Value::Number(number) => {
                let number = usize::try_from(number.as_u64()?).ok().filter(|n| *n < MAX_PLACES)?;
                if at.is_null() {
                    *at = Value::Array(Vec::new());
                }
                let list = at.as_array_mut()?;
                if list.len() <= number {
                    list.resize(number + 1, Value::Null);
                }
                list.get_mut(number)?
            }
            _ => return None,
        };
    }
    Some(at)
}

/// Adds values to a list. With a position, replaces the elements from there on.
fn append(
    list: &mut Value,
    from: Option<u64>,
    values: Option<Value>,
    replaced: &mut Vec<String>,
) -> bool {
    if !list.is_array() {
        if !list.is_null() {
            replaced.push("k".to_owned());
        }
        *list = Value::Array(Vec::new());
    }
    let Some(list) = list.as_array_mut() else { return false };
    if let Some(from) = from.and_then(|from| usize::try_from(from).ok()) {
        list.truncate(from);
    }
    match values {
        Some(Value::Array(values)) => list.extend(values),
        Some(Value::Null) | None => {}
        Some(_) => return false,
    }
    true
}

/// Reads a request of the user and its answer.
fn exchange(conversation: &mut Conversation, line: usize, request: &Object<'_>) {
    let at = request.time("timestamp");
    let id = request.text("requestId");
    let message = request.object("message").unwrap_or_default();
    let text = message.text("text").or_else(|| {
        let parts = message.list("parts").into_iter().filter_map(|raw| Object::of(Some(raw)));
        let texts: Vec<String> = parts.filter_map(|part| part.text("text")).collect();
        (!texts.is_empty()).then(|| texts.concat())
    });
    let text = text.or_else(|| request.text("message"));
    let Some(text) = text else {
        let what = format!("a request without a text; members: {}", request.names().join(", "));
        return conversation.recording.unreadable(line, what);
    };
    let before = conversation.cursor.entries().len();
    conversation.say(id.as_deref(), line, recorded(Draft::user(text), id.as_deref(), at));
    let variables = request.object("variableData").unwrap_or_default();
    for raw in variables.list("variables") {
        let name = Object::of(Some(raw)).and_then(|variable| variable.text("name"));
        let what =
            format!("variableData: the attachment {:?} is not read", name.unwrap_or_default());
        conversation.recording.unreadable(line, what);
    }
    let result = request.object("result").unwrap_or_default();
    let metadata = result.object("metadata").unwrap_or_default();
    let model = request.filled("modelId").or_else(|| metadata.filled("modelMessageId"));
    let model = model.map(|model| model.strip_prefix("copilot/").unwrap_or(&model).to_owned());
    let own = request.text("responseId").or_else(|| id.map(|id| format!("{id}#answer")));
    let mut answer = Answer {
        conversation: &mut *conversation,
        line,
        at,
        id: own,
        model: model.as_deref(),
        count: 0,
    };
    let rounds = metadata.list("toolCallRounds");
    if rounds.is_empty() {
        answer.shown(&response(request));
    } else {
        answer.rounds(&rounds, &metadata);
        // The last text is only shown; in older files no round contains it.
        if !answer.ends_with_text(&rounds) {
            answer.last_text(&response(request));
        }
    }
    if let Some(error) = result.object("errorDetails") {
        let code = error.text("code").unwrap_or_else(|| "other".to_owned());
        conversation.recording.skip(format!("error:{code}"));
    }
    // The user went back to a checkpoint before the request.
    let is_removed = ["shouldBeRemovedOnSend", "isHidden"].into_iter().any(|name| {
        request.raw(name).is_some_and(|raw| raw.get() == "true" || raw.get().starts_with('{'))
    });
    if is_removed {
        let entries = conversation.cursor.entries().iter().skip(before);
        let items = entries.map(|entry| entry.item).collect();
        conversation.recording.leave_out(&mut conversation.cursor, line, items, at);
    }
}

/// Returns the parts of the answer that the interface shows: a list, or one text.
fn response<'a>(request: &Object<'a>) -> Vec<&'a RawValue> {
    match request.text("response") {
        Some(_) => request.raw("response").into_iter().collect(),
        None => request.list("response"),
    }
}

struct Answer<'a> {
    conversation: &'a mut Conversation,
    line: usize,
    at: Option<i64>,
    id: Option<String>,
    model: Option<&'a str>,
    count: usize,
}

impl Answer<'_> {
    fn say(&mut self, mut draft: Draft) {
        if matches!(draft.content, Content::Assistant(_)) {
            if draft.content.parts().is_empty() {
                return self.conversation.recording.skip("empty answer");
            }
            draft.generation_config = model_config(self.model);
            let mut metadata = Metadata::default();
            metadata
                .set_some("message_id", self.id.as_ref().map(|id| format!("{id}#{}", self.count)));
            draft.metadata = metadata.json();
            let recording = &mut self.conversation.recording;
            recording.end_answer(&self.conversation.cursor);
            recording.answer(self.model, None);
        }
        let own = self.id.as_ref().map(|id| format!("{id}#{}", self.count));
        self.count += 1;
        let draft = recorded(draft, self.id.as_deref(), self.at);
        self.conversation.say(own.as_deref(), self.line, draft);
    }

    /// Reads the model's rounds: texts, calls, and their results.
    fn rounds(&mut self, rounds: &[&RawValue], metadata: &Object<'_>) {
        let results = metadata.object("toolCallResults").unwrap_or_default();
        let mut used = HashSet::new();
        for raw in rounds {
            let round = Object::of(Some(raw)).unwrap_or_default();
            let mut draft = Draft::assistant("");
            if let Some(thinking) = round.object("thinking") {
                let list: Option<Vec<String>> = lenient(thinking.raw("text"));
                let text = list.map(|texts| texts.join("")).or_else(|| thinking.text("text"));
                draft = draft.part(Part::Reasoning {
                    text: text.unwrap_or_default(),
                    signature: None,
                    encrypted: thinking.text("encrypted"),
                });
            }
            let list: Option<Vec<String>> =
                lenient(round.raw("response").filter(|raw| raw.get().starts_with('[')));
            let text = list.map(|texts| texts.concat()).or_else(|| round.text("response"));
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                draft = draft.part(Part::text(text));
            }
            let mut answered = Vec::new();
            for raw in round.list("toolCalls") {
                let call = Object::of(Some(raw)).unwrap_or_default();
                let arguments = call.text("arguments");
                let arguments = arguments.or_else(|| call.raw("arguments").map(canonical));
                let arguments = arguments.filter(|text| !text.is_empty());
                let id = call.text("id").unwrap_or_default();
                let name = call.text("name").unwrap_or_default();
                let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
                draft = draft.call(&id, &name, arguments);
                let Some(result) = results.object(&id) else { continue };
                if used.insert(id.clone()) {
                    answered.push((id, name, result));
                } else {
                    let what = format!("a second call {id:?}: the first one has the result");
                    self.conversation.recording.unreadable(self.line, what);
                }
            }
            self.say(draft);
            for (call_id, name, result) in answered {
                let (name, is_error) = (Some(name), result.is_true("isError"));
                let parts = vec![Part::text(texts(&result))];
                let answer = ToolAnswer { call_id, name, is_error, parts };
                self.say(Draft::new(Content::ToolResult(answer)));
            }
        }
        for id in results.names().into_iter().filter(|id| !used.contains(*id)) {
            let what = format!("toolCallResults: the result of {id:?} belongs to no call");
            self.conversation.recording.unreadable(self.line, what);
        }
    }

    fn ends_with_text(&self, rounds: &[&RawValue]) -> bool {
        let last = rounds.last().and_then(|raw| Object::of(Some(raw))).unwrap_or_default();
        last.has("response") && last.list("toolCalls").is_empty()
    }

    /// Adds the text shown after the last call.
    fn last_text(&mut self, response: &[&RawValue]) {
        let parts = response.iter().rev();
        let after = parts.take_while(|raw| {
            let part = Object::of(Some(**raw).filter(|raw| raw.get().starts_with('{')));
            let kind = part.and_then(|part| part.text("kind"));
            !kind.is_some_and(|kind| kind.starts_with("toolInvocation"))
        });
        let mut after: Vec<&RawValue> = after.copied().collect();
        after.reverse();
        let draft =
            after.into_iter().filter_map(shown_text).fold(String::new(), |mut all, text| {
                all.push_str(&text);
                all
            });
        self.say(Draft::assistant(draft));
    }

    /// Reads an answer without rounds from the texts that the interface shows. Calls are only
    /// described in words.
    fn shown(&mut self, response: &[&RawValue]) {
        let mut answer = String::new();
        let mut thought = String::new();
        let mut skipped: HashSet<String> = HashSet::new();
        for (n, raw) in response.iter().copied().enumerate() {
            let part = Object::of(Some(raw).filter(|raw| raw.get().starts_with('{')));
            let part = part.unwrap_or_default();
            match part.text("kind").as_deref() {
                None
                | Some("markdownContent" | "markdownVuln" | "inlineReference" | "codeblock") => {
                    let text = shown_text(raw).unwrap_or_else(|| {
                        let what =
                            format!("response[{n}]: a part without a text, kept as its JSON");
                        self.conversation.recording.unreadable(self.line, what);
                        canonical(raw)
                    });
                    answer.push_str(&text);
                }
                Some("thinking") => {
                    let list: Option<Vec<String>> = lenient(part.raw("value"));
                    let text = list.map(|texts| texts.join("")).or_else(|| part.text("value"));
                    thought.extend(text);
                }
                Some(kind @ ("toolInvocation" | "toolInvocationSerialized")) => {
                    let name = part.text("toolId").unwrap_or_default();
                    let what = format!("the call of {name:?} is shown without its arguments");
                    self.conversation.recording.unreadable(self.line, what);
                    skipped.insert(kind.to_owned());
                }
                Some(kind) => self.conversation.recording.skip(kind),
            }
        }
        for kind in skipped {
            self.conversation.recording.skip(kind);
        }
        let mut draft = Draft::assistant("");
        if !thought.is_empty() {
            let (signature, encrypted) = (None, None);
            draft = draft.part(Part::Reasoning { text: thought, signature, encrypted });
        }
        if !answer.is_empty() {
            draft = draft.part(Part::text(answer));
        }
        self.say(draft);
    }
}

/// Returns the text of a part, which may be a text itself.
fn shown_text(raw: &RawValue) -> Option<String> {
    values::text(Some(raw)).or_else(|| markdown(&Object::of(Some(raw))?))
}

/// Returns the text of a part that is shown as Markdown.
fn markdown(part: &Object<'_>) -> Option<String> {
    if part.text("kind").as_deref() == Some("inlineReference") {
        let name = part.text("name").or_else(|| {
            let reference = part.object("inlineReference")?;
            let place = reference.object("location").and_then(|place| place.object("uri"));
            place.unwrap_or(reference).text("path")
        });
        return name.map(|name| format!("`{name}`"));
    }
    if part.text("kind").as_deref() == Some("codeblock") {
        return part.text("code");
    }
    if part.has("kind") && !part.text("kind").is_some_and(|kind| kind.starts_with("markdown")) {
        return None;
    }
    let content = part.text("content").or_else(|| part.object("content")?.text("value"));
    part.text("value").or(content)
}

/// Returns the texts of a result, which may be elements of a prompt.
fn texts(result: &Object<'_>) -> String {
    let content = result.list("content");
    let texts = content.into_iter().map(|raw| {
        let part = Object::of(Some(raw)).unwrap_or_default();
        match part.raw("value") {
            Some(value) => values::text(Some(value)).unwrap_or_else(|| prompt(value)),
            None => shown(raw),
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the texts in the tree of a prompt, or its JSON without any.
fn prompt(raw: &RawValue) -> String {
    fn collect(value: &Value, texts: &mut String) {
        if let Some(text) = value.get("text").and_then(Value::as_str) {
            texts.push_str(text);
        }
        let inner = [value.get("node"), value.get("children")].into_iter().flatten();
        for inner in inner {
            match inner {
                Value::Array(list) => list.iter().for_each(|value| collect(value, texts)),
                value => collect(value, texts),
            }
        }
    }
    let mut texts = String::new();
    if let Some(value) = lenient::<Value>(Some(raw)) {
        collect(&value, &mut texts);
    }
    if texts.is_empty() { canonical(raw) } else { texts }
}
