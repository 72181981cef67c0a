//! Conversion of values to tool definitions.

use crate::json::JsonError;
use crate::schema::ToolSchema;

/// A value that can be converted to a tool definition: a [`ToolSchema`], or JSON of any provider,
/// as text or as a value.
///
/// Text is kept byte for byte; a value is serialized first.
pub trait IntoSchema {
    /// Converts to a definition.
    ///
    /// # Errors
    /// [`JsonError`] if it is not a JSON object.
    fn into_schema(self) -> Result<ToolSchema, JsonError>;
}

impl IntoSchema for ToolSchema {
    fn into_schema(self) -> Result<ToolSchema, JsonError> {
        Ok(self)
    }
}

impl IntoSchema for &ToolSchema {
    fn into_schema(self) -> Result<ToolSchema, JsonError> {
        Ok(self.clone())
    }
}

impl IntoSchema for &str {
    fn into_schema(self) -> Result<ToolSchema, JsonError> {
        ToolSchema::parse(self)
    }
}

impl IntoSchema for String {
    fn into_schema(self) -> Result<ToolSchema, JsonError> {
        self.as_str().into_schema()
    }
}

impl IntoSchema for serde_json::Value {
    fn into_schema(self) -> Result<ToolSchema, JsonError> {
        (&self).into_schema()
    }
}

impl IntoSchema for &serde_json::Value {
    fn into_schema(self) -> Result<ToolSchema, JsonError> {
        self.to_string().into_schema()
    }
}

/// Converts all tools; fails if one of them is invalid.
///
/// # Errors
/// Those of [`IntoSchema::into_schema`], for the first invalid tool.
pub fn into_schemas<T: IntoSchema>(
    tools: impl IntoIterator<Item = T>,
) -> Result<Vec<ToolSchema>, JsonError> {
    tools.into_iter().map(IntoSchema::into_schema).collect()
}
