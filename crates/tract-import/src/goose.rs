//! Sessions of Goose: tables in SQLite, and the JSONL files of older versions.

#[cfg(feature = "databases")]
pub(crate) mod sqlite;

use std::collections::HashSet;

use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::facts::Facts;
use crate::line_reader::LineReader;
use crate::object::Object;
use crate::recording::{Cursor, RecordedMessage, Recording};
use crate::tree::ItemNumber;
use crate::values::{self, Metadata, canonical, has_members, model_config, recorded, shown};

/// Returns whether an object is the first line of a session, or a Goose message with calls.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    if members.has_all(&["working_dir", "message_count"])
        || members.has_all(&["working_dir", "description"])
    {
        return true;
    }
    members.has_all(&["role", "created", "content"])
        && members.list("content").into_iter().any(|raw| {
            let kind = Object::of(Some(raw)).and_then(|part| part.text("type"));
            kind.is_some_and(|kind| kind == "toolRequest" || kind == "toolResponse")
        })
}

#[derive(Default)]
pub(crate) struct GooseReader {
    pub(crate) recording: Recording,
    cursor: Cursor,
    pub(crate) facts: Facts,
    pub(crate) model: Option<String>,
    /// The messages that the model no longer sees and that no summary hides so far.
    hidden: Vec<ItemNumber>,
    /// The line and the time of the last of them.
    last_hidden: (usize, Option<i64>),
}

impl LineReader for GooseReader {
    fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let raw: &RawValue = serde_json::from_slice(bytes)?;
        let line = Object::of(Some(raw)).unwrap_or_default();
        if line.has("role") {
            self.message(number, &line, &line.list("content"));
        } else if line.has("working_dir") {
            self.facts.cwd = line.filled("working_dir");
            self.facts.title = line.filled("description");
            self.recording.skip("session");
        } else {
            self.recording.unreadable(number, "a line in no known shape");
        }
        Ok(())
    }

    fn is_record(text: &str) -> bool {
        has_members(text, &["role", "content"]) || has_members(text, &["working_dir"])
    }

    fn finish(&mut self) -> Facts {
        self.end();
        std::mem::take(&mut self.facts)
    }
}

impl GooseReader {
    /// Reads a message with the parts of its content.
    pub(crate) fn message(&mut self, number: usize, message: &Object<'_>, content: &[&RawValue]) {
        let at = message.time("created").or_else(|| message.time("created_timestamp"));
        let id = message.id("id");
        let facts = message.object("metadata").unwrap_or_default();
        let is_false = |name: &str| facts.has(name) && !facts.is_true(name);
        let (is_hidden, is_for_model) = (is_false("agentVisible"), is_false("userVisible"));
        let is_user = match message.text("role").as_deref() {
            Some("user") => true,
            Some("assistant") => false,
            role => {
                let what = format!("a message of the unknown role {:?}", role.unwrap_or(""));
                return self.recording.unreadable(number, what);
            }
        };
        let mut drafts = Vec::new();
        let mut parts = Vec::new();
        for raw in content {
            let part = Object::of(Some(raw)).unwrap_or_default();
            match part.text("type").unwrap_or_default().as_str() {
                "text" if part.has("text") => parts.extend(part.filled("text").map(Part::text)),
                "image" if part.has("data") => {
                    let media_type = part.text("mimeType");
                    parts.extend(part.text("data").map(|data| values::image(data, media_type)));
                }
                kind @ ("text" | "image") => {
                    let named = match kind {
                        "text" => "a text without \"text\"",
                        _ => "an image without data",
                    };
                    self.recording.unreadable(number, format!("{named}, kept as its JSON"));
                    parts.push(Part::text(canonical(raw)));
                }
                "thinking" => parts.push(Part::Reasoning {
                    text: part.text("thinking").unwrap_or_default(),
                    signature: part.text("signature"),
                    encrypted: None,
                }),
                "redactedThinking" => parts.push(Part::Reasoning {
                    text: String::new(),
                    signature: None,
                    encrypted: part.text("data"),
                }),
                kind @ ("toolRequest" | "frontendToolRequest") => {
                    parts.push(call(&part).unwrap_or_else(|| {
                        let what = format!("a {kind} without a tool's name, kept as its JSON");
                        self.recording.unreadable(number, what);
                        Part::text(canonical(raw))
                    }));
                }
                "toolResponse" => drafts.push(result(&mut self.recording, number, &part)),
                kind @ ("summarizationRequested"
                | "contextLengthExceeded"
                | "toolConfirmationRequest"
                | "systemNotification"
                | "conversationCompacted"
                | "actionRequired") => self.recording.skip(kind),
                kind => {
                    let what = format!("a part of the unknown type {kind:?}, kept as its JSON");
                    self.recording.unreadable(number, what);
                    parts.push(Part::text(canonical(raw)));
                }
            }
        }
        if !parts.is_empty() {
            let mut draft = match is_user {
                true => Draft::new(Content::User(Body { parts, name: None })),
                false => parts.into_iter().fold(Draft::assistant(""), Draft::part),
            };
            let mut metadata = Metadata::default();
            if !is_user {
                draft.generation_config = model_config(self.model.as_deref());
                metadata.set_some("message_id", id.as_deref());
                self.recording.end_answer(&self.cursor);
                self.recording.answer(self.model.as_deref(), None);
            }
            // Goose adds some messages that only the model sees.
            if is_user && is_for_model {
                metadata.set("injected", "agent");
            }
            draft.metadata = metadata.json();
            drafts.push(draft);
        } else if drafts.is_empty() {
            return self.recording.skip("empty message");
        }
        // A compaction marks the messages before it, and adds a summary that only the model sees.
        let is_summary = is_user && is_for_model && facts.is_true("agentVisible");
        let is_single =
            matches!(drafts.as_slice(), [draft] if matches!(draft.content, Content::User(_)));
        let mut is_summary = is_summary && is_single && !self.hidden.is_empty();
        if !is_hidden && !is_summary {
            self.end();
        }
        for (n, draft) in drafts.into_iter().enumerate() {
            let own = id.as_ref().map(|id| format!("{id}#{n}"));
            let draft = recorded(draft, id.as_deref(), at);
            let message = RecordedMessage { id: own, line: number, draft };
            if std::mem::take(&mut is_summary) {
                let hidden: HashSet<ItemNumber> = self.hidden.drain(..).collect();
                let items = self.cursor.entries().iter().map(|entry| entry.item);
                let keep = items.filter(|item| !hidden.contains(item)).collect();
                self.recording.summarize(&mut self.cursor, keep, message);
                continue;
            }
            self.recording.append(&mut self.cursor, message);
            if is_hidden {
                self.hidden.extend(self.cursor.entries().last().map(|entry| entry.item));
                self.last_hidden = (number, at);
            }
        }
    }

    /// Leaves the messages out of the context that the model no longer sees and no summary hides.
    pub(crate) fn end(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        if !hidden.is_empty() {
            let (line, at) = self.last_hidden;
            self.recording.leave_out(&mut self.cursor, line, hidden, at);
        }
    }
}

/// Returns a call; `None` without the name of a tool, as Goose records a call that it cannot parse.
fn call(part: &Object<'_>) -> Option<Part> {
    let call = part.object("toolCall").unwrap_or_default();
    let value = call.object("value").unwrap_or_else(|| call.clone());
    let arguments = value.raw("arguments").map_or_else(|| "{}".to_owned(), canonical);
    let name = value.filled("name")?;
    Some(Part::call(part.text("id").unwrap_or_default(), name, arguments))
}

fn result(recording: &mut Recording, line: usize, part: &Object<'_>) -> Draft {
    let result = part.object("toolResult").unwrap_or_default();
    let value = result.raw("value");
    // Newer versions wrap the content in an object.
    let inner = Object::of(value).unwrap_or_default();
    let content = inner.raw("content").or(value);
    let failed = result.text("status").is_some_and(|status| status == "error");
    let has_parts = content.is_some_and(|raw| !raw.get().starts_with('{'));
    let mut parts = if has_parts { recording.content(line, content) } else { Vec::new() };
    if parts.is_empty() {
        let text = result.text("error").or_else(|| content.map(shown));
        parts.push(Part::text(text.unwrap_or_default()));
    }
    Draft::new(Content::ToolResult(ToolAnswer {
        call_id: part.text("id").unwrap_or_default(),
        name: None,
        is_error: failed || inner.is_true("isError"),
        parts,
    }))
}
