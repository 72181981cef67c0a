//! A summary that loses a race hides exactly the messages that it was planned for.

use std::sync::Mutex;

use tract_core::{CommitId, Draft, ModelError, Summarizer, Summary, SummaryRequest, block_on};
use tract_engine::plan::{Request, Selection};
use tract_engine::{ApplyOptions, CompressToolCalls, CompressedToolCalls, Repo};
use tract_hooks::{BeforeCompress, CompressAction, Hooks};

use crate::fixture::{Interruption, TwoHandles, all};
use crate::support::{branch, done, texts};

impl TwoHandles {
    fn add(&self, draft: Draft) -> CommitId {
        add(&self.repo, draft)
    }

    fn shown(&self) -> Vec<String> {
        texts(&self.other, "main")
    }
}

fn add(repo: &Repo, draft: Draft) -> CommitId {
    block_on(repo.append(&branch("main"), draft)).unwrap().id()
}

/// Summarizes all messages.
fn compress(repo: &Repo, summary: &str) {
    block_on(repo.compress(&branch("main"), all(), summary)).unwrap();
}

#[test]
fn a_message_of_another_handle_is_not_hidden_by_a_summary_that_lost_the_race_to_it() {
    let scratch = tempfile::tempdir().unwrap();
    for two in [TwoHandles::memory(), TwoHandles::sqlite(&scratch)] {
        let first = two.add(Draft::user("a"));
        two.add(Draft::assistant("b"));
        let to_the_end = Selection::Range { from: Some(first), to: None };
        two.arm(|other| _ = add(other, Draft::user("late")));
        block_on(two.repo.compress(&branch("main"), to_the_end, "s")).unwrap();
        assert_eq!(two.shown(), ["s", "late"]);
    }
}

#[test]
fn a_message_of_another_task_is_not_hidden_by_a_summary_that_a_handler_was_asked_about() {
    let plain = TwoHandles::memory().repo;
    add(&plain, Draft::user("a"));
    let writer = plain.clone();
    let hooks = Hooks::new().on("slow", move |_: &BeforeCompress| {
        add(&writer, Draft::user("late"));
        CompressAction::Pass
    });
    let asking = plain.with_hooks(hooks);
    compress(&asking, "s");
    assert_eq!(texts(&plain, "main"), ["s", "late"]);
}

#[test]
fn earlier_messages_of_another_handle_are_summarized() {
    let two = TwoHandles::memory();
    two.add(Draft::user("a"));
    // The first handle does not know of it yet.
    add(&two.other, Draft::user("b"));
    compress(&two.repo, "s");
    assert_eq!(two.shown(), ["s"]);
}

#[test]
fn an_edit_that_came_between_stays_visible() {
    for targets in [false, true] {
        let two = TwoHandles::memory();
        let a = two.add(Draft::user("a"));
        let b = two.add(Draft::user("b"));
        let select = if targets { Selection::Targets(vec![a, b]) } else { all() };
        two.arm(move |other| {
            block_on(other.edit(&branch("main"), b, "b, corrected")).unwrap();
        });
        block_on(two.repo.compress(&branch("main"), select, "s")).unwrap();
        assert_eq!(two.shown(), ["s", "b, corrected"]);
    }
}

#[test]
fn a_call_that_came_between_is_not_drawn_in_by_the_reasoning_before_it() {
    let two = TwoHandles::memory();
    two.add(Draft::user("a"));
    two.add(Draft::reasoning("hm"));
    two.arm(|other| {
        add(other, Draft::assistant("").call("c", "grep", "{}"));
        add(other, Draft::tool_result("c", "found"));
    });
    compress(&two.repo, "s");
    let line = block_on(async {
        let head = two.other.head_of(&branch("main")).await.unwrap();
        two.other.fold(head).await.unwrap()
    });
    assert_eq!(two.shown(), ["s", "", "found"]);
    assert_eq!(line.view().len(), 4, "the reasoning stays with its call");
}

#[test]
fn of_two_summaries_of_the_same_messages_the_later_one_is_refused() {
    let two = TwoHandles::memory();
    two.add(Draft::user("a"));
    two.arm(|other| compress(other, "theirs"));
    let error = block_on(two.repo.compress(&branch("main"), all(), "ours")).unwrap_err();
    assert_eq!(error.code(), "not_visible", "{error}");
    assert_eq!(two.shown(), ["theirs"]);
}

#[test]
fn a_line_of_a_stream_that_is_carried_out_again_summarizes_the_same_messages() {
    let lines = [
        "{\"op\":\"user\",\"text\":\"b\",\"mark\":\"b\"}\n",
        "{\"op\":\"compress\",\"from\":\"HEAD~1\",\"to\":\"HEAD\",\"content\":\"s\"}\n",
        "{\"op\":\"user\",\"text\":\"c\"}\n",
    ];
    // With lines of a write of their own the race is about the summary alone.
    for (batch, before) in [(1, 1), (3, 0)] {
        let two = TwoHandles::memory();
        two.add(Draft::user("a"));
        let options = ApplyOptions { batch: Some(batch), ..ApplyOptions::default() };
        assert_eq!(done(&two.repo, &lines[..before].concat(), &options).done, before);
        two.arm(|other| _ = add(other, Draft::user("late")));
        done(&two.repo, &lines[before..].concat(), &options);
        let shown = two.shown();
        assert!(shown.contains(&"late".to_owned()), "{batch}: {shown:?}");
        assert!(shown.contains(&"s".to_owned()) && !shown.contains(&"b".to_owned()), "{shown:?}");
    }
}

#[test]
fn messages_of_the_same_write_are_summarized_after_a_lost_race_too() {
    let two = TwoHandles::memory();
    two.add(Draft::user("a"));
    two.arm(|other| _ = add(other, Draft::user("late")));
    let requests = vec![Request::from(Draft::user("b")), Request::compress(all(), "s")];
    let options = tract_engine::WriteOptions::default();
    block_on(two.repo.write(&branch("main"), requests, &options)).unwrap();
    assert_eq!(two.shown(), ["s", "late"]);
}

#[test]
fn a_deferred_summary_covers_the_messages_of_that_moment() {
    let two = TwoHandles::memory();
    two.add(Draft::user("a"));
    let request = tract_engine::PendingRequest::Compress {
        select: all(),
        content: tract_core::Content::assistant("s"),
        role: None,
        details: Default::default(),
    };
    let pending = block_on(two.repo.defer(&branch("main"), request, "tester", "look")).unwrap();
    two.add(Draft::user("late"));
    block_on(two.repo.approve(&pending.id)).unwrap();
    assert_eq!(two.shown(), ["s", "late"]);
}

#[test]
fn a_revert_of_a_message_that_is_summarized_meanwhile_is_refused() {
    // The sibling of the above: nothing that was planned for a visible message reaches a hidden one.
    let two = TwoHandles::memory();
    let a = two.add(Draft::user("a"));
    two.arm(|other| compress(other, "s"));
    let error = block_on(two.repo.write_one(&branch("main"), Request::revert([a]))).unwrap_err();
    assert_eq!(error.code(), "superseded", "{error}");
    assert_eq!(two.shown(), ["s"]);
}

/// Summarizes everything as "short". What it is given to do first happens while it works.
struct Short(Mutex<Option<Interruption>>, Repo);

#[async_trait::async_trait]
impl Summarizer for Short {
    async fn summarize(&self, _: &SummaryRequest) -> Result<Summary, ModelError> {
        let first = self.0.lock().unwrap().take();
        if let Some(first) = first {
            first(&self.1);
        }
        Ok(Summary::new("short"))
    }
}

const LONG: &str = "a line of a long result, and another one, and one more";

/// Two results of one message.
fn two_results(two: &TwoHandles) -> [CommitId; 2] {
    two.add(Draft::assistant("").call("c1", "grep", "{}").call("c2", "grep", "{}"));
    ["c1", "c2"].map(|call| two.add(Draft::tool_result(call, LONG)))
}

/// Shortens all results, while the other handle does something.
fn shorten(
    two: &TwoHandles,
    meanwhile: impl FnOnce(&Repo) + Send + 'static,
) -> CompressedToolCalls {
    let port = Short(Mutex::new(Some(Box::new(meanwhile))), two.other.clone());
    let repo = two.repo.with_hooks(Hooks::new().summarizer(port));
    block_on(repo.compress_tool_calls(&branch("main"), &CompressToolCalls::default())).unwrap()
}

fn edit(repo: &Repo, target: CommitId) {
    block_on(repo.edit(&branch("main"), target, "corrected")).unwrap();
}

#[track_caller]
fn only_the_second_is_shortened(
    two: &TwoHandles,
    [one, other]: [CommitId; 2],
    meanwhile: impl FnOnce(&Repo) + Send + 'static,
) {
    let done = shorten(two, meanwhile);
    assert_eq!(two.shown()[1..], ["corrected", "short"]);
    assert_eq!(done.sources, [other]);
    assert_eq!(done.edits.len(), 1);
    assert!(matches!(&done.left[..], [(left, _)] if *left == one), "{:?}", done.left);
    // The figures are those of what was done.
    let alone = TwoHandles::memory();
    alone.add(Draft::assistant("").call("c1", "grep", "{}"));
    alone.add(Draft::tool_result("c1", LONG));
    let of_one = shorten(&alone, |_| {});
    assert_eq!(
        (done.tokens_before, done.tokens_after, done.turn_count),
        (of_one.tokens_before, of_one.tokens_after, 1)
    );
}

#[test]
fn an_edit_made_while_results_are_summarized_is_not_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    for two in [TwoHandles::memory(), TwoHandles::sqlite(&scratch)] {
        let results = two_results(&two);
        only_the_second_is_shortened(&two, results, move |other| edit(other, results[0]));
    }
}

#[test]
fn an_edit_by_another_task_of_the_handle_is_not_replaced_by_a_summary() {
    let two = TwoHandles::memory();
    let results = two_results(&two);
    let same = two.repo.clone();
    only_the_second_is_shortened(&two, results, move |_| edit(&same, results[0]));
}

#[test]
fn an_edit_that_wins_the_race_against_a_shorter_result_is_not_replaced() {
    let two = TwoHandles::memory();
    let results = two_results(&two);
    two.arm(move |other| edit(other, results[0]));
    only_the_second_is_shortened(&two, results, |_| {});
}

#[test]
fn a_result_that_is_hidden_while_it_is_summarized_is_left_as_it_is() {
    let two = TwoHandles::memory();
    two_results(&two);
    let done = shorten(&two, |other| compress(other, "all of it"));
    assert_eq!((done.edits.len(), done.sources.len(), done.left.len()), (0, 0, 2));
    assert_eq!((done.tokens_before, done.tokens_after, done.turn_count), (0, 0, 0));
    assert_eq!(two.shown(), ["all of it"]);
}

#[test]
fn a_message_that_arrives_meanwhile_keeps_no_result_from_being_shortened() {
    let two = TwoHandles::memory();
    let results = two_results(&two);
    two.arm(|other| _ = add(other, Draft::user("later")));
    let done = shorten(&two, |other| _ = add(other, Draft::user("late")));
    assert_eq!(two.shown()[1..], ["short", "short", "late", "later"]);
    assert_eq!((done.sources, done.left.len()), (results.to_vec(), 0));
}
