//! The parameters of a request.

use tract_compile::RepairKind;
use tract_core::json;

use crate::members::{Choice, list, member, not_set, report, schema_of, tool_choice};
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
            let closed = closed(params, key, schema);
            let schema = closed.as_deref().unwrap_or(schema);
            let format = raw::object(&[("type", "\"json_schema\""), ("schema", schema)]);
            member(params, "output_config", "format", &format);
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

/// Closes the objects of a schema of answers and reports it; `None` if they are closed.
fn closed(params: &mut Params, name: &str, schema: &str) -> Option<String> {
    let closed = tract_schema::closed(schema)?;
    let text = format!(
        "{name}: every object gets \"additionalProperties\":false, which Anthropic requires"
    );
    report(params, RepairKind::Changed, text);
    for at in closed.lost {
        let text = format!(
            "{name}: the schema of additionalProperties at {at} is lost: Anthropic accepts only false"
        );
        report(params, RepairKind::PartLeftOut, text);
    }
    Some(closed.schema)
}

/// Closes the schema of answers in the parameters of a recorded request, which Anthropic rejects
/// otherwise.
pub(crate) fn repair_recorded(params: &mut Params) {
    for (name, path) in
        [("output_config", &["format", "schema"][..]), ("output_format", &["schema"])]
    {
        let Some(value) = params.get(name).map(str::to_owned) else { continue };
        let mut close = |schema: &str| closed(params, name, schema);
        if let Some(value) = replaced(&value, path, &mut close) {
            params.set(name, value);
        }
    }
}

/// Returns an object with the value at a path replaced; `None` if it has none, or it stays.
fn replaced(
    object: &str,
    path: &[&str],
    new: &mut dyn FnMut(&str) -> Option<String>,
) -> Option<String> {
    let Some((name, path)) = path.split_first() else { return new(object) };
    let members = json::split_object(object).ok()?;
    let (_, inner) = members.iter().find(|(key, _)| key == name)?;
    let inner = replaced(inner, path, new)?;
    let value = |key: &String, raw| if key == name { inner.as_str() } else { raw };
    let members: Vec<(&str, &str)> =
        members.iter().map(|(key, raw)| (key.as_str(), value(key, *raw))).collect();
    Some(raw::object(&members))
}
