//! Reads replies: the first candidate of a response. The others are kept next to it.

use tract_core::{Body, Content, Reply, StopReason, Usage};

use super::import::Contents;
use crate::answers::{count, drafts_of, other_choices, place_of};
use crate::drafts::Watch;
use crate::error::{ImportError, ReplyError};
use crate::raw::Fields;

pub(crate) fn reply(
    fields: &Fields<'_>,
    place: Option<usize>,
    watch: &mut Watch,
) -> Result<Reply, ReplyError> {
    let candidates = fields.some("candidates").map(|list| list.array()).transpose()?;
    let candidates = candidates.unwrap_or_default();
    let others = other_choices(&candidates);
    let candidate = candidates.into_iter().next();
    let mut reply = Reply::new(Content::Assistant(Body::default()));
    reply.id = fields.text("responseId");
    reply.other_choices = others;
    reply.model = fields.text("modelVersion");
    match candidate {
        Some(candidate) => {
            let candidate = candidate.object()?;
            if let Some(content) = candidate.some("content") {
                // Calls without ids get ids derived from the message's place, or from the answer's
                // id.
                let place = place.or_else(|| place_of(reply.id.as_ref()?));
                let nodes = std::slice::from_ref(&content);
                let mut drafts = drafts_of(Contents::default(), nodes, place.unwrap_or(0), watch)?;
                let draft = drafts.pop_front().filter(|draft| {
                    drafts.is_empty() && matches!(draft.content, Content::Assistant(_))
                });
                let Some(draft) = draft else {
                    let error: ImportError = content.expected("a content of the model's");
                    return Err(error.into());
                };
                reply.content = draft.content;
                reply.verbatim = draft.verbatim;
            }
            let calls = reply.calls().next().is_some();
            reply.stop_reason = candidate.text("finishReason").map(|reason| stopped(reason, calls));
        }
        // The prompt was rejected.
        None => {
            let feedback = fields.require("promptFeedback")?.object()?;
            let reason = feedback.require("blockReason")?.string()?;
            let what = format!("the prompt was blocked ({reason}): the answer has no content");
            watch.note(&feedback.path, what);
            reply.stop_reason = Some(StopReason::Refusal);
        }
    }
    reply.usage = fields.some_object("usageMetadata")?.map(|counts| usage(&counts));
    Ok(reply)
}

fn stopped(reason: String, calls: bool) -> StopReason {
    match reason.as_str() {
        "STOP" if calls => StopReason::ToolUse,
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    }
}

/// Reads the token counts. Tokens of thoughts are added to those of the candidates, and tokens of
/// Google's built-in tools to those of the prompt.
pub(crate) fn usage(counts: &Fields<'_>) -> Usage {
    let plus = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    };
    let thoughts = count(counts, "thoughtsTokenCount");
    let prompt = count(counts, "promptTokenCount");
    Usage {
        input_tokens: plus(prompt, count(counts, "toolUsePromptTokenCount")),
        output_tokens: plus(count(counts, "candidatesTokenCount"), thoughts),
        cached_tokens: count(counts, "cachedContentTokenCount"),
        reasoning_tokens: thoughts,
        ..Usage::default()
    }
}
