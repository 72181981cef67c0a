//! Where a plan starts: a head and the view there.

use std::sync::Arc;

use tract_core::{Commit, CommitId, ToolsetId};

use crate::fact::RowFact;
use crate::snapshot;
use crate::state::State;
use crate::view::View;

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
