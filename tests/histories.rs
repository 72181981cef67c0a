//! Merges, picks, rebases and kept merges of random histories, in every store.

use std::sync::{Arc, Barrier};

use tract::core::Store;
use tract::engine::{MergeConflict, MergeOptions, MergeProgress, Request, Resolution};
use tract::{Tract, block_on};
use tract_testkit::figure;

use crate::backends;
use crate::history_model::{LawCounts, histories, holds_on};
use crate::together::cases;
use crate::walks::texts;

#[test]
fn the_model_holds_in_every_store() {
    for backend in backends::all() {
        let sum = std::cell::Cell::new(LawCounts::default());
        let done = cases(40, 6, &histories(), |actions| {
            let folder = tempfile::tempdir().expect("a folder");
            let store: Arc<dyn Store> = backend.bare(folder.path(), "agent");
            let counts = holds_on(store, &actions);
            sum.set(sum.get().plus(counts));
            Ok(())
        });
        figure("histories", backend.name, format!("{done} random histories: {:?}", sum.get()));
    }
}

/// Two branches that edited the first message; returns the name of the kept merge.
fn kept(tract: &Tract) -> String {
    block_on(async {
        let first = tract.user("first").await?.id();
        tract.user("second").await?;
        let side = tract.fork("side", "HEAD").await?;
        tract.repo().write_one(tract.branch(), Request::edit_text(first, "ours")).await?;
        let theirs = Request::edit_text(first, "theirs");
        let source = tract.repo().write_one(side.branch(), theirs).await?.id();
        let options = MergeOptions::default();
        match tract.repo().merge_or_keep(tract.branch(), source, &options).await? {
            MergeProgress::Kept(kept) => Ok::<_, tract::Error>(kept.pending.id),
            other => panic!("expected a kept merge, found {other:?}"),
        }
    })
    .unwrap()
}

#[test]
fn of_two_deciders_of_a_kept_merge_exactly_one_wins_in_every_store() {
    for backend in backends::all() {
        for _ in 0..6 {
            let folder = tempfile::tempdir().expect("a folder");
            let first = backend.fast(folder.path(), "agent");
            let second = backend.again(folder.path(), &first);
            let id = kept(&first);
            let start = Barrier::new(2);
            let decide = |tract: &Tract, how: Resolution| {
                start.wait();
                let answer = move |_: &MergeConflict| Some(how.clone());
                block_on(tract.repo().resolve_merge(&id, answer)).map_err(|error| error.code())
            };
            let ends = std::thread::scope(|scope| {
                let other = scope.spawn(|| decide(&second, Resolution::Theirs));
                [decide(&first, Resolution::Ours), other.join().unwrap()]
            });
            let name = backend.name;
            assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1, "{name}: {ends:?}");
            for error in ends.iter().filter_map(|end| end.as_ref().err()) {
                assert!(["already_decided", "conflict"].contains(error), "{name}: {error}");
            }
            let winner = if ends[0].is_ok() { "ours" } else { "theirs" };
            assert_eq!(texts(&first), [winner, "second"], "{name}");
            assert!(block_on(first.verify()).unwrap().clean, "{name}");
        }
    }
}
