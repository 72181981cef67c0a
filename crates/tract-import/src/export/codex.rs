//! Rollouts of Codex CLI out: the session, then its items, one per line.

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tract_core::{By, Commit, CommitId, Content, Op};

use super::ExportedSession;
use super::conversation::{Conversation, Entry, ExportedMessage, Recorded};
use super::facts::{SessionFacts, made_id, timestamp};

/// How the notes of an import begin that say what an answer cost.
const TOKENS: &str = "Codex: tokens";
/// What the log of an import says of a text that agents sent each other.
const BETWEEN_AGENTS: &str = "Codex: a message between agents";

#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    /// Tells a line from one that says the same.
    ordinal: usize,
    #[serde(rename = "type")]
    line_type: &'a str,
    payload: &'a RawValue,
}

/// Whether a commit is what the import of a rollout writes, but for rollbacks and compactions.
pub(super) fn is_own(commit: &Commit) -> bool {
    let record = commit.record();
    let is_recorded = record.origin.by == By::Import && record.parents.len() <= 1;
    let is_first = record.parents.is_empty();
    let is_message = || match record.form.as_deref() {
        Some(form) => form.starts_with("openai-responses") || form.starts_with("responses"),
        // The instructions of the session.
        None => is_first,
    };
    is_recorded
        && record.origin.id.is_none()
        && match &record.op {
            Op::Append { priority: None, .. } => is_message(),
            Op::Note => record
                .message
                .as_deref()
                .is_some_and(|m| m.starts_with(TOKENS) || m == BETWEEN_AGENTS),
            _ => false,
        }
}

#[derive(Default)]
struct RolloutWriter {
    lines: Vec<String>,
    model: Option<String>,
    /// Tokens of all answers so far: input, of which a cache had, and output.
    total: (u64, u64, u64),
}

pub(super) fn write(
    conversation: &Conversation,
    facts: &SessionFacts,
    head: CommitId,
) -> Result<ExportedSession, serde_json::Error> {
    let is_same = conversation.as_recorded && facts.format.as_deref() == Some("codex");
    let session = match is_same {
        true => facts.session_or_made(head),
        false => made_id(head, "session"),
    };
    let mut entries = conversation.entries.iter().peekable();
    let instructions = match entries.peek() {
        Some(Entry::Message(first)) if is_base(first) => {
            entries.next();
            Some(first)
        }
        _ => None,
    };
    let begins = instructions.map(|first| first.record.at);
    let at = begins.or_else(|| conversation.entries.first().map(time_of)).flatten();
    let mut meta = serde_json::Map::new();
    meta.insert("id".to_owned(), json!(session));
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            meta.insert(name.to_owned(), json!(value));
        }
    };
    set("timestamp", timestamp(at));
    set("cwd", facts.cwd.clone());
    set("cli_version", facts.version.clone());
    set("originator", Some("tract".to_owned()));
    set("source", Some("cli".to_owned()));
    if let Some(branch) = &facts.git_branch {
        meta.insert("git".to_owned(), json!({ "branch": branch }));
    }
    if let Some(first) = instructions {
        meta.insert("base_instructions".to_owned(), json!({ "text": first.content.text() }));
    }
    let mut writer = RolloutWriter::default();
    writer.push("session_meta", at, &to_raw_value(&meta)?)?;
    let (mut messages, mut empty) = (usize::from(instructions.is_some()), 0);
    for entry in entries {
        match entry {
            Entry::Message(message) => {
                let items = writer.message(message)?;
                messages += items;
                empty += usize::from(items == 0);
            }
            Entry::Note { message, content, record, .. } if message == BETWEEN_AGENTS => {
                let content = RawValue::from_string(content.as_str().to_owned())?;
                writer.push("inter_agent_communication", record.at, &content)?;
            }
            Entry::Note { record, .. } => writer.tokens(record)?,
            // Only what was recorded as it is has summaries, and there they are read as shown.
            Entry::Summary { .. } => {}
        }
    }
    let day = timestamp(at).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned());
    let day: String = day.chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    Ok(ExportedSession {
        lines: writer.lines,
        file_name: format!("rollout-{day}-{session}.jsonl"),
        messages,
        as_recorded: conversation.as_recorded,
        left_out: Vec::from_iter((empty > 0).then_some(("messages with nothing to say", empty))),
        session,
    })
}

/// Whether a message is the instructions of the session, which Codex keeps apart.
fn is_base(message: &ExportedMessage) -> bool {
    matches!(message.content, Content::System(_)) && message.record.id.is_none()
}

fn time_of(entry: &Entry) -> Option<i64> {
    match entry {
        Entry::Message(message) | Entry::Summary { message, .. } => message.record.at,
        Entry::Note { record, .. } => record.at,
    }
}

impl RolloutWriter {
    fn push(
        &mut self,
        line_type: &str,
        at: Option<i64>,
        payload: &RawValue,
    ) -> Result<(), serde_json::Error> {
        let timestamp = timestamp(at);
        let ordinal = self.lines.len();
        self.lines.push(serde_json::to_string(&Line { timestamp, ordinal, line_type, payload })?);
        Ok(())
    }

    /// Writes the items of a message, and returns how many they are.
    fn message(&mut self, message: &ExportedMessage) -> Result<usize, serde_json::Error> {
        let at = message.record.at;
        let is_answer = matches!(message.content, Content::Assistant(_) | Content::Reasoning(_));
        if is_answer
            && message.record.facts.model.is_some()
            && message.record.facts.model != self.model
        {
            self.model.clone_from(&message.record.facts.model);
            let turn = to_raw_value(&json!({ "model": self.model }))?;
            self.push("turn_context", at, &turn)?;
        }
        let items: Vec<&RawValue> =
            message.member("input").map(serde_json::from_str).transpose()?.unwrap_or_default();
        let count = items.len();
        for item in items {
            self.push("response_item", at, item)?;
        }
        // Codex lists and shows a session by these events.
        let injected = message.record.facts.injected.is_some();
        let event = match &message.content {
            Content::User(_) if !injected => Some("user_message"),
            Content::Assistant(_) => Some("agent_message"),
            _ => None,
        };
        let text = message.content.text();
        if let Some(event) = event.filter(|_| !text.trim().is_empty()) {
            let payload = to_raw_value(&json!({ "type": event, "message": text }))?;
            self.push("event_msg", at, &payload)?;
        }
        Ok(count)
    }

    /// Writes what an answer cost, as Codex counts: the last answer and all of them.
    fn tokens(&mut self, record: &Recorded) -> Result<(), serde_json::Error> {
        let usage = record.facts.usage.unwrap_or_default();
        let input = usage.input.unwrap_or_default();
        let cached = usage.cache_read.unwrap_or_default();
        let output = usage.output.unwrap_or_default();
        let total = &mut self.total;
        *total = (
            total.0.saturating_add(input),
            total.1.saturating_add(cached),
            total.2.saturating_add(output),
        );
        if record.facts.model.is_some() && record.facts.model != self.model {
            self.model.clone_from(&record.facts.model);
            let turn = to_raw_value(&json!({ "model": self.model }))?;
            self.push("turn_context", record.at, &turn)?;
        }
        let usage = |(input, cached, output): (u64, u64, u64)| {
            json!({
                "input_tokens": input,
                "cached_input_tokens": cached,
                "output_tokens": output,
                "total_tokens": input.saturating_add(output),
            })
        };
        let info = json!({
            "total_token_usage": usage(self.total),
            "last_token_usage": usage((input, cached, output)),
        });
        let payload = to_raw_value(&json!({ "type": "token_count", "info": info }))?;
        self.push("event_msg", record.at, &payload)
    }
}
