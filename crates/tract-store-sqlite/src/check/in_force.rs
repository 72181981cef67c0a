//! Which toolset a commit puts in force.

use tract_core::{Commit, CommitId, ToolsetId};

/// What the commit before a row was.
pub(super) struct CommitBefore {
    pub(super) id: CommitId,
    pub(super) toolset: Option<ToolsetId>,
    /// When it was made, as far as that was worked out.
    pub(super) time: Option<i64>,
}

/// Returns the toolset that a commit puts in force: none where its parent has the same. `near` is the
/// commit before its row, where that is the parent.
pub(super) fn begun(
    commit: &Commit,
    near: Option<&CommitBefore>,
    read: impl Fn(CommitId) -> Option<Commit>,
) -> Option<ToolsetId> {
    let toolset = commit.toolset?;
    let at_parent = match near {
        Some(near) => near.toolset,
        None => commit.parent().and_then(read).and_then(|parent| parent.toolset),
    };
    (at_parent != Some(toolset)).then_some(toolset)
}
