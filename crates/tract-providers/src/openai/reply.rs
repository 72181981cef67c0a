//! Reads replies: the first choice of a chat completion. The others are kept next to it.

use tract_core::{Reply, StopReason};

use super::import::Messages;
use crate::answers::{other_choices, reply_of, usage};
use crate::drafts::Watch;
use crate::error::ReplyError;
use crate::raw::Fields;

pub(crate) fn reply(
    fields: &Fields<'_>,
    _place: Option<usize>,
    watch: &mut Watch,
) -> Result<Reply, ReplyError> {
    let choices = fields.require("choices")?;
    let all = choices.array()?;
    let choice = match all.first() {
        Some(choice) => choice.object()?,
        None => return Err(choices.expected("an array with a choice").into()),
    };
    let mut reply = reply_of(Messages, choice.require("message")?, 0, fields, watch)?;
    reply.id = fields.text("id");
    reply.other_choices = other_choices(&all);
    reply.stop_reason = choice.text("finish_reason").map(|reason| match reason.as_str() {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    });
    let counts = fields.some_object("usage")?;
    reply.usage = counts.map(|counts| usage(&counts, "prompt", "completion"));
    Ok(reply)
}
