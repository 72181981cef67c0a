//! Checks of ref moves that could show an erased message again.

use tract_compile::IdSet;
use tract_core::{CommitId, Op, RefName, RefTarget};

use super::Txn;
use crate::repo::error::Result;
use crate::write::erasures::{KnownErasures, mend_branch};

/// Edits erased messages that branches would show again, so that no branch is moved to a commit
/// that cannot be compiled. The write fails if something is erased before it is applied.
pub(crate) async fn mend_erased(txn: &mut Txn<'_>) -> Result<()> {
    let branches = branches_that_go_back(txn);
    if branches.is_empty() || txn.known_erasures.is_some() {
        return Ok(());
    }
    let known = KnownErasures::read(txn.repo).await?;
    for branch in &branches {
        Box::pin(mend_branch(txn, branch, &known)).await?;
    }
    txn.known_erasures = Some(known);
    Ok(())
}

/// Lists the branches that are moved to anything but new messages on top of their head. Those
/// that only get new messages need no check: an erasure edits every branch that shows the
/// message, so it makes such a write conflict.
fn branches_that_go_back(txn: &Txn<'_>) -> Vec<RefName> {
    let mut before: IdSet<CommitId> = IdSet::default();
    for (name, moved) in &txn.refs {
        // Every branch that the batch expects counts, not only the one that is moved. An
        // erasure edits each branch that shows the message, so it makes the batch conflict
        // through any of them. A branch that is deleted, or moved to a stored commit, does not
        // count: if others did the same meanwhile, its edit changes nothing and never conflicts.
        let to = moved.to.as_ref().and_then(RefTarget::commit);
        let is_expected = moved.held || to.is_some_and(|to| txn.made_here(to).is_some());
        if name.branch_name().is_some() && is_expected {
            before.extend(moved.found.as_ref().and_then(RefTarget::commit));
        }
    }
    let goes_back = |name: &&RefName| {
        let Some(moved) = txn.refs.get(*name) else { return false };
        let Some(mut at) = moved.to.as_ref().and_then(RefTarget::commit) else { return false };
        if moved.to == moved.found {
            return false;
        }
        loop {
            if before.contains(&at) {
                return false;
            }
            // The walk covers only commits of this write. At the first stored commit that is
            // not the head of an expected branch, the branch is taken to go back.
            let Some(commit) = txn.made_here(at) else { return true };
            if !only_adds(&commit.op) {
                return true;
            }
            match commit.parent() {
                Some(parent) => at = parent,
                None => return false,
            }
        }
    };
    let branches = txn.refs.keys().filter(|name| name.branch_name().is_some());
    branches.filter(goes_back).cloned().collect()
}

/// Returns whether an operation cannot show a stored message that is not shown already.
fn only_adds(op: &Op) -> bool {
    match op {
        Op::Append { slot: None, .. }
        | Op::Edit { .. }
        | Op::Annotate { .. }
        | Op::Compress { .. }
        | Op::Tools
        | Op::Note => true,
        Op::Append { slot: Some(_), .. }
        | Op::Revert { .. }
        | Op::Merge { .. }
        | Op::Unknown { .. } => false,
    }
}
