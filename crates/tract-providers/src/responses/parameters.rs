//! The parameters of a request.

use crate::members::{Choice, flat, member, tool_choice};
use crate::params::Params;
use crate::raw;

/// The members of a Responses request.
pub(crate) const PARAMETERS: &[&str] = &[
    "access_programs",
    "background",
    "background_options",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Sets a parameter whose name or shape differs from Chat Completions.
pub(crate) fn set(params: &mut Params, key: &str, value: &str) -> bool {
    match key {
        "reasoning_effort" => member(params, "reasoning", "effort", value),
        "verbosity" => member(params, "text", "verbosity", value),
        "response_format" => member(params, "text", "format", &flat(value, "json_schema")),
        "tool_choice" => {
            let choice = match tool_choice(params, value) {
                Choice::Tool(name) => raw::object(&[("type", "\"function\""), ("name", &name)]),
                Choice::Word(_) | Choice::Other => flat(value, "allowed_tools"),
            };
            params.set("tool_choice", choice);
        }
        _ => return false,
    }
    true
}
