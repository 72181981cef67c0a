//! Gemini: requests, replies and streams in the shapes that Google documents.

mod support;

use serde_json::{Value, json};
use support::streams::{assemble, params};
use support::{compiled, compiled_but, fixture, of, read_back};
use tract_core::{Content, Draft, JsonText, ModelRequest, Part, StopReason};
use tract_providers::stream::{Assembler, StreamError};
use tract_providers::{
    Dialect, FormOptions, RequestForms, detect, params_of, read_reply, read_request,
};

#[test]
fn a_request_comes_back_with_its_signatures() {
    assert_eq!(detect(&fixture("gemini.json")), Some(Dialect::Gemini));
    let keys = ["systemInstruction", "contents", "tools"];
    let imported = read_back("gemini.json", Dialect::Gemini, &keys);
    assert_eq!(imported.anomalies, []);
    assert_eq!(imported.drafts.len(), 7, "each response is a draft of its own");
    let members = tract_core::json::split_object(imported.parameters.as_str()).unwrap();
    assert_eq!(members[0].0, "generationConfig");

    // A response answers the call of its name, the oldest first.
    let answers: Vec<&str> = imported
        .drafts
        .iter()
        .filter_map(|draft| match &draft.content {
            Content::ToolResult(answer) => Some(answer.call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(answers, ["unnamed_1_1", "unnamed_1_2"]);
}

/// `google-genai` dumps requests with the names of Python, and null for what is not set.
#[test]
fn a_request_in_snake_case_is_read_as_one_in_camel_case() {
    let text = fixture("gemini.json");
    let mut snake = text.clone();
    for (name, python) in [
        ("systemInstruction", "system_instruction"),
        ("inlineData", "inline_data"),
        ("mimeType", "mime_type"),
        ("functionCall\"", "function_call\""),
        ("functionResponse", "function_response"),
        ("thoughtSignature", "thought_signature"),
        ("functionDeclarations", "code_execution\": null, \"function_declarations"),
        ("parametersJsonSchema", "parameters_json_schema"),
        ("googleSearch", "google_search"),
        ("generationConfig", "generation_config"),
        ("thinkingConfig", "thinking_config"),
        ("includeThoughts", "include_thoughts"),
    ] {
        assert!(snake.contains(name), "{name}");
        snake = snake.replace(name, python);
    }
    let (camel, snake) = (
        read_request(&text, Dialect::Gemini).unwrap(),
        read_request(&snake, Dialect::Gemini).unwrap(),
    );
    let contents = |imported: &tract_providers::Imported| {
        imported.drafts.iter().map(|draft| draft.content.clone()).collect::<Vec<_>>()
    };
    // A part that only Google understands is kept as it came; all others are equal.
    assert_eq!(contents(&camel), contents(&snake));
    assert_eq!((&camel.parameters, &snake.anomalies), (&snake.parameters, &camel.anomalies));
    // Other providers are told the same of both, the tools included.
    let sent = |imported| of(imported).to_openai_params().unwrap().to_json();
    assert_eq!(sent(&camel), sent(&snake));
    // Google gets what it gave.
    let body = of(&snake).to_params(Dialect::Gemini).unwrap().to_json();
    assert!(body.contains(r#""thought_signature""#) && body.contains("EjQKMgG+Zv8="), "{body}");
    // A parameter that is set later replaces the one that was imported.
    let limited = r#"{"contents":[],"generation_config":{"max_output_tokens":5,"response_json_schema":{"a_b":1}},"labels":{"a_b":"c"}}"#;
    let limited = read_request(limited, Dialect::Gemini).unwrap().parameters;
    assert_eq!(
        limited.as_str(),
        r#"{"generationConfig":{"maxOutputTokens":5,"responseJsonSchema":{"a_b":1}},"labels":{"a_b":"c"}}"#
    );
}

#[test]
fn another_provider_gets_all_but_the_signatures() {
    let text = fixture("gemini.json");
    let context = of(&read_request(&text, Dialect::Gemini).unwrap());
    let body: Value = context.to_openai_params().unwrap().to().unwrap();
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant", "user"]);
    assert_eq!(messages[3]["content"], "11 °C, rain");
    assert_eq!(messages[4]["content"], r#"{"temperature": 13.0}"#);
    assert!(!body.to_string().contains("EjQKMgG"), "{body}");
    let schema = &body["tools"][0]["function"]["parameters"];
    assert_eq!(schema["properties"]["city"]["type"], "string");
    assert_eq!(body["tools"].as_array().unwrap().len(), 2, "Google's own tool stays with it");
}

#[test]
fn an_edited_or_skipped_message_takes_its_signature_along() {
    let imported = read_request(&fixture("gemini.json"), Dialect::Gemini).unwrap();
    let context = compiled_but(&imported.drafts, None, |place| place == 2);
    let params = context.to_params(Dialect::Gemini).unwrap();
    let body = params.to_json();
    assert!(!body.contains("EjQKMgG+Zv8="), "{body}");
    assert!(body.contains("EjQKMgG+Zv9="), "{body}");
    assert!(!params.repairs.is_empty());
}

#[test]
fn a_stream_becomes_the_reply_however_it_is_cut() {
    let stream = fixture("gemini-stream.txt");
    for cut in (1..stream.len()).step_by(37).chain([stream.len()]) {
        let (streamed, reply, _) = assemble(&params(Dialect::Gemini), stream.as_bytes(), [cut]);
        let reply = reply.unwrap();
        streamed.check(&reply, "gemini-stream.txt");
        assert_eq!(
            (streamed.text.as_str(), streamed.reasoning.as_str()),
            ("Looking.", "Two cities.")
        );
        assert_eq!(reply.stop_reason, Some(StopReason::ToolUse));
        assert_eq!(reply.id.as_deref(), Some("r-1"));
        assert_eq!(reply.model.as_deref(), Some("gemini-3-pro"));
        let usage = reply.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (Some(20), Some(20)));
        assert_eq!((usage.cached_tokens, usage.reasoning_tokens), (Some(4), Some(8)));
        let calls: Vec<_> = reply.calls().map(|call| call.arguments.as_str()).collect();
        assert_eq!(calls, [r#"{"city":"Paris","days":1.0}"#, r#"{"city":"Lyon"}"#]);
        // The signature goes back with the call that it signs.
        let sent = String::from_utf8(reply.verbatim.unwrap().bytes().to_vec()).unwrap();
        assert!(sent.contains(r#""thoughtSignature":"EjQKMgG+Zv8=""#), "{sent}");
    }
}

#[test]
fn a_stream_that_ends_too_early_is_cut_and_keeps_what_came() {
    let stream = fixture("gemini-stream.txt");
    let early: String = stream.split_inclusive("\n\n").take(4).collect();
    let (_, reply, assembler) = assemble(&params(Dialect::Gemini), early.as_bytes(), []);
    assert!(matches!(reply, Err(StreamError::Cut)));
    let partial = assembler.partial();
    assert_eq!((partial.text.as_str(), partial.reasoning.as_str()), ("Looking.", "Two cities."));

    let mut assembler = Assembler::new(Dialect::Gemini);
    let error = r#"data: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
    let failed = assembler.push(format!("{error}\n\n").as_bytes(), &mut |_| {}).unwrap_err();
    let failed = tract_core::ModelError::from(failed);
    assert!(matches!(failed, tract_core::ModelError::Unavailable { .. }), "{failed:?}");
}

#[test]
fn every_reason_to_stop_is_understood_or_kept() {
    for (reason, expected) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("MALFORMED_FUNCTION_CALL", StopReason::Other("MALFORMED_FUNCTION_CALL".into())),
    ] {
        let content = json!({"role": "model", "parts": [{"text": "Hi"}]});
        let text = json!({"candidates": [{"content": content, "finishReason": reason}]});
        let reply = read_reply(Dialect::Gemini, &text.to_string()).unwrap();
        assert_eq!((reply.text().as_str(), reply.stop_reason), ("Hi", Some(expected)));
    }
    let refused =
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    let reply = read_reply(Dialect::Gemini, refused).unwrap();
    assert_eq!(reply.stop_reason, Some(StopReason::Refusal));
    assert!(read_reply(Dialect::Gemini, "{}").is_err());
    let thinking = r#"{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}]}"#;
    let reply = read_reply(Dialect::Gemini, thinking).unwrap();
    assert_eq!(reply.stop_reason, Some(StopReason::MaxTokens));
}

#[test]
fn parameters_go_where_gemini_has_them() {
    let given = r#"{"max_tokens":7,"model":"gemini-3-pro","temperature":0.5,"stop":"x","reasoning_effort":"low","response_format":{"type":"json_object"},"tool_choice":"required","user":"u"}"#;
    let request = ModelRequest {
        parameters: Some(JsonText::new(given).unwrap()),
        ..ModelRequest::new(Vec::new())
    };
    let params = params_of(&request, Dialect::Gemini, &FormOptions::default()).unwrap();
    let body: Value = params.to().unwrap();
    assert_eq!(
        body["generationConfig"],
        json!({"maxOutputTokens": 7, "temperature": 0.5, "stopSequences": ["x"],
            "thinkingConfig": {"thinkingLevel": "LOW"}, "responseMimeType": "application/json"})
    );
    assert_eq!(body["toolConfig"], json!({"functionCallingConfig": {"mode": "ANY"}}));
    assert!(body.get("model").is_none(), "the url names it");
    assert_eq!(params.get("model"), Some(r#""gemini-3-pro""#));
    assert!(params.repairs.iter().any(|repair| repair.text.contains("\"user\"")));
    // Earlier models count thoughts in tokens.
    let earlier = given.replace("gemini-3-pro", "gemini-2.5-flash");
    let request = ModelRequest {
        parameters: Some(JsonText::new(&earlier).unwrap()),
        ..ModelRequest::new(Vec::new())
    };
    let body: Value =
        params_of(&request, Dialect::Gemini, &FormOptions::default()).unwrap().to().unwrap();
    assert_eq!(body["generationConfig"]["thinkingConfig"], json!({"thinkingBudget": 1024}));
}

#[test]
fn results_have_the_name_of_their_tool_and_say_when_they_failed() {
    let drafts = [
        Draft::assistant("").call("c1", "now", "{}").call("c2", "now", "{}"),
        Draft::tool_result("c1", "noon"),
        Draft::tool_result("c2", "no clock").is_error(true),
    ];
    let params = compiled(&drafts, None).to_params(Dialect::Gemini).unwrap();
    let body: Value = params.to().unwrap();
    assert_eq!(body["contents"][0]["role"], "user", "a model does not begin");
    let parts = &body["contents"][2]["parts"];
    let response = |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "now", "response": response}});
    assert_eq!(parts[0], response("c1", json!({"output": "noon"})));
    assert_eq!(parts[1], response("c2", json!({"error": "no clock"})));
    // They come in as they went out.
    let back = read_request(&params.to_json(), Dialect::Gemini).unwrap();
    let failed = back.drafts.iter().filter_map(|draft| match &draft.content {
        Content::ToolResult(answer) => Some((answer.parts.clone(), answer.is_error)),
        _ => None,
    });
    let expected = [(vec![Part::text("noon")], false), (vec![Part::text("no clock")], true)];
    assert_eq!(failed.collect::<Vec<_>>(), expected);
}
