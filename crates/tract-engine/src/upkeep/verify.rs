//! Verification: re-hashes all objects, replays the ref log and folds every history, and reports
//! damage.

mod blobs;
mod facts;
mod lines;
mod objects;
mod progress;
mod refs;
mod rows;

use std::collections::HashSet;
use std::time::Duration;

use tract_core::store::{Damage, StoreResult};
use tract_core::{BlobId, CommitId, ObjectId, RefName, RepoName, Store};

use self::facts::Facts;
use self::lines::{Lines, own_fault};
use self::objects::Objects;
use self::progress::Progress;
use crate::history::reach::{CommitGraph, ReachedCommit, damage, each};
use crate::repo::error::Result;
use crate::repo::{Callback, Repo};
use crate::upkeep::restore::{Restorer, require_restores};

/// Progress of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Commits checked so far. A commit whose objects were hashed and that is not yet folded counts
    /// as half.
    pub commits_done: usize,
    /// Commits to check. Until all have been reached, the number of commits in the store.
    pub commits: usize,
    /// Estimated remaining time at the current speed, without the store's own check; `None` at the
    /// start.
    pub time_left: Option<Duration>,
}

/// Called every few hundred commits with the progress of a verification.
pub type OnVerify = Callback<VerifyProgress>;

/// Options of [`verify`].
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Rebuilds damaged derived data. Objects are not changed, unless [`verify_from`] replaces
    /// them.
    pub repair: bool,
    /// Called with the progress.
    pub progress: Option<OnVerify>,
}

/// The result of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Whether nothing is damaged, or no longer after a repair.
    pub clean: bool,
    /// Number of commits re-hashed and folded.
    pub commits: usize,
    /// Number of blobs re-hashed.
    pub blobs: usize,
    /// Number of tool definitions compared with the index.
    pub tools: usize,
    /// Number of toolsets re-hashed.
    pub toolsets: usize,
    /// Number of ref log entries replayed.
    pub ref_moves: usize,
    /// The erased blobs, sorted. Commits that refer to them are not damaged.
    pub erased: Vec<BlobId>,
    /// The damage found, objects first.
    pub damage: Vec<Damage>,
    /// Repaired damage: derived data that was rebuilt, and objects that were replaced.
    pub repaired: Vec<Damage>,
    /// Number of objects replaced by intact copies.
    pub restored: usize,
}

impl VerifyReport {
    /// Returns the number of re-hashed objects: commits, blobs and toolsets.
    pub fn objects(&self) -> usize {
        self.commits + self.blobs + self.toolsets
    }
}

/// Checks everything that refs and the ref log lead to.
///
/// # Behavior
/// - Reads and hashes every reachable commit, blob and toolset. A damaged one is named even if a
///   bulk read fails.
/// - Every link must lead to a stored object: parents, contents, kept blobs, toolsets, schemas,
///   versions and marks.
/// - Every commit may change only what its operation allows, and must fold onto its parent's view.
///   Every content must be valid for its kind, and every schema must hash to its tool's identity.
/// - Range walks must equal parent walks; snapshots must equal the view folded from the root; rows
///   of the turn index must match their histories; the tool index must contain every tool of every
///   toolset.
/// - Replaying the ref log from the start must result in the current refs.
/// - Others may write, erase and collect garbage during the check: apparent damage is checked
///   again, and reported only if every check finds it.
/// - With `repair`, rebuilds snapshots, places, the turn index and the tool index if any part of
///   them is damaged, and unusable parts of the search index.
///
/// # Errors
/// When the store fails for a reason other than damage of one object.
pub async fn verify(repo: &Repo, options: &VerifyOptions) -> Result<VerifyReport> {
    let mut report = confirmed(repo, options).await?;
    if options.repair {
        let found = report.damage.clone();
        rebuild(repo, options, &mut report).await?;
        repaired(repo, &mut report, found).await;
    }
    Ok(report)
}

/// Checks like [`verify`], rebuilds derived data, and replaces damaged and missing objects with
/// those of another repository.
///
/// # Behavior
/// - Replaces a damaged or missing object if the other repository has it, and everything that a
///   damaged commit leads to there and that is damaged or missing here.
/// - Erased blobs stay erased. No ref moves, and intact objects are not touched.
/// - The report lists the remaining damage.
///
/// # Errors
/// Those of [`verify`] and of the other store; `Unsupported` when the store cannot replace objects.
pub async fn verify_from(
    repo: &Repo,
    from: &Repo,
    options: &VerifyOptions,
) -> Result<VerifyReport> {
    replaced(repo, options, async |lost: &[ObjectId]| {
        let mut restorer = Restorer::new(from, repo);
        restorer.objects(lost).await?;
        Ok(restorer.restored)
    })
    .await
}

/// Maximum number of rounds of replacing: the links of a replaced object are known only once it is
/// there.
const ROUNDS: usize = 8;

pub(crate) async fn replaced(
    repo: &Repo,
    options: &VerifyOptions,
    mut replace: impl AsyncFnMut(&[ObjectId]) -> Result<usize>,
) -> Result<VerifyReport> {
    require_restores(repo)?;
    let mut report = confirmed(repo, options).await?;
    let found = report.damage.clone();
    // First, because an object that is only missing in an index is intact.
    rebuild(repo, options, &mut report).await?;
    let mut restored = 0;
    for _ in 0..ROUNDS {
        let lost = report.damage.iter().filter(|damage| !damage.derived);
        let lost: Vec<ObjectId> = lost.filter_map(|damage| damage.object).collect();
        let again = if lost.is_empty() { 0 } else { replace(&lost).await? };
        if again == 0 {
            break;
        }
        restored += again;
        repo.store().check(repo.name(), true).await?;
        report = once(repo, options).await?;
    }
    if restored > 0 {
        rebuild(repo, options, &mut report).await?;
    }
    report.restored = restored;
    repaired(repo, &mut report, found).await;
    Ok(report)
}

/// Rebuilds derived data if any of it is damaged, and checks again.
async fn rebuild(repo: &Repo, options: &VerifyOptions, report: &mut VerifyReport) -> Result<()> {
    if report.damage.iter().any(|damage| damage.derived) {
        // Snapshots are created again as commits are made, and reading works without them. The rows
        // of the turn index are rebuilt here, because without them a query reads the whole history.
        repo.store().drop_derived(repo.name()).await?;
        repo.store().check(repo.name(), true).await?;
        crate::history::turns::rebuild_all(repo).await?;
        *report = once(repo, options).await?;
    }
    Ok(())
}

/// Completes the report of a repair. `found` is the damage before the repair.
async fn repaired(repo: &Repo, report: &mut VerifyReport, found: Vec<Damage>) {
    let left: HashSet<_> = report.damage.iter().map(name_of).collect();
    report.repaired = found.into_iter().filter(|damage| !left.contains(&name_of(damage))).collect();
    // If it cannot be repaired, a search reads the commits instead.
    let _without = crate::search::ranked::repair_index(repo).await;
}

/// Returns what identifies a damage across checks.
fn name_of(damage: &Damage) -> (Option<ObjectId>, Option<String>) {
    match damage.object {
        Some(object) => (Some(object), None),
        None => (None, Some(damage.what.clone())),
    }
}

/// Number of checks if each finds damage.
const CHECKS: usize = 3;

/// Checks everything, and repeats the check if something seems damaged. Objects that others erase,
/// collect or move during one check are not the ones that they change during the next, so only
/// damage that every check finds is reported.
async fn confirmed(repo: &Repo, options: &VerifyOptions) -> Result<VerifyReport> {
    let mut report = once(repo, options).await?;
    for _ in 1..CHECKS {
        if report.damage.is_empty() {
            break;
        }
        let before: HashSet<_> = report.damage.iter().map(name_of).collect();
        let mut again = once(repo, options).await?;
        let seen = again.damage.len();
        again.damage.retain(|damage| before.contains(&name_of(damage)));
        again.clean = again.damage.is_empty();
        let is_quiet = again.damage.len() == seen && seen == report.damage.len();
        report = again;
        if is_quiet {
            break;
        }
    }
    Ok(report)
}

async fn once(repo: &Repo, options: &VerifyOptions) -> Result<VerifyReport> {
    let (store, name) = (repo.store().as_ref(), repo.name());
    let mut report = VerifyReport::default();
    let mut refs = refs::read(store, name, &mut report).await?;
    let mut progress = Progress::start(repo, options).await?;

    let erased = store.list_refs(name, RefName::erasures()).await?;
    report.erased = erased.iter().filter_map(|(name, _)| name.erased_blob()).collect();

    // First pass: hash every object as it is reached. A history that is stored in order is read in
    // the order of the file. Facts for the second pass are noted for each commit.
    let mut reach = CommitGraph::of_first_parents();
    let mut facts = Facts::default();
    let mut objects = Objects::new(store, name);
    objects.erased(&report.erased).await?;
    for root in std::mem::take(&mut refs.commits) {
        hash(repo, root, &mut reach, &mut facts, &mut objects, &mut progress).await?;
    }
    let logged = refs::check_log(store, name, &mut refs, |id| reach.holds(id), &mut report).await?;
    for root in stored(store, name, logged).await? {
        hash(repo, root, &mut reach, &mut facts, &mut objects, &mut progress).await?;
    }
    objects.documents(&refs.blobs).await?;
    objects.tool_index().await?;
    report.damage.append(&mut reach.damage);
    report.commits = progress.hashed();
    (report.blobs, report.tools, report.toolsets) = objects.counts();
    objects.blobs.forget();

    // Second pass: fold every history from its root, mostly from the noted facts.
    let mut lines = Lines::new(repo, &reach, &facts, &mut objects.damage).await?;
    progress.fold(lines.count());
    let mut folded = 0;
    while folded < lines.count() {
        folded += lines.fold(folded, &mut objects).await?;
        progress.folded(folded);
    }
    report.damage.append(&mut objects.damage);
    // The store's check needs memory of its own, so free the data about commits first.
    drop((lines, objects));
    drop((facts, reach));
    if let Some(found) = refs::readable(store.check(name, false).await, &mut report)? {
        report.damage.extend(found);
    }

    report.damage.sort_by_key(|damage| (damage.derived, damage.object));
    report.damage.dedup();
    report.clean = report.damage.is_empty();
    Ok(report)
}

/// Reads and hashes everything that a commit leads to and that was not reached before.
async fn hash(
    repo: &Repo,
    root: CommitId,
    reach: &mut CommitGraph,
    facts: &mut Facts,
    objects: &mut Objects<'_>,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let (store, name) = (repo.store().as_ref(), repo.name());
    let mut reading = reach.begin(root)?;
    loop {
        let reached = reach.page(store, name, &mut reading).await?;
        if reached.is_empty() {
            return Ok(());
        }
        objects.linked(&reached).await?;
        for ReachedCommit { number, commit, .. } in &reached {
            let has_text_only = commit.content.is_some_and(|id| objects.blobs.is_one_text(id));
            facts.note(reach, *number, commit, has_text_only)?;
            // Other commits are read again when they are folded.
            if facts.is_append(*number)
                && let Some(what) = own_fault(commit, &[])
            {
                objects.damage.push(damage(ObjectId::Commit(commit.id()), what));
            }
        }
        progress.add_hashed(reached.len());
    }
}

/// Returns those commits of log entries that are stored and were not reached. A commit that no ref
/// leads to may have been deleted; if it is stored, it must be intact.
async fn stored(
    store: &dyn Store,
    repo: &RepoName,
    logged: Vec<CommitId>,
) -> StoreResult<Vec<CommitId>> {
    let mut found = Vec::new();
    for chunk in logged.chunks(CHUNK) {
        let read = |ids: Vec<CommitId>| async move { store.commits(repo, &ids).await };
        // A damaged commit is reported when it is reached.
        let failed = |id: &CommitId, _| {
            found.push(*id);
            Ok(())
        };
        let commits = each(chunk, read, failed).await?;
        found.extend(commits.into_iter().flatten().map(|commit| commit.id()));
    }
    Ok(found)
}

/// Number of commits that are read, folded and compared together.
const CHUNK: usize = 512;

/// Creates a damage of data derived from an object.
fn derived(object: ObjectId, what: impl Into<String>) -> Damage {
    Damage { derived: true, ..damage(object, what) }
}
