//! Re-hashes, replays and folds everything, and says what is damaged.

mod history;
mod objects;
mod refs;

use std::fmt;
use std::sync::Arc;

use tract_compile::{CompileError, Compiler, SnapshotCheck};
use tract_core::store::{Damage, StoreResult};
use tract_core::{ApproxCounter, CommitId, DerivedKind, ObjectId};

use self::history::History;
use self::objects::Objects;
use crate::error::Result;
use crate::reach::{Reach, damage, harm};
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

/// Told how far a verification has come, every few hundred commits.
pub type OnVerify = Arc<dyn Fn(VerifyProgress) + Send + Sync>;

/// How [`verify`] goes about it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Builds anew what is derived and damaged; objects are never touched.
    pub repair: bool,
    /// Is told how far it has come.
    pub progress: Option<OnVerify>,
}

impl VerifyOptions {
    /// Starts from the defaults: look, change nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether derived data is built anew.
    #[must_use]
    pub fn repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }

    /// Sets who is told how far it has come.
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
    /// What is damaged, objects first.
    pub damage: Vec<Damage>,
    /// What was damaged, was derived, and has been built anew.
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
/// - With `repair`, snapshots, places, the turn index and the tool index are built anew where
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

    let mut reach = Reach::default();
    for root in roots.commits {
        reach.add(store, name, root).await?;
    }
    report.damage.append(&mut reach.damage);
    let order = reach.parents_first();

    let mut objects = Objects::new(store, name);
    let mut history = History::new(store, name, &reach);
    for chunk in order.chunks(CHUNK) {
        let commits = objects.commits(chunk).await?;
        history.fold(&commits, &mut objects.damage).await?;
        snapshots(repo, chunk, &mut objects.damage).await?;
        turn_rows(repo, chunk, &mut objects.damage).await?;
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
    report.damage.extend(store.check(name, false).await?);

    report.damage.sort_by_key(|damage| (damage.derived, damage.object));
    report.damage.dedup();
    report.clean = report.damage.is_empty();
    Ok(report)
}

/// Compares the snapshots at these commits with their lines, folded from the root.
async fn snapshots(repo: &Repo, commits: &[CommitId], found: &mut Vec<Damage>) -> StoreResult<()> {
    let stored = repo.store().derived(repo.name(), DerivedKind::Snapshot, commits).await?;
    let stored = commits.iter().zip(stored).filter(|(_, bytes)| bytes.is_some());
    for (id, _) in stored {
        // Without a cache, which could answer from what the write path remembered.
        let counter = Arc::new(ApproxCounter);
        let compiler =
            Compiler::with_cache(Arc::clone(repo.store()), repo.name().clone(), counter, 0);
        let what = match compiler.verify_snapshot(*id).await {
            Ok(SnapshotCheck::Sound | SnapshotCheck::Absent) => continue,
            Ok(SnapshotCheck::Damaged) => "its snapshot is damaged",
            Ok(_) => "its snapshot differs from the view folded from the root",
            Err(CompileError::Store(error)) => {
                harm(ObjectId::Commit(*id), error)?;
                continue;
            }
            // A line that does not fold, or lacks something, was named where that lies.
            Err(_) => continue,
        };
        found.push(derived(ObjectId::Commit(*id), what));
    }
    Ok(())
}

/// Compares the rows of the turn index at these commits with what their lines say.
async fn turn_rows(repo: &Repo, commits: &[CommitId], found: &mut Vec<Damage>) -> StoreResult<()> {
    let stored = repo.store().derived(repo.name(), DerivedKind::Turn, commits).await?;
    for (id, bytes) in commits.iter().zip(stored) {
        let Some(bytes) = bytes else { continue };
        // A line that cannot be read was named where that lies.
        if let Ok(false) = crate::turns::is_sound(repo, *id, &bytes).await {
            found.push(derived(ObjectId::Commit(*id), "its row of the turn index is wrong"));
        }
    }
    Ok(())
}

/// Commits that are read, folded and compared together.
const CHUNK: usize = 512;

/// Damage of something derived from an object.
fn derived(object: ObjectId, what: impl Into<String>) -> Damage {
    Damage { derived: true, ..damage(object, what) }
}
