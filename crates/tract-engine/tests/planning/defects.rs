//! What the program that this one follows gets wrong, by the letter or number of its list, and
//! what is right here. Some items of that list are about edits, merges, stores, forms and exports;
//! they are tested where those are.

use std::time::{Duration, Instant};

use tract_core::{Draft, Op, Priority, block_on};
use tract_engine::plan::Request;

use crate::fixture::{Fixture, all, merge, sharing, tool};

/// 9 a: a range ending before the head removed every later commit from the branch.
#[test]
fn compress_of_a_range_keeps_later_and_unlisted_messages() {
    let desk = Fixture::new();
    let ids: Vec<_> = ["a", "b", "c", "d", "e"].map(|text| desk.user(text)).into();
    desk.compress(&[ids[0], ids[2]], "ac");
    assert_eq!(desk.shown(), ["assistant: ac", "user: b", "user: d", "user: e"]);
}

/// 9 b: pins set by annotation were swallowed by the next compress.
#[test]
fn pins_survive_every_compress() {
    let desk = Fixture::new();
    desk.user("a");
    let pinned = desk.user("keep");
    desk.mark(pinned, Priority::Pinned);
    desk.go(Request::compress(all(), "one"));
    desk.user("b");
    desk.go(Request::compress(all(), "two"));
    assert_eq!(desk.shown(), ["assistant: two", "user: keep"]);
}

/// 9 c: tools of copied and summary commits were lost.
#[test]
fn tools_survive_compress_merge_revert_and_edit() {
    let desk = Fixture::new();
    desk.go(Request::tools([tool("grep", "finds")]));
    let a = desk.user("a");
    let b = desk.user("b");
    let side = desk.fork("side", b);
    side.user("c");
    let summary = desk.compress(&[a, b], "ab");
    desk.edit(summary, "AB");
    desk.mark(summary, Priority::Important);
    let merged = merge(&desk, &side);
    desk.revert(&[merged.id()]);
    assert_eq!(desk.tool_names(), ["grep"]);
}

/// 9 d: messages that came by a merge vanished without being summarized.
#[test]
fn merged_messages_are_summarized_with_the_rest() {
    let (desk, side, a) = sharing("a");
    let theirs = side.user("theirs");
    let ours = desk.user("ours");
    merge(&desk, &side);
    let summary = desk.go(Request::compress(all(), "all"));
    let targets = vec![a, ours, theirs];
    assert_eq!(desk.commit(summary).op, Op::Compress { targets });
    assert_eq!(desk.shown(), ["assistant: all"]);
}

/// 9 e: summaries were made from originals instead of what was shown.
#[test]
fn the_sources_of_a_summary_are_what_was_shown() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let edited = desk.edit(a, "A");
    let summary = desk.compress(&[a], "s");
    assert_eq!(desk.commit(summary).op, Op::Compress { targets: vec![edited] });
}

/// 9 f: a context whose system prompt was edited could never be compressed again.
#[test]
fn an_edited_system_prompt_does_not_stop_compress() {
    let desk = Fixture::new();
    let system = desk.system("be brief");
    desk.user("a");
    desk.edit(system, "be very brief");
    desk.go(Request::compress(all(), "s"));
    assert_eq!(desk.shown(), ["system: be very brief", "assistant: s"]);
}

/// 9 g: the ratio counted pinned tokens on one side only. Tokens are those of the whole context
/// on both sides.
#[test]
fn tokens_before_and_after_compress_count_the_same_things() {
    let desk = Fixture::new();
    desk.system(&"pinned ".repeat(100));
    desk.user(&"long ".repeat(100));
    let count = || block_on(desk.repo.compile(desk.head())).unwrap().token_count().count;
    let before = count();
    let summary = desk.go(Request::compress(all(), "s"));
    let after = count();
    assert!(after < before);
    desk.revert(&[summary]);
    assert_eq!(count(), before);
}

/// 4: priorities were global across branches.
#[test]
fn priorities_belong_to_their_branch() {
    let (desk, side, a) = sharing("a");
    side.mark(a, Priority::Skip);
    assert_eq!((desk.shown().len(), side.shown().len()), (1, 0));
}

/// 5: time travel showed the head's tools, and lost older priorities.
#[test]
fn time_travel_gives_messages_priorities_and_tools_as_they_were() {
    let desk = Fixture::new();
    desk.go(Request::tools([tool("old", "1")]));
    let a = desk.user("a");
    let skipped = desk.mark(a, Priority::Skip);
    desk.clock.advance(Duration::from_secs(60));
    desk.mark(a, Priority::Pinned);
    desk.edit(a, "A");
    desk.go(Request::tools([tool("new", "2")]));
    let at = block_on(desk.repo.compiler().view_at_time(desk.head(), crate::fixture::NOON));
    assert_eq!(at.unwrap(), Some(skipped));
    let old = block_on(desk.repo.compile(Some(skipped))).unwrap();
    assert_eq!(old.message_count(), 0);
    assert_eq!(old.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["old"]);
    let older = block_on(desk.repo.compile(Some(a))).unwrap();
    assert_eq!(older.messages().next().unwrap().content.text(), "a");
    assert_eq!(desk.tool_names(), ["new"]);
}

/// 14.1, 14.2: the cost of a step grew with history.
#[test]
fn a_step_does_not_grow_with_history() {
    let desk = Fixture::new();
    let step = |desk: &Fixture, n: usize| {
        let begun = Instant::now();
        for _ in 0..n {
            desk.user("a message");
            let compiled = block_on(desk.repo.compile(desk.head())).unwrap();
            assert!(compiled.message_count() > 0);
        }
        begun.elapsed() / u32::try_from(n).unwrap()
    };
    let requests = |n: usize| -> Vec<Request> {
        (0..n).map(|n| Draft::user(format!("message {n}")).into()).collect()
    };
    block_on(desk.repo.write(&desk.branch, &requests(100), &Default::default())).unwrap();
    step(&desk, 10);
    let early = (0..5).map(|_| step(&desk, 20)).min().unwrap();
    block_on(desk.repo.write(&desk.branch, &requests(5_000), &Default::default())).unwrap();
    step(&desk, 10);
    let late = (0..5).map(|_| step(&desk, 20)).min().unwrap();
    println!("append and compile: {early:?} at 100 commits, {late:?} at 5,000");
    // Fifty times the history; a linear step would take forty times as long.
    assert!(late < early * 8, "{early:?} at 100 commits, {late:?} at 5,000");
}

/// 14.7: the commit hash left out message, metadata and tools.
#[test]
fn the_id_covers_message_metadata_and_tools() {
    let base = || Draft::user("a").at(1);
    let drafts = [
        base(),
        base().message("m"),
        base().metadata("k", 1).unwrap(),
        base().tools(vec![tool("x", "y")]).unwrap(),
        base().priority(Priority::Pinned),
    ];
    let ids: std::collections::HashSet<_> =
        drafts.into_iter().map(|draft| Fixture::new().go(draft)).collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(Fixture::new().go(base()), Fixture::new().go(base()), "and nothing else");
}

/// 14.11: reopening gave an empty context, and the active tools were forgotten.
#[test]
fn another_handle_sees_the_same_context_and_tools() {
    let desk = Fixture::new();
    desk.go(Request::tools([tool("grep", "finds")]));
    desk.user("a");
    let cold = desk.cold();
    assert_eq!((cold.shown(), cold.tool_names()), (desk.shown(), desk.tool_names()));
    cold.user("b");
    assert_eq!(cold.tool_names(), ["grep"]);
}

/// 14.17: token counts differed between a cached and a fresh compile.
#[test]
fn tokens_are_the_same_warm_and_cold() {
    let desk = Fixture::new();
    desk.go(Request::tools([tool("grep", "finds")]));
    let a = desk.user("a question");
    desk.call("c1");
    desk.result("c1", "an answer");
    desk.edit(a, "another question");
    let count = |desk: &Fixture| {
        let compiled = block_on(desk.repo.compile(desk.head())).unwrap();
        compiled.token_count().clone()
    };
    assert_eq!(count(&desk), count(&desk.cold()));
}
