//! Answers of the server: errors by status, and checks that no answer contains the key.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use tract_core::{Blob, JsonText, KnownSecrets, ModelError, Part, PartialReply, Reply};

use super::Inner;
use super::builder::ApiKey;
use crate::answers::message_of;
use crate::error::ReplyError;
use crate::raw::Node;

/// Maximum length of an error's message in characters.
const LONGEST_MESSAGE: usize = 600;

/// A failed request, and the wait that the server asks for.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: ModelError,
    pub(super) retry_after: Option<Duration>,
}

impl From<ModelError> for Failed {
    fn from(error: ModelError) -> Self {
        Self { error, retry_after: None }
    }
}

impl Inner {
    /// The URL for error messages, without the query, which may contain a secret.
    pub(super) fn shown_url(&self) -> String {
        let mut url = self.base.clone();
        url.set_query(None);
        url.into()
    }

    /// Redacts the key, and cuts a text that is too long for a message.
    fn redacted(&self, text: &str) -> String {
        // Hidden before the text is cut: a cut within the key would leave its beginning.
        let text = match &self.settings.key {
            Some(key) => key.hide_in(text),
            None => text.to_owned(),
        };
        match text.char_indices().nth(LONGEST_MESSAGE) {
            Some((at, _)) => format!("{} …", &text[..at]),
            None => text,
        }
    }

    /// Converts a status that is not a success to an error, with details from a JSON body.
    pub(super) fn refused(
        &self,
        status: StatusCode,
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> Failed {
        let text = String::from_utf8_lossy(body);
        let message = Node::root(&text).object().ok().and_then(|fields| {
            let error = fields.some("error").or_else(|| fields.some("detail"));
            error.map(|error| message_of(&error)).or_else(|| fields.text("message"))
        });
        let message = match message {
            Some(message) => format!("{}: {}", status.as_u16(), self.redacted(&message)),
            None if status.is_redirection() => {
                format!("{}: redirects are not followed", status.as_u16())
            }
            None => status.to_string(),
        };
        let error = match status.as_u16() {
            401 | 403 => ModelError::Unauthorized { message },
            429 => ModelError::RateLimited { message, retry_after },
            408 | 409 | 425 | 500..=599 => ModelError::Unavailable { message, source: None },
            _ => ModelError::InvalidRequest { message },
        };
        Failed { error, retry_after }
    }

    /// Converts a failure of the connection.
    pub(super) fn unreachable(&self, error: reqwest::Error) -> ModelError {
        // A base URL may have a key in its query.
        let error = error.without_url();
        if error.is_timeout() {
            return ModelError::Timeout { after: self.settings.connect_timeout };
        }
        let what = if error.is_connect() { "no connection to" } else { "the connection broke to" };
        let host = self.base.host_str().unwrap_or_default();
        let port = self.base.port_or_known_default().unwrap_or_default();
        ModelError::Unavailable {
            message: format!("{what} {host}:{port}"),
            source: Some(Box::new(error)),
        }
    }

    /// Rejects an answer that contains the key, because answers are stored.
    pub(super) fn check_for_key(&self, received: &[u8]) -> Result<(), ModelError> {
        match &self.settings.key {
            Some(key) if key.is_in(received) => Err(repeats_key()),
            _ => Ok(()),
        }
    }

    /// Rejects an answer whose assembled texts contain the key, which may have been split over
    /// several pieces.
    pub(super) fn check_reply_for_key(&self, reply: &Reply) -> Result<(), ModelError> {
        let calls = reply.calls().map(|call| format!("{} {}", call.name, call.arguments));
        let names = reply.model.iter().chain(&reply.id).cloned();
        let others = reply.other_choices.iter().flat_map(texts_of);
        // A model may write the key over several parts, in its reasoning or in a signature.
        let parts: String = reply.content.parts().iter().map(text_of).collect();
        let stored = reply.content.to_blob().ok();
        let received = reply.verbatim.iter().filter_map(Blob::text).flat_map(joined_texts);
        [reply.text(), parts]
            .into_iter()
            .chain(stored)
            .chain(received)
            .chain(calls)
            .chain(names)
            .chain(others)
            .try_for_each(|text| self.check_for_key(text.as_bytes()))
    }

    /// As [`check_reply_for_key`](Self::check_reply_for_key), for an answer that broke off.
    pub(super) fn check_partial_for_key(&self, partial: &PartialReply) -> Result<(), ModelError> {
        let calls = partial.calls.iter().map(|call| &call.call.arguments);
        let names = partial.model.iter().chain(&partial.id);
        let mut texts = [&partial.text, &partial.reasoning].into_iter().chain(calls).chain(names);
        texts.try_for_each(|text| self.check_for_key(text.as_bytes()))?;
        let mut others = partial.other_choices.iter().flat_map(texts_of);
        others.try_for_each(|text| self.check_for_key(text.as_bytes()))
    }

    /// Returns the texts to look for in the pieces of a stream.
    pub(super) fn secrets(&self) -> KnownSecrets {
        self.settings.key.as_ref().map(ApiKey::secrets).unwrap_or_default()
    }

    /// Converts the error of a body that is not a reply.
    pub(super) fn unreadable(&self, error: ReplyError) -> ModelError {
        match error {
            ReplyError::Provider { message } => ModelError::other(self.redacted(&message)),
            error => ModelError::InvalidReply {
                message: error.to_string(),
                source: Some(Box::new(error)),
            },
        }
    }

    /// Redacts the key in an error that the provider sent within a stream.
    pub(super) fn tell(&self, mut error: ModelError) -> ModelError {
        if let ModelError::Unavailable { message, .. }
        | ModelError::RateLimited { message, .. }
        | ModelError::Unauthorized { message }
        | ModelError::InvalidRequest { message }
        | ModelError::Other { message, .. } = &mut error
        {
            *message = self.redacted(message);
        }
        error
    }
}

/// Returns the text that a model wrote in a part.
fn text_of(part: &Part) -> &str {
    match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text,
        Part::Image { .. } | Part::ToolCall(_) | Part::Opaque { .. } => "",
    }
}

/// Returns the texts to look for the key in another choice: its JSON, all its strings joined, because
/// its text may consist of several parts, and those of each member joined.
fn texts_of(choice: &JsonText) -> Vec<String> {
    joined_texts(choice.as_str())
}

/// Returns a JSON text, all its strings joined, and the strings of each member joined: a list such as
/// `reasoning_details` has a piece of the text in each element, next to other members.
fn joined_texts(json: &str) -> Vec<String> {
    fn collect(value: &Value, name: &str, all: &mut String, named: &mut BTreeMap<String, String>) {
        match value {
            Value::String(text) => {
                all.push_str(text);
                named.entry(name.to_owned()).or_default().push_str(text);
            }
            Value::Array(list) => list.iter().for_each(|value| collect(value, name, all, named)),
            Value::Object(members) => {
                members.iter().for_each(|(name, value)| collect(value, name, all, named));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let (mut all, mut named) = (String::new(), BTreeMap::new());
    if let Ok(value) = serde_json::from_str(json) {
        collect(&value, "", &mut all, &mut named);
    }
    [json.to_owned(), all].into_iter().chain(named.into_values()).collect()
}

/// The error of an answer that contains the key.
pub(super) fn repeats_key() -> ModelError {
    let message = "it repeats the key that was sent, so nothing of it is kept".to_owned();
    ModelError::InvalidReply { message, source: None }
}

/// Rejects a reply whose calls were cut off by the token limit. Such calls can neither be run nor
/// sent back.
pub(super) fn check_calls(reply: &Reply) -> Result<(), ModelError> {
    if reply.stop_reason != Some(tract_core::StopReason::MaxTokens) {
        return Ok(());
    }
    for call in reply.calls() {
        let arguments = call.arguments.trim();
        if !arguments.is_empty() && !crate::raw::is_object(arguments) {
            return Err(crate::stream::StreamError::Arguments { name: call.name.clone() }.into());
        }
    }
    Ok(())
}
