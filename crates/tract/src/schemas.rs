//! What a tool definition can be made of.

use serde::Serialize;
use tract_core::ToolSchema;

use crate::error::{Error, Result};

/// What a tool definition can be made of: a [`ToolSchema`], or JSON in any provider's shape,
/// as text or as a value.
///
/// Text is kept byte for byte; a value is written out first.
pub trait IntoSchema {
    /// Makes the definition.
    ///
    /// # Errors
    /// [`Error::Json`] when it is no JSON object.
    fn into_schema(self) -> Result<ToolSchema>;
}

impl IntoSchema for ToolSchema {
    fn into_schema(self) -> Result<ToolSchema> {
        Ok(self)
    }
}

impl IntoSchema for &ToolSchema {
    fn into_schema(self) -> Result<ToolSchema> {
        Ok(self.clone())
    }
}

impl IntoSchema for &str {
    fn into_schema(self) -> Result<ToolSchema> {
        ToolSchema::parse(self).map_err(Error::Json)
    }
}

impl IntoSchema for String {
    fn into_schema(self) -> Result<ToolSchema> {
        self.as_str().into_schema()
    }
}

impl IntoSchema for serde_json::Value {
    fn into_schema(self) -> Result<ToolSchema> {
        of(&self)
    }
}

impl IntoSchema for &serde_json::Value {
    fn into_schema(self) -> Result<ToolSchema> {
        of(self)
    }
}

fn of<T: Serialize>(value: &T) -> Result<ToolSchema> {
    let text = serde_json::to_string(value)?;
    ToolSchema::parse(&text).map_err(Error::Json)
}

/// Makes definitions of all, or of none.
pub(crate) fn all<T: IntoSchema>(tools: impl IntoIterator<Item = T>) -> Result<Vec<ToolSchema>> {
    tools.into_iter().map(IntoSchema::into_schema).collect()
}
