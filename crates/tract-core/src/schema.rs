//! A tool schema as it was given.

use std::collections::HashSet;
use std::sync::Arc;

use crate::hash;
use crate::id::ToolId;
use crate::json::{self, JsonError};
use crate::object::Blob;

/// A tool that models could not name, in a list that is set as the tools in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolNameError {
    /// A tool has no name, and is not one that the provider runs itself.
    #[error("expected a tool with a name, found tool {place}: {schema}")]
    Unnamed {
        /// Its place in the list, from 1.
        place: usize,
        /// The first 80 characters of its schema.
        schema: String,
    },
    /// Two tools have one name.
    #[error("two tools have the name {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
}

impl ToolNameError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unnamed { .. } => "no_name",
            Self::Duplicate { .. } => "duplicate_name",
        }
    }

    /// Returns what to do about it.
    pub fn note(&self) -> &'static str {
        match self {
            Self::Unnamed { .. } => "see all of them: tract tools lint",
            Self::Duplicate { .. } => "rename one, or leave it out",
        }
    }
}

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

    /// Checks that models can name each of these tools. Imported requests are not checked: they keep
    /// the tools that they were sent with.
    ///
    /// # Errors
    /// [`ToolNameError`] for the first tool without a name, or with the name of an earlier one. Tools
    /// that a provider runs itself, such as `{"type":"web_search"}`, need no name.
    pub fn check_names(tools: &[Self]) -> Result<(), ToolNameError> {
        let mut names = HashSet::new();
        for (tool, place) in tools.iter().zip(1..) {
            if tool.name.is_empty() {
                if !tool.is_of_a_provider() {
                    let schema = tool.text.chars().take(80).collect();
                    return Err(ToolNameError::Unnamed { place, schema });
                }
            } else if !names.insert(tool.name.as_str()) {
                return Err(ToolNameError::Duplicate { name: tool.name.clone() });
            }
        }
        Ok(())
    }

    fn is_of_a_provider(&self) -> bool {
        let kind = member(&self.text, "type").and_then(json::read_string);
        kind.is_some_and(|kind| !matches!(kind.as_str(), "function" | "custom" | "object"))
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
