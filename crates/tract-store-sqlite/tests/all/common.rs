//! Real messages, and stores for them.

use std::path::{Path, PathBuf};

use tract_core::store::{BlockingStore, ThreadedStore};
use tract_core::{Applied, Batch, CommitId, RepoName, Store, StoreResult, block_on};
use tract_store_sqlite::{SqliteOptions, SqliteStore};
use tract_testkit::data::{self, RecordedConversation};
pub(crate) use tract_testkit::fixtures::{advance, appending, batch, branch, push};

/// Reads recorded conversations, those with most messages first.
pub(crate) fn conversations() -> Vec<RecordedConversation> {
    let mut all = data::recorded();
    all.sort_by_key(|conversation| std::cmp::Reverse(conversation.messages.len()));
    all
}

/// Gives messages again and again: every commit brings a blob of its own.
pub(crate) fn messages() -> impl Iterator<Item = String> {
    let all: Vec<String> =
        conversations().into_iter().flat_map(|conversation| conversation.messages).collect();
    let count = all.len();
    (0..).map(move |n| format!("{} #{n}", all[n % count]))
}

pub(crate) fn repo() -> RepoName {
    RepoName::default()
}

pub(crate) fn create(path: &Path) -> ThreadedStore<SqliteStore> {
    tract_store_sqlite::open(path, &SqliteOptions { create: true, ..SqliteOptions::default() })
        .unwrap()
}

/// Opens a store for calls that block.
pub(crate) fn reopen(path: &Path) -> SqliteStore {
    SqliteStore::open(path, &SqliteOptions::default()).unwrap()
}

/// Makes a store in a folder of its own.
pub(crate) fn fresh() -> (tempfile::TempDir, PathBuf, ThreadedStore<SqliteStore>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let store = create(&path);
    (folder, path, store)
}

pub(crate) fn apply(store: &dyn Store, batch: Batch) -> StoreResult<Applied> {
    block_on(store.apply(&repo(), batch))
}

/// Appends messages to a branch, one batch each; gives their commits.
pub(crate) fn append(
    store: &dyn Store,
    name: &str,
    mut parent: Option<CommitId>,
    texts: impl IntoIterator<Item = String>,
) -> Vec<CommitId> {
    let mut commits = Vec::new();
    for text in texts {
        let (batch, id) = appending(name, parent, &text);
        assert_eq!(apply(store, batch).unwrap(), Applied::Done);
        commits.push(id);
        parent = Some(id);
    }
    commits
}

/// Asserts that the check of a store finds nothing.
#[track_caller]
pub(crate) fn assert_sound(store: &ThreadedStore<SqliteStore>) {
    assert_eq!(store.store().check(&repo(), false).unwrap(), []);
}
