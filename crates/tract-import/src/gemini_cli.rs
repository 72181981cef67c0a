//! Sessions of Gemini CLI: JSONL files that are replayed, and the JSON documents of older versions.
//!
//! A message that is written again under its id replaces the first one, a rewind removes a message
//! and all after it, and a checkpoint replaces everything.

pub(crate) mod answer;
mod record;

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText};

use self::answer::{Answer, Tokens, results, user};
use self::record::{Layout, Record, Records};

use crate::facts::Facts;
use crate::line_reader::LineReader;
use crate::object::Object;
use crate::recording::{Cursor, RecordedNote, Recording};
use crate::report::{AnomalyKind, TokenTotals};
use crate::values::{self, Metadata, Raw, has_members, lenient};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    id: Option<String>,
    #[serde(rename = "type")]
    line_type: Option<String>,
    timestamp: Option<String>,
    session_id: Option<String>,
    kind: Option<String>,
    #[serde(default, deserialize_with = "values::members")]
    directories: Option<Vec<String>>,
    summary: Option<String>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    thoughts: Raw<'a>,
    #[serde(borrow)]
    tool_calls: Raw<'a>,
    #[serde(borrow)]
    tokens: Raw<'a>,
    model: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(rename = "$set", borrow)]
    set: Raw<'a>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<String>,
}

/// Reads a session line by line, without looking ahead.
#[derive(Default)]
pub(crate) struct GeminiReader {
    recording: Recording,
    cursor: Cursor,
    facts: Facts,
    records: Records,
    /// Whether the file is a single document, which the tool rewrites as a whole.
    is_document: bool,
    /// The latest model and tokens of each answer.
    answers: HashMap<String, (Option<String>, Option<TokenTotals>)>,
    /// The calls whose results are part of the answer.
    answered: HashSet<String>,
    /// The calls whose results are separate messages.
    separate: HashSet<String>,
}

/// Returns whether an object is a chat, or the first line of one.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let has = |name| members.text(name).is_some();
    has("sessionId") && (has("projectHash") || has("startTime"))
}

impl LineReader for GeminiReader {
    fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let line: Line<'_> = values::read_record(bytes)?;
        if let Some(set) = line.set {
            match lenient::<Line<'_>>(Some(set)) {
                Some(set) => self.metadata(number, &set),
                None => {
                    self.recording.unreadable(number, "a change of the session in no known shape")
                }
            }
            self.recording.skip("$set");
        } else if let Some(id) = &line.rewind_to {
            self.rewind(id);
            self.recording.skip("$rewindTo");
        } else if line.line_type.is_some() {
            self.record(number, &line);
        } else {
            self.metadata(number, &line);
            self.recording.skip("session");
        }
        Ok(())
    }

    fn is_record(text: &str) -> bool {
        let kinds: [&[&str]; 4] =
            [&["id", "type", "timestamp"], &["sessionId"], &["$set"], &["$rewindTo"]];
        kinds.iter().any(|members| has_members(text, members))
    }

    fn finish(&mut self) -> Facts {
        let mut answers: Vec<_> = std::mem::take(&mut self.answers).into_iter().collect();
        answers.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, (model, usage)) in answers {
            self.recording.answer(model.as_deref(), usage.as_ref());
        }
        self.recording.resume_at(&self.cursor, None);
        std::mem::take(&mut self.facts)
    }
}

/// The place of an id in a list of messages.
#[derive(Clone, Copy)]
struct IdPosition {
    record: usize,
    /// The position of the last message with the id.
    message: usize,
    /// Whether the record has the id; otherwise an earlier one has it.
    is_named: bool,
}

/// Returns whether a message is an earlier one that has grown since: one of the same type whose text
/// begins with the earlier text, with all of its calls.
fn grows_to(before: &RawValue, after: &RawValue) -> bool {
    fn text(content: &Value) -> String {
        match content {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let part = |part: &Value| match part.get("text").and_then(Value::as_str) {
                    Some(text) => text.to_owned(),
                    None => part.to_string(),
                };
                parts.iter().map(part).collect()
            }
            other => other.to_string(),
        }
    }
    let read = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    let (before, after) = (read(before), read(after));
    let content = |message: &Value| message.get("content").map(text).unwrap_or_default();
    let calls = |message: &Value| -> Vec<Value> {
        let calls = message.get("toolCalls").and_then(Value::as_array).into_iter().flatten();
        calls.filter_map(|call| call.get("id").cloned()).collect()
    };
    let after_calls = calls(&after);
    before.get("type") == after.get("type")
        && content(&after).starts_with(&content(&before))
        && calls(&before).iter().all(|id| after_calls.contains(id))
}

impl GeminiReader {
    /// Reads a file of an older version: one document.
    pub(crate) fn document(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let line: Line<'_> = values::read_record(bytes)?;
        self.is_document = true;
        self.recording.report.lines = line.messages.as_ref().map_or(1, Vec::len);
        self.metadata(1, &line);
        Ok(())
    }

    fn metadata(&mut self, number: usize, line: &Line<'_>) {
        if self.facts.session.is_none() {
            self.facts.session.clone_from(&line.session_id);
        }
        self.recording.is_agent |= line.kind.as_deref() == Some("subagent");
        if line.summary.is_some() {
            self.facts.title.clone_from(&line.summary);
        }
        if let Some(folder) = line.directories.iter().flatten().next() {
            self.facts.cwd = Some(folder.clone());
        }
        let Some(messages) = &line.messages else { return };
        // A checkpoint replaces everything.
        let before = std::mem::take(&mut self.records);
        let known: HashMap<&str, &Record> =
            before.iter().filter_map(|record| Some((record.id.as_deref()?, record))).collect();
        let mut places: HashMap<String, IdPosition> = HashMap::new();
        let mut records: Vec<Record> = Vec::with_capacity(messages.len());
        for (n, message) in messages.iter().enumerate() {
            let number = if messages.len() > 1 && number == 1 { n + 1 } else { number };
            let Some(mut read) = lenient::<Line<'_>>(Some(message)) else {
                self.recording.unreadable(number, "a message in no known shape");
                continue;
            };
            let id = read.id.clone();
            let mut place = id.as_ref().and_then(|id| places.get(id)).copied();
            let is_other = place.is_some_and(|place| {
                let before = messages.get(place.message).copied();
                !before.is_some_and(|before| grows_to(before, message))
            });
            if is_other {
                let what = "a message with the id of another one, kept as a message without an id";
                self.recording.unreadable(number, what);
                place = None;
            }
            let is_named = !is_other && place.is_none_or(|place| place.is_named);
            if !is_named {
                read.id = None;
            }
            let same = match place {
                Some(place) => records.get(place.record),
                None => read.id.as_deref().and_then(|id| known.get(id).copied()),
            };
            let layout = match same {
                Some(same) => Layout::of(same),
                None if self.is_document => Layout::of_document(),
                None => Layout::default(),
            };
            let Some(record) = self.read(number, &read, &layout) else { continue };
            let at = place.map_or(records.len(), |place| place.record);
            places.extend(id.map(|id| (id, IdPosition { record: at, message: n, is_named })));
            match records.get_mut(at) {
                Some(same) => *same = record,
                None => records.push(record),
            }
        }
        self.records = Records::of(records);
        self.show_from(0);
    }

    /// Makes the context equal to the records from one on. If a message before it was changed, all
    /// records are compared: a branch that starts among them then starts before that change.
    fn show_from(&mut self, first: usize) {
        let from = self.records.messages_before(first);
        let is_shown = from <= self.cursor.entries().len() && !self.cursor.is_changed_before(from);
        let (first, from) = if is_shown { (first, from) } else { (0, 0) };
        let records = self.records.from(first);
        let messages = records.iter().flat_map(|record| record.messages.clone()).collect();
        self.recording.change_to(&mut self.cursor, from, messages);
    }

    fn rewind(&mut self, id: &str) {
        let at = self.records.place(id).unwrap_or_default();
        let count = self.records.messages_before(at);
        if count < self.cursor.entries().len() {
            self.records.truncate(at);
            self.cursor.truncate(count);
            self.recording.fork(&mut self.cursor, None);
            if self.cursor.entries().len() < count {
                self.show_from(0);
            }
        }
    }

    fn record(&mut self, number: usize, line: &Line<'_>) {
        let known = line.id.as_deref().and_then(|id| self.records.place(id));
        let had_tokens =
            line.id.as_ref().and_then(|id| self.answers.get(id)).map(|a| a.1.is_some());
        let layout = known.and_then(|at| self.records.get(at)).map(Layout::of).unwrap_or_default();
        let Some(record) = self.read(number, line, &layout) else { return };
        match known {
            Some(at) => {
                self.recording.report.repeated += 1;
                self.records.replace(at, record);
                self.show_from(at);
                self.late_tokens(number, line, had_tokens);
            }
            None => {
                for message in &record.messages {
                    self.recording.append(&mut self.cursor, message.clone());
                }
                self.records.push(record);
            }
        }
        self.recording.end_answer(&self.cursor);
    }

    /// Records tokens that arrived after the answer.
    fn late_tokens(&mut self, number: usize, line: &Line<'_>, had_tokens: Option<bool>) {
        let tokens: Option<Tokens> = lenient(values::given(line.tokens));
        let (Some(tokens), Some(false)) = (tokens, had_tokens) else { return };
        let mut metadata = Metadata::default();
        metadata.usage(&tokens.totals());
        metadata.set_some("message_id", line.id.as_deref());
        metadata.set_some("model", line.model.as_deref());
        let Ok(content) = JsonText::new(r#"{"type":"tokens"}"#) else { return };
        let message = "Gemini CLI: tokens of the answer".to_owned();
        let at = values::time(line.timestamp.as_deref());
        let note = RecordedNote { message, content, metadata: metadata.json(), at };
        self.recording.note(&mut self.cursor, number, note);
    }

    /// Reads a message with the results of calls. Results that the calls contain as well are
    /// duplicates: they are counted, but are not messages.
    fn results(&mut self, number: usize, line: &Line<'_>, results: Vec<Draft>) -> Option<Record> {
        let is_new = |draft: &Draft| !result_id(draft).is_some_and(|id| self.answered.contains(id));
        let new: Vec<Draft> = results.into_iter().filter(is_new).collect();
        if new.is_empty() {
            self.recording.skip("functionResponse");
            return None;
        }
        self.separate.extend(new.iter().filter_map(result_id).map(str::to_owned));
        Some(Record::of_results(number, line, new))
    }

    /// Reads a message: of a user, or an answer with its results. Messages known under its id keep
    /// their positions.
    fn read(&mut self, number: usize, line: &Line<'_>, known: &Layout) -> Option<Record> {
        let kind = line.line_type.as_deref();
        let record = match kind {
            Some("user") => {
                let mut unread = Vec::new();
                let results = results(line, &mut unread);
                if results.is_none() {
                    unread.clear();
                }
                let user = results.is_none().then(|| user(line, &mut unread));
                unread.into_iter().for_each(|what| self.recording.unreadable(number, what));
                match (results, user) {
                    (Some(results), _) => self.results(number, line, results)?,
                    (None, user) => Record::of_user(number, line, user?),
                }
            }
            Some("gemini" | "model") => {
                let mut answer = Answer::read(line);
                for what in std::mem::take(&mut answer.unread) {
                    self.recording.unreadable(number, what);
                }
                // Skip results that were recorded as separate messages.
                let ids = answer.results.iter().filter_map(|(_, draft)| result_id(draft));
                self.answered.extend(ids.map(str::to_owned));
                answer.results.retain(|(_, draft)| {
                    !result_id(draft).is_some_and(|id| self.separate.contains(id))
                });
                let id = line.id.clone().unwrap_or_else(|| format!("#{}", self.answers.len()));
                self.answers.insert(id, (line.model.clone(), answer.tokens));
                Record::of_answer(number, line, answer, known)
            }
            kind => {
                self.recording.skip(kind.unwrap_or("untyped"));
                return None;
            }
        };
        if values::time(line.timestamp.as_deref()).is_none() {
            self.recording.odd(number, AnomalyKind::NoTime, "no readable time");
        }
        Some(record)
    }
}

/// Returns the id of the call that a result answers.
fn result_id(draft: &Draft) -> Option<&str> {
    match &draft.content {
        Content::ToolResult(answer) => Some(&answer.call_id),
        _ => None,
    }
}
