//! Reads replies: the output items of a response.

use tract_core::{Body, Content, Reply, StopReason};

use super::import::ModelItems;
use crate::answers::{drafts_of, usage};
use crate::drafts::Watch;
use crate::error::ReplyError;
use crate::raw::Fields;

pub(crate) fn reply(
    fields: &Fields<'_>,
    _place: Option<usize>,
    watch: &mut Watch,
) -> Result<Reply, ReplyError> {
    let output = fields.require("output")?;
    let mut reply = Reply::new(Content::Assistant(Body::default()));
    let mut drafts = drafts_of(ModelItems::default(), &output.array()?, 0, watch)?;
    if let Some(draft) = drafts.pop_front() {
        if !drafts.is_empty() || !matches!(draft.content, Content::Assistant(_)) {
            return Err(output.expected("an array of the model's items").into());
        }
        reply.content = draft.content;
        reply.verbatim = draft.verbatim;
    }
    reply.id = fields.text("id");
    reply.model = fields.text("model");
    let details = fields.some_object("incomplete_details").ok().flatten();
    let reason = details.and_then(|details| details.text("reason"));
    reply.stop_reason = match (fields.text("status").as_deref(), reason) {
        (_, Some(reason)) if reason == "max_output_tokens" => Some(StopReason::MaxTokens),
        (_, Some(reason)) if reason == "content_filter" => Some(StopReason::Refusal),
        (_, Some(reason)) => Some(StopReason::Other(reason)),
        (Some("completed"), None) if reply.calls().next().is_some() => Some(StopReason::ToolUse),
        (Some("completed"), None) => Some(StopReason::EndTurn),
        (Some(status), None) => Some(StopReason::Other(status.to_owned())),
        (None, None) => None,
    };
    let counts = fields.some_object("usage")?;
    reply.usage = counts.map(|counts| usage(&counts, "input", "output"));
    Ok(reply)
}
