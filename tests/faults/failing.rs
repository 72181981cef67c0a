//! A store that fails once, at any of its calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tract::core::{StoreError, StoreErrorKind, StoreResult};
use tract::{Draft, OpenOptions, Store, block_on};
use tract_testkit::{Call, Watch, WatchedStore};

use super::agent::{BranchContents, Fixture};
use super::places::StoreLocation;
use super::resumed::{continued, fates};
use super::trap::Stage;
use crate::walks::assert_clean;

/// Fails one call, and lets all others through.
#[derive(Clone, Debug, Default)]
struct FailsOnce {
    /// Which call fails, from 1; none before it is set.
    failing: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
    /// Only writes are counted.
    writes: Arc<AtomicBool>,
}

impl FailsOnce {
    /// Fails the call that comes after so many.
    fn at(&self, call: usize) {
        self.failing.store(call + 1, Ordering::SeqCst);
        self.made.store(0, Ordering::SeqCst);
        self.writes.store(false, Ordering::SeqCst);
    }

    /// Fails the write that comes after so many.
    fn at_write(&self, write: usize) {
        self.at(write);
        self.writes.store(true, Ordering::SeqCst);
    }

    /// The store, but for that call.
    fn watches(&self, store: Arc<dyn Store>) -> WatchedStore<impl Watch> {
        let own = self.clone();
        WatchedStore::new(store, move |call: Call<'_>| own.hear(call))
    }

    fn hear(&self, call: Call<'_>) -> StoreResult<()> {
        if self.writes.load(Ordering::SeqCst) && !matches!(call, Call::Apply { .. }) {
            return Ok(());
        }
        let number = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        if number != self.failing.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(StoreError::new(StoreErrorKind::Engine, "watched", call.name(), "the disk is full"))
    }
}

#[test]
fn a_store_that_fails_at_any_of_its_calls_leaves_a_branch_that_continues_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for place in StoreLocation::all(folder.path()) {
        let tract = place.fast();
        let watch = FailsOnce::default();
        let watched = watch.watches(tract.store().clone());
        let failing = block_on(OpenOptions::new().open_store(watched)).unwrap();
        let (mut failed, mut seen) = (0, BTreeSet::new());
        // With a first call that is idempotent: starts are written down after it has run.
        let stage = Stage::Start;
        for call in 0.. {
            let (branch, traces) =
                (format!("call-{call}"), folder.path().join(format!("{}-{call}", place.name())));
            let desk = Fixture::new(&failing.on(&branch).unwrap(), stage, Some(traces.clone()));
            watch.at(call);
            let ran = block_on(desk.agent.run("go"));
            if watch.made.load(Ordering::SeqCst) <= call {
                assert!(ran.is_ok(), "nothing failed");
                break;
            }
            failed += usize::from(ran.is_err());
            let what = format!("{}: call {call} of the store", place.name());
            seen.insert(fates(&continued(&tract.on(&branch).unwrap(), stage, &traces, &what)));
        }
        // A failure to write down what has started is one of the turn; all others are the run's.
        assert!(failed > 4, "{}: {failed} runs failed", place.name());
        let all: Vec<&str> = seen.iter().map(String::as_str).collect();
        println!("{}: {failed} runs failed, and continued to {all:?}", place.name());
        // Nothing was asked for yet, or all is answered; the claim of the third call is not written,
        // or of the second; the answers are not.
        assert_eq!(all, ["ddd", "ddf", "dfn", "iii"], "{}", place.name());
        assert_clean(&tract, place.name());
        place.close(tract);
    }
}

/// A run that takes up open calls looks for their starts, for what waits and was decided, and for
/// the answers that other branches have of them: any of that may fail, and then nothing is done.
#[test]
fn a_store_that_fails_while_open_calls_are_taken_up_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::Start;
    let mut failed = 0;
    for call in 0.. {
        let watch = FailsOnce::default();
        let store: Arc<dyn Store> = Arc::new(tract::core::memory());
        let watched = watch.watches(Arc::clone(&store));
        let failing = block_on(OpenOptions::new().open_store(watched)).unwrap();
        let tract = block_on(OpenOptions::new().open_store(store)).unwrap();
        let traces = folder.path().join(call.to_string());
        let run =
            |draft| block_on(Fixture::new(&failing, stage, Some(traces.clone())).agent.run(draft));
        // What is said, the reply, two claims; the answers are lost.
        watch.at_write(4);
        run(Some(Draft::user("go"))).unwrap_err();
        let open = BranchContents::of(&tract);
        assert_eq!((open.roles.len(), open.answers.len()), (2, 0));
        // Another branch has the same calls.
        let head = block_on(tract.head()).unwrap().unwrap();
        block_on(tract.fork("other", head)).unwrap();
        watch.at(call);
        let ran = run(None);
        if watch.made.load(Ordering::SeqCst) <= call {
            assert!(ran.is_ok(), "nothing failed");
            break;
        }
        failed += usize::from(ran.is_err());
        let left = BranchContents::of(&tract);
        assert!(left == open || left.answers.len() == 3, "call {call}: {left:?}");
        let what = format!("call {call} of the store, when it continues");
        assert_eq!(fates(&continued(&tract, stage, &traces, &what)), "iii", "{what}");
    }
    println!("{failed} runs failed");
    assert!(failed > 6, "{failed} runs failed");
}
