//! Examples of prompts: what they say a call gives is what the tool gives.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use tract_core::{JsonText, ToolOrigin, ToolSchema};
use tract_tools::prompt::{ExampleText, Prompt, PromptError, Section};
use tract_tools::typed::{ClosureTool, RenderableResult};
use tract_tools::{DynTool, JsonSchema, ToolContext, ToolError, ToolResult, ToolSpec, tool};

use crate::support::idle;

#[derive(Serialize, JsonSchema)]
struct Bill {
    /// In cents.
    total: u32,
    lines: Vec<Line>,
}

#[derive(Serialize, JsonSchema)]
struct Line {
    item: String,
}

/// Adds up.
#[tool]
async fn add_up() -> Result<Bill, ToolError> {
    Ok(Bill { total: 0, lines: Vec::new() })
}

/// Adds up, with more to say.
#[tool]
async fn add_all() -> ToolResult<Bill> {
    ToolResult::ok(Bill { total: 0, lines: Vec::new() })
}

/// Adds up, as a struct.
#[tool]
struct AddFields {}

impl AddFields {
    async fn run(self, context: &ToolContext) -> Result<ToolResult<Bill>, ToolError> {
        context.check()?;
        Ok(ToolResult::ok(Bill { total: 0, lines: Vec::new() }))
    }
}

/// Greets.
#[tool]
fn greet() -> String {
    "hello".to_owned()
}

/// Has no schema.
#[derive(Serialize)]
struct Opaque(u32);

/// Gives something opaque.
#[tool]
fn give_opaque() -> Opaque {
    Opaque(1)
}

/// Gives something opaque, as a struct.
#[tool]
struct OpaqueFields {}

impl OpaqueFields {
    fn run(self) -> std::future::Ready<Result<Opaque, ToolError>> {
        std::future::ready(Ok(Opaque(1)))
    }
}

#[derive(Serialize, JsonSchema)]
struct Score {
    points: u32,
}

impl RenderableResult for Score {
    fn render(&self) -> String {
        format!("{} points", self.points)
    }
}

/// Counts points.
#[tool]
fn count() -> Score {
    Score { points: 3 }
}

/// A tool as a server lists it.
fn listed(definition: &str) -> ClosureTool {
    let origin = ToolOrigin::new("server", ToolSchema::parse(definition).unwrap());
    idle(ToolSpec {
        origin: Some(origin),
        ..ToolSpec::new("listed", "Lists.", r#"{"type":"object"}"#)
    })
}

fn example(output: impl Into<String>) -> ExampleText {
    ExampleText::new("The usual one", &json!({}), output).unwrap()
}

fn built(tool: Arc<dyn DynTool>, example: ExampleText) -> Result<Prompt, PromptError> {
    let section = Section::new("s", "S", "Text.").dyn_tool(tool).example(example);
    Prompt::builder("tests", "examples").section(section).build()
}

#[test]
fn an_output_that_does_not_fit_is_refused_with_example_path_and_what_was_expected() {
    let definition = r#"{"name":"listed","inputSchema":{"type":"object"},"outputSchema":{
        "type":"object","properties":{"total":{"type":"integer"},"lines":{"type":"array",
        "items":{"type":"object","properties":{"item":{"type":"string"}}}}},
        "required":["total"]}}"#;
    let tools: [Arc<dyn DynTool>; 4] = [
        Arc::new(AddUp),
        Arc::new(AddAll),
        Arc::new(AddFields::tool()),
        Arc::new(listed(definition)),
    ];
    let cases: [(Value, &str); 3] = [
        (json!({"total": "much", "lines": []}), "/total: expected an integer"),
        (json!({"total": 1, "lines": [{"item": 7}]}), "/lines/0/item: expected a string"),
        (json!({"lines": []}), "expected"),
    ];
    for tool in tools {
        let name = tool.spec().name;
        let fits = json!({"total": 7, "lines": [{"item": "tea"}]});
        built(Arc::clone(&tool), example(fits.to_string())).unwrap();
        for (output, why) in &cases {
            let error = built(Arc::clone(&tool), example(output.to_string())).unwrap_err();
            let text = error.to_string();
            for part in [&*format!("an example of {name:?}"), "output of \"The usual one\"", why] {
                assert!(text.contains(part), "{part:?} is missing in {text}");
            }
        }
        let prose = built(Arc::clone(&tool), example("much")).unwrap_err().to_string();
        assert!(prose.contains("/: expected an object"), "{prose}");
        assert!(prose.contains("ExampleText::value"), "the way out is missing in {prose}");
    }
}

#[test]
fn an_output_in_words_is_checked_by_the_value_that_it_shows() {
    let count = || Arc::new(Count);
    let words = |points: Value| {
        let value = JsonText::of(&json!({"points": points})).unwrap();
        ExampleText { value: Some(value), ..example("3 points") }
    };
    built(count(), words(json!(3))).unwrap();
    let error = built(count(), words(json!("three"))).unwrap_err().to_string();
    assert!(error.contains("/points: expected an integer"), "{error}");
    let typed = tract_tools::ToolExample::of(&Count, "Three", &json!({}), &Score { points: 3 });
    let typed = ExampleText::from(typed.unwrap());
    assert_eq!(typed.output, "3 points");
    built(count(), typed).unwrap();
}

/// Answers with nothing.
#[tool]
fn nothing() {}

#[test]
fn an_example_whose_output_is_its_json_is_stored_without_a_value() {
    let bill = Bill { total: 1, lines: Vec::new() };
    let typed = tract_tools::ToolExample::of(&AddUp, "One", &json!({}), &bill).unwrap();
    let text = ExampleText::from(typed);
    assert_eq!(
        serde_json::to_value(&text).unwrap(),
        json!({"description": "One", "input": {}, "output": r#"{"lines":[],"total":1}"#}),
    );
    built(Arc::new(AddUp), text).unwrap();
    let typed = tract_tools::ToolExample::of(&Nothing, "None", &json!({}), &()).unwrap();
    built(Arc::new(Nothing), typed.into()).unwrap();
    let error = built(Arc::new(Nothing), example("done")).unwrap_err().to_string();
    assert!(error.contains("expected null"), "{error}");
}

#[test]
fn texts_and_results_without_a_schema_are_shown_as_they_are() {
    for output in ["hello", "42", "{\"a\":1}", ""] {
        built(Arc::new(Greet), example(output)).unwrap();
        built(Arc::new(GiveOpaque), example(output)).unwrap();
        built(Arc::new(OpaqueFields::tool()), example(output)).unwrap();
        built(Arc::new(listed(r#"{"name":"listed","inputSchema":{}}"#)), example(output)).unwrap();
    }
}
