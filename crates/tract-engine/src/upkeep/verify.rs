//! Re-hashes, replays and folds everything, and says what is damaged.

mod blobs;
mod facts;
mod lines;
mod objects;
mod progress;
mod refs;
mod rows;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tract_core::store::{Damage, StoreResult};
use tract_core::{BlobId, CommitId, ObjectId, RefName, RepoName, Store};

use self::facts::Facts;
use self::lines::{Lines, own_fault};
use self::objects::Objects;
use self::progress::Progress;
use crate::history::reach::{CommitGraph, ReachedCommit, damage, each};
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::upkeep::restore::{Restorer, require_restores};

/// How far a verification has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Commits checked so far: one whose objects were hashed and which is yet to be folded counts
    /// for half.
    pub commits_done: usize,
    /// Commits to check. Before all were reached, how many the store holds.
    pub commits: usize,
    /// How long the rest takes at the speed so far, without the store's own check; `None` at the
    /// start.
    pub time_left: Option<Duration>,
}

/// Called every few hundred commits with the progress of a verification.
pub type OnVerify = Arc<dyn Fn(VerifyProgress) + Send + Sync>;

/// How [`verify`] goes about it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Rebuilds what is derived and damaged. Objects stay as they are, except where
    /// [`verify_from`] replaces them.
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
    /// What was damaged and is no more: it was derived and was rebuilt, or it was replaced.
    pub repaired: Vec<Damage>,
    /// How many objects were replaced by sound copies.
    pub restored: usize,
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
/// - Others may write, erase and collect garbage meanwhile: what seems damaged is checked again, and
///   reported when it is found each time.
/// - With `repair`, snapshots, places, the turn index and the tool index are rebuilt where
///   something of them is damaged, and so are unusable parts of the search index.
///
/// # Errors
/// When the store fails in a way that is not damage of one object.
pub async fn verify(repo: &Repo, options: &VerifyOptions) -> Result<VerifyReport> {
    let mut report = confirmed(repo, options).await?;
    if options.repair {
        let found = report.damage.clone();
        rebuild(repo, options, &mut report).await?;
        repaired(repo, &mut report, found).await;
    }
    Ok(report)
}

/// Checks as [`verify`] does, rebuilds what is derived, and replaces objects that are damaged or missing
/// by those of another repository.
///
/// # Behavior
/// - An object that is damaged or missing is replaced where the other repository has it, and so is all
///   that a damaged commit leads to there and that is damaged or missing here.
/// - What was erased here stays erased. No ref moves, and objects that are whole stay as they are.
/// - The report says what is damaged still.
///
/// # Errors
/// As [`verify`]; `Unsupported` when the store cannot replace objects; those of the other store.
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

/// How often objects are replaced: what one of them leads to is known once it is there.
const ROUNDS: usize = 8;

pub(crate) async fn replaced(
    repo: &Repo,
    options: &VerifyOptions,
    mut replace: impl AsyncFnMut(&[ObjectId]) -> Result<usize>,
) -> Result<VerifyReport> {
    require_restores(repo)?;
    let mut report = confirmed(repo, options).await?;
    let found = report.damage.clone();
    // An object that an index lacks is whole.
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

/// Rebuilds what is derived, where something of it is damaged, and checks again.
async fn rebuild(repo: &Repo, options: &VerifyOptions, report: &mut VerifyReport) -> Result<()> {
    if report.damage.iter().any(|damage| damage.derived) {
        // Snapshots are cheap to do without and come again as commits are made; the rows of the
        // turn index are not: a query would read the whole history.
        repo.store().drop_derived(repo.name()).await?;
        repo.store().check(repo.name(), true).await?;
        crate::history::turns::rebuild_all(repo).await?;
        *report = once(repo, options).await?;
    }
    Ok(())
}

/// Completes the report of a repair, given what was damaged before.
async fn repaired(repo: &Repo, report: &mut VerifyReport, found: Vec<Damage>) {
    let left: HashSet<_> = report.damage.iter().map(name_of).collect();
    report.repaired = found.into_iter().filter(|damage| !left.contains(&name_of(damage))).collect();
    // Where it cannot be repaired, a search reads the commits instead.
    let _without = crate::search::ranked::repair_index(repo).await;
}

/// What tells one damage from another.
fn name_of(damage: &Damage) -> (Option<ObjectId>, Option<String>) {
    match damage.object {
        Some(object) => (Some(object), None),
        None => (None, Some(damage.what.clone())),
    }
}

/// How often everything is checked when something seems damaged each time.
const CHECKS: usize = 3;

/// Checks everything, and again where something seems damaged: what others erased, collected or moved
/// in the middle of one check is not what they do in the middle of the next. Damage is found by each.
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

    // First every object is hashed as it is reached, in the order of the file as far as a history
    // is stored in order, and what later steps need of a commit is noted.
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

    // Then every line is folded from its root, mostly from what was noted.
    let mut lines = Lines::new(repo, &reach, &facts, &mut objects.damage).await?;
    progress.fold(lines.count());
    let mut folded = 0;
    while folded < lines.count() {
        folded += lines.fold(folded, &mut objects).await?;
        progress.folded(folded);
    }
    report.damage.append(&mut objects.damage);
    // The store checks with memory of its own: what was kept of each commit goes before.
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

/// Reads and hashes all that a commit leads to and that was not reached before.
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
            // The others are read again when they are folded.
            if facts.is_append(*number)
                && let Some(what) = own_fault(commit, &[])
            {
                objects.damage.push(damage(ObjectId::Commit(commit.id()), what));
            }
        }
        progress.add_hashed(reached.len());
    }
}

/// Returns those of the commits that log entries name which are stored and were not reached. What
/// no ref holds any more may be gone; what is still there has to be whole.
async fn stored(
    store: &dyn Store,
    repo: &RepoName,
    logged: Vec<CommitId>,
) -> StoreResult<Vec<CommitId>> {
    let mut found = Vec::new();
    for chunk in logged.chunks(CHUNK) {
        let read = |ids: Vec<CommitId>| async move { store.commits(repo, &ids).await };
        // One that is damaged is named when it is reached.
        let failed = |id: &CommitId, _| {
            found.push(*id);
            Ok(())
        };
        let commits = each(chunk, read, failed).await?;
        found.extend(commits.into_iter().flatten().map(|commit| commit.id()));
    }
    Ok(found)
}

/// Commits that are read, folded and compared together.
const CHUNK: usize = 512;

/// Damage of something derived from an object.
fn derived(object: ObjectId, what: impl Into<String>) -> Damage {
    Damage { derived: true, ..damage(object, what) }
}
