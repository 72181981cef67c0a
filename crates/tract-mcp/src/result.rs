//! The result of a call, as the server wrote it, and its text for the model.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{JsonText, RenderedValue, ToolError, ToolResult};

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    raw: Arc<str>,
    is_error: bool,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(default, rename = "isError")]
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default, rename = "type")]
    kind: String,
    text: Option<String>,
    #[serde(rename = "mimeType")]
    mime: Option<String>,
    data: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    uri: String,
    text: Option<String>,
    #[serde(rename = "mimeType")]
    mime: Option<String>,
}

impl CallResult {
    pub(crate) fn parse(raw: Arc<str>) -> Option<Self> {
        // A list would be read as the members in order.
        let object = raw.starts_with('{').then_some(&*raw)?;
        let parts: Parts<'_> = serde_json::from_str(object).ok()?;
        let is_error = parts.is_error.unwrap_or(false);
        Some(Self { raw, is_error })
    }

    fn parts(&self) -> Parts<'_> {
        serde_json::from_str(&self.raw).expect("it parsed when it came")
    }

    /// Returns the result as the server wrote it, with all members.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Returns whether the tool reported a failure.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// Returns the structured content as the server wrote it.
    pub fn structured(&self) -> Option<&str> {
        self.parts().structured.map(RawValue::get)
    }

    /// Returns the text for a model: all text blocks, with a placeholder line for each other block;
    /// the structured content if there are no blocks.
    pub fn text(&self) -> String {
        let parts = self.parts();
        let blocks: Vec<String> = parts.content.iter().map(|raw| shown(raw)).collect();
        match (blocks.is_empty(), parts.structured) {
            (true, Some(structured)) => structured.get().to_owned(),
            _ => blocks.join("\n"),
        }
    }

    /// Turns it into the result of a tool: the value is the structured content, else the content
    /// blocks; the text is what [`CallResult::text`] gives. A tool's failure is not a success.
    ///
    /// # Errors
    /// If its content cannot be written as canonical JSON.
    pub fn into_tool_result(self) -> Result<ToolResult<RenderedValue>, ToolError> {
        let parts = self.parts();
        let blocks = || {
            let blocks: Vec<&str> = parts.content.iter().map(|raw| raw.get()).collect();
            format!("[{}]", blocks.join(","))
        };
        let value = parts.structured.map_or_else(blocks, |raw| raw.get().to_owned());
        let json = JsonText::new(&value).map_err(|error| {
            ToolError::type_error("the server's result has no canonical JSON")
                .operator(error.to_string())
        })?;
        let text = self.text();
        Ok(if self.is_error {
            ToolResult {
                value: Some(RenderedValue::from_json(json)),
                exclude_value_from_context: true,
                ..ToolResult::error(text)
            }
        } else {
            ToolResult::ok(RenderedValue { json, text })
        })
    }
}

fn shown(raw: &RawValue) -> String {
    let Ok(block) = serde_json::from_str::<Block>(raw.get()) else {
        return raw.get().to_owned();
    };
    let mime = |mime: Option<String>| mime.unwrap_or_else(|| "unknown type".to_owned());
    let kind = block.kind.clone();
    match (kind.as_str(), block) {
        ("text", Block { text: Some(text), .. }) => text,
        (kind @ ("image" | "audio"), block) => {
            let size = block.data.map_or(0, |data| data.len() / 4 * 3);
            format!("[{kind}: {}, {size} bytes]", mime(block.mime))
        }
        ("resource_link", block) => {
            let uri = block.uri.unwrap_or_default();
            format!("[resource {uri} {}]", block.name.unwrap_or_default())
        }
        ("resource", Block { resource: Some(resource), .. }) => match resource.text {
            Some(text) => format!("[resource {}]\n{text}", resource.uri),
            None => format!("[resource {}: {}]", resource.uri, mime(resource.mime)),
        },
        // A kind added later: its JSON is better than nothing.
        _ => raw.get().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(raw: &str) -> CallResult {
        CallResult::parse(raw.into()).expect("it is a result")
    }

    #[test]
    fn content_of_every_kind_is_shown() {
        let all = result(
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AAAA","mimeType":"image/png"},
            {"type":"resource","resource":{"uri":"x:1","text":"t"}},{"type":"resource_link","uri":"x:2","name":"n"},
            {"type":"hologram","x":1}],"_meta":{"k":1}}"#,
        );
        assert_eq!(
            all.text(),
            "a\n[image: image/png, 3 bytes]\n[resource x:1]\nt\n[resource x:2 n]\n{\"type\":\"hologram\",\"x\":1}"
        );
        assert!(all.raw().contains("_meta"));
    }

    #[test]
    fn structured_content_is_the_value() {
        let made =
            result(r#"{"content":[{"type":"text","text":"11"}],"structuredContent":{"c":11}}"#);
        assert_eq!(made.structured(), Some(r#"{"c":11}"#));
        let tool = made.into_tool_result().expect("it is JSON");
        assert_eq!(tool.model_text(), "11");
        assert_eq!(tool.value.expect("it has one").json.as_str(), r#"{"c":11}"#);
        let bare = result(r#"{"structuredContent":{"c":11}}"#);
        assert_eq!(bare.text(), r#"{"c":11}"#);
    }

    #[test]
    fn a_failed_tool_is_no_success() {
        let failed =
            result(r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#);
        assert!(failed.is_error());
        let tool = failed.into_tool_result().expect("it is JSON");
        assert!(!tool.success);
        assert_eq!(tool.model_text(), "no such file");
        assert!(CallResult::parse("[]".into()).is_none());
    }
}
