//! Refs that follow objects from one repository to another: the last thing that moves, each by
//! compare-and-swap.

use std::collections::{HashMap, HashSet, VecDeque};

use tract_core::store::{BlobKey, Walk};
use tract_core::{Applied, Blob, BlobId, CommitId, ObjectId, RefName, RefTarget};

use crate::history::received::descends;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::WRITE_REFS;
use crate::write::txn::{Txn, WriteOptions};

/// What became of a ref that was fetched, pulled or pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferStatus {
    /// It was not there.
    Created,
    /// Its new head descends from the one it had.
    Forwarded,
    /// It says where a branch of a remote was last seen, and the branch went elsewhere.
    Moved,
    /// It pointed there already.
    Unchanged,
    /// A branch that has all of the other one, and more; it stays.
    Ahead,
    /// It points elsewhere, and stays there.
    Diverged {
        /// Where it points.
        found: RefTarget,
    },
    /// The branch is gone from the remote, and so is this.
    Deleted,
    /// It cannot be brought; others can.
    Refused {
        /// Why not.
        why: String,
    },
}

impl TransferStatus {
    /// Returns the word for it.
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

/// A ref that was fetched, pulled or pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferredRef {
    /// Its name where it was to be moved.
    pub name: RefName,
    /// Where it was to point; `None` when it was to go.
    pub to: Option<RefTarget>,
    /// What became of it.
    pub status: TransferStatus,
}

/// When a ref may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefRule {
    /// A branch: forward only.
    Forward,
    /// It follows, wherever it is to point.
    Follow,
    /// A tag: made, never moved.
    Make,
    /// A document, made where there is none; another one is none of this operation's business.
    MakeQuietly,
    /// `HEAD`: it follows when it names a branch without commits.
    Begin,
}

/// A ref that is to be moved.
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

/// Makes `HEAD` name a branch, where it names one without commits.
pub(crate) fn begin_at(branch: &RefName) -> PlannedRef {
    PlannedRef::new(RefName::head(), RefTarget::Ref(branch.clone()), RefRule::Begin)
}

/// Commits asked for in one page of a walk.
const PAGES: [usize; 2] = [32, 4096];

/// Moves refs where the carrier brought their objects; `judge` holds the histories of both sides,
/// as far as they are related. `documents` are blobs that refs point to and that are not stored yet.
///
/// A write that is lost to another writer is planned again on what is there then.
pub(crate) async fn move_refs(
    carrier: &ObjectCopier<'_>,
    judge: &Repo,
    planned: &[PlannedRef],
    documents: &HashMap<BlobId, Blob>,
) -> Result<Vec<TransferredRef>> {
    let mut moved = Vec::with_capacity(planned.len());
    // Branches and tags that stay another's, and with them their documents.
    let mut kept = HashSet::new();
    for group in planned.chunks(WRITE_REFS) {
        let mut races = carrier.to.races();
        let statuses = loop {
            match once(carrier, judge, group, documents, &mut kept).await? {
                Some(statuses) => break statuses,
                None => races.lose().await?,
            }
        };
        moved.extend(group.iter().zip(statuses).map(|(planned, status)| TransferredRef {
            name: planned.name.clone(),
            to: planned.to.clone(),
            status,
        }));
    }
    Ok(moved)
}

/// Tries once; `None` when another writer moved one of the refs meanwhile.
async fn once(
    carrier: &ObjectCopier<'_>,
    judge: &Repo,
    planned: &[PlannedRef],
    documents: &HashMap<BlobId, Blob>,
    kept: &mut HashSet<RefName>,
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
                if planned.name.companion_of().is_some_and(|name| kept.contains(&name)) =>
            {
                TransferStatus::Unchanged
            }
            (Some(RefTarget::Ref(branch)), RefRule::Begin) if made.contains(branch) => {
                TransferStatus::Unchanged
            }
            (at, _) => status(to, judge, planned, at.as_ref()).await?,
        };
        if matches!(status, TransferStatus::Diverged { .. } | TransferStatus::Refused { .. }) {
            kept.insert(planned.name.clone());
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
    match txn.apply(carrier.what, &WriteOptions::new()).await? {
        Applied::Done | Applied::Already => Ok(Some(statuses)),
        Applied::Conflict(_) => Ok(None),
    }
}

/// Decides what becomes of a ref that points to `at`.
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

/// Whether one commit is an ancestor of another; one that is not stored here is none of any.
async fn is_behind(judge: &Repo, at: CommitId, of: CommitId) -> Result<bool> {
    let ids = [at, of];
    let found = judge.store().commits(judge.name(), &ids).await?;
    if found.iter().any(Option::is_none) {
        return Ok(false);
    }
    descends(judge, of, at).await
}

/// Whether the head of a branch that is not known here has another one among its ancestors. What is
/// known here is not read there.
async fn is_ahead(there: &Repo, here: &Repo, at: CommitId, behind: CommitId) -> Result<bool> {
    let (mut open, mut seen) = (VecDeque::from([(at, PAGES[0])]), HashSet::new());
    while let Some((head, limit)) = open.pop_front() {
        if seen.contains(&head) {
            continue;
        }
        let walk = Walk { limit, ..Walk::from(head) };
        let page = there.store().walk(there.name(), walk).await?;
        let ids: Vec<CommitId> = page.steps.iter().map(|step| step.commit.id()).collect();
        if ids.contains(&behind) {
            return Ok(true);
        }
        let known = here.store().commits(here.name(), &ids).await?;
        let mut next = page.next.map(|next| (next, (limit * 2).min(PAGES[1])));
        for (step, known) in page.steps.iter().zip(known) {
            let id = step.commit.id();
            if known.is_some() && descends(here, id, behind).await? {
                return Ok(true);
            }
            if known.is_some() || !seen.insert(id) {
                next = None;
                break;
            }
            open.extend(step.commit.parents.iter().skip(1).map(|id| (*id, PAGES[0])));
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
