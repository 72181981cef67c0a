//! A tool schema as it was given.

use std::sync::Arc;

use crate::hash;
use crate::id::ToolId;
use crate::json::{self, JsonError};
use crate::object::Blob;

/// A tool schema in any provider's shape, kept byte for byte, with its identity and name.
///
/// ```
/// use tract_core::ToolSchema;
/// let tool = ToolSchema::parse(r#"{"name":"calculate","input_schema":{"type":"object"}}"#)?;
/// assert_eq!(tool.name(), "calculate");
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSchema {
    text: Arc<str>,
    id: ToolId,
    name: String,
}

impl ToolSchema {
    /// Makes a definition from the text of a schema.
    ///
    /// # Errors
    /// [`JsonError`] when the text is no JSON object, or has no canonical form.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let text = text.trim();
        let id = hash::tool_schema(text)?;
        json::split_object(text)?; // a schema is an object
        Ok(Self { text: text.into(), id, name: name_of(text) })
    }

    /// Serializes any value.
    ///
    /// # Errors
    /// When it does not serialize, or is no JSON object with a canonical form.
    pub fn of<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        Self::parse(&text).map_err(serde::ser::Error::custom)
    }

    /// Returns the text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the identity: equal for equal schemas in any key order.
    pub fn id(&self) -> ToolId {
        self.id
    }

    /// Returns `function.name`, else `name`, else an empty text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seals the text as a blob.
    pub fn blob(&self) -> Blob {
        Blob::seal(self.text.as_bytes().to_vec())
    }
}

fn name_of(text: &str) -> String {
    // These keys may have any value; only a string is a name.
    let name = |object| json::read_string(member(object, "name")?);
    member(text, "function").and_then(name).or_else(|| name(text)).unwrap_or_default()
}

fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let members = json::split_object(object).ok()?;
    members.into_iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw)
}
