//! Who is asked, in which order, and who decides.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tract_core::{
    BatchId, CommitId, Draft, LogEntry, LogNote, OperationId, Part, RefName, ToolCall, ToolTraits,
};

use super::*;

use tract_core::block_on as run;

/// Waits once.
async fn pause() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

fn main_branch() -> RefName {
    RefName::branch("main").unwrap()
}

fn commit(text: &str) -> BeforeCommit {
    BeforeCommit::new(main_branch(), Draft::user(text))
}

fn moved() -> RefMoved {
    RefMoved::new(LogEntry {
        seq: 1,
        name: main_branch(),
        before: None,
        after: None,
        batch: BatchId::from_bytes([1; 16]),
        note: LogNote {
            operation: OperationId::from_bytes([2; 16]),
            what: "commit".into(),
            who: "test".into(),
            why: None,
            undoes: None,
            at: 0,
        },
    })
}

#[test]
fn the_empty_chain_approves_everything() {
    let hooks = Hooks::new();
    assert!(!hooks.has_handler::<BeforeCommit>());
    let decision = run(hooks.before_commit(&commit("a")));
    assert_eq!((decision.action(), decision.by()), (&CommitAction::Pass, None));
    assert_eq!(decision.settle(), Ok(()));
    run(hooks.ref_moved(&moved()));
}

#[test]
fn handlers_are_asked_in_order_and_the_first_that_does_not_pass_decides() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let says = |name: &'static str, action: CommitAction| {
        let calls = Arc::clone(&calls);
        move |_: &BeforeCommit| {
            calls.lock().unwrap().push(name);
            action.clone()
        }
    };
    let hooks = Hooks::new()
        .on("one", says("one", CommitAction::Pass))
        .on("two", says("two", CommitAction::Approve))
        .on("three", says("three", CommitAction::Reject("too late".into())));
    let decision = run(hooks.before_commit(&commit("a")));
    assert_eq!((decision.action(), decision.by()), (&CommitAction::Approve, Some("two")));
    assert_eq!(*calls.lock().unwrap(), ["one", "two"]);
}

#[test]
fn handlers_for_all_events_are_asked_last_wherever_they_were_added() {
    let hooks = Hooks::new().on_any("all", |event| AnyAction::Reject(event.name().to_owned())).on(
        "specific",
        |commit: &BeforeCommit| match commit.draft.content.text().as_str() {
            "fine" => CommitAction::Approve,
            _ => CommitAction::Pass,
        },
    );
    assert_eq!(hooks.names::<BeforeCommit>().join(" "), "specific all");
    assert_eq!(run(hooks.before_commit(&commit("fine"))).by(), Some("specific"));
    let decision = run(hooks.before_commit(&commit("else")));
    assert_eq!(decision.by(), Some("all"));
    assert_eq!(decision.into_action(), CommitAction::Reject("before_commit".into()));
}

#[test]
fn an_answer_for_all_events_is_said_in_the_words_of_each() {
    let call = ToolCall { id: "c".into(), name: "rm".into(), arguments: "{}".into() };
    let dispatch =
        BeforeDispatch::new(call, ToolTraits { destructive: true, ..ToolTraits::default() });
    assert!(dispatch.destructive && !dispatch.read_only);
    let result = ToolResultReceived::new(main_branch(), "c", vec![Part::text("x")]);
    let merge = BeforeMerge::new(main_branch(), vec![CommitId::from_bytes([1; 32])]);
    let compress = BeforeCompress::new(main_branch(), vec![], tract_core::Content::assistant("s"));
    for (any, word, compile) in [
        (AnyAction::Reject("no".into()), "reject", "refuse"),
        (AnyAction::Defer("wait".into()), "defer", "refuse"),
        (AnyAction::Pass, "pass", "pass"),
    ] {
        let hooks = Hooks::new().on_any("all", move |_| any.clone());
        let refused = if word == "reject" { "refuse" } else { word };
        assert_eq!(run(hooks.before_commit(&commit("a"))).action().name(), word);
        assert_eq!(run(hooks.tool_result_received(&result)).action().name(), word);
        assert_eq!(run(hooks.before_merge(&merge)).action().name(), word);
        assert_eq!(run(hooks.before_compress(&compress)).action().name(), word);
        assert_eq!(run(hooks.before_dispatch(&dispatch)).action().name(), refused);
        assert_eq!(run(hooks.before_compile(&BeforeCompile::new(None))).action().name(), compile);
        assert!(!hooks.has_handler::<RefMoved>(), "what has happened waits for no decision");
    }
}

#[test]
fn an_event_reaches_only_its_own_handlers() {
    let count = Arc::new(Mutex::new(0));
    let calls_seen = Arc::clone(&count);
    let hooks = Hooks::new().on("ear", move |_: &RefMoved| {
        *calls_seen.lock().unwrap() += 1;
        RefMovedAction::Pass
    });
    let _ = run(hooks.before_commit(&commit("a")));
    assert_eq!(*count.lock().unwrap(), 0);
    run(hooks.ref_moved(&moved()));
    assert_eq!(*count.lock().unwrap(), 1);
}

#[test]
fn a_name_is_unique_and_keeps_its_place() {
    let hooks = Hooks::new()
        .on("a", |_: &BeforeCommit| CommitAction::Pass)
        .on("b", |_: &BeforeCommit| CommitAction::Approve)
        .on("a", |_: &BeforeCommit| CommitAction::Reject("new".into()));
    assert_eq!(hooks.names::<BeforeCommit>().join(" "), "a b");
    assert_eq!(run(hooks.before_commit(&commit("x"))).by(), Some("a"));
    let fewer = hooks.clone().without::<BeforeCommit>("a");
    assert_eq!(run(fewer.before_commit(&commit("x"))).by(), Some("b"));
    assert_eq!(hooks.names::<BeforeCommit>().len(), 2, "the other clone is as it was");
}

#[test]
fn handlers_may_wait() {
    struct Slow;
    #[async_trait::async_trait]
    impl Handler<BeforeMerge> for Slow {
        async fn handle(&self, merge: &BeforeMerge) -> MergeAction {
            pause().await;
            if merge.fast_forward { MergeAction::Approve } else { MergeAction::Pass }
        }
    }
    let hooks = Hooks::new().handler("slow", Slow).on_async(
        "slower",
        |merge: Arc<BeforeMerge>| async move {
            pause().await;
            MergeAction::Reject(format!("{} sources", merge.sources.len()))
        },
    );
    let merge = BeforeMerge::new(main_branch(), vec![CommitId::from_bytes([1; 32])]);
    let forward = BeforeMerge { fast_forward: true, ..merge.clone() };
    assert_eq!(run(hooks.before_merge(&forward)).by(), Some("slow"));
    assert_eq!(
        run(hooks.before_merge(&merge)).into_action(),
        MergeAction::Reject("1 sources".into())
    );
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    drop(is_send(hooks.before_merge(&merge)));
}

#[test]
fn actions_of_a_handler_run_no_handlers() {
    let inner = Hooks::new().on("inner", |_: &BeforeCommit| CommitAction::Reject("no".into()));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (sync, later) = (inner.clone(), inner.clone());
    let (log, log_later) = (Arc::clone(&calls), Arc::clone(&calls));
    let hooks = Hooks::new()
        .on("now", move |event: &BeforeCommit| {
            log.lock().unwrap().push(run(sync.before_commit(event)).by().is_some());
            CommitAction::Pass
        })
        .on_async("later", move |event: Arc<BeforeCommit>| {
            let (later, log) = (later.clone(), Arc::clone(&log_later));
            async move {
                pause().await;
                let nested = later.before_commit(&event).await.by().is_some();
                log.lock().unwrap().push(nested);
                CommitAction::Pass
            }
        })
        .time_limit(None);
    let event = commit("a");
    let mut outer = pin!(hooks.before_commit(&event));
    let mut context = Context::from_waker(Waker::noop());
    assert!(outer.as_mut().poll(&mut context).is_pending());
    // While the outer one waits, others on this thread are asked as ever.
    assert_eq!(run(inner.before_commit(&event)).by(), Some("inner"));
    assert!(outer.as_mut().poll(&mut context).is_ready());
    assert_eq!(*calls.lock().unwrap(), [false, false]);

    let panics = Hooks::new().on("panics", |_: &BeforeCommit| -> CommitAction { panic!("oh") });
    let decision = run(panics.time_limit(None).before_commit(&event));
    assert_eq!(decision.failures().len(), 1);
    assert_eq!(run(inner.before_commit(&event)).by(), Some("inner"), "the mark is gone");
}

#[test]
fn an_unsupported_action_is_an_error() {
    let long = ToolResultReceived {
        token_count: 900,
        ..ToolResultReceived::new(main_branch(), "c", vec![])
    };
    let hooks =
        Hooks::new().on("shorten", |result: &ToolResultReceived| match result.token_count {
            0..=800 => ToolResultAction::Pass,
            _ => Summarize {
                instructions: Some("keep paths".to_owned()),
                ..Summarize::to_tokens(200)
            }
            .into(),
        });
    let decision = run(hooks.tool_result_received(&long));
    let error = decision.settle().unwrap_err();
    assert_eq!(error.code(), "hook_action_unsupported");
    assert_eq!(
        error.to_string(),
        "handler \"shorten\" answered tool_result_received with \"summarize\", which is not supported here"
    );
    assert!(!error.notes().is_empty());
    // Who can carry it out finds all that it needs.
    let ToolResultAction::Summarize(how) = decision.into_action() else { panic!() };
    assert_eq!((how.target_tokens, how.instructions.as_deref()), (Some(200), Some("keep paths")));
    for action in
        [CommitAction::Edit(tract_core::Content::user("b")), CommitAction::Defer("later".into())]
    {
        let hooks = Hooks::new().on("h", move |_: &BeforeCommit| action.clone());
        let error = run(hooks.before_commit(&commit("a"))).settle().unwrap_err();
        assert!(matches!(error, HookError::Unsupported { .. }));
    }
}

#[test]
fn a_rejection_names_who_and_why() {
    let hooks = Hooks::new().on("tidy", |_: &BeforeCommit| CommitAction::Reject("a mess".into()));
    assert_eq!(
        run(hooks.before_commit(&commit("a"))).settle(),
        Err(HookError::Rejected {
            event: "before_commit",
            handler: "tidy".into(),
            reason: "a mess".into(),
        })
    );
    assert_eq!(format!("{hooks:?}").matches("tidy").count(), 1);
}

#[test]
fn a_handler_that_panics_fails_or_never_ends_refuses_or_is_passed_over() {
    let (soon, never) = (Duration::from_millis(50), Duration::from_secs(600));
    let broken: [(&str, Hooks); 5] = [
        ("panicked: oh", Hooks::new().on("h", |_: &BeforeCommit| -> CommitAction { panic!("oh") })),
        ("failed: no key", Hooks::new().on_try("h", |_: &BeforeCommit| Err("no key"))),
        (
            "did not answer",
            Hooks::new().on("h", |_: &BeforeCommit| -> CommitAction {
                loop {
                    std::thread::park();
                }
            }),
        ),
        (
            "did not answer",
            Hooks::new().on_async("h", |_: Arc<BeforeCommit>| std::future::pending()),
        ),
        (
            "panicked: later",
            Hooks::new().on_async("h", |_: Arc<BeforeCommit>| async {
                pause().await;
                panic!("later")
            }),
        ),
    ];
    for (says, hooks) in broken {
        let limit = if says.starts_with("did not") { soon } else { never };
        let hooks = hooks.time_limit(limit).on("next", |_: &BeforeCommit| CommitAction::Approve);
        let refused = run(hooks.before_commit(&commit("a")));
        assert_eq!(refused.by(), Some("h"));
        let CommitAction::Reject(reason) = refused.action() else { panic!("{refused:?}") };
        assert!(reason.contains(says), "{reason}");
        let hooks = hooks.on_failure(OnFailure::PassOn);
        let passed = run(hooks.before_commit(&commit("a")));
        assert_eq!((passed.by(), passed.failures().len()), (Some("next"), 1), "{says}");
    }
    let any = Hooks::new().on_any("all", |_| panic!("any"));
    assert_eq!(run(any.before_commit(&commit("a"))).failures().len(), 1);
}

#[test]
fn handlers_can_be_put_before_and_after_others() {
    let pass = |_: &BeforeCommit| CommitAction::Pass;
    let hooks = Hooks::new().on("a", pass).on("b", pass).on("c", pass);
    let names = |hooks: &Hooks| hooks.names::<BeforeCommit>().join(" ");
    let moved = hooks.clone().before::<BeforeCommit>("c", "a").unwrap();
    assert_eq!(names(&moved), "c a b");
    let moved = hooks.clone().after::<BeforeCommit>("a", "b").unwrap();
    assert_eq!(names(&moved), "b a c");
    assert_eq!(names(&hooks.clone().after::<BeforeCommit>("b", "b").unwrap()), "a b c");
    let error = hooks.before::<BeforeCommit>("d", "a").unwrap_err();
    assert_eq!(error.to_string(), "no handler \"d\" for before_commit");
}
