//! What functions return, as answers.

use std::cell::Cell;
use std::error::Error;

use serde::Serialize;
use tract_core::{RenderedValue, ToolError, ToolResult};

/// What a call of a tool comes to.
pub(crate) type Answer<T> = Result<ToolResult<T>, ToolError>;

/// What may be the error of a tool: a [`ToolError`], any error that can be sent between threads,
/// or a text.
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

/// Makes an error of what a function failed with.
pub fn failed<E: Failure>(error: E) -> ToolError {
    error.into_tool_error()
}

/// A `Result`, taken apart: the name of an alias says nothing of its parts.
pub trait Fallible {
    /// What it gives.
    type Value;
    /// What it fails with.
    type Error;

    /// Returns it as a plain result.
    ///
    /// # Errors
    /// What it holds.
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
    /// What it holds.
    type Value;
}

impl<T> ToolResultParts for ToolResult<T> {
    type Value = T;
}

/// What a tool gave, or the type of that: what it is says what it comes to, by the method that is
/// found first (`(&&&&RunReturn::new(value)).result()`).
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

/// What `run` gave, as a result of a tool.
pub trait IntoResult {
    /// What it holds.
    type Value;

    /// Returns the result.
    ///
    /// # Errors
    /// What `run` failed with.
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
/// When it has no JSON form.
pub fn rendered<T: Serialize>(
    value: &T,
    words: Option<String>,
) -> Result<RenderedValue, ToolError> {
    Ok(words.into_iter().fold(RenderedValue::of(value)?, RenderedValue::shown_as))
}

/// A value of a tool that says itself how a model reads it; others are shown as JSON. What `#[tool]`
/// makes heeds it, on functions and on structs.
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
