//! What providers refuse, written down apart from the compiler: each function reads a request body
//! and lists every rule that it breaks.

use std::collections::BTreeSet;
use std::fmt::Arguments;

use serde_json::{Value, json};

use crate::Dialect;

/// What of a body came from its provider, which accepted it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Accepted {
    Nothing,
    /// Blocks that only the provider knows, and neighbors of one role.
    Blocks,
    /// Whole messages: Anthropic accepted text next to results, instructions in place, and ids that
    /// came back in later turns.
    Messages,
}

fn is_plain(name: &str, most: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=most).contains(&name.len()) && name.bytes().all(plain)
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

/// Takes out the call that a result answers; returns whether there was one.
fn answers(open: &mut Vec<String>, id: &str) -> bool {
    let at = open.iter().position(|open| open == id);
    at.map(|at| open.remove(at)).is_some()
}

/// What a body of a dialect breaks.
pub(crate) fn broken(dialect: Dialect, accepted: Accepted, body: &Value) -> Vec<String> {
    match dialect {
        Dialect::Anthropic => anthropic(accepted, body),
        Dialect::OpenAi => chat(true, body),
        Dialect::Responses => responses(accepted, body),
        Dialect::Ollama => chat(false, body),
        Dialect::Gemini => gemini(body),
    }
}

/// The blocks of a content; a text is one.
pub(crate) fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(_) => vec![json!({"type": "text", "text": content})],
        content => list(content).to_vec(),
    }
}

fn is_blank(block: &Value) -> bool {
    string(block, "type") == "text" && string(block, "text").trim().is_empty()
}

/// Anthropic Messages.
fn anthropic(accepted: Accepted, body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let system = blocks(&body["system"]);
    let refused = |block: &Value| string(block, "type") != "text" || is_blank(block);
    if !body["system"].is_null() && (system.is_empty() || system.iter().any(refused)) {
        broken.push(format!("system is {}", body["system"]));
    }
    let (mut ids, mut open) = (BTreeSet::new(), Vec::new());
    let in_place =
        |message: &&Value| accepted == Accepted::Messages && string(message, "role") == "system";
    let messages = list(&body["messages"]).iter().filter(|message| !in_place(message));
    let roles: Vec<&str> = messages.clone().map(|message| string(message, "role")).collect();
    if roles.is_empty() {
        broken.push("no messages".to_owned());
    }
    for (n, message) in messages.enumerate() {
        let mut rule = noting(&mut broken, "messages", n);
        let (role, next) = (roles[n], roles.get(n + 1).copied());
        rule(!matches!(role, "user" | "assistant"), format_args!("role {role:?}"));
        rule(
            accepted == Accepted::Nothing && next == Some(role),
            format_args!("two messages by {role}"),
        );
        let blocks = blocks(&message["content"]);
        rule(blocks.is_empty(), format_args!("content is {}", message["content"]));
        let (mut spoken, mut called) = (false, Vec::new());
        for block in &blocks {
            rule(is_blank(block), format_args!("blank text"));
            match (role, string(block, "type")) {
                (_, "text") => {
                    spoken = true;
                    let is_late = accepted < Accepted::Messages && !called.is_empty();
                    rule(is_late, format_args!("text after tool_use"));
                }
                ("assistant", "tool_use") => {
                    let (id, name) = (string(block, "id"), string(block, "name"));
                    rule(!is_plain(id, 256), format_args!("call id {id:?}"));
                    rule(!is_plain(name, 64), format_args!("name {name:?}"));
                    rule(!block["input"].is_object(), format_args!("input is {}", block["input"]));
                    rule(!ids.insert(id.to_owned()), format_args!("call id {id:?} again"));
                    called.push(id.to_owned());
                }
                ("user", "tool_result") => {
                    let id = string(block, "tool_use_id");
                    let is_late = accepted < Accepted::Messages && spoken;
                    rule(is_late, format_args!("tool_result after other blocks"));
                    rule(!answers(&mut open, id), format_args!("unexpected tool_result {id:?}"));
                    let blank = list(&block["content"]).iter().any(is_blank);
                    rule(blank, format_args!("blank text in a result"));
                }
                ("user", "image") => spoken = true,
                (_, kind) => {
                    spoken = true;
                    let known = matches!(kind, "tool_use" | "tool_result");
                    rule(known || accepted == Accepted::Nothing, format_args!("{kind} by {role}"));
                }
            }
        }
        if accepted < Accepted::Messages || (role == "user" && next == Some("assistant")) {
            rule(!open.is_empty(), format_args!("no tool_result for {open:?}"));
            open.clear();
        }
        if accepted == Accepted::Messages && role == "user" {
            ids.clear();
        }
        open.append(&mut called);
    }
    if !open.is_empty() {
        broken.push(format!("the end: no tool_result for {open:?}"));
    }
    if roles.last() == Some(&"assistant") {
        broken.push("the end: an assistant message".to_owned());
    }
    for tool in list(&body["tools"]) {
        let name = string(tool, "name");
        let typed = tool.get("type").is_some_and(|kind| kind != "custom");
        if !is_plain(name, 64) {
            broken.push(format!("tool name {name:?}"));
        }
        if !typed && tool["input_schema"]["type"] != "object" {
            broken.push(format!("tool {name:?}: input_schema is no object"));
        }
        if tool.get("function").is_some() || tool.get("parameters").is_some() {
            broken.push(format!("tool {name:?} is in another provider's shape"));
        }
    }
    broken
}

/// The kinds of parts of Chat Completions, and one that Mistral takes where OpenAI has `file`.
const PARTS: [&str; 6] = ["text", "image_url", "file", "input_audio", "refusal", "document_url"];

/// OpenAI Chat Completions; without ids Ollama's native chat, where a result names its tool.
fn chat(with_ids: bool, body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut ids, mut open) = (BTreeSet::new(), Vec::new());
    for (n, message) in list(&body["messages"]).iter().enumerate() {
        let mut rule = noting(&mut broken, "messages", n);
        let (role, content) = (string(message, "role"), &message["content"]);
        let is_listed = content.is_string() || (with_ids && content.is_array());
        if role == "tool" {
            let id = string(message, if with_ids { "tool_call_id" } else { "tool_name" });
            rule(!answers(&mut open, id), format_args!("tool message {id:?} answers no open call"));
            rule(!is_listed, format_args!("content is {content}"));
            continue;
        }
        rule(!open.is_empty(), format_args!("{open:?} without a tool message"));
        open.clear();
        let calls = list(&message["tool_calls"]);
        let lists_none = calls.is_empty() && !message["tool_calls"].is_null();
        match role {
            "assistant" if with_ids => {
                rule(lists_none, format_args!("tool_calls is empty"));
                let nothing = content.is_null() && message["refusal"].is_null();
                rule(calls.is_empty() && nothing, format_args!("neither content nor tool_calls"));
            }
            "system" | "user" | "assistant" | "developer" if with_ids || role != "developer" => {
                let empty = content.as_array().is_some_and(Vec::is_empty);
                rule(empty || !is_listed, format_args!("content is {content}"));
            }
            other => rule(true, format_args!("role {other:?}")),
        }
        for call in calls {
            let (id, function) = (string(call, "id"), &call["function"]);
            let (name, arguments) = (string(function, "name"), &function["arguments"]);
            let fits = if with_ids { arguments.is_string() } else { arguments.is_object() };
            rule(!fits, format_args!("arguments are {arguments}"));
            rule(with_ids && !is_plain(name, 64), format_args!("name {name:?}"));
            let refused = !(1..=64).contains(&id.len()) || !ids.insert(id);
            rule(with_ids && refused, format_args!("call id {id:?} empty, long or again"));
            open.push(if with_ids { id } else { name }.to_owned());
        }
        for kind in list(content).iter().map(|part| string(part, "type")) {
            rule(!PARTS.contains(&kind), format_args!("part {kind:?}"));
        }
    }
    if !open.is_empty() {
        broken.push(format!("the end: {open:?} without a tool message"));
    }
    for tool in list(&body["tools"]) {
        let typed = tool.get("type").is_none_or(|kind| kind == "function");
        if !typed || (with_ids && !is_plain(string(&tool["function"], "name"), 64)) {
            broken.push(format!("tool {tool}"));
        }
    }
    broken
}

/// OpenAI Responses: outputs right after their calls, as clones want it.
fn responses(accepted: Accepted, body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut ids, mut open) = (BTreeSet::new(), Vec::new());
    for (n, item) in list(&body["input"]).iter().enumerate() {
        let mut rule = noting(&mut broken, "input", n);
        let (call_id, id) = (string(item, "call_id"), string(item, "id"));
        match string(item, "type") {
            "function_call" => {
                let refused = call_id.is_empty() || !ids.insert(call_id);
                rule(refused, format_args!("call_id {call_id:?} empty or again"));
                rule(!item["arguments"].is_string(), format_args!("arguments are no string"));
                let is_other = item.get("id").is_some() && !id.starts_with("fc_");
                rule(is_other, format_args!("id {id:?}"));
                open.push(call_id.to_owned());
            }
            "function_call_output" => {
                rule(
                    !answers(&mut open, call_id),
                    format_args!("output {call_id:?} without its call"),
                );
            }
            "reasoning" if accepted > Accepted::Nothing => {}
            kind => {
                rule(!open.is_empty(), format_args!("{kind:?} before the outputs of {open:?}"));
                let roles = ["user", "system", "developer", "assistant"];
                let known = accepted > Accepted::Nothing || roles.contains(&string(item, "role"));
                rule(!known, format_args!("{item}"));
            }
        }
    }
    if !open.is_empty() {
        broken.push(format!("the end: no output for {open:?}"));
    }
    for tool in list(&body["tools"]) {
        let is_function = accepted == Accepted::Nothing || string(tool, "type") == "function";
        if is_function && !(is_plain(string(tool, "name"), 64) && tool["strict"].is_boolean()) {
            broken.push(format!("no plain name, or strict is not said: {tool}"));
        }
    }
    broken
}

/// Gemini: a user begins and ends, roles alternate, and a content with calls is followed by one with
/// exactly their responses, in order.
fn gemini(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let contents = list(&body["contents"]);
    let ends = [contents.first(), contents.last()];
    if ends.into_iter().flatten().any(|content| string(content, "role") != "user") {
        broken.push("a user does not begin and end".to_owned());
    }
    let names = |parts: &[Value], kind: &str| -> Vec<String> {
        let of_kind = parts.iter().filter_map(|part| part.get(kind));
        of_kind.map(|part| string(part, "name").to_owned()).collect()
    };
    let (mut called, mut before) = (Vec::new(), "");
    for (n, content) in contents.iter().enumerate() {
        let mut rule = noting(&mut broken, "contents", n);
        let (role, parts) = (string(content, "role"), list(&content["parts"]));
        rule(parts.is_empty(), format_args!("no parts"));
        rule(role == before, format_args!("the role of the one before"));
        before = role;
        for part in parts {
            let lacks = |kind, inner| part.get(kind).is_some_and(|of| !of[inner].is_object());
            let odd = lacks("functionCall", "args") || lacks("functionResponse", "response");
            rule(odd, format_args!("no object in {part}"));
            rule(part.get("text").is_some_and(|text| text == ""), format_args!("an empty text"));
        }
        rule(names(parts, "functionResponse") != called, format_args!("no answers to {called:?}"));
        called = names(parts, "functionCall");
    }
    broken
}

/// Each rule is seen to be broken by something: a check that cannot fail checks nothing.
mod seen_to_fail {
    use serde_json::{Value, json};

    use super::Accepted;

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
        let broken = |body: &Value| super::anthropic(Accepted::Nothing, body);
        let check = |messages: &[Value], wanted| breaks(broken(&body(messages)), wanted);
        check(&[assistant(&[&call])], "the end: no tool_result");
        check(&[assistant(&[&call]), user(&[&text])], "[1]: no tool_result");
        check(&[user(&[&text]), user(&[&text])], "two messages");
        check(&[user(&[&result])], "unexpected tool_result");
        check(&[assistant(&[&call]), user(&[&text, &result])], "after other blocks");
        check(&[assistant(&[&call, &text]), user(&[&result])], "text after tool_use");
        check(&[assistant(&[&call]), user(&[&result, &result])], "unexpected tool_result");
        check(&[user(&[&json!({"type": "text", "text": ""})])], "blank text");
        check(&[user(&[])], "content is");
        check(&[json!({"role": "tool", "content": "x"})], "role");
        check(&[assistant(&[&text])], "an assistant message");
        let twice = [assistant(&[&call]), user(&[&result]), assistant(&[&call]), user(&[&result])];
        check(&twice, "again");
        let odd = json!({"type": "tool_use", "id": "c:1", "name": "a.b", "input": "text"});
        check(&[assistant(&[&odd])], "call id");
        check(&[assistant(&[&odd])], "name");
        check(&[assistant(&[&odd])], "input is");
        assert_eq!(broken(&body([assistant(&[&odd])])).len(), 5, "and what the end breaks");
        let tools = json!({"messages": [user(&[&text])], "tools": [{"type": "function", "function": {"name": "f"}}]});
        breaks(broken(&tools), "another provider's shape");
        let tools =
            json!({"messages": [user(&[&text])], "tools": [{"name": "f", "input_schema": {}}]});
        breaks(broken(&tools), "input_schema");
        breaks(broken(&json!({"system": "", "messages": []})), "system is");
    }

    #[test]
    fn openai_rules_fail() {
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let assistant = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let tool = json!({"role": "tool", "tool_call_id": "c1", "content": "x"});
        let user = json!({"role": "user", "content": "x"});
        let check = |messages: Value| super::chat(true, &body(messages));
        assert_eq!(check(json!([user, assistant, tool])), Vec::<String>::new());
        breaks(check(json!([assistant])), "without a tool message");
        breaks(check(json!([assistant, user, tool])), "answers no open call");
        assert_eq!(check(json!([assistant, user, tool])).len(), 2);
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
        let check = |items: Value| super::responses(Accepted::Nothing, &json!({ "input": items }));
        assert_eq!(check(json!([call, output])), Vec::<String>::new());
        breaks(check(json!([call])), "no output");
        breaks(check(json!([output])), "without its call");
        breaks(check(json!([call, output, call, output])), "again");
        breaks(check(json!([call, {"role": "user", "content": "x"}])), "before the outputs");
        breaks(
            super::responses(
                Accepted::Nothing,
                &json!({"tools": [{"type": "function", "name": "f"}]}),
            ),
            "strict",
        );
        let call = json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]});
        breaks(super::chat(false, &body(json!([call]))), "arguments are");
        breaks(super::chat(false, &body(json!([call]))), "without a tool message");
        breaks(super::chat(false, &body(json!([{"role": "tool", "content": "x"}]))), "answers no");
    }
}
