//! What a broken history becomes for each provider; recordings are translated by the whole walks.

#[allow(dead_code, reason = "the whole walks use the rest")]
#[path = "../../../tests/rules.rs"]
mod rules;
mod support;

use rules::Accepted;
use serde_json::{Value, json};
use support::compiled;
use tract_core::{Draft, Part, Priority, ToolSchema};
use tract_providers::{Dialect, Params, RepairKind, RequestForms};

fn body(params: &Params) -> Value {
    params.to().expect("a body is JSON")
}

#[track_caller]
fn check(name: &str, dialect: Dialect, params: &Params) {
    let broken = rules::broken(dialect, Accepted::Nothing, &body(params));
    assert!(broken.is_empty(), "{name} for {dialect}: {broken:#?}\n{}", params.to_json());
}

fn drafts() -> Vec<Draft> {
    vec![
        Draft::system("Be brief."),
        Draft::user("Two things."),
        Draft::assistant("")
            .call("c.1", "fs.read", r#"{"path":"a"}"#)
            .call("c2", "now", "not json"),
        Draft::assistant("Wait."),
        Draft::user("And?"),
        Draft::tool_result("c2", "noon").is_error(true),
        Draft::system("Be kind."),
        Draft::assistant("Done."),
    ]
}

#[test]
fn a_broken_history_is_repaired_and_every_step_listed() {
    let tool = ToolSchema::parse(r#"{"name":"fs.read","inputSchema":{"type":"object"}}"#).unwrap();
    let search = r#"{"type":"web_search_20250305","name":"web_search"}"#;
    let search = ToolSchema::parse(search).unwrap();
    let context = compiled(&drafts(), Some(&[tool, search]));

    let params = context.to_anthropic_params().unwrap();
    let mut kinds: Vec<_> = params.repairs.iter().map(|repair| repair.kind).collect();
    kinds.sort();
    assert_eq!(
        kinds,
        [
            RepairKind::NotExecuted,
            RepairKind::Moved,
            RepairKind::CallId,
            RepairKind::ToolName,
            RepairKind::Arguments,
            RepairKind::Changed,
            RepairKind::SystemMoved,
            RepairKind::Closed,
        ]
    );
    let (alias, name) = params.aliases().next().unwrap();
    assert_eq!(name, "fs.read");
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "Two things."}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": body(&params)["messages"][1]["content"][0]["id"],
             "name": alias, "input": {"path": "a"}},
            {"type": "tool_use", "id": "c2", "name": "now", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": body(&params)["messages"][1]["content"][0]["id"],
             "content": [{"type": "text", "text": "no result is recorded"}], "is_error": true},
            {"type": "tool_result", "tool_use_id": "c2",
             "content": [{"type": "text", "text": "noon"}], "is_error": true}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Wait."}]},
        {"role": "user", "content": [{"type": "text", "text": "And?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
        {"role": "user", "content": [{"type": "text", "text": "Continue."}]},
    ]);
    assert_eq!(body(&params)["messages"], expected, "{}", params.to_json());
    assert_eq!(body(&params)["tools"].as_array().unwrap().len(), 2);

    let params = context.to_openai_params().unwrap();
    check("chat", Dialect::OpenAi, &params);
    let left_out = |params: &Params| {
        params.repairs.iter().filter(|repair| repair.kind == RepairKind::ToolLeftOut).count()
    };
    assert_eq!(left_out(&params), 1);
    assert_eq!(body(&params)["messages"][4]["content"], "Error: noon");
    let params = context.to_responses_params().unwrap();
    check("responses", Dialect::Responses, &params);
    let params = context.to_ollama_params().unwrap();
    check("ollama", Dialect::Ollama, &params);
}

#[test]
fn the_list_of_messages_is_never_repaired() {
    let params = compiled(&drafts(), None).to_openai().unwrap();
    assert!(params.repairs.is_empty());
    assert_eq!(body(&params).as_array().unwrap().len(), drafts().len());
}

#[test]
fn signed_reasoning_goes_back_only_to_the_provider_that_made_it() {
    let signed =
        Part::Reasoning { text: "hm".into(), signature: Some("s".into()), encrypted: None };
    let mut draft = Draft::assistant("").part(signed).part(Part::text("Hi."));
    draft.form = Some("anthropic-1".to_owned());
    let context = compiled(&[Draft::user("?"), draft, Draft::user("!")], None);
    let sent = body(&context.to_anthropic_params().unwrap());
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    assert_eq!(sent["messages"][1]["content"][0], thinking);
    let params = context.to_openai_params().unwrap();
    assert_eq!(body(&params)["messages"][1], json!({"role": "assistant", "content": "Hi."}));
    assert_eq!(params.repairs[0].kind, RepairKind::PartLeftOut);
}

#[test]
fn the_last_config_gives_model_and_limit() {
    let config = |text| tract_core::JsonText::new(text).unwrap();
    let drafts = [
        Draft::user("a").generation_config(config(r#"{"model":"m1","max_tokens":5}"#)),
        Draft::user("b").generation_config(config(r#"{"model":"m2"}"#)).priority(Priority::Normal),
    ];
    let context = compiled(&drafts, None);
    let params =
        context.to_anthropic_params().unwrap().with("temperature", 0.5).with("model", "m3");
    let keys = r#"{"model":"m3","max_tokens":5,"messages":"#;
    assert!(params.to_json().starts_with(keys), "{}", params.to_json());
    assert_eq!(body(&params)["temperature"], 0.5);
    assert_eq!(body(&context.to_responses_params().unwrap())["max_output_tokens"], 5);
    let empty = compiled(&[], None).to_anthropic_params().unwrap();
    assert_eq!(empty.to_json(), r#"{"messages":[]}"#);
}

#[test]
fn a_repeated_call_id_is_replaced_only_where_ids_are_sent() {
    let call = |kind: &str| format!(r#"{{"kind":"{kind}"}}"#);
    let context = compiled(
        &[
            Draft::user("Count."),
            Draft::assistant("").call("d", "count", call("apple")),
            Draft::tool_result("d", "41"),
            Draft::assistant("").call("d", "count", call("pear")),
            Draft::tool_result("d", "19"),
        ],
        None,
    );
    let replaced = |params: &Params| -> usize {
        params.repairs.iter().filter(|repair| repair.kind == RepairKind::CallId).count()
    };
    for params in [
        context.to_openai_params().unwrap(),
        context.to_anthropic_params().unwrap(),
        context.to_responses_params().unwrap(),
    ] {
        assert_eq!(replaced(&params), 1, "{:?}", params.repairs);
        assert!(params.to_json().contains("d_2"), "{}", params.to_json());
    }
    let params = context.to_ollama_params().unwrap();
    assert_eq!(replaced(&params), 0, "{:?}", params.repairs);
    assert!(!params.to_json().contains("d_2"), "{}", params.to_json());
}
