//! Tools: their traits, results, errors, and the context of a call.
//!
//! A [`Tool`] is typed. Code that runs tools uses `dyn` [`DynTool`], which every `Tool` implements.
//! A tool whose schema is only known at run time implements [`DynTool`] itself.

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

/// The arguments of a tool as a type, with their JSON Schema.
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
    /// Deserialization must accept exactly the values that are valid under the schema.
    fn schema() -> Cow<'static, str>;
}

/// The arguments of a tool without arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

impl ToolParams for NoParams {
    fn schema() -> Cow<'static, str> {
        r#"{"type":"object","properties":{},"additionalProperties":false}"#.into()
    }
}

/// Declared effects of a tool. For foreign tools they are hints, not facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolTraits {
    /// It changes nothing. Only such tools may run in parallel.
    pub read_only: bool,
    /// Repeating a call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It may destroy data.
    pub destructive: bool,
}

impl ToolTraits {
    /// Declares that the tool changes nothing, so repeating a call changes nothing either.
    pub const READ_ONLY: Self = Self { read_only: true, idempotent: true, destructive: false };

    /// Returns the text for the model about a call that was started but not answered. `reason`
    /// continues the sentence, as in `was cancelled`. `hint` is used only for read-only tools.
    ///
    /// ```
    /// use tract_core::ToolTraits;
    /// let text = ToolTraits::default().unanswered("pay", "was cancelled", None);
    /// assert!(text.starts_with("outcome unknown: tool \"pay\" was cancelled, and it may have run"));
    /// let text = ToolTraits::READ_ONLY.unanswered("read", "was cancelled", None);
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
    /// The type of the arguments.
    type Params: ToolParams;
    /// The type of the value that a call returns.
    type Output: Serialize + Send + Sync + 'static;

    /// Returns the name by which models call it.
    fn name(&self) -> Cow<'_, str>;

    /// Returns the description for models.
    fn description(&self) -> Cow<'_, str>;

    /// Returns the declared effects; none by default.
    fn traits(&self) -> ToolTraits {
        ToolTraits::default()
    }

    /// Returns the time limit of one call; by default only the deadline of the call applies.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns the text for the model of a value. `None`, the default, means its JSON.
    fn render(&self, value: &Self::Output) -> Option<String> {
        let _ = value;
        None
    }

    /// Returns the JSON Schema of its values; `None` by default. The outputs of examples in prompts
    /// are checked against it. Tools created by `#[tool]` return the schema of their result type,
    /// if that implements `JsonSchema`.
    fn output_schema(&self) -> Option<String> {
        None
    }

    /// Runs the tool.
    ///
    /// # Errors
    /// [`ToolError`] if it fails. For a failure with a value for the model, return an unsuccessful
    /// [`ToolResult`] instead.
    async fn call(
        &self,
        params: Self::Params,
        context: &ToolContext,
    ) -> Result<ToolResult<Self::Output>, ToolError>;
}

/// The advertised definition of a tool, and facts for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// The name by which models call it.
    pub name: String,
    /// The description for models.
    pub description: String,
    /// The JSON Schema of its arguments: the JSON text of an object.
    pub parameters: String,
    /// Its declared effects.
    pub traits: ToolTraits,
    /// Time limit of one call.
    pub timeout: Option<Duration>,
    /// The origin of a foreign tool; `None` for a tool of the program itself.
    pub origin: Option<ToolOrigin>,
}

/// The origin of a foreign tool. Approvals are bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOrigin {
    /// The label of the MCP server.
    pub server: String,
    /// The definition, as the server wrote it.
    pub definition: ToolSchema,
}

impl ToolOrigin {
    /// Creates an origin.
    pub fn new(server: impl Into<String>, definition: ToolSchema) -> Self {
        Self { server: server.into(), definition }
    }
}

impl ToolSpec {
    /// Creates the description of a tool without declared effects and without a timeout.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: parameters.into(),
            traits: ToolTraits::default(),
            timeout: None,
            origin: None,
        }
    }

    /// Returns the definition as committed: `{"name", "description", "parameters"}`, with the
    /// parameters unchanged.
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

/// A tool with type-erased arguments and results, for registries and dispatch.
///
/// The names of its methods differ from those of [`Tool`], so that both traits can be in scope.
#[async_trait]
pub trait DynTool: Send + Sync + 'static {
    /// Returns the advertised definition, and facts for the caller.
    fn spec(&self) -> ToolSpec;

    /// Checks without running the tool that its type accepts these arguments, given as JSON text. A
    /// tool without a type of its own accepts all arguments that fit its schema.
    ///
    /// # Errors
    /// [`ToolError::Validation`] if it does not accept them.
    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        let _ = arguments;
        Ok(())
    }

    /// Returns the JSON Schema of its result values, if it has one.
    fn result_schema(&self) -> Option<String> {
        None
    }

    /// Runs the tool with arguments given as JSON text.
    ///
    /// # Behavior
    /// - An empty or blank text means `{}`.
    /// - The result value is rendered for the model.
    ///
    /// # Errors
    /// [`ToolError::Validation`] if the arguments are not JSON of the right type;
    /// [`ToolError::Type`] if the value does not serialize to JSON; or else the error of the tool.
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
            let RenderedValue { json, text } = RenderedValue::of(&value)?;
            Ok(RenderedValue { json, text: self.render(&value).unwrap_or(text) })
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
