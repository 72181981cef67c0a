//! Concurrent callers on one branch, and one history on all stores.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::prop_state_machine;
use tract::core::{Applied, RefTarget, Store, StoreExt, StoreResult, memory};
use tract::{OpenOptions, RefName, RepoName, block_on};
use tract_testkit::differential::{Named, play};
use tract_testkit::fixtures::{advance, batch, push};
use tract_testkit::linear::{Action, Recorder, check};
use tract_testkit::machine::{Machine, Opens};
use tract_testkit::{scaled, strategies};

use crate::backends;

/// What callers see of one branch can have happened one after the other.
#[test]
fn moves_of_a_branch_are_linear() {
    for backend in backends::ALL {
        let folder = tempfile::tempdir().unwrap();
        let tract = backend.fast(folder.path(), "agent");
        let (store, repo) = (tract.store().as_ref(), RepoName::default());
        let main = RefName::branch("race").unwrap();
        let each = scaled(200, 0.1, 16);
        let recorder = Recorder::default();
        let won: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|writer| {
                    let (repo, main, recorder) = (&repo, &main, &recorder);
                    let take = move |n: &usize| turn(store, repo, main, recorder, writer, *n);
                    scope.spawn(move || (0..each).filter(take).count())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let calls = recorder.calls();
        check(&calls).unwrap_or_else(|error| panic!("{}: {error}", backend.name));
        let head = block_on(store.refs(&repo, &[main])).unwrap().swap_remove(0).unwrap();
        let line = block_on(store.walk_all(&repo, head.commit().unwrap())).unwrap();
        assert_eq!(line.len(), won, "{}: every win is a commit of the line", backend.name);
        println!("{}: {} calls, {won} moves, in one order", backend.name, calls.len());
    }
}

/// Reads the branch and appends to what was read; says whether that won.
fn turn(
    store: &dyn Store,
    repo: &RepoName,
    main: &RefName,
    recorder: &Recorder,
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
    write.refs.push(advance("race", parent, commit.id()));
    let to = Some(RefTarget::Commit(commit.id()));
    recorder.record(main, || {
        let done = matches!(block_on(store.apply(repo, write)).unwrap(), Applied::Done);
        (Action::Move { expect: found, to, done: Some(done) }, done)
    })
}

#[test]
fn one_history_is_the_same_in_every_store() {
    let cases = scaled(64, 0.1, 6) as u32;
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&strategies::batches(), |history| {
            let folder = tempfile::tempdir().unwrap();
            let tract = block_on(OpenOptions::new().open_store(memory())).unwrap();
            let mut stores = vec![Named::new("memory", Arc::clone(tract.store()))];
            for backend in backends::ALL {
                let tract = backend.fast(folder.path(), "agent");
                stores.push(Named::new(backend.name, Arc::clone(tract.store())));
            }
            // What a line says: its records, which name their contents.
            let observe = |store: &dyn Store, head| {
                let line = block_on(store.walk_all(&RepoName::default(), head)).unwrap();
                line.iter().map(|commit| commit.canonical()).collect::<String>().into()
            };
            let compared = play(&stores, &history, observe);
            let compared = compared.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(compared.writes, history.len());
            Ok(())
        })
        .unwrap();
}

struct Sqlite;

impl Opens for Sqlite {
    fn open(folder: &Path) -> StoreResult<Arc<dyn Store>> {
        let options =
            tract_store_sqlite::SqliteOptions::new().create(true).unsafe_lose_on_power_loss(true);
        Ok(Arc::new(tract_store_sqlite::open(folder.join("agent.db"), &options)?))
    }
}

struct Redb;

impl Opens for Redb {
    fn open(folder: &Path) -> StoreResult<Arc<dyn Store>> {
        let url = format!("redb:{}", folder.join("agent.redb").display());
        block_on(tract::store::open(&url)).map_err(|error| match error {
            tract::Error::Unavailable(error)
            | tract::Error::Damaged(error)
            | tract::Error::Store(error) => error,
            other => panic!("{other:?}"),
        })
    }
}

prop_state_machine! {
    #![proptest_config(Config::with_cases(scaled(200, 0.05, 8) as u32))]

    #[test]
    fn sqlite_is_as_the_model(sequential 1..24 => Machine<Sqlite>);

    #[test]
    fn redb_is_as_the_model(sequential 1..16 => Machine<Redb>);
}
