//! Re-hashes, replays and folds everything, and says what is damaged.

mod lines;
mod objects;
mod refs;

use std::fmt;
use std::sync::Arc;

use tract_core::store::{Damage, StoreError, StoreErrorKind, StoreResult};
use tract_core::{BlobId, CommitId, ObjectId, RefName, RepoName, Store};

use self::lines::Lines;
use self::objects::Objects;
use crate::error::Result;
use crate::reach::{CommitGraph, damage};
use crate::repo::Repo;

/// How far a verification has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Commits checked so far.
    pub commits_done: usize,
    /// Commits to check.
    pub commits: usize,
}

/// Called every few hundred commits with the progress of a verification.
pub type OnVerify = Arc<dyn Fn(VerifyProgress) + Send + Sync>;

/// How [`verify`] goes about it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Rebuilds what is derived and damaged; objects are never touched.
    pub repair: bool,
    /// Called with the progress.
    pub progress: Option<OnVerify>,
}

impl VerifyOptions {
    /// Starts from the defaults: look, change nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether derived data is rebuilt.
    #[must_use]
    pub fn repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }

    /// Sets what is called with the progress.
    #[must_use]
    pub fn progress(mut self, progress: OnVerify) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Debug for VerifyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions").field("repair", &self.repair).finish_non_exhaustive()
    }
}

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Whether nothing is damaged (any more, after a repair).
    pub clean: bool,
    /// Commits re-hashed and folded.
    pub commits: usize,
    /// Blobs re-hashed.
    pub blobs: usize,
    /// Tool definitions compared with the index.
    pub tools: usize,
    /// Toolsets re-hashed.
    pub toolsets: usize,
    /// Entries of the ref log replayed.
    pub ref_moves: usize,
    /// What was erased, sorted: commits that name it are no damage.
    pub erased: Vec<BlobId>,
    /// What is damaged, objects first.
    pub damage: Vec<Damage>,
    /// What was damaged, was derived, and has been rebuilt.
    pub repaired: Vec<Damage>,
}

impl VerifyReport {
    /// Returns how many objects were re-hashed: commits, blobs and toolsets.
    pub fn objects(&self) -> usize {
        self.commits + self.blobs + self.toolsets
    }
}

/// Checks everything that refs and the ref log lead to.
///
/// # Behavior
/// - Every reachable commit, blob and toolset is read and hashed; a damaged one is named, also
///   where a read in bulk fails.
/// - Every link leads to something stored: parents, contents, kept blobs, toolsets, schemas,
///   versions and marks.
/// - Every commit changes what its operation may change, and folds onto its parent's view; every
///   content is what its kind says, every schema hashes to its tool's identity.
/// - Range walks equal parent walks; snapshots equal the view folded from the root; rows of the
///   turn index say what their lines say; the tool index knows every tool of every toolset.
/// - The ref log, replayed from nothing, gives the refs.
/// - With `repair`, snapshots, places, the turn index and the tool index are rebuilt where
///   something of them is damaged.
///
/// # Errors
/// When the store fails in a way that is not damage of one object.
pub async fn verify(repo: &Repo, options: &VerifyOptions) -> Result<VerifyReport> {
    let mut report = once(repo, options).await?;
    let derived = report.damage.iter().filter(|damage| damage.derived).count();
    if options.repair && derived > 0 {
        // Snapshots are cheap to do without and come again as commits are made; the rows of the
        // turn index are not: a query would read the whole history.
        repo.store().drop_derived(repo.name()).await?;
        repo.store().check(repo.name(), true).await?;
        let found = std::mem::take(&mut report.damage);
        crate::turns::rebuild_all(repo).await?;
        report = once(repo, options).await?;
        report.repaired = found.into_iter().filter(|damage| damage.derived).collect();
    }
    Ok(report)
}

async fn once(repo: &Repo, options: &VerifyOptions) -> Result<VerifyReport> {
    let (store, name) = (repo.store().as_ref(), repo.name());
    let mut report = VerifyReport::default();
    let roots = refs::check(store, name, &mut report).await?;

    let mut reach = CommitGraph::default();
    for root in roots.commits {
        reach.add(store, name, root).await?;
    }
    for root in stored(store, name, &reach, roots.logged).await? {
        reach.add(store, name, root).await?;
    }
    report.damage.append(&mut reach.damage);

    let erased = store.list_refs(name, RefName::erasures()).await?;
    report.erased = erased.iter().filter_map(|(name, _)| name.erased_blob()).collect();
    let mut objects = Objects::new(store, name);
    objects.erased(&report.erased).await?;
    let mut lines = Lines::new(repo, &reach, &mut objects.damage).await?;
    let order = lines.commits();
    for chunk in order.chunks(CHUNK) {
        let commits = objects.commits(chunk).await?;
        lines.fold(&commits, &mut objects.damage).await?;
        objects.linked(&commits).await?;
        report.commits += commits.len();
        if let Some(progress) = &options.progress {
            progress(VerifyProgress { commits_done: report.commits, commits: order.len() });
        }
    }
    objects.documents(&roots.blobs).await?;
    objects.tool_index().await?;
    (report.blobs, report.tools, report.toolsets) = objects.counts();
    report.damage.append(&mut objects.damage);
    // The store checks with memory of its own: what was kept of each commit goes before.
    drop((lines, objects, order));
    drop(reach);
    match store.check(name, false).await {
        Ok(found) => report.damage.extend(found),
        Err(StoreError { kind: StoreErrorKind::Corrupt { object }, message, .. }) => {
            report.damage.push(Damage { object, what: message, derived: false });
        }
        Err(error) => return Err(error.into()),
    }

    report.damage.sort_by_key(|damage| (damage.derived, damage.object));
    report.damage.dedup();
    report.clean = report.damage.is_empty();
    Ok(report)
}

/// Returns those of the commits that log entries name which are stored and were not reached. What
/// no ref holds any more may be gone; what is still there has to be whole.
async fn stored(
    store: &dyn Store,
    repo: &RepoName,
    reach: &CommitGraph,
    mut logged: Vec<CommitId>,
) -> StoreResult<Vec<CommitId>> {
    logged.retain(|id| !reach.holds(*id));
    let mut found = Vec::new();
    for chunk in logged.chunks(CHUNK) {
        match store.commits(repo, chunk).await {
            Ok(commits) => found.extend(commits.into_iter().flatten().map(|commit| commit.id())),
            // One of them is damaged: it is named when it is reached.
            Err(_) => {
                for id in chunk {
                    if !matches!(store.commits(repo, &[*id]).await.as_deref(), Ok([None])) {
                        found.push(*id);
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Commits that are read, folded and compared together.
const CHUNK: usize = 512;

/// Damage of something derived from an object.
fn derived(object: ObjectId, what: impl Into<String>) -> Damage {
    Damage { derived: true, ..damage(object, what) }
}
