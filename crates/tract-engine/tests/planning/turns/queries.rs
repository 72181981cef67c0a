use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::{DerivedKind, DerivedRow, Draft, Priority, block_on};
use tract_engine::{Error, RepoOptions, ToolQuery, ToolTurn, tool_costs};
use tract_testkit::{Call, WatchedStore};

use super::{indexed, rows};
use crate::fixture::{Fixture, plant};

fn turns(desk: &Fixture, query: &ToolQuery) -> Vec<ToolTurn> {
    super::turns(&desk.repo, desk.head(), query)
}

#[test]
fn call_ids_may_repeat_and_results_come_in_any_order() {
    let desk = indexed(2);
    let first = desk.go(Draft::assistant("").call("c1", "grep", "{}").call("c2", "ls", "{}"));
    let b = desk.result("c2", "b");
    let a = desk.result("c1", "a");
    let second = desk.go(Draft::assistant("").call("c1", "ls", "{}").call("c9", "rm", "{}"));
    desk.user("and?");
    let late = desk.result("c1", "late");
    let found = turns(&desk, &ToolQuery::default());
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].call, found[0].result_ids()),
        (first, vec![a, b]),
        "in the order of calls"
    );
    assert_eq!((found[1].call, found[1].result_ids()), (second, vec![late]));
    assert_eq!(found[1].open_calls(), 1);
    assert_eq!(found[1].results[0].name.as_deref(), Some("ls"), "the second c1, not the first");
    let by_name = turns(&desk, &ToolQuery::named(["rm"]));
    assert_eq!(by_name, found[1..], "a turn is found whole");
    assert_eq!(turns(&desk.cold(), &ToolQuery::default()), found);
    assert!(rows(&desk.repo, desk.head()) >= 3, "it was the index that answered");
}

#[test]
fn edits_are_no_further_results_and_count_as_they_read_now() {
    let desk = indexed(3);
    desk.call("c1");
    let result = desk.go(Draft::tool_result("c1", "x".repeat(4000)).is_error(true));
    let before = turns(&desk, &ToolQuery::default());
    let edit = desk.edit(result, "short");
    desk.edit(edit, "shorter");
    let found = turns(&desk, &ToolQuery::default());
    assert_eq!(found[0].result_ids(), [result]);
    assert!(found[0].total_tokens() + 900 < before[0].total_tokens());
    assert!(found[0].results[0].is_error, "an edit does not mend a failure");
    let results: Vec<_> = block_on(desk.repo.find_tool_results(desk.head(), &ToolQuery::default()))
        .unwrap()
        .collect();
    assert_eq!(results.len(), 1);
    assert_ne!(results[0].version, result);
    desk.revert(&[results[0].version]);
    assert_eq!(turns(&desk, &ToolQuery::default())[0].results[0].version, edit);
}

#[test]
fn after_is_exclusive_and_knows_the_line() {
    let desk = indexed(2);
    let call = desk.go(Draft::assistant("").call("c1", "grep", "{}").call("c2", "ls", "{}"));
    let first = desk.result("c1", "1");
    let second = desk.result("c2", "2");
    let results = |after| {
        let query = ToolQuery { after: Some(after), ..ToolQuery::default() };
        let found = block_on(desk.repo.find_tool_results(desk.head(), &query))?;
        Ok::<Vec<_>, Error>(found.map(|result| (result.id, result.name)).collect())
    };
    let named = |id, name: &str| (id, Some(name.to_owned()));
    assert_eq!(results(call).unwrap(), [named(first, "grep"), named(second, "ls")]);
    assert_eq!(results(first).unwrap(), [named(second, "ls")]);
    assert_eq!(results(second).unwrap(), []);
    let unknown = tract_core::CommitId::from_bytes([7; 32]);
    let error = results(unknown).unwrap_err();
    assert_eq!(error.code(), "not_on_line");
    assert!(!error.notes().is_empty());
    assert!(
        turns(&desk, &ToolQuery { after: Some(call), ..ToolQuery::default() }).is_empty(),
        "the turn began before"
    );
}

#[test]
fn summarized_turns_are_found_on_request() {
    let desk = indexed(2);
    let call = desk.call("c1");
    desk.result("c1", "1");
    let summary = desk.compress(&[call], "it was looked up");
    assert_eq!(turns(&desk, &ToolQuery::default()), []);
    assert_eq!(turns(&desk, &ToolQuery { hidden: true, ..ToolQuery::default() }).len(), 1);
    desk.revert(&[summary]);
    assert_eq!(turns(&desk, &ToolQuery::default()).len(), 1);
}

#[test]
fn dropping_failed_turns_twice_finds_nothing_the_second_time() {
    let desk = indexed(2);
    for (id, failed) in [("c1", true), ("c2", false), ("c3", true)] {
        desk.go(Draft::assistant("").call(id, "grep", "{}").call("k", "ls", "{}"));
        desk.go(Draft::tool_result(id, "out").is_error(failed));
        if id != "c3" {
            desk.result("k", "fine");
        }
    }
    let query = ToolQuery::default();
    let drop = || block_on(desk.repo.drop_failed_tool_turns(&desk.branch, &query)).unwrap();
    let first = drop();
    assert_eq!((first.turns_dropped, first.commits_skipped), (1, 3), "an open turn stays");
    assert!(first.tokens_freed > 0 && first.commit.is_some());
    assert_eq!(first.tool_names.into_iter().collect::<Vec<_>>(), ["grep", "ls"]);
    let second = drop();
    assert_eq!((second.turns_dropped, second.commit), (0, None));
    let compiled = block_on(desk.repo.compile(desk.head())).unwrap();
    assert!(compiled.messages().all(|message| message.priority > Priority::Skip));
    assert_eq!(compiled.message_count(), 5);
}

/// So many turns of one call.
fn answered(desk: &Fixture, turns: usize) {
    for id in (0..turns).map(|n| format!("c{n}")) {
        desk.call(&id);
        desk.result(&id, "out");
    }
}

#[test]
fn pages_reach_everything() {
    let desk = indexed(16);
    answered(&desk, 250);
    let mut pages =
        block_on(desk.repo.find_tool_turns(desk.head(), &ToolQuery::default())).unwrap();
    assert_eq!(pages.len(), 250, "no limit cuts in silence");
    let pages = std::iter::repeat_with(|| pages.next_page(64)).take_while(|page| !page.is_empty());
    let seen: Vec<ToolTurn> = pages.flatten().collect();
    assert_eq!(seen, turns(&desk.cold(), &ToolQuery::default()));
}

#[test]
fn verify_finds_a_wrong_row_and_rebuilds_the_index() {
    let desk = indexed(2);
    answered(&desk, 10);
    let (count, expected) = (rows(&desk.repo, desk.head()), turns(&desk, &ToolQuery::default()));
    let (kind, commit) = (DerivedKind::Turn, desk.head().unwrap());
    let row = DerivedRow { kind, commit, bytes: b"not a row".as_slice().into() };
    plant(&desk.repo, |batch| batch.derived.push(row));
    assert_eq!(
        turns(&desk.cold(), &ToolQuery::default()),
        expected,
        "a damaged row costs time only"
    );
    let report = block_on(tract_engine::verify(&desk.repo, &Default::default())).unwrap();
    assert!(report.damage.iter().any(|damage| damage.derived && damage.what.contains("turn")));
    let options =
        tract_engine::VerifyOptions { repair: true, ..tract_engine::VerifyOptions::default() };
    let report = block_on(tract_engine::verify(&desk.repo, &options)).unwrap();
    assert!(report.clean && !report.repaired.is_empty(), "{report:?}");
    assert_eq!(rows(&desk.repo, desk.head()), count, "rebuilt");
    assert_eq!(turns(&desk.cold(), &ToolQuery::default()), expected);
}

#[test]
fn calls_that_forks_share_are_counted_once_and_read_once() {
    let (calls, inner) = (Arc::new(AtomicUsize::new(0)), Arc::new(tract_kv::memory()));
    let counted = Arc::clone(&calls);
    let store = WatchedStore::new(inner, move |_: Call<'_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let options = RepoOptions { turn_rows_every: 2, ..RepoOptions::default() };
    let desk = Fixture::of(Arc::new(store), options);
    for n in 0..100 {
        desk.call(&format!("c{n}"));
    }
    let last = desk.head().unwrap();
    let mut heads = vec![last];
    for n in 0..20 {
        let fork = desk.fork(&format!("fork-{n}"), last);
        fork.go(Draft::assistant("").call("own", "ls", "{}"));
        heads.push(fork.head().unwrap());
    }
    let repo = &desk.cold().repo;
    let measured = |heads| {
        calls.store(0, Ordering::SeqCst);
        let costs = block_on(tool_costs(repo, heads)).unwrap();
        let counts = costs.into_iter().map(|cost| (cost.name, cost.calls)).collect::<Vec<_>>();
        (counts, calls.load(Ordering::SeqCst))
    };
    let called = |name: &str, calls| (name.to_owned(), calls);
    let (counts, alone) = measured(&heads[..1]);
    assert_eq!(counts, [called("grep", 100)]);
    let (counts, with_forks) = measured(&heads);
    assert_eq!(counts, [called("grep", 100), called("ls", 20)]);
    assert!(with_forks < alone + 20 * 10, "{alone} and {with_forks} calls of the store");
}
