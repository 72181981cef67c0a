use std::sync::Arc;
use std::time::Duration;

use tract_core::{DynTool, Tool, ToolContext, ToolError, ToolResult, block_on};
use tract_tools::{ToolInstance, tool, tool_type};

/// Translates a text
/// into another language.
///
/// Nothing of this second paragraph is said.
///
/// # Arguments
/// - text: the text
///   to translate
/// - to: the language
#[tool(read_only, timeout_ms = 1500)]
async fn translate(text: String, #[tool(default = "fr".into())] to: String) -> String {
    format!("{text} in {to}")
}

/// Says who calls.
#[tool(name = "who-calls", idempotent)]
async fn who(context: &ToolContext) -> Result<ToolResult<String>, ToolError> {
    context.check()?;
    Ok(ToolResult {
        message: "the call".to_owned(),
        ..ToolResult::ok(context.call_id().to_owned())
    })
}

/// Divides.
#[tool(description = "Divides two numbers.", type = Division)]
pub(crate) async fn divide(
    /// What is divided.
    /// It may be zero.
    a: f64,
    b: f64,
    _context: ToolContext,
) -> Result<f64, String> {
    if b == 0.0 { Err("expected a divisor, found zero".to_owned()) } else { Ok(a / b) }
}

/// Does nothing.
#[tool]
async fn nothing() {}

/// Reads a file that is not there.
#[tool(destructive)]
async fn broken() -> std::io::Result<ToolResult<()>> {
    Err(std::io::Error::other("disk is gone"))
}

/// Takes names that ours could be confused with.
#[tool]
async fn params(given: u8, context: u8, params: u8, mut r#type: u8) -> ToolResult<u8> {
    r#type += given + context + params;
    ToolResult { exclude_value_from_context: true, ..ToolResult::ok(r#type) }
}

/// How much of something there is.
#[derive(serde::Serialize)]
struct Amount {
    grams: u32,
}

impl tract_tools::typed::RenderableResult for Amount {
    fn render(&self) -> String {
        format!("{} g", self.grams)
    }
}

/// Weighs, without waiting for anything.
#[tool]
fn weigh(grams: u32) -> Result<Amount, String> {
    match grams {
        0 => Err("nothing to weigh".to_owned()),
        grams => Ok(Amount { grams }),
    }
}

/// Weighs.
#[tool]
struct Scale {
    grams: u32,
}

impl Scale {
    async fn run(self) -> ToolResult<Amount> {
        ToolResult::ok(Amount { grams: self.grams })
    }
}

#[test]
fn a_plain_function_is_a_tool_and_results_render_themselves() {
    assert_eq!(answer(&Weigh, r#"{"grams":3}"#), "3 g");
    assert_eq!(answer(&Weigh, r#"{"grams":0}"#), "other: nothing to weigh");
    assert_eq!(answer(&Scale::tool(), r#"{"grams":4}"#), "4 g");
}

/// Searches notes.
#[tool(read_only)]
#[derive(Debug, PartialEq)]
struct SearchNotes {
    /// What to look for.
    query: String,
    #[serde(default = "ten")]
    limit: u8,
}

fn ten() -> u8 {
    10
}

impl SearchNotes {
    async fn run(self, context: &ToolContext) -> Result<Vec<String>, ToolError> {
        context.check()?;
        Ok(vec![self.query; usize::from(self.limit)])
    }
}

/// Counts down.
#[tool(name = "count")]
pub(crate) struct CountDown {
    from: u8,
}

impl CountDown {
    async fn run(self) -> ToolResult<u8> {
        ToolResult { message: "counted".to_owned(), ..ToolResult::ok(self.from) }
    }
}

/// Fails.
#[tool]
struct Fail {}

#[tool_type]
#[derive(Clone, Copy)]
enum Mood {
    Good,
}

impl Fail {
    async fn run(self, _: ToolContext) -> Result<ToolResult<()>, std::fmt::Error> {
        let Mood::Good = Mood::Good;
        Err(std::fmt::Error)
    }
}

/// Greets.
#[tool]
struct Greet {
    name: String,
}

impl Greet {
    async fn run(self) -> String {
        std::future::ready(()).await;
        format!("hello {}", self.name)
    }
}

#[track_caller]
fn answer(tool: &dyn DynTool, arguments: &str) -> String {
    match block_on(tool.run(arguments, &ToolContext::new("c1"))) {
        Ok(result) => result.model_text(),
        Err(error) => format!("{}: {}", error.code(), error.model_text()),
    }
}

#[test]
fn a_function_is_a_tool() {
    assert_eq!(answer(&Translate, r#"{"text":"moon"}"#), "moon in fr");
    assert_eq!(answer(&Translate, r#"{"text":"moon","to":"es"}"#), "moon in es");
    // The function is as it was.
    assert_eq!(block_on(translate("a".into(), "b".into())), "a in b");
    let spec = Translate.spec();
    assert_eq!(spec.name, "translate");
    assert_eq!(spec.description, "Translates a text into another language.");
    assert!(spec.traits.read_only && spec.traits.idempotent && !spec.traits.destructive);
    assert_eq!(spec.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(
        spec.parameters,
        r#"{"type":"object","properties":{"text":{"type":"string","description":"the text to translate"},"to":{"type":"string","description":"the language","default":"fr"}},"required":["text"],"additionalProperties":false}"#
    );
}

#[test]
fn a_context_comes_by_reference_or_value_or_not_at_all() {
    assert_eq!(answer(&Who, ""), "the call\n\nc1");
    assert_eq!(Who.spec().name, "who-calls");
    assert!(Who.spec().traits.idempotent && !Who.spec().traits.read_only);
    assert_eq!(answer(&Division, r#"{"a":1,"b":2}"#), "0.5");
    assert_eq!(answer(&Nothing, "{}"), "");
    assert_eq!(
        Nothing.spec().parameters,
        r#"{"type":"object","properties":{},"additionalProperties":false}"#
    );
}

#[test]
fn the_return_value_of_a_function_is_an_answer() {
    assert_eq!(answer(&Division, r#"{"a":1,"b":0}"#), "other: expected a divisor, found zero");
    assert!(Division.spec().parameters.contains("What is divided. It may be zero."));
    assert_eq!(answer(&Broken, "{}"), "other: disk is gone");
    assert!(Broken.spec().traits.destructive);
    let result = block_on(
        Params.run(r#"{"given":1,"context":2,"params":3,"type":4}"#, &ToolContext::new("c")),
    )
    .unwrap();
    assert_eq!(result.value.map(|value| value.text), Some("10".to_owned()));
}

#[test]
fn a_typed_call_needs_no_json() {
    let given = tract_tools::Args(TranslateParams { text: "a".into(), to: "b".into() });
    let result = block_on(Translate.call(given, &ToolContext::new("c1"))).unwrap();
    assert_eq!(result.value.as_deref(), Some("a in b"));
}

#[test]
fn a_struct_is_a_tool_and_its_values_are_calls() {
    let tool = SearchNotes::tool();
    assert_eq!(answer(&tool, r#"{"query":"x","limit":2}"#), r#"["x","x"]"#);
    let spec = tool.spec();
    assert_eq!(
        (spec.name.as_str(), spec.description.as_str()),
        ("search_notes", "Searches notes.")
    );
    assert!(spec.traits.read_only);
    let instance = tool.instantiate(r#"{"query":"moon"}"#).unwrap();
    assert_eq!(instance, SearchNotes { query: "moon".into(), limit: 10 });
    assert_eq!(answer(&CountDown::tool(), r#"{"from":3}"#), "counted\n\n3");
    assert_eq!(CountDown::tool().spec().name, "count");
    assert_eq!(answer(&Fail::tool(), ""), "other: an error occurred when formatting an argument");
    assert_eq!(answer(&<Greet as ToolInstance>::tool(), r#"{"name":"Ada"}"#), "hello Ada");
    assert_eq!(format!("{tool:?}"), r#"Instance("search_notes")"#);
}

#[test]
fn all_of_them_are_held_alike() {
    let tools: Vec<Arc<dyn DynTool>> =
        vec![Arc::new(Translate), Arc::new(SearchNotes::tool()), Arc::new(Nothing)];
    for tool in tools {
        tract_core::hash::tool_schema(&tool.spec().definition()).unwrap();
        assert!(answer(&*tool, r#"{"unheard":1}"#).starts_with("validation: "));
    }
}

#[test]
fn arguments_that_do_not_fit_say_where_and_how() {
    let error =
        block_on(SearchNotes::tool().run(r#"{"limit":999,"qery":"a"}"#, &ToolContext::new("c")))
            .unwrap_err();
    assert_eq!(
        error.model_text(),
        "expected a property `query`, found none\n\
         note: limit: expected at most 255, found 999\n\
         note: expected one of `query`, `limit`, found `qery`; did you mean `query`?"
    );
    let error = block_on(Translate.run(r#"{"text":1}"#, &ToolContext::new("c"))).unwrap_err();
    assert!(error.to_string().contains("text: expected a string, found 1"), "{error}");
    assert_eq!(error.code(), "validation");
    for broken in ["{", "[]", "\"x\"", "1", "null"] {
        assert!(answer(&SearchNotes::tool(), broken).starts_with("validation: "), "{broken}");
        assert!(answer(&Translate, broken).starts_with("validation: "), "{broken}");
    }
}
