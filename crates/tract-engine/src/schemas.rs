//! Values that a tool definition can be made of.

use tract_core::ToolSchema;

use crate::error::Result;

/// A value that a tool definition can be made of: a [`ToolSchema`], or JSON in any provider's
/// shape, as text or as a value.
///
/// Text is kept byte for byte; a value is written out first.
pub trait IntoSchema {
    /// Makes the definition.
    ///
    /// # Errors
    /// [`Error::Json`](crate::Error::Json) when it is no JSON object.
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
        Ok(ToolSchema::parse(self)?)
    }
}

impl IntoSchema for String {
    fn into_schema(self) -> Result<ToolSchema> {
        self.as_str().into_schema()
    }
}

impl IntoSchema for serde_json::Value {
    fn into_schema(self) -> Result<ToolSchema> {
        (&self).into_schema()
    }
}

impl IntoSchema for &serde_json::Value {
    fn into_schema(self) -> Result<ToolSchema> {
        self.to_string().into_schema()
    }
}

/// Makes the definitions of all tools, or of none.
///
/// # Errors
/// As [`IntoSchema::into_schema`], for the first that fails.
pub fn into_schemas<T: IntoSchema>(tools: impl IntoIterator<Item = T>) -> Result<Vec<ToolSchema>> {
    tools.into_iter().map(IntoSchema::into_schema).collect()
}
