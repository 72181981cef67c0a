//! The folded history of a head, which requests are planned on.

use std::sync::{Arc, Weak};

use tract_core::{Commit, CommitId, ToolsetId};

use crate::fact::RowFact;
use crate::snapshot;
use crate::state::{SnapshotDelta, State};
use crate::view::{RowKey, View};

/// The sizes of a history at its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounts {
    /// Commits from the root to the head, along first parents.
    pub commits: u64,
    /// Number of rows in the view.
    pub rows: u64,
    /// Number of rows with a priority above `Skip`.
    pub shown: u64,
    /// The key of the next row.
    pub next: u64,
    /// Whether tools were ever set permanently.
    pub tools_set: bool,
}

impl HistoryCounts {
    /// Returns the minimum number of commits that can follow before a snapshot is due.
    pub fn room(&self) -> u64 {
        snapshot::room_of(self.commits, self.shown)
    }
}

/// A head with its whole view and tools, which requests are planned on. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(crate) state: Arc<State>,
}

/// A history that is available for as long as something else keeps it in memory.
#[derive(Clone, Debug)]
pub struct WeakHistory(Weak<State>);

impl WeakHistory {
    /// Returns the history if it is still in memory.
    pub fn upgrade(&self) -> Option<History> {
        self.0.upgrade().map(|state| History { state })
    }
}

impl History {
    /// Returns the empty history, before the first commit.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a history with only the newest rows, for plans that concern only these. It cannot
    /// be compiled; folding further commits onto it reads the whole history again.
    pub fn recent(head: Commit, view: View, from: u64, counts: HistoryCounts) -> Self {
        let state = State {
            head: Some(head.id()),
            record: Some(head),
            view,
            commit_count: counts.commits,
            tools_set: counts.tools_set,
            known_from: Some(RowKey { key: from, slot: CommitId::from_bytes([0; 32]) }),
            shown_count: usize::try_from(counts.shown).unwrap_or(usize::MAX),
            since: SnapshotDelta { commits: counts.commits, ..SnapshotDelta::default() },
            ..State::default()
        };
        Self { state: Arc::new(state) }
    }

    /// Returns a reference that does not keep the history in memory.
    pub fn downgrade(&self) -> WeakHistory {
        WeakHistory(Arc::downgrade(&self.state))
    }

    /// Returns the sizes of the history.
    pub fn counts(&self) -> HistoryCounts {
        HistoryCounts {
            commits: self.state.commit_count,
            rows: self.state.view.len() as u64,
            shown: self.state.shown_count as u64,
            next: self.state.view.next(),
            tools_set: self.state.tools_set,
        }
    }

    /// Returns the id of the head; `None` before the first commit.
    pub fn head(&self) -> Option<CommitId> {
        self.state.head
    }

    /// Returns the head commit; `None` before the first commit.
    pub fn head_commit(&self) -> Option<&Commit> {
        self.state.record.as_ref()
    }

    /// Returns the view, with all its rows.
    pub fn view(&self) -> &View {
        &self.state.view
    }

    /// Returns the number of commits.
    pub fn commit_count(&self) -> u64 {
        self.state.commit_count
    }

    /// Returns the number of rows with a priority above `Skip`.
    pub fn shown_count(&self) -> usize {
        self.state.shown_count
    }

    /// Returns the number of commits since the last snapshot, or since the root.
    pub fn since_snapshot(&self) -> u64 {
        self.state.since.commits
    }

    /// Returns the number of commits of any kind that can follow before a snapshot is
    /// due. Up to that number, plain messages can be written without folding them.
    pub fn room(&self) -> u64 {
        snapshot::room(&self.state)
    }

    /// Returns the tools in force after the head.
    pub fn toolset(&self) -> Option<ToolsetId> {
        self.state.view.tools()
    }

    /// Returns the tools in force for a following commit that sets none: the last ones set
    /// permanently, else the current ones.
    pub fn active(&self) -> Option<ToolsetId> {
        self.head_commit().and_then(|head| head.active_toolset())
    }

    /// Returns whether tools were ever set permanently in this history.
    pub fn tools_set(&self) -> bool {
        self.state.tools_set
    }

    /// Returns the properties of a row, such as kind, priority and content id, without reading a
    /// record.
    ///
    /// They are known for every shown row and for most others. Returns `None` for slots without a
    /// row and for rows skipped since before the last snapshot; read their records with
    /// `Compiler::commits`.
    pub fn fact(&self, slot: CommitId) -> Option<&RowFact> {
        self.state.fact(self.state.view.get(slot)?).map(Arc::as_ref)
    }
}
