//! Where a plan starts: a head and what stands there.

use tract_compile::{InvalidChange, View, fold};
use tract_core::{Change, Commit, CommitId, Op, ToolsetId};

/// A head with its view and tools: what a request is planned on. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Line {
    head: Option<Commit>,
    view: View,
    tools_set: bool,
}

impl Line {
    /// Returns the line before the first commit.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Puts a line together. `tools_set` says whether tools were ever set to stay on it.
    pub fn new(head: Commit, view: View, tools_set: bool) -> Self {
        Self { head: Some(head), view, tools_set }
    }

    /// Returns the line after one more commit.
    ///
    /// # Errors
    /// [`InvalidChange`] when the commit does not fit the view.
    pub fn advance(&self, commit: &Commit, changes: &[Change]) -> Result<Self, InvalidChange> {
        Ok(Self {
            view: fold(&self.view, commit, changes)?,
            tools_set: self.tools_set || matches!(commit.op, Op::Tools) || commit.active.is_some(),
            head: Some(commit.clone()),
        })
    }

    /// Returns the id of the head; `None` before the first commit.
    pub fn head(&self) -> Option<CommitId> {
        self.head.as_ref().map(Commit::id)
    }

    /// Returns the head commit; `None` before the first one.
    pub fn head_commit(&self) -> Option<&Commit> {
        self.head.as_ref()
    }

    /// Returns the view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the tools in force after the head.
    pub fn toolset(&self) -> Option<ToolsetId> {
        self.head.as_ref().and_then(|head| head.toolset)
    }

    /// Returns the tools that a following commit without tools has in force: those last set to
    /// stay, else those in force.
    pub fn active(&self) -> Option<ToolsetId> {
        self.head.as_ref().and_then(|head| head.active_toolset())
    }

    /// Returns whether tools were ever set to stay on this line.
    pub fn tools_set(&self) -> bool {
        self.tools_set
    }
}
