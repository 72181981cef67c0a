//! What providers refuse, written down apart from the compiler: each function reads a request body
//! and lists every rule that it breaks.

use std::collections::BTreeSet;

use crate::Dialect;
use serde_json::Value;

fn name_is_plain(name: &str, most: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= most && name.chars().all(plain)
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

/// What a body of a dialect breaks.
pub(crate) fn broken(dialect: Dialect, body: &Value) -> Vec<String> {
    match dialect {
        Dialect::Anthropic => anthropic(body),
        Dialect::OpenAi => openai(body),
        Dialect::Responses => responses(body),
        Dialect::Ollama => ollama(body),
        // The rules of others are not written down apart from the compiler.
        _ => Vec::new(),
    }
}

/// Anthropic Messages.
pub(crate) fn anthropic(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    match &body["system"] {
        Value::Null => {}
        Value::String(text) if !text.is_empty() => {}
        Value::Array(blocks) if !blocks.is_empty() => {
            for block in blocks {
                if string(block, "type") != "text" || string(block, "text").is_empty() {
                    broken.push(format!("system block {block}"));
                }
            }
        }
        other => broken.push(format!("system is {other}")),
    }
    let mut ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let messages = list(&body["messages"]);
    if messages.is_empty() {
        broken.push("no messages".to_owned());
    }
    for (n, message) in messages.iter().enumerate() {
        let role = string(message, "role");
        if !matches!(role, "user" | "assistant") {
            broken.push(format!("messages[{n}]: role {role:?}"));
        }
        let blocks: Vec<Value> = match &message["content"] {
            Value::String(text) if !text.is_empty() => {
                vec![serde_json::json!({"type": "text", "text": text})]
            }
            Value::Array(blocks) if !blocks.is_empty() => blocks.clone(),
            other => {
                broken.push(format!("messages[{n}]: content is {other}"));
                Vec::new()
            }
        };
        let mut answered = BTreeSet::new();
        let mut other_seen = false;
        let mut called = BTreeSet::new();
        for block in &blocks {
            match string(block, "type") {
                "text" if string(block, "text").trim().is_empty() => {
                    broken.push(format!("messages[{n}]: empty text block"));
                }
                "text" if !called.is_empty() => {
                    broken.push(format!("messages[{n}]: text after tool_use"));
                }
                "text" => other_seen = true,
                "tool_use" => {
                    let id = string(block, "id");
                    if role != "assistant" {
                        broken.push(format!("messages[{n}]: tool_use by {role}"));
                    }
                    if !name_is_plain(id, 256) {
                        broken.push(format!("messages[{n}]: call id {id:?}"));
                    }
                    if !name_is_plain(string(block, "name"), 128) {
                        broken.push(format!("messages[{n}]: name {:?}", string(block, "name")));
                    }
                    if !block["input"].is_object() {
                        broken.push(format!("messages[{n}]: input is {}", block["input"]));
                    }
                    if !ids.insert(id.to_owned()) {
                        broken.push(format!("messages[{n}]: call id {id:?} again"));
                    }
                    called.insert(id.to_owned());
                }
                "tool_result" => {
                    let id = string(block, "tool_use_id");
                    if role != "user" {
                        broken.push(format!("messages[{n}]: tool_result by {role}"));
                    }
                    if other_seen {
                        broken.push(format!("messages[{n}]: tool_result after other blocks"));
                    }
                    if !open.contains(id) {
                        broken.push(format!("messages[{n}]: unexpected tool_result {id:?}"));
                    }
                    if !answered.insert(id.to_owned()) {
                        broken.push(format!("messages[{n}]: second tool_result {id:?}"));
                    }
                }
                _ => other_seen = true,
            }
        }
        for id in open.difference(&answered) {
            broken.push(format!("messages[{n}]: tool_use {id:?} without tool_result before it"));
        }
        open = called;
    }
    for id in &open {
        broken.push(format!("the end: tool_use {id:?} without tool_result"));
    }
    if messages.last().is_some_and(|last| string(last, "role") == "assistant") {
        broken.push("the end: an assistant message".to_owned());
    }
    tools(list(&body["tools"]), |tool| string(tool, "name").to_owned(), 128, &mut broken);
    for tool in list(&body["tools"]) {
        let typed = tool.get("type").is_some_and(|kind| kind != "custom");
        if !typed && tool["input_schema"]["type"] != "object" {
            broken.push(format!("tool {:?}: input_schema is no object", string(tool, "name")));
        }
        if tool.get("function").is_some() || tool.get("parameters").is_some() {
            broken.push(format!("tool {:?} is in another provider's shape", string(tool, "name")));
        }
    }
    broken
}

fn tools(tools: &[Value], name: impl Fn(&Value) -> String, most: usize, broken: &mut Vec<String>) {
    for tool in tools {
        let name = name(tool);
        if !name_is_plain(&name, most) {
            broken.push(format!("tool name {name:?}"));
        }
    }
}

/// OpenAI Chat Completions.
pub(crate) fn openai(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (n, message) in list(&body["messages"]).iter().enumerate() {
        let role = string(message, "role");
        if role == "tool" {
            let id = string(message, "tool_call_id");
            if !open.remove(id) {
                broken.push(format!("messages[{n}]: tool message {id:?} answers no open call"));
            }
            if !(message["content"].is_string() || message["content"].is_array()) {
                broken.push(format!("messages[{n}]: content is {}", message["content"]));
            }
            continue;
        }
        for id in &open {
            broken.push(format!("messages[{n}]: tool_call {id:?} without a tool message"));
        }
        open.clear();
        match role {
            "system" | "developer" | "user" => {
                let empty = match &message["content"] {
                    Value::String(_) => false,
                    Value::Array(parts) => parts.is_empty(),
                    _ => true,
                };
                if empty {
                    broken.push(format!("messages[{n}]: content is {}", message["content"]));
                }
            }
            "assistant" => {
                let calls = list(&message["tool_calls"]);
                if calls.is_empty()
                    && message.get("tool_calls").is_some_and(|calls| !calls.is_null())
                {
                    broken.push(format!("messages[{n}]: tool_calls is empty"));
                }
                if calls.is_empty() && message["content"].is_null() && message["refusal"].is_null()
                {
                    broken.push(format!("messages[{n}]: neither content nor tool_calls"));
                }
                for call in calls {
                    let id = string(call, "id");
                    let function = &call["function"];
                    if !function["arguments"].is_string() {
                        broken.push(format!("messages[{n}]: arguments are no string"));
                    }
                    if !name_is_plain(string(function, "name"), 64) {
                        broken.push(format!("messages[{n}]: name {:?}", string(function, "name")));
                    }
                    if id.is_empty() || !ids.insert(id.to_owned()) {
                        broken.push(format!("messages[{n}]: call id {id:?} again"));
                    }
                    open.insert(id.to_owned());
                }
            }
            other => broken.push(format!("messages[{n}]: role {other:?}")),
        }
        for part in list(&message["content"]) {
            let known = ["text", "image_url", "file", "input_audio", "refusal"];
            if !known.contains(&string(part, "type")) {
                broken.push(format!("messages[{n}]: part {:?}", string(part, "type")));
            }
        }
    }
    for id in &open {
        broken.push(format!("the end: tool_call {id:?} without a tool message"));
    }
    let name = |tool: &Value| string(&tool["function"], "name").to_owned();
    tools(list(&body["tools"]), name, 64, &mut broken);
    broken
}

/// OpenAI Responses.
pub(crate) fn responses(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut ids = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    for (n, item) in list(&body["input"]).iter().enumerate() {
        let kind = string(item, "type");
        let call_id = string(item, "call_id");
        match kind {
            "function_call" => {
                if !ids.insert(call_id.to_owned()) {
                    broken.push(format!("input[{n}]: call_id {call_id:?} again"));
                }
                if !item["arguments"].is_string() {
                    broken.push(format!("input[{n}]: arguments are no string"));
                }
                if item.get("id").is_some() && !string(item, "id").starts_with("fc_") {
                    broken.push(format!("input[{n}]: id {:?}", string(item, "id")));
                }
                open.push(call_id.to_owned());
            }
            "function_call_output" => match open.iter().position(|id| id == call_id) {
                Some(at) => drop(open.remove(at)),
                None => broken.push(format!("input[{n}]: output {call_id:?} without its call")),
            },
            "reasoning" => {}
            _ if !open.is_empty() => {
                broken.push(format!("input[{n}]: {kind:?} before the outputs of {open:?}"));
            }
            _ => {}
        }
    }
    if !open.is_empty() {
        broken.push(format!("the end: no output for {open:?}"));
    }
    for tool in list(&body["tools"]) {
        if string(tool, "type") == "function" && !tool["strict"].is_boolean() {
            broken.push(format!("tool {:?}: strict is not said", string(tool, "name")));
        }
    }
    broken
}

/// Ollama's native chat.
pub(crate) fn ollama(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut open = 0usize;
    for (n, message) in list(&body["messages"]).iter().enumerate() {
        let role = string(message, "role");
        if role == "tool" {
            if open == 0 {
                broken.push(format!("messages[{n}]: a tool message without a call"));
            }
            open = open.saturating_sub(1);
            continue;
        }
        if open > 0 {
            broken.push(format!("messages[{n}]: {open} calls without an answer before it"));
        }
        open = 0;
        if !matches!(role, "system" | "user" | "assistant") {
            broken.push(format!("messages[{n}]: role {role:?}"));
        }
        if !message["content"].is_string() {
            broken.push(format!("messages[{n}]: content is {}", message["content"]));
        }
        for call in list(&message["tool_calls"]) {
            if !call["function"]["arguments"].is_object() {
                broken.push(format!("messages[{n}]: arguments are no object"));
            }
            open += 1;
        }
    }
    if open > 0 {
        broken.push(format!("the end: {open} calls without an answer"));
    }
    broken
}

/// Each rule is seen to be broken by something: a check that cannot fail checks nothing.
mod seen_to_fail {
    use serde_json::{Value, json};

    #[track_caller]
    fn breaks(found: Vec<String>, wanted: &str) {
        assert!(found.iter().any(|rule| rule.contains(wanted)), "{wanted:?} not in {found:?}");
    }

    fn body(messages: Value) -> Value {
        json!({ "messages": messages })
    }

    #[test]
    fn anthropic_rules_fail() {
        let call = json!({"type": "tool_use", "id": "c1", "name": "f", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "c1", "content": "x"});
        let text = json!({"type": "text", "text": "hi"});
        let assistant = |blocks: Value| json!({"role": "assistant", "content": blocks});
        let user = |blocks: Value| json!({"role": "user", "content": blocks});
        let check = |messages: Value| super::anthropic(&body(messages));
        breaks(check(json!([assistant(json!([call]))])), "without tool_result");
        breaks(
            check(json!([assistant(json!([call])), user(json!([text]))])),
            "without tool_result before it",
        );
        breaks(check(json!([user(json!([result]))])), "unexpected tool_result");
        breaks(
            check(json!([assistant(json!([call])), user(json!([text, result]))])),
            "after other blocks",
        );
        breaks(
            check(json!([assistant(json!([call, text])), user(json!([result]))])),
            "text after tool_use",
        );
        breaks(
            check(json!([assistant(json!([call])), user(json!([result, result]))])),
            "second tool_result",
        );
        breaks(check(json!([user(json!([{"type": "text", "text": ""}]))])), "empty text");
        breaks(check(json!([user(json!([]))])), "content is");
        breaks(check(json!([{"role": "tool", "content": "x"}])), "role");
        breaks(check(json!([assistant(json!([text]))])), "an assistant message");
        let twice = json!([
            assistant(json!([call])),
            user(json!([result])),
            assistant(json!([call])),
            user(json!([result]))
        ]);
        breaks(check(twice), "again");
        let odd = json!({"type": "tool_use", "id": "c:1", "name": "a.b", "input": "text"});
        breaks(check(json!([assistant(json!([odd]))])), "call id");
        breaks(check(json!([assistant(json!([odd]))])), "name");
        breaks(check(json!([assistant(json!([odd]))])), "input is");
        let tools = json!({"messages": [user(json!([text]))], "tools": [{"type": "function", "function": {"name": "f"}}]});
        breaks(super::anthropic(&tools), "another provider's shape");
        let tools = json!({"messages": [user(json!([text]))], "tools": [{"name": "f", "input_schema": {}}]});
        breaks(super::anthropic(&tools), "input_schema");
        breaks(super::anthropic(&json!({"system": "", "messages": []})), "system is");
    }

    #[test]
    fn openai_rules_fail() {
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let assistant = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let tool = json!({"role": "tool", "tool_call_id": "c1", "content": "x"});
        let user = json!({"role": "user", "content": "x"});
        let check = |messages: Value| super::openai(&body(messages));
        assert_eq!(check(json!([user, assistant, tool])), Vec::<String>::new());
        breaks(check(json!([assistant])), "without a tool message");
        breaks(check(json!([assistant, user, tool])), "answers no open call");
        breaks(check(json!([assistant, tool, tool])), "answers no open call");
        breaks(check(json!([assistant, tool, assistant, tool])), "again");
        breaks(check(json!([{"role": "assistant", "content": null}])), "neither");
        breaks(check(json!([{"role": "user", "content": null}])), "content is");
        breaks(check(json!([{"role": "poet", "content": "x"}])), "role");
        breaks(check(json!([{"role": "user", "content": [{"type": "tool_use"}]}])), "part");
    }

    #[test]
    fn responses_and_ollama_rules_fail() {
        let call =
            json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"});
        let output = json!({"type": "function_call_output", "call_id": "c1", "output": "x"});
        let check = |items: Value| super::responses(&json!({ "input": items }));
        assert_eq!(check(json!([call, output])), Vec::<String>::new());
        breaks(check(json!([call])), "no output");
        breaks(check(json!([output])), "without its call");
        breaks(check(json!([call, output, call, output])), "again");
        breaks(check(json!([call, {"role": "user", "content": "x"}])), "before the outputs");
        breaks(super::responses(&json!({"tools": [{"type": "function", "name": "f"}]})), "strict");
        let call = json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]});
        breaks(super::ollama(&body(json!([call]))), "no object");
        breaks(super::ollama(&body(json!([call]))), "without an answer");
        breaks(super::ollama(&body(json!([{"role": "tool", "content": "x"}]))), "without a call");
    }
}
