//! Checks refs: their targets, and whether their log leads to them.

use std::collections::{BTreeMap, BTreeSet};

use tract_core::store::{Damage, LogQuery, StoreError, StoreErrorKind, StoreResult};
use tract_core::{
    BlobId, CommitId, Expect, LogEntry, RefEdit, RefName, RefTarget, RepoName, Store,
};

use super::VerifyReport;

/// The targets of the refs, and the state for comparing them with their log.
pub(super) struct ReadRefs {
    pub(super) commits: Vec<CommitId>,
    pub(super) blobs: Vec<BlobId>,
    /// `None` when the log cannot be read.
    replay: Option<Replay>,
}

/// Number of log entries that are read together.
const PAGE: usize = 4096;

/// Number of attempts to read a ref that others move at the same time.
const LOOKS: usize = 4;

/// Reads the refs.
pub(super) async fn read(
    store: &dyn Store,
    repo: &RepoName,
    report: &mut VerifyReport,
) -> StoreResult<ReadRefs> {
    // Before the refs: `Replay` relies on all entries up to this number being older than what is
    // read.
    let before = readable(newest(store, repo, None).await, report)?;
    let refs = readable(store.list_refs(repo, "").await, report)?.unwrap_or_default();
    let (mut commits, mut blobs) = (BTreeSet::new(), BTreeSet::new());
    for (name, target) in &refs {
        let edit = RefEdit { name: name.clone(), expect: Expect::Any, to: Some(target.clone()) };
        if let Err(bad) = edit.check() {
            report.damage.push(Damage { object: None, what: bad.to_string(), derived: false });
        }
        match target {
            RefTarget::Commit(id) => _ = commits.insert(*id),
            RefTarget::Blob(id) => _ = blobs.insert(*id),
            // The branch that HEAD names may be without commits.
            RefTarget::Ref(_) => {}
        }
    }
    Ok(ReadRefs {
        commits: commits.into_iter().collect(),
        blobs: blobs.into_iter().collect(),
        replay: before.map(|before| Replay::new(before, refs)),
    })
}

/// Compares the refs with their log, and returns the commits that only log entries name, that is,
/// those for which `is_reached` returns false.
pub(super) async fn check_log(
    store: &dyn Store,
    repo: &RepoName,
    replay: &mut ReadRefs,
    is_reached: impl Fn(CommitId) -> bool,
    report: &mut VerifyReport,
) -> StoreResult<Vec<CommitId>> {
    let mut logged = BTreeSet::new();
    let Some(mut replay) = replay.replay.take() else { return Ok(Vec::new()) };
    let whole = each_entry(store, repo, None, |entry| {
        report.ref_moves += 1;
        for target in [&entry.before, &entry.after].into_iter().flatten() {
            logged.extend(target.commit().filter(|id| !is_reached(*id)));
        }
        replay.take(entry);
    });
    if readable(whole.await, report)?.is_some() {
        let moved_meanwhile = replay.newest > replay.settled;
        for (name, found) in replay.finish() {
            let found =
                if moved_meanwhile { again(store, repo, &name, found).await? } else { found };
            report.damage.extend(found);
        }
    }
    Ok(logged.into_iter().collect())
}

/// Reads one ref and its log again. A store without consistent snapshots may have shown a move in
/// only one of them.
async fn again(
    store: &dyn Store,
    repo: &RepoName,
    name: &RefName,
    mut found: Vec<Damage>,
) -> StoreResult<Vec<Damage>> {
    for _ in 0..LOOKS {
        let before = newest(store, repo, Some(name)).await?;
        let target = store.refs(repo, std::slice::from_ref(name)).await?.into_iter().flatten();
        let refs = target.map(|target| (name.clone(), target)).collect();
        let mut replay = Replay::new(before, refs);
        each_entry(store, repo, Some(name), |entry| replay.take(entry)).await?;
        found = replay.finish().into_values().flatten().collect();
        if found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Records damage instead of failing, so that everything else is still checked.
pub(super) fn readable<T>(
    read: StoreResult<T>,
    report: &mut VerifyReport,
) -> StoreResult<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError { kind: StoreErrorKind::Corrupt { object }, message, .. }) => {
            let damage = Damage { object, what: message, derived: false };
            if !report.damage.contains(&damage) {
                report.damage.push(damage);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the number of the newest entry; 0 for an empty log.
async fn newest(store: &dyn Store, repo: &RepoName, name: Option<&RefName>) -> StoreResult<u64> {
    let query = LogQuery { name: name.cloned(), limit: 1, ..LogQuery::default() };
    Ok(store.ref_log(repo, &query).await?.first().map_or(0, |entry| entry.seq))
}

/// Reads the log page by page, newest entry first.
async fn each_entry(
    store: &dyn Store,
    repo: &RepoName,
    name: Option<&RefName>,
    mut take: impl FnMut(LogEntry),
) -> StoreResult<()> {
    let mut before = None;
    loop {
        let query = LogQuery { name: name.cloned(), before, limit: PAGE, ..LogQuery::default() };
        let page = store.ref_log(repo, &query).await?;
        before = page.last().map(|entry| entry.seq);
        let is_last = page.len() < PAGE;
        page.into_iter().for_each(&mut take);
        if is_last {
            return Ok(());
        }
    }
}

/// Follows the log backward, from the current refs to an empty repository.
///
/// The refs were read while the log was at `settled` or later, and the log after them. So a ref
/// must have the value after an entry later than `settled`, or the value that it had at `settled`.
/// Concurrent moves are therefore not reported as damage.
struct Replay {
    settled: u64,
    newest: u64,
    traces: BTreeMap<RefName, Trace>,
}

/// The state of one ref, as far back as the log was followed.
#[derive(Default)]
struct Trace {
    /// The target of the ref as stored.
    stored: Option<RefTarget>,
    /// Whether the log has led to that target.
    reached: bool,
    /// The number of the next newer entry, and the target that it moved the ref from.
    later: Option<(u64, Option<RefTarget>)>,
    damage: Vec<Damage>,
}

fn named(target: Option<&RefTarget>) -> String {
    target.map_or("nothing".to_owned(), |target| target.to_string())
}

impl Trace {
    fn damaged(&mut self, what: String) {
        self.damage.push(Damage { object: None, what, derived: false });
    }

    /// Goes back to a time at which the ref had this target according to the log.
    fn was_at(&mut self, name: &RefName, target: Option<&RefTarget>, is_settled: bool) {
        let later = self.later.take();
        if let Some((seq, before)) = later
            && before.as_ref() != target
        {
            self.damaged(format!(
                "entry {seq} of the ref log moves {name} from {}, but it was at {}",
                named(before.as_ref()),
                named(target),
            ));
        }
        if !self.reached && self.stored.as_ref() == target {
            self.reached = true;
        } else if !self.reached && is_settled {
            self.reached = true;
            self.damaged(format!(
                "ref {name} points at {}, its log ends at {}",
                named(self.stored.as_ref()),
                named(target),
            ));
        }
    }
}

impl Replay {
    fn new(settled: u64, refs: Vec<(RefName, RefTarget)>) -> Self {
        let trace = |(name, target)| (name, Trace { stored: Some(target), ..Trace::default() });
        Self { settled, newest: settled, traces: refs.into_iter().map(trace).collect() }
    }

    fn take(&mut self, entry: LogEntry) {
        self.newest = self.newest.max(entry.seq);
        let trace = self.traces.entry(entry.name.clone()).or_default();
        trace.was_at(&entry.name, entry.after.as_ref(), entry.seq <= self.settled);
        trace.later = Some((entry.seq, entry.before));
    }

    /// Returns the damage by ref. Before its first entry, every ref must have been absent.
    fn finish(self) -> BTreeMap<RefName, Vec<Damage>> {
        let found = self.traces.into_iter().map(|(name, mut trace)| {
            trace.was_at(&name, None, true);
            (name, trace.damage)
        });
        found.filter(|(_, damage)| !damage.is_empty()).collect()
    }
}
