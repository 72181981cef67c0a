//! Converts the return values of functions to answers.

use std::cell::Cell;
use std::error::Error;

use serde::Serialize;
use tract_core::{RenderedValue, ToolError, ToolResult};

/// The result of a call of a tool.
pub(crate) type Answer<T> = Result<ToolResult<T>, ToolError>;

/// A type that can be the error of a tool: a [`ToolError`], any error that can be sent between
/// threads, or a text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "neither a `ToolError`, an `Error + Send + Sync + 'static`, nor a text",
    note = "return `Result<T, ToolError>`, or derive `std::error::Error` for the error"
)]
pub trait Failure {
    /// Returns what the model and the operator read.
    fn into_tool_error(self) -> ToolError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>>> Failure for E {
    fn into_tool_error(self) -> ToolError {
        match self.into().downcast::<ToolError>() {
            Ok(error) => *error,
            Err(error) => ToolError::from(error),
        }
    }
}

/// Converts the error of a function.
pub fn failed<E: Failure>(error: E) -> ToolError {
    error.into_tool_error()
}

/// Access to the parts of a `Result`, also behind a type alias.
pub trait Fallible {
    /// The type of the value.
    type Value;
    /// The type of the error.
    type Error;

    /// Returns it as a plain result.
    ///
    /// # Errors
    /// The error it contains.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T, E> Fallible for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Result<T, E> {
        self
    }
}

/// A [`ToolResult`], taken apart.
pub trait ToolResultParts {
    /// The type of the value it contains.
    type Value;
}

impl<T> ToolResultParts for ToolResult<T> {
    type Value = T;
}

/// The return value of a tool, or its type. Method resolution selects the conversion: the first
/// method found for `(&&&&RunReturn::new(value)).result()`.
pub struct RunReturn<R>(Cell<Option<R>>);

impl<R> RunReturn<R> {
    /// Takes what the tool gave.
    pub fn new(value: R) -> Self {
        Self(Cell::new(Some(value)))
    }

    /// Makes the marker of a type.
    pub fn without_value() -> Self {
        Self(Cell::new(None))
    }

    fn take(&self) -> Result<R, ToolError> {
        self.0.take().ok_or_else(|| ToolError::type_error("the tool answered twice"))
    }
}

/// Converts the return value of `run` to a result of a tool.
pub trait IntoResult {
    /// The type of the value it contains.
    type Value;

    /// Returns the result.
    ///
    /// # Errors
    /// The error of `run`.
    fn result(&self) -> Result<ToolResult<Self::Value>, ToolError>;

    /// Returns the marker of the type of its value.
    fn value_type(&self) -> RunReturn<Self::Value> {
        RunReturn::without_value()
    }
}

impl<T, E: Failure> IntoResult for &&&RunReturn<Result<ToolResult<T>, E>> {
    type Value = T;

    fn result(&self) -> Result<ToolResult<T>, ToolError> {
        self.take()?.map_err(failed)
    }
}

impl<T, E: Failure> IntoResult for &&RunReturn<Result<T, E>> {
    type Value = T;

    fn result(&self) -> Result<ToolResult<T>, ToolError> {
        self.take()?.map(ToolResult::ok).map_err(failed)
    }
}

impl<T> IntoResult for &RunReturn<ToolResult<T>> {
    type Value = T;

    fn result(&self) -> Result<ToolResult<T>, ToolError> {
        self.take()
    }
}

impl<T> IntoResult for RunReturn<T> {
    type Value = T;

    fn result(&self) -> Result<ToolResult<T>, ToolError> {
        self.take().map(ToolResult::ok)
    }
}

/// Renders a value, in the words that it has for a model, if any.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn rendered<T: Serialize>(
    value: &T,
    words: Option<String>,
) -> Result<RenderedValue, ToolError> {
    Ok(words.into_iter().fold(RenderedValue::of(value)?, RenderedValue::shown_as))
}

/// A value of a tool with its own text for the model; other values are shown as JSON. `#[tool]`
/// uses it on functions and on structs.
///
/// ```
/// use tract_tools::typed::RenderableResult;
/// use tract_tools::{DynTool, ToolContext, tool};
/// #[derive(serde::Serialize)]
/// struct Score { points: u32 }
/// impl RenderableResult for Score {
///     fn render(&self) -> String { format!("{} points", self.points) }
/// }
/// /// Counts the points.
/// #[tool]
/// fn count() -> Score { Score { points: 3 } }
/// let answer = tract_core::block_on(Count.run("{}", &ToolContext::new("c1")))?;
/// assert_eq!(answer.model_text(), "3 points");
/// # Ok::<(), tract_core::ToolError>(())
/// ```
pub trait RenderableResult {
    /// Returns what a model reads.
    fn render(&self) -> String;
}

/// A value that is to be shown: the method that is found first counts
/// (`(&&Shown(value)).rendered()`).
pub struct ShownValue<'a, T>(pub &'a T);

/// Finds the words that a value has for a model.
pub trait FindRendering {
    /// Returns them; `None` where its JSON is what a model reads.
    fn rendered(&self) -> Option<String>;
}

impl<T: RenderableResult> FindRendering for &ShownValue<'_, T> {
    fn rendered(&self) -> Option<String> {
        Some(self.0.render())
    }
}

impl<T> FindRendering for ShownValue<'_, T> {
    fn rendered(&self) -> Option<String> {
        None
    }
}
