//! Random objects and writes are what they claim to be.

use proptest::prelude::*;
use tract_core::{Applied, Commit, CommitId, Content, RepoName, StoreExt, StreamOp, block_on};
use tract_core::{Store, StoreResult};
use tract_kv::memory;
use tract_testkit::machine::{Machine, Model, OpenStore};
use tract_testkit::strategies;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn content_goes_through_its_blob(content in strategies::content()) {
        let blob = content.to_blob().expect("it has a canonical form");
        let back = Content::from_blob(&content.kind(), &blob).expect("it is of that kind");
        prop_assert_eq!(back.to_blob().expect("again"), blob);
    }

    #[test]
    fn histories_are_lines(history in strategies::history()) {
        for step in history {
            let line = step.to_line().expect("each step has a line");
            prop_assert_eq!(StreamOp::parse(&line).expect("which can be read"), step);
        }
    }

    #[test]
    fn every_walk_follows_first_parents(batches in strategies::batches()) {
        let (store, repo, mut model) = (memory(), RepoName::default(), Model::default());
        let commits: Vec<Commit> = batches.iter().flat_map(|b| b.commits.clone()).collect();
        for batch in batches {
            model.apply(&batch);
            prop_assert_eq!(block_on(store.apply(&repo, batch)).expect("it goes through"), Applied::Done);
        }
        for commit in &commits {
            let walked = block_on(store.walk_all(&repo, commit.id())).expect("it is stored");
            let walked: Vec<CommitId> = walked.iter().map(Commit::id).collect();
            prop_assert_eq!(walked, model.line(commit.id()));
        }
        let damage: StoreResult<_> = block_on(store.check(&repo, false));
        prop_assert_eq!(damage.expect("it can be checked"), []);
    }
}

struct Memory;

impl OpenStore for Memory {
    fn open(_: &std::path::Path) -> StoreResult<std::sync::Arc<dyn Store>> {
        Ok(std::sync::Arc::new(memory()))
    }
}

proptest_state_machine::prop_state_machine! {
    #![proptest_config(ProptestConfig::with_cases(tract_testkit::scaled(256, 0.1, 16) as u32))]

    #[test]
    fn memory_is_as_the_model(sequential 1..24 => Machine<Memory>);
}

/// Stores that break a promise differ from the model, and from a store that keeps it.
mod broken {
    use std::path::Path;
    use std::sync::Arc;

    use proptest::test_runner::{Config, TestCaseError, TestRunner};
    use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
    use tract_core::{Store, StoreResult};
    use tract_kv::memory;
    use tract_testkit::differential::{NamedStore, play};
    use tract_testkit::machine::{Machine, OpenStore, StoreModel};
    use tract_testkit::{Fault, FaultyStore, strategies};

    struct Faulty<const N: usize>;

    impl<const N: usize> OpenStore for Faulty<N> {
        fn open(_: &Path) -> StoreResult<Arc<dyn Store>> {
            Ok(Arc::new(FaultyStore::new(Arc::new(memory()), Fault::ALL[N])))
        }
    }

    fn is_noticed<const N: usize>() -> bool {
        let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
        let steps = StoreModel::sequential_strategy(1..24);
        let ran = TestRunner::new(config.clone()).run(&steps, |(state, steps, seen)| {
            let run = || Machine::<Faulty<N>>::test_sequential(config.clone(), state, steps, seen);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
                .map_err(|_| TestCaseError::fail("noticed"))
        });
        ran.is_err()
    }

    #[test]
    fn the_model_notices_broken_promises() {
        std::panic::set_hook(Box::new(|_| {}));
        let noticed = [
            (Fault::ALL[6], is_noticed::<6>()),
            (Fault::ALL[7], is_noticed::<7>()),
            (Fault::ALL[12], is_noticed::<12>()),
        ];
        let _ = std::panic::take_hook();
        assert!(matches!(noticed[0].0, Fault::IgnoresExpectations));
        assert!(matches!(noticed[1].0, Fault::ForgetsBatches));
        assert!(matches!(noticed[2].0, Fault::LogsBackwards));
        assert!(noticed.iter().all(|(_, noticed)| *noticed), "{noticed:?}");
    }

    #[test]
    fn stores_that_differ_are_noticed() {
        let mut runner = TestRunner::deterministic();
        let ran = runner.run(&strategies::batches(), |history| {
            let whole = NamedStore::new("whole", Arc::new(memory()));
            let faulty = FaultyStore::new(Arc::new(memory()), Fault::LogsBackwards);
            let stores = [whole, NamedStore::new("faulty", Arc::new(faulty))];
            match play(&stores, &history, |_, head| head.to_hex().into()) {
                // One entry is the same in both directions.
                Ok(compared) => assert!(compared.writes < 2, "{compared:?}"),
                Err(difference) => assert_eq!(difference.query, "the ref log"),
            }
            Ok(())
        });
        ran.expect("every history of two writes shows it");
    }
}
