//! Parts of answers that several dialects read alike.

use std::collections::VecDeque;

use tract_core::{Draft, JsonText, Reply, Usage};

use crate::drafts::Watch;
use crate::error::ImportError;
use crate::raw::{Fields, Node};
use crate::reader::Reader;

/// Returns the message of a provider's error.
pub(crate) fn message_of(error: &Node<'_>) -> String {
    let inner = error.object().ok().and_then(|fields| fields.text("message"));
    inner.or_else(|| error.string().ok()).unwrap_or_else(|| error.raw.to_owned())
}

/// Reads an answer as the messages that are sent back with the next request.
pub(crate) fn drafts_of<'a>(
    mut reader: impl Reader<'a>,
    messages: &[Node<'a>],
    place: usize,
    watch: &mut Watch,
) -> Result<VecDeque<Draft>, ImportError> {
    watch.place = place;
    for message in messages {
        reader.message(message, watch)?;
    }
    watch.drafts.extend(reader.end());
    Ok(std::mem::take(&mut watch.drafts))
}

/// Makes the reply of an answer that is one message.
pub(crate) fn reply_of<'a>(
    reader: impl Reader<'a>,
    message: Node<'a>,
    place: usize,
    answer: &Fields<'_>,
    watch: &mut Watch,
) -> Result<Reply, ImportError> {
    let draft = drafts_of(reader, &[message], place, watch)?
        .pop_back()
        .ok_or(ImportError::Missing { path: String::new(), member: "content" })?;
    let mut reply = Reply::new(draft.content);
    reply.verbatim = draft.verbatim;
    reply.model = answer.text("model");
    Ok(reply)
}

/// Returns the answers after the first one, as received.
pub(crate) fn other_choices(choices: &[Node<'_>]) -> Vec<JsonText> {
    choices.iter().skip(1).map(|choice| kept_json(choice.raw)).collect()
}

/// Returns the index of a choice in a stream. An invalid one counts as an index of its own.
pub(crate) fn choice_index(raw: &str) -> u64 {
    raw.parse().unwrap_or(u64::MAX)
}

/// Returns a JSON text in canonical form. A text that has none, such as one with a number that is
/// out of range, becomes a string.
pub(crate) fn kept_json(text: &str) -> JsonText {
    let kept = JsonText::new(text).or_else(|_| JsonText::of(text));
    kept.expect("a string has a canonical form")
}

/// Derives a place from the id of an answer. Call ids made from it are unique in the conversation
/// if the answer's id is.
pub(crate) fn place_of(text: &str) -> Option<usize> {
    let [a, b, c, d, ..] = *tract_core::hash::blob(text.as_bytes()).as_bytes();
    usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()
}

/// Reads token counts named `{input}_tokens` and `{output}_tokens`.
pub(crate) fn usage(counts: &Fields<'_>, input: &str, output: &str) -> Usage {
    let mut read = Usage::default();
    let [input, output] = [input, output].map(|side| format!("{side}_tokens"));
    read.input_tokens = count(counts, &input);
    read.output_tokens = count(counts, &output);
    let details = |side: &str| counts.some(&format!("{side}_details"))?.object().ok();
    let detail = |side: &str, key: &str| count(&details(side)?, key);
    // DeepSeek counts them next to the total.
    read.cached_tokens =
        detail(&input, "cached_tokens").or_else(|| count(counts, "prompt_cache_hit_tokens"));
    let requests = details(&input);
    // OpenAI's name, LiteLLM's, and Anthropic's, which proxies pass on.
    let written = requests.as_ref().and_then(|details| {
        count(details, "cache_write_tokens").or_else(|| count(details, "cache_creation_tokens"))
    });
    let written = written.or_else(|| count(counts, "cache_creation_input_tokens"));
    read.cache_write_tokens = written.filter(|tokens| *tokens > 0);
    let lifetimes = requests
        .and_then(|details| details.some_object("cache_creation_token_details").ok().flatten())
        .or_else(|| counts.some_object("cache_creation").ok().flatten());
    let hour = lifetimes.and_then(|split| count(&split, "ephemeral_1h_input_tokens"));
    read.cache_write_1h_tokens = hour.filter(|tokens| *tokens > 0);
    read.reasoning_tokens = detail(&output, "reasoning_tokens");
    read
}

/// Reads a token count, if it is a number.
pub(crate) fn count(fields: &Fields<'_>, key: &str) -> Option<u64> {
    fields.raw(key)?.parse().ok()
}
