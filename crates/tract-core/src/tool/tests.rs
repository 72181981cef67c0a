//! What tools, their results and their contexts promise.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::*;
use crate::block_on;
use crate::ports::ManualClock;

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    terms: Vec<f64>,
}

impl ToolParams for Sum {
    fn schema() -> Cow<'static, str> {
        r#"{"type":"object","properties":{"terms":{"type":"array","items":{"type":"number"}}},"required":["terms"],"additionalProperties":false}"#.into()
    }
}

struct Add {
    rendered: bool,
}

#[async_trait]
impl Tool for Add {
    type Params = Sum;
    type Output = f64;
    fn name(&self) -> Cow<'_, str> {
        "add".into()
    }
    fn description(&self) -> Cow<'_, str> {
        "Adds \"numbers\".".into()
    }
    fn traits(&self) -> ToolTraits {
        ToolTraits::READ_ONLY
    }
    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }
    fn render(&self, value: &f64) -> Option<String> {
        self.rendered.then(|| format!("= {value}"))
    }
    async fn call(&self, sum: Sum, _: &ToolContext) -> Result<ToolResult<f64>, ToolError> {
        Ok(ToolResult { message: "added".to_owned(), ..ToolResult::ok(sum.terms.iter().sum()) })
    }
}

#[test]
fn a_typed_tool_runs_as_an_object() {
    let tool: Box<dyn DynTool> = Box::new(Add { rendered: false });
    let result = block_on(tool.run(r#"{"terms":[1,2.5]}"#, &ToolContext::new("c1"))).unwrap();
    assert_eq!(result.model_text(), "added\n\n3.5");
    let shown: Box<dyn DynTool> = Box::new(Add { rendered: true });
    let result = block_on(shown.run(r#"{"terms":[]}"#, &ToolContext::new("c1"))).unwrap();
    assert_eq!(result.value.as_ref().map(|value| value.json.as_str()), Some("-0.0"));
    assert_eq!(result.model_text(), "added\n\n= -0");
}

#[test]
fn a_spec_is_the_definition_that_is_hashed() {
    let spec = Add { rendered: false }.spec();
    assert!(spec.traits.read_only && spec.traits.idempotent && !spec.traits.destructive);
    assert_eq!(spec.timeout, Some(Duration::from_secs(5)));
    let definition = spec.definition();
    assert!(
        definition.starts_with(r#"{"name":"add","description":"Adds \"numbers\".","parameters":{"#)
    );
    crate::hash::tool_schema(&definition).unwrap();
}

#[test]
fn arguments_that_do_not_fit_are_a_validation_error() {
    let tool = Add { rendered: false };
    for arguments in ["", "  ", "[1]", "{", r#"{"terms":"1"}"#, r#"{"terms":[],"more":1}"#] {
        let error = block_on(tool.run(arguments, &ToolContext::new("c1"))).unwrap_err();
        assert_eq!(error.code(), "validation", "{arguments}");
        assert!(!error.ends_evaluation());
        assert!(error.model_text().contains("note: "), "{arguments}");
    }
    // Empty text means an empty object, which a tool without arguments takes.
    parse_arguments::<NoParams>(" \n").unwrap();
    assert!(parse_arguments::<NoParams>(r#"{"x":1}"#).is_err());
}

#[test]
fn results_read_as_message_blank_line_value() {
    #[track_caller]
    fn check<T: serde::Serialize>(result: ToolResult<T>, expected: &str) {
        let rendered = result.try_map(|value| RenderedValue::of(&value)).unwrap();
        assert_eq!(rendered.model_text(), expected);
    }
    check(ToolResult::ok("plain \"text\"\n"), "plain \"text\"\n");
    check(ToolResult::ok(Vec::<u8>::new()), "[]");
    check(ToolResult { message: "nothing".to_owned(), ..ToolResult::ok(None::<u8>) }, "nothing");
    check(ToolResult { message: "one".to_owned(), ..ToolResult::ok(["é"]) }, "one\n\n[\"é\"]");
    check(
        ToolResult {
            message: "hidden".to_owned(),
            exclude_value_from_context: true,
            ..ToolResult::ok(1)
        },
        "hidden",
    );
    check(
        ToolResult { operator: Some("secret path".to_owned()), ..ToolResult::<u8>::error("no") },
        "no",
    );
    check(ToolResult { value: Some(2), ..ToolResult::error("half") }, "half\n\n2");
    check(ToolResult::from(7_u64), "7");
    // Numbers keep every digit and are never shown in Rust's debug form.
    check(ToolResult::ok(vec![u64::MAX]), "[18446744073709551615]");
    assert_eq!(RenderedValue::of(&f64::NAN).unwrap().text, ""); // serde writes null
    assert_eq!(
        RenderedValue::of(&std::collections::BTreeMap::from([((1, 2), 3)])).unwrap_err().code(),
        "type"
    );
}

#[test]
fn the_model_never_reads_what_is_for_the_operator() {
    let cause = std::io::Error::other("disk 7 is on fire");
    let error = ToolError::other("the search failed").operator("host db-3").caused_by(cause);
    assert_eq!(error.model_text(), "the search failed");
    assert_eq!(
        error.operator_text(),
        "other: the search failed; host db-3; caused by: disk 7 is on fire"
    );
}

#[test]
fn codes_are_stable_and_say_who_ends_the_evaluation() {
    let all = [
        (ToolError::validation("m"), "validation", false),
        (ToolError::visibility_expansion(["a"], "m"), "visibility_expansion", true),
        (ToolError::evaluation("m"), "evaluation", true),
        (ToolError::deadline_exceeded("m"), "deadline_exceeded", true),
        (ToolError::type_error("m"), "type", false),
        (ToolError::other("m"), "other", false),
    ];
    for (error, code, ends) in all {
        assert_eq!((error.code(), error.ends_evaluation()), (code, ends));
        assert_eq!(error.model_text(), "m");
    }
}

#[test]
fn cancelling_reaches_children_and_wakes_all_who_wait() {
    let parent = CancellationToken::new();
    let child = parent.child();
    let count = Arc::new(Counter(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut waits = pin!(child.cancelled());
    let mut also = pin!(parent.cancelled());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    assert!(also.as_mut().poll(&mut context).is_pending());
    {
        let mut gone = pin!(parent.cancelled());
        assert!(gone.as_mut().poll(&mut context).is_pending());
    }
    parent.cancel();
    parent.cancel();
    assert_eq!(count.0.load(Ordering::SeqCst), 2, "one wake each, none for who has gone");
    assert!(waits.as_mut().poll(&mut context).is_ready());
    assert!(also.as_mut().poll(&mut context).is_ready());
    assert!(parent.child().is_cancelled(), "a child made too late is cancelled at once");
}

#[test]
fn a_cancelled_child_leaves_its_parent_alone() {
    let parent = CancellationToken::new();
    let child = parent.child();
    child.cancel();
    assert!(child.is_cancelled() && !parent.is_cancelled());
    for _ in 0..1000 {
        drop(parent.child());
    }
    parent.cancel();
}

#[test]
fn a_context_judges_time_by_its_clock() {
    let clock = ManualClock::at_us(10);
    let context =
        ToolContext::new("c1").with_clock(Arc::new(clock.clone())).with_deadline_us(1_010);
    assert_eq!(context.remaining(), Some(Duration::from_millis(1)));
    context.check().unwrap();
    clock.set_us(5_000);
    assert_eq!(context.remaining(), Some(Duration::ZERO));
    assert_eq!(context.check().unwrap_err().code(), "deadline_exceeded");
    context.cancellation().cancel();
    assert_eq!(context.check().unwrap_err().code(), "evaluation");
    assert_eq!(ToolContext::new("c2").remaining(), None);
}

#[test]
fn resources_are_found_by_type_trait_objects_too() {
    trait Shelf: Send + Sync {
        fn books(&self) -> usize;
    }
    struct Small;
    impl Shelf for Small {
        fn books(&self) -> usize {
            3
        }
    }
    let shelf: Arc<dyn Shelf> = Arc::new(Small);
    let context = ToolContext::new("c1").with_shared_resource(shelf).with_resource(7_u32);
    assert_eq!(context.resource::<dyn Shelf>().unwrap().books(), 3);
    assert_eq!(*context.resource::<u32>().unwrap(), 7);
    assert!(context.optional_resource::<Small>().is_none());
    let missing = context.resource::<u64>().unwrap_err();
    assert!(!missing.model_text().contains("u64"));
    assert!(missing.operator_text().contains("u64"));
    // Lending more to a copy does not change the one that was copied.
    let richer = context.for_call("c2").with_resource(9_u32).with_resource(1_u64);
    assert_eq!((*richer.resource::<u32>().unwrap(), richer.call_id()), (9, "c2"));
    assert_eq!((*context.resource::<u32>().unwrap(), context.call_id()), (7, "c1"));
}

#[test]
fn progress_names_the_call() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let context = ToolContext::new("c1").with_progress(Arc::new(
        move |call: &str, line: std::fmt::Arguments<'_>| {
            sink.lock().unwrap().push(format!("{call}: {line}"));
        },
    ));
    context.progress(format_args!("{} of 10", 3));
    ToolContext::new("c2").progress(format_args!("no listener"));
    assert_eq!(*events.lock().unwrap(), ["c1: 3 of 10"]);
}
