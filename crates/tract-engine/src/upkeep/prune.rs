//! Pruning: deletes branches that were not updated for a long time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde::Deserialize;
use tract_core::{BlobId, CommitId, RefName, RefTarget};

use crate::repo::Repo;
use crate::repo::error::Result;
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// Number of heads that are read together.
const CHUNK: usize = 512;
/// Page size of the walk from a head without a time.
const PAGE: usize = 256;
/// Prefix of the refs of import documents.
const IMPORTS: &str = "imports/";

/// Options of [`prune`].
#[derive(Clone, Debug)]
pub struct PruneOptions {
    /// Minimum age of the heads of deleted branches.
    pub older_than: Duration,
    /// Keeps branches whose head has a tag.
    pub keep_tagged: bool,
    /// Only lists; deletes nothing.
    pub dry_run: bool,
}

impl PruneOptions {
    /// Returns options that delete branches of at least this age.
    pub fn new(older_than: Duration) -> Self {
        Self { older_than, keep_tagged: false, dry_run: false }
    }
}

/// A branch that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedBranch {
    /// Its name, without `heads/`.
    pub name: String,
    /// Its head.
    pub head: CommitId,
    /// Creation time of the head: microseconds since 1970, UTC; 0 if no commit of its history has a
    /// time.
    pub created_at_us: i64,
}

/// The reason for keeping an old branch: the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PruneKept {
    /// `HEAD` points to it.
    CheckedOut,
    /// A pending approval refers to it.
    Pending,
    /// Its head has a tag.
    Tagged,
}

/// The result of [`prune`], or of its dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// The branches that were deleted, sorted by name.
    pub branches: Vec<PrunedBranch>,
    /// The names of the deleted import documents, sorted.
    pub documents: Vec<RefName>,
    /// Number of branches that are old enough but were kept, by reason.
    pub kept: BTreeMap<PruneKept, u64>,
}

/// Deletes branches whose head is old, in one write.
///
/// # Behavior
/// - Never deletes the branch that `HEAD` points to, nor one that a pending approval names. Tags
///   and pins stay, and so do all commits that they lead to.
/// - Also deletes the import documents of such branches, and of branches that no longer exist, so
///   that the same recording can be imported again.
/// - A commit without a time counts as its parent's, and as 0 at a root, so an import whose
///   recordings lack times counts as old.
/// - Commits stay until [`gc`](crate::gc()) finds them unreachable; until then one undo restores
///   all branches.
/// - A branch that moves during the call is checked again.
///
/// # Errors
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when refs keep moving; when the store fails.
/// Nothing is deleted then.
pub async fn prune(repo: &Repo, options: &PruneOptions) -> Result<PruneReport> {
    let mut attempts = Attempts::new(repo);
    loop {
        let plan = match Plan::make(repo, options).await {
            Ok(plan) => plan,
            // A branch that was read may have been deleted since, and its commits collected.
            Err(error) => {
                attempts.again(error).await?;
                continue;
            }
        };
        if options.dry_run || plan.deleted.is_empty() {
            return Ok(plan.report);
        }
        let mut txn = Txn::new(repo)?;
        // A branch that moved since is kept because its expected target differs; one that was only
        // checked out since is kept because `HEAD` is expected to be unchanged.
        txn.hold(&RefName::head(), plan.head);
        for (name, target) in plan.deleted {
            txn.move_from(&name, Some(target), None);
        }
        if attempts.won(txn.apply("prune", &WriteOptions::default()).await).await? {
            return Ok(plan.report);
        }
    }
}

struct Plan {
    /// The target of `HEAD`.
    head: Option<RefTarget>,
    /// The refs to delete, with their targets.
    deleted: Vec<(RefName, RefTarget)>,
    report: PruneReport,
}

/// The part of an import document that names its history.
#[derive(Deserialize)]
struct ImportDocument {
    head: String,
}

impl Plan {
    async fn make(repo: &Repo, options: &PruneOptions) -> Result<Self> {
        let older = i64::try_from(options.older_than.as_micros()).unwrap_or(i64::MAX);
        let limit = repo.now_us().saturating_sub(older);
        let head = repo.ref_target(&RefName::head()).await?;
        let current = repo.current_branch().await?;
        let pending: HashSet<RefName> =
            repo.pending().await?.into_iter().map(|pending| pending.branch).collect();
        let tagged: HashSet<CommitId> =
            repo.tags().await?.into_iter().map(|(_, commit)| commit).collect();
        let branches: Vec<(RefName, CommitId)> = repo
            .store()
            .list_refs(repo.name(), "heads/")
            .await?
            .into_iter()
            .filter_map(|(name, target)| Some((name, target.commit()?)))
            .collect();
        let mut times = Times::new(repo);
        times.read(branches.iter().map(|(_, head)| *head)).await?;
        let mut report = PruneReport::default();
        let (mut deleted, mut kept) = (Vec::new(), HashSet::new());
        for (name, head) in branches {
            let created_at_us = times.of(head).await?;
            let plain = name.branch_name().unwrap_or(name.as_str()).to_owned();
            if created_at_us >= limit {
                kept.insert(plain);
                continue;
            }
            let reason = if name == current {
                Some(PruneKept::CheckedOut)
            } else if pending.contains(&name) {
                Some(PruneKept::Pending)
            } else {
                (options.keep_tagged && tagged.contains(&head)).then_some(PruneKept::Tagged)
            };
            match reason {
                Some(reason) => {
                    *report.kept.entry(reason).or_default() += 1;
                    kept.insert(plain);
                }
                None => {
                    report.branches.push(PrunedBranch { name: plain, head, created_at_us });
                    deleted.push((name, RefTarget::Commit(head)));
                }
            }
        }
        let gone: HashSet<&str> =
            report.branches.iter().map(|branch| branch.name.as_str()).collect();
        for (name, target) in repo.store().list_refs(repo.name(), IMPORTS).await? {
            let RefTarget::Blob(document) = target else { continue };
            let of = name.as_str().strip_prefix(IMPORTS).unwrap_or_default();
            let is_old = if gone.contains(of) {
                true
            } else if kept.contains(of) {
                false
            } else {
                match head_of(repo, document).await? {
                    Some(head) => times.of(head).await? < limit,
                    None => false,
                }
            };
            if is_old {
                report.documents.push(name.clone());
                deleted.push((name, target));
            }
        }
        Ok(Self { head, deleted, report })
    }
}

/// Returns the newest commit that an import document names; `None` if it is not stored.
async fn head_of(repo: &Repo, document: BlobId) -> Result<Option<CommitId>> {
    let blob = repo.require_blob(document).await?;
    let document: Option<ImportDocument> = serde_json::from_slice(blob.bytes()).ok();
    let head: Option<CommitId> = document.and_then(|document| document.head.parse().ok());
    // It may already be deleted; then its age is unknown.
    match head {
        Some(head) => Ok(repo.commit(head).await?.map(|commit| commit.id())),
        None => Ok(None),
    }
}

/// A cache of the times of commits.
struct Times<'a> {
    repo: &'a Repo,
    known: HashMap<CommitId, i64>,
}

impl<'a> Times<'a> {
    fn new(repo: &'a Repo) -> Self {
        Self { repo, known: HashMap::new() }
    }

    /// Reads the times of those commits that have one, in bulk.
    async fn read(&mut self, commits: impl Iterator<Item = CommitId>) -> Result<()> {
        let ids: Vec<CommitId> = commits.collect();
        for chunk in ids.chunks(CHUNK) {
            let found = self.repo.store().commits(self.repo.name(), chunk).await?;
            let timed = found.into_iter().flatten();
            self.known.extend(timed.filter_map(|commit| Some((commit.id(), commit.created_at?))));
        }
        Ok(())
    }

    /// Returns the time of a commit; for a commit without one, that of the nearest first parent
    /// with a time.
    async fn of(&mut self, commit: CommitId) -> Result<i64> {
        let mut without = Vec::new();
        let mut time = 0;
        let mut history = self.repo.history(commit).pages(PAGE, PAGE);
        while let Some(id) = history.peek() {
            if let Some(known) = self.known.get(&id) {
                time = *known;
                break;
            }
            let Some(commit) = history.next().await? else { break };
            without.push(id);
            if let Some(known) = commit.created_at {
                time = known;
                break;
            }
        }
        // Cached for all of them, so that each commit is read once, however many branches share it.
        self.known.extend(without.into_iter().chain([commit]).map(|id| (id, time)));
        Ok(time)
    }
}
