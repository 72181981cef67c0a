//! A write as a value: all of it happens, or none.

use std::collections::{HashMap, HashSet};

use crate::commit::Commit;
use crate::id::{BatchId, BlobId, CommitId, ToolId};
use crate::object::{Blob, ObjectId, Toolset};
use crate::refs::{Conflict, LogNote, RefEdit, RefTarget};
use crate::schema::ToolSchema;
use crate::store::{StoreError, StoreErrorKind, StoreResult};

/// A row of the tool index, written when a commit has a tool in force that its parent had not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRow {
    /// The identity.
    pub id: ToolId,
    /// `function.name`, else `name`, else empty.
    pub name: String,
    /// The schema as given to this commit.
    pub schema: BlobId,
    /// The commit.
    pub commit: CommitId,
    /// The time of that commit in microseconds since 1970, UTC.
    pub created_at: i64,
}

impl ToolRow {
    /// Makes the row of a tool that a commit was given with this schema.
    pub fn of(tool: &ToolSchema, schema: BlobId, commit: CommitId, created_at: i64) -> Self {
        Self { id: tool.id(), name: tool.name().to_owned(), schema, commit, created_at }
    }
}

/// The sorts of derived rows: rebuildable, never hashed, never exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DerivedKind {
    /// The view at a commit.
    Snapshot,
    /// The tool turn that a commit belongs to.
    Turn,
    /// Which part of the search index a commit is in.
    SearchMark,
    /// Words of the search index, with the messages that say them.
    SearchTerms,
}

impl DerivedKind {
    /// All sorts.
    pub const ALL: [Self; 4] = [Self::Snapshot, Self::Turn, Self::SearchMark, Self::SearchTerms];

    /// Returns the number that stores write.
    pub const fn number(self) -> u8 {
        match self {
            Self::Snapshot => 1,
            Self::Turn => 2,
            Self::SearchMark => 3,
            Self::SearchTerms => 4,
        }
    }
}

/// A derived row: at most one of a kind per commit. Its writer puts a checksum into the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedRow {
    /// The kind of row.
    pub kind: DerivedKind,
    /// The commit that it belongs to; in the store or in the same batch.
    pub commit: CommitId,
    /// Its bytes.
    pub bytes: bytes::Bytes,
}

/// A write: objects, derived rows and ref moves that happen together or not at all.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The id by which a retry after an unknown outcome finds it in the ref log.
    pub id: BatchId,
    /// Its note for the ref log.
    pub note: LogNote,
    /// Blobs; those already stored are left as they are.
    pub blobs: Vec<Blob>,
    /// Toolsets; those already stored are left as they are.
    pub toolsets: Vec<Toolset>,
    /// Commits, parents first; those already stored are left as they are.
    pub commits: Vec<Commit>,
    /// Rows of the tool index; a known (tool, schema) pair is left as it is.
    pub tools: Vec<ToolRow>,
    /// Derived rows; an existing one is replaced.
    pub derived: Vec<DerivedRow>,
    /// Objects that must be stored already, or else the whole batch is refused.
    pub requires: Vec<ObjectId>,
    /// Ref moves, at most one for each name; each is a compare-and-swap.
    pub refs: Vec<RefEdit>,
}

impl Batch {
    /// Makes an empty batch.
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
        }
    }

    /// Returns the objects that the batch brings.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let blobs = self.blobs.iter().map(|blob| ObjectId::Blob(blob.id()));
        let toolsets = self.toolsets.iter().map(|toolset| ObjectId::Toolset(toolset.id()));
        let commits = self.commits.iter().map(|commit| ObjectId::Commit(commit.id()));
        let tools = self.tools.iter().map(|tool| ObjectId::Tool(tool.id));
        blobs.chain(toolsets).chain(commits).chain(tools)
    }

    /// Returns what the commits of the batch, its toolsets, its tool rows and its derived rows link to.
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

    /// Returns the commits with every one after its first parent, where that is among them.
    pub fn parents_first(&self) -> Vec<&Commit> {
        let mut waiting: HashMap<CommitId, &Commit> =
            self.commits.iter().map(|commit| (commit.id(), commit)).collect();
        let mut ordered = Vec::with_capacity(waiting.len());
        for commit in &self.commits {
            // Ids are hashes of their parents' ids, so that this chain has an end.
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

    /// Requires every object that a ref is to point at and that the batch does not bring: a garbage
    /// collection may have deleted it since it was read.
    pub fn require_targets(&mut self) {
        for edit in &self.refs {
            let object = match &edit.to {
                Some(RefTarget::Commit(id)) if self.commits.iter().all(|c| c.id() != *id) => {
                    ObjectId::Commit(*id)
                }
                Some(RefTarget::Blob(id)) if self.blobs.iter().all(|b| b.id() != *id) => {
                    ObjectId::Blob(*id)
                }
                Some(_) | None => continue,
            };
            if !self.requires.contains(&object) {
                self.requires.push(object);
            }
        }
    }

    /// Checks what a batch says of refs by itself: at most one edit of each, and each one points
    /// where a ref of its kind may ([`RefEdit::check`]). Every store asks this before anything
    /// else, so that no store ever holds a ref that leads nowhere.
    ///
    /// # Errors
    /// `Invalid`, naming the ref.
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
    /// It is stored, durably.
    Done,
    /// Its id is already in the ref log: an earlier try of the same batch went through. Nothing was
    /// written now, even if the refs have moved since.
    Already,
    /// A ref was not as expected; nothing was written.
    Conflict(Conflict),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::{AuthorKind, CommitRecord, Op};
    use crate::id::OperationId;

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
    }
}
