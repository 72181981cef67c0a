//! Converts a model's answer into a draft of its commit.

use std::collections::BTreeMap;

use serde_json::json;
use tract_core::{
    AuthorKind, Draft, JsonText, ModelError, Origin, PartialCall, PartialReply, Reply, ToolCall,
};

use crate::plan::{Details, Request};
use crate::repo::error::{Error, Result};

fn json_error(error: serde_json::Error) -> Error {
    Error::Damaged { object: None, what: format!("as JSON: {error}") }
}

/// Creates the message that records a model's answer. Its bytes are kept, the provider's id becomes
/// its origin, the model its generation config; its metadata has the tokens, the stop reason and the
/// other answers to the same request.
///
/// # Errors
/// When a part of it cannot be serialized as JSON.
pub fn reply_draft(reply: &Reply) -> serde_json::Result<Draft> {
    let mut draft = Draft::new(reply.content.clone());
    draft.origin = Origin { id: reply.id.clone(), ..AuthorKind::Model.into() };
    draft.form = reply.form.clone();
    draft.verbatim = reply.verbatim.clone();
    if let Some(model) = &reply.model {
        draft.generation_config = Some(JsonText::of(&json!({ "model": model }))?);
    }
    if let Some(usage) = &reply.usage {
        draft = draft.metadata("usage", usage)?;
    }
    if let Some(reason) = &reply.stop_reason {
        draft = draft.metadata("stop_reason", reason.as_str())?;
    }
    if !reply.other_choices.is_empty() {
        draft = draft.metadata("other_choices", &reply.other_choices)?;
    }
    draft.keeps.extend(reply.raw.clone());
    Ok(draft)
}

/// Combines the parameters of a request and the model that answered into a generation config.
///
/// # Errors
/// When the parameters are not a JSON object.
pub fn generation_config(
    parameters: Option<&JsonText>,
    model: Option<&str>,
) -> Result<Option<JsonText>> {
    let mut members: BTreeMap<String, JsonText> = BTreeMap::new();
    if let Some(parameters) = parameters {
        for (name, raw) in tract_core::json::split_object(parameters.as_str())? {
            members.insert(name, JsonText::new(raw)?);
        }
    }
    if let Some(model) = model {
        members.insert("model".to_owned(), JsonText::of(model).map_err(json_error)?);
    }
    let config = (!members.is_empty()).then(|| JsonText::of(&members));
    config.transpose().map_err(json_error)
}

/// Creates the note that records the partial answer of a request that broke off. The note is in the
/// log, but not part of a context.
///
/// # Errors
/// When a part of it cannot be serialized as JSON.
pub fn broken_off(
    cause: &ModelError,
    partial: &PartialReply,
    parameters: Option<&JsonText>,
) -> Result<Request> {
    let calls = partial.calls.iter().map(|PartialCall { call, whole, .. }| {
        let ToolCall { id, name, arguments, .. } = call;
        json!({ "id": id, "name": name, "arguments": arguments, "whole": whole })
    });
    let mut came = serde_json::Map::from_iter([
        ("why".to_owned(), json!(cause.code())),
        ("message".to_owned(), json!(cause.to_string())),
        ("text".to_owned(), json!(partial.text)),
        ("calls".to_owned(), calls.collect()),
    ]);
    if !partial.reasoning.is_empty() {
        came.insert("reasoning".to_owned(), json!(partial.reasoning));
    }
    if let Some(usage) = &partial.usage {
        came.insert("usage".to_owned(), json!(usage));
    }
    if !partial.other_choices.is_empty() {
        came.insert("other_choices".to_owned(), json!(partial.other_choices));
    }
    let details = Details {
        message: Some(format!("broken off: {cause}")),
        generation_config: generation_config(parameters, partial.model.as_deref())?,
        origin: Origin { id: partial.id.clone(), ..AuthorKind::Model.into() },
        keeps: partial.raw.iter().cloned().collect(),
        ..Details::default()
    };
    let content = Some(JsonText::of(&json!({ "broken_off": came })).map_err(json_error)?);
    Ok(Request::Note { content, details })
}
