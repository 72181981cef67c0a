//! A handler for all events answers each of them with all that a handler for that event may answer.

use tract::hooks::{
    AnyAction, AnyEvent, AnyHandler, BeforeMerge, CommitAction, CompileAction, CompressAction,
    DispatchAction, Hooks, MergeAction, OnFailure, Summarize, ToolResultAction,
};
use tract::{Content, block_on};

use crate::summaries::{FirstLine, LONG};
use crate::tool_results::with_call;
use crate::walks::{last, memory};

/// A handler for all events that answers tool results, and passes on all else.
fn answers(action: impl Into<AnyAction>) -> Hooks {
    let action = action.into();
    Hooks::new().summarizer(FirstLine).on_any("all", move |event| match event {
        AnyEvent::ToolResultReceived(_) => action.clone(),
        _ => AnyAction::Pass,
    })
}

#[test]
fn a_result_is_approved_edited_or_summarized_and_its_original_kept() {
    let summarize = Summarize { instructions: Some("paths".to_owned()), ..Summarize::new() };
    for (action, word, shown) in [
        (AnyAction::Approve, "approve", LONG),
        (ToolResultAction::Approve.into(), "approve", LONG),
        (ToolResultAction::edit("main.rs:7").into(), "edit", "main.rs:7"),
        (ToolResultAction::from(summarize).into(), "summarize", "src/main.rs:7: fn main() {"),
    ] {
        let tract = with_call();
        let made = block_on(tract.with_hooks(answers(action)).tool_result("c1", LONG)).unwrap();
        assert_eq!(last(&tract), shown, "{word}");
        let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
        assert_eq!((record.action.as_str(), record.handler.as_deref()), (word, Some("all")));
        if word != "approve" {
            assert_eq!(block_on(tract.expand(&made)).unwrap().unwrap().text(), LONG);
            assert_eq!(record.original(), Some(made.keeps[0]));
        }
    }
}

#[test]
fn a_result_is_rejected_or_deferred() {
    for (action, code) in [
        (AnyAction::Reject("no".into()), "rejected_by_hook"),
        (ToolResultAction::Reject("no".into()).into(), "rejected_by_hook"),
        (AnyAction::Defer("later".into()), "deferred"),
        (ToolResultAction::Defer("later".into()).into(), "deferred"),
    ] {
        let tract = with_call();
        let before = block_on(tract.head()).unwrap();
        let error =
            block_on(tract.with_hooks(answers(action)).tool_result("c1", LONG)).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(block_on(tract.head()).unwrap(), before);
    }
}

#[test]
fn messages_summaries_and_merges_are_changed_or_approved() {
    let tract = memory();
    block_on(tract.user("one")).unwrap();
    let other = block_on(tract.fork("other", "HEAD")).unwrap();
    block_on(other.user("theirs")).unwrap();
    let asking = tract.with_hooks(Hooks::new().on_any("all", |event| match event {
        AnyEvent::BeforeCommit(_) => CommitAction::Edit(Content::user("edited")).into(),
        AnyEvent::BeforeCompress(_) => CompressAction::Edit("short".into()).into(),
        AnyEvent::BeforeMerge(_) => MergeAction::Approve.into(),
        AnyEvent::BeforeCompile(_) => CompileAction::Approve.into(),
        _ => AnyAction::Pass,
    }));
    let second = block_on(asking.user("two")).unwrap();
    assert_eq!(last(&asking), "edited");
    block_on(asking.compress(&second, &second, "a long summary of it")).unwrap();
    assert_eq!(last(&asking), "short");
    block_on(asking.merge("other")).unwrap();
    assert_eq!(last(&asking), "theirs");
    let refuses = Hooks::new().on_any("all", |event| match event {
        AnyEvent::BeforeCompile(_) => CompileAction::Refuse("not now".into()).into(),
        _ => AnyAction::Pass,
    });
    let error = block_on(tract.with_hooks(refuses).compile()).unwrap_err();
    assert!(error.to_string().contains("not now"), "{error}");
}

#[test]
fn approval_ends_the_questions_and_the_action_pass_does_not() {
    let hooks = |first: AnyAction| {
        let rejects = |_: AnyEvent<'_>| AnyAction::Reject("no".into());
        Hooks::new().on_any("first", move |_| first.clone()).on_any("second", rejects)
    };
    let tract = memory();
    block_on(tract.with_hooks(hooks(AnyAction::Approve)).user("one")).unwrap();
    block_on(tract.with_hooks(hooks(AnyAction::Approve)).compile()).unwrap();
    block_on(tract.with_hooks(hooks(CommitAction::Pass.into())).user("two")).unwrap_err();
    let without = hooks(AnyAction::Pass).without_any("second");
    block_on(tract.with_hooks(without).user("three")).unwrap();
}

#[test]
fn an_answer_to_another_event_is_refused_or_passed_over() {
    let foreign = |policy| answers(DispatchAction::Replace("{}".into())).on_failure(policy);
    let tract = with_call();
    let error =
        block_on(tract.with_hooks(foreign(OnFailure::Refuse)).tool_result("c1", LONG)).unwrap_err();
    assert!(error.to_string().contains("\"replace\" belongs to another event"), "{error}");
    let made =
        block_on(tract.with_hooks(foreign(OnFailure::PassOn)).tool_result("c1", LONG)).unwrap();
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert!(record.failures[0].contains("belongs to another event"), "{record:?}");
    assert_eq!(last(&tract), LONG);
}

#[test]
fn handlers_for_all_events_may_wait_and_may_fail() {
    struct WaitingHandler;
    #[async_trait::async_trait]
    impl AnyHandler for WaitingHandler {
        async fn handle(&self, event: AnyEvent<'_>) -> AnyAction {
            tokio::task::yield_now().await;
            match event {
                AnyEvent::ToolResultReceived(_) => ToolResultAction::edit("waited").into(),
                _ => AnyAction::Pass,
            }
        }
    }
    let tract = with_call();
    let waits = Hooks::new().any_handler("waits", WaitingHandler);
    assert_eq!(waits.names::<BeforeMerge>().join(" "), "waits");
    block_on(tract.with_hooks(waits).tool_result("c1", LONG)).unwrap();
    assert_eq!(last(&tract), "waited");
    let fails = Hooks::new().on_any_try("fails", |_| Err("no key"));
    let error = block_on(tract.with_hooks(fails).user("next")).unwrap_err();
    assert!(error.to_string().contains("failed: no key"), "{error}");
}
