//! Real messages, and the few lines that make commits of them.

use std::path::{Path, PathBuf};

use tract_core::store::{BlockingStore, ThreadedStore};
use tract_core::{
    Applied, AuthorKind, Batch, BatchId, Blob, Commit, CommitId, CommitRecord, Expect, Kind, Op,
    RefEdit, RefName, RefTarget, RepoName, Store, StoreResult, ToolRow, ToolSchema, block_on,
};
use tract_store_sqlite::{SqliteOptions, SqliteStore};
use tract_testkit::data::{self, RecordedConversation};
use tract_testkit::fixtures;
pub(crate) use tract_testkit::fixtures::branch;

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
    tract_store_sqlite::open(path, &SqliteOptions::new().create(true)).unwrap()
}

/// Makes a store in a folder of its own.
pub(crate) fn fresh() -> (tempfile::TempDir, PathBuf, ThreadedStore<SqliteStore>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let store = create(&path);
    (folder, path, store)
}

pub(crate) fn batch() -> Batch {
    fixtures::batch("commit")
}

/// Makes a commit that says `text`.
pub(crate) fn message(parent: Option<CommitId>, text: &str, batch: BatchId) -> (Commit, Blob) {
    let blob = Blob::seal(text.to_owned());
    let mut record = CommitRecord::new(Op::append(), AuthorKind::User);
    record.parents.extend(parent);
    record.content = Some(blob.id());
    record.kind = Some(Kind::User);
    record.created_at = Some(1_763_000_000_000_000);
    record.batch = Some(batch);
    (Commit::seal(record).unwrap(), blob)
}

/// Makes the batch that appends `text` to a branch.
pub(crate) fn appending(name: &RefName, parent: Option<CommitId>, text: &str) -> (Batch, CommitId) {
    let mut batch = batch();
    let (commit, blob) = message(parent, text, batch.id);
    let id = commit.id();
    batch.commits.push(commit);
    batch.blobs.push(blob);
    batch.refs.push(RefEdit {
        name: name.clone(),
        expect: parent.map_or(Expect::Absent, |parent| Expect::Is(RefTarget::Commit(parent))),
        to: Some(RefTarget::Commit(id)),
    });
    (batch, id)
}

pub(crate) fn apply(store: &dyn Store, batch: Batch) -> StoreResult<Applied> {
    block_on(store.apply(&repo(), batch))
}

/// Appends messages to a branch, one batch each; gives their commits.
pub(crate) fn append(
    store: &dyn Store,
    name: &RefName,
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

/// Stores a whole conversation in one batch, with its tools in force from the first commit on.
pub(crate) fn store_conversation(
    store: &dyn Store,
    name: &RefName,
    conversation: &RecordedConversation,
) -> Vec<CommitId> {
    let mut batch = batch();
    let schemas: Vec<ToolSchema> =
        conversation.tools.iter().map(|text| ToolSchema::parse(text).unwrap()).collect();
    let toolset = fixtures::toolset(&schemas);
    let mut parent = None;
    for text in &conversation.messages {
        let (commit, blob) = message(parent, text, batch.id);
        let mut record = commit.record().clone();
        record.toolset = Some(toolset.id());
        let commit = Commit::seal(record).unwrap();
        parent = Some(commit.id());
        batch.commits.push(commit);
        batch.blobs.push(blob);
    }
    let first = batch.commits[0].id();
    for schema in &schemas {
        batch.blobs.push(schema.blob());
        batch.tools.push(ToolRow {
            id: schema.id(),
            name: schema.name().to_owned(),
            schema: schema.blob().id(),
            commit: first,
            created_at: 1_763_000_000_000_000,
        });
    }
    batch.toolsets.push(toolset);
    batch.refs.push(RefEdit {
        name: name.clone(),
        expect: Expect::Absent,
        to: parent.map(RefTarget::Commit),
    });
    let ids = batch.commits.iter().map(Commit::id).collect();
    assert_eq!(apply(store, batch).unwrap(), Applied::Done);
    ids
}

/// Closes the store and returns what its check finds before.
#[track_caller]
pub(crate) fn assert_sound(store: &ThreadedStore<SqliteStore>) {
    assert_eq!(store.store().check(&repo(), false).unwrap(), []);
}
