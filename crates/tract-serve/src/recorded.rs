//! Recorded text on its way to a client: nothing in it is invisible.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tract_core::text::{escape_controls, is_invisible};
use tract_core::{DynTool, JsonText, RenderedValue, ToolContext, ToolError, ToolResult, ToolSpec};

/// A tool whose results show format controls, such as tags and bidirectional marks, as escapes. A
/// recording can contain them to tell a model what no person sees.
pub(crate) struct Escaped(pub(crate) Arc<dyn DynTool>);

#[async_trait]
impl DynTool for Escaped {
    fn spec(&self) -> ToolSpec {
        self.0.spec()
    }

    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        self.0.check_arguments(arguments)
    }

    fn result_schema(&self) -> Option<String> {
        self.0.result_schema()
    }

    async fn run(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        let mut result = self.0.run(arguments, context).await?;
        result.message = escaped(&result.message);
        if let Some(value) = &mut result.value
            && let Some(json) = escaped_json(value.json.as_str())
            && let Ok(json) = JsonText::new(&json)
        {
            value.json = json;
        }
        Ok(result)
    }
}

/// Escapes a text of several lines.
pub(crate) fn escaped(text: &str) -> String {
    escape_selectors(&escape_controls(text, |character| matches!(character, '\n' | '\t')))
}

/// Escapes a text that is part of a line, such as the name of a tool: a line end in it would begin a line
/// that looks like the server's own.
pub(crate) fn line(text: &str) -> String {
    escape_selectors(&escape_controls(text, |_| false))
}

/// Escapes joiners and variation selectors where no script or emoji needs them: in sequences, which
/// can encode a text that only a model reads.
fn escape_selectors(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut previous = ' ';
    for character in text.chars() {
        let is_joiner = matches!(character, '\u{200c}' | '\u{200d}');
        let is_selector = matches!(character, '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}');
        // An emoji may have a selector before its joiner.
        let follows = is_invisible(previous) && !(is_joiner && previous == '\u{fe0f}');
        if (is_joiner || is_selector) && follows {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
        previous = character;
    }
    out
}

/// Escapes the strings of a JSON text; `None` when it is not JSON.
pub(crate) fn escaped_json(json: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(json).ok()?;
    escape_value(&mut value);
    Some(value.to_string())
}

fn escape_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = escaped(text),
        Value::Array(items) => items.iter_mut().for_each(escape_value),
        Value::Object(members) => members.values_mut().for_each(escape_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_of_selectors_and_joiners_are_shown() {
        let family = "\u{1f468}\u{200d}\u{2764}\u{fe0f}\u{200d}\u{1f468} \u{0645}\u{200c}\u{0646}";
        assert_eq!(escaped(family), family);
        assert_eq!(escaped("a\u{fe01}\u{fe0f}b"), "a\u{fe01}\\u{fe0f}b");
        assert_eq!(line("a\u{200c}\u{200d}\u{200c}"), "a\u{200c}\\u{200d}\\u{200c}");
    }
}
