//! The searchable text of a content or a tool definition.

use serde_json::Value;
use tract_core::{Content, Kind, Part};

/// A searchable text, and the part of the message that it comes from.
pub(crate) struct SearchText {
    /// `text`, `reasoning`, `arguments` or `definition`.
    pub(crate) part: &'static str,
    pub(crate) text: String,
}

impl SearchText {
    fn new(part: &'static str, text: impl Into<String>) -> Self {
        Self { part, text: text.into() }
    }
}

/// Returns the texts of a message. A content that cannot be parsed as its kind is searched as
/// stored.
pub(crate) fn of_message(kind: &Kind, stored: &str) -> Vec<SearchText> {
    let Ok(content) = Content::from_blob(kind, stored) else {
        return vec![SearchText::new("text", stored)];
    };
    match content {
        Content::Artifact(artifact) => vec![SearchText::new("text", artifact.text)],
        Content::Note(note) => vec![SearchText::new("text", lines(note.as_str()))],
        Content::System(body)
        | Content::User(body)
        | Content::Assistant(body)
        | Content::Reasoning(body)
        | Content::Custom { body, .. } => of_parts(body.parts),
        Content::ToolResult(answer) => of_parts(answer.parts),
    }
}

/// Returns the text of a tool definition: a line `path: value` for each value in it.
pub(super) fn of_definition(schema: &str) -> Vec<SearchText> {
    vec![SearchText::new("definition", lines(schema))]
}

fn of_parts(parts: Vec<Part>) -> Vec<SearchText> {
    let texts = parts.into_iter().filter_map(|part| match part {
        Part::Text { text } => Some(SearchText::new("text", text)),
        Part::ToolCall(call) => {
            let arguments = lines(&call.arguments);
            Some(SearchText::new("arguments", format!("{}\n{arguments}", call.name)))
        }
        Part::Reasoning { text, .. } if !text.is_empty() => {
            Some(SearchText::new("reasoning", text))
        }
        Part::Opaque { json, .. } => Some(SearchText::new("text", lines(&json))),
        Part::Reasoning { .. } | Part::Image { .. } => None,
    });
    texts.collect()
}

/// Flattens JSON to lines `path: value`, with strings unescaped, so that a command in an argument
/// appears as it was run. Other text is returned unchanged.
pub(super) fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    match serde_json::from_str::<Value>(text) {
        Ok(value) => write_value(&mut out, &mut String::new(), &value),
        Err(_) => out.push_str(text),
    }
    out
}

/// The recursion is limited by the nesting depth that the parser accepts.
fn write_value(out: &mut String, path: &mut String, value: &Value) {
    let begun = path.len();
    let mut step = |path: &mut String, key: &str, value: &Value| {
        if begun > 0 {
            path.push('.');
        }
        path.push_str(key);
        write_value(out, path, value);
        path.truncate(begun);
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(key, value)| step(path, key, value));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(n, item)| step(path, &n.to_string(), item));
        }
        leaf => {
            if !out.is_empty() {
                out.push('\n');
            }
            if begun > 0 {
                out.push_str(path);
                out.push_str(": ");
            }
            match leaf {
                Value::String(text) => out.push_str(text),
                other => out.push_str(&other.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_a_line_for_each_value() {
        let json = r#"{"a":{"command":"cat \"x\"\nls"},"b":[1,true,{}],"c":[]}"#;
        assert_eq!(lines(json), "a.command: cat \"x\"\nls\nb.0: 1\nb.1: true\nb.2: {}\nc: []");
        assert_eq!(lines("\"said\""), "said");
        assert_eq!(lines("{not json"), "{not json");
    }
}
