//! Structs as tools: validated arguments become the instance, which is then run.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tract_core::{DynTool, RenderedValue, ToolContext, ToolError, ToolParams, ToolSpec};

use super::answer::{Answer, RunReturn};
use super::args::{Args, parse};

/// The future of running an instance.
pub type Entry<'a> = Pin<Box<dyn Future<Output = Answer<RenderedValue>> + Send + 'a>>;

/// A type whose values are calls and whose fields are the arguments. `#[tool]` on a struct
/// implements it.
pub trait ToolInstance: DeserializeOwned + JsonSchema + Send + Sized + 'static {
    /// Returns the definition without the parameters.
    fn describe() -> ToolSpec;

    /// Runs the call.
    fn enter<'a>(self, context: &'a ToolContext) -> Entry<'a>;

    /// Returns the JSON Schema of the values of its results, if there is one.
    fn output_schema() -> Option<String> {
        None
    }

    /// Returns the tool.
    fn tool() -> Instance<Self> {
        Instance(PhantomData)
    }
}

/// The tool whose calls are values of `T`.
pub struct Instance<T>(PhantomData<fn() -> T>);

impl<T: ToolInstance> Instance<T> {
    /// Creates the instance of a call, which can be inspected before it is run.
    ///
    /// # Errors
    /// [`ToolError::Validation`] with the path of the first error, and the others as notes.
    pub fn instantiate(&self, arguments: &str) -> Result<T, ToolError> {
        parse(arguments)
    }
}

impl<T> Clone for Instance<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Instance<T> {}

impl<T: ToolInstance> fmt::Debug for Instance<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instance").field(&T::describe().name).finish()
    }
}

#[async_trait]
impl<T: ToolInstance> DynTool for Instance<T> {
    fn spec(&self) -> ToolSpec {
        let mut spec = T::describe();
        spec.parameters = Args::<T>::schema().into_owned();
        spec
    }

    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        self.instantiate(arguments).map(drop)
    }

    fn result_schema(&self) -> Option<String> {
        T::output_schema()
    }

    async fn run(&self, arguments: &str, context: &ToolContext) -> Answer<RenderedValue> {
        self.instantiate(arguments)?.enter(context).await
    }
}

/// The signatures that a struct's `run` may have: with or without a context.
#[diagnostic::on_unimplemented(
    message = "a struct tool needs an entry: `async fn run(self, context: &ToolContext)`",
    label = "has no `async fn run(self)` or `async fn run(self, context: &ToolContext)`",
    note = "write it in a plain `impl`; it may return what a function tool may",
    note = "what its future holds across `.await` must be `Send`"
)]
pub trait RunFunction<'a, T, Takes> {
    /// The future that `run` returns.
    type Future: Future + Send + 'a;

    /// Calls `run`.
    fn call(self, instance: T, context: &'a ToolContext) -> Self::Future;
}

impl<'a, F, T, R> RunFunction<'a, T, (T,)> for F
where
    F: FnOnce(T) -> R,
    R: Future + Send + 'a,
{
    type Future = R;

    fn call(self, instance: T, _: &'a ToolContext) -> R {
        self(instance)
    }
}

impl<'a, F, T, R> RunFunction<'a, T, (T, &'a ToolContext)> for F
where
    F: FnOnce(T, &'a ToolContext) -> R,
    R: Future + Send + 'a,
{
    type Future = R;

    fn call(self, instance: T, context: &'a ToolContext) -> R {
        self(instance, context)
    }
}

impl<'a, F, T, R> RunFunction<'a, T, (T, ToolContext)> for F
where
    F: FnOnce(T, ToolContext) -> R,
    R: Future + Send + 'a,
{
    type Future = R;

    fn call(self, instance: T, context: &'a ToolContext) -> R {
        self(instance, context.clone())
    }
}

/// Calls a struct's `run`.
pub fn enter<'a, T, F, Takes>(run: F, instance: T, context: &'a ToolContext) -> F::Future
where
    F: RunFunction<'a, T, Takes>,
{
    run.call(instance, context)
}

/// Returns a marker of the return type of a struct's `run`, without calling it.
pub fn returned<'a, T, F, R>(_: F) -> RunReturn<R::Output>
where
    F: FnOnce(T, &'a ToolContext) -> R,
    R: Future + 'a,
{
    RunReturn::without_value()
}

/// Found by method resolution if a struct has no `run` of its own. Its signature differs, so that
/// the compiler reports the missing function.
pub trait Run: Sized {
    /// Never called.
    fn run(self) -> Missing {
        Missing
    }
}

impl<T> Run for T {}

/// The return type of the substitute for a missing `run`.
#[derive(Debug)]
pub struct Missing;
