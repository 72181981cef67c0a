//! Sessions of OpenCode: its database, the older tree of JSON files, and the output of `opencode
//! export`. A session has messages, and a message has parts; calls have their results in the same
//! part.

#[cfg(feature = "databases")]
pub(crate) mod sqlite;
pub(crate) mod tree;

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::damage::read_object;
use crate::document::{Conversation, Document, Steps};
use crate::object::Object;
use crate::recording::RecordedMessage;
use crate::report::{AnomalyKind, TokenTotals};
use crate::values::{self, Metadata, canonical, model_config, recorded, shown};

/// Returns whether an object is an exported session.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let info = members.object("info").unwrap_or_default();
    let first = members.list("messages").first().and_then(|raw| Object::of(Some(raw)));
    let is_message = first.is_none_or(|message| message.has_all(&["info", "parts"]));
    info.id("id").is_some() && info.has("time") && members.has("messages") && is_message
}

/// Reads an exported session.
pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let raw: &RawValue = serde_json::from_slice(bytes)?;
    let members = Object::of(Some(raw)).unwrap_or_default();
    let info = members.object("info").unwrap_or_default();
    let mut session = Session::new(&info);
    if !members.has("messages") {
        let what = "no member \"messages\"; those of a session's file are in folders next to it";
        session.conversation.recording.unreadable(1, what);
    }
    for raw in members.list("messages") {
        let message = Object::of(Some(raw)).unwrap_or_default();
        let info = message.object("info").unwrap_or_default();
        session.message(&info, &message.list("parts"));
    }
    Ok(session.finish().into())
}

/// A session while its messages are read, oldest first.
#[derive(Default)]
pub(crate) struct Session {
    conversation: Conversation,
    line: usize,
    /// The first message that a user reverted and has not replaced yet.
    reverted: Option<String>,
}

impl Session {
    /// Starts a session from its record.
    pub(crate) fn new(info: &Object<'_>) -> Self {
        let mut session = Self::default();
        let facts = &mut session.conversation.facts;
        facts.session = info.id("id");
        facts.title = info.filled("title");
        facts.version = info.filled("version");
        facts.cwd = info.filled("directory");
        facts.parent = info.filled("parentID").or_else(|| info.filled("parent_id"));
        session.conversation.recording.is_agent = facts.parent.is_some();
        let revert = info.object("revert");
        session.reverted = revert.and_then(|revert| revert.text("messageID"));
        session
    }

    pub(crate) fn conversation(&mut self) -> &mut Conversation {
        &mut self.conversation
    }

    pub(crate) fn finish(self) -> Conversation {
        self.conversation
    }

    /// Starts a session from the text of its record.
    pub(crate) fn of_text(text: &str) -> Self {
        let (mut session, odds) = read_object("", text, Self::new);
        session.conversation.recording.odds(0, odds);
        session
    }

    /// Reads a message whose members and parts are texts of their own; `id` is its id if it is stored
    /// elsewhere.
    pub(crate) fn message_of_texts(&mut self, id: Option<&str>, info: &str, parts: &[String]) {
        let is_json = |text: &&str| serde_json::from_str::<IgnoredAny>(text).is_ok();
        let known: Vec<&str> = parts.iter().map(String::as_str).filter(is_json).collect();
        if known.len() < parts.len() {
            let what = format!("{} parts that are not JSON", parts.len() - known.len());
            self.conversation.recording.unreadable(self.line + 1, what);
        }
        let id = id.map_or(Value::Null, Value::from);
        let text = format!(r#"{{"id":{id},"info":{info},"parts":[{}]}}"#, known.join(","));
        let ((), odds) = read_object("", &text, |message| {
            let mut info = message.object("info").unwrap_or_default();
            message.raw("id").into_iter().for_each(|id| info.set("id", id));
            self.message(&info, &message.list("parts"));
        });
        self.conversation.recording.odds(self.line, odds);
    }

    /// Records the replacements in the next message.
    pub(crate) fn note_damage(&mut self, damage: Vec<(AnomalyKind, String)>) {
        self.conversation.recording.odds(self.line + 1, damage);
    }

    /// Reads a message with its parts.
    pub(crate) fn message(&mut self, info: &Object<'_>, parts: &[&RawValue]) {
        self.line += 1;
        self.conversation.recording.report.lines += 1;
        let line = self.line;
        let id = info.id("id");
        // Reverted messages are not shown: they are a branch until they are replaced.
        if id.is_some() && id == self.reverted {
            self.conversation.recording.has_forks = true;
            let suffix = Some(".reverted".to_owned());
            if !self.conversation.cursor.entries().is_empty() {
                self.conversation.recording.fork(&mut self.conversation.cursor, suffix);
            }
        }
        match info.text("role").as_deref() {
            Some("user") => self.user(line, id.as_deref(), info, parts),
            Some("assistant") => self.assistant(line, id.as_deref(), info, parts),
            role => {
                let what = format!("a message of the unknown role {:?}", role.unwrap_or(""));
                self.conversation.recording.unreadable(line, what);
            }
        }
    }

    fn user(&mut self, line: usize, id: Option<&str>, info: &Object<'_>, parts: &[&RawValue]) {
        let at = info.object("time").and_then(|time| time.time("created"));
        let mut content = Vec::new();
        let mut injected = Vec::new();
        if info.has("system") {
            let what = "system: the instructions of the message are not read";
            self.conversation.recording.unreadable(line, what);
        }
        for raw in parts {
            let part = Object::of(Some(raw)).unwrap_or_default();
            match part.text("type").unwrap_or_default().as_str() {
                "text" if part.is_true("ignored") => {
                    self.conversation.recording.skip("ignored text");
                }
                "text" if part.is_true("synthetic") => {
                    injected.extend(part.filled("text").map(Part::text));
                }
                "text" => content.extend(part.filled("text").map(Part::text)),
                "file" => content.extend(self.file(line, &part)),
                // The request for a summary; the summary follows.
                "compaction" => self.conversation.recording.skip("compaction"),
                "subtask" => {
                    content.extend(part.filled("prompt").map(Part::text));
                    if part.filled("description").is_some() {
                        let what = "a subtask: its description is not read";
                        self.conversation.recording.unreadable(line, what);
                    }
                }
                "agent" | "snapshot" | "patch" | "step-start" | "step-finish" | "retry" => {
                    let kind = part.text("type").unwrap_or_default();
                    self.conversation.recording.skip(kind);
                }
                kind => content.extend(self.unknown(line, kind, raw)),
            }
        }
        if content.is_empty() && injected.is_empty() {
            return self.conversation.recording.skip("empty message");
        }
        for (parts, is_injected) in [(content, false), (injected, true)] {
            if parts.is_empty() {
                continue;
            }
            let mut draft = Draft::new(Content::User(Body { parts, name: None }));
            if is_injected {
                let mut metadata = Metadata::default();
                metadata.set("injected", "synthetic");
                draft.metadata = metadata.json();
            }
            self.conversation.say(id, line, recorded(draft, id, at));
        }
    }

    fn assistant(&mut self, line: usize, id: Option<&str>, info: &Object<'_>, parts: &[&RawValue]) {
        let at = info.object("time").and_then(|time| time.time("created"));
        let model = info.text("modelID");
        let usage = info.object("tokens").map(|tokens| totals(&tokens));
        let usage = usage.filter(|usage| *usage != TokenTotals::default());
        let recording = &mut self.conversation.recording;
        recording.answer(model.as_deref(), usage.as_ref());
        recording.end_answer(&self.conversation.cursor);
        if let Some(error) = info.object("error") {
            let name = error.text("name").unwrap_or_default();
            if error.object("data").is_some_and(|data| data.filled("message").is_some()) {
                let what = format!("error: the text of the error {name:?} is not read");
                recording.unreadable(line, what);
            }
            recording.skip(format!("error:{name}"));
        }
        let mut steps = Steps::default();
        for raw in parts {
            let part = Object::of(Some(raw)).unwrap_or_default();
            match part.text("type").unwrap_or_default().as_str() {
                "text" => {
                    if let Some(text) = part.filled("text") {
                        steps.say(Part::text(text));
                    }
                }
                "reasoning" => {
                    let facts = part.object("metadata").unwrap_or_default();
                    let anthropic = facts.object("anthropic").unwrap_or_default();
                    let openai = facts.object("openai").unwrap_or_default();
                    let reasoning = Part::Reasoning {
                        text: part.text("text").unwrap_or_default(),
                        signature: anthropic.text("signature"),
                        encrypted: openai.text("reasoningEncryptedContent"),
                    };
                    steps.say(reasoning);
                }
                "tool" => steps.tool_part(&part),
                "step-start" => steps.cut(),
                "file" => self.file(line, &part).into_iter().for_each(|part| steps.say(part)),
                "step-finish" | "snapshot" | "patch" | "agent" | "retry" | "compaction"
                | "subtask" => {
                    let kind = part.text("type").unwrap_or_default();
                    self.conversation.recording.skip(kind);
                }
                kind => {
                    let part = self.unknown(line, kind, raw);
                    part.into_iter().for_each(|part| steps.say(part));
                }
            }
        }
        steps.cut();
        let is_summary = info.is_true("summary");
        let mut facts = Metadata::default();
        facts.set_some("message_id", id);
        facts.set_some("cost", info.number("cost"));
        facts.set_some("stop_reason", info.text("finish"));
        if let Some(usage) = &usage {
            facts.usage(usage);
        }
        if steps.done.is_empty() {
            return self.conversation.recording.skip("empty message");
        }
        for (n, mut draft) in steps.done.into_iter().enumerate() {
            if matches!(draft.content, Content::Assistant(_)) {
                draft.generation_config = model_config(model.as_deref());
                // The tokens are the sum over all steps of the message.
                draft.metadata = facts.json();
            }
            let own = id.map(|id| if n == 0 { id.to_owned() } else { format!("{id}#{n}") });
            let draft = recorded(draft, id, at);
            if is_summary && n == 0 {
                let message = RecordedMessage { id: own, line, draft };
                let cursor = &mut self.conversation.cursor;
                self.conversation.recording.summarize(cursor, Vec::new(), message);
            } else {
                self.conversation.say(own.as_deref(), line, draft);
            }
        }
    }

    fn file(&mut self, line: usize, part: &Object<'_>) -> Option<Part> {
        let (url, media_type) = (part.text("url")?, part.text("mime"));
        let name = part.text("filename").unwrap_or_default();
        if media_type.as_deref().is_some_and(|kind| kind.starts_with("image/")) {
            return Some(values::image(url, media_type));
        }
        // The text of a file that a user named is a separate part.
        let source = part.object("source").unwrap_or_default();
        let quoted = source.object("text").and_then(|text| text.filled("value"));
        if quoted.is_none() && url.starts_with("data:") {
            self.conversation.recording.unreadable(line, format!("the file {name:?} is not read"));
            return Some(Part::text(format!("[file: {name}]")));
        }
        self.conversation.recording.skip("file");
        None
    }

    fn unknown(&mut self, line: usize, kind: &str, raw: &RawValue) -> Option<Part> {
        let what = format!("a part of the unknown type {kind:?}, kept as its JSON");
        self.conversation.recording.unreadable(line, what);
        Some(Part::text(canonical(raw)))
    }
}

impl Steps {
    /// Adds a part of the model. After results, it starts the next step.
    fn say(&mut self, part: Part) {
        if !self.results.is_empty() {
            self.cut();
        }
        self.parts.push(part);
    }

    fn tool_part(&mut self, part: &Object<'_>) {
        let state = part.object("state").unwrap_or_default();
        let call_id = part.text("callID").or_else(|| part.id("id")).unwrap_or_default();
        let name = part.text("tool").unwrap_or_default();
        let input = state.first(&["input", "args"]).map_or_else(|| "{}".to_owned(), canonical);
        self.parts.push(Part::call(&call_id, &name, input));
        let result = match state.text("status").as_deref() {
            Some("completed") => state.raw("output").map(|output| (shown(output), false)),
            Some("error") => Some((state.text("error").unwrap_or_default(), true)),
            _ => None,
        };
        if let Some((text, is_error)) = result {
            let (name, mut parts) = (Some(name), vec![Part::text(text)]);
            for file in state.list("attachments") {
                let file = Object::of(Some(file)).unwrap_or_default();
                let (media_type, url) = (file.text("mime"), file.text("url").unwrap_or_default());
                parts.push(match media_type.as_deref() {
                    Some(kind) if kind.starts_with("image/") => values::image(url, media_type),
                    _ => {
                        let name = file.text("filename").or(media_type).unwrap_or_default();
                        Part::text(format!("[file: {name}]"))
                    }
                });
            }
            let answer = ToolAnswer { call_id, name, is_error, parts };
            self.results.push(Draft::new(Content::ToolResult(answer)));
        }
    }
}

fn totals(tokens: &Object<'_>) -> TokenTotals {
    let cache = tokens.object("cache").unwrap_or_default();
    let count = |name: &str| tokens.count(name).unwrap_or_default();
    TokenTotals {
        input: count("input"),
        output: count("output").saturating_add(count("reasoning")),
        cache_read: cache.count("read").unwrap_or_default(),
        cache_write: cache.count("write").unwrap_or_default(),
        ..TokenTotals::default()
    }
}
