use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use tract_core::block_on;
use tract_tools::dispatch::{DispatchOptions, Dispatched, Outcome};
use tract_tools::policy::Sequential;
use tract_tools::{
    Call, Dispatcher, DynTool, Registry, RenderedValue, ToolContext, ToolError, ToolResult,
    ToolSpec, ToolTraits, Turn,
};

use super::support::{Act, Host, TestSession, call, outcomes, yield_once};

/// Counts how many of it run at a time, and takes a while.
struct Gauge {
    name: &'static str,
    traits: ToolTraits,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    ended: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl DynTool for Gauge {
    fn spec(&self) -> ToolSpec {
        let schema = r#"{"type":"object","properties":{"polls":{"type":"integer"}}}"#;
        ToolSpec::new(self.name, "Takes a while.", schema).traits(self.traits)
    }

    async fn run(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let arguments: serde_json::Value = serde_json::from_str(arguments)?;
        for _ in 0..arguments["polls"].as_u64().unwrap_or(0) {
            yield_once().await;
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.ended.lock().unwrap().push(context.call_id().to_owned());
        Ok(ToolResult::done(context.call_id()))
    }
}

#[test]
fn only_read_only_calls_run_in_parallel_within_limits_and_answers_keep_their_order() {
    let cases: [(bool, usize, usize, usize); 5] =
        [(true, 8, 8, 6), (true, 8, 2, 4), (true, 3, 8, 3), (true, 1, 8, 1), (false, 8, 8, 1)];
    for (read_only, all, of_one, expected) in cases {
        let (running, most, ended) = (Arc::default(), Arc::default(), Arc::default());
        let traits = if read_only { ToolTraits::new().read_only() } else { ToolTraits::new() };
        let gauge = |name| Gauge {
            name,
            traits,
            running: Arc::clone(&running),
            most: Arc::clone(&most),
            ended: Arc::clone(&ended),
        };
        let registry = Registry::builder().tool(gauge("a")).tool(gauge("b")).build().unwrap();
        let options = DispatchOptions::new().concurrent(all, of_one);
        let dispatcher = Dispatcher::new(Arc::new(registry)).options(options);
        let calls: Vec<Call> = (0..6)
            .map(|n| {
                let name = if n % 2 == 0 { "a" } else { "b" };
                Call::new(format!("c{n}"), name, format!(r#"{{"polls":{}}}"#, 3 * (6 - n) + 2))
            })
            .collect();
        let done = block_on(dispatcher.run(calls, &Turn::new()));
        let texts: Vec<&str> = done.answers.iter().map(|answer| &*answer.text).collect();
        assert_eq!(texts, ["c0", "c1", "c2", "c3", "c4", "c5"]);
        assert_eq!(most.load(Ordering::SeqCst), expected, "{read_only} {all} {of_one}");
        if expected == 6 {
            assert_eq!(ended.lock().unwrap()[0], "c5", "they ended in another order");
        }
    }
}

#[test]
fn a_promise_to_read_only_is_held_to_on_the_filesystem() {
    struct Liar;
    #[async_trait]
    impl DynTool for Liar {
        fn spec(&self) -> ToolSpec {
            ToolSpec::new("liar", "Writes.", r#"{"type":"object"}"#)
                .traits(ToolTraits::new().read_only())
        }

        async fn run(
            &self,
            _: &str,
            context: &ToolContext,
        ) -> Result<ToolResult<RenderedValue>, ToolError> {
            use tract_tools::CallContext;
            let path = tract_tools::fs::FsPath::parse("readme.md")?;
            context.filesystem()?.write(&path, b"mine")?;
            Ok(ToolResult::done("written"))
        }
    }
    let host = Host::new();
    let session = Arc::new(TestSession::new(&host));
    let registry = Registry::builder().tool(Liar).build().unwrap();
    let calls = vec![Call::new("c1", "liar", "{}"), Call::new("c2", "liar", "{}")];
    let done = block_on(Dispatcher::new(Arc::new(registry)).run(calls, &host.turn(&session)));
    assert_eq!(outcomes(&done), [Outcome::Failed, Outcome::Failed]);
    assert!(done.answers[0].text.contains("is read-only here"), "{}", done.answers[0].text);
    assert_eq!(host.all_files()["readme.md"], b"hello");
}

#[test]
fn a_hint_of_a_foreign_definition_only_restricts() {
    let host = Host::new();
    let session = Arc::new(TestSession::new(&host));
    let text =
        r#"{"name":"look","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}"#;
    let definition = tract_schema::Definition::parse(text).unwrap();
    let tool = Arc::new(host.tool("look", ToolTraits::new().read_only()));
    let registry = Registry::builder().import(None, definition, Some(tool)).build().unwrap();
    let done = block_on(
        Dispatcher::new(Arc::new(registry)).run(call("c1", "look", &Act::Ok), &host.turn(&session)),
    );
    let traits = done.answers[0].invoked.traits;
    assert!(traits.destructive && !traits.read_only, "{traits:?}");
}

#[test]
fn a_call_whose_policy_waits_for_its_neighbor_is_judged_after_it() {
    let host = Host::new();
    let session = Arc::new(TestSession::new(&host));
    let reads = ToolTraits::new().read_only();
    let registry = Registry::builder()
        .tool(host.tool("search", reads))
        .tool(host.tool("open", reads))
        .build()
        .unwrap();
    let dispatcher =
        Dispatcher::new(Arc::new(registry)).policy(Sequential::new().after("open", ["search"]));
    let calls = vec![call("c1", "search", &Act::Ok), call("c2", "open", &Act::Ok)];
    let done = block_on(dispatcher.run(calls, &host.turn(&session)));
    assert_eq!(outcomes(&done), [Outcome::Succeeded, Outcome::Succeeded]);
    let calls = vec![call("c3", "search", &Act::Other), call("c4", "open", &Act::Ok)];
    let fresh = host.turn(&session);
    let done = block_on(dispatcher.run(calls, &fresh));
    assert_eq!(outcomes(&done), [Outcome::Failed, Outcome::Denied], "a failed one does not count");
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Ok),
        3 => (0..5_usize).prop_map(|polls| Act::Slow { polls }),
        1 => Just(Act::NotDone),
        1 => Just(Act::Validation),
        1 => Just(Act::Type),
        1 => Just(Act::Other),
        1 => Just(Act::Panic),
        1 => Just(Act::PerCall),
        1 => (0..4_u32).prop_map(|times| Act::Retryable { times }),
        1 => Just(Act::Evaluation),
        1 => Just(Act::Expansion),
    ]
}

fn dispatched(
    calls: &[(usize, Act, u8)],
    concurrent: usize,
) -> (Dispatched, Vec<String>, Vec<String>) {
    let host = Host::new();
    let session = Arc::new(TestSession::new(&host));
    let options = DispatchOptions::new().attempts(3, Duration::ZERO).concurrent(concurrent, 3);
    let dispatcher = host.dispatcher().options(options);
    let made = calls.iter().enumerate().map(|(n, (tool, act, broken))| {
        let name = ["look", "look", "act", "put"][*tool % 4];
        match broken {
            0 => Call::new(format!("c{n}"), name, "{'do'"),
            1 => Call::new(format!("c{n}"), "nothing", "{}"),
            _ => call(&format!("c{n}"), name, act),
        }
    });
    let done = block_on(dispatcher.run(made.collect::<Vec<_>>(), &host.turn(&session)));
    (done, session.notes(), host.all_files().into_keys().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One answer for each call, always, in order; the state is that of the successes; and neither
    /// shows whether calls ran in parallel.
    #[test]
    fn there_is_one_answer_for_each_call_in_order(
        calls in prop::collection::vec((0..4_usize, acts(), 0..20_u8), 0..12)
    ) {
        let (parallel, notes, files) = dispatched(&calls, 8);
        let (serial, serial_notes, serial_files) = dispatched(&calls, 1);
        for done in [&parallel, &serial] {
            let ids: Vec<String> = done.answers.iter().map(|a| a.call_id.clone()).collect();
            prop_assert_eq!(ids, (0..calls.len()).map(|n| format!("c{n}")).collect::<Vec<_>>());
            let executed = done.answers.iter().position(|a| a.outcome() == Outcome::NotExecuted);
            if let Some(first) = executed {
                prop_assert!(done.answers[first..].iter().all(|a| a.outcome() == Outcome::NotExecuted));
                prop_assert_eq!(done.ended.as_ref().unwrap().call_id(), format!("c{}", first - 1));
            }
        }
        let good: Vec<String> =
            parallel.answers.iter().filter(|a| !a.is_error).map(|a| a.call_id.clone()).collect();
        prop_assert_eq!(&notes, &good);
        let told = |done: &Dispatched| -> Vec<(String, Outcome)> {
            done.answers.iter().map(|a| (a.text.clone(), a.outcome())).collect()
        };
        prop_assert_eq!(told(&parallel), told(&serial));
        prop_assert_eq!((notes, files), (serial_notes, serial_files));
    }
}
