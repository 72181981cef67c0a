//! The official SDKs behind `tract record`: they get what the server sent, and it is recorded.

use std::process::Command;

use serde_json::{Value, json};
use tract_testkit::loopback::{HttpAnswer, HttpRequest, Loopback};

use crate::support::{RunOutput, Workspace, each, needs};

const FINAL: &str = "It is 3.2 m high.";

/// A server that speaks the APIs: a call of a tool first, and streamed text once its result is
/// there.
fn server() -> Loopback {
    Loopback::start(answer).expect("a port")
}

fn answer(request: &HttpRequest) -> HttpAnswer {
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let streamed = body["stream"] == true;
    let path = request.path.split('?').next().unwrap_or_default();
    match (path, streamed) {
        ("/v1/messages", false) => whole(&json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"place": "harbor"}}],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 9, "output_tokens": 5},
        })),
        ("/v1/messages", true) => messages_stream(),
        ("/v1/chat/completions", false) => whole(&json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-test",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": null, "tool_calls": [{
                    "id": "call_1", "type": "function",
                    "function": {"name": "tide", "arguments": r#"{"place":"harbor"}"#},
                }],
            }}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
        })),
        ("/v1/chat/completions", true) => chat_stream(),
        ("/v1/responses", false) => whole(&response(
            "completed",
            &json!([{
                "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "tide",
                "arguments": r#"{"place":"harbor"}"#, "status": "completed",
            }]),
        )),
        ("/v1/responses", true) => responses_stream(),
        ("/api/chat", false) => whole(&json!({
            "model": "local-test", "created_at": "2026-03-14T09:00:00Z", "done": true,
            "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 5,
            "message": {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "tide", "arguments": {"place": "harbor"}}},
            ]},
        })),
        ("/api/chat", true) => {
            let part = |content: &str, done: bool| {
                let mut part = json!({
                    "model": "local-test", "created_at": "2026-03-14T09:00:00Z", "done": done,
                    "message": {"role": "assistant", "content": content},
                });
                if done {
                    part["done_reason"] = "stop".into();
                    part["prompt_eval_count"] = 20.into();
                    part["eval_count"] = 8.into();
                }
                format!("{part}\n")
            };
            let body = [part("It is ", false), part("3.2 m high.", false), part("", true)];
            let cut = body[0].len();
            HttpAnswer::new(200, "application/x-ndjson", body.concat()).cut(&[cut])
        }
        _ => HttpAnswer::new(404, "application/json", r#"{"error":{"message":"no such path"}}"#),
    }
}

fn whole(body: &Value) -> HttpAnswer {
    HttpAnswer::new(200, "application/json", body.to_string())
}

/// Events, each sent by itself.
fn events(events: &[Value], named: bool, end: &str) -> HttpAnswer {
    let mut body = String::new();
    let mut positions = Vec::new();
    for event in events {
        if named {
            body.push_str(&format!("event: {}\n", event["type"].as_str().unwrap_or_default()));
        }
        body.push_str(&format!("data: {event}\n\n"));
        positions.push(body.len());
    }
    body.push_str(end);
    HttpAnswer::new(200, "text/event-stream", body).cut(&positions)
}

fn messages_stream() -> HttpAnswer {
    let delta = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let list = [
        json!({"type": "message_start", "message": {
            "id": "msg_2", "type": "message", "role": "assistant", "model": "claude-test",
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 20, "output_tokens": 1},
        }}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        delta("It is "),
        delta("3.2 m high."),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
               "usage": {"output_tokens": 8}}),
        json!({"type": "message_stop"}),
    ];
    events(&list, true, "")
}

fn chat_stream() -> HttpAnswer {
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    };
    let list = [
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(json!({"content": "It is "}), Value::Null),
        chunk(json!({"content": "3.2 m high."}), Value::Null),
        chunk(json!({}), "stop".into()),
    ];
    events(&list, false, "data: [DONE]\n\n")
}

fn response(status: &str, output: &Value) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": status,
        "model": "gpt-test", "output": output, "parallel_tool_calls": true, "tool_choice": "auto",
        "tools": [], "error": null, "incomplete_details": null, "instructions": null,
        "metadata": {}, "temperature": 1.0, "top_p": 1.0,
        "usage": {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 0},
                  "output_tokens": 8, "output_tokens_details": {"reasoning_tokens": 0},
                  "total_tokens": 28},
    })
}

fn responses_stream() -> HttpAnswer {
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let message = |status: &str, content: Value| json!({"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content});
    let place = |mut event: Value| {
        event["item_id"] = "msg_1".into();
        event["output_index"] = 0.into();
        event["content_index"] = 0.into();
        event
    };
    let delta = |text: &str| {
        place(json!({"type": "response.output_text.delta", "delta": text, "logprobs": []}))
    };
    let done = message("completed", json!([part(FINAL)]));
    let mut list = vec![
        json!({"type": "response.created", "response": response("in_progress", &json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0,
               "item": message("in_progress", json!([]))}),
        place(json!({"type": "response.content_part.added", "part": part("")})),
        delta("It is "),
        delta("3.2 m high."),
        place(json!({"type": "response.output_text.done", "text": FINAL, "logprobs": []})),
        place(json!({"type": "response.content_part.done", "part": part(FINAL)})),
        json!({"type": "response.output_item.done", "output_index": 0, "item": done}),
        json!({"type": "response.completed", "response": response("completed", &json!([done]))}),
    ];
    for (number, event) in list.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events(&list, true, "")
}

/// Runs a program with the SDKs behind the proxy, and looks at what was recorded.
fn recorded(client: &[&str], sdks: Option<&str>, questions: &[&str]) {
    let (place, server) = (Workspace::new(), server());
    let mut command = place.command(&[&["record", "--"], client].concat());
    command.env("ANTHROPIC_BASE_URL", server.url(""));
    command.env("OPENAI_BASE_URL", server.url("/v1"));
    command.env("OLLAMA_HOST", server.url(""));
    command.envs(sdks.map(|folder| ("SDKS", folder)));
    // Proxies of the machine are not for loopback.
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let ran = RunOutput::after(&mut command).expect(0);
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), questions);
    let exchanges = 2 * questions.len();
    let stderr = format!("recorded {exchanges} of {exchanges} exchanges");
    assert!(ran.stderr.contains(&stderr), "{ran:?}");
    assert_eq!(server.take_requests().len(), exchanges);
    let branches = place.json(&["--json", "branch"]);
    let mut names = each(&branches, "branch");
    names.retain(|name| name.starts_with("record/"));
    assert_eq!(names.len(), questions.len(), "{names:?}");
    for name in names {
        let messages = place.json(&["--json", "cat", name]);
        let roles = each(&messages, "role");
        assert_eq!(roles, ["user", "assistant", "tool", "assistant"], "{name}");
        assert_eq!(messages[1]["calls"][0]["name"], "tide");
        assert_eq!(messages[2]["text"], "3.2 m");
        assert_eq!(messages[3]["text"], FINAL);
        assert_eq!(place.json(&["--json", "tools", "of", name]).len(), 1, "{name}");
    }
    let store = std::fs::read(place.store()).expect("it is there");
    let has_key = store.windows(15).any(|window| window == b"key-of-the-test");
    assert!(!has_key, "the key is in the store");
    place.is_clean();
}

#[test]
fn the_official_python_clients_are_recorded_whole_and_streamed() {
    let missing = "the official SDKs; TRACT_VENDORS names a Python that has them";
    let Some(python) = needs("TRACT_VENDORS", missing) else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/sdk/clients.py");
    let questions = ["ask_anthropic", "ask_chat", "ask_responses", "ask_ollama"];
    recorded(&[&python, script], None, &questions);
}

#[test]
fn the_official_node_clients_are_recorded_whole_and_streamed() {
    let missing = "the official SDKs; TRACT_NODE_SDKS names the folder that has them";
    let Some(modules) = needs("TRACT_NODE_SDKS", missing) else { return };
    assert!(Command::new("node").arg("--version").output().is_ok(), "node is missing");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/sdk/clients.mjs");
    let questions = ["askAnthropic", "askChat", "askResponses"];
    recorded(&["node", script], Some(&modules), &questions);
}
