//! A model and tools that return recorded replies and results.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tract_core::{
    ActiveTool, ChatModel, Content, DynTool, Message, ModelError, ModelRequest, Reply, ToolContext,
    ToolError, ToolResult, ToolSpec, ToolTraits,
};
use tract_tools::typed::ClosureTool;
use tract_tools::{NoSchema, Registry};

use crate::error::Result;

/// One recorded reply and the results of its calls.
pub(super) struct Script {
    reply: Content,
    /// Results by the id of the call. An id may occur several times.
    results: Mutex<HashMap<String, VecDeque<ToolResult<()>>>>,
}

impl Script {
    pub(super) fn new(reply: Content, results: &[&Message]) -> Self {
        let mut by_id: HashMap<String, VecDeque<ToolResult<()>>> = HashMap::new();
        for result in results {
            if let Content::ToolResult(answer) = &result.content {
                let make = if answer.is_error { ToolResult::error } else { ToolResult::done };
                let given = make(result.content.text());
                by_id.entry(answer.call_id.clone()).or_default().push_back(given);
            }
        }
        Self { reply, results: Mutex::new(by_id) }
    }

    fn take(&self, call_id: &str) -> Result<ToolResult<()>, ToolError> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let given = results.get_mut(call_id).and_then(VecDeque::pop_front);
        given.ok_or_else(|| ToolError::other("there is no recorded result of this call"))
    }
}

#[async_trait]
impl ChatModel for Script {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        Ok(Reply { head: request.head, ..Reply::new(self.reply.clone()) })
    }
}

/// Returns the tools that were in force, each of which returns recorded results. If none are
/// recorded, creates one for each called name, which accepts all arguments.
pub(super) fn registry_of(
    tools: &[ActiveTool],
    reply: &Content,
    script: &Arc<Script>,
) -> Result<Registry> {
    let recorded = |name: &str| -> Arc<dyn DynTool> {
        // Returning a recorded result has no effect, so no start has to be recorded.
        let spec = ToolSpec { traits: ToolTraits::READ_ONLY, ..ToolSpec::new(name, "", "{}") };
        let script = Arc::clone(script);
        let run = move |_, context: ToolContext| ready(script.take(context.call_id()));
        Arc::new(ClosureTool::new(spec, run))
    };
    let mut builder = Registry::builder();
    let mut seen = BTreeSet::new();
    for tool in tools.iter().filter(|tool| seen.insert(tool.id)) {
        builder =
            builder.definition_with(&tool.schema, recorded(&tool.name)).no_schema(NoSchema::Full);
    }
    if tools.is_empty() {
        let names: BTreeSet<&str> = reply.calls().map(|call| call.name.as_str()).collect();
        for name in names {
            let open = ToolSpec::new(name, "Recorded.", r#"{"type":"object"}"#).definition();
            builder = builder.definition_with(&open, recorded(name));
        }
    }
    Ok(builder.build()?)
}
