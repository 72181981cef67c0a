//! Writes rollouts of Codex CLI: the session, then its items, one per line.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tract_core::{Commit, CommitId, Content, Op};

use super::conversation::{Conversation, Entry, ExportedMessage, Recorded, is_imported};
use super::facts::{SessionFacts, timestamp};
use super::{ExportedSession, FAILED, counted, is_failed};

/// The prefix of the notes in which an import records the tokens of an answer.
const TOKENS: &str = "Codex: tokens";
/// The log message that an import writes for a text between agents.
const BETWEEN_AGENTS: &str = "Codex: a message between agents";

#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    /// Distinguishes the line from others with the same content.
    ordinal: usize,
    #[serde(rename = "type")]
    line_type: &'a str,
    payload: &'a RawValue,
}

#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    item_type: &'static str,
    role: &'a str,
    content: &'a RawValue,
}

/// Returns whether a commit is one that the import of a rollout writes, except for rollbacks and
/// compactions.
pub(super) fn is_own(commit: &Commit) -> bool {
    let record = commit.record();
    let is_first = record.parents.is_empty();
    let is_message = || match record.form.as_deref() {
        Some(form) => form.starts_with("openai-responses"),
        // The instructions of the session.
        None => is_first,
    };
    is_imported(commit)
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
    /// Tokens of all answers so far: input, cached input, and output.
    total: (u64, u64, u64),
}

pub(super) fn write(
    conversation: &Conversation,
    facts: &SessionFacts,
    head: CommitId,
) -> Result<ExportedSession, serde_json::Error> {
    let session = facts.session_in("codex", conversation.as_recorded, head);
    let mut entries = conversation.entries.iter().peekable();
    let instructions = match entries.peek() {
        // Codex stores the instructions of the session separately.
        Some(Entry::Message(first)) if matches!(first.content, Content::System(_)) => {
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
    let mut failed = 0;
    for entry in entries {
        match entry {
            Entry::Message(message) => {
                let items = writer.message(message)?;
                messages += items;
                empty += usize::from(items == 0);
                failed += usize::from(items > 0 && is_failed(&message.content));
            }
            Entry::Note { message, content, record, .. } if message == BETWEEN_AGENTS => {
                let content = RawValue::from_string(content.as_str().to_owned())?;
                writer.push("inter_agent_communication", record.at, &content)?;
            }
            Entry::Note { record, .. } => writer.tokens(record)?,
            // Only conversations written as recorded have summaries; those of this format are
            // written as shown.
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
        left_out: counted([("empty messages", empty), (FAILED, failed)]),
        session,
    })
}

/// Returns an item as Codex writes it: requests may omit the type of a message, and use a text as
/// its content.
fn whole_item(item: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Short<'a> {
        #[serde(rename = "type")]
        item_type: Option<String>,
        role: Option<String>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let short: Short<'_> = serde_json::from_str(item.get())?;
    let (None, Some(role)) = (short.item_type, short.role) else { return Ok(item.to_owned()) };
    let text = short.content.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    let content = match (text, short.content) {
        (Some(text), _) => to_raw_value(&[json!({ "type": kind, "text": text })])?,
        (None, Some(list)) => list.to_owned(),
        (None, None) => to_raw_value::<[(); 0]>(&[])?,
    };
    to_raw_value(&Message { item_type: "message", role: &role, content: &content })
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

    /// Writes the model of an answer if it changed.
    fn turn_context(&mut self, record: &Recorded) -> Result<(), serde_json::Error> {
        if record.facts.model.is_none() || record.facts.model == self.model {
            return Ok(());
        }
        self.model.clone_from(&record.facts.model);
        let turn = to_raw_value(&json!({ "model": self.model }))?;
        self.push("turn_context", record.at, &turn)
    }

    /// Writes the items of a message. Returns their number.
    fn message(&mut self, message: &ExportedMessage) -> Result<usize, serde_json::Error> {
        let at = message.record.at;
        let is_answer = matches!(message.content, Content::Assistant(_) | Content::Reasoning(_));
        if is_answer {
            self.turn_context(&message.record)?;
        }
        let items: Vec<Box<RawValue>> = match message.member("input") {
            // Instructions within the conversation, which a request has in a separate field.
            Some("[]") if matches!(message.content, Content::System(_)) => {
                let text = json!({ "type": "input_text", "text": message.content.text() });
                let item = json!({ "type": "message", "role": "developer", "content": [text] });
                vec![to_raw_value(&item)?]
            }
            Some(input) => {
                let items: Vec<&RawValue> = serde_json::from_str(input)?;
                items.into_iter().map(whole_item).collect::<Result<_, _>>()?
            }
            None => Vec::new(),
        };
        let count = items.len();
        for item in items {
            self.push("response_item", at, &item)?;
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

    /// Writes the tokens of an answer as Codex counts them: of this answer, and of all answers.
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
        self.turn_context(record)?;
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
