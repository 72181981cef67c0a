//! What each provider refuses, judged from a body alone.

use std::collections::HashSet;

use serde_json::Value;
use tract_providers::Dialect;

fn name_is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn list<'a>(body: &'a Value, key: &str) -> Vec<&'a Value> {
    body.get(key).and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What judges a body in a dialect, of which nothing was recorded there.
pub(crate) fn of(dialect: Dialect) -> fn(&Value) -> Vec<String> {
    match dialect {
        Dialect::OpenAi => |body| chat(body, true),
        Dialect::Responses => responses,
        Dialect::Anthropic => anthropic,
        Dialect::Ollama => |body| chat(body, false),
        Dialect::Gemini => gemini,
    }
}

/// Broken rules of Chat Completions (and, without ids, of Ollama).
pub(crate) fn chat(body: &Value, with_ids: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let mut ids = HashSet::new();
    let mut waiting: Vec<String> = Vec::new();
    let mut in_results = false;
    for (n, message) in list(body, "messages").into_iter().enumerate() {
        let role = text(message, "role");
        if role != "tool" {
            if !waiting.is_empty() {
                broken.push(format!("{n}: {waiting:?} unanswered"));
            }
            waiting.clear();
            in_results = false;
        }
        match role {
            "assistant" => {
                let calls = list(message, "tool_calls");
                let content = message.get("content").is_some_and(|content| !content.is_null());
                if calls.is_empty() && !content {
                    broken.push(format!("{n}: neither content nor calls"));
                }
                for call in calls {
                    let id = if with_ids {
                        text(call, "id").to_owned()
                    } else {
                        text(&call["function"], "name").to_owned()
                    };
                    if with_ids && (id.is_empty() || id.len() > 64 || !ids.insert(id.clone())) {
                        broken.push(format!("{n}: call id {id:?} empty, long or used"));
                    }
                    let arguments = &call["function"]["arguments"];
                    if arguments.is_string() != with_ids || arguments.is_object() == with_ids {
                        broken.push(format!("{n}: arguments {arguments}"));
                    }
                    waiting.push(id);
                }
                in_results = true;
            }
            "tool" => {
                let id = if with_ids {
                    text(message, "tool_call_id")
                } else {
                    text(message, "tool_name")
                };
                match waiting.iter().position(|open| open == id) {
                    Some(at) if in_results => drop(waiting.remove(at)),
                    _ => broken.push(format!("{n}: result for {id:?} answers nothing")),
                }
                if message.get("content").is_none_or(Value::is_null) {
                    broken.push(format!("{n}: result without content"));
                }
            }
            "system" | "developer" | "user" => {
                if message.get("content").is_none_or(Value::is_null) {
                    broken.push(format!("{n}: {role} without content"));
                }
            }
            other => broken.push(format!("{n}: role {other:?}")),
        }
    }
    if !waiting.is_empty() {
        broken.push(format!("end: {waiting:?} unanswered"));
    }
    for tool in list(body, "tools") {
        let name = text(&tool["function"], "name");
        let typed = tool.get("type").is_none_or(|kind| kind == "function");
        if !typed || (with_ids && !name_is_plain(name)) {
            broken.push(format!("tool {tool}"));
        }
    }
    broken
}

/// Broken rules of Responses: outputs right after their calls, as clones want it.
pub(crate) fn responses(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut ids = HashSet::new();
    let mut waiting: Vec<String> = Vec::new();
    for (n, item) in list(body, "input").into_iter().enumerate() {
        match text(item, "type") {
            "function_call" => {
                let id = text(item, "call_id").to_owned();
                if id.is_empty() || !ids.insert(id.clone()) {
                    broken.push(format!("{n}: call id {id:?} empty or used"));
                }
                waiting.push(id);
            }
            "function_call_output" => {
                let id = text(item, "call_id");
                match waiting.iter().position(|open| open == id) {
                    Some(at) => drop(waiting.remove(at)),
                    None => broken.push(format!("{n}: output for {id:?} answers nothing")),
                }
            }
            _ => match text(item, "role") {
                "user" | "system" | "developer" if !waiting.is_empty() => {
                    broken.push(format!("{n}: {waiting:?} unanswered"));
                }
                "user" | "system" | "developer" | "assistant" => {}
                _ => broken.push(format!("{n}: {item}")),
            },
        }
    }
    if !waiting.is_empty() {
        broken.push(format!("end: {waiting:?} unanswered"));
    }
    for tool in list(body, "tools") {
        if !name_is_plain(text(tool, "name")) || !tool["strict"].is_boolean() {
            broken.push(format!("tool {tool}"));
        }
    }
    broken
}

/// Broken rules of Anthropic's Messages, for a body of which nothing was recorded there.
pub(crate) fn anthropic(body: &Value) -> Vec<String> {
    anthropic_but(body, false)
}

/// The same for a body with recorded messages: Anthropic accepted neighbors of one role, text
/// next to results, its own blocks, instructions in place, and ids that came back in later turns.
pub(crate) fn anthropic_but(body: &Value, recorded: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let mut ids = HashSet::new();
    let mut waiting: HashSet<String> = HashSet::new();
    let mut before = "";
    let messages = list(body, "messages");
    for (n, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if recorded && role == "system" {
            continue;
        }
        if (role == before && !recorded) || !["user", "assistant"].contains(&role) {
            broken.push(format!("{n}: role {role:?} after {before:?}"));
        }
        if role == "assistant" && before == "user" {
            if !waiting.is_empty() {
                broken.push(format!("{n}: {waiting:?} unanswered"));
            }
            ids.retain(|_| !recorded);
        }
        before = role;
        let blocks = list(message, "content");
        if blocks.is_empty() && text(message, "content").is_empty() {
            broken.push(format!("{n}: no content"));
        }
        let (mut spoken, mut called) = (false, false);
        for block in blocks {
            match (role, text(block, "type")) {
                (_, "text") => {
                    spoken = true;
                    if called && !recorded {
                        broken.push(format!("{n}: text after a call"));
                    }
                    if text(block, "text").trim().is_empty() {
                        broken.push(format!("{n}: blank text"));
                    }
                }
                ("user", "image") => spoken = true,
                ("assistant", "tool_use") => {
                    called = true;
                    let id = text(block, "id");
                    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                    if id.is_empty() || !id.bytes().all(fits) || !ids.insert(id.to_owned()) {
                        broken.push(format!("{n}: call id {id:?} refused or used"));
                    }
                    if !block["input"].is_object() {
                        broken.push(format!("{n}: input {}", block["input"]));
                    }
                    if !name_is_plain(text(block, "name")) {
                        broken.push(format!("{n}: name {}", block["name"]));
                    }
                    waiting.insert(id.to_owned());
                }
                ("user", "tool_result") => {
                    let id = text(block, "tool_use_id");
                    if (spoken && !recorded) || !waiting.remove(id) {
                        broken.push(format!("{n}: result for {id:?} late or without a call"));
                    }
                    for inner in list(block, "content") {
                        if text(inner, "type") == "text" && text(inner, "text").trim().is_empty() {
                            broken.push(format!("{n}: blank text in a result"));
                        }
                    }
                }
                (_, _) if recorded => spoken = true,
                (_, other) => broken.push(format!("{n}: {other} in a message of the {role}")),
            }
        }
    }
    if !waiting.is_empty() {
        broken.push(format!("end: {waiting:?} unanswered"));
    }
    if before == "assistant" {
        broken.push("it ends with the assistant".to_owned());
    }
    if let Some(system) = body.get("system") {
        let blank = |block: &Value| text(block, "text").trim().is_empty();
        if list(body, "system").into_iter().any(blank) || system == "" {
            broken.push("blank instructions".to_owned());
        }
    }
    for tool in list(body, "tools") {
        if !name_is_plain(text(tool, "name")) || !tool["input_schema"].is_object() {
            broken.push(format!("tool {tool}"));
        }
    }
    broken
}

/// Gemini: a user begins and ends, roles alternate, and a content with calls is followed by one with
/// exactly their responses, in order.
pub(crate) fn gemini(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let contents = list(body, "contents");
    let ends = [contents.first(), contents.last()];
    if ends.into_iter().flatten().any(|content| text(content, "role") != "user") {
        broken.push("a user does not begin and end".to_owned());
    }
    let names = |content: &Value, kind: &str| -> Vec<String> {
        let of = list(content, "parts").into_iter().filter_map(|part| part.get(kind));
        of.map(|of| text(of, "name").to_owned()).collect()
    };
    let mut ids: Vec<String> = Vec::new();
    for (n, content) in contents.iter().enumerate() {
        let parts = list(content, "parts");
        if parts.is_empty() {
            broken.push(format!("contents[{n}] has no parts"));
        }
        if n > 0 && text(content, "role") == text(contents[n - 1], "role") {
            broken.push(format!("contents[{n}] has the role of the one before"));
        }
        for part in parts {
            let call = part.get("functionCall").map(|call| call["args"].is_object());
            let response = part.get("functionResponse").map(|of| of["response"].is_object());
            if call == Some(false) || response == Some(false) {
                broken.push(format!("contents[{n}]: no object in {part}"));
            }
            if part.get("text").is_some_and(|text| text == "") {
                broken.push(format!("contents[{n}]: an empty text"));
            }
        }
        if names(content, "functionResponse") != std::mem::take(&mut ids) {
            broken.push(format!("contents[{n}] does not answer the calls before it"));
        }
        ids = names(content, "functionCall");
    }
    broken
}
