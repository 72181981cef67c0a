//! Converts the return values of functions to results of tools.

use std::cell::Cell;
use std::error::Error;

use serde::Serialize;
use tract_core::{RenderedValue, ToolError, ToolResult};

/// The result of a call of a tool.
pub(crate) type Answer<T> = Result<ToolResult<T>, ToolError>;

/// A type that can be the error of a tool: a [`ToolError`], any error that can be sent between
/// threads, or text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "neither a `ToolError`, an `Error + Send + Sync + 'static`, nor a text",
    note = "return `Result<T, ToolError>`, or derive `std::error::Error` for the error"
)]
pub trait Failure {
    /// Converts it to the error of a tool.
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

/// Access to the types in a `Result`, also behind a type alias.
pub trait Fallible {
    /// The type of the value.
    type Value;
    /// The type of the error.
    type Error;

    /// Returns it as a plain `Result`.
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

/// Access to the type of the value in a [`ToolResult`].
pub trait ToolResultParts {
    /// The type of the value it contains.
    type Value;
}

impl<T> ToolResultParts for ToolResult<T> {
    type Value = T;
}

/// The return value of a tool, or a marker of its type. Autoref specialization selects the
/// conversion: method resolution picks the first match for `(&&&&RunReturn::new(value)).result()`.
pub struct RunReturn<R>(Cell<Option<R>>);

impl<R> RunReturn<R> {
    /// Wraps a return value.
    pub fn new(value: R) -> Self {
        Self(Cell::new(Some(value)))
    }

    /// Creates a marker of the type.
    pub fn without_value() -> Self {
        Self(Cell::new(None))
    }

    fn take(&self) -> Result<R, ToolError> {
        self.0.take().ok_or_else(|| ToolError::type_error("the tool answered twice"))
    }
}

/// Converts the return value of `run` to the result of a tool.
pub trait IntoResult {
    /// The type of the value it contains.
    type Value;

    /// Returns the result.
    ///
    /// # Errors
    /// The error of `run`.
    fn result(&self) -> Result<ToolResult<Self::Value>, ToolError>;

    /// Returns a marker of the type of its value.
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

/// Renders a value, with its own text for the model if given.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn rendered<T: Serialize>(
    value: &T,
    words: Option<String>,
) -> Result<RenderedValue, ToolError> {
    let RenderedValue { json, text } = RenderedValue::of(value)?;
    Ok(RenderedValue { json, text: words.unwrap_or(text) })
}

/// A value with its own text for the model; other values are shown as JSON. `#[tool]` uses it for
/// functions and structs.
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
    /// Returns the text for the model.
    fn render(&self) -> String;
}

/// A value to be rendered. Autoref specialization selects the rendering: method resolution picks
/// the first match for `(&&ShownValue(value)).rendered()`.
pub struct ShownValue<'a, T>(pub &'a T);

/// Returns a value's own text for the model, if it has one.
pub trait FindRendering {
    /// Returns the text; `None` if the value is shown as JSON.
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
