//! From the neutral request that a model takes to a provider's body.

use std::collections::HashSet;

use tract_compile::{Compiled, Row, TokenCount, View};
use tract_core::json::{self, JsonError};
use tract_core::{CommitId, Message, ModelRequest};

use crate::dialect::Dialect;
use crate::error::FormError;
use crate::form::{Form, FormOptions, compile_form};
use crate::params::Params;
use crate::raw::{self, Object};

/// Makes a provider's request of a neutral one.
///
/// # Behavior
/// - The messages go out as [`compile_form`] writes those of the same compiled context.
/// - `max_tokens`, `stop` and, for Ollama, sampling parameters are put where the dialect has them;
///   every other parameter goes into the body under its own name.
///
/// ```
/// use tract_core::{JsonText, ModelRequest};
/// use tract_providers::{Dialect, params_of};
/// let parameters = JsonText::new(r#"{"model":"m","max_tokens":9}"#)?;
/// let request = ModelRequest::default().parameters(parameters);
/// let params = params_of(&request, Dialect::Responses)?;
/// assert_eq!(params.get("max_output_tokens"), Some("9"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`compile_form`]; [`FormError::Damaged`] when the parameters are no JSON object.
pub fn params_of(request: &ModelRequest, dialect: Dialect) -> Result<Params, FormError> {
    params_of_with(request, dialect, &FormOptions::new())
}

/// Makes a provider's request of a neutral one, with options.
///
/// # Errors
/// As [`params_of`].
pub fn params_of_with(
    request: &ModelRequest,
    dialect: Dialect,
    options: &FormOptions,
) -> Result<Params, FormError> {
    let form = match dialect {
        Dialect::OpenAi => Form::OpenAiParams,
        Dialect::Responses => Form::ResponsesParams,
        Dialect::Anthropic => Form::AnthropicParams,
        Dialect::Ollama => Form::OllamaParams,
    };
    let mut params = compile_form(&compiled(request), form, options)?;
    if let Some(parameters) = &request.parameters {
        let members = json::split_object(parameters.as_str()).map_err(damaged)?;
        for (key, value) in members {
            set(&mut params, dialect, &key, value);
        }
    }
    Ok(params)
}

fn damaged(source: JsonError) -> FormError {
    FormError::Damaged { what: "the parameters of the request".to_owned(), source }
}

/// Puts a context together from what a request holds of it.
fn compiled(request: &ModelRequest) -> Compiled {
    let mut slots = HashSet::new();
    let mut messages: Vec<Message> = request.messages.to_vec();
    for (place, message) in messages.iter_mut().enumerate() {
        // Messages that were never committed may all bear the same name.
        if !slots.insert(message.slot) {
            message.slot = made_up(place);
            slots.insert(message.slot);
        }
    }
    let shown = messages.iter().enumerate().map(|(place, message)| Row {
        slot: message.slot,
        key: place as u64,
        version: message.commit,
        mark: None,
        answers: message.answers,
    });
    let next = messages.len() as u64;
    let skipped = request.skipped.iter().filter(|(slot, _)| !slots.contains(slot));
    let skipped = skipped.map(|(slot, call)| Row {
        slot: *slot,
        key: next,
        version: *slot,
        mark: None,
        answers: Some(*call),
    });
    let view = View::from_parts(shown.chain(skipped), None, next + 1);
    let count = messages.iter().map(|message| message.token_count).sum();
    let tokens = TokenCount { count, source: "approx".into() };
    Compiled::new(request.head, view, messages, request.tools.clone(), tokens, next)
}

fn made_up(place: usize) -> CommitId {
    let name = format!("message {place} of a request");
    CommitId::from_bytes(*tract_core::hash::blob(name.as_bytes()).as_bytes())
}

/// What Ollama takes within `options`, by the names that others have for it.
const OLLAMA_OPTIONS: [(&str, &str); 12] = [
    ("frequency_penalty", "frequency_penalty"),
    ("max_tokens", "num_predict"),
    ("min_p", "min_p"),
    ("num_ctx", "num_ctx"),
    ("num_predict", "num_predict"),
    ("presence_penalty", "presence_penalty"),
    ("repeat_penalty", "repeat_penalty"),
    ("seed", "seed"),
    ("stop", "stop"),
    ("temperature", "temperature"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
];

fn set(params: &mut Params, dialect: Dialect, key: &str, value: &str) {
    match dialect {
        Dialect::OpenAi => {}
        Dialect::Responses if key == "max_tokens" => {
            return params.set("max_output_tokens", value.to_owned());
        }
        Dialect::Anthropic if key == "stop" => {
            let list = match value.starts_with('[') {
                true => value.to_owned(),
                false => raw::array([value]),
            };
            return params.set("stop_sequences", list);
        }
        Dialect::Ollama => {
            if let Some((_, inner)) = OLLAMA_OPTIONS.iter().find(|(name, _)| *name == key) {
                return option(params, inner, value);
            }
        }
        Dialect::Responses | Dialect::Anthropic => {}
    }
    params.set(key, value.to_owned());
}

/// Sets one member of `options`; the others stay.
fn option(params: &mut Params, key: &str, value: &str) {
    let options = params.get("options").unwrap_or("{}").to_owned();
    let mut out = Object::new();
    for (name, raw) in json::split_object(&options).unwrap_or_default() {
        if name != key {
            out.raw(&name, raw);
        }
    }
    out.raw(key, value);
    params.set("options", out.end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use tract_core::JsonText;

    #[track_caller]
    fn check(dialect: Dialect, parameters: &str, expected: &str) {
        let parameters = JsonText::new(parameters).expect("it is JSON");
        let request = ModelRequest::default().parameters(parameters);
        let params = params_of(&request, dialect).expect("it compiles");
        let body = params.to_json();
        let members = json::split_object(&body).expect("an object");
        let said: Vec<String> = members
            .into_iter()
            .filter(|(key, _)| !matches!(key.as_str(), "messages" | "input"))
            .map(|(key, raw)| format!("{key}={raw}"))
            .collect();
        assert_eq!(said.join(" "), expected);
    }

    #[test]
    fn parameters_go_where_the_dialect_has_them() {
        let given =
            r#"{"max_tokens":7,"model":"m","stop":"x","temperature":0.20,"tool_choice":"auto"}"#;
        let rest = r#"temperature=0.2 tool_choice="auto""#;
        check(Dialect::OpenAi, given, &format!(r#"max_tokens=7 model="m" stop="x" {rest}"#));
        check(
            Dialect::Responses,
            given,
            &format!(r#"max_output_tokens=7 model="m" stop="x" {rest}"#),
        );
        check(
            Dialect::Anthropic,
            given,
            &format!(r#"max_tokens=7 model="m" stop_sequences=["x"] {rest}"#),
        );
        check(
            Dialect::Ollama,
            given,
            r#"options={"num_predict":7,"stop":"x","temperature":0.2} model="m" tool_choice="auto""#,
        );
    }
}
