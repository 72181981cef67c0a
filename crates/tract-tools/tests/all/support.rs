use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::Value;
use tract_core::{Body, Content, Part, Reply, ToolCall};
use tract_testkit::data;
use tract_tools::typed::ClosureTool;
use tract_tools::{Repair, RepairRequest, ToolError, ToolResult, ToolSpec};

/// A repair that always gives the same arguments.
pub(crate) struct Mend {
    arguments: String,
    pub(crate) calls: AtomicUsize,
}

impl Mend {
    pub(crate) fn new(arguments: impl Into<String>) -> Self {
        Self { arguments: arguments.into(), calls: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Repair for Mend {
    fn name(&self) -> &str {
        "test"
    }

    async fn repair(&self, request: &RepairRequest<'_>) -> Result<Option<String>, ToolError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(!request.errors.is_empty() && request.schema.is_some());
        Ok(Some(self.arguments.clone()))
    }
}

/// A reply with one call, `c1`.
pub(crate) fn reply_with_call(name: &str, arguments: &str) -> Reply {
    let (id, name, arguments) = ("c1".to_owned(), name.to_owned(), arguments.to_owned());
    let part = Part::ToolCall(ToolCall { id, name, arguments });
    Reply::new(Content::Assistant(Body { parts: vec![part], name: None }))
}

/// A tool that does nothing and says that it is done.
pub(crate) fn idle(spec: ToolSpec) -> ClosureTool {
    ClosureTool::new(spec, |_, _| ready(Ok(ToolResult::<()>::done("done"))))
}

pub(crate) fn lines(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(data::find(file).0).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
