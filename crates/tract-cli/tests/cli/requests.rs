//! Recorded requests: with the answers next to them, sent again as they were, and put right where a
//! provider would reject them.

use serde_json::{Value, json};

use crate::support::{RunOutput, Workspace, data, text};

/// Imports a document, and returns the branch that it became.
fn import(place: &Workspace, file: &str, document: &Value) -> String {
    place.write(file, document.to_string());
    let lines = place.json(&["import", "--json", file]);
    lines[0]["branch"].as_str().expect("a branch").to_owned()
}

fn compiled(place: &Workspace, revision: &str, form: &str) -> (Value, RunOutput) {
    let output = place.run(&["compile", revision, "--to", form]).expect(0);
    (serde_json::from_str(&output.stdout).expect("a body"), output)
}

#[test]
fn a_request_with_empty_functions_keeps_its_tools() {
    let tool = json!({"name": "tide", "parameters": {"type": "object", "properties": {}}});
    for functions in [Value::Null, json!([])] {
        let place = Workspace::new();
        let request = json!({
            "model": "m", "messages": [{"role": "user", "content": "High water?"}],
            "tools": [{"type": "function", "function": tool}], "functions": functions,
        });
        let branch = import(&place, "request.json", &request);
        let (body, _) = compiled(&place, &branch, "openai-params");
        assert_eq!(body, request);
    }
}

#[test]
fn a_recorded_request_goes_back_to_its_provider_member_for_member() {
    let tool = json!({"name": "tide", "parameters": {"type": "object", "properties": {}}});
    let requests = [
        (
            "openai-params",
            json!({
                "model": "gpt-4o", "temperature": 0.2, "seed": 7, "tool_choice": "auto", "stream": true,
                "parallel_tool_calls": false, "stop": null, "user": "ada", "response_format": {"type": "json_object"},
                "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "High water?"}],
                "tools": [{"type": "function", "function": tool}],
            }),
        ),
        (
            "openai-params",
            json!({
                "model": "o3", "max_tokens": 5, "functions": [tool], "function_call": {"name": "tide"},
                "messages": [{"role": "user", "content": "High water?"}],
            }),
        ),
        (
            "openai-params",
            json!({
                "model": "gpt-4o", "tools": [], "messages": [{"role": "user", "content": "High water?"}],
            }),
        ),
        (
            "anthropic-params",
            json!({
                "model": "claude-opus-4-7", "max_tokens": 1024, "temperature": 0.2, "system": "Be brief.",
                "messages": [{"role": "user", "content": "High water?"}], "top_k": 3,
                "thinking": {"type": "enabled", "budget_tokens": 2048}, "tool_choice": {"type": "auto"},
                "tools": [{"name": "tide", "input_schema": {"type": "object", "properties": {}}}],
                "metadata": {"user_id": "u", "other": 1},
            }),
        ),
        (
            "responses-params",
            json!({
                "model": "gpt-5", "instructions": "Be brief.", "store": false, "reasoning": {"effort": "high"},
                "input": [{"role": "user", "content": "High water?"}], "include": ["reasoning.encrypted_content"],
                "tools": [{"type": "function", "name": "tide", "parameters": {"type": "object", "properties": {}}}],
            }),
        ),
        (
            "ollama-params",
            json!({
                "model": "llama3.2", "messages": [{"role": "user", "content": "High water?"}], "stream": false,
                "options": {"temperature": 0.5, "num_ctx": 4096}, "keep_alive": "5m", "think": true,
            }),
        ),
        (
            "gemini-params",
            json!({
                "contents": [{"role": "user", "parts": [{"text": "High water?"}]}],
                "generationConfig": {"temperature": 0.5, "thinkingConfig": {"thinkingBudget": 5}},
                "safetySettings": [], "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            }),
        ),
        (
            "gemini-params",
            json!({
                "model": "models/gemini-2.5-flash",
                "contents": [{"role": "user", "parts": [{"text": "High water?"}]}],
                "tools": [
                    {"googleSearch": {}},
                    {"functionDeclarations": [
                        {"name": "tide", "behavior": "BLOCKING", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
                        {"name": "wind", "parametersJsonSchema": {"type": "object", "properties": {}, "additionalProperties": false}},
                        {"name": "swell", "parameters": {"type": "OBJECT", "properties": {"at": {"type": "STRING"}}}},
                    ]},
                    {"functionDeclarations": [{"name": "now", "description": "The time."}]},
                ],
            }),
        ),
        (
            "gemini-params",
            json!({
                "contents": [{"role": "user", "parts": [{"text": "High water?"}]}],
                "tools": [{"functionDeclarations": [tool]}],
            }),
        ),
        (
            "gemini-params",
            json!({
                "model": "gemini-3-pro-preview",
                "contents": [{"role": "user", "parts": [{"text": "High water?"}]}],
                "tools": [{"functionDeclarations": []}],
            }),
        ),
    ];
    let place = Workspace::new();
    for (n, (form, request)) in requests.iter().enumerate() {
        let branch = import(&place, &format!("r{n}.json"), request);
        let (body, output) = compiled(&place, &branch, form);
        assert_eq!(body, *request, "{form}");
        assert!(!output.stderr.contains("repair:"), "{output:?}");
        // For another provider, the parameters are not in its words, and this is listed.
        let other = if *form == "gemini-params" { "anthropic-params" } else { "gemini-params" };
        let (body, notes) = compiled(&place, &branch, other);
        assert!(body.get("seed").is_none());
        let notes = notes.stderr;
        let names = request.as_object().expect("an object").keys();
        let conversation = ["model", "contents", "tools"];
        let are_all_carried = names.into_iter().all(|name| conversation.contains(&name.as_str()));
        let is_reported =
            notes.contains("is not set: the request was recorded for another provider");
        // A model of one provider is not one of the other's.
        assert!(is_reported || are_all_carried, "{notes}");
    }
    // A longer version of the conversation continues the branch.
    let longer = |more: &[&str]| {
        let messages: Vec<Value> =
            more.iter().map(|text| json!({"role": "user", "content": text})).collect();
        json!({"model": "gpt-4o", "temperature": 0.2, "messages": messages})
    };
    import(&place, "grows.json", &longer(&["One"]));
    place.write("grows.json", longer(&["One", "Two"]).to_string());
    let lines = place.json(&["import", "--json", "grows.json"]);
    assert_eq!(lines[0]["status"], "forwarded");
    assert_eq!(compiled(&place, "grows-1", "openai-params").0, longer(&["One", "Two"]));
}

#[test]
fn the_answer_next_to_a_request_is_its_last_message() {
    let question = json!({"role": "user", "content": "Is the quay wet?"});
    let completion = json!({
        "id": "chatcmpl-9", "object": "chat.completion", "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
    });
    let stream: String = [
        "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Ye\"}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"s.\"},\"finish_reason\":\"stop\"}]}",
        "[DONE]",
    ]
    .iter()
    .map(|data| format!("data: {data}\n\n"))
    .collect();
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 12, "output_tokens": 5},
    });
    let anthropic = json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [question]});
    let openai = json!({"model": "gpt-4o-mini", "temperature": 0.5, "messages": [question]});
    let recordings = [
        json!({"request": openai, "response": completion}),
        json!({"model": "gpt-4o-mini", "messages": [question], "response": completion, "cost": 0.001, "call_type": "x"}),
        json!({"custom_id": "b1", "method": "POST", "url": "/v1/chat/completions", "body": openai, "response": completion}),
        json!({"request": anthropic, "response": message}),
        json!({"request": openai, "response": stream}),
    ];
    for (n, recording) in recordings.iter().enumerate() {
        let place = Workspace::new();
        let branch = import(&place, "one.json", recording);
        let shown = place.ok(&["cat", &branch]);
        assert!(shown.contains("Is the quay wet?") && shown.contains("Yes."), "{n}: {shown}");
        let usage = place.json(&["usage", "--json"]);
        if n < 4 {
            let total = &usage.last().expect("a total")["total"];
            assert_eq!(
                (&total["tokens"]["input"], &total["tokens"]["output"]),
                (&json!(12), &json!(5)),
                "{n}"
            );
            assert_eq!(total["unpriced"], 0, "{n}");
        }
        // The request is the context before the answer.
        let form = if n == 3 { "anthropic-params" } else { "openai-params" };
        let (body, _) = compiled(&place, &format!("{branch}~1"), form);
        let request = ["request", "body"].iter().find_map(|key| recording.get(*key)).cloned();
        let request =
            request.unwrap_or_else(|| json!({"model": "gpt-4o-mini", "messages": [question]}));
        assert_eq!(body, request, "{n}");
        if n == 1 {
            let shown = place.json(&["show", &branch, "--json"]);
            assert_eq!(shown[0]["record"]["metadata"]["cost"], 0.001);
        }
    }
    // What is not an answer is reported.
    let place = Workspace::new();
    place.write(
        "bad.json",
        json!({"request": openai, "response": {"error": {"message": "no"}}}).to_string(),
    );
    let lines = place.json(&["import", "--json", "bad.json"]);
    assert!(lines[0]["anomalies"][0].as_str().expect("one").starts_with("response: "), "{lines:?}");
}

#[test]
fn a_batch_is_read_with_its_requests() {
    let place = Workspace::new();
    let line = |id: &str| {
        let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": id}]});
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body})
            .to_string()
    };
    place.write("batch.jsonl", format!("{}\n{}\n", line("one"), line("two")));
    let params = json!({"max_tokens": 5, "model": "claude-haiku-4-5", "messages": [{"role": "user", "content": "Hi"}]});
    place.write("params.jsonl", json!({"custom_id": "three", "params": params}).to_string());
    place.ok(&["import", "batch.jsonl", "params.jsonl"]);
    assert_eq!(compiled(&place, "one", "openai-params").0["messages"][0]["content"], "one");
    assert_eq!(compiled(&place, "three", "anthropic-params").0, params);
}

/// The lines of a batch of a provider: its requests, and its answers in another order.
fn batch(provider: &str, ids: &[&str]) -> (String, String) {
    let lines = |line: &dyn Fn(&str) -> Value, ids: &mut dyn Iterator<Item = &&str>| {
        ids.map(|id| format!("{}\n", line(id))).collect::<String>()
    };
    let tool = json!({"name": "tide", "parameters": {"type": "object", "properties": {}}});
    let request = |id: &str| match provider {
        "openai" => {
            let content = json!([{"type": "text", "text": id, "odd": 1}]);
            json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": {
                "seed": 7, "model": "gpt-4o-mini", "tools": [{"type": "function", "function": tool}],
                "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}],
            }})
        }
        "anthropic" => json!({"custom_id": id, "params": {
            "model": "claude-haiku-4-5", "system": [{"type": "text", "text": "Be brief."}], "max_tokens": 9,
            "messages": [{"role": "user", "content": id}],
        }}),
        _ => json!({"key": id, "request": {
            "contents": [{"role": "user", "parts": [{"text": id}]}],
            "tools": [{"functionDeclarations": [tool]}], "generationConfig": {"temperature": 0.5},
        }}),
    };
    let answer = |id: &str| {
        let text = format!("It is {id}.");
        match provider {
            "openai" => {
                json!({"id": "b1", "custom_id": id, "error": null, "response": {"status_code": 200, "body": {
                    "id": "c1", "model": "gpt-4o-mini-2", "choices": [{"index": 0, "finish_reason": "stop",
                        "message": {"role": "assistant", "content": text}}],
                    "usage": {"prompt_tokens": 12, "completion_tokens": 5},
                }}})
            }
            "anthropic" => json!({"custom_id": id, "result": {"type": "succeeded", "message": {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5",
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            }}}),
            _ => json!({"key": id, "response": {"candidates": [
                {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"},
            ]}}),
        }
    };
    (lines(&request, &mut ids.iter()), lines(&answer, &mut ids.iter().rev()))
}

#[test]
fn the_answers_of_a_batch_continue_its_requests() {
    for provider in ["openai", "anthropic", "gemini"] {
        let (requests, answers) = batch(provider, &["one", "two: a/b"]);
        let place = Workspace::new();
        place.write("batch/in.jsonl", requests);
        let statuses = |files: &[&str]| {
            let lines = place.json(&[&["import", "--json"], files].concat());
            let of = |line: &Value| line["status"].as_str().unwrap_or("none").to_owned();
            lines.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(statuses(&["batch/in.jsonl"]), ["created", "created"], "{provider}");
        place.write("batch/out.jsonl", answers);
        assert_eq!(statuses(&["batch/out.jsonl"]), ["forwarded", "forwarded"], "{provider}");
        let log = place.ok(&["log", "one"]);
        assert!(log.contains("It is one."), "{log}");
        let commits = place.ok(&["log", "--all"]);
        // Neither the answers nor both files together write anything more.
        for files in [&["batch/out.jsonl"][..], &["batch/in.jsonl", "batch/out.jsonl"], &["batch"]]
        {
            assert_eq!(statuses(files), ["unchanged", "unchanged"], "{provider} {files:?}");
        }
        assert_eq!(place.ok(&["log", "--all"]), commits, "{provider}");

        // A folder is read as its files are, and they are joined.
        let whole = Workspace::new();
        for file in ["in.jsonl", "out.jsonl"] {
            let text = std::fs::read(place.path(&format!("batch/{file}"))).expect("it is read");
            whole.write(&format!("batch/{file}"), text);
        }
        let lines = whole.json(&["import", "--json", "batch"]);
        let counts: Vec<&Value> = lines.iter().map(|line| &line["anomalies"]).collect();
        assert!(lines.len() == 2 && counts.iter().all(|all| **all == json!([])), "{lines:?}");
        let heads = |place: &Workspace| place.json(&["branch", "--json"]);
        let ids = |place: &Workspace| {
            let heads = heads(place);
            heads.iter().map(|branch| branch["head"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&whole), ids(&place), "{provider}");
    }
}

#[test]
fn headers_that_are_left_out_are_reported_once_for_each_file() {
    let place = Workspace::new();
    let line = |id: &str| {
        let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": id}]});
        let answer = json!({"choices": [{"message": {"role": "assistant", "content": "Yes."}}]});
        let headers = json!({"authorization": "Bearer abc", "x-request-id": "r1"});
        json!({"id": id, "request": {"headers": headers, "body": body.to_string()}, "response": {"headers": headers, "body": answer.to_string()}})
            .to_string()
    };
    place.write("a.jsonl", format!("{}\n{}\n", line("a1"), line("a2")));
    place.write("b.jsonl", line("b1"));
    let entry = |id: &str| {
        let line: Value = serde_json::from_str(&line(id)).expect("JSON");
        json!({
            "request": {"url": "https://api.openai.com/v1/chat/completions", "headers": [{"name": "a", "value": "abc"}],
                "postData": {"text": line["request"]["body"]}},
            "response": {"headers": [{"name": "a", "value": "abc"}], "content": {"text": line["response"]["body"]}},
        })
    };
    let har = json!({"log": {"entries": [entry("h1"), entry("h2")]}});
    place.write("c.har", har.to_string());
    let lines = place.json(&["import", "--json", "a.jsonl", "b.jsonl", "c.har"]);
    let reported: Vec<usize> = lines
        .iter()
        .map(|line| line["anomalies"].to_string().matches("left out: it may contain keys").count())
        .collect();
    assert_eq!(reported, [2, 0, 2, 2, 0], "{lines:?}");
}

#[test]
fn reasoning_is_not_blank() {
    let place = Workspace::new();
    let items = json!({"model": "gpt-5", "input": [
        {"role": "user", "content": "Count."},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Forty and one."}]},
        {"role": "user", "content": "And the pears?"},
        {"type": "reasoning", "summary": [], "encrypted_content": "abc"},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "41"},
        {"role": "user", "content": "And figs?"},
        {"type": "reasoning", "summary": [], "content": [
            {"type": "reasoning_text", "text": "Open weights."},
        ]},
        {"role": "user", "content": "And plums?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ]});
    let branch = import(&place, "r.json", &items);
    let log = place.ok(&["log", &branch]);
    assert!(log.contains("(reasoning) Open weights."), "{log}");
    assert!(log.contains("(reasoning, no text)") && !log.contains(" 0 tok"), "{log}");
    assert!(
        log.contains("(reasoning) Forty and one.") && log.contains("(reasoning, encrypted)"),
        "{log}"
    );
    let cat = place.ok(&["cat", &branch]);
    assert!(cat.contains("(reasoning) Forty and one.") && cat.contains("(reasoning, encrypted)"));
    let messages = place.json(&["cat", &branch, "--json"]);
    assert_eq!(messages[1]["reasoning"], "Forty and one.");
    assert_eq!(messages[3]["encrypted"], true);
    assert_eq!(messages[7]["reasoning"], "Open weights.");
    assert_eq!(messages[9].get("encrypted"), None);
    for message in messages.iter().filter(|message| message["kind"] == "reasoning") {
        assert_eq!(message["text"], message["reasoning"]);
    }
    // Newer models of Anthropic sign reasoning that they do not show.
    let hidden = json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Count."},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "", "signature": "c2ln"},
            {"type": "tool_use", "id": "t1", "name": "count", "input": {}},
        ]},
    ]});
    let branch = import(&place, "hidden.json", &hidden);
    for verb in ["cat", "show"] {
        let shown = place.ok(&[verb, &branch]);
        assert!(shown.contains("reasoning, encrypted"), "{shown}");
    }
    assert_eq!(place.json(&["cat", &branch, "--json"])[1]["encrypted"], true);
}

/// A conversation with a call, in Chat's form.
fn with_call(result: &str) -> Value {
    json!({"messages": [
        {"role": "user", "content": "Count."},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "count", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "count", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
        {"role": "tool", "tool_call_id": "c2", "content": "19"},
    ]})
}

#[test]
fn for_gemini_calls_are_signed_and_references_are_texts() {
    let place = Workspace::new();
    let schema = r##"{"properties":{"p":{"$ref":"#/$defs/a"}}}"##;
    let branch = import(&place, "one.json", &with_call(schema));
    let (body, output) = compiled(&place, &branch, "gemini-params");
    let parts = &body["contents"][1]["parts"];
    assert_eq!(parts[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[1].get("thoughtSignature"), None);
    let result = &body["contents"][2]["parts"][0]["functionResponse"]["response"];
    assert_eq!(*result, json!({"output": schema}));
    assert!(output.stderr.contains("$ref"), "{output:?}");
    // A result without a reference stays an object.
    let branch = import(&place, "two.json", &with_call(r#"{"trees":41,"note":"see $ref"}"#));
    let (body, _) = compiled(&place, &branch, "gemini-params");
    let result = &body["contents"][2]["parts"][0]["functionResponse"]["response"];
    assert_eq!(result["trees"], 41);
}

#[test]
fn a_picture_that_no_provider_accepts_is_a_text_for_each() {
    let place = Workspace::new();
    let picture = |url: &str| json!({"type": "input_image", "image_url": url});
    let items = json!({"model": "gpt-5", "input": [
        {"role": "user", "content": [
            {"type": "input_text", "text": "What is this?"}, picture("data:image;base64,iVBORw0KGgo="),
            picture("data:image/png;base64,iVBORw0KGgo="), picture("data:image/png;base64,Done\n iVBORw0KGgo="),
            picture("data:image/svg+xml;base64,PHN2Zy8+"),
        ]},
    ]});
    let branch = import(&place, "one.json", &items);
    for form in
        ["openai-params", "responses-params", "anthropic-params", "ollama-params", "gemini-params"]
    {
        let (body, output) = compiled(&place, &branch, form);
        let body = body.to_string();
        assert_eq!(body.matches("[image left out").count(), 3, "{form}: {body}");
        assert_eq!(body.matches("iVBORw0KGgo=").count(), 1, "{form}: {body}");
        assert_eq!(output.stderr.matches("an image is replaced").count(), 3, "{form}: {output:?}");
    }
}

#[test]
fn a_picture_goes_with_the_type_of_its_data() {
    let place = Workspace::new();
    for (n, source) in [
        json!({"type": "base64", "data": "iVBORw0KGgo="}),
        json!({"type": "base64", "media_type": "image/jpg", "data": "iVBORw0KGgo="}),
        json!({"type": "base64", "media_type": "image/bmp", "data": "AAAA"}),
        json!({"type": "url", "url": "file:///home/ada/a.png"}),
    ]
    .iter()
    .enumerate()
    {
        let image = json!({"type": "image", "source": source});
        let request = json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": [image]}]});
        let branch = import(&place, &format!("{n}.json"), &request);
        let (body, output) = compiled(&place, &branch, "anthropic-params");
        let part = &body["messages"][0]["content"][0];
        if n < 2 {
            assert_eq!(part["source"]["media_type"], "image/png", "{part}");
            assert!(output.stderr.contains("gets the media type of its data"), "{output:?}");
        } else {
            assert_eq!(part["type"], "text", "{part}");
            assert!(output.stderr.contains("an image is replaced"), "{output:?}");
        }
    }
}

#[test]
fn requests_that_anthropic_refuses_are_repaired() {
    let place = Workspace::new();
    let thinking = json!({"type": "thinking", "thinking": "Hm."});
    let request = json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "Hello."}]},
        {"role": "user", "content": "Hi"},
    ]});
    let branch = import(&place, "one.json", &request);
    let (body, output) = compiled(&place, &branch, "anthropic-params");
    assert_eq!(body["messages"][0]["role"], "user");
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "Hello."}]));
    for repair in ["begins with the assistant", "thinking without a signature"] {
        assert!(output.stderr.contains(repair), "{output:?}");
    }
    // Blank texts, redacted thinking without data, and an open schema of the answer.
    let open = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
    let request = json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": " "}, {"type": "redacted_thinking", "data": ""}, {"type": "text", "text": "Hello."}]},
        {"role": "user", "content": "Hi"},
    ], "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": open}}});
    let branch = import(&place, "blank.json", &request);
    let (body, output) = compiled(&place, &branch, "anthropic-params");
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "Hello."}]));
    let schema = &body["output_config"]["format"]["schema"];
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["a"]["additionalProperties"], false);
    assert_eq!(body["output_config"]["effort"], "low");
    for repair in ["a blank text", "redacted thinking without data", "output_config: every object"]
    {
        assert!(output.stderr.contains(repair), "{output:?}");
    }
    // Reasoning that nothing follows, and the content of another.
    let items = json!({"model": "gpt-5", "input": [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "x"}]},
        {"role": "assistant", "content": "Hello."},
        {"type": "reasoning", "summary": []},
        {"role": "user", "content": "Hi"},
    ]});
    let branch = import(&place, "two.json", &items);
    place.ok(&["annotate", "--help"]);
    let (body, _) = compiled(&place, &branch, "responses-params");
    assert!(!body.to_string().contains("reasoning_text"), "{body}");
    // Reasoning without the summary that requests need.
    let items = json!({"model": "gpt-5", "input": [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "encrypted_content": "abc"},
        {"role": "assistant", "content": "Hello."},
    ]});
    let branch = import(&place, "three.json", &items);
    let (body, output) = compiled(&place, &branch, "responses-params");
    assert_eq!(body["input"][1]["summary"], json!([]), "{body}");
    assert!(output.stderr.contains("empty summary"), "{output:?}");
}

#[test]
fn tools_without_parameters_get_what_providers_require() {
    let place = Workspace::new();
    let tools = json!([
        {"name": "none", "description": "d", "inputSchema": {}},
        {"name": "typeless", "description": "d", "inputSchema": {"properties": {"a": {"type": "string"}}}},
        {"name": "bare", "description": "d", "inputSchema": {"type": "object"}},
    ]);
    place.write("tools.json", tools.to_string());
    let lint = place.run(&["tools", "lint", "tools.json"]);
    assert_eq!(lint.stdout.matches("no_properties").count(), 2, "{lint:?}");
    assert!(lint.stdout.contains("missing_type"), "{lint:?}");
    for provider in ["openai", "responses", "anthropic", "gemini", "ollama"] {
        let shown = place.run(&["tools", "translate", "tools.json", "--to", provider]);
        assert_eq!(shown.stdout.matches("\"type\":\"object\"").count(), 3, "{provider}: {shown:?}");
        assert_eq!(shown.stdout.matches("\"properties\":").count(), 3, "{provider}: {shown:?}");
    }
}

/// Returns the tool of a body in any provider's shape.
fn only_tool(body: &Value) -> &Value {
    let tool = &body["tools"][0];
    let inner = [&tool["function"], &tool["functionDeclarations"][0]];
    inner.into_iter().find(|inner| !inner.is_null()).unwrap_or(tool)
}

fn parameters(tool: &Value) -> &Value {
    let names = ["parameters", "input_schema", "parametersJsonSchema"];
    names.iter().map(|name| &tool[name]).find(|found| !found.is_null()).unwrap_or(&Value::Null)
}

const PARAMS: [&str; 5] =
    ["openai-params", "responses-params", "anthropic-params", "gemini-params", "ollama-params"];

#[test]
fn tools_of_every_shape_are_sent_with_type_and_properties() {
    let schemas = [
        json!({}),
        json!({"type": "object"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        json!({"type": "object", "additionalProperties": false, "title": "Args"}),
        json!({"type": ["object", "null"]}),
        json!({"properties": {"a": {"type": "string"}}}),
        json!({"a": {"type": "string"}}),
        json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {}}}}),
    ];
    let shapes: [fn(&Value) -> Value; 6] = [
        |schema| json!({"type": "function", "function": {"name": "t", "parameters": schema}}),
        |schema| json!({"type": "function", "name": "t", "parameters": schema}),
        |schema| json!({"name": "t", "input_schema": schema}),
        |schema| json!({"name": "t", "parametersJsonSchema": schema}),
        |schema| json!({"name": "t", "inputSchema": schema}),
        |schema| json!({"name": "t", "parameters": schema}),
    ];
    let place = Workspace::new();
    for schema in &schemas {
        for shape in shapes {
            place.write("tools.json", json!([shape(schema)]).to_string());
            place.ok(&["commit", "user", "Hi", "--tools", "tools.json"]);
            let lint = place.run(&["tools", "lint", "tools.json"]);
            let codes = ["no_properties", "missing_type", "root_types", "bare_properties"];
            assert!(codes.iter().any(|code| lint.stdout.contains(code)), "{schema}: {lint:?}");
            for form in PARAMS {
                let (body, output) = compiled(&place, "main", form);
                let sent = parameters(only_tool(&body));
                assert_eq!(sent["type"], "object", "{form}: {body}");
                let states = sent["properties"].is_object() || sent["$ref"].is_string();
                assert!(states, "{form}: {body}");
                assert!(output.stderr.contains("tool \"t\": parameters: added"), "{output:?}");
            }
        }
    }
}

#[test]
fn legacy_functions_are_sent_with_type_and_properties() {
    let place = Workspace::new();
    let functions = json!([{"name": "a", "parameters": {}}, {"name": "b", "description": "B."}]);
    let request = json!({"model": "gpt-4", "max_tokens": 5, "functions": functions, "messages": [{"role": "user", "content": "Hi"}]});
    let branch = import(&place, "one.json", &request);
    let (body, output) = compiled(&place, &branch, "openai-params");
    let completed = json!({"type": "object", "properties": {}});
    assert_eq!(body["functions"], json!([{"name": "a", "parameters": completed}, functions[1]]));
    assert_eq!(output.stderr.matches("tool \"a\": parameters: added").count(), 1, "{output:?}");
}

#[test]
fn a_tool_that_asks_for_strict_mode_gets_a_schema_that_fits_it() {
    let place = Workspace::new();
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]});
    let map = json!({"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"], "additionalProperties": false});
    let fits = json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "title": "A"}}, "required": ["a"], "additionalProperties": false});
    for (name, schema, strict, found) in [
        ("open", &open, true, "is optional"),
        ("map", &map, false, "/properties/a/additionalProperties"),
        ("fits", &fits, true, ""),
    ] {
        let tool = json!({"type": "function", "function": {"name": "t", "description": "d", "strict": true, "parameters": schema}});
        place.write("tools.json", json!([tool]).to_string());
        place.ok(&["commit", "user", "Hi", "--tools", "tools.json"]);
        let lint = place.run(&["tools", "lint", "tools.json"]);
        assert_eq!(lint.stdout.contains("not_strict"), !found.is_empty(), "{lint:?}");
        assert!(lint.stdout.contains(found), "{lint:?}");
        for form in ["openai-params", "responses-params", "anthropic-params"] {
            let (body, output) = compiled(&place, "main", form);
            let sent = only_tool(&body);
            assert_eq!(sent["strict"], strict, "{form}: {body}");
            if name == "fits" {
                assert_eq!(parameters(sent), schema, "{form}");
                continue;
            }
            assert!(output.stderr.contains("strict"), "{output:?}");
            if strict {
                assert_eq!(parameters(sent)["additionalProperties"], false, "{form}: {body}");
                let all = form == "anthropic-params" || parameters(sent)["required"][1] == "b";
                assert!(all, "{form}: {body}");
            }
        }
    }
}

/// Inputs that were made after public reports of lost data and of requests that were rejected.
#[test]
fn reported_requests_are_read_and_accepted() {
    if tract_testkit::data::full("reports").is_none() {
        return;
    }
    let file = |name: &str| data(&format!("reports/{name}"));
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(file(name)).expect("it is read"))
            .expect("JSON")
    };
    let place = Workspace::new();
    for (name, form) in [
        ("an", "anthropic-params"),
        ("oa", "openai-params"),
        ("re", "responses-params"),
        ("fn", "openai-params"),
    ] {
        let name = format!("files/{name}.json");
        let lines = place.json(&["import", "--json", text(&file(&name))]);
        let branch = lines[0]["branch"].as_str().expect("a branch");
        assert_eq!(compiled(&place, branch, form).0, read(&name), "{name}");
    }
    for (name, says) in [("lite", "Yes, since nine."), ("rr", "Yes, it rained.")] {
        let place = Workspace::new();
        let lines = place.json(&["import", "--json", text(&file(&format!("files/{name}.json")))]);
        let branch = lines[0]["branch"].as_str().expect("a branch");
        assert!(place.ok(&["cat", branch]).contains(says));
        let usage = place.json(&["usage", "--json"]);
        let total = &usage.last().expect("a total")["total"];
        assert_eq!(total["tokens"]["output"], 5, "{name}");
    }
    let place = Workspace::new();
    place.ok(&["import", text(&file("files/quay.traj"))]);
    let usage = place.json(&["usage", "--json"]);
    assert_eq!(usage[0]["name"], "gpt-4o");
    assert_eq!(
        (&usage[0]["tokens"]["input"], &usage[0]["tokens"]["output"]),
        (&json!(1000), &json!(50))
    );
    for order in [["a", "b"], ["b", "a"]] {
        let place = Workspace::new();
        let files = order.map(|name| file(&format!("files/inspect-one-run/{name}.eval")));
        let files: Vec<&str> = files.iter().map(|path| text(path)).collect();
        let lines = place.json(&[&["import", "--json"], &files[..]].concat());
        let summary = &lines.last().expect("a summary")["summary"];
        assert_eq!(summary["branches"], json!({"created": 2}));
        assert!(place.ok(&["branch"]).contains("inspect/E1.1_epoch_1"));
    }
    let place = Workspace::new();
    place.ok(&["import", "codex", text(&file("codex-bad-image"))]);
    let branches = place.json(&["branch", "--json"]);
    let branch = branches[0]["branch"].as_str().expect("a branch");
    for form in
        ["openai-params", "responses-params", "anthropic-params", "ollama-params", "gemini-params"]
    {
        let body = compiled(&place, branch, form).0.to_string();
        assert_eq!(body.matches("[image left out").count(), 2, "{form}: {body}");
    }
    let lines = place.json(&["import", "--json", text(&file("schema-in-result/conv.json"))]);
    let branch = lines[0]["branch"].as_str().expect("a branch");
    let (body, _) = compiled(&place, branch, "gemini-params");
    assert!(!body["contents"].to_string().contains("\"$ref\":"), "{body}");
    let lines = place.json(&["import", "--json", text(&file("gemini3-signatures/conv.json"))]);
    let branch = lines[0]["branch"].as_str().expect("a branch");
    let (body, _) = compiled(&place, branch, "gemini-params");
    let signature = &body["contents"][1]["parts"][0]["thoughtSignature"];
    assert_eq!(signature, "skip_thought_signature_validator");
}

#[test]
fn an_answer_goes_back_without_the_members_that_requests_do_not_have() {
    let place = Workspace::new();
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}});
    let mut streamed = call.clone();
    streamed["index"] = json!(0);
    let question = json!({"role": "user", "content": "High water?"});
    let exchange = |message: &Value| {
        json!({
            "request": {"model": "gpt-4o", "messages": [question]},
            "response": {
                "id": "r1", "model": "gpt-4o",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            },
        })
    };
    let answers = [
        (
            json!({"role": "assistant", "content": "At 6.", "refusal": null, "annotations": []}),
            json!({"role": "assistant", "content": "At 6.", "refusal": null}),
        ),
        (
            json!({"role": "assistant", "content": "At 6.", "tool_calls": null, "reasoning": "Spring."}),
            json!({"role": "assistant", "content": "At 6.", "reasoning": "Spring."}),
        ),
        (
            json!({"role": "assistant", "content": null, "tool_calls": [streamed]}),
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        ),
        (
            json!({"role": "assistant", "content": null,
                   "audio": {"id": "au", "data": "AAAA", "expires_at": 1, "transcript": "At 6."}}),
            json!({"role": "assistant", "content": null, "audio": {"id": "au"}}),
        ),
    ];
    for (n, (received, sent)) in answers.iter().enumerate() {
        let branch = import(&place, &format!("exchange-{n}.json"), &exchange(received));
        let (body, _) = compiled(&place, &branch, "openai-params");
        assert_eq!(body["messages"][1], *sent);
        // A recorded request is sent as its client sent it.
        let request = json!({"model": "gpt-4o", "messages": [question, received, question]});
        let branch = import(&place, &format!("request-{n}.json"), &request);
        let (body, _) = compiled(&place, &branch, "openai-params");
        assert_eq!(body["messages"][1], *received);
    }
}

#[test]
fn built_in_tools_without_names_all_go_back() {
    let gemini = json!({
        "contents": [{"role": "user", "parts": [{"text": "When is high water?"}]}],
        "tools": [
            {"googleSearch": {}},
            {"functionDeclarations": [{"name": "tide", "description": "Reads the gauge."}]},
            {"codeExecution": {}},
            {"urlContext": {}},
        ],
    });
    let anthropic = json!({
        "model": "claude-opus-4-7", "max_tokens": 5,
        "messages": [{"role": "user", "content": "When is high water?"}],
        "mcp_servers": [
            {"type": "url", "url": "https://a.example", "name": "a"},
            {"type": "url", "url": "https://b.example", "name": "b"},
        ],
        "tools": [
            {"type": "mcp_toolset", "mcp_server_name": "a"},
            {"type": "mcp_toolset", "mcp_server_name": "b"},
        ],
    });
    for (form, body) in [("gemini-params", gemini), ("anthropic-params", anthropic)] {
        let place = Workspace::new();
        let branch = import(&place, "request.json", &body);
        let (sent, ran) = compiled(&place, &branch, form);
        assert_eq!(sent["tools"], body["tools"], "{ran:?}");
        assert!(!ran.stderr.contains("left out"), "{ran:?}");
    }
}

#[test]
fn a_drawing_at_an_address_is_a_text() {
    for (url, is_sent) in [
        ("https://pictures.example/chart.svg", false),
        ("https://pictures.example/chart.SVG?width=3", false),
        ("https://pictures.example/chart.svg.png", true),
        ("https://pictures.example/draw?name=chart.svg", true),
    ] {
        let place = Workspace::new();
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        let body = json!({"model": "gpt-5", "messages": [{"role": "user", "content": [image]}]});
        let branch = import(&place, "request.json", &body);
        for form in ["openai-params", "anthropic-params"] {
            let (sent, ran) = compiled(&place, &branch, form);
            let types = sent.to_string();
            assert_eq!(types.contains("\"image"), is_sent, "{url}: {ran:?}");
        }
    }
}

#[test]
fn an_emoji_split_over_the_pieces_of_a_recorded_stream_is_joined() {
    let place = Workspace::new();
    let line = concat!(
        r#"{"request":{"model":"m","messages":[{"role":"user","content":"Hi"}]},"response":["#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"At sea \ud83c"}}]},"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"content":"\udf0a now"}}]},"#,
        r#"{"id":"c","choices":[{"index":0,"delta":{"content":" \ud83c."},"finish_reason":"stop"}]}]}"#,
    );
    place.write("line.jsonl", format!("{line}\n"));
    let ran = place.run(&["import", "--anomalies", "line.jsonl"]).expect(0);
    assert!(ran.stdout.contains("1 anomaly"), "{ran:?}");
    assert_eq!(place.json(&["--json", "cat", "line-1"])[1]["text"], "At sea 🌊 now \u{fffd}.");
}

#[test]
fn an_answer_in_another_form_than_its_request_is_read() {
    let request = json!({
        "model": "claude-opus-4-7", "max_tokens": 5,
        "messages": [{"role": "user", "content": "When is high water?"}],
    });
    let message = json!({"role": "assistant", "content": "At nine."});
    let answer = json!({
        "id": "c", "object": "chat.completion", "model": "claude-opus-4-7",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    });
    let place = Workspace::new();
    let line = json!({"provider": "anthropic", "request": request, "response": answer});
    let branch = import(&place, "line.json", &line);
    assert_eq!(place.json(&["--json", "cat", &branch])[1]["text"], "At nine.");
    let usage = place.json(&["usage", "--json"]);
    assert_eq!(usage.last().expect("a total")["total"]["tokens"]["output"], 2);
    let (sent, _) = compiled(&place, &branch, "anthropic-params");
    assert_eq!(sent["messages"][1]["content"][0]["text"], "At nine.");
    let (sent, _) = compiled(&place, &format!("{branch}~1"), "anthropic-params");
    assert_eq!(sent, request);
}
