//! Tools that are made from a schema and a function at run time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use tract_core::{DynTool, RenderedValue, ToolContext, ToolError, ToolResult, ToolSpec};

use super::answer::Answer;

type Run = dyn Fn(Value, ToolContext) -> Pin<Box<dyn Future<Output = Answer<RenderedValue>> + Send>>
    + Send
    + Sync;

/// A tool made from a name, a schema and a function, for tools that are read from a file or
/// generated.
///
/// # Behavior
/// - The function receives the arguments as JSON. Hydration has validated them against the schema;
///   when the tool is run directly, they are only checked to be a JSON object.
///
/// ```
/// use tract_core::{DynTool, ToolContext, ToolResult, ToolSpec, block_on};
/// use tract_tools::typed::ClosureTool;
/// let schema = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;
/// let greet = ClosureTool::new(ToolSpec::new("greet", "Greets.", schema), |arguments, _| async move {
///     Ok(ToolResult::ok(format!("Hello, {}!", arguments["name"].as_str().unwrap_or("you"))))
/// });
/// let answer = block_on(greet.run(r#"{"name":"Ada"}"#, &ToolContext::new("c1")))?;
/// assert_eq!(answer.model_text(), "Hello, Ada!");
/// # Ok::<(), tract_core::ToolError>(())
/// ```
pub struct ClosureTool {
    spec: ToolSpec,
    run: Box<Run>,
}

impl ClosureTool {
    /// Creates a tool.
    pub fn new<F, R, T>(spec: ToolSpec, run: F) -> Self
    where
        F: Fn(Value, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolResult<T>, ToolError>> + Send + 'static,
        T: Serialize,
    {
        let run = move |arguments, context| {
            let answer = run(arguments, context);
            let rendered = async { answer.await?.try_map(|value| RenderedValue::of(&value)) };
            Box::pin(rendered) as Pin<Box<dyn Future<Output = Answer<RenderedValue>> + Send>>
        };
        Self { spec, run: Box::new(run) }
    }
}

impl fmt::Debug for ClosureTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClosureTool").field(&self.spec.name).finish()
    }
}

fn read(arguments: &str) -> Result<Value, ToolError> {
    let text = match arguments.trim() {
        "" => "{}",
        text => text,
    };
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(ToolError::validation("expected one JSON object, found another value")),
        Err(error) => Err(ToolError::validation(format!("expected one JSON object: {error}"))),
    }
}

#[async_trait]
impl DynTool for ClosureTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        read(arguments).map(drop)
    }

    async fn run(&self, arguments: &str, context: &ToolContext) -> Answer<RenderedValue> {
        (self.run)(read(arguments)?, context.clone()).await
    }
}
