//! The cost of hooks without a handler, and of queries of tool turns in a long history.

use std::hint::black_box;

use tract::engine::ToolQuery;
use tract::hooks::{BeforeCommit, Hooks};
use tract::store::WriteMode;
use tract::{Draft, RefName, block_on};

use crate::messages;
use crate::table::{Table, median, micros, timed};

pub(crate) fn run(table: &mut Table, quick: bool) {
    chain(table);
    queries(table, if quick { 10_000 } else { 100_000 });
}

fn chain(table: &mut Table) {
    let hooks = Hooks::new();
    let event = BeforeCommit::new(RefName::branch("main").unwrap(), Draft::user("a"));
    let rounds = (0..9).map(|_| {
        let (_, took) = timed(|| {
            for _ in 0..10_000 {
                let has_handler = black_box(&hooks).has_handler::<BeforeCommit>();
                let decision = block_on(black_box(&hooks).before_commit(black_box(&event)));
                let _ = black_box((has_handler, decision.by()));
            }
        });
        micros(took) * 1000.0 / 10_000.0
    });
    let ours = median(rounds.collect());
    let ours_text = format!("{ours:.0} ns");
    table.limit("hook chain without handlers, per event", ours_text, "< 1 µs", ours < 1000.0);
}

fn queries(table: &mut Table, commits: u64) {
    const TURNS: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    let between = commits / TURNS - 2;
    for n in 0..TURNS {
        messages::fill(&tract, n * between, between);
        let id = format!("c{n}");
        let call = Draft::assistant("").call(id.clone(), "grep", r#"{"pattern":"main"}"#);
        block_on(tract.commit_all([call, Draft::tool_result(id, messages::text(n))])).unwrap();
    }
    messages::close(tract);
    let query = |drops: bool| {
        let runs = (0..9).map(|_| {
            let tract = messages::open(folder.path(), WriteMode::InPlace);
            if drops {
                block_on(tract.store().drop_derived(tract.repo().name())).unwrap();
            }
            let (found, took) =
                timed(|| block_on(tract.turns().find(&ToolQuery::default())).unwrap());
            assert_eq!(found.len() as u64, TURNS);
            messages::close(tract);
            micros(took) / 1000.0
        });
        median(runs.collect())
    };
    let ours = query(false);
    let walk = query(true);
    let what = format!("1,000 tool turns among {commits} commits, cold");
    let note = "the walk, without the index";
    table.compare(what, "ms", [ours, walk], note, "< 20 ms", ours < 20.0);
}
