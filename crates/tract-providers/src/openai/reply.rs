//! Replies in: the first choice of a chat completion.

use tract_core::{Reply, StopReason};

use super::import;
use crate::error::ReplyError;
use crate::import::Watch;
use crate::raw::Fields;
use crate::reply::usage;

pub(crate) fn reply(fields: &Fields<'_>) -> Result<Reply, ReplyError> {
    let choices = fields.require("choices")?;
    let choice = match choices.array()?.first() {
        Some(choice) => choice.object()?,
        None => return Err(choices.expected("an array with a choice").into()),
    };
    let draft = import::read(&choice.require("message")?, &mut Watch::default())?;
    let mut reply = Reply::new(draft.content);
    reply.verbatim = draft.verbatim;
    reply.id = fields.text("id");
    reply.model = fields.text("model");
    reply.stop_reason = choice.text("finish_reason").map(|reason| match reason.as_str() {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    });
    if let Some(counts) = fields.some("usage") {
        reply.usage = Some(usage(&counts.object()?, "prompt", "completion"));
    }
    Ok(reply)
}
