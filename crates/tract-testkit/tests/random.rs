//! Random objects and writes are what they claim to be.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use tract_core::stream::CompressWhat;
use tract_core::{
    Applied, AuthorKind, Blob, Change, Changes, Commit, CommitId, CommitRecord, CommitRef, Content,
    JsonText, Kind, Op, Part, Priority, RefName, RefTarget, RepoName, Role, Store, StoreExt,
    StoreResult, StreamOp, StreamOpKind, block_on,
};
use tract_kv::memory;
use tract_testkit::machine::{Machine, Model, OpenStore};
use tract_testkit::strategies::{self, text, tool_schema};

fn name() -> BoxedStrategy<String> {
    text().prop_filter("a name is not empty", |text| !text.is_empty()).boxed()
}

fn parts() -> BoxedStrategy<Vec<Part>> {
    vec(strategies::part(), 0..4).boxed()
}

fn json() -> BoxedStrategy<JsonText> {
    strategies::json().prop_map(|json| JsonText::new(&json).expect("made as valid JSON")).boxed()
}

fn role() -> BoxedStrategy<Role> {
    name().prop_map(|word| Role::parse(&word)).boxed()
}

/// Steps that add a message.
fn appending() -> BoxedStrategy<StreamOpKind> {
    let call = strategies::part().prop_filter_map("a call", |part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    });
    let answer = (text(), of(text()), parts(), any::<bool>());
    prop_oneof![
        text().prop_map(|text| StreamOpKind::System { text }),
        text().prop_map(|text| StreamOpKind::User { text }),
        text().prop_map(|text| StreamOpKind::Reasoning { text }),
        (text(), of(text()), vec(call, 0..3)).prop_map(|(text, reasoning, tool_calls)| {
            StreamOpKind::Assistant { text, reasoning, tool_calls }
        }),
        answer.prop_map(|(call_id, name, content, is_error)| {
            StreamOpKind::ToolResult { call_id, name, content, is_error }
        }),
        (strategies::content(), of(role()))
            .prop_map(|(content, role)| StreamOpKind::Commit { content, role }),
    ]
    .boxed()
}

/// Steps that change what is there.
fn changing() -> BoxedStrategy<StreamOpKind> {
    let names = || vec(name(), 1..4);
    let priority = prop_oneof![Just(Priority::Skip), Just(Priority::Pinned)];
    let range = (name(), name()).prop_map(|(from, to)| CompressWhat::Range { from, to });
    let what = prop_oneof![range, names().prop_map(CompressWhat::Targets)];
    let marks = (names(), priority, of(text()), of(json()));
    prop_oneof![
        marks.prop_map(|(targets, priority, reason, retention)| {
            StreamOpKind::Annotate { targets, priority, reason, retention }
        }),
        (names(), any::<bool>())
            .prop_map(|(targets, cascade)| StreamOpKind::Revert { targets, cascade }),
        name().prop_map(|from| StreamOpKind::Merge { from }),
        vec(tool_schema(), 0..3).prop_map(|tools| StreamOpKind::SetTools { tools }),
        (name(), parts()).prop_map(|(target, content)| StreamOpKind::Edit { target, content }),
        (what, text(), of(Just(Kind::User)))
            .prop_map(|(what, content, kind)| StreamOpKind::Compress { what, content, kind }),
        text().prop_map(|text| StreamOpKind::Note { text }),
    ]
    .boxed()
}

/// Steps that make no commit.
fn moving() -> BoxedStrategy<StreamOpKind> {
    let id = any::<[u8; 32]>().prop_map(CommitId::from_bytes);
    prop_oneof![
        (name(), of(name())).prop_map(|(name, from)| StreamOpKind::Branch { name, from }),
        name().prop_map(|name| StreamOpKind::Checkout { name }),
        (name(), of(name())).prop_map(|(name, target)| StreamOpKind::Tag { name, target }),
        any::<Vec<u8>>().prop_map(|bytes| StreamOpKind::Blob(Blob::seal(bytes))),
        id.prop_map(|id| StreamOpKind::Ref { name: RefName::head(), to: RefTarget::Commit(id) }),
    ]
    .boxed()
}

/// Steps with all shared fields that they take.
fn steps() -> BoxedStrategy<StreamOp> {
    let schemas = vec(tool_schema(), 0..2);
    let priority = Just(Priority::Important);
    let fields = (of(text()), of(json()), of(json()), of(schemas), of(priority), of(any::<i64>()));
    let commit = of(json()).prop_map(|metadata| {
        let slot = CommitRef::Id(CommitId::from_bytes([7; 32]));
        let mut record = CommitRecord::new(Op::Note, AuthorKind::Import);
        record.metadata = metadata;
        let to = Some(CommitRef::This);
        record.changes = Changes::List(vec![Change::Mark { slot, from: None, to }]);
        Commit::seal(record).expect("it is valid")
    });
    let op = prop_oneof![4 => appending(), 3 => changing(), 2 => moving()];
    (of("[a-z0-9]{1,6}"), op, fields, of(commit))
        .prop_map(|(mark, op, (message, metadata, config, tools, priority, at), recorded)| {
            use StreamOpKind::{Annotate, Compress, Edit, Merge, Note, Revert, SetTools};
            let adds = op.adds_message();
            let speaks = adds || matches!(op, Edit { .. } | Compress { .. } | Note { .. });
            let commits = speaks
                || matches!(op, Annotate { .. } | Revert { .. } | Merge { .. } | SetTools { .. });
            let mut step = StreamOp::from(op);
            step.mark = mark;
            step.fields.message = message.filter(|_| commits);
            step.fields.metadata = metadata.filter(|_| commits);
            step.fields.generation_config = config.filter(|_| speaks);
            step.fields.tools = tools.filter(|_| speaks);
            step.fields.priority = priority.filter(|_| adds);
            step.fields.at = at.filter(|_| commits);
            step.recorded = recorded.filter(|_| commits);
            step
        })
        .boxed()
}

proptest! {
    #[test]
    fn written_values_read_back(step in steps()) {
        let line = step.to_line().expect("it has a line");
        prop_assert!(!line.contains(['\n', '\r']), "{}", line);
        let read = StreamOp::parse(&line);
        prop_assert!(read.is_ok(), "{}: {:?}", line, read);
        let read = read.expect("just checked");
        prop_assert_eq!(&read, &step, "{}", line);
        prop_assert_eq!(read.to_line().expect("as before"), line);
    }

    #[test]
    fn the_shortest_operation_loses_nothing(content in strategies::content(), role in of(role())) {
        let op = StreamOpKind::adding(content.clone(), role.clone());
        let draft = StreamOp::from(op).to_draft().expect("it adds a message");
        prop_assert_eq!(draft.content, content);
        prop_assert_eq!(draft.role, role);
    }
}

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
