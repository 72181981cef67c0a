//! Copies everything that the refs of one repository lead to into another one, across stores of any
//! type.

use std::collections::HashSet;

use tract_core::{RefName, RefTarget};

use crate::history::reach::{CommitGraph, chosen_refs};
use crate::history::received::descends;
use crate::repo::error::Result;
use crate::repo::{Callback, Repo};
use crate::sync::carry::ObjectCopier;
use crate::upkeep::erase::{CarriedErasures, arrive, sent_erasures};
use crate::upkeep::restore::Replace;
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// Progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Number of commits that the target has so far.
    pub commits_done: usize,
    /// Number of commits that the refs lead to.
    pub commits: usize,
}

/// Called with the progress of a copy after every write.
pub type OnCopy = Callback<CopyProgress>;

/// Options of [`copy`].
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// The refs to copy; `HEAD` and all refs except [remote state](RefName::is_remote_state) of the
    /// source if absent.
    pub refs: Option<Vec<RefName>>,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

/// The outcome for a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStatus {
    /// It was created.
    Created,
    /// A branch that was moved to a descendant of its previous head.
    Forwarded,
    /// It already pointed to the same target.
    Unchanged,
    /// It points elsewhere, and was not changed.
    Diverged {
        /// Its target.
        found: RefTarget,
    },
}

impl CopyStatus {
    /// Returns the display name.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Forwarded => "forwarded",
            Self::Unchanged => "unchanged",
            Self::Diverged { .. } => "diverged",
        }
    }
}

/// A ref of a copy, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedRef {
    /// Its name.
    pub name: RefName,
    /// Its target in the source.
    pub to: RefTarget,
    /// The outcome.
    pub status: CopyStatus,
}

/// The result of [`copy`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Number of commits that the refs lead to.
    pub commits: usize,
    /// Number of those that the target already had.
    pub reused: usize,
    /// Number of damaged or missing objects of the target that were replaced.
    pub restored: usize,
    /// The refs, sorted by name, `HEAD` first.
    pub refs: Vec<CopiedRef>,
    /// Erasures of the source that were applied to the target.
    pub erased: CarriedErasures,
}

impl CopyReport {
    /// Returns whether a ref points elsewhere in the target and was not changed.
    pub fn diverged(&self) -> bool {
        self.refs.iter().any(|at| matches!(at.status, CopyStatus::Diverged { .. }))
    }
}

/// Maximum number of refs in one write.
pub(crate) const WRITE_REFS: usize = 512;

/// Copies everything that refs lead to into another repository.
///
/// # Behavior
/// - By default, all refs are copied except for the state that the source keeps about other stores
///   ([`RefName::is_remote_state`]).
/// - Objects are written before refs, so that the target is consistent at any time. Objects of an
///   earlier copy are recognized by their ids and not written again, so copying again continues an
///   interrupted copy.
/// - Damaged or missing objects of the target are replaced, if its store supports that.
/// - Every commit is hashed when it is read, and may change only what its operation allows.
/// - A branch is created if absent, moved forward if the new head descends from its own, and
///   otherwise left alone and reported as diverged. Tags and documents are created, never moved.
///   `HEAD` is set if the target's `HEAD` names a branch without commits.
/// - The ref log of the target records the moves made here; the log of the source is not copied.
/// - Erasures of the source are applied to the target once the refs have moved, to the same
///   messages and with the same edits. Bytes that other messages of the target share stay, and the
///   erasure waits for confirmation. A message that was erased in the target does not get its bytes
///   back.
///
/// # Errors
/// [`UnknownBranch`](crate::Error::UnknownBranch) or
/// [`UnknownRevision`](crate::Error::UnknownRevision) when a chosen ref does not exist;
/// [`Damaged`](crate::Error::Damaged) when an object that the refs lead to is damaged or missing;
/// [`KeptMoving`](crate::Error::KeptMoving) when others keep moving refs of the target. Copying
/// again continues.
pub async fn copy(from: &Repo, to: &Repo, options: &CopyOptions) -> Result<CopyReport> {
    let mut carrier = ObjectCopier::new(from, to, "copy")?;
    let mut attempts = Attempts::new(to);
    let copied = loop {
        match attempt(&mut carrier, options).await {
            // An object was erased or garbage-collected in one of the repositories in the meantime.
            Err(error) => match attempts.again(error).await {
                Ok(()) => {}
                Err(error) => break Err(error),
            },
            copied => break copied,
        }
    };
    carrier.lease.release().await;
    carrier.restorer.finish().await;
    let mut report = copied?;
    report.restored = carrier.restorer.restored;
    if !report.refs.iter().all(|at| matches!(at.status, CopyStatus::Diverged { .. })) {
        report.erased = arrive(to, Some(from), sent_erasures(from).await?).await?;
    }
    Ok(report)
}

async fn attempt(carrier: &mut ObjectCopier<'_>, options: &CopyOptions) -> Result<CopyReport> {
    let (from, to) = (carrier.from, carrier.to);
    let mut documents = Vec::new();
    let mut refs = chosen_refs(from, options.refs.as_deref()).await?;
    // Erasures are applied at the end, and always all of them.
    refs.retain(|(name, _)| name.erased_blob().is_none());
    carrier.read_erasures().await?;
    let heads = refs.iter().filter_map(|(_, target)| target.commit());
    let order = CommitGraph::of(from, heads).await?.parents_first();
    let mut report = CopyReport { commits: order.len(), ..CopyReport::default() };
    report.reused = carrier.carry_all(&order, true, options.progress.as_ref()).await?;
    // Chosen refs do not include `HEAD`. It is set to the first copied branch, unless the target's
    // `HEAD` already names a branch with commits, so it is decided after the branches.
    let begin =
        refs.iter().find(|(name, _)| options.refs.is_some() && name.branch_name().is_some());
    let begin = begin.map(|(branch, _)| (RefName::head(), RefTarget::Ref(branch.clone())));
    for group in refs.chunks(WRITE_REFS).chain(begin.as_slice().chunks(1)) {
        let statuses = point(carrier, group).await?;
        for ((name, target), status) in group.iter().zip(statuses) {
            // Short histories need no rows of the turn index.
            if let (RefTarget::Commit(head), CopyStatus::Created | CopyStatus::Forwarded) =
                (target, &status)
                && report.commits as u64 >= to.turn_rows_every()
            {
                crate::history::turns::catch_up(to, *head).await;
            }
            if status == CopyStatus::Unchanged {
                documents.extend(target.blob());
            }
            report.refs.push(CopiedRef { name: name.clone(), to: target.clone(), status });
        }
    }
    carrier.restorer.blobs(&documents, Replace::Lacking).await?;
    Ok(report)
}

/// Creates or forwards refs in the target in one write, and returns their outcomes.
async fn point(
    carrier: &ObjectCopier<'_>,
    refs: &[(RefName, RefTarget)],
) -> Result<Vec<CopyStatus>> {
    let to = carrier.to;
    let names: Vec<RefName> = refs.iter().map(|(name, _)| name.clone()).collect();
    let mut races = to.races();
    loop {
        let found = to.store().refs(to.name(), &names).await?;
        let mut txn = Txn::within(to, Some(&carrier.operation))?.any_name();
        let mut documents = Vec::new();
        let mut statuses = Vec::with_capacity(refs.len());
        for ((name, target), at) in refs.iter().zip(found) {
            let status = status(carrier.to, name, target, at.as_ref()).await?;
            if let CopyStatus::Created | CopyStatus::Forwarded = status {
                documents.extend(target.blob());
                txn.move_from(name, at, Some(target.clone()));
            }
            statuses.push(status);
        }
        if !txn.moves_refs() {
            return Ok(statuses);
        }
        for document in carrier.blobs(documents, &HashSet::new()).await? {
            txn.blob(document)?;
        }
        if races.won(txn.apply(carrier.what, &WriteOptions::default()).await?).await? {
            return Ok(statuses);
        }
        // Another writer moved one of the refs. Decide again, because it may have diverged while
        // the others have not.
    }
}

/// Decides the outcome for a ref that points to `at` in the target.
async fn status(
    repo: &Repo,
    name: &RefName,
    to: &RefTarget,
    at: Option<&RefTarget>,
) -> Result<CopyStatus> {
    Ok(match (at, to) {
        (None, _) => CopyStatus::Created,
        (Some(at), to) if at == to => CopyStatus::Unchanged,
        // `HEAD` names a branch without commits, so it may be changed.
        (Some(RefTarget::Ref(at)), RefTarget::Ref(_)) if repo.head_of(at).await?.is_none() => {
            CopyStatus::Forwarded
        }
        (Some(RefTarget::Commit(at)), RefTarget::Commit(to))
            if name.branch_name().is_some() && descends(repo, *to, *at).await? =>
        {
            CopyStatus::Forwarded
        }
        // The target's choice of its current branch is kept.
        (Some(RefTarget::Ref(_)), RefTarget::Ref(_)) => CopyStatus::Unchanged,
        (Some(found), _) => CopyStatus::Diverged { found: found.clone() },
    })
}
