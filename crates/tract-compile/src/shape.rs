//! Checks that the changes of a commit match its operation, from records alone, so that the log
//! cannot show one operation while the commit does another.

use std::collections::HashSet;

use tract_core::commit::{MAX_CHANGES, MAX_PARENTS};
use tract_core::{Change, Commit, CommitId, CommitRef, Op, RowFields};

use crate::fold::{inverse, resolved};

/// A record whose changes do not match its operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("commit {commit} ({op}): {what}")]
pub struct BadShape {
    /// The commit.
    pub commit: CommitId,
    /// The name of its operation.
    pub op: String,
    /// The reason.
    pub what: &'static str,
}

/// A commit with its list of changes, whether the record contains it or links to it.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// The commit.
    pub commit: &'a Commit,
    /// Its changes.
    pub changes: &'a [Change],
}

/// Checks that a commit makes only the changes that its operation allows. `targets` are the commits
/// that a `Revert` names; other operations ignore it.
///
/// # Errors
/// [`BadShape`] if it does not.
pub fn shape(of: Changed<'_>, targets: &[Changed<'_>]) -> Result<(), BadShape> {
    let Changed { commit, changes } = of;
    let refuse =
        |what| Err(BadShape { commit: commit.id(), op: commit.op.name().to_owned(), what });
    if changes.len() > MAX_CHANGES {
        return refuse("it has more than 1,000,000 changes");
    }
    if commit.parents.len() > MAX_PARENTS {
        return refuse("it has more than 16 parents");
    }
    let may_join = matches!(commit.op, Op::Merge { .. } | Op::Unknown { .. });
    if commit.parents.len() > 1 && !may_join {
        return refuse("it has more than one parent");
    }
    let all = |fits: &dyn Fn(&Change) -> bool| !changes.is_empty() && changes.iter().all(fits);
    let (fits, what) = match &commit.op {
        Op::Append { .. } | Op::Tools | Op::Note => (changes.is_empty(), "it has changes"),
        Op::Edit { .. } => (
            all(&|change| matches!(change, Change::Version { to: CommitRef::This, .. })),
            "it changes more than versions",
        ),
        Op::Annotate { .. } => (
            all(&|change| matches!(change, Change::Mark { to: Some(CommitRef::This), .. })),
            "it changes more than marks",
        ),
        Op::Compress { .. } => {
            let removes = changes.iter().filter(|c| matches!(c, Change::Remove { .. })).count();
            let adds = changes
                .iter()
                .filter(|c| matches!(c, Change::Add { slot: CommitRef::This, .. }))
                .count();
            let replaces = removes >= 1 && adds == 1 && removes + adds == changes.len();
            (replaces, "it does not remove rows and add one")
        }
        Op::Revert { .. } => {
            let undone: HashSet<Change> =
                targets.iter().flat_map(undoing).map(|undo| without_key(&undo)).collect();
            crate::visit(changes.len());
            let undoes =
                |change: &Change| undone.contains(&without_key(&resolved(change, commit.id())));
            (changes.iter().all(undoes), "it changes something that its targets did not")
        }
        Op::Merge { .. } | Op::Unknown { .. } => return Ok(()),
    };
    if fits { Ok(()) } else { refuse(what) }
}

/// Returns the changes that revert a commit, with each `.` resolved.
fn undoing<'a>(target: &'a Changed<'a>) -> impl Iterator<Item = Change> + 'a {
    let id = target.commit.id();
    let appended = crate::fold::appended(&crate::View::empty(), target.commit);
    appended
        .into_iter()
        .chain(target.changes.iter().copied())
        .inspect(|_| crate::visit(1))
        .map(move |change| inverse(&resolved(&change, id)))
}

/// Returns a change with the key cleared, for comparison. A revert restores a row at its last
/// position in the target history, so the key may differ.
fn without_key(change: &Change) -> Change {
    match *change {
        Change::Add { slot, row } => Change::Add { slot, row: RowFields { key: 0, ..row } },
        Change::Remove { slot, row } => Change::Remove { slot, row: RowFields { key: 0, ..row } },
        Change::Version { .. } | Change::Mark { .. } => *change,
    }
}
