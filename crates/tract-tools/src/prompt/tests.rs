use serde::Serialize;
use tract_core::{DynTool, RenderedValue, ToolContext, ToolError, ToolResult, ToolSpec, block_on};

use super::*;
use crate::session::Session;
use crate::typed::ClosureTool;

struct Named(&'static str);

#[async_trait::async_trait]
impl DynTool for Named {
    fn spec(&self) -> ToolSpec {
        let schema = r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}"#;
        ToolSpec::new(self.0, "Looks something up.", schema)
    }

    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        if arguments.contains("\"id\"") {
            Ok(())
        } else {
            Err(ToolError::validation("expected an id"))
        }
    }

    async fn run(&self, _: &str, _: &ToolContext) -> Result<ToolResult<RenderedValue>, ToolError> {
        Ok(ToolResult::done("found"))
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct Fixture {
    city: String,
    seats: u8,
    motto: Option<String>,
}

fn desk() -> Fixture {
    Fixture { city: "Köln".into(), seats: 3, motto: None }
}

fn tree() -> Prompt {
    Prompt::builder("tests", "tree")
        .section(
            Section::new("a", "First", "\n    Seats: ${seats}\n      in ${city}${motto}.\n    ")
                .params::<Fixture>()
                .tool(Named("one"))
                .child(Section::new("b", "Below", "Costs $5, $${kept}.").tool(Named("two"))),
        )
        .section(
            Section::new("off", "Off", "never")
                .enabled_if(|_| false)
                .tool(Named("three"))
                .child(Section::new("below", "Below off", "never").tool(Named("four"))),
        )
        .section(
            Section::new("long", "Long", "All of it.")
                .summary("In short.")
                .tool(Named("five"))
                .child(Section::new("deep", "Deep", "Deeper.").tool(Named("six"))),
        )
        .build()
        .unwrap()
}

fn names(rendered: &RenderedPrompt) -> Vec<String> {
    rendered.tools().iter().map(|tool| tool.spec().name).collect()
}

#[test]
fn sections_are_numbered_and_rendered_depth_first() {
    let rendered = tree().render(&Bindings::new().bind(&desk()).unwrap()).unwrap();
    assert_eq!(
        rendered.text(),
        "## 1. First (a)\n\nSeats: 3\n  in Köln.\n\n### 1.1. Below (a.b)\n\nCosts $5, ${kept}.\n\n\
         ## 3. Long (long)\n\nIn short.\n\n\
         [This is a summary. Call `open_sections` with [\"long\"] to read all of it.]"
    );
    assert_eq!(names(&rendered), ["one", "two", "open_sections"]);
    assert_eq!(rendered.unavailable(), ["three", "four", "five", "six"]);
    assert_eq!(rendered.collapsed(), ["long"]);
    assert!(rendered.registry().build().is_ok());
    assert_eq!(rendered.schemas().unwrap().len(), 3);
}

#[test]
fn a_section_is_opened_with_those_that_contain_it() {
    let bindings = Bindings::new().bind(&desk()).unwrap().open(["long.deep"]);
    let rendered = tree().render(&bindings).unwrap();
    assert!(rendered.text().ends_with("All of it.\n\n### 3.1. Deep (long.deep)\n\nDeeper."));
    assert_eq!(names(&rendered), ["one", "two", "five", "six"]);
    let unknown = tree().render(&bindings.open(["lon"])).unwrap_err();
    assert_eq!(unknown, RenderError::UnknownSection { path: "lon".into() });
}

#[test]
fn the_expand_tool_asks_for_sections() {
    let rendered = tree().render(&Bindings::new().bind(&desk()).unwrap()).unwrap();
    let open = rendered.tools().last().unwrap();
    let run = |arguments: &str| block_on(open.run(arguments, &ToolContext::new("c"))).unwrap_err();
    match run(r#"{"sections":["long"],"reason":"to see"}"#) {
        ToolError::VisibilityExpansion { sections, .. } => assert_eq!(sections, ["long"]),
        error => panic!("{error:?}"),
    }
    for (arguments, word) in [
        (r#"{"sections":["lng"]}"#, "did you mean \"long\"?"),
        (r#"{"sections":["a"]}"#, "shown in full already"),
        (r#"{"sections":[]}"#, "at least one"),
    ] {
        let error = run(arguments);
        assert!(error.model_text().contains(word), "{error:?}");
        assert!(!error.ends_evaluation());
    }
}

#[test]
fn enablement_may_ask_values_and_session() {
    let prompt = Prompt::builder("tests", "when")
        .section(
            Section::new("few", "Few", "few")
                .enabled_if(|bound| bound.get::<Fixture>().is_some_and(|desk| desk.seats < 5)),
        )
        .section(
            Section::new("s", "S", "session").enabled_if(|bound| bound.get_session().is_some()),
        )
        .build()
        .unwrap();
    let both = Bindings::new().bind_shared(desk().into()).unwrap().session(&Session::new());
    assert_eq!(prompt.render(&both).unwrap().text().matches("##").count(), 2);
    assert_eq!(prompt.render(&Bindings::new()).unwrap().text(), "");
}

#[test]
fn headings_end_at_the_sixth_level() {
    let section = |n: usize| Section::new(format!("s{n}"), "S", "");
    let deep = (0..7).rev().fold(section(7), |child, n| section(n).child(child));
    let prompt = Prompt::builder("n", "k").section(deep).build().unwrap();
    let rendered = prompt.render(&Bindings::new()).unwrap();
    let levels: Vec<usize> = rendered
        .text()
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.chars().take_while(|sign| *sign == '#').count())
        .collect();
    assert_eq!(levels, [2, 3, 4, 5, 6, 6, 6, 6]);
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let bad = ExampleText::new("", &serde_json::json!({"x": 1}), "y").unwrap();
    let error = Prompt::builder("", "k")
        .section(Section::new("Bad", " ", "${citi}").params::<Fixture>().tool(Named("twice")))
        .section(Section::new("x", "X", "${any}").tool(Named("t o")).example(bad))
        .section(
            Section::new("x", "X", "")
                .visibility(Visibility::Summary)
                .enabled_if(|_| false)
                .child(Section::new("y", "Y", "").tool(Named("twice")).tool(Named(OPEN_SECTIONS))),
        )
        .build()
        .unwrap_err();
    let text = error.to_string();
    for part in [
        "expected a namespace",
        "found \"Bad\"",
        "section Bad: expected a title",
        "found ${citi}; did you mean ${city}?",
        "section x: expected a field of its parameters, found ${any}",
        "providers refuse the tool name \"t o\"",
        "an example of \"t o\" does not fit: expected a description of 1 to 200 characters, found 0",
        "an example of \"t o\" does not fit: expected an id",
        "section x: expected one section of this path",
        "section x: expected a summary",
        "expected one tool named \"twice\", found it in Bad, x.y",
        "expected one tool named \"open_sections\"",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert_eq!(error.0.len(), 12);
}

#[test]
fn parameters_are_bound_once_and_have_to_be() {
    let bound = Bindings::new().bind(&desk()).unwrap();
    assert!(matches!(bound.bind(&desk()), Err(BindError::Twice { .. })));
    assert!(matches!(Bindings::new().bind(&3), Err(BindError::NoObject { .. })));
    let error = tree().render(&Bindings::new()).unwrap_err();
    assert!(error.to_string().contains("Fixture"), "{error}");
}

#[test]
fn examples_are_in_their_section() {
    let example =
        ExampleText::new("by id", &serde_json::json!({"id": "7"}), "a ``` in it").unwrap();
    let prompt = Prompt::builder("tests", "examples")
        .section(Section::new("g", "G", "Text.").tool(Named("look")).example(example))
        .build()
        .unwrap();
    assert_eq!(
        prompt.render(&Bindings::new()).unwrap().text(),
        "## 1. G (g)\n\nText.\n\nExample of `look`: by id\n\ninput:\n````\n{\"id\":\"7\"}\n````\n\n\
         output:\n````\na ``` in it\n````"
    );
}

#[test]
fn overrides_count_only_for_what_they_were_written_for() {
    let prompt = tree();
    let mut overrides = Overrides::default();
    let section = |hash: String, body: &str| SectionOverride { hash, body: body.to_owned() };
    let hash = |path: &str| prompt.section_hash(path).unwrap();
    overrides.sections.insert("a".into(), section(hash("a"), "Other ${city}."));
    overrides.sections.insert("a.b".into(), section(hash("a"), "stale"));
    overrides.sections.insert("gone".into(), section(hash("a"), "gone"));
    overrides.sections.insert("long".into(), section(hash("long"), "${nothing}"));
    let tool = |hash: String, parameter: &str| ToolOverride {
        hash,
        description: Some("Other words.".into()),
        parameters: BTreeMap::from([(parameter.to_owned(), "The number.".to_owned())]),
        examples: None,
    };
    overrides.tools.insert("one".into(), tool(prompt.tool_hash("one").unwrap(), "id"));
    overrides.tools.insert("two".into(), tool(prompt.tool_hash("two").unwrap(), "no"));
    overrides.tools.insert("five".into(), tool("00".into(), "id"));
    let faults = prompt.check_overrides(&overrides).unwrap_err();
    let messages: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 5, "{messages:?}");
    for (name, word) in [
        ("a.b", "written for"),
        ("gone", "no longer exists"),
        ("long", "${nothing}"),
        ("two", "found \"no\""),
        ("five", "written for 00"),
    ] {
        let found = faults.iter().find(|fault| fault.name == name).unwrap().to_string();
        assert!(found.contains(word), "{found}");
    }

    let before = prompt.tool_hash("one").unwrap();
    let (changed, skipped) = prompt.with_overrides(&overrides);
    assert_eq!(skipped, faults);
    let rendered = changed.render(&Bindings::new().bind(&desk()).unwrap()).unwrap();
    assert!(rendered.text().contains("Other Köln.") && rendered.text().contains("Costs $5"));
    let spec = rendered.tools()[0].spec();
    assert_eq!(spec.description, "Other words.");
    assert!(spec.parameters.contains(r#""description":"The number.""#));
    assert!(spec.parameters.contains(r#""required":["id"]"#), "the schema stays");
    assert_ne!(changed.tool_hash("one").unwrap(), before);
    assert_eq!(names(&rendered)[0], "one");

    let closed = Prompt::builder("t", "t")
        .section(Section::new("a", "A", "text").tool(Named("one")).without_overrides())
        .build()
        .unwrap();
    let mut overrides = Overrides::default();
    overrides.sections.insert("a".into(), section(closed.section_hash("a").unwrap(), "x"));
    overrides.tools.insert("one".into(), tool(closed.tool_hash("one").unwrap(), "id"));
    let faults = closed.check_overrides(&overrides).unwrap_err();
    assert!(faults.iter().all(|fault| fault.fault == OverrideFault::Closed) && faults.len() == 2);
    let text = serde_json::to_string(&overrides).unwrap();
    assert_eq!(serde_json::from_str::<Overrides>(&text).unwrap(), overrides);

    // One tool keeps its texts, the other one and the section do not.
    let section = Section::new("a", "A", "text").tool(Named("one")).tool_without_overrides();
    let half = Prompt::builder("t", "t").section(section.tool(Named("two"))).build().unwrap();
    let mut overrides = Overrides::default();
    for name in ["one", "two"] {
        overrides.tools.insert(name.into(), tool(half.tool_hash(name).unwrap(), "id"));
    }
    let faults = half.check_overrides(&overrides).unwrap_err();
    assert_eq!((faults.len(), faults[0].name.as_str()), (1, "one"));
    assert_eq!(faults[0].fault.to_string(), "it accepts no overrides");
}

/// A tool of a server: it has a schema, and no type.
fn remote() -> ClosureTool {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let done = || std::future::ready(Ok(ToolResult::<()>::done("done")));
    ClosureTool::new(ToolSpec::new("remote", "Is elsewhere.", schema), move |_, _| done())
}

#[cfg(feature = "validate")]
#[test]
fn examples_of_a_tool_without_a_type_are_held_against_its_schema() {
    let built = |input: serde_json::Value| {
        let example = ExampleText::new("An example.", &input, "done").expect("it is JSON");
        let section = Section::new("s", "S", "Text.").tool(remote()).example(example);
        Prompt::builder("tests", "examples").section(section).build()
    };
    assert!(built(serde_json::json!({"n": 1})).is_ok());
    let error = built(serde_json::json!({"n": "one"})).expect_err("it is no integer");
    assert!(matches!(&error.0[..], [PromptFault::BadExample { .. }]), "{error}");
    assert!(error.to_string().contains("expected an integer"), "{error}");
}

#[test]
fn an_example_before_any_tool_is_an_error() {
    let example = ExampleText::new("An example.", &serde_json::json!({}), "done").expect("JSON");
    let section = Section::new("s", "S", "Text.").example(example).tool(remote());
    let error =
        Prompt::builder("tests", "stray").section(section).build().expect_err("no tool yet");
    assert_eq!(error.0, [PromptFault::StrayExample { path: "s".to_owned() }]);
}
