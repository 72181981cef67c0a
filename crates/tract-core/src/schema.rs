//! Tool schemas, kept as given.

use std::collections::HashSet;
use std::sync::Arc;

use crate::hash;
use crate::id::ToolId;
use crate::json::{self, JsonError};
use crate::object::Blob;

/// Error of a list of tools in which models could not call each tool by name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolNameError {
    /// A tool has no name, and is not one of those that the provider runs itself.
    #[error("expected a tool with a name, found tool {place}: {schema}")]
    Unnamed {
        /// The position in the list, from 1.
        place: usize,
        /// The first 80 characters of its schema.
        schema: String,
    },
    /// Two tools have the same name.
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

    /// Returns advice on how to fix the error.
    pub fn note(&self) -> &'static str {
        match self {
            Self::Unnamed { .. } => "see all of them: tract tools lint",
            Self::Duplicate { .. } => "rename one, or leave it out",
        }
    }
}

/// A tool schema of any provider, kept byte for byte, with its id and its name.
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
    /// Parses the text of a schema.
    ///
    /// # Errors
    /// [`JsonError`] if the text is not a JSON object, or cannot be written canonically.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let text = text.trim();
        let id = hash::tool_schema(text)?;
        json::split_object(text)?; // a schema is an object
        Ok(Self { text: text.into(), id, name: name_of(text) })
    }

    /// Serializes any value to a schema.
    ///
    /// # Errors
    /// If the value does not serialize, or not to a JSON object with a canonical form.
    pub fn of<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        Self::parse(&text).map_err(serde::ser::Error::custom)
    }

    /// Returns the text as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the id of the definition; equal for equal schemas in any key order.
    pub fn id(&self) -> ToolId {
        self.id
    }

    /// Returns `function.name`, else `name`, else an empty string.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that models can call each of these tools by name. Not called for imported requests,
    /// which keep the tools that they were sent with.
    ///
    /// # Errors
    /// [`ToolNameError`] for the first tool without a name, or with the name of an earlier one.
    /// Tools that a provider runs itself, such as `{"type":"web_search"}`, do not need a name.
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

    /// Returns the text as a blob.
    pub fn blob(&self) -> Blob {
        Blob::seal(self.text.as_bytes().to_vec())
    }
}

fn name_of(text: &str) -> String {
    // These keys may have any value; only a string counts as a name.
    let name = |object| json::read_string(member(object, "name")?);
    member(text, "function").and_then(name).or_else(|| name(text)).unwrap_or_default()
}

fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let members = json::split_object(object).ok()?;
    members.into_iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw)
}
