use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::store::{StoreError, StoreErrorKind};
use tract_core::{CommitId, Draft, RefName, RefTarget, Store, StoreResult, block_on};
use tract_engine::{Operation, Repo};
use tract_testkit::{Call, WatchedStore};

use crate::support;
pub(crate) use crate::support::{
    branch, exported, is_clean, meanwhile, moves_main, repo, repo_in, sqlite, with_everything,
    writes,
};

/// The same repository for one command.
pub(crate) fn one(repo: &Repo) -> Repo {
    repo.within(Operation::begin().expect("randomness"))
}

pub(crate) fn seen(remote: &str, name: &str) -> RefName {
    RefName::remote_branch(remote, name).expect("a name")
}

pub(crate) fn say(repo: &Repo, name: &str, text: &str) -> CommitId {
    block_on(repo.append(&branch(name), Draft::user(text))).expect("it is written").id()
}

pub(crate) fn head(repo: &Repo, name: &RefName) -> Option<CommitId> {
    block_on(repo.head_of(name)).expect("it is read")
}

/// The refs that are history, and what each of them compiles to.
pub(crate) fn says(repo: &Repo) -> Vec<(RefName, RefTarget, String)> {
    support::says(repo).into_iter().filter(|(name, ..)| name.is_history()).collect()
}

pub(crate) fn commits(repo: &Repo) -> u64 {
    block_on(repo.store().stats(repo.name())).expect("it is read").commits
}

/// The commits that a line of messages is made of, ten at the end of which are not at the other side.
pub(crate) fn chain(repo: &Repo, name: &str, messages: usize) -> Vec<CommitId> {
    (0..messages).map(|n| say(repo, name, &format!("{name} {n}"))).collect()
}

/// Counts calls, ids that are asked for, and fails from a call on.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) calls: AtomicUsize,
    pub(crate) questions: AtomicUsize,
    pub(crate) applied: AtomicUsize,
    pub(crate) last: AtomicUsize,
}

pub(crate) fn counted(store: &Arc<dyn Store>, last: usize) -> (Arc<dyn Store>, Arc<Counts>) {
    let counts = Arc::new(Counts {
        calls: AtomicUsize::new(0),
        questions: AtomicUsize::new(0),
        applied: AtomicUsize::new(0),
        last: AtomicUsize::new(last),
    });
    let watch = Arc::clone(&counts);
    let watched = WatchedStore::new(Arc::clone(store), move |call: Call<'_>| -> StoreResult<()> {
        let number = watch.calls.fetch_add(1, Ordering::SeqCst);
        if number >= watch.last.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Engine, "cut", call.name(), "cut off"));
        }
        match call {
            Call::Commits { ids, .. } => _ = watch.questions.fetch_add(ids.len(), Ordering::SeqCst),
            Call::Apply { batch, .. } => {
                _ = watch.applied.fetch_add(batch.commits.len(), Ordering::SeqCst);
            }
            _ => {}
        }
        Ok(())
    });
    (Arc::new(watched), counts)
}

pub(crate) fn read(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}
