//! A write as a value: all of it happens, or none.

use std::collections::{HashMap, HashSet};

use crate::commit::Commit;
use crate::id::{BatchId, BlobId, CommitId, ToolId, ToolsetId};
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

/// An object of a batch.
enum Brought<'b> {
    Blob(&'b Blob),
    Toolset(&'b Toolset),
    Commit(&'b Commit),
}

/// Finds the ids that a document may name: runs of exactly 64 lower-case hex digits.
pub fn ids_in(document: &[u8]) -> impl Iterator<Item = [u8; 32]> + '_ {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let runs = document.split(move |byte| !is_digit(byte)).filter(|run| run.len() == 64);
    runs.filter_map(|run| {
        let id: BlobId = std::str::from_utf8(run).ok()?.parse().ok()?;
        Some(*id.as_bytes())
    })
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

    /// Returns whether the batch brings an object that the ref moves of the batch do not reach, over
    /// the links of what it brings and the ids in the documents that it names. A store counts such a
    /// write as unlogged ([`WritePosition`](crate::store::WritePosition)).
    ///
    /// What a ref reaches already is stored already, so it does not matter whether each edit moves.
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
    use crate::refs::{Expect, RefName};

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
        // The newest reaches them all, the one before it does not.
        let mut point = |commit: &Commit| {
            let name = RefName::branch("main").unwrap();
            let to = Some(RefTarget::Commit(commit.id()));
            batch.refs = vec![RefEdit { name, expect: Expect::Any, to }];
            batch.stores_ahead()
        };
        assert_eq!([point(&chain[5]), point(&chain[4])], [false, true]);
        // A document reaches what it names.
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
