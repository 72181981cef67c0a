//! Replies in: the message of a chat answer that came whole.

use tract_core::{Reply, StopReason, Usage};
use tract_schema::Dialect;

use super::import;
use crate::adapter::DialectAdapter as _;
use crate::error::ReplyError;
use crate::import::Watch;
use crate::raw::Fields;
use crate::reply::count;

pub(crate) fn reply(fields: &Fields<'_>, place: Option<usize>) -> Result<Reply, ReplyError> {
    let message = fields.require("message")?;
    // Calls without ids get theirs from this number: of the message's place, or so that they are
    // unique in the conversation as far as the answer's time tells.
    let place = place.or_else(|| {
        let time = fields.text("created_at")?;
        let [a, b, c, d, ..] = *tract_core::hash::blob(time.as_bytes()).as_bytes();
        usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()
    });
    let draft = import::read(&message, place.unwrap_or(0), &mut Vec::new(), &mut Watch::default())?;
    let mut reply = Reply::new(draft.content);
    reply.form = Some(Dialect::Ollama.form().to_owned());
    reply.verbatim = draft.verbatim;
    reply.model = fields.text("model");
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

/// Reads the counts of tokens, where the answer has them.
pub(crate) fn usage(fields: &Fields<'_>) -> Option<Usage> {
    let (input, output) = (count(fields, "prompt_eval_count"), count(fields, "eval_count"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let mut read = Usage::default();
    read.input_tokens = input;
    read.output_tokens = output;
    Some(read)
}
