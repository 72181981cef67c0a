//! A server's tool: its definition as given, and a call.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use serde::Deserialize;
use tract_core::{
    DynTool, RenderedValue, ToolContext, ToolError, ToolOrigin, ToolResult, ToolSchema, ToolSpec,
    ToolTraits,
};
use tract_schema::ToolView;
use tract_tools::pin::{PinPolicy, Pins};

use crate::error::McpError;
use crate::server::McpServer;

/// A tool of a server.
///
/// Its definition is what the server wrote, byte for byte, and so is its hash. It is a [`DynTool`]:
/// registries hold it and dispatch runs it like any other.
#[derive(Clone, Debug)]
pub struct McpTool {
    server: McpServer,
    definition: ToolSchema,
    /// The name that models call it by.
    name: String,
    description: String,
    parameters: String,
    traits: ToolTraits,
    refused: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
}

impl McpTool {
    /// Reads a definition; what is none comes back with the reason.
    pub(crate) fn new(
        server: &McpServer,
        definition: ToolSchema,
    ) -> Result<Self, (String, String)> {
        let refuse = |why: &str| Err((definition.text().to_owned(), why.to_owned()));
        let Ok(view) = ToolView::parse(definition.text()) else { return refuse("no JSON object") };
        if view.name.is_empty() {
            return refuse("expected a name, found none");
        }
        let Some(parameters) = view.parameters.filter(|raw| raw.starts_with('{')) else {
            return refuse("expected \"inputSchema\" as an object, found none");
        };
        let description = view.description.and_then(|raw| serde_json::from_str(raw).ok());
        let hints = view.other("annotations").and_then(|raw| serde_json::from_str(raw).ok());
        Ok(Self {
            name: view.name.clone(),
            description: description.unwrap_or_default(),
            parameters: parameters.to_owned(),
            traits: traits(hints.unwrap_or_default(), server.trusts_annotations()),
            server: server.clone(),
            refused: None,
            definition,
        })
    }

    /// Returns the definition as the server wrote it.
    pub fn definition(&self) -> &ToolSchema {
        &self.definition
    }

    /// Returns the server's own name for it.
    pub fn origin(&self) -> &str {
        self.definition.name()
    }

    /// Returns the name that models call it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its server.
    pub fn server(&self) -> &McpServer {
        &self.server
    }

    /// Sets the name that models call it by.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Binds it to what was approved: a call is refused, before the server hears of it, unless the
    /// policy lets a tool of this standing run.
    #[must_use]
    pub fn pinned(mut self, pins: &Pins, policy: PinPolicy) -> Self {
        let standing = pins.standing(self.server.label(), &self.definition);
        self.refused = policy.refusal(&standing);
        self
    }

    /// Calls it and gives all that the server answered.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn call(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<crate::CallResult, McpError> {
        self.server.call(self.origin(), arguments, context).await
    }
}

/// Annotations of a server restrict; they promise something only where the server is trusted.
fn traits(hints: Hints, trusted: bool) -> ToolTraits {
    let reads = trusted && hints.read_only_hint == Some(true);
    let repeats = trusted && hints.idempotent_hint == Some(true);
    // Absent means destructive, unless it is said to read only.
    let destroys = match (hints.destructive_hint, trusted) {
        (Some(true), _) => true,
        (Some(false), true) => false,
        (Some(false), false) | (None, false) => true,
        (None, true) => !reads,
    };
    let mut traits = ToolTraits::new();
    if reads {
        traits = traits.read_only();
    }
    if repeats {
        traits = traits.idempotent();
    }
    if destroys {
        traits = traits.destructive();
    }
    traits
}

#[async_trait]
impl DynTool for McpTool {
    fn spec(&self) -> ToolSpec {
        let origin = ToolOrigin::new(self.server.label(), self.definition.clone());
        ToolSpec::new(&*self.name, &*self.description, &*self.parameters)
            .traits(self.traits)
            .origin(origin)
    }

    async fn run(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        if let Some(why) = &self.refused {
            let message = format!("tool {:?} may not run: {why}", self.name);
            return Err(ToolError::other(message)
                .note("use another tool")
                .operator("approve it with: tract tools trust"));
        }
        context.check()?;
        match self.call(arguments, context).await {
            Ok(result) => result.into_tool_result(),
            Err(error) => {
                // The call's own deadline may be what was too short.
                context.check()?;
                Err(error.into_tool_error())
            }
        }
    }
}

/// Gives the tools of several servers names of their own: of those that share a name each is called
/// `label__name`, and those that still share one get a number.
///
/// A tool's own name stays in [`McpTool::origin`], so a call finds its way back.
pub fn distinct_names(mut tools: Vec<McpTool>) -> Vec<McpTool> {
    let mut times: HashMap<String, usize> = HashMap::new();
    for tool in &tools {
        *times.entry(tool.name.clone()).or_default() += 1;
    }
    let mut taken: HashSet<String> =
        times.iter().filter(|(_, times)| **times == 1).map(|(name, _)| name.clone()).collect();
    for tool in &mut tools {
        if times.get(&tool.name) == Some(&1) {
            continue;
        }
        let long = format!("{}__{}", tool.server.label(), tool.name);
        let numbered = (2..).map(|number| format!("{long}_{number}"));
        let free = std::iter::once(long.clone()).chain(numbered).find(|name| !taken.contains(name));
        tool.name = free.expect("numbers do not end");
        taken.insert(tool.name.clone());
    }
    tools
}
