//! One branch of a million messages against one of a thousand: what touches few messages, each by a
//! handle that has read nothing, as a command line does it.

use std::path::Path;

use tract::engine::LogPages;
use tract::store::WriteMode;
use tract::{Priority, Tract, block_on};

use super::{ENGINES, open};
use crate::messages;
use crate::table::{Table, median, micros, timed};

const ROUNDS: usize = 5;
/// The verbs that are measured, in the order of the figures.
const VERBS: [&str; 7] = [
    "the counts of a branch (status)",
    "the last 5 commits with their numbers (log -n 5)",
    "an append (commit)",
    "an edit of the last message",
    "a priority of the last message (annotate)",
    "a branch from half way back (branch --from HEAD~n)",
    "a merge of one commit",
];

pub(crate) fn run(table: &mut Table, quick: bool) {
    let large = if quick { 20_000 } else { 1_000_000 };
    for engine in ENGINES {
        let [small, big] = [1_000, large].map(|messages| {
            let folder = tempfile::tempdir().unwrap();
            let tract = open(engine, folder.path(), WriteMode::InPlace);
            messages::fill(&tract, 0, messages);
            messages::close(tract);
            measure(engine, folder.path(), messages)
        });
        crossing_merges(table, engine, if quick { 500 } else { 10_000 });
        for ((what, small), big) in VERBS.into_iter().zip(small).zip(big) {
            let is_merge = what.starts_with("a merge");
            let (wanted, most) = if is_merge { ("< 1 s", 1e6) } else { ("< 100 ms", 1e5) };
            let what = format!("{engine}, {what}, a branch of {large} messages");
            table.compare(what, "µs", [big, small], "with 1,000", wanted, big < most);
        }
    }
}

/// Runs each verb on handles of its own; gives the medians in microseconds.
fn measure(engine: &str, folder: &Path, messages: u64) -> [f64; VERBS.len()] {
    let mut took: [Vec<f64>; VERBS.len()] = Default::default();
    for round in 0..ROUNDS {
        let verbs: [&dyn Fn(&Tract); VERBS.len()] = [
            &|tract| {
                let head = block_on(tract.head()).unwrap();
                let counts = block_on(tract.repo().counts(head)).unwrap();
                assert!(counts.shown >= messages);
            },
            &|tract| {
                let head = block_on(tract.head()).unwrap().unwrap();
                let mut pages = LogPages::first_parents(tract.repo(), head, 5);
                let page = block_on(pages.next_page()).unwrap().unwrap();
                let numbers = block_on(tract.repo().recent_numbers(head)).unwrap();
                assert!(page.iter().any(|commit| numbers.contains_key(&commit.id())));
            },
            &|tract| drop(block_on(tract.user(messages::text(round as u64))).unwrap()),
            &|tract| drop(block_on(tract.edit("HEAD", "edited")).unwrap()),
            &|tract| {
                let target = block_on(tract.resolve("HEAD")).unwrap();
                drop(block_on(tract.annotate(target, Priority::Important)).unwrap());
            },
            &|tract| {
                let from = format!("HEAD~{}", messages / 2);
                block_on(tract.branches().create(&format!("half-{round}"), from)).unwrap();
            },
            &|tract| {
                let side = format!("side-{round}");
                drop(block_on(tract.merge(side)).unwrap());
            },
        ];
        for (place, verb) in verbs.into_iter().enumerate() {
            if VERBS[place].starts_with("a merge") {
                // Both sides have a commit that the other lacks.
                let tract = open(engine, folder, WriteMode::InPlace);
                let side = format!("side-{round}");
                block_on(tract.branches().create(&side, "HEAD")).unwrap();
                block_on(tract.on(&side).unwrap().user("on the side")).unwrap();
                block_on(tract.user("meanwhile")).unwrap();
                messages::close(tract);
            }
            let tract = open(engine, folder, WriteMode::InPlace);
            took[place].push(micros(timed(|| verb(&tract)).1));
            messages::close(tract);
        }
    }
    took.map(median)
}

/// Two branches that merge each other at once, again and again: the last merges against the first.
fn crossing_merges(table: &mut Table, engine: &str, merges: usize) {
    let folder = tempfile::tempdir().unwrap();
    let main = open(engine, folder.path(), WriteMode::InPlace);
    block_on(main.user("first")).unwrap();
    block_on(main.branches().create("side", "HEAD")).unwrap();
    let side = main.on("side").unwrap();
    let mut took = Vec::with_capacity(merges);
    for _ in 0..merges / 2 {
        let ours = block_on(main.user("here")).unwrap().id();
        let theirs = block_on(side.user("there")).unwrap().id();
        for (tract, source) in [(&main, theirs), (&side, ours)] {
            took.push(micros(timed(|| block_on(tract.merge(source)).unwrap()).1));
        }
    }
    messages::close(main);
    let some = merges / 20;
    let [first, last] = [&took[..some], &took[merges - some..]].map(|some| median(some.to_vec()));
    let what = format!("{engine}, the last of {merges} crossing merges");
    table.compare(
        what,
        "µs",
        [last, first],
        "the first of them",
        "≤ 3 × as long",
        last <= 3.0 * first,
    );
}
