//! Parameters of a request, under the names of each provider.
//!
//! Callers use the names of Chat Completions for common parameters. Checked against the vendors'
//! published types: `openai` 3.54, `anthropic` 2.12, `ollama` 0.6.3, `google-genai` 3.4.

use tract_schema::Dialect;

use crate::members::{member, not_set};
use crate::params::Params;
use crate::profile_of;

/// Sets a parameter if the dialect has it, else adds a repair. `null` counts as absent.
pub(crate) fn set(params: &mut Params, dialect: Dialect, key: &str, value: &str) {
    if value == "null" {
        return;
    }
    if key == "model" {
        return params.set(key, value.to_owned());
    }
    let profile = profile_of(dialect);
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
        return not_set(params, key, profile.title);
    }
    params.set(key, value.to_owned());
}

/// Returns whether a parameter belongs to other providers only. An unknown parameter is sent, as it
/// may be newer than the lists. Servers compatible with OpenAI accept more parameters than OpenAI.
fn is_foreign(dialect: Dialect, key: &str) -> bool {
    let own = profile_of(dialect);
    let knows = |dialect: Dialect| {
        let profile = profile_of(dialect);
        profile.parameters.contains(&key) || profile.options.contains(&key)
    };
    !own.is_shared && !own.parameters.contains(&key) && Dialect::ALL.into_iter().any(knows)
}

#[cfg(test)]
mod tests {
    use tract_core::{JsonText, ModelRequest, json};

    use super::*;
    use crate::FormOptions;
    use crate::request::params_of;

    fn made(dialect: Dialect, parameters: &str) -> Params {
        let parameters = JsonText::new(parameters).expect("it is JSON");
        let request = ModelRequest { parameters: Some(parameters), ..ModelRequest::default() };
        params_of(&request, dialect, &FormOptions::default()).expect("it compiles")
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
        let all = Dialect::ALL.map(profile_of);
        let lists = all.iter().flat_map(|profile| {
            let conversation = [Some(profile.format.list), profile.format.system];
            let names = profile.parameters.iter().chain(profile.options);
            names.copied().filter(move |name| !conversation.contains(&Some(*name)))
        });
        let every: std::collections::BTreeSet<&str> = lists.collect();
        let every: Vec<String> = every.into_iter().map(|name| format!("{name:?}:\"1\"")).collect();
        let every = format!("{{{}}}", every.join(","));
        for dialect in Dialect::ALL.into_iter().filter(|dialect| !profile_of(*dialect).is_shared) {
            let own = profile_of(dialect).parameters;
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
