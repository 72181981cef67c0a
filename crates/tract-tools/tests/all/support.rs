use std::future::ready;

use serde_json::Value;
use tract_testkit::data;
use tract_tools::typed::ClosureTool;
use tract_tools::{ToolResult, ToolSpec};

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
