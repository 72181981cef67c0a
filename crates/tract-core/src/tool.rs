//! Tools: typed affordances, their results, their failures, and what a running one may reach.
//!
//! A [`Tool`] is typed; code that runs tools holds `dyn` [`DynTool`]s, which every `Tool` is. A
//! tool whose schema is known only while the program runs implements [`DynTool`] itself.

mod bound;
mod context;
mod error;
mod result;

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::bound::BoundCall;
pub use self::context::{CancellationToken, Cancelled, ProgressSink, ToolContext};
pub use self::error::{ToolError, ToolFailure};
pub use self::result::{RenderedValue, ToolResult};
use crate::json::{self, Escapes};
use crate::schema::ToolSchema;

/// The arguments of a tool as a type, with the JSON Schema that advertises it.
///
/// ```
/// use std::borrow::Cow;
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct City { city: String }
/// impl tract_core::ToolParams for City {
///     fn schema() -> Cow<'static, str> {
///         r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}"#.into()
///     }
/// }
/// ```
pub trait ToolParams: DeserializeOwned + Send + 'static {
    /// Returns the JSON Schema of the arguments, as JSON text of an object.
    ///
    /// What it advertises is what deserializing accepts: nothing more, nothing less.
    fn schema() -> Cow<'static, str>;
}

/// The arguments of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

impl ToolParams for NoParams {
    fn schema() -> Cow<'static, str> {
        r#"{"type":"object","properties":{},"additionalProperties":false}"#.into()
    }
}

/// Promises of a tool about its effects. Those of foreign tools are hints, not facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolTraits {
    /// It changes nothing; only such tools may run in parallel.
    pub read_only: bool,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It may destroy data.
    pub destructive: bool,
}

impl ToolTraits {
    /// Promises nothing.
    pub const fn new() -> Self {
        Self { read_only: false, idempotent: false, destructive: false }
    }

    /// Promises that nothing is changed, which makes it idempotent too.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self.idempotent = true;
        self
    }

    /// Returns what a model reads of a call of the tool that was started and not answered; the reason
    /// continues the sentence, as in `was cancelled`. The hint is for tools that change nothing.
    ///
    /// ```
    /// use tract_core::ToolTraits;
    /// let text = ToolTraits::new().unanswered("pay", "was cancelled", None);
    /// assert!(text.starts_with("outcome unknown: tool \"pay\" was cancelled, and it may have run"));
    /// let text = ToolTraits::new().read_only().unanswered("read", "was cancelled", None);
    /// assert_eq!(text, "tool \"read\" was cancelled");
    /// ```
    pub fn unanswered(&self, tool: &str, reason: &str, hint: Option<&str>) -> String {
        if self.read_only {
            let hint = hint.map(|hint| format!("\nnote: {hint}")).unwrap_or_default();
            return format!("tool {tool:?} {reason}{hint}");
        }
        let then = if self.idempotent {
            "it can be repeated: running it twice has the same effect as running it once"
        } else {
            "check what became of it before you repeat it"
        };
        format!("outcome unknown: tool {tool:?} {reason}, and it may have run: {then}")
    }

    /// Promises that a second call changes nothing more.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Warns that what it changes may be lost for good.
    #[must_use]
    pub const fn destructive(mut self) -> Self {
        self.destructive = true;
        self
    }
}

/// A typed tool.
///
/// ```
/// use std::borrow::Cow;
/// use tract_core::{NoParams, Tool, ToolContext, ToolError, ToolResult};
///
/// struct Motto;
/// #[async_trait::async_trait]
/// impl Tool for Motto {
///     type Params = NoParams;
///     type Output = String;
///     fn name(&self) -> Cow<'_, str> { "motto".into() }
///     fn description(&self) -> Cow<'_, str> { "Says the motto of the house.".into() }
///     async fn call(&self, _: NoParams, context: &ToolContext) -> Result<ToolResult<String>, ToolError> {
///         context.check()?;
///         Ok(ToolResult::ok("nothing is lost".to_owned()))
///     }
/// }
/// ```
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// The arguments.
    type Params: ToolParams;
    /// What a call gives.
    type Output: Serialize + Send + Sync + 'static;

    /// Returns the name that models call it by.
    fn name(&self) -> Cow<'_, str>;

    /// Returns what models read about it.
    fn description(&self) -> Cow<'_, str>;

    /// Returns what it promises about its effects; nothing by default.
    fn traits(&self) -> ToolTraits {
        ToolTraits::new()
    }

    /// Returns how long one call may take; as long as its deadline by default.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns what the model reads of a value; `None`, the default, means as JSON.
    fn render(&self, value: &Self::Output) -> Option<String> {
        let _ = value;
        None
    }

    /// Returns the JSON Schema of its values; `None`, the default, where there is none. The outputs
    /// of examples in prompts are checked against it. Tools made by `#[tool]` return the schema of
    /// their result type where that type implements `JsonSchema`.
    fn output_schema(&self) -> Option<String> {
        None
    }

    /// Runs the tool.
    ///
    /// # Errors
    /// [`ToolError`] when it fails. A failure that the model should read together with a value is a
    /// [`ToolResult`] that is not a success.
    async fn call(
        &self,
        params: Self::Params,
        context: &ToolContext,
    ) -> Result<ToolResult<Self::Output>, ToolError>;
}

/// The advertised definition of a tool, and facts for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name that models call it by.
    pub name: String,
    /// The description for models.
    pub description: String,
    /// The JSON Schema of its arguments: JSON text of an object.
    pub parameters: String,
    /// Its promises about its effects.
    pub traits: ToolTraits,
    /// Time limit of one call.
    pub timeout: Option<Duration>,
    /// Where it comes from, when it is not this program's own.
    pub origin: Option<ToolOrigin>,
}

/// The origin of a foreign tool, to which approvals are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOrigin {
    /// The label of the server that it is of.
    pub server: String,
    /// The definition as the server wrote it.
    pub definition: ToolSchema,
}

impl ToolOrigin {
    /// States the server and what it wrote.
    pub fn new(server: impl Into<String>, definition: ToolSchema) -> Self {
        Self { server: server.into(), definition }
    }
}

impl ToolSpec {
    /// Makes the description of a tool that promises nothing and has no timeout.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: parameters.into(),
            traits: ToolTraits::new(),
            timeout: None,
            origin: None,
        }
    }

    /// Sets the origin.
    #[must_use]
    pub fn origin(mut self, origin: ToolOrigin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Sets what it promises about its effects.
    #[must_use]
    pub fn traits(mut self, traits: ToolTraits) -> Self {
        self.traits = traits;
        self
    }

    /// Sets how long one call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the definition as it is committed: `{"name", "description", "parameters"}`, with
    /// the parameters as they are.
    ///
    /// ```
    /// let spec = tract_core::ToolSpec::new("now", "Says the time.", r#"{"type": "object"}"#);
    /// assert_eq!(
    ///     spec.definition(),
    ///     r#"{"name":"now","description":"Says the time.","parameters":{"type": "object"}}"#,
    /// );
    /// ```
    pub fn definition(&self) -> String {
        let size = self.name.len() + self.description.len() + self.parameters.len() + 48;
        let mut out = String::with_capacity(size);
        out.push_str("{\"name\":");
        json::write_string(&mut out, &self.name, Escapes::Raw);
        out.push_str(",\"description\":");
        json::write_string(&mut out, &self.description, Escapes::Raw);
        out.push_str(",\"parameters\":");
        out.push_str(&self.parameters);
        out.push('}');
        out
    }
}

/// A tool whose types are not known: what registries hold and dispatch runs.
///
/// Its methods are named apart from [`Tool`]'s, so that both traits can be in scope.
#[async_trait]
pub trait DynTool: Send + Sync + 'static {
    /// Returns what is advertised, and what its caller has to know.
    fn spec(&self) -> ToolSpec;

    /// Checks that arguments, as JSON text, are what the tool's own type takes, without running it.
    /// A tool without a type of its own takes all that fit its schema.
    ///
    /// # Errors
    /// [`ToolError::Validation`] when they are not.
    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        let _ = arguments;
        Ok(())
    }

    /// Returns the JSON Schema of the values of its results, where there is one.
    fn result_schema(&self) -> Option<String> {
        None
    }

    /// Runs the tool with arguments as JSON text.
    ///
    /// # Behavior
    /// - Text that is empty or white space means `{}`.
    /// - The value of the result is rendered for the model.
    ///
    /// # Errors
    /// [`ToolError::Validation`] when the arguments are no JSON of the right type,
    /// [`ToolError::Type`] when the value has no JSON form, else what the tool itself says.
    async fn run(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError>;
}

#[async_trait]
impl<T: Tool> DynTool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into_owned(),
            description: self.description().into_owned(),
            parameters: T::Params::schema().into_owned(),
            traits: self.traits(),
            timeout: self.timeout(),
            origin: None,
        }
    }

    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        parse_arguments::<T::Params>(arguments).map(drop)
    }

    fn result_schema(&self) -> Option<String> {
        self.output_schema()
    }

    async fn run(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        let params = parse_arguments::<T::Params>(arguments)?;
        let result = self.call(params, context).await?;
        result.try_map(|value| {
            let rendered = RenderedValue::of(&value)?;
            Ok(match self.render(&value) {
                Some(text) => rendered.shown_as(text),
                None => rendered,
            })
        })
    }
}

fn parse_arguments<P: ToolParams>(arguments: &str) -> Result<P, ToolError> {
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(text).map_err(|error| {
        ToolError::validation(format!("the arguments are not what the tool takes: {error}"))
            .note("send one JSON object that fits the tool's schema")
            .caused_by(error)
    })
}

#[cfg(test)]
mod tests;
