//! Compares the messages of two conversations.

use tract_compile::Compiled;
use tract_core::{Content, JsonText, Message, ToolCall};

use super::Difference;

/// Returns the first message with different content. Commit ids, and the division of a text into
/// parts, are ignored.
pub(super) fn first_difference(recorded: &[&Message], again: &Compiled) -> Option<Difference> {
    let again: Vec<&Message> = again.messages().collect();
    let nothing = || "nothing".to_owned();
    (0..recorded.len().max(again.len())).find_map(|place| {
        let (what, expected, found) = match (recorded.get(place), again.get(place)) {
            (Some(message), Some(found)) => differ(message, found)?,
            (Some(message), None) => ("message", describe(message), nothing()),
            (None, more) => ("message", nothing(), more.map_or_else(nothing, |m| describe(m))),
        };
        let commit = recorded.get(place).map(|message| message.commit);
        Some(Difference { message: place + 1, commit, what, expected, found })
    })
}

fn describe(message: &Message) -> String {
    format!("{}: {}", message.role.as_str(), message.content.text())
}

type Comparer = (&'static str, String, String);

fn differ(recorded: &Message, found: &Message) -> Option<Comparer> {
    let unlike = |what, expected: String, found: String| {
        (expected != found).then_some((what, expected, found))
    };
    let role = |message: &Message| message.role.as_str().to_owned();
    unlike("role", role(recorded), role(found))
        .or_else(|| unlike("text", recorded.content.text(), found.content.text()))
        .or_else(|| calls(recorded, found))
        .or_else(|| match (&recorded.content, &found.content) {
            (Content::ToolResult(old), Content::ToolResult(new)) => {
                unlike("call", old.call_id.clone(), new.call_id.clone())
                    // A recording may omit the name of the tool.
                    .or_else(|| {
                        let name = old.name.clone()?;
                        unlike("name", name, new.name.clone().unwrap_or_default())
                    })
                    .or_else(|| unlike("error", old.is_error.to_string(), new.is_error.to_string()))
            }
            _ => None,
        })
}

fn calls(recorded: &Message, found: &Message) -> Option<Comparer> {
    fn key(call: &ToolCall) -> (&str, &str, String) {
        let text = &call.arguments;
        let canonical = JsonText::new(text).map_or(text.clone(), |json| json.to_string());
        (&call.id, &call.name, canonical)
    }
    let same = recorded.content.calls().map(key).eq(found.content.calls().map(key));
    let describe = |message: &Message| {
        let calls = message.content.calls();
        let calls = calls.map(|call| format!("{}({}) as {}", call.name, call.arguments, call.id));
        calls.collect::<Vec<_>>().join(", ")
    };
    (!same).then(|| ("calls", describe(recorded), describe(found)))
}
