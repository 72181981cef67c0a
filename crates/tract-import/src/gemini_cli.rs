//! Sessions of Gemini CLI: JSONL files that are replayed, and the whole documents of before.
//!
//! A message that is written again under its id takes the place of the first one, a rewind removes a
//! message and all after it, and a checkpoint replaces everything.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText, Part, Priority, ToolAnswer};

use crate::facts::Facts;
use crate::import::LineReader;
use crate::recording::{Cursor, RecordedMessage, RecordedNote, Recording};
use crate::report::{AnomalyKind, TokenTotals};
use crate::values::{self, Metadata, Raw, canonical, lenient, model_config, recorded, shown};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    id: Option<String>,
    #[serde(rename = "type")]
    line_type: Option<String>,
    timestamp: Option<String>,
    session_id: Option<String>,
    kind: Option<String>,
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

#[derive(Debug, Deserialize)]
struct Thought {
    subject: Option<String>,
    description: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RecordedCall<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Raw<'a>,
    #[serde(borrow)]
    result: Raw<'a>,
    status: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartFields<'a> {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
    #[serde(borrow)]
    function_response: Option<FunctionResponse<'a>>,
}

#[derive(Debug, Deserialize)]
struct FunctionCall<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Raw<'a>,
}

#[derive(Debug, Deserialize)]
struct FunctionResponse<'a> {
    #[serde(borrow)]
    response: Raw<'a>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    thoughts: u64,
    #[serde(default)]
    tool: u64,
}

impl Tokens {
    fn totals(self) -> TokenTotals {
        let cached = self.cached.min(self.input);
        TokenTotals {
            input: (self.input - cached).saturating_add(self.tool),
            output: self.output.saturating_add(self.thoughts),
            cache_read: cached,
            cache_write: 0,
        }
    }
}

/// A message of the file, as far as it is read.
struct Record {
    id: Option<String>,
    messages: Vec<RecordedMessage>,
}

/// Reads a session, one line after the other, and never looks ahead.
#[derive(Default)]
pub(crate) struct GeminiReader {
    recording: Recording,
    cursor: Cursor,
    facts: Facts,
    records: Vec<Record>,
    /// The last word on each answer: model and tokens.
    answers: HashMap<String, (Option<String>, Option<TokenTotals>)>,
}

impl LineReader for GeminiReader {
    fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let line: Line<'_> = serde_json::from_slice(bytes)?;
        if let Some(set) = line.set {
            match lenient::<Line<'_>>(Some(set)) {
                Some(set) => self.metadata(number, &set),
                None => self.odd(number, "a change of the session in no known shape"),
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

    fn finish(&mut self) -> Facts {
        let mut answers: Vec<_> = std::mem::take(&mut self.answers).into_iter().collect();
        answers.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, (model, usage)) in answers {
            self.recording.answer(model.as_deref(), usage.as_ref());
        }
        std::mem::take(&mut self.facts)
    }
}

impl GeminiReader {
    /// Reads the generation before: one document.
    pub(crate) fn document(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let line: Line<'_> = serde_json::from_slice(bytes)?;
        self.recording.report.lines = line.messages.as_ref().map_or(1, Vec::len);
        self.metadata(1, &line);
        Ok(())
    }

    fn odd(&mut self, number: usize, what: &str) {
        self.recording.odd(number, AnomalyKind::UnreadableMessage, what);
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
        // A checkpoint: it replaces everything.
        let mut records: Vec<Record> = Vec::with_capacity(messages.len());
        for (n, message) in messages.iter().enumerate() {
            let number = if messages.len() > 1 && number == 1 { n + 1 } else { number };
            let Some(read) = lenient::<Line<'_>>(Some(message)) else {
                self.odd(number, "a message in no known shape");
                continue;
            };
            let Some(record) = self.read(number, &read) else { continue };
            let known =
                records.iter_mut().find(|known| known.id.is_some() && known.id == record.id);
            match known {
                Some(known) => *known = record,
                None => records.push(record),
            }
        }
        self.records = records;
        self.show_from(0);
    }

    /// Makes the context equal to the records from one on. Where a message before it was changed,
    /// all records are compared: a branch that begins among them begins before that change.
    fn show_from(&mut self, first: usize) {
        let before = self.records.get(..first).unwrap_or_default();
        let from: usize = before.iter().map(|record| record.messages.len()).sum();
        let is_shown = from <= self.cursor.entries().len() && !self.cursor.is_changed_before(from);
        let (first, from) = if is_shown { (first, from) } else { (0, 0) };
        let records = self.records.get(first..).unwrap_or_default();
        let messages = records.iter().flat_map(|record| record.messages.clone()).collect();
        self.recording.change_to(&mut self.cursor, from, messages);
    }

    fn rewind(&mut self, id: &str) {
        let at = self.records.iter().position(|record| record.id.as_deref() == Some(id));
        let at = at.unwrap_or_default();
        let before = self.records.get(..at).unwrap_or_default();
        let count: usize = before.iter().map(|record| record.messages.len()).sum();
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
        let known = match &line.id {
            Some(id) => self.records.iter().rposition(|record| record.id.as_ref() == Some(id)),
            None => None,
        };
        let had_tokens =
            line.id.as_ref().and_then(|id| self.answers.get(id)).map(|a| a.1.is_some());
        let Some(record) = self.read(number, line) else { return };
        match known.and_then(|at| Some((at, self.records.get_mut(at)?))) {
            Some((at, known)) => {
                self.recording.report.repeated += 1;
                *known = record;
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

    /// Notes tokens that came after the answer was said.
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

    /// Reads a message: what a user said, or an answer with its results.
    fn read(&mut self, number: usize, line: &Line<'_>) -> Option<Record> {
        let kind = line.line_type.as_deref();
        let at = values::time(line.timestamp.as_deref());
        let drafts = match kind {
            Some("user") => vec![user(line)],
            Some("gemini" | "model") => self.answer(line),
            kind => {
                self.recording.skip(kind.unwrap_or("untyped"));
                return None;
            }
        };
        if at.is_none() {
            self.recording.odd(number, AnomalyKind::NoTime, "no readable time");
        }
        let id = line.id.as_deref();
        let message = |(n, draft): (usize, Draft)| RecordedMessage {
            id: id.map(|id| if n == 0 { id.to_owned() } else { format!("{id}#{n}") }),
            line: number,
            draft: recorded(draft, id, at),
        };
        let messages = drafts.into_iter().enumerate().map(message).collect();
        Some(Record { id: line.id.clone(), messages })
    }

    fn answer(&mut self, line: &Line<'_>) -> Vec<Draft> {
        let recorded_calls: Vec<RecordedCall<'_>> =
            lenient(values::given(line.tool_calls)).unwrap_or_default();
        let call_id = |id: Option<&String>, n: usize| match id {
            Some(id) => id.clone(),
            None => format!("{}-call-{n}", line.id.as_deref().unwrap_or("message")),
        };
        let parts: Vec<PartFields<'_>> = lenient(line.content).unwrap_or_default();
        let is_whole = parts
            .iter()
            .any(|part| part.function_call.is_some() || part.thought.unwrap_or_default());
        let mut said = Vec::new();
        let mut calls = 0;
        if !is_whole {
            let thoughts: Vec<Thought> = lenient(values::given(line.thoughts)).unwrap_or_default();
            for Thought { subject, description } in thoughts {
                let heading = subject.map(|subject| format!("**{subject}**"));
                let text: Vec<String> = [heading, description].into_iter().flatten().collect();
                let (text, signature, encrypted) = (text.join("\n"), None, None);
                said.push(Part::Reasoning { text, signature, encrypted });
            }
            let text = values::text(line.content).or_else(|| joined(&parts));
            said.extend(text.filter(|text| !text.is_empty()).map(Part::text));
            for (n, call) in recorded_calls.iter().enumerate() {
                let arguments = call.args.map_or_else(|| "{}".to_owned(), canonical);
                let name = call.name.clone().unwrap_or_default();
                said.push(Part::call(call_id(call.id.as_ref(), n), name, arguments));
            }
        } else {
            for part in parts {
                if let Some(call) = part.function_call {
                    // Ids may be missing: by name and order, as the results are.
                    let known = recorded_calls.get(calls).and_then(|call| call.id.as_ref());
                    let id = call_id(call.id.as_ref().or(known), calls);
                    let arguments = call.args.map_or_else(|| "{}".to_owned(), canonical);
                    said.push(Part::call(id, call.name.unwrap_or_default(), arguments));
                    calls += 1;
                } else if let (Some(text), true) = (&part.text, part.thought.unwrap_or_default()) {
                    let (text, signature, encrypted) = (text.clone(), part.thought_signature, None);
                    said.push(Part::Reasoning { text, signature, encrypted });
                } else if let Some(text) = part.text.filter(|text| !text.is_empty()) {
                    said.push(Part::text(text));
                }
            }
        }
        let mut draft = Draft::assistant("");
        draft = said.into_iter().fold(draft, Draft::part);
        draft.generation_config = model_config(line.model.as_deref());
        let tokens: Option<Tokens> = lenient(values::given(line.tokens));
        let mut metadata = Metadata::default();
        metadata.set_some("message_id", line.id.as_deref());
        if let Some(tokens) = tokens {
            metadata.usage(&tokens.totals());
        }
        draft.metadata = metadata.json();
        let id = line.id.clone().unwrap_or_else(|| format!("#{}", self.answers.len()));
        self.answers.insert(id, (line.model.clone(), tokens.map(Tokens::totals)));
        let ids: Vec<String> = draft.content.calls().map(|call| call.id.clone()).collect();
        let mut drafts = vec![draft];
        for (n, call) in recorded_calls.iter().enumerate() {
            let Some(result) = values::given(call.result) else { continue };
            let id = ids.get(n).cloned().unwrap_or_else(|| call_id(call.id.as_ref(), n));
            let is_error = matches!(call.status.as_deref(), Some("error" | "cancelled"));
            let parts = vec![Part::text(result_text(result))];
            let answer = ToolAnswer { call_id: id, name: call.name.clone(), is_error, parts };
            drafts.push(Draft::new(Content::ToolResult(answer)));
        }
        drafts
    }
}

fn joined(parts: &[PartFields<'_>]) -> Option<String> {
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// What a user said. Commands and what the tool put there are not sent again: they are skipped.
fn user(line: &Line<'_>) -> Draft {
    const NOT_SENT: [&str; 4] = ["/", "?", "<session_context>", "<hook_context>"];
    let parts: Vec<PartFields<'_>> = lenient(line.content).unwrap_or_default();
    let text = values::text(line.content).or_else(|| joined(&parts));
    let text = text.unwrap_or_else(|| line.content.map_or_else(String::new, canonical));
    let is_sent = !NOT_SENT.iter().any(|beginning| text.starts_with(beginning));
    let draft = Draft::user(text);
    if is_sent { draft } else { draft.priority(Priority::Skip) }
}

/// What the model read of a result.
fn result_text(result: &RawValue) -> String {
    let parts: Option<Vec<PartFields<'_>>> = lenient(Some(result));
    let Some(parts) = parts else { return shown(result) };
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        output: Raw<'a>,
        #[serde(borrow)]
        error: Raw<'a>,
    }
    let mut texts = Vec::new();
    for part in parts {
        if let Some(response) = part.function_response.and_then(|response| response.response) {
            let known: Option<Response<'_>> = lenient(Some(response));
            let text = known.and_then(|known| values::text(known.output.or(known.error)));
            texts.push(text.unwrap_or_else(|| canonical(response)));
        }
        texts.extend(part.text);
    }
    texts.join("\n")
}
