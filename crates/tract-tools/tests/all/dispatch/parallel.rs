use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use tract_core::block_on;
use tract_tools::dispatch::{DispatchOptions, Dispatched, Outcome};
use tract_tools::policy::Sequential;
use tract_tools::{
    Call, CallContext, Dispatcher, Registry, ToolContext, ToolError, ToolTraits, Turn, tool,
};

use super::support::{Act, Gauge, Host, call, gauged, ids, outcomes};

#[test]
fn only_read_only_calls_run_in_parallel_within_limits_and_answers_keep_their_order() {
    let reading = [(8, 8, 6), (8, 2, 4), (8, 0, 2), (3, 8, 3), (1, 8, 1), (1, 1, 1), (0, 0, 1)];
    let reading = reading.map(|(all, of_one, expected)| (true, all, of_one, expected));
    for (read_only, all, of_one, expected) in reading.into_iter().chain([(false, 8, 8, 1)]) {
        let gauge = Gauge::default();
        let traits = if read_only { ToolTraits::READ_ONLY } else { ToolTraits::default() };
        let gauged = |name| gauged(name, traits, &gauge);
        let registry = Registry::builder().tool(gauged("a")).tool(gauged("b")).build().unwrap();
        let options = DispatchOptions {
            concurrent: all,
            concurrent_of_one_tool: of_one,
            ..DispatchOptions::default()
        };
        let dispatcher = Dispatcher { options, ..Dispatcher::new(Arc::new(registry)) };
        let calls: Vec<Call> = (0..6)
            .map(|n| {
                let name = if n % 2 == 0 { "a" } else { "b" };
                Call::new(format!("c{n}"), name, format!(r#"{{"polls":{}}}"#, 3 * (6 - n) + 2))
            })
            .collect();
        let done = block_on(dispatcher.run(calls, &Turn::default()));
        let texts: Vec<&str> = done.answers.iter().map(|answer| &*answer.text).collect();
        assert_eq!(texts, ["c0", "c1", "c2", "c3", "c4", "c5"]);
        assert_eq!(gauge.most.load(Ordering::SeqCst), expected, "{read_only} {all} {of_one}");
        if expected == 6 {
            assert_eq!(gauge.ended.lock().unwrap()[0], "c5", "they ended in another order");
        }
    }
}

#[test]
fn a_promise_to_read_only_is_held_to_on_the_filesystem() {
    /// Writes.
    #[tool(read_only)]
    async fn liar(context: &ToolContext) -> Result<(), ToolError> {
        let path = tract_tools::fs::FsPath::parse("readme.md")?;
        Ok(context.filesystem()?.write(&path, b"mine")?)
    }
    let (host, session) = Host::with_session();
    let registry = Registry::builder().tool(Liar).build().unwrap();
    let calls = vec![Call::new("c1", "liar", "{}"), Call::new("c2", "liar", "{}")];
    let done = block_on(Dispatcher::new(Arc::new(registry)).run(calls, &host.turn(&session)));
    assert_eq!(outcomes(&done), [Outcome::Failed, Outcome::Failed]);
    assert!(done.answers[0].text.contains("is read-only here"), "{}", done.answers[0].text);
    assert_eq!(host.all_files()["readme.md"], b"hello");
}

#[test]
fn a_hint_of_a_foreign_definition_only_restricts() {
    let (host, session) = Host::with_session();
    let text =
        r#"{"name":"look","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}"#;
    let definition = tract_schema::Definition::parse(text).unwrap();
    let tool = Arc::new(host.tool("look", ToolTraits::READ_ONLY));
    let registry = Registry::builder().import(None, definition, Some(tool)).build().unwrap();
    let done = block_on(
        Dispatcher::new(Arc::new(registry)).run(call("c1", "look", &Act::Ok), &host.turn(&session)),
    );
    let traits = done.answers[0].invoked.traits;
    assert!(traits.destructive && !traits.read_only, "{traits:?}");
}

#[test]
fn a_call_whose_policy_waits_for_its_neighbor_is_judged_after_it() {
    let (host, session) = Host::with_session();
    let reads = ToolTraits::READ_ONLY;
    let registry = Registry::builder()
        .tool(host.tool("search", reads))
        .tool(host.tool("open", reads))
        .build()
        .unwrap();
    let policy = Sequential::new().after("open", ["search"]);
    let dispatcher =
        Dispatcher { policies: vec![Arc::new(policy)], ..Dispatcher::new(Arc::new(registry)) };
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
    let (host, session) = Host::with_session();
    let options = DispatchOptions {
        attempts: 3,
        backoff: Duration::ZERO,
        concurrent,
        concurrent_of_one_tool: 3,
        ..DispatchOptions::default()
    };
    let dispatcher = Dispatcher { options, ..host.dispatcher() };
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
            let all: Vec<String> = (0..calls.len()).map(|n| format!("c{n}")).collect();
            prop_assert_eq!(ids(done, |_| true), all);
            let executed = done.answers.iter().position(|a| a.outcome() == Outcome::NotExecuted);
            if let Some(first) = executed {
                prop_assert!(done.answers[first..].iter().all(|a| a.outcome() == Outcome::NotExecuted));
                prop_assert_eq!(done.ended.as_ref().unwrap().call_id(), format!("c{}", first - 1));
            }
        }
        prop_assert_eq!(&notes, &ids(&parallel, |answer| !answer.is_error));
        let answers_of = |done: &Dispatched| -> Vec<(String, Outcome)> {
            done.answers.iter().map(|a| (a.text.clone(), a.outcome())).collect()
        };
        prop_assert_eq!(answers_of(&parallel), answers_of(&serial));
        prop_assert_eq!((notes, files), (serial_notes, serial_files));
    }
}
