//! Rollouts of Codex CLI: JSONL files, one per thread, optionally compressed with zstd.
//!
//! The model's history consists of the newest replacement history, which a compaction writes, and
//! the items after it. A rollback goes back by user turns and continues on a branch. The events of
//! the user interface repeat the items, so only tokens are taken from them.

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText};

use crate::facts::Facts;
use crate::line_reader::LineReader;
use crate::object::Object;
use crate::recording::{Cursor, RecordedMessage, RecordedNote, Recording};
use crate::report::{AnomalyKind, TokenTotals};
use crate::responses;
use crate::values::{self, Metadata, Raw, has_members, lenient, model_config, recorded};

#[derive(Debug, Deserialize)]
struct Line<'a> {
    timestamp: Option<String>,
    ordinal: Option<u64>,
    #[serde(rename = "type")]
    line_type: Option<String>,
    #[serde(borrow)]
    payload: Raw<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct SessionMeta<'a> {
    id: Option<String>,
    session_id: Option<String>,
    cwd: Option<String>,
    cli_version: Option<String>,
    #[serde(borrow)]
    source: Raw<'a>,
    #[serde(borrow)]
    base_instructions: Raw<'a>,
    #[serde(borrow)]
    instructions: Raw<'a>,
    #[serde(default, deserialize_with = "values::member")]
    git: Option<Git>,
    forked_from_id: Option<String>,
    parent_thread_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Git {
    branch: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct EventFields<'a> {
    #[serde(rename = "type")]
    event_type: Option<String>,
    num_turns: Option<u64>,
    #[serde(borrow)]
    info: Raw<'a>,
}

#[derive(Debug, Deserialize)]
struct TokenInfo {
    #[serde(default, deserialize_with = "values::member")]
    total_token_usage: Option<CodexUsage>,
    #[serde(default, deserialize_with = "values::member")]
    last_token_usage: Option<CodexUsage>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
struct CodexUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    total_tokens: u64,
}

#[derive(Debug, Deserialize)]
struct Compacted<'a> {
    message: Option<String>,
    #[serde(borrow)]
    replacement_history: Option<Vec<&'a RawValue>>,
}

/// Reads a rollout line by line, without looking ahead.
#[derive(Default)]
pub(crate) struct CodexReader {
    recording: Recording,
    cursor: Cursor,
    facts: Facts,
    has_meta: bool,
    model: Option<String>,
    total: Option<CodexUsage>,
    last_ordinal: Option<u64>,
    /// The previous line, to detect repetitions.
    previous: Vec<u8>,
    /// Whether only the first line has a time, as in the files of older versions.
    is_older: bool,
}

/// Returns whether a line is one of a thread.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let kind = members.text("type").unwrap_or_default();
    (members.has("payload") && KINDS.contains(&kind.as_str())) || is_older_start(members)
}

/// The types of lines with a payload.
const KINDS: [&str; 5] =
    ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// The types of items that older versions write without a time around them.
const ITEMS: [&str; 9] = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "web_search_call",
];

/// Returns whether an object is the first line of a file of an older version.
fn is_older_start(members: &Object<'_>) -> bool {
    const NAMES: [&str; 6] = ["id", "timestamp", "instructions", "git", "cwd", "cli_version"];
    members.has_all(&["id", "timestamp", "instructions"])
        && members.names().iter().all(|name| NAMES.contains(name))
}

impl LineReader for CodexReader {
    fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let line: Line<'_> = values::read_record(bytes)?;
        let is_known = match (line.ordinal, self.last_ordinal) {
            (Some(ordinal), Some(last)) => ordinal == last && self.previous == bytes,
            // Without a time, an equal line may be another message.
            _ if line.payload.is_none() && line.timestamp.is_none() => false,
            _ => self.previous == bytes,
        };
        if is_known {
            self.recording.report.repeated += 1;
            return Ok(());
        }
        self.previous.clear();
        self.previous.extend_from_slice(bytes);
        self.last_ordinal = line.ordinal;
        match (line.line_type.as_deref(), line.payload) {
            (Some("session_meta"), Some(payload)) => self.meta(number, &line, payload),
            (Some("response_item"), Some(payload)) => self.item(number, &line, payload),
            (Some("turn_context"), Some(payload)) => {
                #[derive(Deserialize)]
                struct Turn {
                    model: Option<String>,
                }
                if let Some(Turn { model: Some(model) }) = lenient(Some(payload)) {
                    self.model = Some(model);
                }
                self.recording.skip("turn_context");
            }
            (Some("event_msg"), Some(payload)) => self.event(number, &line, payload),
            (Some("compacted"), Some(payload)) => self.compacted(number, &line, payload),
            (Some("inter_agent_communication"), Some(payload)) => {
                self.recording.skip("inter_agent_communication");
                self.note(number, &line, "Codex: a message between agents", payload, None);
            }
            (name, Some(_)) => self.recording.skip(name.unwrap_or("untyped")),
            (name, None) => self.bare(number, &line, serde_json::from_slice(bytes)?, name),
        }
        Ok(())
    }

    fn is_record(text: &str) -> bool {
        has_members(text, &["type", "payload", "timestamp"])
            || has_members(text, &["id", "timestamp", "instructions"])
    }

    fn finish(&mut self) -> Facts {
        self.recording.resume_at(&self.cursor, None);
        std::mem::take(&mut self.facts)
    }
}

impl CodexReader {
    /// Reads a line without a payload: the first line of an older version, or an item itself.
    fn bare(&mut self, number: usize, line: &Line<'_>, raw: &RawValue, name: Option<&str>) {
        let members = Object::of(Some(raw)).unwrap_or_default();
        match name {
            Some(name) if KINDS.contains(&name) => {
                self.recording
                    .unreadable(number, format!("a line of the type {name:?} without a payload"));
            }
            Some(name) if ITEMS.contains(&name) => self.item(number, line, raw),
            None if members.has_all(&["role", "content"]) => self.item(number, line, raw),
            None if is_older_start(&members) && !self.has_meta => {
                self.meta(number, line, raw);
                self.is_older = true;
                let what = "the lines after the first one have no time";
                self.recording.odd(number, AnomalyKind::NoTime, what);
            }
            None => {
                let kind = members.text("record_type");
                self.recording.skip(kind.unwrap_or_else(|| "untyped".to_owned()));
            }
            Some(name)
                if ["content", "output", "arguments"].iter().any(|name| members.has(name)) =>
            {
                let what = format!("a line of the unknown type {name:?} with a content");
                self.recording.unreadable(number, what);
            }
            Some(name) => self.recording.skip(name),
        }
    }

    fn time(&mut self, number: usize, line: &Line<'_>) -> Option<i64> {
        let at = values::time(line.timestamp.as_deref());
        if at.is_none() && !(self.is_older && line.timestamp.is_none()) {
            self.recording.odd(number, AnomalyKind::NoTime, "no readable time");
        }
        at
    }

    fn meta(&mut self, number: usize, line: &Line<'_>, payload: &RawValue) {
        self.recording.skip("session_meta");
        if self.has_meta {
            // A fork copies the line of its parent.
            return;
        }
        let Some(meta) = lenient::<SessionMeta<'_>>(Some(payload)) else {
            return self.recording.unreadable(number, "session_meta in no known shape");
        };
        self.has_meta = true;
        #[derive(Deserialize)]
        struct Source<'a> {
            #[serde(borrow)]
            subagent: Raw<'a>,
        }
        #[derive(Deserialize)]
        struct Subagent {
            #[serde(default, deserialize_with = "values::member")]
            thread_spawn: Option<ThreadSpawn>,
        }
        #[derive(Deserialize)]
        struct ThreadSpawn {
            parent_thread_id: Option<String>,
        }
        // The source of a thread without a parent is a name, such as `cli`.
        let named = values::text(meta.source);
        let source: Option<Source<'_>> =
            meta.source.filter(|_| named.is_none()).and_then(|raw| lenient(Some(raw)));
        let subagent = source.and_then(|source| values::given(source.subagent));
        self.recording.is_agent = subagent.is_some();
        // The source of a built-in agent is only its name, such as `review`.
        let own = subagent.filter(|raw| values::text(Some(raw)).is_none());
        let spawn = lenient::<Subagent>(own).and_then(|subagent| subagent.thread_spawn);
        let spawned_by = spawn.and_then(|spawn| spawn.parent_thread_id);
        self.facts.session = meta.id.or(meta.session_id);
        self.facts.parent = meta.forked_from_id.or(meta.parent_thread_id).or(spawned_by);
        self.facts.cwd = meta.cwd;
        self.facts.version = meta.cli_version;
        self.facts.git_branch = meta.git.and_then(|git| git.branch);
        #[derive(Deserialize)]
        struct Instructions {
            text: Option<String>,
        }
        let text = values::text(meta.base_instructions);
        let base = || lenient::<Instructions>(values::given(meta.base_instructions))?.text;
        let text = text.or_else(base);
        let text = text.or_else(|| values::text(meta.instructions));
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let draft = Draft::system(text);
            self.say(number, line, draft);
        }
    }

    fn say(&mut self, number: usize, line: &Line<'_>, draft: Draft) {
        let message = self.message(number, line, draft);
        self.recording.append(&mut self.cursor, message);
    }

    fn message(&mut self, number: usize, line: &Line<'_>, draft: Draft) -> RecordedMessage {
        let at = self.time(number, line);
        let mut draft = recorded(draft, None, at);
        if matches!(draft.content, Content::Assistant(_)) {
            draft.generation_config = model_config(self.model.as_deref());
        }
        if let (Content::User(_), Some(by)) = (&draft.content, injected(&draft.content.text())) {
            let mut metadata = Metadata::default();
            metadata.set("injected", by);
            draft.metadata = metadata.json();
        }
        RecordedMessage { id: None, line: number, draft }
    }

    fn item(&mut self, number: usize, line: &Line<'_>, payload: &RawValue) {
        let kind = responses::item_type(payload);
        match kind.as_deref() {
            Some(kind @ ("ghost_snapshot" | "configuration_update")) => {
                return self.recording.skip(format!("response_item:{kind}"));
            }
            Some("agent_message") => {
                self.recording.skip("response_item:agent_message");
                return self.note(number, line, "Codex: a message between agents", payload, None);
            }
            _ => {}
        }
        if let Some(draft) = self.draft(number, payload) {
            self.say(number, line, draft);
        }
    }

    /// Reads an item. What is not understood is reported.
    fn draft(&mut self, number: usize, item: &RawValue) -> Option<Draft> {
        let mut unread = Vec::new();
        let draft = responses::draft(item, &mut unread);
        let draft = draft.map_err(|what| unread.push(what)).ok();
        unread.into_iter().for_each(|what| self.recording.unreadable(number, what));
        draft
    }

    fn note(
        &mut self,
        number: usize,
        line: &Line<'_>,
        message: &str,
        content: &RawValue,
        metadata: Option<JsonText>,
    ) {
        let Ok(content) = JsonText::new(content.get()) else {
            return self.recording.unreadable(number, "a text that has no canonical form");
        };
        let at = self.time(number, line);
        let note = RecordedNote { message: message.to_owned(), content, metadata, at };
        self.recording.note(&mut self.cursor, number, note);
    }

    fn event(&mut self, number: usize, line: &Line<'_>, payload: &RawValue) {
        let Some(event) = lenient::<EventFields<'_>>(Some(payload)) else {
            return self.recording.unreadable(number, "an event in no known shape");
        };
        let name = event.event_type.as_deref().unwrap_or("untyped");
        self.recording.skip(format!("event_msg:{name}"));
        match name {
            "token_count" => self.tokens(number, line, event.info),
            "thread_rolled_back" => self.roll_back(event.num_turns.unwrap_or_default()),
            _ => {}
        }
    }

    /// Counts an answer. The event is repeated with the same total if only limits changed.
    fn tokens(&mut self, number: usize, line: &Line<'_>, info: Raw<'_>) {
        let Some(info) = lenient::<TokenInfo>(values::given(info)) else { return };
        let (Some(total), Some(last)) = (info.total_token_usage, info.last_token_usage) else {
            return;
        };
        if self.total == Some(total) || last.total_tokens == 0 {
            return;
        }
        self.total = Some(total);
        let usage = TokenTotals::of_answer(
            Some(last.input_tokens),
            Some(last.cached_input_tokens),
            Some(last.output_tokens),
        );
        self.recording.answer(self.model.as_deref(), Some(&usage));
        if self.cursor.entries().is_empty() {
            return;
        }
        let mut metadata = Metadata::default();
        metadata.usage(&usage);
        metadata.set_some("model", self.model.as_deref());
        let content = r#"{"type":"token_count"}"#;
        let Ok(content) = JsonText::new(content) else { return };
        let at = self.time(number, line);
        let message = "Codex: tokens of the answer".to_owned();
        let note = RecordedNote { message, content, metadata: metadata.json(), at };
        self.recording.note(&mut self.cursor, number, note);
    }

    /// Goes back by user turns. The following items start a branch.
    fn roll_back(&mut self, turns: u64) {
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        let mut at = self.cursor.entries().len();
        let mut left = turns;
        for (n, entry) in self.cursor.entries().iter().enumerate().rev() {
            if left == 0 {
                break;
            }
            if entry.is_user {
                left -= 1;
                at = n;
            }
        }
        if turns > 0 && at < self.cursor.entries().len() {
            self.cursor.truncate(at);
            self.recording.fork(&mut self.cursor, None);
        }
    }

    /// Replaces the history that the model sees from here on.
    fn compacted(&mut self, number: usize, line: &Line<'_>, payload: &RawValue) {
        let Some(compacted) = lenient::<Compacted<'_>>(Some(payload)) else {
            return self.recording.unreadable(number, "compacted in no known shape");
        };
        let Some(history) = compacted.replacement_history else {
            let users = self.cursor.entries().iter().filter(|entry| entry.is_user);
            let keep = users.map(|entry| entry.item).collect();
            let Some(text) = compacted.message.filter(|text| !text.is_empty()) else {
                let what = "no replacement history and no summary";
                return self.recording.odd(number, AnomalyKind::EmptyCompaction, what);
            };
            let summary = self.message(number, line, Draft::user(text));
            return self.recording.summarize(&mut self.cursor, keep, summary);
        };
        let mut messages = Vec::with_capacity(history.len());
        for item in history {
            if let Some(draft) = self.draft(number, item) {
                messages.push(self.message(number, line, draft));
            }
        }
        if messages.is_empty() {
            let what = "the replacement history has no message";
            return self.recording.odd(number, AnomalyKind::EmptyCompaction, what);
        }
        self.recording.compact(&mut self.cursor, messages);
    }
}

/// Returns the source of a user message that the user did not type.
fn injected(text: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 7] = [
        ("<environment_context>", "environment_context"),
        ("<user_instructions>", "instructions"),
        ("# AGENTS.md instructions", "instructions"),
        ("<INSTRUCTIONS>", "instructions"),
        ("<turn_aborted>", "turn_aborted"),
        ("<user_shell_command>", "command_output"),
        ("<subagent_notification>", "task_notification"),
    ];
    let text = text.trim_start();
    BEGINNINGS.iter().find(|(beginning, _)| text.starts_with(beginning)).map(|(_, by)| *by)
}
