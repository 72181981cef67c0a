//! Reads replies: the message of a complete chat answer.

use tract_core::{Reply, StopReason, Usage};

use super::import::Messages;
use crate::answers::{count, place_of, reply_of};
use crate::drafts::Watch;
use crate::error::ReplyError;
use crate::raw::Fields;

pub(crate) fn reply(
    fields: &Fields<'_>,
    place: Option<usize>,
    watch: &mut Watch,
) -> Result<Reply, ReplyError> {
    let message = fields.require("message")?;
    // Calls without ids get ids derived from the message's place, or from the answer's time.
    let place = place.or_else(|| place_of(&fields.text("created_at")?));
    let mut reply = reply_of(Messages::default(), message, place.unwrap_or(0), fields, watch)?;
    reply.stop_reason = match fields.text("done_reason").as_deref() {
        _ if reply.calls().next().is_some() => Some(StopReason::ToolUse),
        Some("stop") => Some(StopReason::EndTurn),
        Some("length") => Some(StopReason::MaxTokens),
        Some(reason) => Some(StopReason::Other(reason.to_owned())),
        None => None,
    };
    reply.usage = usage(fields);
    Ok(reply)
}

/// Reads the token counts, if the answer has them.
pub(crate) fn usage(fields: &Fields<'_>) -> Option<Usage> {
    let (input, output) = (count(fields, "prompt_eval_count"), count(fields, "eval_count"));
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(Usage { input_tokens: input, output_tokens: output, ..Usage::default() })
}
