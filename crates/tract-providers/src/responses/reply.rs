//! Replies in: the output items of a response.

use tract_core::{Body, Content, Reply, StopReason};

use super::import;
use crate::error::{ImportError, ReplyError};
use crate::import::Watch;
use crate::raw::Fields;
use crate::reply::usage;

pub(crate) fn reply(fields: &Fields<'_>) -> Result<Reply, ReplyError> {
    let output = fields.require("output")?;
    let mut drafts = Vec::new();
    import::items(&output.array()?, &mut Watch::default(), &mut drafts)?;
    let mut reply = Reply::new(Content::Assistant(Body::default()));
    match drafts.as_slice() {
        [] => {}
        [draft] if matches!(draft.content, Content::Assistant(_)) => {
            reply.content = draft.content.clone();
            reply.verbatim = draft.verbatim.clone();
        }
        _ => {
            let error: ImportError = output.expected("an array of the model's items");
            return Err(error.into());
        }
    }
    reply.id = fields.text("id");
    reply.model = fields.text("model");
    let reason = fields
        .some("incomplete_details")
        .and_then(|details| details.object().ok())
        .and_then(|details| details.text("reason"));
    reply.stop_reason = match (fields.text("status").as_deref(), reason) {
        (_, Some(reason)) if reason == "max_output_tokens" => Some(StopReason::MaxTokens),
        (_, Some(reason)) if reason == "content_filter" => Some(StopReason::Refusal),
        (_, Some(reason)) => Some(StopReason::Other(reason)),
        (Some("completed"), None) if reply.calls().next().is_some() => Some(StopReason::ToolUse),
        (Some("completed"), None) => Some(StopReason::EndTurn),
        (Some(status), None) => Some(StopReason::Other(status.to_owned())),
        (None, None) => None,
    };
    if let Some(counts) = fields.some("usage") {
        reply.usage = Some(usage(&counts.object()?, "input", "output"));
    }
    Ok(reply)
}
