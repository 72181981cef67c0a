//! What providers refuse, written down apart from the compiler: each function reads a request body
//! and lists every rule that it breaks.

use std::collections::BTreeSet;
use std::fmt::Arguments;

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

/// Notes rules of one entry of a list, each where it is broken.
fn noting<'a>(
    broken: &'a mut Vec<String>,
    list: &'a str,
    n: usize,
) -> impl FnMut(bool, Arguments<'_>) + 'a {
    move |is_broken, rule| {
        if is_broken {
            broken.push(format!("{list}[{n}]: {rule}"));
        }
    }
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
        let mut rule = noting(&mut broken, "messages", n);
        let role = string(message, "role");
        rule(!matches!(role, "user" | "assistant"), format_args!("role {role:?}"));
        let blocks: Vec<Value> = match &message["content"] {
            Value::String(text) if !text.is_empty() => {
                vec![serde_json::json!({"type": "text", "text": text})]
            }
            Value::Array(blocks) if !blocks.is_empty() => blocks.clone(),
            other => {
                rule(true, format_args!("content is {other}"));
                Vec::new()
            }
        };
        let mut answered = BTreeSet::new();
        let mut other_seen = false;
        let mut called = BTreeSet::new();
        for block in &blocks {
            match string(block, "type") {
                "text" if string(block, "text").trim().is_empty() => {
                    rule(true, format_args!("empty text block"));
                }
                "text" if !called.is_empty() => rule(true, format_args!("text after tool_use")),
                "tool_use" => {
                    let (id, name) = (string(block, "id"), string(block, "name"));
                    rule(role != "assistant", format_args!("tool_use by {role}"));
                    rule(!name_is_plain(id, 256), format_args!("call id {id:?}"));
                    rule(!name_is_plain(name, 128), format_args!("name {name:?}"));
                    rule(!block["input"].is_object(), format_args!("input is {}", block["input"]));
                    rule(!ids.insert(id.to_owned()), format_args!("call id {id:?} again"));
                    called.insert(id.to_owned());
                }
                "tool_result" => {
                    let id = string(block, "tool_use_id");
                    rule(role != "user", format_args!("tool_result by {role}"));
                    rule(other_seen, format_args!("tool_result after other blocks"));
                    rule(!open.contains(id), format_args!("unexpected tool_result {id:?}"));
                    let again = !answered.insert(id.to_owned());
                    rule(again, format_args!("second tool_result {id:?}"));
                }
                _ => other_seen = true,
            }
        }
        for id in open.difference(&answered) {
            rule(true, format_args!("tool_use {id:?} without tool_result before it"));
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
        let mut rule = noting(&mut broken, "messages", n);
        let (role, content) = (string(message, "role"), &message["content"]);
        let is_listed = content.is_string() || content.is_array();
        if role == "tool" {
            let id = string(message, "tool_call_id");
            rule(!open.remove(id), format_args!("tool message {id:?} answers no open call"));
            rule(!is_listed, format_args!("content is {content}"));
            continue;
        }
        for id in &open {
            rule(true, format_args!("tool_call {id:?} without a tool message"));
        }
        open.clear();
        match role {
            "system" | "developer" | "user" => {
                let empty = content.as_array().is_some_and(Vec::is_empty);
                rule(empty || !is_listed, format_args!("content is {content}"));
            }
            "assistant" => {
                let calls = list(&message["tool_calls"]);
                let lists_none = calls.is_empty() && !message["tool_calls"].is_null();
                rule(lists_none, format_args!("tool_calls is empty"));
                let nothing = content.is_null() && message["refusal"].is_null();
                rule(calls.is_empty() && nothing, format_args!("neither content nor tool_calls"));
                for call in calls {
                    let (id, function) = (string(call, "id"), &call["function"]);
                    let name = string(function, "name");
                    let is_text = function["arguments"].is_string();
                    rule(!is_text, format_args!("arguments are no string"));
                    rule(!name_is_plain(name, 64), format_args!("name {name:?}"));
                    let again = id.is_empty() || !ids.insert(id.to_owned());
                    rule(again, format_args!("call id {id:?} again"));
                    open.insert(id.to_owned());
                }
            }
            other => rule(true, format_args!("role {other:?}")),
        }
        for kind in list(content).iter().map(|part| string(part, "type")) {
            let known = ["text", "image_url", "file", "input_audio", "refusal"];
            rule(!known.contains(&kind), format_args!("part {kind:?}"));
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
        let mut rule = noting(&mut broken, "input", n);
        let (kind, call_id, id) =
            (string(item, "type"), string(item, "call_id"), string(item, "id"));
        match kind {
            "function_call" => {
                let again = !ids.insert(call_id.to_owned());
                rule(again, format_args!("call_id {call_id:?} again"));
                rule(!item["arguments"].is_string(), format_args!("arguments are no string"));
                let is_other = item.get("id").is_some() && !id.starts_with("fc_");
                rule(is_other, format_args!("id {id:?}"));
                open.push(call_id.to_owned());
            }
            "function_call_output" => match open.iter().position(|id| id == call_id) {
                Some(at) => drop(open.remove(at)),
                None => rule(true, format_args!("output {call_id:?} without its call")),
            },
            "reasoning" => {}
            _ => rule(!open.is_empty(), format_args!("{kind:?} before the outputs of {open:?}")),
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
        let mut rule = noting(&mut broken, "messages", n);
        let (role, content) = (string(message, "role"), &message["content"]);
        if role == "tool" {
            rule(open == 0, format_args!("a tool message without a call"));
            open = open.saturating_sub(1);
            continue;
        }
        rule(open > 0, format_args!("{open} calls without an answer before it"));
        rule(!matches!(role, "system" | "user" | "assistant"), format_args!("role {role:?}"));
        rule(!content.is_string(), format_args!("content is {content}"));
        let calls = list(&message["tool_calls"]);
        for call in calls {
            let is_object = call["function"]["arguments"].is_object();
            rule(!is_object, format_args!("arguments are no object"));
        }
        open = calls.len();
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

    fn body(messages: impl serde::Serialize) -> Value {
        json!({ "messages": messages })
    }

    #[test]
    fn anthropic_rules_fail() {
        let call = json!({"type": "tool_use", "id": "c1", "name": "f", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "c1", "content": "x"});
        let text = json!({"type": "text", "text": "hi"});
        let assistant = |blocks: &[&Value]| json!({"role": "assistant", "content": blocks});
        let user = |blocks: &[&Value]| json!({"role": "user", "content": blocks});
        let check = |messages: &[Value], wanted| breaks(super::anthropic(&body(messages)), wanted);
        check(&[assistant(&[&call])], "without tool_result");
        check(&[assistant(&[&call]), user(&[&text])], "without tool_result before it");
        check(&[user(&[&result])], "unexpected tool_result");
        check(&[assistant(&[&call]), user(&[&text, &result])], "after other blocks");
        check(&[assistant(&[&call, &text]), user(&[&result])], "text after tool_use");
        check(&[assistant(&[&call]), user(&[&result, &result])], "second tool_result");
        check(&[user(&[&json!({"type": "text", "text": ""})])], "empty text");
        check(&[user(&[])], "content is");
        check(&[json!({"role": "tool", "content": "x"})], "role");
        check(&[assistant(&[&text])], "an assistant message");
        let twice = [assistant(&[&call]), user(&[&result]), assistant(&[&call]), user(&[&result])];
        check(&twice, "again");
        let odd = json!({"type": "tool_use", "id": "c:1", "name": "a.b", "input": "text"});
        check(&[assistant(&[&odd])], "call id");
        check(&[assistant(&[&odd])], "name");
        check(&[assistant(&[&odd])], "input is");
        let tools = json!({"messages": [user(&[&text])], "tools": [{"type": "function", "function": {"name": "f"}}]});
        breaks(super::anthropic(&tools), "another provider's shape");
        let tools =
            json!({"messages": [user(&[&text])], "tools": [{"name": "f", "input_schema": {}}]});
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
