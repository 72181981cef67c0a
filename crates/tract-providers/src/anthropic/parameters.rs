//! The parameters of a request.

use tract_compile::{Repair, RepairKind};
use tract_core::json;

use crate::members::{Choice, list, member, not_set, schema_of, tool_choice};
use crate::params::Params;
use crate::raw;

/// The name in reports.
pub(crate) const TITLE: &str = "Anthropic";

/// The members of an Anthropic request. The last three are no longer in the published types, but
/// older models accept them.
pub(crate) const PARAMETERS: &[&str] = &[
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "thinking",
    "tool_choice",
    "tools",
    "user_profile_id",
    "workspace_id",
    "temperature",
    "top_k",
    "top_p",
];

/// Sets a parameter whose name or shape differs from Chat Completions.
pub(crate) fn set(params: &mut Params, key: &str, value: &str) -> bool {
    match key {
        "stop" => params.set("stop_sequences", list(value)),
        "reasoning_effort" => member(params, "output_config", "effort", value),
        "response_format" => {
            let Some(schema) = schema_of(value) else { return false };
            let closed = tract_schema::closed(schema);
            let schema = closed.as_ref().map_or(schema, |closed| &closed.schema);
            let format = raw::object(&[("type", "\"json_schema\""), ("schema", schema)]);
            member(params, "output_config", "format", &format);
            if let Some(closed) = closed {
                let text = "response_format: every object gets \"additionalProperties\":false, which Anthropic requires";
                params.repairs.push(Repair::new(RepairKind::Changed, None, text));
                for at in closed.lost {
                    let text = format!(
                        "response_format: the schema of additionalProperties at {at} is lost: Anthropic accepts only false"
                    );
                    params.repairs.push(Repair::new(RepairKind::PartLeftOut, None, text));
                }
            }
        }
        "user" => member(params, "metadata", "user_id", value),
        "metadata" => {
            // OpenAI accepts any names, Anthropic only this one.
            for (name, raw) in json::split_object(value).unwrap_or_default() {
                if name == "user_id" {
                    member(params, "metadata", "user_id", raw);
                } else {
                    not_set(params, &format!("metadata.{name}"), TITLE);
                }
            }
        }
        "tool_choice" => {
            let (kind, name) = match tool_choice(params, value) {
                Choice::Word("auto") => ("auto", None),
                Choice::Word("required") => ("any", None),
                Choice::Word("none") => ("none", None),
                Choice::Tool(name) => ("tool", Some(name)),
                Choice::Word(_) | Choice::Other => return false,
            };
            member(params, "tool_choice", "type", &raw::literal(kind));
            if let Some(name) = name {
                member(params, "tool_choice", "name", &name);
            }
        }
        "parallel_tool_calls" if value == "false" => {
            // A choice is rejected without tools, and without a type.
            if params.get("tools").is_some() {
                if params.get("tool_choice").is_none() {
                    member(params, "tool_choice", "type", "\"auto\"");
                }
                member(params, "tool_choice", "disable_parallel_tool_use", "true");
            }
        }
        // Parallel calls are the default.
        "parallel_tool_calls" => {}
        _ => return false,
    }
    true
}
