//! The relevant members of a line of a session file.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::Content;

use crate::values::{self, lenient};

/// A line as it is written. Members that are not listed here do not affect the model.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) line_type: Option<String>,
    pub(super) subtype: Option<String>,
    pub(super) uuid: Option<String>,
    pub(super) parent_uuid: Option<String>,
    pub(super) logical_parent_uuid: Option<String>,
    pub(super) is_sidechain: Option<bool>,
    pub(super) agent_id: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) timestamp: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) git_branch: Option<String>,
    pub(super) version: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) is_meta: Option<bool>,
    pub(super) is_compact_summary: Option<bool>,
    pub(super) is_api_error_message: Option<bool>,
    #[serde(default, deserialize_with = "values::member")]
    pub(super) compact_metadata: Option<CompactMetadata>,
    #[serde(borrow)]
    pub(super) tool_use_result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) attachment: Option<&'a RawValue>,
    pub(super) summary: Option<String>,
    pub(super) leaf_uuid: Option<String>,
    pub(super) ai_title: Option<String>,
    pub(super) custom_title: Option<String>,
}

/// The metadata of a `compact_boundary`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CompactMetadata {
    #[serde(default, deserialize_with = "values::member")]
    pub(super) preserved_segment: Option<PreservedSegment>,
    #[serde(default, deserialize_with = "values::member")]
    pub(super) preserved_messages: Option<PreservedMessages>,
}

/// A range of messages that stay after a compaction.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PreservedSegment {
    pub(super) head_uuid: Option<String>,
    pub(super) tail_uuid: Option<String>,
}

/// Messages that stay after a compaction.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PreservedMessages {
    #[serde(default, deserialize_with = "values::members")]
    pub(super) uuids: Option<Vec<String>>,
}

impl CompactMetadata {
    /// Returns the ids of the kept messages, if listed.
    pub(super) fn preserved(&self) -> Vec<String> {
        let listed = self.preserved_messages.iter().flat_map(|kept| &kept.uuids).flatten();
        let tail = self.preserved_segment.iter().filter_map(|segment| segment.tail_uuid.as_ref());
        listed.chain(tail).cloned().collect()
    }

    /// Returns the first kept message, if only the ends are named.
    pub(super) fn head(&self) -> Option<String> {
        let is_listed = self
            .preserved_messages
            .as_ref()
            .is_some_and(|kept| kept.uuids.iter().flatten().next().is_some());
        self.preserved_segment.as_ref().filter(|_| !is_listed)?.head_uuid.clone()
    }
}

/// The `message` of a line.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessageFields<'a> {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "values::member")]
    pub(super) usage: Option<Usage>,
}

/// The tokens of an answer so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "values::member")]
    pub(super) cache_creation: Option<CacheCreation>,
}

/// Tokens written to the cache, by lifetime.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

impl Usage {
    /// Returns the tokens written to the cache.
    pub(super) fn written(&self) -> Option<u64> {
        let split = self.cache_creation.and_then(|split| {
            let hour = split.ephemeral_1h_input_tokens?;
            Some(hour.saturating_add(split.ephemeral_5m_input_tokens.unwrap_or_default()))
        });
        self.cache_creation_input_tokens.or(split)
    }

    /// Returns the tokens written to the cache for an hour.
    pub(super) fn written_1h(&self) -> u64 {
        let hour = self.cache_creation.and_then(|split| split.ephemeral_1h_input_tokens);
        hour.unwrap_or_default().min(self.written().unwrap_or_default())
    }
}

/// The type of a content block, and the call that it is or answers.
#[derive(Debug, Deserialize)]
pub(super) struct BlockFields {
    #[serde(rename = "type")]
    pub(super) block_type: Option<String>,
    pub(super) id: Option<String>,
    pub(super) tool_use_id: Option<String>,
}

impl BlockFields {
    /// Returns the id of a call block.
    pub(super) fn call(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| self.block_type.as_deref() == Some("tool_use"))
    }

    /// Returns the id of the call that a result block answers.
    pub(super) fn result(&self) -> Option<&str> {
        self.tool_use_id.as_deref().filter(|_| self.block_type.as_deref() == Some("tool_result"))
    }
}

/// An `attachment`, for example a prompt that was typed while the model was working.
#[derive(Debug, Deserialize)]
pub(super) struct Attachment<'a> {
    #[serde(rename = "type")]
    pub(super) attachment_type: Option<String>,
    #[serde(borrow)]
    pub(super) prompt: Option<&'a RawValue>,
}

pub(super) fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns the blocks of a content; empty if it is a text.
pub(super) fn blocks(content: &str) -> Vec<BlockFields> {
    serde_json::from_str(content).unwrap_or_default()
}

/// Returns the subagent that a result reports.
pub(super) fn started_agent(line: &Line<'_>, content: &Content) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Started {
        agent_id: Option<String>,
    }
    // The result of another tool has any type.
    let result = line.tool_use_result.filter(|raw| raw.get().starts_with('{'));
    let stated = lenient::<Started>(result);
    if let Some(agent) = stated.and_then(|started| started.agent_id) {
        return Some(agent);
    }
    let text = content.text();
    let (_, tail) = text.rsplit_once("agentId:")?;
    let id: String = tail.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
    (!id.is_empty()).then_some(id)
}

/// Returns whether a line has the members that only lines of Claude Code have together.
pub(crate) fn is_session_line(line: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        #[serde(rename = "type")]
        line_type: Option<String>,
        uuid: Option<String>,
        session_id: Option<String>,
        leaf_uuid: Option<String>,
        message_id: Option<String>,
    }
    let Ok(head) = serde_json::from_str::<Head>(line) else { return false };
    match head.line_type.as_deref() {
        Some("user" | "assistant" | "system" | "progress" | "attachment") => {
            head.uuid.is_some() && head.session_id.is_some()
        }
        Some("summary") => head.leaf_uuid.is_some(),
        Some("file-history-snapshot") => head.message_id.is_some(),
        Some("queue-operation" | "permission-mode" | "last-prompt") => head.session_id.is_some(),
        _ => false,
    }
}
