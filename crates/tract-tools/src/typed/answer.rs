//! What functions return, as answers.

use std::cell::Cell;
use std::error::Error;

use serde::Serialize;
use tract_core::{RenderedValue, ToolError, ToolResult};

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

    /// Returns it as a plain tool result.
    fn into_tool_result(self) -> ToolResult<Self::Value>;
}

impl<T> ToolResultParts for ToolResult<T> {
    type Value = T;

    fn into_tool_result(self) -> Self {
        self
    }
}

/// What `run` gave, to be answered with by what it is: the method that is found first counts
/// (`(&&&&&&&&Given::new(value)).answer()`).
pub struct RunReturn<R>(Cell<Option<R>>);

impl<R> RunReturn<R> {
    /// Takes what `run` gave.
    pub fn new(value: R) -> Self {
        Self(Cell::new(Some(value)))
    }

    fn take(&self) -> Result<R, ToolError> {
        self.0.take().ok_or_else(|| ToolError::type_error("the tool answered twice"))
    }
}

/// An answer whose type is gone.
type Answer = Result<ToolResult<RenderedValue>, ToolError>;

/// Answers with what `run` gave.
pub trait IntoAnswer {
    /// Returns the answer.
    ///
    /// # Errors
    /// What `run` failed with, or that the value has no JSON form.
    fn answer(&self) -> Answer;
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

/// Shows a value by its own word.
pub trait RenderedByItself {
    /// Returns what a model reads.
    fn rendered(&self) -> Option<String>;
}

/// Shows a value as JSON.
pub trait RenderedAsJson {
    /// Returns nothing: the JSON is what a model reads.
    fn rendered(&self) -> Option<String>;
}

impl<T: RenderableResult> RenderedByItself for &ShownValue<'_, T> {
    fn rendered(&self) -> Option<String> {
        Some(self.0.render())
    }
}

impl<T> RenderedAsJson for ShownValue<'_, T> {
    fn rendered(&self) -> Option<String> {
        None
    }
}

fn shown<T: Serialize + RenderableResult>(result: ToolResult<T>) -> Answer {
    result.try_map(|value| Ok(RenderedValue::of(&value)?.shown_as(value.render())))
}

impl<T: Serialize + RenderableResult, E: Failure> IntoAnswer
    for &&&&&&&RunReturn<Result<ToolResult<T>, E>>
{
    fn answer(&self) -> Answer {
        shown(self.take()?.map_err(failed)?)
    }
}

impl<T: Serialize + RenderableResult, E: Failure> IntoAnswer for &&&&&&RunReturn<Result<T, E>> {
    fn answer(&self) -> Answer {
        shown(ToolResult::ok(self.take()?.map_err(failed)?))
    }
}

impl<T: Serialize + RenderableResult> IntoAnswer for &&&&&RunReturn<ToolResult<T>> {
    fn answer(&self) -> Answer {
        shown(self.take()?)
    }
}

impl<T: Serialize + RenderableResult> IntoAnswer for &&&&RunReturn<T> {
    fn answer(&self) -> Answer {
        shown(ToolResult::ok(self.take()?))
    }
}

fn rendered<T: Serialize>(result: ToolResult<T>) -> Answer {
    result.try_map(|value| RenderedValue::of(&value))
}

impl<T: Serialize, E: Failure> IntoAnswer for &&&RunReturn<Result<ToolResult<T>, E>> {
    fn answer(&self) -> Answer {
        rendered(self.take()?.map_err(failed)?)
    }
}

impl<T: Serialize, E: Failure> IntoAnswer for &&RunReturn<Result<T, E>> {
    fn answer(&self) -> Answer {
        rendered(ToolResult::ok(self.take()?.map_err(failed)?))
    }
}

impl<T: Serialize> IntoAnswer for &RunReturn<ToolResult<T>> {
    fn answer(&self) -> Answer {
        rendered(self.take()?)
    }
}

impl<T: Serialize> IntoAnswer for RunReturn<T> {
    fn answer(&self) -> Answer {
        rendered(ToolResult::ok(self.take()?))
    }
}
