//! A reference model of a store for `proptest-state-machine`: the required answers, computed with
//! plain maps, and a driver that compares a store with it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use tract_core::store::LogQuery;
use tract_core::{
    Applied, Batch, BatchId, Commit, CommitId, Expect, ObjectId, RefEdit, RefName, RefTarget,
    RepoName, Store, StoreErrorKind, StoreExt, StoreResult, block_on,
};

use crate::fixtures::{batch, branch, push};

/// The required answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedAnswer {
    /// The batch was applied.
    Done,
    /// The batch had been applied before.
    Already,
    /// A ref does not have the expected value; nothing was written.
    Conflict,
    /// A required object is not stored; nothing was written.
    Missing,
}

/// The content of a store, as plain maps.
#[derive(Clone, Debug, Default)]
pub struct Model {
    refs: BTreeMap<RefName, RefTarget>,
    commits: BTreeMap<CommitId, Commit>,
    /// Every move of a ref, oldest first.
    log: Vec<(RefName, Option<RefTarget>, Option<RefTarget>, BatchId)>,
    /// All requested writes, regardless of their outcome.
    batches: Vec<Batch>,
    last: Option<ExpectedAnswer>,
}

impl Model {
    /// Returns the refs.
    pub fn refs(&self) -> &BTreeMap<RefName, RefTarget> {
        &self.refs
    }

    /// Returns the answer to the last write.
    pub fn last(&self) -> Option<ExpectedAnswer> {
        self.last
    }

    /// Returns the first-parent history of a head.
    pub fn line(&self, head: CommitId) -> Vec<CommitId> {
        let mut line = Vec::new();
        let mut next = Some(head);
        while let Some(commit) = next.and_then(|id| self.commits.get(&id)) {
            line.push(commit.id());
            next = commit.parent();
        }
        line
    }

    /// Applies a write.
    pub fn apply(&mut self, batch: &Batch) -> ExpectedAnswer {
        let answer = self.answer(batch);
        if answer == ExpectedAnswer::Done {
            self.commits.extend(batch.commits.iter().map(|commit| (commit.id(), commit.clone())));
            for edit in &batch.refs {
                let before = self.refs.get(&edit.name).cloned();
                if before == edit.to {
                    continue;
                }
                match edit.to.clone() {
                    Some(to) => self.refs.insert(edit.name.clone(), to),
                    None => self.refs.remove(&edit.name),
                };
                self.log.push((edit.name.clone(), before, edit.to.clone(), batch.id));
            }
        }
        self.last = Some(answer);
        answer
    }

    fn answer(&self, batch: &Batch) -> ExpectedAnswer {
        if self.log.iter().any(|(.., id)| *id == batch.id) {
            return ExpectedAnswer::Already;
        }
        let there = |id: &CommitId| {
            self.commits.contains_key(id) || batch.commits.iter().any(|commit| commit.id() == *id)
        };
        for edit in &batch.refs {
            let found = self.refs.get(&edit.name);
            let expected = match &edit.expect {
                Expect::Any => true,
                Expect::Absent => found.is_none(),
                Expect::Is(target) => found == Some(target),
            };
            if !expected && found != edit.to.as_ref() {
                return ExpectedAnswer::Conflict;
            }
        }
        let required = batch.requires.iter().filter_map(|object| match object {
            ObjectId::Commit(id) => Some(*id),
            _ => None,
        });
        let parents = batch.commits.iter().flat_map(|commit| commit.parents.iter().copied());
        if required.chain(parents).all(|id| there(&id)) {
            ExpectedAnswer::Done
        } else {
            ExpectedAnswer::Missing
        }
    }
}

/// A step on a store under test.
#[derive(Clone, Debug)]
pub enum Transition {
    /// A write.
    Apply(Box<Batch>),
    /// The store is closed and opened again.
    Reopen,
}

/// The reference state machine of a [`Model`].
#[derive(Clone, Copy, Debug)]
pub struct StoreModel;

impl ReferenceStateMachine for StoreModel {
    type State = Model;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::default()).boxed()
    }

    fn transitions(state: &Model) -> BoxedStrategy<Transition> {
        let state = state.clone();
        let choices = (0..20u8, 0..4u8, any::<Index>(), vec("[a-z ]{0,20}", 1..4));
        choices
            .prop_map(move |(choice, number, index, texts)| {
                transition(&state, choice, &format!("b{number}"), index, &texts)
            })
            .boxed()
    }

    fn apply(mut state: Model, transition: &Transition) -> Model {
        if let Transition::Apply(batch) = transition {
            let _ = state.apply(batch);
            state.batches.push((**batch).clone());
        }
        state
    }
}

fn transition(state: &Model, choice: u8, name: &str, index: Index, texts: &[String]) -> Transition {
    let name = branch(name);
    let at = state.refs.get(&name).cloned();
    let expect = at.clone().map_or(Expect::Absent, Expect::Is);
    let stored: Vec<CommitId> = state.commits.keys().copied().collect();
    let any = (!stored.is_empty()).then(|| *index.get(&stored));
    let mut write = batch("machine");
    let mut edit = |expect, to| write.refs.push(RefEdit { name: name.clone(), expect, to });
    match (choice, any) {
        (0, _) => return Transition::Reopen,
        // A repeated write whose answer was lost.
        (1 | 2, _) if !state.batches.is_empty() => {
            return Transition::Apply(Box::new(index.get(&state.batches).clone()));
        }
        // A branch that is created or set anywhere.
        (3 | 4, Some(id)) => edit(expect, Some(RefTarget::Commit(id))),
        // A writer with an outdated expectation.
        (5 | 6, Some(id)) => {
            edit(Expect::Is(RefTarget::Commit(id)), Some(RefTarget::Commit(id)));
            let mut lost = write;
            let commit = push(&mut lost, Some(id), texts.first().map_or("", String::as_str));
            if let Some(edit) = lost.refs.first_mut() {
                edit.to = Some(RefTarget::Commit(commit.id()));
            }
            return Transition::Apply(Box::new(lost));
        }
        (7, _) if at.is_some() => edit(expect, None),
        // A head that was never stored.
        (8, _) => {
            let mut elsewhere = batch("elsewhere");
            let commit = push(&mut elsewhere, None, "never stored");
            edit(expect, Some(RefTarget::Commit(commit.id())));
        }
        _ => {
            let mut parent = at.as_ref().and_then(RefTarget::commit);
            let mut grown = batch("append");
            for text in texts {
                parent = Some(push(&mut grown, parent, text).id());
            }
            let to = parent.map(RefTarget::Commit);
            grown.refs.push(RefEdit { name: name.clone(), expect, to });
            return Transition::Apply(Box::new(grown));
        }
    }
    // The target of a ref has to exist. A store checks it only if the batch requires it.
    let heads = write.refs.iter().filter_map(|edit| edit.to.as_ref()?.commit());
    write.requires = heads.map(ObjectId::Commit).collect();
    Transition::Apply(Box::new(write))
}

/// Opens the store under test.
pub trait OpenStore: 'static {
    /// Opens the store in a folder, and creates it if it is missing.
    ///
    /// # Errors
    /// Errors of the store.
    fn open(folder: &Path) -> StoreResult<Arc<dyn Store>>;
}

/// Compares a store with the model after each step.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use proptest_state_machine::prop_state_machine;
/// use tract_core::{Store, StoreResult};
/// use tract_testkit::machine::{Machine, OpenStore};
///
/// struct Memory;
/// impl OpenStore for Memory {
///     fn open(_: &Path) -> StoreResult<Arc<dyn Store>> {
///         Ok(Arc::new(tract_kv::memory()))
///     }
/// }
/// prop_state_machine! {
///     fn memory_is_as_the_model(sequential 1..8 => Machine<Memory>);
/// }
/// # memory_is_as_the_model();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Machine<S>(PhantomData<S>);

/// A store under test, with its folder.
#[derive(Debug)]
pub struct StoreUnderTest {
    folder: tempfile::TempDir,
    store: Arc<dyn Store>,
}

impl<S: OpenStore> StateMachineTest for Machine<S> {
    type SystemUnderTest = StoreUnderTest;
    type Reference = StoreModel;

    fn init_test(_: &Model) -> StoreUnderTest {
        let folder = tempfile::tempdir().expect("a folder for the store");
        let store = S::open(folder.path()).expect("the store opens");
        StoreUnderTest { folder, store }
    }

    fn apply(mut driven: StoreUnderTest, model: &Model, transition: Transition) -> StoreUnderTest {
        let repo = RepoName::default();
        match transition {
            Transition::Apply(batch) => {
                let answer = match block_on(driven.store.apply(&repo, *batch)) {
                    Ok(Applied::Done) => ExpectedAnswer::Done,
                    Ok(Applied::Already) => ExpectedAnswer::Already,
                    Ok(Applied::Conflict(_) | Applied::Moved(_)) => ExpectedAnswer::Conflict,
                    Err(error) if matches!(error.kind, StoreErrorKind::Missing { .. }) => {
                        ExpectedAnswer::Missing
                    }
                    Err(error) => panic!("a write fails: {error}"),
                };
                assert_eq!(Some(answer), model.last());
            }
            // A store that does not outlive its handle cannot be opened again.
            Transition::Reopen if driven.store.capabilities().persistent => {
                block_on(driven.store.close()).expect("the store closes");
                driven.store = S::open(driven.folder.path()).expect("the store opens again");
            }
            Transition::Reopen => {}
        }
        driven
    }

    fn check_invariants(driven: &StoreUnderTest, model: &Model) {
        let repo = RepoName::default();
        agrees(driven.store.as_ref(), &repo, model).expect("the store answers");
    }

    fn teardown(driven: StoreUnderTest, _: Model) {
        let found = block_on(driven.store.check(&RepoName::default(), false));
        assert_eq!(found.expect("the store checks itself"), []);
    }
}

/// Compares all answers of a store with a model.
///
/// # Errors
/// Errors of the store.
///
/// # Panics
/// If they differ.
pub fn agrees(store: &dyn Store, repo: &RepoName, model: &Model) -> StoreResult<()> {
    let refs: BTreeMap<RefName, RefTarget> =
        block_on(store.list_refs(repo, ""))?.into_iter().collect();
    assert_eq!(&refs, model.refs(), "refs");
    let mut log = block_on(store.ref_log(repo, &LogQuery::default()))?;
    log.reverse();
    let log: Vec<_> = log.into_iter().map(|e| (e.name, e.before, e.after, e.batch)).collect();
    assert_eq!(log, model.log, "the ref log");
    let ids: Vec<CommitId> = model.commits.keys().copied().collect();
    let found = block_on(store.commits(repo, &ids))?;
    assert!(found.iter().flatten().eq(model.commits.values()), "commits");
    for head in refs.values().filter_map(RefTarget::commit) {
        let walked = block_on(store.walk_all(repo, head))?;
        let walked: Vec<CommitId> = walked.iter().map(Commit::id).collect();
        assert_eq!(walked, model.line(head), "the line of {head}");
    }
    Ok(())
}
