//! A server's tool: its definition as given, and a call.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use serde::Deserialize;
use tract_core::{
    DynTool, Limits, RenderedValue, ToolContext, ToolError, ToolOrigin, ToolResult, ToolSchema,
    ToolSpec, ToolTraits,
};
use tract_schema::ToolView;
use tract_tools::Registry;
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
    /// Whether it may have changed since it was listed.
    may_change: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
}

impl McpTool {
    /// Reads a definition; returns the reason if it is invalid.
    pub(crate) fn new(server: &McpServer, definition: ToolSchema) -> Result<Self, String> {
        let Ok(view) = ToolView::parse(definition.text()) else {
            return Err("no JSON object".to_owned());
        };
        if view.name.is_empty() {
            return Err("expected a name, found none".to_owned());
        }
        let Some(parameters) = view.parameters.filter(|raw| raw.starts_with('{')) else {
            return Err("expected \"inputSchema\" as an object, found none".to_owned());
        };
        // A definition that a store rejects would prevent all others from being recorded.
        let limits = Limits::default();
        let checked = limits.check_tool_name(&view.name);
        let checked = checked.and_then(|()| limits.check_schema(definition.text().len()));
        checked.map_err(|error| error.to_string())?;
        // A definition that a registry rejects would prevent all others from being used.
        let registry = Registry::builder().definition(definition.text()).build();
        registry.map_err(|error| error.to_string())?;
        let description = view.description.and_then(|raw| serde_json::from_str(raw).ok());
        let hints = view.other("annotations").and_then(|raw| serde_json::from_str(raw).ok());
        Ok(Self {
            name: view.name.clone(),
            description: description.unwrap_or_default(),
            parameters: parameters.to_owned(),
            traits: traits(hints.unwrap_or_default(), server.options().trust_annotations),
            server: server.clone(),
            refused: None,
            may_change: false,
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

    /// Binds it to its approval: a call is refused, before it is sent to the server, unless the
    /// policy allows tools with this status.
    #[must_use]
    pub fn pinned(mut self, pins: &Pins, policy: PinPolicy) -> Self {
        let status = pins.status_of(self.server.identity(), &self.definition);
        self.refused = policy.refusal(&status);
        self.may_change = policy == PinPolicy::TellOnly;
        self
    }

    /// Calls it and gives all that the server answered.
    ///
    /// # Behavior
    /// - Where the server was started again, or said that its tools changed, it lists them first. A
    ///   tool whose definition is not the one that was listed to us before is not called, unless it is
    ///   [pinned](Self::pinned) under [`PinPolicy::TellOnly`].
    ///
    /// # Errors
    /// [`McpError`]; [`McpError::ToolChanged`] and [`McpError::ToolGone`], when nothing was called.
    pub async fn call(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<crate::CallResult, McpError> {
        let bound = (!self.may_change).then_some(&self.definition);
        self.server.call_as(self.origin(), bound, arguments, context).await
    }
}

/// Annotations of a server restrict; they promise something only where the server is trusted.
fn traits(hints: Hints, trusted: bool) -> ToolTraits {
    let reads = trusted && hints.read_only_hint == Some(true);
    let repeats = trusted && hints.idempotent_hint == Some(true);
    // Absent means destructive, unless it is said to read only.
    let destroys = !trusted || hints.destructive_hint.unwrap_or(!reads);
    ToolTraits { read_only: reads, idempotent: reads || repeats, destructive: destroys }
}

#[async_trait]
impl DynTool for McpTool {
    fn spec(&self) -> ToolSpec {
        let origin = ToolOrigin::new(self.server.identity(), self.definition.clone());
        ToolSpec {
            traits: self.traits,
            origin: Some(origin),
            ..ToolSpec::new(&*self.name, &*self.description, &*self.parameters)
        }
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
pub fn distinct_names(tools: Vec<McpTool>) -> Vec<McpTool> {
    distinct_names_besides(tools, [])
}

/// As [`distinct_names`], in a program that has tools of its own with these names.
pub fn distinct_names_besides<'a>(
    mut tools: Vec<McpTool>,
    own: impl IntoIterator<Item = &'a str>,
) -> Vec<McpTool> {
    let mut times: HashMap<String, usize> = HashMap::new();
    for tool in &tools {
        *times.entry(tool.name.clone()).or_default() += 1;
    }
    let own: HashSet<&str> = own.into_iter().collect();
    let is_free = |name: &str, times: &HashMap<String, usize>| {
        times.get(name) == Some(&1) && !own.contains(name)
    };
    let mut taken: HashSet<String> = times.keys().cloned().collect();
    taken.extend(own.iter().map(|name| (*name).to_owned()));
    for tool in &mut tools {
        if is_free(&tool.name, &times) {
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
