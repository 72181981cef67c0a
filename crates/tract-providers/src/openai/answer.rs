//! Writes an answer as a message of the next request.

use tract_core::json;

use crate::raw::{self, Object};

/// Converts a message of Chat Completions. `annotations` exist only in answers, `index` numbers the
/// calls of a stream, and audio is referred to by its id. Calls need a type and arguments, and a
/// list of calls must not be empty. Members of other vendors, such as `reasoning_details` and
/// `extra_content`, are kept, because these vendors read them back.
pub(super) fn sent(received: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(received: &str, sent: &str) {
        assert_eq!(super::sent(received).as_deref().unwrap_or(received), sent);
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
