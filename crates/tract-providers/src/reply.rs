//! Reads replies of every provider.

use std::collections::VecDeque;

use tract_core::{Body, Content, Draft, Part, Reply, Usage};
use tract_schema::{Aliases, Dialect};

use crate::adapter::{DialectAdapter as _, Reader};
use crate::error::{ImportError, ReplyError};
use crate::import::Watch;
use crate::raw::{Fields, Node};

/// Reads a complete answer without its request: tool names stay as they were sent.
///
/// ```
/// use tract_providers::{Dialect, read_reply};
/// let reply = read_reply(
///     Dialect::Anthropic,
///     r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"add","input":{}}]}"#,
/// )?;
/// assert_eq!(reply.calls().count(), 1);
/// # Ok::<(), tract_providers::ReplyError>(())
/// ```
///
/// # Errors
/// [`ReplyError`] if it is not an answer in this dialect, or an error of the provider.
pub fn read_reply(dialect: Dialect, text: &str) -> Result<Reply, ReplyError> {
    read(dialect, text, None, None)
}

/// Reads an answer as the message that the client sends back in the next request, at index `place`
/// of the list of messages. Calls without a provider's id get the same ids as when that request is
/// read.
///
/// # Errors
/// As [`read_reply`].
pub fn read_reply_at(dialect: Dialect, text: &str, place: usize) -> Result<Reply, ReplyError> {
    read(dialect, text, None, Some(place))
}

/// Reads a complete answer.
pub(crate) fn read(
    dialect: Dialect,
    text: &str,
    aliases: Option<&Aliases>,
    place: Option<usize>,
) -> Result<Reply, ReplyError> {
    let fields = Node::root(text).object()?;
    if let Some(error) = fields.some("error") {
        return Err(ReplyError::Provider { message: message_of(&error) });
    }
    let mut reply = (dialect.profile().reply)(&fields, place)?;
    reply.form = Some(dialect.form().to_owned());
    if let (Some(aliases), Content::Assistant(Body { parts, .. })) = (aliases, &mut reply.content) {
        for part in parts {
            if let Part::ToolCall(call) = part {
                call.name = aliases.original(&call.name).to_owned();
            }
        }
    }
    Ok(reply)
}

pub(crate) fn message_of(error: &Node<'_>) -> String {
    let inner = error.object().ok().and_then(|fields| fields.text("message"));
    inner.or_else(|| error.string().ok()).unwrap_or_else(|| error.raw.to_owned())
}

/// Reads an answer as the messages that are sent back with the next request.
pub(crate) fn drafts_of<'a>(
    mut reader: impl Reader<'a>,
    messages: &[Node<'a>],
    place: usize,
) -> Result<VecDeque<Draft>, ImportError> {
    let mut watch = Watch::default();
    watch.place = place;
    for message in messages {
        reader.message(message, &mut watch)?;
    }
    watch.drafts.extend(reader.end());
    Ok(watch.drafts)
}

/// Makes the reply of an answer that is one message.
pub(crate) fn reply_of<'a>(
    reader: impl Reader<'a>,
    message: Node<'a>,
    place: usize,
    answer: &Fields<'_>,
) -> Result<Reply, ImportError> {
    let draft = drafts_of(reader, &[message], place)?
        .pop_back()
        .ok_or(ImportError::Missing { path: String::new(), member: "content" })?;
    let mut reply = Reply::new(draft.content);
    reply.verbatim = draft.verbatim;
    reply.model = answer.text("model");
    Ok(reply)
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
    read.cached_tokens = detail(&input, "cached_tokens");
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
