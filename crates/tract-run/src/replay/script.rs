//! A model that says what was recorded, and tools that give what was recorded.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tract_core::{
    ActiveTool, ChatModel, Content, DynTool, Message, ModelError, ModelRequest, RenderedValue,
    Reply, ToolContext, ToolError, ToolResult, ToolSpec, ToolTraits,
};
use tract_tools::dispatch::Recorded;
use tract_tools::{NoSchema, Registry};

use crate::error::Result;

/// One recorded reply and the results of its calls.
pub(super) struct Script {
    reply: Content,
    /// By the id of the call; ids may be used again.
    results: Mutex<HashMap<String, VecDeque<Recorded>>>,
}

impl Script {
    pub(super) fn new(reply: Content, results: &[&Message]) -> Self {
        let mut by_id: HashMap<String, VecDeque<Recorded>> = HashMap::new();
        for result in results {
            if let Content::ToolResult(answer) = &result.content {
                let given = Recorded::new(result.content.text()).is_error(answer.is_error);
                by_id.entry(answer.call_id.clone()).or_default().push_back(given);
            }
        }
        Self { reply, results: Mutex::new(by_id) }
    }

    fn take(&self, call_id: &str) -> Option<Recorded> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.get_mut(call_id)?.pop_front()
    }
}

#[async_trait]
impl ChatModel for Script {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let reply = Reply::new(self.reply.clone());
        Ok(match request.head {
            Some(head) => reply.head(head),
            None => reply,
        })
    }
}

/// A tool that gives what was recorded.
struct ReplayedTool {
    name: String,
    script: Arc<Script>,
}

#[async_trait]
impl DynTool for ReplayedTool {
    fn spec(&self) -> ToolSpec {
        // Giving a recorded result changes nothing, so nothing has to be marked.
        ToolSpec::new(&self.name, "", "{}").traits(ToolTraits::new().read_only())
    }

    async fn run(
        &self,
        _: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        let given = self
            .script
            .take(context.call_id())
            .ok_or_else(|| ToolError::other("there is no recorded result of this call"))?;
        Ok(if given.is_error {
            ToolResult::error(given.text)
        } else {
            ToolResult::done(given.text)
        })
    }
}

/// The tools that were in force, each giving what was recorded. Where none were recorded there is
/// one for each name that is called, and it takes everything.
pub(super) fn registry_of(
    tools: &[ActiveTool],
    reply: &Content,
    script: &Arc<Script>,
) -> Result<Registry> {
    let recorded = |name: &str| -> Arc<dyn DynTool> {
        Arc::new(ReplayedTool { name: name.to_owned(), script: Arc::clone(script) })
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
