//! Pending approvals: each survives a restart, is decided once, and leaves originals readable. What a
//! kill on the way leaves is in `kills`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tract::engine::{PendingRequest, TurnAnswer};
use tract::hooks::{
    BeforeCommit, BeforeCompile, BeforeCompress, BeforeMerge, CommitAction, CompileAction,
    CompressAction, DecisionRecord, Hooks, MergeAction, OnFailure, Summarize, ToolResultAction,
    ToolResultReceived,
};
use tract::{Content, Draft, OpenOptions, Part, Tract, block_on};

use crate::summaries::{FirstLine, LONG};
use crate::walks::{assert_clean, last, memory, sqlite, texts};

pub(crate) fn defers() -> Hooks {
    Hooks::new().summarizer(FirstLine).on("ask-a-person", |_: &ToolResultReceived| {
        ToolResultAction::Defer("needs a person".into())
    })
}

fn open_call(tract: &Tract, id: &str) {
    block_on(tract.commit(Draft::assistant("").call(id, "grep", "{}"))).unwrap();
}

/// Defers a result; returns what waits.
fn deferred(tract: &Tract, id: &str) -> String {
    open_call(tract, id);
    let error = block_on(tract.with_hooks(defers()).tool_result(id, LONG)).unwrap_err();
    assert_eq!(error.code(), "deferred", "{error:?}");
    let all = block_on(tract.pending().list()).unwrap();
    all.last().unwrap().id.clone()
}

#[test]
fn pending_approvals_are_decided_after_a_restart_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    for (n, how) in ["approve", "reject", "edit", "summarize"].into_iter().enumerate() {
        let call = format!("c{n}");
        let id = {
            let tract = sqlite(folder.path());
            let id = deferred(&tract, &call);
            block_on(tract.store().close()).unwrap();
            id
        };
        let tract = sqlite(folder.path()).with_hooks(defers());
        let waiting = block_on(tract.pending().list()).unwrap();
        assert_eq!((waiting.len(), waiting[0].id.as_str()), (1, id.as_str()));
        assert_eq!(waiting[0].request.content().unwrap().text(), LONG);
        assert!(waiting[0].to_string().contains("needs a person"));
        // Meanwhile the branch has moved on.
        block_on(tract.user("still waiting")).unwrap();
        let decided = match how {
            "approve" => block_on(tract.pending().approve(&id)),
            "reject" => block_on(tract.pending().reject(&id, "wrong booking")),
            "edit" => block_on(tract.pending().edit(&id, "edited")),
            _ => block_on(tract.pending().summarize(&id, &Summarize::new())),
        }
        .unwrap();
        assert_eq!(decided.record.action, how);
        let shown = match how {
            "approve" => LONG,
            "reject" => "rejected: wrong booking",
            "edit" => "edited",
            _ => "src/main.rs:7: fn main() {",
        };
        assert_eq!(last(&tract), shown);
        let made = decided.commit.unwrap();
        let record = block_on(tract.decision_on(made)).unwrap().unwrap();
        assert_eq!(record.pending.as_deref(), Some(id.as_str()));
        let kept = block_on(tract.expand(made)).unwrap();
        let kept = kept.map_or(LONG.to_owned(), |content| content.text());
        assert_eq!(kept, LONG, "the original is readable");
        assert!(block_on(tract.pending().list()).unwrap().is_empty());
        assert!(block_on(tract.turns().open_calls()).unwrap().is_empty());
        for again in
            [block_on(tract.pending().approve(&id)), block_on(tract.pending().reject(&id, "no"))]
        {
            let error = again.unwrap_err();
            assert_eq!(error.code(), "already_decided");
            assert!(error.to_string().contains(how) && !error.notes().is_empty());
        }
        assert_clean(&tract, how);
        block_on(tract.store().close()).unwrap();
    }
}

#[test]
fn of_two_deciders_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let first = sqlite(folder.path());
    for n in 0..6 {
        let id = deferred(&first, &format!("c{n}"));
        let deciders: Vec<_> = (0..4)
            .map(|k| {
                let (tract, id) = (sqlite(folder.path()), id.clone());
                std::thread::spawn(move || match k % 2 {
                    0 => block_on(tract.pending().approve(&id)).map_err(|error| error.code()),
                    _ => block_on(tract.pending().reject(&id, "no")).map_err(|error| error.code()),
                })
            })
            .collect();
        let ends: Vec<_> = deciders.into_iter().map(|decider| decider.join().unwrap()).collect();
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1, "{ends:?}");
        for end in ends.iter().filter_map(|end| end.as_ref().err()) {
            assert_eq!(*end, "already_decided");
        }
    }
    assert_eq!(block_on(first.repo().decisions()).unwrap().len(), 6);
    assert_clean(&first, "two deciders");
}

#[test]
fn unknown_names_say_what_waits() {
    let tract = memory();
    let error = block_on(tract.pending().approve("p-0000")).unwrap_err();
    assert_eq!((error.code(), error.notes().len()), ("unknown_pending", 1));
    let id = deferred(&tract, "c1");
    let error = block_on(tract.pending().reject("nonsense", "")).unwrap_err();
    assert!(error.notes()[0].contains(&id), "{error:?}");
    block_on(tract.pending().approve(&id[..6])).unwrap();
}

#[test]
fn messages_summaries_and_merges_wait_as_well() {
    let tract = memory();
    block_on(tract.user("one")).unwrap();
    block_on(tract.assistant("two")).unwrap();
    let other = block_on(tract.fork("other", "HEAD")).unwrap();
    block_on(other.user("theirs")).unwrap();
    let hooks = Hooks::new()
        .on("m", |commit: &BeforeCommit| match commit.draft.content.text().as_str() {
            "three" | "four" => CommitAction::Defer("later".into()),
            _ => CommitAction::Pass,
        })
        .on("c", |_: &BeforeCompress| CompressAction::Defer("later".into()))
        .on("g", |_: &BeforeMerge| MergeAction::Defer("later".into()));
    let asking = tract.with_hooks(hooks);
    let before = block_on(tract.head()).unwrap();
    let waits = [
        block_on(asking.user("three")).unwrap_err(),
        block_on(asking.edit("HEAD", "four")).unwrap_err(),
        block_on(asking.compress("HEAD~1", "HEAD", "both")).unwrap_err(),
        block_on(asking.merge("other")).unwrap_err(),
    ];
    assert!(waits.iter().all(|error| error.code() == "deferred"), "{waits:?}");
    assert_eq!(block_on(tract.head()).unwrap(), before);
    let waiting = block_on(tract.pending().list()).unwrap();
    let approve = |fits: fn(&PendingRequest) -> bool| {
        let fitting = waiting.iter().find(|pending| fits(&pending.request)).unwrap();
        block_on(tract.pending().approve(&fitting.id)).unwrap();
    };
    approve(|request| matches!(request, PendingRequest::Merge { .. }));
    approve(|request| matches!(request, PendingRequest::Edit { .. }));
    approve(|request| matches!(request, PendingRequest::Append(_)));
    approve(|request| matches!(request, PendingRequest::Compress { .. }));
    // The summary never saw the edit that was approved before it, so that stays visible.
    let found = texts(&tract);
    assert_eq!(
        found,
        ["both", "four", "theirs", "three"],
        "each was planned again on the new head"
    );
    assert_clean(&tract, "what waited");
}

#[test]
fn an_edit_of_what_waits_is_like_any_edit() {
    let tract = memory();
    let asking = tract.with_hooks(
        Hooks::new().on("later", |_: &BeforeCommit| CommitAction::Defer("later".into())),
    );
    let edited = |draft: Draft, text: &str| {
        assert_eq!(block_on(asking.commit(draft)).unwrap_err().code(), "deferred");
        let waiting = block_on(tract.pending().list()).unwrap();
        block_on(tract.pending().edit(&waiting[0].id, text)).unwrap();
        let made = block_on(tract.show("HEAD")).unwrap();
        block_on(tract.repo().content(&made)).unwrap().unwrap()
    };
    // A note is JSON: other text becomes a string of it.
    assert_eq!(edited(Draft::note(r#"{"a":1}"#).unwrap(), "no JSON").text(), r#""no JSON""#);
    // What was signed was signed with the text as it was.
    let signed =
        Part::Reasoning { text: "hm".into(), signature: Some("s".into()), encrypted: None };
    let mut thoughtful = Draft::assistant("a").call("c", "f", "{}");
    thoughtful.content.parts_mut().unwrap().insert(0, signed);
    let content = edited(thoughtful, "b");
    assert_eq!((content.text(), content.calls().count()), ("b".into(), 1));
    assert!(!content.parts().iter().any(|part| matches!(part, Part::Reasoning { .. })));
}

#[test]
fn the_results_of_a_turn_are_each_decided() {
    let tract = memory();
    let calls =
        Draft::assistant("").call("a", "grep", "{}").call("b", "ls", "{}").call("c", "rm", "{}");
    block_on(tract.commit(calls)).unwrap();
    let hooks =
        Hooks::new().on("h", |result: &ToolResultReceived| match result.tool_name.as_deref() {
            Some("grep") => ToolResultAction::Reject("a secret".into()),
            Some("ls") => ToolResultAction::Defer("look first".into()),
            _ => ToolResultAction::Pass,
        });
    let results = ["a", "b", "c"].map(|id| Draft::tool_result(id, LONG));
    let answers = block_on(tract.with_hooks(hooks).turns().answer(results)).unwrap();
    let TurnAnswer::Rejected { commit, rejected } = &answers[0] else { panic!("{answers:?}") };
    let content = block_on(tract.repo().content(commit)).unwrap().unwrap();
    let Content::ToolResult(answer) = &content else { panic!("{content:?}") };
    assert!(answer.is_error && content.text() == "rejected: a secret");
    assert_eq!(rejected.content.as_ref().unwrap().text(), LONG);
    let TurnAnswer::Deferred(deferred) = &answers[1] else { panic!("{answers:?}") };
    assert!(matches!(answers[2], TurnAnswer::Committed(_)));
    assert_eq!(block_on(tract.turns().open_calls()).unwrap().len(), 1, "what waits is still open");
    block_on(tract.pending().approve(&deferred.id)).unwrap();
    assert!(block_on(tract.turns().open_calls()).unwrap().is_empty());
}

/// Lets handlers fail at a result, which refuses it and then passes it on; returns the decision on
/// what was passed on.
#[track_caller]
fn refused_then_passed_on(
    tract: &Tract,
    hooks: impl Fn(OnFailure) -> Hooks,
    says: &str,
) -> DecisionRecord {
    open_call(tract, "c1");
    let refusing = tract.with_hooks(hooks(OnFailure::Refuse));
    let error = block_on(refusing.tool_result("c1", LONG)).unwrap_err();
    assert_eq!(error.code(), "rejected_by_hook");
    assert!(error.to_string().contains(says), "{error}");
    let decided = &block_on(tract.repo().decisions()).unwrap()[0];
    assert_eq!(decided.request.content().unwrap().text(), LONG, "not lost");
    let passing = tract.with_hooks(hooks(OnFailure::PassOn));
    let made = block_on(passing.tool_result("c1", LONG)).unwrap();
    assert_eq!(last(tract), LONG);
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    assert!(record.failures[0].contains(says), "{record:?}");
    record
}

#[test]
fn invalid_answers_of_handlers_refuse_or_are_passed_over() {
    let bad = |policy| {
        Hooks::new().on_failure(policy).on("bad", |_: &ToolResultReceived| {
            ToolResultAction::Edit(vec![Part::call("x", "y", "{}")])
        })
    };
    let tract = memory();
    refused_then_passed_on(&tract, bad, "invalid answer");
    let other_kind = Hooks::new()
        .on("bad", |_: &BeforeCommit| CommitAction::Edit(Content::system("you are mine")));
    let error = block_on(tract.with_hooks(other_kind).user("Hi")).unwrap_err();
    assert!(error.to_string().contains("expected user, found system"), "{error}");
}

/// What a handler does instead of answering: it says whether it is fine, or worse.
type FailureMode = fn() -> bool;

/// Handlers for every event of the write path that all go wrong in the same way.
fn wrong(policy: OnFailure, how: FailureMode) -> Hooks {
    let fail = move || if how() { Ok(()) } else { Err("out of order") };
    Hooks::new()
        .on_failure(policy)
        .on_try("bad", move |_: &ToolResultReceived| fail().map(|()| ToolResultAction::Pass))
        .on_try("bad", move |_: &BeforeCommit| fail().map(|()| CommitAction::Pass))
        .on_try("bad", move |_: &BeforeCompress| fail().map(|()| CompressAction::Pass))
        .on_try("bad", move |_: &BeforeMerge| fail().map(|()| MergeAction::Pass))
}

#[test]
fn a_failing_handler_is_recorded_for_every_event() {
    let ways: [(FailureMode, &str); 2] =
        [(|| false, "failed: out of order"), (|| panic!("oh"), "panicked: oh")];
    for (how, says) in ways {
        let tract = memory();
        block_on(tract.user("one")).unwrap();
        let answer = block_on(tract.assistant("two")).unwrap();
        let other = block_on(tract.fork("other", "HEAD")).unwrap();
        block_on(other.user("theirs")).unwrap();
        let ahead = block_on(tract.fork("behind", "HEAD")).unwrap();
        open_call(&tract, "c1");
        let ask = |tract: &Tract| {
            vec![
                block_on(tract.tool_result("c1", LONG)).map(Some),
                block_on(tract.edit(&answer, "three")).map(Some),
                block_on(tract.compress(&answer, &answer, "short")).map(Some),
                block_on(tract.merge("other")).map(|merged| match merged {
                    tract::engine::Merged::Commit(commit) => Some(commit),
                    _ => None,
                }),
            ]
        };
        let before = block_on(tract.head()).unwrap();
        for error in ask(&tract.with_hooks(wrong(OnFailure::Refuse, how))) {
            let error = error.unwrap_err();
            assert_eq!(error.code(), "rejected_by_hook");
            assert!(error.to_string().contains(says), "{error}");
        }
        assert_eq!(block_on(tract.head()).unwrap(), before, "nothing was written");
        let decisions = block_on(tract.repo().decisions()).unwrap();
        assert_eq!(decisions.len(), 4);
        for decided in &decisions {
            assert_eq!(decided.record.action, "reject");
            assert!(decided.record.failures[0].contains(says), "{:?}", decided.record);
        }
        let texts: Vec<String> = decisions
            .iter()
            .filter_map(|decided| decided.request.content().map(Content::text))
            .collect();
        for text in [LONG, "three", "short"] {
            assert!(texts.iter().any(|found| found == text), "{text} is not lost");
        }

        let passing = wrong(OnFailure::PassOn, how);
        for made in ask(&tract.with_hooks(passing.clone())) {
            let made = made.unwrap().unwrap();
            let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
            assert_eq!((record.action.as_str(), record.handler.as_ref()), ("pass", None));
            assert!(record.all().all(|record| record.failures[0].contains(says)), "{record:?}");
        }
        // No commit is made that could contain it.
        let behind = ahead.with_hooks(passing);
        let forwarded = block_on(behind.merge("other")).unwrap();
        let tract::engine::Merged::FastForward { head } = forwarded else { panic!("forwarded") };
        let decisions = block_on(tract.repo().decisions()).unwrap();
        let last = decisions.iter().find(|decided| decided.commit == Some(head)).unwrap();
        assert!(last.record.failures[0].contains(says), "{last:?}");
        assert_clean(&tract, says);
    }
}

#[test]
fn handlers_that_loop_or_block_are_not_waited_for() {
    static OVER: AtomicBool = AtomicBool::new(false);
    let ways: [FailureMode; 2] = [
        || {
            while !OVER.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            true
        },
        || {
            let (_open, never) = std::sync::mpsc::channel::<()>();
            never.recv_timeout(Duration::from_secs(600)).is_ok()
        },
    ];
    for how in ways {
        let tract = memory();
        let hooks = |policy| wrong(policy, how).time_limit(Duration::from_millis(20));
        let record = refused_then_passed_on(&tract, hooks, "did not answer within 20ms");
        let events: Vec<&str> = record.all().map(|record| record.event.as_str()).collect();
        assert_eq!(events, ["before_commit", "tool_result_received"]);
        assert_clean(&tract, "handlers that loop or block");
    }
    OVER.store(true, Ordering::Relaxed);
}

#[test]
fn an_edit_beyond_the_limit_is_an_invalid_answer() {
    let limits = tract::core::Limits { blob_bytes: 1000, ..Default::default() };
    let tract = block_on(OpenOptions::new().limits(limits).open("memory:")).unwrap();
    let hooks = |policy| {
        Hooks::new()
            .on_failure(policy)
            .on("grows", |_: &ToolResultReceived| ToolResultAction::edit("x".repeat(1001)))
    };
    refused_then_passed_on(&tract, hooks, "too large");
}

#[test]
fn every_decision_on_a_message_is_written_down() {
    let tract = memory();
    open_call(&tract, "c1");
    let hooks = Hooks::new()
        .summarizer(FirstLine)
        .on("shortens", |_: &ToolResultReceived| {
            Summarize { instructions: Some("paths".to_owned()), ..Summarize::new() }.into()
        })
        .on("trims", |commit: &BeforeCommit| match &commit.draft.content {
            Content::ToolResult(_) => CommitAction::Edit(Content::tool_result("", "main.rs:7")),
            _ => CommitAction::Approve,
        })
        .on("compresses", |_: &BeforeCompress| CompressAction::Approve)
        .on("merges", |_: &BeforeMerge| MergeAction::Approve);
    let asking = tract.with_hooks(hooks);
    let made = block_on(asking.tool_result("c1", LONG)).unwrap();
    assert_eq!(last(&tract), "main.rs:7");
    let record = block_on(tract.decision_on(&made)).unwrap().unwrap();
    let records: Vec<_> =
        record.all().map(|one| (one.action.as_str(), one.handler.as_deref())).collect();
    assert_eq!(records, [("edit", Some("trims")), ("summarize", Some("shortens"))]);
    assert_eq!(record.earlier[0].instructions.as_deref(), Some("paths"));
    assert_eq!(record.earlier[0].after, record.before, "one continues the other");
    assert_eq!(record.original(), Some(made.keeps[0]));
    assert_eq!(block_on(tract.expand(&made)).unwrap().unwrap().text(), LONG);
    let who = |commit: &tract::Commit| {
        let record = block_on(tract.decision_on(commit)).unwrap().unwrap();
        (record.action, record.handler.unwrap())
    };
    let approved = |by: &str| ("approve".to_owned(), by.to_owned());
    let question = block_on(asking.user("one")).unwrap();
    assert_eq!(who(&question), approved("trims"));
    let edit = block_on(asking.edit(&question, "two")).unwrap();
    assert_eq!(who(&edit), approved("trims"));
    let other = block_on(tract.fork("other", "HEAD")).unwrap();
    block_on(other.user("theirs")).unwrap();
    let summary = block_on(asking.compress(&question, &question, "three")).unwrap();
    assert_eq!(who(&summary), approved("compresses"));
    let merged = block_on(asking.merge("other")).unwrap();
    let tract::engine::Merged::Commit(merged) = merged else { panic!("{merged:?}") };
    assert_eq!(who(&merged), approved("merges"));
    // What was deferred, by whom and why, is reported with the decision.
    let id = deferred(&tract, "c2");
    let decided = block_on(tract.pending().approve(&id)).unwrap();
    let earlier = &decided.record.earlier[0];
    assert_eq!(
        (earlier.action.as_str(), earlier.handler.as_deref()),
        ("defer", Some("ask-a-person"))
    );
    assert_eq!(earlier.reason.as_deref(), Some("needs a person"));
    assert_clean(&tract, "decisions");
}

#[test]
fn a_refused_compile_says_who_and_why_and_changes_nothing() {
    let tract = memory();
    block_on(tract.user("one")).unwrap();
    let quiet =
        Hooks::new().on("quiet", |_: &BeforeCompile| CompileAction::Refuse("not at night".into()));
    let asking = tract.with_hooks(quiet);
    let error = block_on(asking.compile()).unwrap_err();
    assert_eq!(error.code(), "rejected_by_hook");
    assert!(error.to_string().contains("\"quiet\"") && error.to_string().contains("not at night"));
    block_on(asking.user("two")).unwrap();
    let broken = |policy| {
        let hooks = Hooks::new().on_failure(policy);
        hooks.on("bad", |_: &BeforeCompile| -> CompileAction { panic!("oh") })
    };
    let error = block_on(tract.with_hooks(broken(OnFailure::Refuse)).compile()).unwrap_err();
    assert!(error.to_string().contains("panicked: oh"), "{error}");
    let compiled = block_on(tract.with_hooks(broken(OnFailure::PassOn)).compile()).unwrap();
    assert_eq!(compiled.message_count(), 2);
}

#[test]
fn a_result_of_a_hundred_megabytes_is_refused_before_it_is_read() {
    let hooks = Hooks::new()
        .on("never", |_: &ToolResultReceived| -> ToolResultAction { panic!("it was read") });
    let tract = memory();
    open_call(&tract, "c1");
    let error = block_on(tract.with_hooks(hooks).tool_result("c1", "x".repeat(100 << 20)));
    assert_eq!(error.unwrap_err().code(), "too_large");
    assert_eq!(block_on(tract.turns().open_calls()).unwrap().len(), 1);
}
