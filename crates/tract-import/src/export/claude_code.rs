//! Writes sessions of Claude Code: one line per message, each a child of the one before.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tract_core::{Commit, CommitId, Content, Op};
use tract_engine::AnswerTokens;

use super::conversation::{Conversation, Entry, ExportedMessage, Recorded, is_imported};
use super::facts::{SessionFacts, made_id, timestamp};
use super::{ExportedSession, counted};

/// The log message that an import writes for an API error, which Claude Code stores as a message.
const API_ERROR: &str = "Claude Code: an API error";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    parent_uuid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_parent_uuid: Option<&'a str>,
    is_sidechain: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    user_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a str>,
    #[serde(rename = "type")]
    line_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtype: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    is_meta: bool,
    #[serde(skip_serializing_if = "is_false")]
    is_compact_summary: bool,
    #[serde(skip_serializing_if = "is_false")]
    is_api_error_message: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    compact_metadata: Option<CompactMetadata<'a>>,
    uuid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

#[derive(Serialize)]
struct MessageFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    message_type: Option<&'static str>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    content: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation: Option<CacheCreation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
}

#[derive(Serialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: u64,
    ephemeral_1h_input_tokens: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CompactMetadata<'a> {
    trigger: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preserved_messages: Option<PreservedMessages<'a>>,
}

#[derive(Serialize)]
struct PreservedMessages<'a> {
    uuids: Vec<&'a str>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Returns whether a commit is one that the import of a session writes.
pub(super) fn is_own(commit: &Commit) -> bool {
    let record = commit.record();
    let is_message = || record.form.as_deref().is_some_and(|form| form.starts_with("anthropic"));
    is_imported(commit)
        && match &record.op {
            Op::Append { priority: None, .. } => is_message(),
            Op::Compress { .. } => true,
            Op::Note => record.message.as_deref().is_some_and(|m| m.starts_with("Claude Code")),
            _ => false,
        }
}

/// The lines of a session while they are written.
struct SessionWriter<'a> {
    facts: &'a SessionFacts,
    agent: Option<&'a str>,
    session: &'a str,
    as_recorded: bool,
    lines: Vec<String>,
    /// The id of the previous line.
    parent: Option<String>,
    uuids: HashSet<String>,
    /// The line of each message.
    line_of: HashMap<CommitId, String>,
    placeholders: usize,
}

pub(super) fn write(
    conversation: &Conversation,
    facts: &SessionFacts,
    head: CommitId,
) -> Result<ExportedSession, serde_json::Error> {
    let session = facts.session_in("claude-code", conversation.as_recorded, head);
    // For a subagent's conversation that continues as a session, omit the call that started it.
    let agent = facts.agent.as_deref().filter(|_| facts.session.as_ref() == Some(&session));
    let mut writer = SessionWriter {
        facts,
        agent,
        session: &session,
        as_recorded: conversation.as_recorded,
        lines: Vec::with_capacity(conversation.entries.len()),
        parent: None,
        uuids: HashSet::new(),
        line_of: HashMap::new(),
        placeholders: 0,
    };
    let (mut messages, mut instructions, mut empty) = (0, 0, 0);
    let mut entries = conversation.entries.iter().peekable();
    while let Some(entry) = entries.next() {
        match entry {
            Entry::Message(message) => {
                let is_said = |text: &String| text != "[]" || conversation.as_recorded;
                let Some(content) = content(message).filter(is_said) else {
                    match message.content {
                        Content::System(_) => instructions += 1,
                        _ => empty += 1,
                    }
                    continue;
                };
                let mut line = vec![(message.as_ref(), content)];
                // One recorded line may be several messages, which then share its id. In
                // conversations of other tools, each message is a line.
                while let Some(Entry::Message(next)) = entries.peek()
                    && conversation.as_recorded
                    && next.record.id.is_some()
                    && next.record.id == message.record.id
                    && role(next) == role(message)
                    && let Some(content) = self::content(next).filter(|text| text.starts_with('['))
                    && line.iter().all(|(_, text)| text.starts_with('['))
                {
                    line.push((next.as_ref(), content));
                    entries.next();
                }
                messages += line.len();
                writer.message(&line)?;
            }
            Entry::Summary { kept, message } => {
                let Some(content) = content(message) else { continue };
                messages += 1;
                writer.summary(kept, message, content)?;
            }
            Entry::Note { commit, message, content, record } => {
                writer.note(*commit, message == API_ERROR, content.as_str(), record)?;
            }
        }
    }
    let left_out = [("instructions", instructions), ("empty messages", empty)];
    let file_name = match agent {
        Some(agent) => format!("agent-{agent}.jsonl"),
        None => format!("{session}.jsonl"),
    };
    Ok(ExportedSession {
        lines: writer.lines,
        file_name,
        messages,
        as_recorded: conversation.as_recorded,
        left_out: counted(left_out),
        session,
    })
}

/// Returns the content of a message in Anthropic's format; `None` for instructions, or if nothing
/// is left.
fn content(message: &ExportedMessage) -> Option<String> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    if matches!(message.content, Content::System(_)) {
        return None;
    }
    let messages: Vec<Fields<'_>> = serde_json::from_str(message.member("messages")?).ok()?;
    Some(messages.first()?.content.get().to_owned())
}

fn role(message: &ExportedMessage) -> &'static str {
    match message.content {
        Content::Assistant(_) | Content::Reasoning(_) => "assistant",
        _ => "user",
    }
}

impl SessionWriter<'_> {
    /// Starts a line after the previous one.
    fn line<'a>(&'a self, line_type: &'static str, uuid: &'a str, record: &Recorded) -> Line<'a> {
        Line {
            parent_uuid: self.parent.as_deref(),
            logical_parent_uuid: None,
            is_sidechain: self.agent.is_some(),
            agent_id: self.agent,
            user_type: "external",
            cwd: self.facts.cwd.as_deref(),
            session_id: self.session,
            version: self.facts.version.as_deref(),
            git_branch: self.facts.git_branch.as_deref(),
            line_type,
            subtype: None,
            content: None,
            message: None,
            request_id: None,
            is_meta: false,
            is_compact_summary: false,
            is_api_error_message: false,
            compact_metadata: None,
            uuid,
            timestamp: timestamp(record.at),
        }
    }

    /// Returns the id of a line: the recorded one, or one made from the commit if there is none or
    /// it is taken.
    fn uuid(&mut self, commit: Option<CommitId>, record: &Recorded) -> String {
        let recorded = record.id.clone().filter(|id| !id.is_empty() && !self.uuids.contains(id));
        let uuid = recorded.unwrap_or_else(|| match commit {
            Some(commit) => made_id(commit, "line"),
            None => {
                self.placeholders += 1;
                let number = self.placeholders;
                let before = self.parent.as_deref().unwrap_or_default();
                let bytes = tract_core::hash::blob(format!("{before} {number}").as_bytes());
                made_id(CommitId::from_bytes(*bytes.as_bytes()), "placeholder")
            }
        });
        self.uuids.insert(uuid.clone());
        uuid
    }

    fn push(&mut self, line: String, uuid: String) {
        self.lines.push(line);
        self.parent = Some(uuid);
    }

    fn message(&mut self, parts: &[(&ExportedMessage, String)]) -> Result<(), serde_json::Error> {
        let Some((first, _)) = parts.first() else { return Ok(()) };
        let uuid = self.uuid(first.commit, &first.record);
        for (message, _) in parts {
            self.line_of.extend(message.commit.map(|commit| (commit, uuid.clone())));
        }
        let content = joined(parts)?;
        let facts = &first.record.facts;
        let role = role(first);
        let mut line = self.line(role, &uuid, &first.record);
        line.request_id = facts.request_id.as_deref();
        line.is_meta = facts.injected.as_deref() == Some("meta");
        line.message = Some(self.fields(first, role, content));
        let text = serde_json::to_string(&line)?;
        self.push(text, uuid);
        Ok(())
    }

    fn fields<'a>(
        &self,
        message: &'a ExportedMessage,
        role: &'static str,
        content: Box<RawValue>,
    ) -> MessageFields<'a> {
        let facts = &message.record.facts;
        // Claude Code joins the blocks of an answer by this id.
        let made = || Some(format!("msg_{}", made_id(message.commit?, "message").replace('-', "")));
        let id = match role == "assistant" && !self.as_recorded {
            true => facts.message_id.clone().or_else(made),
            false => facts.message_id.clone(),
        };
        MessageFields {
            id,
            message_type: (role == "assistant").then_some("message"),
            role,
            model: facts.model.as_deref(),
            content,
            stop_reason: facts.stop_reason.as_deref(),
            usage: facts.usage.map(Usage::from),
        }
    }

    fn summary(
        &mut self,
        kept: &[CommitId],
        message: &ExportedMessage,
        content: String,
    ) -> Result<(), serde_json::Error> {
        let content = RawValue::from_string(content)?;
        let mut seen = HashSet::new();
        let lines = kept.iter().filter_map(|slot| self.line_of.get(slot));
        let uuids: Vec<&str> = lines.map(String::as_str).filter(|id| seen.insert(*id)).collect();
        let Some(commit) = message.commit else { return Ok(()) };
        let boundary = made_id(commit, "boundary");
        let mut line = self.line("system", &boundary, &message.record);
        line.logical_parent_uuid = line.parent_uuid.take();
        line.subtype = Some("compact_boundary");
        line.content = Some("Conversation compacted");
        let preserved = (!uuids.is_empty()).then_some(PreservedMessages { uuids });
        line.compact_metadata =
            Some(CompactMetadata { trigger: "manual", preserved_messages: preserved });
        let text = serde_json::to_string(&line)?;
        self.push(text, boundary);
        let uuid = self.uuid(message.commit, &message.record);
        self.line_of.extend(message.commit.map(|commit| (commit, uuid.clone())));
        let mut line = self.line("user", &uuid, &message.record);
        line.is_compact_summary = true;
        line.request_id = message.record.facts.request_id.as_deref();
        line.is_meta = message.record.facts.injected.as_deref() == Some("meta");
        line.message = Some(self.fields(message, "user", content));
        let text = serde_json::to_string(&line)?;
        self.push(text, uuid);
        Ok(())
    }

    fn note(
        &mut self,
        commit: CommitId,
        is_error: bool,
        content: &str,
        record: &Recorded,
    ) -> Result<(), serde_json::Error> {
        let content = RawValue::from_string(content.to_owned())?;
        let uuid = self.uuid(Some(commit), record);
        let mut line = self.line("assistant", &uuid, record);
        line.is_api_error_message = is_error;
        line.message = Some(MessageFields {
            id: Some(made_id(commit, "message")),
            message_type: Some("message"),
            role: "assistant",
            model: Some("<synthetic>"),
            content,
            stop_reason: None,
            usage: None,
        });
        let text = serde_json::to_string(&line)?;
        self.push(text, uuid);
        Ok(())
    }
}

/// Joins the contents of messages on one line into one list.
fn joined(parts: &[(&ExportedMessage, String)]) -> Result<Box<RawValue>, serde_json::Error> {
    if let [(_, content)] = parts {
        return RawValue::from_string(content.clone());
    }
    let mut blocks: Vec<&RawValue> = Vec::new();
    for (_, content) in parts {
        blocks.extend(serde_json::from_str::<Vec<&RawValue>>(content)?);
    }
    serde_json::value::to_raw_value(&blocks)
}

impl From<AnswerTokens> for Usage {
    fn from(usage: AnswerTokens) -> Self {
        Self {
            input_tokens: usage.uncached(),
            cache_creation_input_tokens: usage.cache_write,
            cache_creation: usage.cache_write_1h.map(|hour| CacheCreation {
                ephemeral_5m_input_tokens: usage
                    .cache_write
                    .unwrap_or_default()
                    .saturating_sub(hour),
                ephemeral_1h_input_tokens: hour,
            }),
            cache_read_input_tokens: usage.cache_read,
            output_tokens: usage.output,
        }
    }
}
