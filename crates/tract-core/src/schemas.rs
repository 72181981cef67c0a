//! Values that a tool definition can be made of.

use crate::json::JsonError;
use crate::schema::ToolSchema;

/// A value that a tool definition can be made of: a [`ToolSchema`], or JSON in any provider's
/// shape, as text or as a value.
///
/// Text is kept byte for byte; a value is written out first.
pub trait IntoSchema {
    /// Makes the definition.
    ///
    /// # Errors
    /// [`JsonError`] when it is not a JSON object.
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

/// Makes the definitions of all tools, or of none.
///
/// # Errors
/// As [`IntoSchema::into_schema`], for the first that fails.
pub fn into_schemas<T: IntoSchema>(
    tools: impl IntoIterator<Item = T>,
) -> Result<Vec<ToolSchema>, JsonError> {
    tools.into_iter().map(IntoSchema::into_schema).collect()
}
