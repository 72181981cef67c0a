//! Where a plan starts: a head and the view there.

use std::sync::Arc;

use tract_core::{Commit, CommitId, ToolsetId};

use crate::fact::RowFact;
use crate::snapshot;
use crate::state::{SnapshotDelta, State};
use crate::view::{RowKey, View};

/// How much a line has at its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Commits from the root to the head, along first parents.
    pub commits: u64,
    /// Rows of the view.
    pub rows: u64,
    /// Rows that are compiled, that is, have a priority above `Skip`.
    pub shown: u64,
    /// The key that the next row gets.
    pub next: u64,
    /// Whether tools were ever set to stay.
    pub tools_set: bool,
}

impl LineCounts {
    /// Returns how many commits may follow before a snapshot can be due, at least.
    pub fn room(&self) -> u64 {
        snapshot::room_of(self.commits, self.shown)
    }
}

/// A head with its whole view and tools: what a request is planned on. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub(crate) state: Arc<State>,
}

impl Line {
    /// Returns the line before the first commit.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Makes a line of which only the newest rows are known: for plans that concern these alone.
    /// It cannot be compiled; what continues it reads the whole line again.
    pub fn recent(head: Commit, view: View, from: u64, counts: LineCounts) -> Self {
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

    /// Returns how much the line has.
    pub fn counts(&self) -> LineCounts {
        LineCounts {
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

    /// Returns the head commit; `None` before the first one.
    pub fn head_commit(&self) -> Option<&Commit> {
        self.state.record.as_ref()
    }

    /// Returns the view, with all its rows.
    pub fn view(&self) -> &View {
        &self.state.view
    }

    /// Returns how many commits the line has.
    pub fn commit_count(&self) -> u64 {
        self.state.commit_count
    }

    /// Returns how many rows are compiled, that is, have a priority above `Skip`.
    pub fn shown_count(&self) -> usize {
        self.state.shown_count
    }

    /// Returns how many commits follow the last snapshot, or the root.
    pub fn since_snapshot(&self) -> u64 {
        self.state.since.commits
    }

    /// Returns how many commits may follow, without regard to what they show, before a snapshot can
    /// be due: so many plain messages need not be folded when they are written.
    pub fn room(&self) -> u64 {
        snapshot::room(&self.state)
    }

    /// Returns the tools in force after the head.
    pub fn toolset(&self) -> Option<ToolsetId> {
        self.state.view.tools()
    }

    /// Returns the tools that a following commit without tools has in force: those last set to
    /// stay, else those in force.
    pub fn active(&self) -> Option<ToolsetId> {
        self.head_commit().and_then(|head| head.active_toolset())
    }

    /// Returns whether tools were ever set to stay on this line.
    pub fn tools_set(&self) -> bool {
        self.state.tools_set
    }

    /// Returns what a row shows: its kind, priority and content, without reading a record.
    ///
    /// Known for every row that is compiled and for most others; of rows that were skipped before
    /// the last snapshot, and of slots without a row, it returns `None`: their records tell
    /// (`Compiler::commits`).
    pub fn fact(&self, slot: CommitId) -> Option<&RowFact> {
        self.state.fact(self.state.view.get(slot)?).map(Arc::as_ref)
    }
}
