//! Copy: what the refs of one repository lead to, into another, across stores of any kind.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tract_core::{RefName, RefTarget};

use crate::history::reach::{CommitGraph, chosen_refs};
use crate::history::received::descends;
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::sync::carry::ObjectCopier;
use crate::upkeep::erase::{CarriedErasures, arrive, sent_erasures};
use crate::upkeep::restore::Replace;
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Commits that are there already.
    pub commits_done: usize,
    /// Commits that the refs lead to.
    pub commits: usize,
}

/// Called after every write with the progress of a copy.
pub type OnCopy = Arc<dyn Fn(CopyProgress) + Send + Sync>;

/// How [`copy`] goes about it.
#[derive(Clone, Default)]
pub struct CopyOptions {
    /// The refs to copy; when absent `HEAD` and every ref that does not say what the source knows of
    /// [others](RefName::is_remote_state).
    pub refs: Option<Vec<RefName>>,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

impl CopyOptions {
    /// Starts from the defaults: everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses the refs to copy.
    #[must_use]
    pub fn refs(mut self, refs: Vec<RefName>) -> Self {
        self.refs = Some(refs);
        self
    }

    /// Sets what is called with the progress.
    #[must_use]
    pub fn progress(mut self, progress: OnCopy) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Debug for CopyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyOptions").field("refs", &self.refs).finish_non_exhaustive()
    }
}

/// What became of a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStatus {
    /// It was not there.
    Created,
    /// A branch whose new head descends from the one it had.
    Forwarded,
    /// It pointed there already.
    Unchanged,
    /// It points elsewhere, and stays there.
    Diverged {
        /// Where it points.
        found: RefTarget,
    },
}

impl CopyStatus {
    /// Returns the word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Forwarded => "forwarded",
            Self::Unchanged => "unchanged",
            Self::Diverged { .. } => "diverged",
        }
    }
}

/// A ref that was to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedRef {
    /// Its name.
    pub name: RefName,
    /// Where it points in the source.
    pub to: RefTarget,
    /// What became of it.
    pub status: CopyStatus,
}

/// What [`copy`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Commits that the refs lead to.
    pub commits: usize,
    /// Those that were there already.
    pub reused: usize,
    /// Objects of the target that were damaged or missing, and were replaced.
    pub restored: usize,
    /// The refs, sorted by name, `HEAD` first.
    pub refs: Vec<CopiedRef>,
    /// What was erased in the source and now is in the target.
    pub erased: CarriedErasures,
}

impl CopyReport {
    /// Returns whether a ref points elsewhere in the target and was left alone.
    pub fn diverged(&self) -> bool {
        self.refs.iter().any(|at| matches!(at.status, CopyStatus::Diverged { .. }))
    }
}

/// Refs in one write at most.
pub(crate) const WRITE_REFS: usize = 512;

/// Copies what refs lead to, into another repository.
///
/// # Behavior
/// - Without a choice of refs, all are copied but those that say what the source knows of other
///   stores ([`RefName::is_remote_state`]).
/// - Objects go before refs: at every moment the target holds only what is whole. What an earlier
///   copy brought is found by its id and not written again, so copying again continues one that was
///   cut short.
/// - What of it is damaged or missing in the target is replaced, where that store can.
/// - Every commit is hashed when read, and changes only what its operation may change.
/// - A branch is made when it is absent, forwarded when the new head descends from its own, else
///   left alone and said to be diverged; tags and documents are made, never moved. `HEAD` follows
///   when the target's names a branch without commits, else it stays.
/// - The log of the target contains the moves here; the source's log stays behind.
/// - What was erased in the source is erased in the target too, in the same messages and with the same
///   edits, once the refs have moved. Bytes that other messages of the target have stay, and the
///   erasure waits for confirmation. A message that was erased in the target does not get its bytes
///   back.
///
/// # Errors
/// [`UnknownBranch`](crate::Error::UnknownBranch) or [`UnknownRevision`](crate::Error::UnknownRevision)
/// when a chosen ref does not exist; [`Damaged`](crate::Error::Damaged) when something
/// that the refs lead to is damaged or missing; [`KeptMoving`](crate::Error::KeptMoving) when others keep moving refs
/// of the target: copying again continues.
pub async fn copy(from: &Repo, to: &Repo, options: &CopyOptions) -> Result<CopyReport> {
    let mut carrier = ObjectCopier::new(from, to, "copy")?;
    let mut attempts = Attempts::new(to);
    let copied = loop {
        match attempt(&mut carrier, options).await {
            // Something was erased or collected as garbage meanwhile, here or there.
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
    // They follow, and all of them.
    refs.retain(|(name, _)| name.erased_blob().is_none());
    carrier.read_erasures().await?;
    let heads = refs.iter().filter_map(|(_, target)| target.commit());
    let order = CommitGraph::of(from, heads).await?.parents_first();
    let mut report = CopyReport { commits: order.len(), ..CopyReport::default() };
    report.reused = carrier.carry_all(&order, true, options.progress.as_ref()).await?;
    // A part has no HEAD of its own: the first of its branches is where to begin, unless one of
    // them is where the target begins. So it comes after them.
    let begin =
        refs.iter().find(|(name, _)| options.refs.is_some() && name.branch_name().is_some());
    let begin = begin.map(|(branch, _)| (RefName::head(), RefTarget::Ref(branch.clone())));
    for group in refs.chunks(WRITE_REFS).chain(begin.as_slice().chunks(1)) {
        let statuses = point(carrier, group).await?;
        for ((name, target), status) in group.iter().zip(statuses) {
            // What is short has no rows to lack.
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

/// Makes refs in the target, or moves them forward, in one write; says what became of each.
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
        if races.won(txn.apply(carrier.what, &WriteOptions::new()).await?).await? {
            return Ok(statuses);
        }
        // Another writer moved one of them: it may have diverged, the others have not.
    }
}

/// Decides what becomes of a ref that points to `at` in the target.
async fn status(
    repo: &Repo,
    name: &RefName,
    to: &RefTarget,
    at: Option<&RefTarget>,
) -> Result<CopyStatus> {
    Ok(match (at, to) {
        (None, _) => CopyStatus::Created,
        (Some(at), to) if at == to => CopyStatus::Unchanged,
        // A branch without commits: its place is free to be another's.
        (Some(RefTarget::Ref(at)), RefTarget::Ref(_)) if repo.head_of(at).await?.is_none() => {
            CopyStatus::Forwarded
        }
        (Some(RefTarget::Commit(at)), RefTarget::Commit(to))
            if name.branch_name().is_some() && descends(repo, *to, *at).await? =>
        {
            CopyStatus::Forwarded
        }
        // Which branch the target begins on is its own choice.
        (Some(RefTarget::Ref(_)), RefTarget::Ref(_)) => CopyStatus::Unchanged,
        (Some(found), _) => CopyStatus::Diverged { found: found.clone() },
    })
}
