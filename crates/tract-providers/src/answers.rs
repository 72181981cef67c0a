//! Answers as messages of the next request. An answer has members that its provider rejects or does
//! not list in a request, so it goes back without them. The received bytes stay as they are stored.

use tract_core::{Content, Message, json};
use tract_schema::Dialect;

use crate::raw::{self, Object};

/// Returns whether a message was received as an answer. A message of a recorded request lacks a
/// generation config; it is sent as its client sent it.
pub(crate) fn is_answer(message: &Message) -> bool {
    matches!(message.content, Content::Assistant(_)) && message.generation_config.is_some()
}

/// Writes an answer of a chat API as a message for a request; `None` if it needs no change.
pub(crate) fn message(dialect: Dialect, received: &str) -> Option<String> {
    match dialect {
        Dialect::OpenAi => openai(received),
        _ => None,
    }
}

/// Writes a block of an answer as a block for a request; `None` if it needs no change.
pub(crate) fn block(dialect: Dialect, received: &str) -> Option<String> {
    match dialect {
        Dialect::Anthropic => anthropic(received),
        _ => None,
    }
}

/// Converts a message of Chat Completions. `annotations` exist only in answers, `index` numbers the
/// calls of a stream, and audio is referred to by its id. Calls need a type and arguments, and a
/// list of calls must not be empty. Members of other vendors, such as `reasoning_details` and
/// `extra_content`, are kept, because these vendors read them back.
fn openai(received: &str) -> Option<String> {
    const MEMBERS: [&str; 3] = ["\"annotations\"", "\"tool_calls\"", "\"audio\""];
    if !MEMBERS.iter().any(|member| received.contains(member)) {
        return None;
    }
    let (mut message, mut is_changed) = (Object::new(), false);
    for (name, raw) in json::split_object(received).ok()? {
        let value = match name.as_str() {
            "annotations" => None,
            "tool_calls" => calls(raw),
            "audio" => sound(raw),
            _ => Some(raw.to_owned()),
        };
        is_changed |= value.as_deref() != Some(raw);
        if let Some(value) = value {
            message.nest(&name, value);
        }
    }
    is_changed.then(|| message.end())
}

/// Returns the calls of an answer; `None` if there are none.
fn calls(raw: &str) -> Option<String> {
    let list: Vec<&serde_json::value::RawValue> = match serde_json::from_str(raw) {
        Ok(list) => list,
        Err(_) if raw == "null" => return None,
        Err(_) => return Some(raw.to_owned()),
    };
    let (mut calls, mut is_changed) = (Vec::with_capacity(list.len()), false);
    for element in &list {
        let changed = call(element.get());
        is_changed |= changed.is_some();
        calls.push(changed.unwrap_or_else(|| element.get().to_owned()));
    }
    match (calls.is_empty(), is_changed) {
        (true, _) => None,
        (false, true) => Some(raw::array(calls)),
        (false, false) => Some(raw.to_owned()),
    }
}

/// Converts a call of an answer; `None` if it needs no change.
fn call(raw: &str) -> Option<String> {
    let members = json::split_object(raw).ok()?;
    let has = |wanted: &str| members.iter().any(|(name, _)| name == wanted);
    let is_function = has("function");
    let (mut call, mut is_changed) = (Object::new(), false);
    for (name, raw) in &members {
        match name.as_str() {
            "index" => is_changed = true,
            // Gateways write an empty one next to the function.
            "custom" if is_function => is_changed = true,
            "function" => match function(raw) {
                Some(function) => {
                    is_changed = true;
                    call.nest(name, function);
                }
                None => drop(call.raw(name, raw)),
            },
            _ => drop(call.raw(name, raw)),
        }
    }
    if is_function && !has("type") {
        is_changed = true;
        call.text("type", "function");
    }
    is_changed.then(|| call.end())
}

/// Adds empty arguments to a function that lacks them.
fn function(raw: &str) -> Option<String> {
    let members = json::split_object(raw).ok()?;
    if members.iter().any(|(name, raw)| name == "arguments" && *raw != "null") {
        return None;
    }
    let mut function = Object::new();
    for (name, raw) in members.iter().filter(|(name, _)| name != "arguments") {
        function.raw(name, raw);
    }
    function.text("arguments", "{}");
    Some(function.end())
}

fn sound(raw: &str) -> Option<String> {
    let id = json::split_object(raw).ok().and_then(|members| {
        let id = members.into_iter().rev().find(|(name, _)| name == "id");
        id.map(|(_, id)| id.to_owned())
    });
    Some(match id {
        Some(id) => Object::new().raw("id", &id).end(),
        None => raw.to_owned(),
    })
}

/// Results of executed code have an end reason in answers, but not in requests.
fn anthropic(received: &str) -> Option<String> {
    const MEMBER: &str = "abort_reason";
    if !received.contains("\"abort_reason\"") {
        return None;
    }
    let (mut block, mut is_changed) = (Object::new(), false);
    for (name, raw) in json::split_object(received).ok()? {
        let inner = json::split_object(raw).unwrap_or_default();
        let is_result = name == "content" && inner.iter().any(|(name, _)| name == MEMBER);
        if !is_result {
            block.raw(&name, raw);
            continue;
        }
        let mut content = Object::new();
        for (name, raw) in inner.iter().filter(|(name, _)| name != MEMBER) {
            content.raw(name, raw);
        }
        is_changed = true;
        block.nest(&name, content.end());
    }
    is_changed.then(|| block.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(received: &str, sent: &str) {
        assert_eq!(message(Dialect::OpenAi, received).as_deref().unwrap_or(received), sent);
    }

    #[test]
    fn an_answer_goes_back_without_the_members_of_answers() {
        check(r#"{"role":"assistant","content":"a"}"#, r#"{"role":"assistant","content":"a"}"#);
        check(
            r#"{"role":"assistant","content":"a","refusal":null,"annotations":[]}"#,
            r#"{"role":"assistant","content":"a","refusal":null}"#,
        );
        check(
            r#"{"role":"assistant","content":"a","tool_calls":null,"reasoning":"r"}"#,
            r#"{"role":"assistant","content":"a","reasoning":"r"}"#,
        );
        check(r#"{"content":"a","tool_calls":[]}"#, r#"{"content":"a"}"#);
        check(
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"n"}}]}"#,
            r#"{"tool_calls":[{"id":"c","function":{"name":"n","arguments":"{}"},"type":"function"}]}"#,
        );
        check(
            r#"{"tool_calls":[{"id":"c","type":"custom","custom":{"name":"n","input":""}}]}"#,
            r#"{"tool_calls":[{"id":"c","type":"custom","custom":{"name":"n","input":""}}]}"#,
        );
        check(
            r#"{"content":null,"audio":{"id":"au","data":"AAAA","expires_at":1,"transcript":"t"}}"#,
            r#"{"content":null,"audio":{"id":"au"}}"#,
        );
        check(r#"{"content":"\"audio\"","audio":null}"#, r#"{"content":"\"audio\"","audio":null}"#);
    }
}
