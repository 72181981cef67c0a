//! The parameters of a request.

use tract_compile::RepairKind;
use tract_core::json;

use crate::members::report;
use crate::params::Params;
use crate::raw;

/// The name of the token limit for newer models.
const NEWER_LIMIT: &str = "max_completion_tokens";

/// The members of a Chat Completions request.
pub(crate) const PARAMETERS: &[&str] = &[
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

/// Sets a parameter whose name or shape differs from Chat Completions.
pub(crate) fn set(params: &mut Params, key: &str, value: &str) -> bool {
    if key == "stop_sequences" {
        params.set("stop", value.to_owned());
    }
    key == "stop_sequences"
}

/// Renames the token limit as the model requires, once the model is known: OpenAI's newer models
/// reject `max_tokens`, and many compatible servers accept nothing else.
pub(crate) fn settle(params: &mut Params) {
    let model = params.get("model").and_then(|raw| serde_json::from_str::<String>(raw).ok());
    if model.is_some_and(|model| is_newer(&model)) {
        params.rename("max_tokens", NEWER_LIMIT);
    }
}

/// Returns whether a model is a reasoning model of OpenAI: o1, gpt-5 and their successors. Routers
/// put the vendor's name in front.
fn is_newer(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let number = |rest: &str| -> Option<u32> {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    match (name.strip_prefix('o'), name.strip_prefix("gpt-")) {
        (Some(rest), _) => number(rest).is_some(),
        (None, Some(rest)) => number(rest).is_some_and(|number| number >= 5),
        (None, None) => false,
    }
}

/// Completes the schemas of the legacy member `functions`, as those of tools are.
pub(crate) fn repair_recorded(params: &mut Params) {
    let Some(functions) = params.get("functions").map(str::to_owned) else { return };
    let mut changed = Vec::new();
    let functions = json::split_array(&functions).unwrap_or_default().into_iter().map(|function| {
        let members = json::split_object(function).unwrap_or_default();
        let given = members.iter().find(|(key, _)| key == "parameters").map(|(_, raw)| *raw);
        let Some(completed) = given.and_then(tract_schema::with_required_members) else {
            return function.to_owned();
        };
        let name = members.iter().find(|(key, _)| key == "name").map_or("\"\"", |(_, raw)| *raw);
        changed.push(name.to_owned());
        let value = |key: &str, raw| if key == "parameters" { completed.as_str() } else { raw };
        let members: Vec<(&str, &str)> =
            members.iter().map(|(key, raw)| (key.as_str(), value(key, *raw))).collect();
        raw::object(&members)
    });
    let functions = raw::array(functions.collect::<Vec<_>>());
    for name in &changed {
        let why = "providers require \"type\":\"object\" and \"properties\"";
        let text = format!("tool {name}: parameters: added: {why}");
        report(params, RepairKind::Changed, text);
    }
    if !changed.is_empty() {
        params.set("functions", functions);
    }
}
