//! Recorded content that its own provider never accepts again is repaired, and each repair listed.

mod support;

use serde_json::{Value, json};
use support::of;
use tract_core::ToolSchema;
use tract_providers::{Dialect, Params, RepairKind, RequestForms, read_request};

fn compiled(dialect: Dialect, request: &Value) -> (Value, Params) {
    let imported = read_request(&request.to_string(), dialect).expect("a request");
    let params = of(&imported).to_params(dialect).expect("it is compiled");
    (params.to().expect("it is JSON"), params)
}

#[track_caller]
fn reports(params: &Params, kind: RepairKind, text: &str) {
    let is_listed =
        params.repairs.iter().any(|repair| repair.kind == kind && repair.text.contains(text));
    assert!(is_listed, "{text:?} in {:?}", params.repairs);
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[test]
fn results_of_anthropic_come_before_the_text_of_their_message() {
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "1"});
    let text = json!({"type": "text", "text": "Look:", "cache_control": {"type": "ephemeral"}});
    let request = json!({"messages": [user("Hi"), {"role": "assistant", "content": [call]},
        {"role": "user", "content": [text, result]}]});
    let (body, params) = compiled(Dialect::Anthropic, &request);
    assert_eq!(body["messages"][2]["content"], json!([result, text]));
    reports(&params, RepairKind::Reordered, "results moved");
}

#[test]
fn messages_of_anthropic_without_content_are_left_out() {
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    let blank = json!({"type": "text", "text": " "});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": [blank]});
    let request = json!({
        "system": [{"type": "text", "text": "S"}, {"type": "text", "text": ""}],
        "messages": [user("Hi"), {"role": "assistant", "content": []}, user("And?"),
            {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]});
    let (body, params) = compiled(Dialect::Anthropic, &request);
    assert_eq!(body["system"], json!([{"type": "text", "text": "S"}]));
    let messages = body["messages"].as_array().unwrap();
    assert!(messages.iter().all(|message| message["content"] != json!([])), "{body}");
    let sent = &messages.last().unwrap()["content"][0];
    assert_eq!(sent, &json!({"type": "tool_result", "tool_use_id": "a"}));
    reports(&params, RepairKind::EmptyMessage, "without content");
    reports(&params, RepairKind::PartLeftOut, "a blank text within a result");
    reports(&params, RepairKind::PartLeftOut, "a blank text: left out");
}

#[test]
fn contents_of_gemini_without_parts_are_left_out() {
    let text = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    for parts in [json!([]), json!([{"text": ""}]), json!([{"text": "", "thought": true}])] {
        let request =
            json!({"contents": [text("Hi"), {"role": "model", "parts": parts}, text("And?")]});
        let (body, params) = compiled(Dialect::Gemini, &request);
        assert_eq!(body["contents"].as_array().unwrap().len(), 2, "{body}");
        reports(&params, RepairKind::EmptyMessage, "without content");
    }
    let signed = json!([{"text": "", "thoughtSignature": "QUJD"}]);
    let request =
        json!({"contents": [text("Hi"), {"role": "model", "parts": signed}, text("And?")]});
    let (body, params) = compiled(Dialect::Gemini, &request);
    assert_eq!(body["contents"], request["contents"]);
    assert_eq!(params.repairs, []);
}

#[test]
fn an_empty_list_of_content_of_chat_completions_is_not_sent() {
    let request = json!({"messages": [{"role": "user", "content": []},
        {"role": "assistant", "content": []}, user("Hi")]});
    let (body, params) = compiled(Dialect::OpenAi, &request);
    assert_eq!(body["messages"], json!([user(""), user("Hi")]));
    reports(&params, RepairKind::EmptyMessage, "without content");
}

#[test]
fn ids_that_the_provider_rejects_are_replaced_in_calls_and_results() {
    let long = "chatcmpl-tool-".to_owned() + &"0123456789abcdef".repeat(2);
    let call =
        json!({"id": long, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let request = json!({"messages": [user("Hi"), {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": long, "content": "1"}]});
    let (body, params) = compiled(Dialect::OpenAi, &request);
    // Servers with OpenAI's API make such ids, and accept them.
    assert_eq!(body["messages"][1]["tool_calls"][0]["id"], long);
    assert!(params.repairs.is_empty(), "{:?}", params.repairs);

    let id = "functions.Read:0";
    let request = json!({"messages": [user("Hi"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "1"}]}]});
    let (body, params) = compiled(Dialect::Anthropic, &request);
    let sent = body["messages"][1]["content"][0]["id"].as_str().unwrap();
    assert!(
        sent.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)),
        "{sent}"
    );
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], sent);
    reports(&params, RepairKind::CallId, id);
}

#[test]
fn items_of_responses_get_the_types_and_ids_that_are_accepted() {
    let request = json!({"input": [
        {"type": "message", "role": "user", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
        {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "abc"},
        {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "input_text", "text": "Hello."}]},
        {"type": "function_call", "id": "item_1", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "message", "role": "user", "content": []},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "abc"},
        {"type": "message", "id": "msg_2", "role": "assistant", "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}]});
    let (body, params) = compiled(Dialect::Responses, &request);
    let input = body["input"].as_array().unwrap();
    assert_eq!(input.len(), 7, "{body}");
    assert_eq!(input[0]["content"], json!([{"type": "input_text", "text": "Hi"}]));
    assert_eq!(input[2]["content"], json!([{"type": "output_text", "text": "Hello."}]));
    for item in [&input[1], &input[2], &input[3]] {
        assert!(item.get("id").is_none(), "{item}");
    }
    assert_eq!(&input[5], &request["input"][6]);
    assert_eq!(&input[6], &request["input"][7]);
    reports(&params, RepairKind::Changed, "\"item_1\"");
    reports(&params, RepairKind::Changed, "texts of an assistant");
    reports(&params, RepairKind::EmptyMessage, "without content");
}

#[test]
fn calls_of_older_geminis_are_signed_for_newer_ones() {
    let call = json!({"functionCall": {"name": "f", "args": {}}});
    let response = json!({"functionResponse": {"name": "f", "response": {"output": "1"}}});
    let request = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [call, call]}, {"role": "user", "parts": [response, response]}]});
    let signature = "skip_thought_signature_validator";
    let imported = read_request(&request.to_string(), Dialect::Gemini).unwrap();
    for (model, signed) in
        [("gemini-2.5-pro", 0), ("gemini-3-pro-preview", 1), ("models/gemini-10", 1)]
    {
        let config = tract_core::JsonText::new(&format!(r#"{{"model":"{model}"}}"#)).unwrap();
        let mut drafts = imported.drafts.clone();
        drafts[1].generation_config = Some(config);
        let params = support::compiled(&drafts, None).to_params(Dialect::Gemini).unwrap();
        let body: Value = params.to().unwrap();
        assert_eq!(body.to_string().matches(signature).count(), signed, "{model}: {body}");
        let sent = &body["contents"][1]["parts"][0]["thoughtSignature"];
        assert_eq!(sent.as_str().is_some(), signed > 0, "{model}: {body}");
        let is_listed = params.repairs.iter().any(|repair| repair.text.contains("signature"));
        assert_eq!(is_listed, signed > 0, "{:?}", params.repairs);
    }
}

#[test]
fn schemas_with_alternatives_at_the_top_are_merged_and_reported() {
    let schema = json!({"type": "object", "oneOf": [
        {"properties": {"a": {"type": "string"}, "b": {"type": "array"}}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "string"}}, "required": ["a"]}]});
    let tool = json!({"name": "t", "inputSchema": schema});
    let tool = ToolSchema::parse(&tool.to_string()).unwrap();
    let context = support::compiled(&[tract_core::Draft::user("Hi")], Some(&[tool]));
    for dialect in Dialect::ALL {
        let params = context.to_params(dialect).unwrap();
        let tools: Value = serde_json::from_str(params.get("tools").unwrap()).unwrap();
        let text = tools.to_string();
        assert!(!text.contains("oneOf") && text.contains(r#""required":["a"]"#), "{text}");
        assert!(text.contains(r#""items":{}"#), "{text}");
        reports(&params, RepairKind::Changed, "are merged into one object");
        reports(&params, RepairKind::Changed, "items");
    }
}

#[test]
fn tools_of_a_recorded_request_stay_as_the_server_accepted_them() {
    let schema = json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "array"}}}]});
    let tools = json!([{"type": "function", "function": {"name": "t", "parameters": schema}}]);
    let request = json!({"messages": [user("Hi")], "tools": tools});
    let (body, params) = compiled(Dialect::OpenAi, &request);
    assert_eq!(body["tools"], tools);
    assert_eq!(params.repairs, []);
}

#[test]
fn patterns_of_properties_are_never_strict() {
    let schema = json!({"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "string"}},
        "additionalProperties": false});
    let tool = json!({"name": "t", "strict": true, "parameters": schema});
    let tool = ToolSchema::parse(&tool.to_string()).unwrap();
    let context = support::compiled(&[tract_core::Draft::user("Hi")], Some(&[tool]));
    for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic] {
        let params = context.to_params(dialect).unwrap();
        assert!(!params.get("tools").unwrap().contains(r#""strict":true"#), "{params:?}");
        reports(&params, RepairKind::NotStrict, "patternProperties");
    }
}
