//! Parameters of a request, under the names that each provider has for them.
//!
//! Callers say the common ones in the words of Chat Completions. Held against the vendors' published
//! types: `openai` 3.54, `anthropic` 2.12, `ollama` 0.6.3.

use tract_compile::{Repair, RepairKind};
use tract_core::json;

use crate::dialect::Dialect;
use crate::params::Params;
use crate::raw::{self, Object};

/// The members of a Chat Completions request.
const OPENAI: &[&str] = &[
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

/// The members of a Responses request.
const RESPONSES: &[&str] = &[
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

/// The members of an Anthropic request. The last three are no longer in the published types, but
/// older models take them.
const ANTHROPIC: &[&str] = &[
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

/// The members of an Ollama request.
const OLLAMA: &[&str] = &[
    "format",
    "keep_alive",
    "logprobs",
    "messages",
    "model",
    "options",
    "stream",
    "think",
    "tools",
    "top_logprobs",
];

/// What Ollama takes within `options`.
const OLLAMA_OPTIONS: &[&str] = &[
    "embedding_only",
    "f16_kv",
    "frequency_penalty",
    "logits_all",
    "low_vram",
    "main_gpu",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_keep",
    "num_predict",
    "num_thread",
    "numa",
    "penalize_newline",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "tfs_z",
    "top_k",
    "top_p",
    "typical_p",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];

/// The name that OpenAI's newer models have for the limit of tokens.
const NEWER_LIMIT: &str = "max_completion_tokens";

/// Sets a parameter where the dialect has it; where it has none, a repair says so. `null` is no
/// value.
pub(crate) fn set(params: &mut Params, dialect: Dialect, key: &str, value: &str) {
    if value == "null" {
        return;
    }
    let is_limit = matches!(key, "max_tokens" | "max_completion_tokens" | "max_output_tokens");
    let done = match dialect {
        Dialect::OpenAi => openai(params, key, value),
        Dialect::Responses if is_limit => {
            params.set("max_output_tokens", value.to_owned());
            true
        }
        Dialect::Responses => responses(params, key, value),
        Dialect::Anthropic if is_limit => {
            params.set("max_tokens", value.to_owned());
            true
        }
        Dialect::Anthropic => anthropic(params, key, value),
        Dialect::Ollama if is_limit => {
            member(params, "options", "num_predict", value);
            true
        }
        Dialect::Ollama => ollama(params, key, value),
    };
    if done {
        return;
    }
    if is_foreign(dialect, key) {
        return not_set(params, key, dialect);
    }
    params.set(key, value.to_owned());
}

fn not_set(params: &mut Params, key: &str, dialect: Dialect) {
    let text = format!("{key:?} is not set: {} has no such parameter", name_of(dialect));
    params.repairs.push(Repair::new(RepairKind::NotSet, None, text));
}

/// Whether only other providers have a parameter. One that none is known to have may be newer than
/// the lists; and many servers that speak like OpenAI take more than OpenAI does.
fn is_foreign(dialect: Dialect, key: &str) -> bool {
    let own = match dialect {
        Dialect::OpenAi => return false,
        Dialect::Responses => RESPONSES,
        Dialect::Anthropic => ANTHROPIC,
        Dialect::Ollama => OLLAMA,
    };
    let known = [OPENAI, RESPONSES, ANTHROPIC, OLLAMA, OLLAMA_OPTIONS];
    !own.contains(&key) && known.iter().any(|names| names.contains(&key))
}

fn name_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAi => "Chat Completions",
        Dialect::Responses => "Responses",
        Dialect::Anthropic => "Anthropic",
        Dialect::Ollama => "Ollama",
    }
}

fn openai(params: &mut Params, key: &str, value: &str) -> bool {
    let name = match key {
        "max_output_tokens" => "max_tokens",
        "stop_sequences" => "stop",
        _ => return false,
    };
    params.set(name, value.to_owned());
    true
}

fn responses(params: &mut Params, key: &str, value: &str) -> bool {
    match key {
        "reasoning_effort" => member(params, "reasoning", "effort", value),
        "verbosity" => member(params, "text", "verbosity", value),
        "response_format" => member(params, "text", "format", &flat(value, "json_schema")),
        "tool_choice" => {
            let choice = match tool_choice(params, value) {
                Choice::Tool(name) => object(&[("type", "\"function\""), ("name", &name)]),
                Choice::Word(_) | Choice::Other => flat(value, "allowed_tools"),
            };
            params.set("tool_choice", choice);
        }
        _ => return false,
    }
    true
}

fn anthropic(params: &mut Params, key: &str, value: &str) -> bool {
    match key {
        "stop" => params.set("stop_sequences", list(value)),
        "reasoning_effort" => member(params, "output_config", "effort", value),
        "response_format" => {
            let Some(schema) = schema_of(value) else { return false };
            let format = object(&[("type", "\"json_schema\""), ("schema", schema)]);
            member(params, "output_config", "format", &format);
        }
        "user" => member(params, "metadata", "user_id", value),
        "metadata" => {
            // OpenAI's takes any names, this one a single one.
            for (name, raw) in json::split_object(value).unwrap_or_default() {
                if name == "user_id" {
                    member(params, "metadata", "user_id", raw);
                } else {
                    not_set(params, &format!("metadata.{name}"), Dialect::Anthropic);
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
            // Without tools it is refused; without a kind, too.
            if params.get("tools").is_some() {
                if params.get("tool_choice").is_none() {
                    member(params, "tool_choice", "type", "\"auto\"");
                }
                member(params, "tool_choice", "disable_parallel_tool_use", "true");
            }
        }
        // It is the rule.
        "parallel_tool_calls" => {}
        _ => return false,
    }
    true
}

fn ollama(params: &mut Params, key: &str, value: &str) -> bool {
    match key {
        "stop" | "stop_sequences" => member(params, "options", "stop", &list(value)),
        "response_format" => {
            let format = match schema_of(value) {
                Some(schema) => schema.to_owned(),
                None if get(value, "type") == Some("\"json_object\"") => "\"json\"".to_owned(),
                None => return true,
            };
            params.set("format", format);
        }
        "reasoning_effort" => {
            let think = match value {
                "\"none\"" => "false",
                "\"minimal\"" | "\"low\"" => "\"low\"",
                "\"high\"" | "\"xhigh\"" | "\"max\"" => "\"high\"",
                _ => value,
            };
            params.set("think", think.to_owned());
        }
        key if OLLAMA_OPTIONS.contains(&key) => member(params, "options", key, value),
        _ => return false,
    }
    true
}

/// What a choice of tools in the words of Chat Completions says.
enum Choice<'a> {
    Word(&'a str),
    /// The name under which the tool goes out, as JSON.
    Tool(String),
    Other,
}

fn tool_choice<'a>(params: &Params, value: &'a str) -> Choice<'a> {
    if let Some(word) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Choice::Word(word);
    }
    if get(value, "type") != Some("\"function\"") {
        return Choice::Other;
    }
    let named = get(value, "function").and_then(|function| get(function, "name"));
    let name = named.and_then(|name| serde_json::from_str::<String>(name).ok());
    match name {
        Some(name) => {
            let sent = params.aliases.as_ref().map(|aliases| aliases.sent(&name).to_string());
            Choice::Tool(raw::literal(&sent.unwrap_or(name)))
        }
        None => Choice::Other,
    }
}

/// The schema of a format for answers, in the words of Chat Completions.
fn schema_of(format: &str) -> Option<&str> {
    get(format, "json_schema").and_then(|of| get(of, "schema"))
}

fn get<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let members = json::split_object(object).ok()?;
    members.into_iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw)
}

/// Takes the members of the object under `key` out into the object around it.
fn flat(text: &str, key: &str) -> String {
    let Some(inner) = get(text, key) else { return text.to_owned() };
    let mut out = Object::new();
    for (name, raw) in json::split_object(text).unwrap_or_default() {
        if name != key {
            out.raw(&name, raw);
        }
    }
    for (name, raw) in json::split_object(inner).unwrap_or_default() {
        out.raw(&name, raw);
    }
    out.end()
}

fn object(members: &[(&str, &str)]) -> String {
    let mut out = Object::new();
    for (name, raw) in members {
        out.raw(name, raw);
    }
    out.end()
}

/// A list of one, where it is none.
fn list(value: &str) -> String {
    match value.starts_with('[') {
        true => value.to_owned(),
        false => raw::array([value]),
    }
}

/// Sets one member of an object in the body; the others stay.
fn member(params: &mut Params, outer: &str, key: &str, value: &str) {
    let found = params.get(outer).unwrap_or("{}").to_owned();
    let mut out = Object::new();
    for (name, raw) in json::split_object(&found).unwrap_or_default() {
        if name != key {
            out.raw(&name, raw);
        }
    }
    out.raw(key, value);
    params.set(outer, out.end());
}

/// Gives the limit of tokens the name that the model takes, once the model is known: OpenAI's newer
/// models refuse `max_tokens`, and many servers that speak like OpenAI know nothing else.
pub(crate) fn settle_limit(params: &mut Params, dialect: Dialect) {
    let model = params.get("model").and_then(|raw| serde_json::from_str::<String>(raw).ok());
    if dialect == Dialect::OpenAi && model.is_some_and(|model| is_newer(&model)) {
        params.rename("max_tokens", NEWER_LIMIT);
    }
}

/// Whether a model is one of OpenAI's that reason: o1 and later, gpt-5 and later; behind a router,
/// its name has the vendor's before it.
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

#[cfg(test)]
mod tests {
    use tract_core::{JsonText, ModelRequest};

    use super::*;
    use crate::request::params_of;

    fn made(dialect: Dialect, parameters: &str) -> Params {
        let parameters = JsonText::new(parameters).expect("it is JSON");
        let request = ModelRequest::default().parameters(parameters);
        params_of(&request, dialect).expect("it compiles")
    }

    #[track_caller]
    fn check(dialect: Dialect, parameters: &str, expected: &str) {
        let body = made(dialect, parameters).to_json();
        let members = json::split_object(&body).expect("an object");
        let said: Vec<String> = members
            .into_iter()
            .filter(|(key, _)| !matches!(key.as_str(), "messages" | "input"))
            .map(|(key, raw)| format!("{key}={raw}"))
            .collect();
        assert_eq!(said.join(" "), expected, "{dialect:?}");
    }

    #[test]
    fn parameters_go_where_the_dialect_has_them() {
        let given =
            r#"{"max_tokens":7,"model":"m","stop":"x","temperature":0.20,"tool_choice":"auto"}"#;
        check(
            Dialect::OpenAi,
            given,
            r#"max_tokens=7 model="m" stop="x" temperature=0.2 tool_choice="auto""#,
        );
        check(
            Dialect::Responses,
            given,
            r#"max_output_tokens=7 model="m" temperature=0.2 tool_choice="auto""#,
        );
        check(
            Dialect::Anthropic,
            given,
            r#"max_tokens=7 model="m" stop_sequences=["x"] temperature=0.2 tool_choice={"type":"auto"}"#,
        );
        check(
            Dialect::Ollama,
            given,
            r#"options={"num_predict":7,"stop":["x"],"temperature":0.2} model="m""#,
        );
    }

    #[test]
    fn structured_parameters_take_the_shape_of_the_dialect() {
        let given = r#"{"reasoning_effort":"high","response_format":{"json_schema":{"name":"n","schema":{"type":"object"}},"type":"json_schema"},"tool_choice":{"function":{"name":"go"},"type":"function"},"verbosity":"low"}"#;
        check(
            Dialect::Responses,
            given,
            r#"reasoning={"effort":"high"} text={"format":{"type":"json_schema","name":"n","schema":{"type":"object"}},"verbosity":"low"} tool_choice={"type":"function","name":"go"}"#,
        );
        check(
            Dialect::Anthropic,
            given,
            r#"output_config={"effort":"high","format":{"type":"json_schema","schema":{"type":"object"}}} tool_choice={"type":"tool","name":"go"}"#,
        );
        check(Dialect::Ollama, given, r#"think="high" format={"type":"object"}"#);
        check(
            Dialect::Anthropic,
            r#"{"tool_choice":{"disable_parallel_tool_use":true,"type":"any"}}"#,
            r#"tool_choice={"disable_parallel_tool_use":true,"type":"any"}"#,
        );
    }

    #[test]
    fn of_metadata_anthropic_gets_the_user_alone() {
        let given = r#"{"metadata":{"user_id":"u","run":"7"}}"#;
        check(Dialect::Anthropic, given, r#"metadata={"user_id":"u"}"#);
        check(Dialect::OpenAi, given, r#"metadata={"run":"7","user_id":"u"}"#);
        let reported = made(Dialect::Anthropic, given).repairs;
        assert!(reported.iter().any(|repair| repair.text.contains("metadata.run")), "{reported:?}");
    }

    #[test]
    fn what_only_others_have_is_left_out_and_said() {
        let every: Vec<String> = [OPENAI, RESPONSES, ANTHROPIC, OLLAMA, OLLAMA_OPTIONS]
            .concat()
            .into_iter()
            .filter(|name| !matches!(*name, "messages" | "input" | "system" | "instructions"))
            .map(|name| format!("{name:?}:\"1\""))
            .collect();
        let every = format!("{{{}}}", every.join(","));
        for (dialect, own) in [
            (Dialect::Responses, RESPONSES),
            (Dialect::Anthropic, ANTHROPIC),
            (Dialect::Ollama, OLLAMA),
        ] {
            let params = made(dialect, &every);
            let body = params.to_json();
            for (key, _) in json::split_object(&body).expect("an object") {
                assert!(own.contains(&&*key), "{dialect:?} has no {key:?}");
            }
            let said =
                params.repairs.iter().any(|repair| repair.text.contains("no such parameter"));
            assert!(said, "{dialect:?}: {:?}", params.repairs);
        }
        check(Dialect::Responses, r#"{"newer_than_this":1}"#, "newer_than_this=1");
    }

    #[test]
    fn the_limit_has_the_name_that_the_model_takes() {
        for model in ["gpt-5.5", "gpt-5-mini", "o3", "o4-mini", "openai/gpt-6", "ft:o1:x", "gpt-10"]
        {
            let given = format!(r#"{{"max_tokens":7,"model":"{model}"}}"#);
            let expected = format!(r#"max_completion_tokens=7 model="{model}""#);
            check(Dialect::OpenAi, &given, &expected);
        }
        for model in ["gpt-4o", "gpt-oss:20b", "llama-3", "olmo-2", "openai/gpt-4.1", "chatgpt-4o"]
        {
            let given = format!(r#"{{"max_tokens":7,"model":"{model}"}}"#);
            check(Dialect::OpenAi, &given, &format!(r#"max_tokens=7 model="{model}""#));
        }
        check(
            Dialect::OpenAi,
            r#"{"max_completion_tokens":9,"max_tokens":7,"model":"o3"}"#,
            r#"max_completion_tokens=9 model="o3""#,
        );
    }
}
