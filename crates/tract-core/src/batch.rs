//! An atomic write as a value.

use std::collections::{HashMap, HashSet};

use crate::commit::Commit;
use crate::id::{BatchId, BlobId, CommitId, ToolId, ToolsetId};
use crate::object::{Blob, ObjectId, Toolset};
use crate::refs::{Conflict, LogNote, RefEdit};
use crate::schema::ToolSchema;
use crate::store::{StoreError, StoreErrorKind, StoreResult, WritePosition};

/// A row of the tool index. It is written when a commit has a tool in force that its parent does
/// not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRow {
    /// The identity.
    pub id: ToolId,
    /// `function.name` of the schema, else `name`, else empty.
    pub name: String,
    /// The schema, byte for byte as this commit got it.
    pub schema: BlobId,
    /// The commit.
    pub commit: CommitId,
    /// The time of that commit in microseconds since 1970, UTC.
    pub created_at: i64,
}

impl ToolRow {
    /// Creates the row of a tool whose schema this commit got.
    pub fn of(tool: &ToolSchema, schema: BlobId, commit: CommitId, created_at: i64) -> Self {
        Self { id: tool.id(), name: tool.name().to_owned(), schema, commit, created_at }
    }
}

/// The kinds of derived rows: they can be rebuilt, are never hashed and never exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DerivedKind {
    /// The view at a commit.
    Snapshot,
    /// The tool turn that contains a commit.
    Turn,
    /// The part of the search index that covers a commit.
    SearchMark,
    /// Terms of the search index, with the messages that contain them.
    SearchTerms,
    /// Facts about the history up to a commit: times, counts, tokens, prompts.
    History,
}

impl DerivedKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Snapshot, Self::Turn, Self::SearchMark, Self::SearchTerms, Self::History];

    /// Returns the number used in stores.
    pub const fn number(self) -> u8 {
        match self {
            Self::Snapshot => 1,
            Self::Turn => 2,
            Self::SearchMark => 3,
            Self::SearchTerms => 4,
            Self::History => 5,
        }
    }
}

/// A derived row; a commit has at most one of each kind. The writer adds a checksum to the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedRow {
    /// The kind of row.
    pub kind: DerivedKind,
    /// The commit that it belongs to, which is stored already or is in the same batch.
    pub commit: CommitId,
    /// Its bytes.
    pub bytes: bytes::Bytes,
}

/// A batch: objects, derived rows and ref moves that are applied together or not at all.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The id of the batch in the ref log. A retry after an unknown outcome looks it up there.
    pub id: BatchId,
    /// The note for the ref log.
    pub note: LogNote,
    /// Blobs. Those already stored are kept as they are.
    pub blobs: Vec<Blob>,
    /// Toolsets. Those already stored are kept as they are.
    pub toolsets: Vec<Toolset>,
    /// Commits, parents first. Those already stored are kept as they are.
    pub commits: Vec<Commit>,
    /// Rows of the tool index. A (tool, schema) pair already stored is kept as it is.
    pub tools: Vec<ToolRow>,
    /// Derived rows. They replace existing ones.
    pub derived: Vec<DerivedRow>,
    /// Objects that must be stored already; otherwise the whole batch is rejected.
    pub requires: Vec<ObjectId>,
    /// Ref moves, at most one per ref. Each is a compare-and-swap.
    pub refs: Vec<RefEdit>,
    /// The position of the repository's writes that the batch requires; `None` to apply it at any
    /// position. If others have written since, the answer is [`Applied::Moved`].
    ///
    /// A batch that erases bytes needs it: an object that was stored after the bytes were looked
    /// for may link to them.
    pub position: Option<WritePosition>,
}

/// An object in a batch.
enum Brought<'b> {
    Blob(&'b Blob),
    Toolset(&'b Toolset),
    Commit(&'b Commit),
}

/// Returns the ids that a document may contain: runs of exactly 64 lower-case hex digits.
pub fn ids_in(document: &[u8]) -> impl Iterator<Item = [u8; 32]> + '_ {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let runs = document.split(move |byte| !is_digit(byte)).filter(|run| run.len() == 64);
    runs.filter_map(|run| {
        let id: BlobId = std::str::from_utf8(run).ok()?.parse().ok()?;
        Some(*id.as_bytes())
    })
}

impl Batch {
    /// Creates an empty batch.
    pub fn new(id: BatchId, note: LogNote) -> Self {
        Self {
            id,
            note,
            blobs: Vec::new(),
            toolsets: Vec::new(),
            commits: Vec::new(),
            tools: Vec::new(),
            derived: Vec::new(),
            requires: Vec::new(),
            refs: Vec::new(),
            position: None,
        }
    }

    /// Returns the objects in the batch.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let blobs = self.blobs.iter().map(|blob| ObjectId::Blob(blob.id()));
        let toolsets = self.toolsets.iter().map(|toolset| ObjectId::Toolset(toolset.id()));
        let commits = self.commits.iter().map(|commit| ObjectId::Commit(commit.id()));
        let tools = self.tools.iter().map(|tool| ObjectId::Tool(tool.id));
        blobs.chain(toolsets).chain(commits).chain(tools)
    }

    /// Returns the objects to which the batch's commits, toolsets, tool rows and derived rows link.
    pub fn links(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let commits = self.commits.iter().flat_map(|commit| commit.links());
        let entries = self.toolsets.iter().flat_map(Toolset::entries);
        let schemas = entries.map(|entry| ObjectId::Blob(entry.schema));
        let tools = self.tools.iter();
        let tools =
            tools.flat_map(|row| [ObjectId::Commit(row.commit), ObjectId::Blob(row.schema)]);
        let derived = self.derived.iter().map(|row| ObjectId::Commit(row.commit));
        commits.chain(schemas).chain(tools).chain(derived)
    }

    /// Returns whether the batch contains an object that its own ref moves do not reach, following
    /// the links of the batch's objects and the ids in the documents that the refs point to. A
    /// store counts such a write as unlogged ([`WritePosition`]).
    ///
    /// Objects that a ref already reaches are stored already, so it makes no difference whether an
    /// edit moves its ref.
    pub fn stores_ahead(&self) -> bool {
        let blobs = self.blobs.iter().map(|blob| (ObjectId::Blob(blob.id()), Brought::Blob(blob)));
        let toolsets = self.toolsets.iter();
        let toolsets = toolsets.map(|set| (ObjectId::Toolset(set.id()), Brought::Toolset(set)));
        let commits = self.commits.iter();
        let commits = commits.map(|one| (ObjectId::Commit(one.id()), Brought::Commit(one)));
        let mut unreached: HashMap<ObjectId, Brought<'_>> =
            blobs.chain(toolsets).chain(commits).collect();
        let targets = self.refs.iter().filter_map(|edit| edit.to.as_ref());
        let mut open: Vec<ObjectId> = Vec::new();
        for target in targets {
            open.extend(target.object());
            let document = target.blob().and_then(|id| unreached.get(&ObjectId::Blob(id)));
            if let Some(Brought::Blob(blob)) = document {
                for id in ids_in(blob.bytes()) {
                    open.push(ObjectId::Commit(CommitId::from_bytes(id)));
                    open.push(ObjectId::Toolset(ToolsetId::from_bytes(id)));
                    open.push(ObjectId::Blob(BlobId::from_bytes(id)));
                }
            }
        }
        while let Some(object) = open.pop() {
            match unreached.remove(&object) {
                Some(Brought::Commit(commit)) => open.extend(commit.links()),
                Some(Brought::Toolset(toolset)) => {
                    open.extend(toolset.entries().iter().map(|tool| ObjectId::Blob(tool.schema)));
                }
                Some(Brought::Blob(_)) | None => {}
            }
        }
        !unreached.is_empty()
    }

    /// Returns the commits in an order in which each one follows its first parent, if that is in
    /// the batch.
    pub fn parents_first(&self) -> Vec<&Commit> {
        // Every commit is removed from the map once, so this is linear for any order of the
        // commits.
        let mut waiting: HashMap<CommitId, &Commit> =
            self.commits.iter().map(|commit| (commit.id(), commit)).collect();
        let mut ordered = Vec::with_capacity(waiting.len());
        for commit in &self.commits {
            // The chain ends: an id is the hash of a record that contains the parents' ids, so
            // there are no cycles.
            let mut chain = Vec::new();
            let mut next = waiting.remove(&commit.id());
            while let Some(commit) = next {
                chain.push(commit);
                next = commit.parent().and_then(|parent| waiting.remove(&parent));
            }
            ordered.extend(chain.into_iter().rev());
        }
        ordered
    }

    /// Adds every ref target that is not in the batch to [`requires`](Self::requires). Without
    /// that, a garbage collection that ran since the target was read could leave a ref to a deleted
    /// object.
    pub fn require_targets(&mut self) {
        let mut known: HashSet<ObjectId> = self.requires.iter().copied().collect();
        known.extend(self.commits.iter().map(|commit| ObjectId::Commit(commit.id())));
        known.extend(self.blobs.iter().map(|blob| ObjectId::Blob(blob.id())));
        let targets = self.refs.iter().filter_map(|edit| edit.to.as_ref()?.object());
        self.requires.extend(targets.filter(|target| known.insert(*target)));
    }

    /// Checks the ref edits by themselves: at most one for each ref, each with a target that is
    /// valid for its kind of ref ([`RefEdit::check`]). Every store calls this first, so that no
    /// store ever contains a ref without a valid target.
    ///
    /// # Errors
    /// `Invalid`, with the name of the ref.
    pub fn check_refs(&self, backend: &'static str) -> StoreResult<()> {
        let invalid =
            |message: String| StoreError::new(StoreErrorKind::Invalid, backend, "apply", message);
        let mut names = HashSet::new();
        for edit in &self.refs {
            if !names.insert(&edit.name) {
                let name = &edit.name;
                return Err(invalid(format!("expected one edit of each ref, found two of {name}")));
            }
            edit.check().map_err(|bad| invalid(bad.to_string()))?;
        }
        Ok(())
    }
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Applied {
    /// The batch is stored, as durably as the store guarantees.
    Done,
    /// The id is already in the ref log: an earlier attempt succeeded. Nothing was written now,
    /// even if the refs have moved since.
    Already,
    /// A ref did not have its expected value. Nothing was written.
    Conflict(Conflict),
    /// Others wrote since the [position](Batch::position) that the batch requires, and this is the
    /// new position. Nothing was written.
    Moved(WritePosition),
}

impl Applied {
    /// Returns whether the batch is stored, by this call or by an earlier one.
    pub fn is_stored(&self) -> bool {
        match self {
            Self::Done | Self::Already => true,
            Self::Conflict(_) | Self::Moved(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::{AuthorKind, CommitRecord, Op};
    use crate::id::OperationId;
    use crate::refs::{Expect, RefName, RefTarget};

    #[test]
    fn children_come_after_their_parents_in_any_order() {
        let mut chain: Vec<Commit> = Vec::new();
        for number in 0..6 {
            let mut record = CommitRecord::new(Op::Note, AuthorKind::User);
            record.parents = chain.last().map(Commit::id).into_iter().collect();
            record.created_at = Some(number);
            chain.push(Commit::seal(record).unwrap());
        }
        let (what, who) = ("test".to_owned(), "test".to_owned());
        let operation = OperationId::from_bytes([1; 16]);
        let note = LogNote { operation, what, who, why: None, undoes: None, at: 0 };
        let mut batch = Batch::new(BatchId::from_bytes([1; 16]), note);
        batch.commits = [4, 1, 5, 0, 3, 2, 4].map(|n| chain[n].clone()).into();
        assert!(batch.parents_first().into_iter().eq(&chain));
        // The newest commit reaches all of them; its parent does not.
        let mut point = |commit: &Commit| {
            let name = RefName::branch("main").unwrap();
            let to = Some(RefTarget::Commit(commit.id()));
            batch.refs = vec![RefEdit { name, expect: Expect::Any, to }];
            batch.stores_ahead()
        };
        assert_eq!([point(&chain[5]), point(&chain[4])], [false, true]);
        // A document reaches the ids that it contains.
        let document = Blob::seal(format!("{{\"at\":\"{}\"}}", chain[5].id()));
        batch.blobs = vec![document.clone()];
        assert!(batch.stores_ahead(), "no ref leads to the document");
        let name = RefName::new("pins/one").unwrap();
        let to = Some(RefTarget::Blob(document.id()));
        batch.refs = vec![RefEdit { name, expect: Expect::Any, to }];
        assert!(!batch.stores_ahead());
        batch.blobs.push(Blob::seal("what nothing names"));
        assert!(batch.stores_ahead());
    }

    #[test]
    fn ids_are_found_wherever_a_document_names_them() {
        let (one, other) = ("0a".repeat(32), "ff".repeat(32));
        let text = format!("{{\"commit\":\"{one}\",\"blob {other}\":1,\"no\":\"{one}{other}\"}}");
        let found: Vec<[u8; 32]> = ids_in(text.as_bytes()).collect();
        assert_eq!(found, [[0x0a; 32], [0xff; 32]]);
    }
}
