//! Reads replies of every provider.

use tract_core::{Body, Content, JsonText, Part, Reply};
use tract_schema::{Aliases, Dialect};

use crate::answers::message_of;
use crate::drafts::{Anomaly, Watch};
use crate::error::ReplyError;
use crate::form::Form;
use crate::other_members::other_members;
use crate::params::Params;
use crate::profile_of;
use crate::raw::Node;

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

/// A complete answer, with everything that its reply does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeAnswer {
    /// The answer.
    pub reply: Reply,
    /// The members of the answer that the reply does not have, as [`other_members`] returns them.
    pub others: Option<JsonText>,
    /// Content that was not understood.
    pub anomalies: Vec<Anomaly>,
}

/// Reads an answer as the message that the client sends back in the next request, at index `place`
/// of the list of messages. Calls without a provider's id get the same ids as when that request is
/// read. `request` is the body of the answered request.
///
/// # Errors
/// As [`read_reply`].
pub fn read_answer(
    dialect: Dialect,
    text: &str,
    request: &str,
    place: usize,
) -> Result<WholeAnswer, ReplyError> {
    let mut watch = Watch::default();
    let reply = read_watched(dialect, text, None, Some(place), &mut watch)?;
    let others = other_members(dialect, text, request);
    Ok(WholeAnswer { reply, others, anomalies: watch.anomalies })
}

/// Reads a complete answer.
pub(crate) fn read(
    dialect: Dialect,
    text: &str,
    aliases: Option<&Aliases>,
    place: Option<usize>,
) -> Result<Reply, ReplyError> {
    read_watched(dialect, text, aliases, place, &mut Watch::default())
}

/// Reads a complete answer, and collects the anomalies of its message.
pub(crate) fn read_watched(
    dialect: Dialect,
    text: &str,
    aliases: Option<&Aliases>,
    place: Option<usize>,
    watch: &mut Watch,
) -> Result<Reply, ReplyError> {
    let fields = Node::root(text).object()?;
    if let Some(error) = fields.some("error") {
        return Err(ReplyError::Provider { message: message_of(&error) });
    }
    let profile = profile_of(dialect);
    let mut reply = (profile.reply)(&fields, place, watch)?;
    reply.form = Some(profile.format.form.to_owned());
    if let (Some(aliases), Content::Assistant(Body { parts, .. })) = (aliases, &mut reply.content) {
        for part in parts {
            if let Part::ToolCall(call) = part {
                call.name = aliases.original(&call.name).to_owned();
            }
        }
    }
    Ok(reply)
}

impl Params {
    /// Reads the provider's answer to this request: text, calls under their original names, usage.
    /// The answer belongs after the compiled head.
    ///
    /// # Errors
    /// [`ReplyError`] if the provider answered with an error, or the text is not a reply.
    pub fn reply(&self, text: &str) -> Result<Reply, ReplyError> {
        let mut reply = read(self.request_dialect()?, text, self.aliases.as_ref(), None)?;
        reply.head = self.head;
        reply.sent = self.sent.clone();
        Ok(reply)
    }

    /// Returns the dialect, if the form is a request.
    pub(crate) fn request_dialect(&self) -> Result<Dialect, ReplyError> {
        match self.form {
            Form::Params(dialect) => Ok(dialect),
            Form::Conversation(_) | Form::Messages => {
                Err(ReplyError::NoRequest { form: self.form.as_str() })
            }
        }
    }
}
