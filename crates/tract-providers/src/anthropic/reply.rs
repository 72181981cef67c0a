//! Reads replies: an Anthropic message.

use tract_core::{Reply, StopReason, Usage};

use super::import::Messages;
use super::lower;
use crate::answers::{count, reply_of};
use crate::drafts::Watch;
use crate::error::ReplyError;
use crate::raw::{Fields, Node};

pub(crate) fn reply(
    fields: &Fields<'_>,
    _place: Option<usize>,
    watch: &mut Watch,
) -> Result<Reply, ReplyError> {
    // Only role and content go back as a message.
    let role = fields.require("role")?.string()?;
    let message = lower::message(&role, fields.require("content")?.raw);
    let mut reply = reply_of(Messages, Node::root(&message), 0, fields, watch)?;
    reply.id = fields.text("id");
    reply.stop_reason = fields.text("stop_reason").map(|reason| match reason.as_str() {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    });
    reply.usage = fields.some_object("usage")?.map(|counts| usage(&counts));
    Ok(reply)
}

/// Reads the token counts. `input_tokens` does not include tokens read from the cache or written to
/// it, so they are added.
pub(crate) fn usage(counts: &Fields<'_>) -> Usage {
    let read = count(counts, "cache_read_input_tokens");
    let lifetimes = counts.some_object("cache_creation").ok().flatten();
    let lifetime = |name: &str| lifetimes.as_ref().and_then(|split| count(split, name));
    let hour = lifetime("ephemeral_1h_input_tokens");
    let split = hour.zip(lifetime("ephemeral_5m_input_tokens"));
    let split = split.map(|(hour, minutes)| hour.saturating_add(minutes));
    let all = count(counts, "cache_creation_input_tokens").or(split);
    let written = all.unwrap_or(0);
    Usage {
        input_tokens: count(counts, "input_tokens")
            .map(|own| own.saturating_add(written).saturating_add(read.unwrap_or(0))),
        output_tokens: count(counts, "output_tokens"),
        cached_tokens: read,
        cache_write_tokens: all.filter(|tokens| *tokens > 0),
        cache_write_1h_tokens: hour.filter(|tokens| *tokens > 0),
        ..Usage::default()
    }
}
