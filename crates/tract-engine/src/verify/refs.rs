//! The refs: where they lead, and whether their log leads to them.

use std::collections::{BTreeMap, BTreeSet};

use tract_core::store::{Damage, LogQuery, StoreError, StoreErrorKind, StoreResult};
use tract_core::{
    BlobId, CommitId, Expect, LogEntry, RefEdit, RefName, RefTarget, RepoName, Store,
};

use super::VerifyReport;

/// What refs and kept log entries lead to.
pub(super) struct Roots {
    /// Commits: those of refs, and those of log entries that are still stored.
    pub(super) commits: Vec<CommitId>,
    /// Blobs that refs point at.
    pub(super) blobs: Vec<BlobId>,
}

/// Entries of the log that are read together.
const PAGE: usize = 4096;

pub(super) async fn check(
    store: &dyn Store,
    repo: &RepoName,
    report: &mut VerifyReport,
) -> StoreResult<Roots> {
    let refs = readable(store.list_refs(repo, "").await, report)?;
    let log = readable(read(store, repo).await, report)?;
    if let (Some(log), Some(refs)) = (&log, &refs) {
        report.damage.extend(replay(log, refs));
    }
    let (refs, log) = (refs.unwrap_or_default(), log.unwrap_or_default());
    report.ref_moves = log.len();

    let (mut commits, mut blobs) = (BTreeSet::new(), BTreeSet::new());
    for (name, target) in &refs {
        let edit = RefEdit { name: name.clone(), expect: Expect::Any, to: Some(target.clone()) };
        if let Err(bad) = edit.check() {
            report.damage.push(Damage { object: None, what: bad.to_string(), derived: false });
        }
        match target {
            RefTarget::Commit(id) => _ = commits.insert(*id),
            RefTarget::Blob(id) => _ = blobs.insert(*id),
            // A branch that HEAD names need not have a commit yet.
            RefTarget::Ref(_) => {}
        }
    }
    // What no ref holds any more may be gone; what is still there has to be whole.
    let logged: BTreeSet<CommitId> = log
        .iter()
        .flat_map(|entry| [&entry.before, &entry.after])
        .filter_map(|target| target.as_ref()?.commit())
        .filter(|id| !commits.contains(id))
        .collect();
    for id in logged {
        // A damaged commit is an error here, and is named when it is reached.
        if !matches!(store.commits(repo, &[id]).await.as_deref(), Ok([None])) {
            commits.insert(id);
        }
    }
    Ok(Roots { commits: commits.into_iter().collect(), blobs: blobs.into_iter().collect() })
}

/// Takes down what cannot be read because it is damaged: what is left is checked all the same.
fn readable<T>(read: StoreResult<T>, report: &mut VerifyReport) -> StoreResult<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError { kind: StoreErrorKind::Corrupt { object }, message, .. }) => {
            report.damage.push(Damage { object, what: message, derived: false });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads the whole log, oldest first.
async fn read(store: &dyn Store, repo: &RepoName) -> StoreResult<Vec<LogEntry>> {
    let mut log: Vec<LogEntry> = Vec::new();
    loop {
        let before = log.last().map(|entry| entry.seq);
        let query = LogQuery { before, limit: PAGE, ..LogQuery::default() };
        let page = store.ref_log(repo, &query).await?;
        let done = page.len() < PAGE;
        log.extend(page);
        if done {
            log.reverse();
            return Ok(log);
        }
    }
}

/// Replays a log, oldest first, from no refs at all, and compares where it ends with the refs.
fn replay(log: &[LogEntry], refs: &[(RefName, RefTarget)]) -> Vec<Damage> {
    let mut found = Vec::new();
    let mut damaged = |what: String| found.push(Damage { object: None, what, derived: false });
    let mut replayed: BTreeMap<&RefName, &RefTarget> = BTreeMap::new();
    let said = |target: Option<&RefTarget>| {
        target.map_or("nothing".to_owned(), |target| target.to_string())
    };
    for entry in log {
        let before = replayed.get(&entry.name).copied();
        if before != entry.before.as_ref() {
            damaged(format!(
                "entry {} of the ref log moves {} from {}, where it stood at {}",
                entry.seq,
                entry.name,
                said(entry.before.as_ref()),
                said(before),
            ));
        }
        match &entry.after {
            Some(after) => replayed.insert(&entry.name, after),
            None => replayed.remove(&entry.name),
        };
    }
    let stored: BTreeMap<&RefName, &RefTarget> = refs.iter().map(|(n, t)| (n, t)).collect();
    let names: BTreeSet<&RefName> = replayed.keys().chain(stored.keys()).copied().collect();
    for name in names {
        let (by_log, by_store) = (replayed.get(name).copied(), stored.get(name).copied());
        if by_log != by_store {
            damaged(format!(
                "ref {name} points at {}, its log ends at {}",
                said(by_store),
                said(by_log),
            ));
        }
    }
    found
}
