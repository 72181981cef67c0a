//! Parameters of a request, under the names of each provider.
//!
//! Callers use the names of Chat Completions for common parameters. Checked against the vendors'
//! published types: `openai` 3.54, `anthropic` 2.12, `ollama` 0.6.3, `google-genai` 3.4.

use tract_compile::{Repair, RepairKind};
use tract_core::json;
use tract_schema::Dialect;

use crate::adapter::DialectAdapter as _;
use crate::params::Params;
use crate::raw::{self, Object};

/// Sets a parameter if the dialect has it, else adds a repair. `null` counts as absent.
pub(crate) fn set(params: &mut Params, dialect: Dialect, key: &str, value: &str) {
    if value == "null" {
        return;
    }
    if key == "model" {
        return params.set(key, value.to_owned());
    }
    let profile = dialect.profile();
    let is_limit = matches!(key, "max_tokens" | "max_completion_tokens" | "max_output_tokens");
    match (is_limit, profile.limit) {
        (true, [outer, inner]) => return member(params, outer, inner, value),
        // Chat Completions has two names for it, and sends each as given.
        (true, [name]) if !(profile.is_shared && profile.parameters.contains(&key)) => {
            return params.set(name, value.to_owned());
        }
        _ => {}
    }
    if (profile.set)(params, key, value) {
        return;
    }
    if is_foreign(dialect, key) {
        return not_set(params, key, dialect);
    }
    params.set(key, value.to_owned());
}

/// Returns whether a parameter belongs to other providers only. An unknown parameter is sent, as it
/// may be newer than the lists. Servers compatible with OpenAI accept more parameters than OpenAI.
fn is_foreign(dialect: Dialect, key: &str) -> bool {
    let own = dialect.profile();
    let knows = |dialect: Dialect| {
        let profile = dialect.profile();
        profile.parameters.contains(&key) || profile.options.contains(&key)
    };
    !own.is_shared && !own.parameters.contains(&key) && Dialect::ALL.into_iter().any(knows)
}

pub(crate) fn not_set(params: &mut Params, key: &str, dialect: Dialect) {
    let text = format!("{key:?} is not set: {} has no such parameter", dialect.profile().title);
    params.repairs.push(Repair::new(RepairKind::NotSet, None, text));
}

/// The tool choice of Chat Completions.
pub(crate) enum Choice<'a> {
    Word(&'a str),
    /// The sent name of the tool, as a JSON string.
    Tool(String),
    Other,
}

pub(crate) fn tool_choice<'a>(params: &Params, value: &'a str) -> Choice<'a> {
    if let Some(word) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Choice::Word(word);
    }
    if get(value, "type") != Some("\"function\"") {
        return Choice::Other;
    }
    let named = get(value, "function").and_then(|function| get(function, "name"));
    let Some(name) = named.and_then(raw::string) else { return Choice::Other };
    let sent = params.aliases.as_ref().map(|aliases| aliases.sent(&name).to_string());
    Choice::Tool(raw::literal(&sent.unwrap_or(name)))
}

/// Returns the schema of a response format of Chat Completions.
pub(crate) fn schema_of(format: &str) -> Option<&str> {
    get(format, "json_schema").and_then(|of| get(of, "schema"))
}

pub(crate) fn get<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let members = json::split_object(object).ok()?;
    members.into_iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw)
}

/// Moves the members of the object under `key` to the object around it.
pub(crate) fn flat(text: &str, key: &str) -> String {
    let Some(inner) = get(text, key) else { return text.to_owned() };
    let mut out = Object::new();
    copy(&mut out, text, &[key]);
    copy(&mut out, inner, &[]);
    out.end()
}

/// Copies the members of an object, except for some.
pub(crate) fn copy(out: &mut Object, object: &str, but: &[&str]) {
    for (name, raw) in json::split_object(object).unwrap_or_default() {
        if !but.contains(&name.as_str()) {
            out.raw(&name, raw);
        }
    }
}

pub(crate) fn object<S: AsRef<str>>(members: &[(S, S)]) -> String {
    let mut out = Object::new();
    for (name, raw) in members {
        out.raw(name.as_ref(), raw.as_ref());
    }
    out.end()
}

/// Wraps a single value in a list.
pub(crate) fn list(value: &str) -> String {
    if value.starts_with('[') { value.to_owned() } else { raw::array([value]) }
}

/// Sets one member of an object in the body. Its other members are unchanged.
pub(crate) fn member(params: &mut Params, outer: &str, key: &str, value: &str) {
    let found = params.get(outer).unwrap_or("{}").to_owned();
    let mut out = Object::new();
    copy(&mut out, &found, &[key]);
    out.raw(key, value);
    params.set(outer, out.end());
}

#[cfg(test)]
mod tests {
    use tract_core::{JsonText, ModelRequest};

    use super::*;
    use crate::FormOptions;
    use crate::request::params_of;

    fn made(dialect: Dialect, parameters: &str) -> Params {
        let parameters = JsonText::new(parameters).expect("it is JSON");
        let request = ModelRequest::default().parameters(parameters);
        params_of(&request, dialect, &FormOptions::new()).expect("it compiles")
    }

    #[track_caller]
    fn check(dialect: Dialect, parameters: &str, expected: &str) {
        let body = made(dialect, parameters).to_json();
        let members = json::split_object(&body).expect("an object");
        let notes: Vec<String> = members
            .into_iter()
            .filter(|(key, _)| !matches!(key.as_str(), "messages" | "input"))
            .map(|(key, raw)| format!("{key}={raw}"))
            .collect();
        assert_eq!(notes.join(" "), expected, "{dialect:?}");
    }

    #[test]
    fn parameters_go_where_the_dialect_has_them() {
        let given =
            r#"{"max_tokens":7,"model":"m","stop":"x","temperature":0.20,"tool_choice":"auto"}"#;
        let expected = [
            r#"max_tokens=7 model="m" stop="x" temperature=0.2 tool_choice="auto""#,
            r#"max_output_tokens=7 model="m" temperature=0.2 tool_choice="auto""#,
            r#"max_tokens=7 model="m" stop_sequences=["x"] temperature=0.2 tool_choice={"type":"auto"}"#,
            r#"options={"num_predict":7,"stop":["x"],"temperature":0.2} model="m""#,
        ];
        let dialects = [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Ollama];
        for (dialect, expected) in dialects.into_iter().zip(expected) {
            check(dialect, given, expected);
        }
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
            r#"output_config={"effort":"high","format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false}}} tool_choice={"type":"tool","name":"go"}"#,
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
    fn unsupported_parameters_are_left_out_and_reported() {
        let all = Dialect::ALL.map(Dialect::profile);
        let lists = all.iter().flat_map(|profile| {
            let conversation = [Some(profile.list), profile.system];
            let names = profile.parameters.iter().chain(profile.options);
            names.copied().filter(move |name| !conversation.contains(&Some(*name)))
        });
        let every: std::collections::BTreeSet<&str> = lists.collect();
        let every: Vec<String> = every.into_iter().map(|name| format!("{name:?}:\"1\"")).collect();
        let every = format!("{{{}}}", every.join(","));
        for dialect in Dialect::ALL.into_iter().filter(|dialect| !dialect.profile().is_shared) {
            let own = dialect.profile().parameters;
            let params = made(dialect, &every);
            let body = params.to_json();
            for (key, _) in json::split_object(&body).expect("an object") {
                assert!(own.contains(&&*key), "{dialect:?} has no {key:?}");
            }
            let notes =
                params.repairs.iter().any(|repair| repair.text.contains("no such parameter"));
            assert!(notes, "{dialect:?}: {:?}", params.repairs);
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
