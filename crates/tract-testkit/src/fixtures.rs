//! Test data: messages, tools, batches.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use tract_core::{
    Applied, AuthorKind, Batch, BatchId, Blob, BlobId, Commit, CommitId, CommitRecord, Content,
    DerivedKind, DerivedRow, Expect, LogNote, Op, OperationId, RefEdit, RefName, RefTarget,
    RepoName, Store, StoreResult, ToolEntry, ToolRow, ToolSchema, Toolset,
};

static CLOCK: AtomicI64 = AtomicI64::new(1_790_000_000_000_000);

/// Returns a time later than all earlier calls: microseconds since 1970.
pub fn now() -> i64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// Makes an empty batch with a new id.
pub fn batch(what: &str) -> Batch {
    let note = LogNote {
        operation: OperationId::random().expect("the system has randomness"),
        what: what.to_owned(),
        who: "contract".to_owned(),
        why: None,
        undoes: None,
        at: now(),
    };
    Batch::new(BatchId::random().expect("the system has randomness"), note)
}

/// Makes a batch that only moves refs.
pub fn moving(edits: Vec<RefEdit>) -> Batch {
    Batch { refs: edits, ..batch("move") }
}

/// Makes a batch that only writes blobs.
pub fn storing(blobs: impl Into<Vec<Blob>>) -> Batch {
    Batch { blobs: blobs.into(), ..batch("put") }
}

/// Makes a batch that only writes derived rows.
pub fn deriving(rows: impl Into<Vec<DerivedRow>>) -> Batch {
    Batch { derived: rows.into(), ..batch("derive") }
}

/// Makes a derived row.
pub fn row(kind: DerivedKind, commit: CommitId, bytes: impl Into<Bytes>) -> DerivedRow {
    DerivedRow { kind, commit, bytes: bytes.into() }
}

/// Returns the name of a branch.
pub fn branch(name: &str) -> RefName {
    RefName::branch(name).expect("cases name branches well")
}

/// Makes an edit that moves a branch from one commit to another.
pub fn advance(name: &str, from: Option<CommitId>, to: CommitId) -> RefEdit {
    let expect = from.map_or(Expect::Absent, |id| Expect::Is(RefTarget::Commit(id)));
    RefEdit { name: branch(name), expect, to: Some(RefTarget::Commit(to)) }
}

/// Returns the text of a user's request. All texts differ, and compress well together.
pub fn request(number: usize) -> String {
    let topic = ["the index", "a migration", "the retry loop", "its tests", "a lock"][number % 5];
    format!(
        "Please look at {topic} in src/module_{}.rs, line {number}: the answer has to be checked \
         again before request {} is sent, and then {} files are written.",
        number * 7 % 91,
        number * 31,
        number % 13
    )
}

/// Makes a record of a message, and its content.
pub fn record(parent: Option<CommitId>, text: &str) -> (CommitRecord, Blob) {
    let content = Content::user(text).to_blob().expect("text has a canonical form");
    let content = Blob::seal(content);
    let mut record = CommitRecord::new(Op::append(), AuthorKind::User);
    record.parents = parent.into_iter().collect();
    record.content = Some(content.id());
    record.kind = Some(tract_core::Kind::User);
    record.created_at = Some(now());
    (record, content)
}

/// Seals a record.
pub fn seal(record: CommitRecord) -> Commit {
    Commit::seal(record).expect("cases make valid records")
}

/// Adds a message to a batch.
pub fn push(batch: &mut Batch, parent: Option<CommitId>, text: &str) -> Commit {
    let (record, content) = record(parent, text);
    let commit = seal(record);
    batch.blobs.push(content);
    batch.commits.push(commit.clone());
    commit
}

/// Makes a batch that appends a message to a branch; returns it with the id of the commit.
pub fn appending(branch: &str, parent: Option<CommitId>, text: &str) -> (Batch, CommitId) {
    let mut batch = batch("commit");
    let id = push(&mut batch, parent, text).id();
    batch.refs.push(advance(branch, parent, id));
    (batch, id)
}

/// Makes a batch that erases a blob.
pub fn erasing(blob: BlobId) -> Batch {
    let document = Blob::seal(format!("{{\"erased\":\"{blob}\"}}"));
    let to = Some(RefTarget::Blob(document.id()));
    let edit = RefEdit { name: RefName::erasure(blob), expect: Expect::Absent, to };
    Batch { blobs: vec![document], refs: vec![edit], ..batch("erase") }
}

/// Parses schemas.
pub fn schemas(texts: &[&str]) -> Vec<ToolSchema> {
    texts.iter().map(|text| ToolSchema::parse(text).expect("cases give valid schemas")).collect()
}

/// Makes the toolset of these schemas.
pub fn toolset(tools: &[ToolSchema]) -> Toolset {
    let entry = |tool: &ToolSchema| ToolEntry { tool: tool.id(), schema: tool.blob().id() };
    Toolset::seal(tools.iter().map(entry).collect())
}

/// Adds a message with active tools to a batch, with all required objects.
pub fn push_with_tools(
    batch: &mut Batch,
    parent: Option<CommitId>,
    text: &str,
    tools: &[ToolSchema],
) -> Commit {
    let (mut record, content) = record(parent, text);
    let toolset = toolset(tools);
    record.toolset = Some(toolset.id());
    let created_at = record.created_at.unwrap_or_default();
    let commit = seal(record);
    batch.blobs.push(content);
    batch.blobs.extend(tools.iter().map(ToolSchema::blob));
    let row = |tool: &ToolSchema| ToolRow::of(tool, tool.blob().id(), commit.id(), created_at);
    batch.tools.extend(tools.iter().map(row));
    batch.toolsets.push(toolset);
    batch.commits.push(commit.clone());
    commit
}

/// Applies a batch, which must succeed.
///
/// # Errors
/// Errors of the store.
///
/// # Panics
/// If the answer is not `Done`.
#[track_caller]
pub fn done(answer: StoreResult<Applied>) -> StoreResult<()> {
    let answer = answer?;
    assert_eq!(answer, Applied::Done);
    Ok(())
}

/// Appends messages to a branch, one batch each, and returns the commits, oldest first.
///
/// # Errors
/// Errors of the store.
pub async fn line(
    store: &dyn Store,
    repo: &RepoName,
    name: &str,
    from: Option<CommitId>,
    texts: &[&str],
) -> StoreResult<Vec<Commit>> {
    let mut commits: Vec<Commit> = Vec::new();
    // A history that forks off starts a new branch.
    let mut at = None;
    for text in texts {
        let mut batch = batch("commit");
        let parent = commits.last().map(Commit::id).or(from);
        let commit = push(&mut batch, parent, text);
        batch.refs.push(advance(name, at, commit.id()));
        done(store.apply(repo, batch).await)?;
        at = Some(commit.id());
        commits.push(commit);
    }
    Ok(commits)
}
