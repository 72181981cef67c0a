//! Replies in, whatever the provider.

use tract_core::{Body, Content, Part, Reply};
use tract_schema::Aliases;

use crate::dialect::Dialect;
use crate::error::ReplyError;
use crate::raw::{Fields, Node};
use crate::{anthropic, ollama, openai, responses};

/// Reads an answer that was received whole.
pub(crate) fn read(
    dialect: Dialect,
    text: &str,
    aliases: Option<&Aliases>,
) -> Result<Reply, ReplyError> {
    let fields = Node::root(text).object()?;
    if let Some(error) = fields.some("error") {
        return Err(ReplyError::Provider { message: message_of(&error) });
    }
    let mut reply = match dialect {
        Dialect::OpenAi => openai::reply(&fields)?,
        Dialect::Responses => responses::reply(&fields)?,
        Dialect::Anthropic => anthropic::reply(&fields)?,
        Dialect::Ollama => ollama::reply(&fields)?,
    };
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

/// Reads a count of tokens, when it is one.
pub(crate) fn count(fields: &Fields<'_>, key: &str) -> Option<u64> {
    fields.raw(key)?.parse().ok()
}

/// Reads a count within an object of details.
pub(crate) fn inner_count(fields: &Fields<'_>, key: &str, inner: &str) -> Option<u64> {
    count(&fields.some(key)?.object().ok()?, inner)
}
