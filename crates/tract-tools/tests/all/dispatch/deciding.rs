use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tract_core::{ToolSchema, ToolTraits, Usage, block_on};
use tract_hooks::{AnyAction, AnyEvent, BeforeDispatch, DispatchAction, Hooks};
use tract_tools::budget::{Budget, BudgetTracker, Dimension};
use tract_tools::dispatch::{
    Approval, Approvals, CallKey, CallStart, Cause, DispatchStage, Journal, Outcome, Recorded,
    Start, TurnError,
};
use tract_tools::pin::{Pin, PinPolicy, Pins};
use tract_tools::policy::{
    ApprovalRequired, Decision, PastCalls, PinRequired, Policy, PolicyRequest, ReadBeforeWrite,
    Sequential,
};
use tract_tools::snapshot::BoxError;
use tract_tools::{Call, Dispatcher, Registry, Turn};

use super::support::{Act, Host, call, outcomes};

fn with_policy(host: &Host, policy: impl Policy + 'static) -> Dispatcher {
    Dispatcher { policies: vec![Arc::new(policy)], ..host.dispatcher() }
}

#[test]
fn the_first_denial_wins_over_later_ones() {
    let (host, session) = Host::with_session();
    let no = |why: &'static str| move |_: &PolicyRequest<'_>| Decision::deny(why);
    let policies: Vec<Arc<dyn Policy>> = vec![
        Arc::new(ApprovalRequired::of_tools(["act"])),
        Arc::new(no("first")),
        Arc::new(no("second")),
    ];
    let dispatcher = Dispatcher { policies, ..host.dispatcher() };
    let done = block_on(dispatcher.run(call("c1", "act", &Act::Ok), &host.turn(&session)));
    assert_eq!(outcomes(&done), [Outcome::Denied], "denied rather than asked about");
    assert_eq!(done.answers[0].text, "the call was denied: first");
    assert_eq!(host.runs.load(Ordering::SeqCst), 0);
    assert_eq!(session.log(), ["c1 denied"]);
}

#[test]
fn a_sequence_is_kept_over_turns_and_when_a_conversation_is_taken_up_again() {
    let (host, session) = Host::with_session();
    let dispatcher = with_policy(&host, Sequential::new().after("act", ["look", "put"]));
    let past = Arc::new(Mutex::new(PastCalls::new()));
    let turn = Turn { past: Arc::clone(&past), ..host.turn(&session) };
    let calls = |ids: [&str; 3]| {
        vec![
            call(ids[0], "act", &Act::Ok),
            call(ids[1], "look", &Act::Ok),
            call(ids[2], "put", &Act::Ok),
        ]
    };
    let done = block_on(dispatcher.run(calls(["c1", "c2", "c3"]), &turn));
    assert_eq!(
        done.answers[0].text,
        r#"the call was denied: expected "look" to have succeeded before "act""#
    );
    let done = block_on(dispatcher.run(calls(["c4", "c5", "c6"]), &turn));
    assert_eq!(done.answers[0].outcome(), Outcome::Succeeded);
    // What a branch says of the calls before makes the same of a new process.
    let mut again = PastCalls::new();
    past.lock().unwrap().iter().for_each(|past| again.push(&past.name, past.arguments.clone()));
    let turn = Turn { past: Arc::new(Mutex::new(again)), ..host.turn(&session) };
    let done = block_on(dispatcher.run(call("c7", "act", &Act::Ok), &turn));
    assert_eq!(done.answers[0].outcome(), Outcome::Succeeded);
}

#[test]
fn a_file_is_read_before_it_is_written_in_any_spelling() {
    let (host, session) = Host::with_session();
    let registry = tract_tools::fs::add_fs_tools(Registry::builder()).build().unwrap();
    let policy = ReadBeforeWrite::of_fs_tools(host.files.clone());
    let dispatcher =
        Dispatcher { policies: vec![Arc::new(policy)], ..Dispatcher::new(Arc::new(registry)) };
    let turn = host.turn(&session);
    let run = |id: &str, name: &str, arguments: &str| {
        let done = block_on(dispatcher.run(Call::new(id, name, arguments), &turn));
        (done.answers[0].outcome(), done.answers[0].text.clone())
    };
    let write = r#"{"path":"./readme.md","text":"new"}"#;
    let denied = "the call was denied: expected readme.md to be read before it is changed";
    assert_eq!(run("c1", "fs_write", write), (Outcome::Denied, denied.to_owned()));
    assert_eq!(run("c2", "fs_read", r#"{"path":"x/../readme.md"}"#).1, "hello");
    assert_eq!(run("c3", "fs_write", write).1, "wrote 3 bytes to readme.md");
    let fresh = r#"{"path":"new/file","text":"1"}"#;
    assert_eq!(run("c4", "fs_write", fresh).0, Outcome::Succeeded, "nothing was there to read");
    let edit = r#"{"path":"new/file","find":"1","replace":"2"}"#;
    assert_eq!(run("c5", "fs_edit", edit).0, Outcome::Succeeded, "who wrote it knows it");
    let outside = r#"{"path":"../etc/passwd","text":""}"#;
    assert_eq!(run("c6", "fs_write", outside).0, Outcome::Denied);
}

#[test]
fn a_tool_whose_definition_was_not_approved_does_not_run() {
    let (host, session) = Host::with_session();
    let registry = host.registry();
    let schema = |name: &str| -> ToolSchema {
        registry.iter().find(|tool| tool.name() == name).unwrap().definition().schema().clone()
    };
    let other = ToolSchema::parse(r#"{"name":"put","parameters":{"type":"object"}}"#).unwrap();
    let pins: Pins = [Pin::of("", &schema("act")), Pin::of("", &other)].into_iter().collect();
    let dispatcher = with_policy(&host, PinRequired::new(pins, PinPolicy::ApprovedOnly));
    let calls = ["act", "put", "look"].map(|name| call(name, name, &Act::Ok));
    let done = block_on(dispatcher.run(&calls[..], &host.turn(&session)));
    assert_eq!(outcomes(&done), [Outcome::Succeeded, Outcome::Denied, Outcome::Denied]);
    assert!(done.answers[1].text.contains("is not the one that was approved"));
    assert!(done.answers[2].text.contains("is not approved yet"));
}

#[test]
fn approval_is_data_bound_to_definition_arguments_call_and_time() {
    let (host, session) = Host::with_session();
    let dispatcher = with_policy(&host, ApprovalRequired::of_tools(["act"]));
    let calls = vec![
        call("c1", "act", &Act::Ok),
        call("c2", "look", &Act::Ok),
        call("c3", "act", &Act::Slow { polls: 1 }),
    ];
    let done = block_on(dispatcher.run(calls.clone(), &host.turn(&session)));
    assert_eq!(outcomes(&done), [Outcome::Deferred, Outcome::Succeeded, Outcome::Deferred]);
    assert_eq!(done.deferred().count(), 2);
    assert!(done.ended.is_none() && done.answers[0].content().is_none());
    assert!(!done.answers[0].is_error, "it has not failed");
    assert_eq!(done.answers[0].invoked.decided_by.as_deref(), Some("approval_required"));
    let key = done.answers[0].deferred.as_ref().unwrap().key;

    let approved = |approval: Approval| {
        let approvals: Approvals = [approval].into_iter().collect();
        let turn = Turn { approvals, ..host.turn(&session) };
        let done = block_on(dispatcher.run(calls.clone(), &turn));
        let by = done.answers[0].invoked.decided_by.clone();
        (outcomes(&done), by)
    };
    let (found, by) = approved(Approval { by: Some("ada".to_owned()), ..Approval::new(key) });
    assert_eq!(found, [Outcome::Succeeded, Outcome::Succeeded, Outcome::Deferred]);
    assert_eq!(by.as_deref(), Some("ada"));
    let late = Approval { expires_at_us: Some(1_000_000), ..Approval::new(key) };
    assert_eq!(approved(late).0[0], Outcome::Deferred, "it has expired");
    let other = CallKey::of(done.answers[0].invoked.tool.unwrap(), "c1", r#"{"do":"other"}"#);
    assert_eq!(approved(Approval::new(other)).0[0], Outcome::Deferred, "of other arguments");
}

#[test]
fn hooks_refuse_defer_and_replace_and_what_they_replace_is_judged_again() {
    hooks_decide(|hook| Hooks::new().on("guard", hook));
}

#[test]
fn handlers_for_all_events_refuse_defer_and_replace_as_well() {
    hooks_decide(|hook| {
        Hooks::new().on_any("guard", move |event| match event {
            AnyEvent::BeforeDispatch(event) => hook(event).into(),
            _ => AnyAction::Pass,
        })
    });
}

type Hook = Box<dyn Fn(&BeforeDispatch) -> DispatchAction + Send + Sync>;

/// Dispatches calls that a handler answers in every way there is.
fn hooks_decide(hooks: impl FnOnce(Hook) -> Hooks) {
    let (host, session) = Host::with_session();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook: Hook = {
        let seen = Arc::clone(&seen);
        Box::new(move |event: &BeforeDispatch| {
            seen.lock().unwrap().push((event.call.id.clone(), event.read_only));
            match &*event.call.id {
                "refused" => DispatchAction::Refuse("not on Sundays".into()),
                "deferred" => DispatchAction::Defer("ask ada".into()),
                "replaced" => DispatchAction::Replace(r#"{"do":"value","value":7}"#.into()),
                "unfit" => DispatchAction::Replace(r#"{"do":7}"#.into()),
                "forbidden" => DispatchAction::Replace(r#"{"do":"hang"}"#.into()),
                "broken" => panic!("the secret reason"),
                _ => DispatchAction::Pass,
            }
        })
    };
    let no_hanging = |call: &PolicyRequest<'_>| {
        if call.arguments.contains("hang") {
            Decision::deny("nothing hangs here")
        } else {
            Decision::Allow
        }
    };
    let dispatcher = Dispatcher { hooks: hooks(hook), ..with_policy(&host, no_hanging) };
    let ids = ["refused", "deferred", "replaced", "unfit", "forbidden", "broken", "fine"];
    let mut calls: Vec<Call> = ids.iter().map(|id| call(id, "act", &Act::Ok)).collect();
    calls.push(call("denied", "act", &Act::Hang));
    let done = block_on(dispatcher.run(calls.clone(), &host.turn(&session)));
    use Outcome::{Deferred, Denied, Invalid, Succeeded};
    let expected = [Denied, Deferred, Succeeded, Invalid, Denied, Denied, Succeeded, Denied];
    assert_eq!(outcomes(&done), expected);
    let text = |place: usize| &*done.answers[place].text;
    assert_eq!(text(0), "the call was refused: not on Sundays");
    assert_eq!(text(2), "see\n\n7", "the model's own arguments would have given nothing");
    assert_eq!(text(4), "the call was denied: nothing hangs here");
    assert_eq!(text(5), "the call did not run: a check before it failed");
    assert!(done.answers[5].operator.as_deref().unwrap().contains("the secret reason"));
    let operator = done.answers[2].operator.as_deref().unwrap();
    assert!(operator.contains("replaced the arguments; sent were {\"do\":\"ok\"}"), "{operator}");
    assert_eq!(done.answers[2].invoked.decided_by.as_deref(), Some("guard"));
    let waits = done.answers[1].deferred.as_ref().unwrap();
    assert_eq!((&*waits.reason, waits.by.as_deref()), ("ask ada", Some("guard")));
    let seen: Vec<String> = seen.lock().unwrap().iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(seen, ids, "each once, and not about what a policy denied");

    let approvals: Approvals = [Approval::new(waits.key)].into_iter().collect();
    let turn = Turn { approvals, ..host.turn(&session) };
    let done = block_on(dispatcher.run(calls[1].clone(), &turn));
    assert_eq!(outcomes(&done), [Succeeded], "who was asked has approved");
}

/// Keeps what was written, and knows answers.
#[derive(Default)]
struct MemoryJournal {
    writes: Mutex<Vec<String>>,
    answers: Mutex<HashMap<CallKey, Recorded>>,
    calls: Mutex<usize>,
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn start(&self, call: &CallStart) -> Result<Start, BoxError> {
        self.writes.lock().unwrap().push(call.call_id.clone());
        Ok(Start::Begin)
    }

    async fn recorded(&self, key: &CallKey) -> Result<Option<Recorded>, BoxError> {
        *self.calls.lock().unwrap() += 1;
        Ok(self.answers.lock().unwrap().get(key).cloned())
    }
}

#[test]
fn starts_are_written_once_a_call_and_only_of_calls_with_an_effect() {
    let (host, session) = Host::with_session();
    let journal = Arc::new(MemoryJournal::default());
    let turn = Turn { journal: Some(journal.clone()), ..host.turn(&session) };
    let calls = vec![
        call("c1", "look", &Act::Ok),
        call("c2", "put", &Act::Ok),
        call("c3", "act", &Act::Ok),
        call("c4", "akt", &Act::Ok),
        call("c5", "act", &Act::Ok),
        call("c6", "look", &Act::Ok),
    ];
    let done = block_on(host.dispatcher().run(calls.clone(), &turn));
    assert!(done.ended.is_none());
    assert_eq!(*journal.writes.lock().unwrap(), ["c3", "c5"]);
    assert_eq!(*journal.calls.lock().unwrap(), 3, "of those that may change something");
    let quiet = Turn { journal: Some(journal.clone()), ..host.turn(&session) };
    let _ = block_on(host.dispatcher().run(calls[..2].to_vec(), &quiet));
    assert_eq!(journal.writes.lock().unwrap().len(), 2, "nothing to write, nothing written");
}

#[test]
fn a_replay_gives_the_recorded_answer_and_repeats_no_effect() {
    let (host, session) = Host::with_session();
    let journal = Arc::new(MemoryJournal::default());
    let turn = Turn { journal: Some(journal.clone()), ..host.turn(&session) };
    let calls = vec![call("c1", "act", &Act::Ok), call("c2", "put", &Act::Other)];
    let first = block_on(host.dispatcher().run(calls.clone(), &turn));
    for answer in &first.answers {
        let recorded = Recorded {
            text: answer.text.clone(),
            is_error: answer.is_error,
            value: answer.value.clone(),
        };
        let key = answer.invoked.idempotency_key.unwrap();
        journal.answers.lock().unwrap().insert(key, recorded);
    }
    let runs = host.runs.load(Ordering::SeqCst);
    let again = block_on(host.dispatcher().run(calls, &turn));
    assert_eq!(host.runs.load(Ordering::SeqCst), runs, "nothing ran");
    for (first, again) in first.answers.iter().zip(&again.answers) {
        assert_eq!((&first.text, first.is_error), (&again.text, again.is_error));
        assert!(again.invoked.replayed && again.invoked.attempts == 0);
    }
    // Another call id is another effect.
    let other = block_on(host.dispatcher().run(call("c9", "act", &Act::Ok), &turn));
    assert!(!other.answers[0].invoked.replayed);
}

#[test]
fn only_idempotent_tools_are_tried_again_from_the_state_before() {
    for (name, times, outcome, attempts) in [
        ("put", 2, Outcome::Succeeded, 3),
        ("look", 1, Outcome::Succeeded, 2),
        ("put", 3, Outcome::Failed, 3),
        ("act", 1, Outcome::Failed, 1),
    ] {
        let (host, session) = Host::with_session();
        let made = call("c1", name, &Act::Retryable { times });
        let done = block_on(host.dispatcher().run(made, &host.turn(&session)));
        assert_eq!(outcomes(&done), [outcome], "{name} {times}");
        assert_eq!(done.answers[0].invoked.attempts, attempts, "{name} {times}");
        let kept = usize::from(outcome == Outcome::Succeeded);
        if name != "look" {
            assert_eq!(
                session.notes().len(),
                kept,
                "the events of failed attempts are rolled back"
            );
            let deliveries = session.log().iter().filter(|line| *line == "c1").count();
            assert_eq!(deliveries, attempts as usize, "and kept by the log");
        }
    }
    let (host, session) = Host::with_session();
    let done =
        block_on(host.dispatcher().run(call("c1", "put", &Act::Other), &host.turn(&session)));
    assert_eq!(done.answers[0].invoked.attempts, 1, "it did not say that trying again helps");
}

#[test]
fn a_spent_budget_ends_the_turn_before_the_next_call() {
    let (host, session) = Host::with_session();
    let calls: Vec<Call> = (1..=4).map(|n| call(&format!("c{n}"), "act", &Act::Ok)).collect();
    let tracker = Arc::new(
        BudgetTracker::new(Budget { calls: Some(2), total_tokens: Some(10), ..Budget::default() })
            .unwrap(),
    );
    let turn =
        Turn { budget: Some(Arc::clone(&tracker)), evaluation: "e1".into(), ..host.turn(&session) };
    let done = block_on(host.dispatcher().run(calls.clone(), &turn));
    use Outcome::{Failed, NotExecuted, Succeeded};
    assert_eq!(outcomes(&done), [Succeeded, Succeeded, Failed, NotExecuted]);
    assert_eq!(
        done.answers[2].text,
        "the call did not run: expected at most 2 tool calls, found 3"
    );
    let Some(TurnError::Evaluation { cause: Cause::Budget(exceeded), .. }) = &done.ended else {
        panic!("the budget did not end it")
    };
    assert_eq!(exceeded.dimension(), Dimension::Calls);
    assert_eq!(tracker.spent_by("e1").calls, 2);

    tracker.usage("e1", Usage::new(8, 3));
    let done = block_on(host.dispatcher().run(calls, &turn));
    assert_eq!(outcomes(&done), [Failed, NotExecuted, NotExecuted, NotExecuted]);
    assert_eq!(done.answers[0].invoked.stage, Some(DispatchStage::Turn));
}

#[test]
fn a_call_reaches_who_answered_what_it_costs_and_what_names_it() {
    use tract_tools::dispatch::ReplySource;
    use tract_tools::{CallContext, ToolContext, ToolError, tool};

    /// Looks around.
    #[tool(timeout_ms = 5000)]
    async fn curious(context: &ToolContext) -> Result<String, ToolError> {
        context.spend(Usage::new(3, 2));
        let served = context.served().map(|served| served.model.clone());
        let key = context.idempotency_key().is_some();
        let left = context.remaining();
        let byte = context.resource::<u8>()?;
        Ok(format!("{served:?} {key} {left:?} {byte}"))
    }
    let host = Host::new();
    let registry = Registry::builder().tool(Curious).build().unwrap();
    let tracker = Arc::new(
        BudgetTracker::new(Budget { total_tokens: Some(5), ..Budget::default() }).unwrap(),
    );
    let context = ToolContext::new("").with_clock(Arc::new(host.clock.clone())).with_resource(7_u8);
    let turn = Turn {
        context,
        budget: Some(Arc::clone(&tracker)),
        served: Some(ReplySource::new("anthropic", "a-model")),
        ..Turn::default()
    };
    let done =
        block_on(Dispatcher::new(Arc::new(registry)).run(Call::new("c1", "curious", "{}"), &turn));
    assert_eq!(done.answers[0].text, "Some(\"a-model\") true Some(5s) 7");
    assert_eq!(tracker.spent().input_tokens, 3);
    let traits = done.answers[0].invoked.traits;
    assert_eq!(traits, ToolTraits::default());
}
