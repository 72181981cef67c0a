//! Results of calls: text for the model, text for the operator, and a value for the program.

use serde::Serialize;

use crate::text::JsonText;
use crate::tool::ToolError;

/// The result of a call.
///
/// For a failure that the model should see, use [`ToolResult::error`].
///
/// ```
/// use tract_core::ToolResult;
/// let found = ToolResult { message: "1 file".to_owned(), ..ToolResult::ok(vec!["notes.md"]) };
/// assert!(found.success);
/// let missing: ToolResult<Vec<&str>> = ToolResult::error("no such folder");
/// assert!(!missing.success && missing.value.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult<T> {
    /// The text for the model before the value; may be empty.
    pub message: String,
    /// The text for the operator: logged, never sent to a model.
    pub operator: Option<String>,
    /// The value. A failed result may have one.
    pub value: Option<T>,
    /// Whether the tool succeeded.
    pub success: bool,
    /// Hides the value from the model, which then only gets the message. This saves context; it is
    /// not a protection.
    pub exclude_value_from_context: bool,
}

impl<T> ToolResult<T> {
    /// Creates a success with a value and no message.
    pub fn ok(value: T) -> Self {
        Self { value: Some(value), ..Self::done("") }
    }

    /// Creates a success with a message and no value.
    pub fn done(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            operator: None,
            value: None,
            success: true,
            exclude_value_from_context: false,
        }
    }

    /// Creates a failure with a message for the model.
    pub fn error(message: impl Into<String>) -> Self {
        Self { success: false, ..Self::done(message) }
    }

    /// Replaces the value and keeps the other fields.
    ///
    /// # Errors
    /// The error of `map`.
    pub fn try_map<U, E>(self, map: impl FnOnce(T) -> Result<U, E>) -> Result<ToolResult<U>, E> {
        Ok(ToolResult {
            message: self.message,
            operator: self.operator,
            value: self.value.map(map).transpose()?,
            success: self.success,
            exclude_value_from_context: self.exclude_value_from_context,
        })
    }
}

impl<T> From<T> for ToolResult<T> {
    fn from(value: T) -> Self {
        Self::ok(value)
    }
}

impl ToolResult<RenderedValue> {
    /// Returns the text for the model: the message, a blank line, the value. An empty or excluded
    /// part is left out.
    ///
    /// ```
    /// use tract_core::{RenderedValue, ToolResult};
    /// let value = RenderedValue::of(&[1, 2])?;
    /// let result = ToolResult { message: "two".to_owned(), ..ToolResult::ok(value) };
    /// assert_eq!(result.model_text(), "two\n\n[1,2]");
    /// let hidden = ToolResult { exclude_value_from_context: true, ..result };
    /// assert_eq!(hidden.model_text(), "two");
    /// # Ok::<(), tract_core::ToolError>(())
    /// ```
    pub fn model_text(&self) -> String {
        let value = match &self.value {
            Some(value) if !self.exclude_value_from_context => value.text.as_str(),
            _ => "",
        };
        match (self.message.is_empty(), value.is_empty()) {
            (true, _) => value.to_owned(),
            (false, true) => self.message.clone(),
            (false, false) => format!("{}\n\n{value}", self.message),
        }
    }
}

/// A type-erased result: JSON for programs, text for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedValue {
    /// The value as canonical JSON.
    pub json: JsonText,
    /// The text for the model.
    pub text: String,
}

impl RenderedValue {
    /// Renders a value: text unchanged, null as nothing, other values as canonical JSON.
    ///
    /// # Errors
    /// [`ToolError::Type`] if the value does not serialize to JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, ToolError> {
        let json = JsonText::of(value).map_err(|error| {
            ToolError::type_error("the tool's value has no JSON form")
                .operator(error.to_string())
                .caused_by(error)
        })?;
        Ok(Self::from_json(json))
    }

    /// Renders existing JSON.
    pub fn from_json(json: JsonText) -> Self {
        let text = match json.as_str() {
            "null" => String::new(),
            text if text.starts_with('"') => {
                serde_json::from_str(text).expect("canonical text of a string is JSON")
            }
            text => text.to_owned(),
        };
        Self { json, text }
    }
}
