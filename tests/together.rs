//! Concurrent callers on one branch, and one history on all stores.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use tract::core::{Applied, RefTarget, Store, StoreExt, StoreResult, memory};
use tract::{OpenOptions, RefName, RepoName, block_on};
use tract_testkit::differential::{NamedStore, play};
use tract_testkit::fixtures::{advance, batch, push};
use tract_testkit::linear::{Action, CallRecorder, check};
use tract_testkit::machine::{Machine, OpenStore, StoreModel};
use tract_testkit::{figure, rounds, strategies};

use crate::backends;

/// T7. What callers see of one branch can have happened one after the other: many short histories
/// of five threads, each of ten reads and ten moves.
#[test]
fn moves_of_a_branch_are_linear() {
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let tract = backend.fast(folder.path(), "agent");
        let (store, repo) = (tract.store().as_ref(), RepoName::default());
        let (mut histories, mut answers, mut moves) = (rounds(200, 8), 0, 0);
        for history in histories.by_ref() {
            let main = RefName::branch(&format!("race{history}")).unwrap();
            let recorder = CallRecorder::default();
            let won: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..5)
                    .map(|writer| {
                        let (repo, main, recorder) = (&repo, &main, &recorder);
                        let take = move |n: &usize| turn(store, repo, main, recorder, writer, *n);
                        scope.spawn(move || (0..10).filter(take).count())
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            let calls = recorder.calls();
            check(&calls).unwrap_or_else(|error| panic!("{}: {error}", backend.name));
            let head = block_on(store.refs(&repo, &[main])).unwrap().swap_remove(0).unwrap();
            let line = block_on(store.walk_all(&repo, head.commit().unwrap())).unwrap();
            assert_eq!(line.len(), won, "{}: every win is a commit of the line", backend.name);
            (answers, moves) = (answers + calls.len(), moves + won);
        }
        let done = histories.done();
        let finding = format!(
            "{done} histories of 5 threads, {answers} calls, {moves} moves: each in one order"
        );
        figure("T7 linear refs", backend.name, finding);
    }
}

/// Reads the branch and appends to what was read; says whether that won.
fn turn(
    store: &dyn Store,
    repo: &RepoName,
    main: &RefName,
    recorder: &CallRecorder,
    writer: usize,
    n: usize,
) -> bool {
    let names = std::slice::from_ref(main);
    let found = recorder.record(main, || {
        let found = block_on(store.refs(repo, names)).unwrap().swap_remove(0);
        (Action::Read(found.clone()), found)
    });
    let parent = found.as_ref().and_then(RefTarget::commit);
    let mut write = batch("race");
    let commit = push(&mut write, parent, &format!("writer {writer}, message {n}"));
    write.refs.push(advance(main.branch_name().unwrap(), parent, commit.id()));
    let to = Some(RefTarget::Commit(commit.id()));
    recorder.record(main, || {
        let done = matches!(block_on(store.apply(repo, write)).unwrap(), Applied::Done);
        (Action::Move { expect: found, to, done: Some(done) }, done)
    })
}

/// Runs as many random cases as the scale asks for, and makes one that fails small; says how many.
pub(crate) fn cases<S: Strategy>(
    full: usize,
    least: usize,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), String>,
) -> usize {
    let rounds = RefCell::new(rounds(full, least));
    let wanted = u32::try_from(rounds.borrow().planned_rounds()).unwrap();
    let config = Config {
        cases: wanted,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let failing = Cell::new(false);
    let result = TestRunner::new(config).run(strategy, |value| {
        // What makes a failure small is not a round.
        if !failing.get() && rounds.borrow_mut().next().is_none() {
            return Ok(());
        }
        failing.set(true);
        test(value).map_err(TestCaseError::fail)?;
        failing.set(false);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    rounds.into_inner().done()
}

/// T9.
#[test]
fn one_history_is_the_same_in_every_store() {
    let (writes, answers) = (Cell::new(0), Cell::new(0));
    let done = cases(50, 6, &strategies::batches(), |history| {
        let folder = tempfile::tempdir().unwrap();
        let tract = block_on(OpenOptions::new().open_store(memory())).unwrap();
        let mut stores = vec![NamedStore::new("memory", Arc::clone(tract.store()))];
        for backend in backends::all() {
            let tract = backend.fast(folder.path(), "agent");
            stores.push(NamedStore::new(backend.name, Arc::clone(tract.store())));
        }
        // What a line says: its records, which name their contents.
        let observe = |store: &dyn Store, head| {
            let line = block_on(store.walk_all(&RepoName::default(), head)).unwrap();
            line.iter().map(|commit| commit.canonical()).collect::<String>().into()
        };
        let compared = play(&stores, &history, observe).map_err(|error| error.to_string())?;
        assert_eq!(compared.writes, history.len());
        writes.set(writes.get() + compared.writes);
        answers.set(answers.get() + compared.answers);
        Ok(())
    });
    let names: Vec<_> = backends::all().map(|backend| backend.name).collect();
    let (writes, answers) = (writes.get(), answers.get());
    let finding = format!("{done} lists, {writes} writes, {answers} answers like those of memory");
    names.iter().for_each(|name| figure("T9 differential", name, &finding));
}

/// A backend of the list, opened with what a test of truth may do without.
struct On<const N: usize>;

impl<const N: usize> OpenStore for On<N> {
    fn open(folder: &Path) -> StoreResult<Arc<dyn Store>> {
        let backend = if N < backends::ALL.len() { &backends::ALL[N] } else { &backends::POSTGRES };
        Ok(backend.bare(folder, "agent"))
    }
}

/// T8: a store and the model side by side, closed and opened again at random.
fn as_the_model<const N: usize>(name: &str) {
    let steps = Cell::new(0);
    let strategy = StoreModel::sequential_strategy(1..40);
    let done = cases(256, 8, &strategy, |(state, history, seen)| {
        steps.set(steps.get() + history.len());
        Machine::<On<N>>::test_sequential(Config::default(), state, history, seen);
        Ok(())
    });
    let finding = format!("{done} histories of {} steps, as the model", steps.get());
    figure("T8 state machine", name, finding);
}

#[test]
fn sqlite_is_as_the_model() {
    as_the_model::<0>(backends::ALL[0].name);
}

#[test]
fn redb_is_as_the_model() {
    as_the_model::<1>(backends::ALL[1].name);
}

#[test]
fn sled_is_as_the_model() {
    as_the_model::<2>(backends::ALL[2].name);
}

#[test]
fn postgres_is_as_the_model() {
    if crate::server::shared().is_some() {
        as_the_model::<3>(backends::POSTGRES.name);
    }
}
