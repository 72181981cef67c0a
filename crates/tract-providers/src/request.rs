//! Compiles a neutral model request to a provider's request body.

use std::collections::HashSet;

use tract_compile::{Compiled, Row, TokenCount, View};
use tract_core::json::{self, JsonError};
use tract_core::{CommitId, JsonText, Message, ModelRequest};
use tract_schema::Dialect;

use crate::form::{Form, FormError, FormOptions, compile_form};
use crate::parameters;
use crate::params::Params;
use crate::profile_of;

/// Compiles a neutral request to a provider's request.
///
/// # Behavior
/// - The messages go out as [`compile_form`] writes those of the same compiled context.
/// - Parameters with the names of Chat Completions, such as `max_tokens`, `stop`, `tool_choice` or
///   `response_format`, are converted to those of the dialect. A parameter that only other dialects
///   have is left out and listed in [`Params::repairs`]; all others are sent under their own names.
/// - The token limit is that of the request. The limit of an earlier request, which is in its
///   commit, is ignored.
///
/// ```
/// use tract_core::{JsonText, ModelRequest};
/// use tract_providers::{Dialect, FormOptions, params_of};
/// let parameters = JsonText::new(r#"{"model":"m","max_tokens":9}"#)?;
/// let request = ModelRequest { parameters: Some(parameters), ..ModelRequest::default() };
/// let params = params_of(&request, Dialect::Responses, &FormOptions::default())?;
/// assert_eq!(params.get("max_output_tokens"), Some("9"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`compile_form`]; [`FormError::Damaged`] if the parameters are not a JSON object.
pub fn params_of(
    request: &ModelRequest,
    dialect: Dialect,
    options: &FormOptions,
) -> Result<Params, FormError> {
    let mut params = compile_form(&compiled(request), Form::Params(dialect), options)?;
    if let Some(parameters) = &request.parameters {
        let members = json::split_object(parameters.as_str()).map_err(damaged)?;
        for (key, value) in members {
            parameters::set(&mut params, dialect, &key, value);
        }
    }
    profile_of(dialect).adapter.settle(&mut params);
    Ok(params)
}

fn damaged(source: JsonError) -> FormError {
    FormError::Damaged { what: "the parameters of the request".to_owned(), source }
}

/// Builds a context from the messages and tools of a request.
fn compiled(request: &ModelRequest) -> Compiled {
    let mut slots = HashSet::new();
    let mut messages: Vec<Message> = request.messages.to_vec();
    for (place, message) in messages.iter_mut().enumerate() {
        // Parameters of earlier requests do not apply. Only the name of the model is kept.
        message.generation_config = message.generation_config.as_ref().and_then(only_model);
        // Messages that were never committed may all have the same id.
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

fn only_model(config: &JsonText) -> Option<JsonText> {
    let members = json::split_object(config.as_str()).ok()?;
    let (_, model) = members.into_iter().rev().find(|(key, _)| key == "model")?;
    JsonText::new(&format!(r#"{{"model":{model}}}"#)).ok()
}

fn made_up(place: usize) -> CommitId {
    let name = format!("message {place} of a request");
    CommitId::from_bytes(*tract_core::hash::blob(name.as_bytes()).as_bytes())
}

#[cfg(test)]
mod tests {
    use tract_core::{ActiveTool, Blob, Content, ToolSchema};

    use super::*;

    #[test]
    fn a_turn_that_anthropics_own_tools_interrupted_goes_back_as_it_is() {
        let user = Message::unrecorded(Content::user("Look."));
        let paused = |blocks: &str| {
            let mut message = Message::unrecorded(Content::assistant("Searching."));
            let bytes = format!(r#"{{"role":"assistant","content":[{blocks}]}}"#);
            message.form = Some("anthropic-1".to_owned());
            message.verbatim = Some(Blob::seal(bytes));
            message
        };
        let used =
            r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}}"#;
        let found = r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#;
        let open = ModelRequest::new(vec![user.clone(), paused(used)]);
        let params =
            params_of(&open, Dialect::Anthropic, &FormOptions::default()).expect("it compiles");
        let body = params.to_json();
        assert!(body.ends_with(&format!("[{used}]}}]}}")), "{body}");
        assert!(params.repairs.is_empty(), "{:?}", params.repairs);
        // A conversation whose calls are all answered is closed.
        let done = ModelRequest::new(vec![user, paused(&format!("{used},{found}"))]);
        let params =
            params_of(&done, Dialect::Anthropic, &FormOptions::default()).expect("it compiles");
        assert!(params.to_json().contains("Continue."), "{}", params.to_json());
    }

    #[test]
    fn of_two_tools_of_one_name_every_provider_gets_the_newest() {
        let tool = |says: &str| {
            let text = format!(r#"{{"name":"a","description":"{says}","input_schema":{{}}}}"#);
            let tool = ToolSchema::parse(&text).expect("a tool");
            ActiveTool { name: "a".into(), id: tool.id(), schema: text.into() }
        };
        let tools = vec![tool("first"), tool("second")].into();
        let request = ModelRequest { tools, ..ModelRequest::default() };
        for dialect in Dialect::ALL {
            for options in [
                FormOptions::default(),
                FormOptions { strict_tools: true, ..FormOptions::default() },
            ] {
                let params = params_of(&request, dialect, &options).expect("it compiles");
                let tools = params.get("tools").expect("tools");
                assert!(tools.contains("second"), "{tools}");
                if !tools.contains("first") {
                    let repairs = &params.repairs;
                    assert!(repairs.iter().any(|repair| repair.text.contains("same name")));
                }
            }
        }
        let params =
            params_of(&request, Dialect::Anthropic, &FormOptions::default()).expect("it compiles");
        assert!(!params.get("tools").expect("tools").contains("first"));
    }

    #[test]
    fn the_limit_of_an_earlier_request_is_not_sent_again() {
        let mut earlier = Message::unrecorded(Content::user("Be short."));
        let config = r#"{"max_tokens":5,"model":"m"}"#;
        earlier.generation_config = Some(JsonText::new(config).expect("it is JSON"));
        let request = ModelRequest::new(vec![earlier]);
        for dialect in Dialect::ALL {
            let params =
                params_of(&request, dialect, &FormOptions::default()).expect("it compiles");
            let body = params.to_json();
            assert!(!body.contains(":5") && params.get("model") == Some(r#""m""#), "{body}");
        }
    }
}
