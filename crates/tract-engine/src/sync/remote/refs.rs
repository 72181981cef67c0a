//! Moves refs after their objects were transferred, each by compare-and-swap.

use std::collections::{HashMap, HashSet, VecDeque};

use tract_core::store::BlobKey;
use tract_core::{Applied, Blob, BlobId, Commit, CommitId, ObjectId, RefName, RefTarget};

use crate::history::received::descends;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::WRITE_REFS;
use crate::write::txn::{Txn, WriteOptions};

/// The outcome for a fetched, pulled or pushed ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferStatus {
    /// It was created.
    Created,
    /// It was moved to a descendant of its previous head.
    Forwarded,
    /// A remote-tracking ref that was moved to an unrelated commit, like the branch of the remote.
    Moved,
    /// It already pointed to the same target.
    Unchanged,
    /// A branch that contains all commits of the other one, and more; it was not changed.
    Ahead,
    /// It points elsewhere, and was not changed.
    Diverged {
        /// Its target.
        found: RefTarget,
    },
    /// The branch no longer exists in the remote, so its remote-tracking ref was deleted.
    Deleted,
    /// It cannot be transferred; others can.
    Refused {
        /// The reason.
        why: String,
    },
}

impl TransferStatus {
    /// Returns the display name.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Forwarded => "forwarded",
            Self::Moved => "moved",
            Self::Unchanged => "unchanged",
            Self::Ahead => "ahead",
            Self::Diverged { .. } => "diverged",
            Self::Deleted => "deleted",
            Self::Refused { .. } => "refused",
        }
    }

    fn moves(&self) -> bool {
        match self {
            Self::Created | Self::Forwarded | Self::Moved | Self::Deleted => true,
            Self::Unchanged | Self::Ahead | Self::Diverged { .. } | Self::Refused { .. } => false,
        }
    }
}

/// A fetched, pulled or pushed ref, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferredRef {
    /// Its name in the repository where it was to be moved.
    pub name: RefName,
    /// The requested target; `None` if it was to be deleted.
    pub to: Option<RefTarget>,
    /// The outcome.
    pub status: TransferStatus,
}

/// The rule that decides whether a ref may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefRule {
    /// A branch: moves forward only.
    Forward,
    /// A remote-tracking ref: follows to any commit.
    Follow,
    /// A tag: created, never moved.
    Make,
    /// A document: created if absent. An existing one is left alone and not reported.
    MakeQuietly,
    /// `HEAD`: set if it names a branch without commits.
    Begin,
}

/// A ref to move.
#[derive(Clone, Debug)]
pub(crate) struct PlannedRef {
    pub(crate) name: RefName,
    pub(crate) to: Option<RefTarget>,
    pub(crate) rule: RefRule,
}

impl PlannedRef {
    pub(crate) fn new(name: RefName, to: RefTarget, rule: RefRule) -> Self {
        Self { name, to: Some(to), rule }
    }
}

/// Plans to set `HEAD` to a branch, if it names one without commits.
pub(crate) fn begin_at(branch: &RefName) -> PlannedRef {
    PlannedRef::new(RefName::head(), RefTarget::Ref(branch.clone()), RefRule::Begin)
}

/// Number of commits in a page of a walk, at first and at most.
const PAGES: [usize; 2] = [32, 4096];

/// Moves refs after the carrier has copied their objects. `judge` has the histories of both sides,
/// as far as they are related. `documents` are blobs that refs point to and that are not stored
/// yet.
///
/// If another writer moves one of the refs first, the write is planned again from the new state.
pub(crate) async fn move_refs(
    carrier: &ObjectCopier<'_>,
    judge: &Repo,
    planned: &[PlannedRef],
    documents: &HashMap<BlobId, Blob>,
) -> Result<Vec<TransferredRef>> {
    let mut moved = Vec::with_capacity(planned.len());
    // Branches and tags that were not changed, so that their documents are not changed either.
    let mut kept = HashSet::new();
    for group in planned.chunks(WRITE_REFS) {
        let mut races = carrier.to.races();
        let mut attempt = AttemptedRefs { kept_before: &kept, kept: HashSet::new() };
        let statuses = loop {
            // A ref that an attempt kept may move in the next one, so only those of the attempt
            // that was written count.
            attempt.kept.clear();
            match once(carrier, judge, group, documents, &mut attempt).await? {
                Some(statuses) => break statuses,
                None => races.lose().await?,
            }
        };
        let kept_now = attempt.kept;
        kept.extend(kept_now);
        moved.extend(group.iter().zip(statuses).map(|(planned, status)| TransferredRef {
            name: planned.name.clone(),
            to: planned.to.clone(),
            status,
        }));
    }
    Ok(moved)
}

/// The branches and tags that an attempt did not change, and those of earlier groups.
struct AttemptedRefs<'a> {
    kept_before: &'a HashSet<RefName>,
    kept: HashSet<RefName>,
}

impl AttemptedRefs<'_> {
    fn keeps(&self, name: &RefName) -> bool {
        self.kept_before.contains(name) || self.kept.contains(name)
    }
}

/// Makes one attempt. Returns `None` if another writer moved one of the refs in the meantime.
async fn once(
    carrier: &ObjectCopier<'_>,
    judge: &Repo,
    planned: &[PlannedRef],
    documents: &HashMap<BlobId, Blob>,
    attempt: &mut AttemptedRefs<'_>,
) -> Result<Option<Vec<TransferStatus>>> {
    let to = carrier.to;
    let names: Vec<RefName> = planned.iter().map(|planned| planned.name.clone()).collect();
    let made: HashSet<&RefName> = planned.iter().map(|planned| &planned.name).collect();
    let found = to.store().refs(to.name(), &names).await?;
    let mut txn = Txn::within(to, Some(&carrier.operation))?.any_name();
    let mut statuses = Vec::with_capacity(planned.len());
    for (planned, at) in planned.iter().zip(found) {
        let status = match (&at, planned.rule) {
            (_, RefRule::MakeQuietly)
                if planned.name.companion_of().is_some_and(|name| attempt.keeps(&name)) =>
            {
                TransferStatus::Unchanged
            }
            (Some(RefTarget::Ref(branch)), RefRule::Begin) if made.contains(branch) => {
                TransferStatus::Unchanged
            }
            (at, _) => status(to, judge, planned, at.as_ref()).await?,
        };
        if matches!(status, TransferStatus::Diverged { .. } | TransferStatus::Refused { .. }) {
            attempt.kept.insert(planned.name.clone());
        }
        if status.moves() {
            let blob = planned.to.as_ref().and_then(RefTarget::blob);
            if let Some(document) = blob.and_then(|id| documents.get(&id)) {
                txn.blob(document.clone())?;
            }
            txn.move_from(&planned.name, at, planned.to.clone());
        }
        statuses.push(status);
    }
    if !txn.moves_refs() {
        return Ok(Some(statuses));
    }
    match txn.apply(carrier.what, &WriteOptions::default()).await? {
        Applied::Done | Applied::Already => Ok(Some(statuses)),
        Applied::Conflict(_) | Applied::Moved(_) => Ok(None),
    }
}

/// Decides the outcome for a ref that points to `at`.
async fn status(
    repo: &Repo,
    judge: &Repo,
    planned: &PlannedRef,
    at: Option<&RefTarget>,
) -> Result<TransferStatus> {
    use TransferStatus::{Ahead, Created, Deleted, Diverged, Forwarded, Moved, Refused, Unchanged};
    let (at, to) = match (at, &planned.to) {
        (None, None) => return Ok(Unchanged),
        (Some(_), None) => return Ok(Deleted),
        (None, Some(_)) => {
            let allowed = planned.name.check_new();
            return Ok(allowed.map_or_else(|bad| Refused { why: bad.to_string() }, |()| Created));
        }
        (Some(at), Some(to)) if at == to => return Ok(Unchanged),
        (Some(at), Some(to)) => (at, to),
    };
    let diverged = || Diverged { found: at.clone() };
    let related = match (at, to) {
        (RefTarget::Commit(at), RefTarget::Commit(to)) => Some((*at, *to)),
        _ => None,
    };
    Ok(match (planned.rule, related) {
        (RefRule::Follow, Some((at, to))) => match is_behind(judge, at, to).await? {
            true => Forwarded,
            false => Moved,
        },
        (RefRule::Forward, Some((at, to))) => {
            if is_behind(judge, at, to).await? {
                Forwarded
            } else if is_behind(judge, to, at).await? || is_ahead(repo, judge, at, to).await? {
                Ahead
            } else {
                diverged()
            }
        }
        (RefRule::Begin, _) => match (at, to) {
            (RefTarget::Ref(at), RefTarget::Ref(_)) if repo.head_of(at).await?.is_none() => Moved,
            _ => Unchanged,
        },
        (RefRule::MakeQuietly, _) => Unchanged,
        (RefRule::Follow | RefRule::Forward, None) | (RefRule::Make, _) => diverged(),
    })
}

/// Returns whether `at` is an ancestor of `of`; `false` if one of them is not stored.
async fn is_behind(judge: &Repo, at: CommitId, of: CommitId) -> Result<bool> {
    let ids = [at, of];
    let found = judge.store().commits(judge.name(), &ids).await?;
    if found.iter().any(Option::is_none) {
        return Ok(false);
    }
    descends(judge, of, at).await
}

/// Returns whether `at`, the head of a branch that is not stored here, has `behind` among its
/// ancestors. Histories that are stored here are not read there.
async fn is_ahead(there: &Repo, here: &Repo, at: CommitId, behind: CommitId) -> Result<bool> {
    let (mut open, mut seen) = (VecDeque::from([(at, PAGES[0])]), HashSet::new());
    while let Some((head, limit)) = open.pop_front() {
        if seen.contains(&head) {
            continue;
        }
        let mut history = there.history(head).pages(limit, limit);
        let page = history.next_page().await?.unwrap_or_default();
        let ids: Vec<CommitId> = page.iter().map(Commit::id).collect();
        if ids.contains(&behind) {
            return Ok(true);
        }
        let known = here.store().commits(here.name(), &ids).await?;
        let mut next = history.peek().map(|next| (next, (limit * 2).min(PAGES[1])));
        for (commit, known) in page.iter().zip(known) {
            let id = commit.id();
            if known.is_some() && descends(here, id, behind).await? {
                return Ok(true);
            }
            if known.is_some() || !seen.insert(id) {
                next = None;
                break;
            }
            open.extend(commit.parents.iter().skip(1).map(|id| (*id, PAGES[0])));
        }
        open.extend(next);
    }
    Ok(false)
}

/// Reads the documents that refs point to.
pub(super) async fn documents_of(
    repo: &Repo,
    planned: &[PlannedRef],
) -> Result<HashMap<BlobId, Blob>> {
    let ids = planned.iter().filter_map(|planned| planned.to.as_ref()?.blob());
    let keys: Vec<BlobKey> = ids.map(BlobKey::from).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let blobs = repo.store().blobs(repo.name(), &keys).await?;
    let mut found = HashMap::new();
    for (key, blob) in keys.iter().zip(blobs) {
        let blob = blob.ok_or(Error::Missing(ObjectId::Blob(key.id)))?;
        found.insert(key.id, blob);
    }
    Ok(found)
}
