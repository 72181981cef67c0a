//! A tool schema as it was given.

use std::sync::Arc;

use serde::Deserialize;

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
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Name {
        Text(String),
        Other(serde::de::IgnoredAny),
    }
    #[derive(Deserialize)]
    struct Named {
        name: Option<Name>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Function {
        Named(Named),
        Other(serde::de::IgnoredAny),
    }
    let member = |key: &str| {
        json::split_object(text).ok().and_then(|members| {
            members.into_iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw.to_owned())
        })
    };
    let text_of = |name: Option<Name>| match name {
        Some(Name::Text(name)) => Some(name),
        Some(Name::Other(_)) | None => None,
    };
    let nested = member("function").and_then(|raw| match serde_json::from_str::<Function>(&raw) {
        Ok(Function::Named(named)) => text_of(named.name),
        Ok(Function::Other(_)) | Err(_) => None,
    });
    nested
        .or_else(|| member("name").and_then(|raw| serde_json::from_str(&raw).ok()))
        .unwrap_or_default()
}
