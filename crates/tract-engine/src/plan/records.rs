//! The records that planners read, and how they request more.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use tract_compile::{IdMap, Row, stated_priority};
use tract_core::{
    Blob, BlobId, Change, Changes, Commit, CommitId, Content, JsonText, Kind, ObjectId, Op,
    Priority, Role, Toolset, ToolsetId,
};

use super::Refusal;

/// The records that a planner needs before it can continue. The caller reads them and calls it
/// again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingRecords {
    /// Commits.
    pub commits: HashSet<CommitId>,
    /// Commits whose content is needed.
    pub contents: HashSet<CommitId>,
    /// Commits whose list of changes is in a blob.
    pub changes: HashSet<CommitId>,
    /// Blobs.
    pub blobs: HashSet<BlobId>,
    /// Toolsets.
    pub toolsets: HashSet<ToolsetId>,
    /// Minimum number of commits of the history, from the head.
    pub chain: usize,
}

/// The reason why a planner stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// It needs more records.
    #[error("records have to be read first")]
    Needs(Box<MissingRecords>),
    /// It refuses.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// Something that a commit links to is not stored.
    #[error("{0} is not stored")]
    Missing(ObjectId),
    /// A content without a canonical form, or one that does not fit its kind.
    #[error("{0}")]
    Content(#[from] tract_core::ContentError),
}

impl From<MissingRecords> for Stop {
    fn from(needs: MissingRecords) -> Self {
        Self::Needs(Box::new(needs))
    }
}

/// The result of a step of a planner.
pub type Plan<T> = Result<T, Stop>;

/// Returns the ids whose records were not read.
fn unread<K: Eq + Hash, V>(ids: impl IntoIterator<Item = K>, read: &IdMap<K, V>) -> HashSet<K> {
    ids.into_iter().filter(|id| !read.contains_key(id)).collect()
}

/// Stops a planner that needs more records.
fn needs(fill: impl FnOnce(&mut MissingRecords)) -> Stop {
    let mut missing = MissingRecords::default();
    fill(&mut missing);
    missing.into()
}

/// Stops if any records are missing.
fn ask(missing: MissingRecords) -> Plan<()> {
    if missing == MissingRecords::default() { Ok(()) } else { Err(missing.into()) }
}

/// The records read so far. `None` marks an object that is known not to be stored.
#[derive(Clone, Debug, Default)]
pub struct Records {
    pub(crate) commits: IdMap<CommitId, Option<Commit>>,
    pub(crate) contents: IdMap<CommitId, Arc<Content>>,
    pub(crate) changes: IdMap<CommitId, Arc<[Change]>>,
    pub(crate) blobs: IdMap<BlobId, Option<Blob>>,
    pub(crate) toolsets: IdMap<ToolsetId, Option<Toolset>>,
    /// First parents of the head that is planned on, newest first.
    pub(crate) chain: Vec<CommitId>,
    /// Whether the chain reaches the root.
    pub(crate) chain_complete: bool,
}

impl Records {
    /// Adds a commit that was read or made.
    pub fn insert(&mut self, commit: Commit) {
        self.commits.insert(commit.id(), Some(commit));
    }

    /// Adds a blob that was read or made.
    pub fn insert_blob(&mut self, blob: Blob) {
        self.blobs.insert(blob.id(), Some(blob));
    }

    /// Continues with another head: keeps the records, and clears the chain of the old head.
    pub fn restart_chain(&mut self) {
        self.chain.clear();
        self.chain_complete = false;
    }

    /// Returns a commit if it is stored.
    pub(super) fn commit_if_stored(&self, id: CommitId) -> Plan<Option<&Commit>> {
        visit(1);
        let found = self.commits.get(&id).map(Option::as_ref);
        found.ok_or_else(|| needs(|missing| _ = missing.commits.insert(id)))
    }

    /// Returns a commit that must be stored.
    pub(super) fn commit(&self, id: CommitId) -> Plan<&Commit> {
        self.commit_if_stored(id)?.ok_or(Stop::Missing(ObjectId::Commit(id)))
    }

    /// Requests many commits at once.
    pub(super) fn ensure(&self, ids: impl IntoIterator<Item = CommitId>) -> Plan<()> {
        let commits = unread(ids, &self.commits);
        ask(MissingRecords { commits, ..MissingRecords::default() })
    }

    /// Returns the content of a version.
    pub(super) fn content(&self, version: CommitId) -> Plan<&Content> {
        match self.contents.get(&version) {
            Some(content) => Ok(content),
            None => Err(needs(|missing| _ = missing.contents.insert(version))),
        }
    }

    /// Returns a blob that must be stored.
    pub(super) fn blob(&self, id: BlobId) -> Plan<&Blob> {
        let found = self.blobs.get(&id);
        let blob = found.ok_or_else(|| needs(|missing| _ = missing.blobs.insert(id)))?;
        blob.as_ref().ok_or(Stop::Missing(ObjectId::Blob(id)))
    }

    /// Requests many blobs at once.
    pub(super) fn ensure_blobs(&self, ids: impl IntoIterator<Item = BlobId>) -> Plan<()> {
        let blobs = unread(ids, &self.blobs);
        ask(MissingRecords { blobs, ..MissingRecords::default() })
    }

    /// Returns a toolset that must be stored.
    pub(super) fn toolset(&self, id: ToolsetId) -> Plan<&Toolset> {
        let found = self.toolsets.get(&id);
        let set = found.ok_or_else(|| needs(|missing| _ = missing.toolsets.insert(id)))?;
        set.as_ref().ok_or(Stop::Missing(ObjectId::Toolset(id)))
    }

    /// Returns the changes of a commit, whether its record lists them or a blob does.
    pub(super) fn changes<'a>(&'a self, commit: &'a Commit) -> Plan<&'a [Change]> {
        let list = match &commit.record().changes {
            Changes::List(list) => list,
            Changes::Blob(_) => match self.changes.get(&commit.id()) {
                Some(list) => &**list,
                None => return Err(needs(|missing| _ = missing.changes.insert(commit.id()))),
            },
        };
        visit(list.len());
        Ok(list)
    }

    /// Requests the changes of many commits, if they are stored in blobs.
    pub(super) fn ensure_changes<'a>(
        &self,
        commits: impl IntoIterator<Item = &'a Commit>,
    ) -> Plan<()> {
        let unread = commits.into_iter().filter(|commit| self.lacks_changes(commit));
        let changes = unread.map(Commit::id).collect();
        ask(MissingRecords { changes, ..MissingRecords::default() })
    }

    fn lacks_changes(&self, commit: &Commit) -> bool {
        matches!(commit.record().changes, Changes::Blob(_))
            && !self.changes.contains_key(&commit.id())
    }

    /// Returns the `n`-th first-parent ancestor of the head that is planned on; `None` beyond the
    /// root.
    pub(super) fn chain(&self, n: usize) -> Plan<Option<&Commit>> {
        match self.chain.get(n) {
            Some(id) => self.commit(*id).map(Some),
            None if self.chain_complete => Ok(None),
            None => Err(MissingRecords { chain: n + 1, ..MissingRecords::default() }.into()),
        }
    }

    /// Returns the commit that [`chain`](Self::chain) returns, with its changes. Changes in blobs
    /// are requested together for all commits of the chain read so far.
    pub(super) fn chain_changes(&self, n: usize) -> Plan<Option<(&Commit, &[Change])>> {
        let Some(commit) = self.chain(n)? else { return Ok(None) };
        if self.lacks_changes(commit) {
            // Each stop costs a restart of the planner and a read, so the lists of all commits that
            // are loaded are requested at once.
            let read = self.chain.iter().skip(n).filter_map(|id| self.commits.get(id)?.as_ref());
            self.ensure_changes(read)?;
        }
        Ok(Some((commit, self.changes(commit)?)))
    }

    /// Returns the kind of a version.
    pub(super) fn kind(&self, version: CommitId) -> Plan<Kind> {
        let commit = self.commit(version)?;
        Ok(commit.kind.clone().unwrap_or(Kind::Note))
    }

    /// Returns the tool calls of a row: ids and names, in order. Only assistant messages and custom
    /// kinds have calls.
    pub(super) fn calls(&self, row: &Row) -> Plan<Vec<(&str, &str)>> {
        match self.kind(row.version)? {
            Kind::Assistant | Kind::Custom(_) => {
                let content = self.content(row.version)?;
                Ok(content.calls().map(|call| (call.id.as_str(), call.name.as_str())).collect())
            }
            Kind::System
            | Kind::User
            | Kind::ToolResult
            | Kind::Reasoning
            | Kind::Artifact
            | Kind::Note => Ok(Vec::new()),
        }
    }

    /// Requests all records that [`calls`](Self::calls) needs for these rows.
    pub(super) fn ensure_calls<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> Plan<()> {
        // In two stops instead of one for each row: first all records, which contain the kinds,
        // then the contents of those that can contain calls.
        let versions: Vec<CommitId> = rows.into_iter().map(|row| row.version).collect();
        self.ensure(versions.iter().copied())?;
        let mut bearing = Vec::new();
        for version in versions {
            if matches!(self.kind(version)?, Kind::Assistant | Kind::Custom(_)) {
                bearing.push(version);
            }
        }
        let contents = unread(bearing, &self.contents);
        ask(MissingRecords { contents, ..MissingRecords::default() })
    }

    /// Returns the priority of a row: that of its mark, or the default of its kind.
    pub(super) fn priority(&self, row: &Row) -> Plan<Priority> {
        Ok(self.marked(row)?.0)
    }

    /// Returns priority and retention of a row.
    pub(super) fn marked(&self, row: &Row) -> Plan<(Priority, Option<JsonText>)> {
        if let Some(mark) = row.mark {
            let mark = self.commit(mark)?;
            if let Some(priority) = stated_priority(mark) {
                return Ok((priority, mark.op.retention().cloned()));
            }
        }
        Ok((self.kind(row.version)?.default_priority(), None))
    }

    /// Returns the facts of a version that merges compare.
    pub(super) fn merge_facts(&self, version: CommitId) -> Plan<MergeFacts> {
        let commit = self.commit(version)?;
        Ok((commit.content, commit.kind.clone(), commit.effective_role()))
    }

    /// Returns the slot that a commit is a version of.
    ///
    /// A commit that adds a message or a summary names its own slot; an edit names the slot it
    /// edits.
    pub(super) fn slot_of(&self, target: CommitId) -> Plan<CommitId> {
        let commit = self.commit(target)?;
        match &commit.op {
            Op::Append { slot, .. } => Ok(slot.unwrap_or(target)),
            Op::Compress { .. } => Ok(target),
            Op::Edit { .. } => {
                let edited = edited_slot(target, self.changes(commit)?);
                edited.ok_or_else(|| no_message(commit))
            }
            Op::Unknown { .. } => {
                // Operations of later versions fold here too, and the rows they add are valid
                // targets.
                own_slot(target, self.changes(commit)?).ok_or_else(|| no_message(commit))
            }
            Op::Annotate { .. } | Op::Revert { .. } | Op::Merge { .. } | Op::Tools | Op::Note => {
                Err(no_message(commit))
            }
        }
    }
}

/// Returns the slot of the message that an edit changes.
pub(crate) fn edited_slot(edit: CommitId, changes: &[Change]) -> Option<CommitId> {
    changes.iter().find_map(|change| match change {
        Change::Version { slot, .. } => Some(slot.resolve(edit)),
        Change::Add { .. } | Change::Remove { .. } | Change::Mark { .. } => None,
    })
}

/// Returns the slot of the message that a commit adds, or is a new version of.
pub(crate) fn own_slot(version: CommitId, changes: &[Change]) -> Option<CommitId> {
    changes.iter().find_map(|change| {
        let (slot, shown) = match change {
            Change::Add { slot, row } => (slot, row.version),
            Change::Version { slot, to, .. } => (slot, *to),
            Change::Remove { .. } | Change::Mark { .. } => return None,
        };
        (shown.resolve(version) == version).then(|| slot.resolve(version))
    })
}

fn no_message(commit: &Commit) -> Stop {
    Refusal::NoMessage { target: commit.id(), op: commit.op.name().to_owned() }.into()
}

/// The facts of a version that merges compare: content, kind, role.
pub(super) type MergeFacts = (Option<BlobId>, Option<Kind>, Option<Role>);

/// Counts the records, rows and changes that a planner visits. Tests bound the number.
pub(super) fn visit(_count: usize) {
    #[cfg(test)]
    tract_testkit::visits::add(_count);
}
