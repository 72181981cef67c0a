use std::sync::{Arc, Mutex};
use std::time::Duration;

use tract_core::{ToolTraits, block_on};
use tract_tools::dispatch::{DispatchOptions, DispatchStage, Dispatched, Outcome, TurnError};
use tract_tools::typed::ClosureTool;
use tract_tools::{Call, Dispatcher, Registry, ToolResult, ToolSpec, Turn};

use super::support::{Act, Host, TestSession, call, ids, outcomes};

/// Runs a call between two good ones and checks what holds for every failure: state is what the
/// good ones made it, all are answered, the log knows of all, and the model reads no secret.
#[track_caller]
fn between(host: &Host, middle: Call) -> Dispatched {
    let session = Arc::new(TestSession::new(host));
    let calls = vec![call("c1", "act", &Act::Ok), middle, call("c3", "act", &Act::Ok)];
    let turn = block_on(host.dispatcher().run(calls, &host.turn(&session)));
    assert_eq!(ids(&turn, |_| true), ["c1", "c2", "c3"]);
    let good = ids(&turn, |answer| !answer.is_error);
    assert_eq!(session.notes(), good, "the state is that of the calls that succeeded");
    let files: Vec<String> =
        host.all_files().into_keys().filter(|p| p.starts_with("calls")).collect();
    let written: Vec<String> = good.iter().map(|id| format!("calls/{id}")).collect();
    assert_eq!(files, written, "so are the files");
    let ended: Vec<String> =
        turn.answers.iter().map(|a| format!("{} {}", a.call_id, a.outcome())).collect();
    let log = session.log();
    assert!(ended.iter().all(|end| log.contains(end)), "{log:?} knows {ended:?}");
    for answer in &turn.answers {
        assert!(!answer.text.is_empty());
        assert!(!answer.text.contains("secret"), "the model reads {:?}", answer.text);
        assert_eq!(answer.invoked.success, !answer.is_error);
    }
    match &turn.ended {
        None if turn.answers[1].is_error => assert_eq!(good, ["c1", "c3"]),
        None => assert_eq!(good, ["c1", "c2", "c3"]),
        Some(error) => {
            assert_eq!(error.call_id(), "c2");
            assert_eq!(turn.answers[2].outcome(), Outcome::NotExecuted);
            assert_eq!(turn.answers[2].text, r#"not executed: the turn ended with call "c2""#);
        }
    }
    turn
}

#[track_caller]
fn row(name: &str, act: &Act, outcome: Outcome, text: &str) -> Dispatched {
    let host = Host::new();
    let turn = between(&host, call("c2", name, act));
    assert_eq!(turn.answers[1].outcome(), outcome);
    assert_eq!(turn.answers[1].text, text);
    turn
}

#[test]
fn an_error_of_a_tool_is_a_failed_result_that_rolls_back() {
    let text = "city: expected another city";
    let turn = row("act", &Act::Validation, Outcome::Invalid, text);
    assert!(turn.ended.is_none());
    assert_eq!(turn.answers[1].invoked.stage, Some(DispatchStage::Handler));
    // A type error names the tool; the cause of any other, and what a panic said, is for the operator.
    let unknown = |reason: &str| ToolTraits::default().unanswered("act", reason, None);
    let promises = &unknown("gave something other than it promises: expected a number, found text");
    let other = "tool \"act\" failed: it did not work";
    let panic = &unknown("failed: it broke down");
    let cause = "other: it did not work; caused by: the secret reason";
    for (act, outcome, text, operator) in [
        (Act::Type, Outcome::Failed, promises.as_str(), None),
        (Act::Other, Outcome::Failed, other, Some(cause)),
        (Act::Panic, Outcome::Panicked, panic.as_str(), Some("panicked: the secret reason")),
    ] {
        let turn = row("act", &act, outcome, text);
        assert_eq!((turn.ended.is_none(), turn.answers[1].operator.as_deref()), (true, operator));
    }
}

#[test]
fn an_error_that_ends_the_evaluation_ends_the_turn_as_it_is() {
    let turn = row("act", &Act::Expansion, Outcome::Failed, "show me the rules");
    let Some(TurnError::VisibilityExpansion { sections, source, .. }) = turn.ended else {
        panic!("it was not passed on")
    };
    assert_eq!((sections, source.code()), (vec!["rules".to_owned()], "visibility_expansion"));
    let late = &ToolTraits::default().unanswered("act", "did not end: no time left", None);
    for (act, outcome, text, code) in [
        (Act::Evaluation, Outcome::Failed, "nothing can continue", "evaluation"),
        (Act::Deadline, Outcome::TimedOut, late, "deadline_exceeded"),
    ] {
        let ended = row("act", &act, outcome, text).ended.unwrap();
        assert_eq!((ended.code(), ended.failure().code()), (code, code));
    }
}

#[test]
fn a_result_that_is_no_success_rolls_back_and_may_have_a_value() {
    let turn = row("act", &Act::NotDone, Outcome::Failed, "not done\n\nhalf of it");
    let answer = &turn.answers[1];
    assert_eq!(answer.operator.as_deref(), Some("the disk is full"));
    assert_eq!(answer.value.as_ref().unwrap().as_str(), "\"half of it\"");
    assert!(!answer.invoked.success, "the flag says where the value goes");
    assert!(turn.ended.is_none());
}

#[test]
fn a_success_is_kept_with_message_and_value() {
    let value = serde_json::json!({"b": 1, "a": [2]});
    let turn = row("act", &Act::Value { value }, Outcome::Succeeded, "see\n\n{\"a\":[2],\"b\":1}");
    let answer = &turn.answers[1];
    assert_eq!(answer.value.as_ref().unwrap().as_str(), r#"{"a":[2],"b":1}"#);
    assert_eq!((answer.invoked.stage, answer.invoked.attempts), (None, 1));
    assert_eq!(answer.events.len(), 1);
    assert!(answer.content().is_some());
    assert!(answer.invoked.provenance.validated.is_some(), "what hydration did is reported");
}

#[test]
fn unknown_tools_bad_json_and_unfit_arguments_are_answered() {
    for (made, stage, says) in [
        (Call::new("c2", "akt", "{}"), DispatchStage::Lookup, "did you mean \"act\"?"),
        (Call::new("c2", "act", "{'do'"), DispatchStage::Parse, "JSON"),
        (Call::new("c2", "act", "{\"do\":7}"), DispatchStage::Validate, "/do: expected a string"),
    ] {
        let host = Host::new();
        let turn = between(&host, made);
        let answer = &turn.answers[1];
        assert_eq!(answer.outcome(), Outcome::Invalid);
        assert_eq!(answer.invoked.stage, Some(stage));
        assert!(answer.text.contains(says), "{}", answer.text);
        assert!(turn.ended.is_none(), "the model may try again");
    }
}

#[test]
fn a_tool_that_is_not_available_now_or_runs_nowhere_is_answered() {
    let (host, session) = Host::with_session();
    let turn = Turn { available: Some(["act".to_owned()].into()), ..host.turn(&session) };
    let calls = vec![call("c1", "look", &Act::Ok), call("c2", "act", &Act::Ok)];
    let done = block_on(host.dispatcher().run(calls, &turn));
    assert_eq!(outcomes(&done), [Outcome::Invalid, Outcome::Succeeded]);
    assert_eq!(done.answers[0].text, "tool \"look\" is not available now");

    let definition = r#"{"name":"far","parameters":{"type":"object"}}"#;
    let registry = Registry::builder().definition(definition).build().unwrap();
    let dispatcher = Dispatcher::new(Arc::new(registry));
    let done = block_on(dispatcher.run(Call::new("c1", "far", "{}"), &host.turn(&session)));
    assert_eq!(done.answers[0].text, "tool \"far\" cannot run here");
}

#[test]
fn a_tools_own_time_is_a_failed_result_and_the_turn_continues() {
    let text = &ToolTraits::default().unanswered("hurry", "did not answer within 2ms", None);
    let turn = row("hurry", &Act::Hang, Outcome::TimedOut, text);
    assert!(turn.ended.is_none());
    // Also where the tool itself looked at the time.
    let turn = row("hurry", &Act::Deadline, Outcome::TimedOut, text);
    assert!(turn.ended.is_none());
}

#[test]
fn the_turns_own_time_ends_it_before_and_while_a_handler_runs() {
    let (host, session) = Host::with_session();
    let context = tract_core::ToolContext::new("")
        .with_clock(Arc::new(host.clock.clone()))
        .with_deadline_us(1_002_000);
    let turn = Turn { context, ..host.turn(&session) };
    let calls = vec![call("c1", "act", &Act::Hang), call("c2", "act", &Act::Ok)];
    let done = block_on(host.dispatcher().run(calls.clone(), &turn));
    assert_eq!(outcomes(&done), [Outcome::TimedOut, Outcome::NotExecuted]);
    assert_eq!(done.ended.unwrap().code(), "deadline_exceeded");
    let late =
        ToolTraits::default().unanswered("act", "did not end: the turn ran out of time", None);
    assert_eq!(done.answers[0].text, late);
    assert!(done.answers[0].invoked.outcome_unknown);

    host.clock.advance(Duration::from_secs(1));
    let done = block_on(host.dispatcher().run(calls, &turn));
    assert_eq!(outcomes(&done), [Outcome::TimedOut, Outcome::NotExecuted]);
    assert_eq!(done.answers[0].text, "the call did not run: the turn ran out of time");
    assert_eq!(done.answers[0].invoked.attempts, 0);
}

#[test]
fn cancelling_ends_the_turn_whether_the_tool_listens_or_not() {
    for (act, grace) in
        [(Act::Cancel, Duration::ZERO), (Act::HangPolitely, Duration::from_secs(60))]
    {
        let (host, session) = Host::with_session();
        let dispatcher = Dispatcher {
            options: DispatchOptions { grace, ..DispatchOptions::default() },
            ..host.dispatcher()
        };
        let calls = vec![call("c1", "act", &act), call("c2", "act", &Act::Ok)];
        let turn = host.turn(&session);
        let (token, polite) = (host.token.clone(), matches!(act, Act::HangPolitely));
        let done = block_on(async {
            let mut run = std::pin::pin!(dispatcher.run(calls, &turn));
            std::future::poll_fn(|task| {
                let polled = run.as_mut().poll(task);
                if polled.is_pending() && polite {
                    token.cancel();
                }
                polled
            })
            .await
        });
        assert_eq!(outcomes(&done), [Outcome::Cancelled, Outcome::NotExecuted], "{act:?}");
        assert_eq!(done.ended.unwrap().code(), "cancelled");
        assert_eq!(session.notes(), [""; 0]);
    }
}

#[test]
fn a_turn_whose_future_is_dropped_is_undone() {
    let (host, session) = Host::with_session();
    let (dispatcher, turn) = (host.dispatcher(), host.turn(&session));
    let before = host.all_files();
    let mut run = Box::pin(dispatcher.run(call("c1", "act", &Act::Hang), &turn));
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(run.as_mut().poll(&mut task).is_pending());
    assert_ne!(host.all_files(), before, "it has written a file");
    drop(run);
    assert_eq!(host.all_files(), before);
    assert_eq!(session.notes(), [""; 0]);
}

#[test]
fn blocking_work_is_left_behind_when_its_time_is_over() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = Mutex::new(Some(receiver));
    let spec = ToolSpec {
        timeout: Some(Duration::from_millis(2)),
        ..ToolSpec::new("block", "Blocks.", r#"{"type":"object"}"#)
    };
    let slow = ClosureTool::new(spec, move |_, _| {
        let receiver = receiver.lock().unwrap().take().unwrap();
        async move {
            // Returns only when the test is over.
            tract_tools::blocking(move || receiver.recv().is_ok()).await?;
            Ok(ToolResult::<()>::done("late"))
        }
    });
    let registry = Registry::builder().tool(slow).build().unwrap();
    let dispatcher = Dispatcher::new(Arc::new(registry));
    let done = block_on(dispatcher.run(Call::new("c1", "block", "{}"), &Turn::default()));
    assert_eq!(outcomes(&done), [Outcome::TimedOut]);
    drop(sender);
}
