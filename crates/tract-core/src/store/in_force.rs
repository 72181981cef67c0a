//! Determines the first commit with each tool in force.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::commit::Commit;
use crate::id::{BlobId, CommitId, ToolId, ToolsetId};
use crate::object::{ToolEntry, Toolset};

/// Transitions between toolsets, for a store that checks or builds its tool index: for each pair of
/// toolsets, the first commit with the second one whose parent has the first, and its time.
#[derive(Clone, Debug, Default)]
pub struct ToolChanges(HashMap<(Option<ToolsetId>, ToolsetId), (i64, CommitId)>);

impl ToolChanges {
    /// Adds a commit: the toolset of its parent, its own, and its time and id.
    pub fn note(
        &mut self,
        at_parent: Option<ToolsetId>,
        toolset: ToolsetId,
        seen: (i64, CommitId),
    ) {
        if at_parent != Some(toolset) {
            let first = self.0.entry((at_parent, toolset)).or_insert(seen);
            *first = seen.min(*first);
        }
    }

    /// Returns each (tool, schema) pair with the time, in microseconds since 1970, and the id of
    /// the first commit that has it in force while its parent does not.
    pub fn first(
        &self,
        toolsets: &HashMap<ToolsetId, Toolset>,
    ) -> BTreeMap<(ToolId, BlobId), (i64, CommitId)> {
        let entries = |id| toolsets.get(id).map(Toolset::entries).unwrap_or_default();
        let mut tools = BTreeMap::new();
        for ((at_parent, toolset), seen) in &self.0 {
            let had: HashSet<&ToolEntry> = at_parent.iter().flat_map(entries).collect();
            for entry in entries(toolset).iter().filter(|entry| !had.contains(entry)) {
                let first = tools.entry((entry.tool, entry.schema)).or_insert(*seen);
                *first = (*seen).min(*first);
            }
        }
        tools
    }
}

/// The relevant data of a commit.
#[derive(Clone, Copy, Debug)]
pub struct SeenCommit {
    /// Its id.
    pub id: CommitId,
    toolset: Option<ToolsetId>,
    /// Its time, if known without a search.
    time: Option<i64>,
}

/// Collects [`ToolChanges`] from commits that are passed one by one.
pub struct ToolsInForce<'a> {
    read: &'a dyn Fn(CommitId) -> Option<Commit>,
    changes: ToolChanges,
    /// Times of commits that had to be searched for, so that no chain is followed twice.
    known: HashMap<CommitId, i64>,
}

impl<'a> ToolsInForce<'a> {
    /// Starts without commits. `read` reads a commit by its id; `None` if it cannot be read.
    pub fn new(read: &'a dyn Fn(CommitId) -> Option<Commit>) -> Self {
        Self { read, changes: ToolChanges::default(), known: HashMap::new() }
    }

    /// Adds a commit. If `before` is its parent, the parent need not be read.
    pub fn see(&mut self, commit: &Commit, before: Option<SeenCommit>) -> SeenCommit {
        let parent = before.filter(|before| Some(before.id) == commit.parent());
        let root = commit.parent().is_none().then_some(0);
        let mut time = commit.created_at.or(root).or(parent.and_then(|parent| parent.time));
        if let Some(toolset) = commit.toolset {
            let at_parent = match parent {
                Some(parent) => parent.toolset,
                None => commit.parent().and_then(self.read).and_then(|parent| parent.toolset),
            };
            if at_parent != Some(toolset) {
                let at = time.unwrap_or_else(|| self.search(commit));
                self.changes.note(at_parent, toolset, (at, commit.id()));
                time = Some(at);
            }
        }
        SeenCommit { id: commit.id(), toolset: commit.toolset, time }
    }

    /// Determines the time of a commit: a commit without one has that of its parent, a root has 0.
    fn search(&mut self, commit: &Commit) -> i64 {
        let (mut at, mut passed) = (commit.clone(), Vec::new());
        let time = loop {
            if let Some(time) = at.created_at.or_else(|| self.known.get(&at.id()).copied()) {
                break time;
            }
            passed.push(at.id());
            match at.parent().and_then(self.read) {
                Some(parent) => at = parent,
                None => break 0,
            }
        };
        self.known.extend(passed.into_iter().map(|id| (id, time)));
        time
    }

    /// Returns the transitions.
    pub fn into_changes(self) -> ToolChanges {
        self.changes
    }
}

impl fmt::Debug for ToolsInForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsInForce").field("changes", &self.changes).finish_non_exhaustive()
    }
}
