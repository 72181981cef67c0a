//! Damage: with any damage to its files, a store returns the stored data or an error.
//!
//! [`ReachableObjects`] is the content of an intact repository. [`flipped_bytes`] flips bytes of a
//! file, one at a time, and compares all readable data with it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tract_core::store::{BlobKey, LogQuery};
use tract_core::{
    Blob, Commit, CommitId, LogEntry, ObjectId, RefName, RefTarget, RepoName, Store, StoreError,
    StoreErrorKind, StoreExt, StoreResult, Toolset, ToolsetId, block_on,
};

use crate::Rounds;

/// All objects that are reachable from the refs and the ref log of a repository.
#[derive(Clone, Debug)]
pub struct ReachableObjects {
    repo: RepoName,
    commits: Vec<Commit>,
    blobs: Vec<Blob>,
    toolsets: Vec<(ToolsetId, Toolset)>,
    refs: Vec<(RefName, RefTarget)>,
    log: Vec<LogEntry>,
}

/// A store returned other data than was stored, without an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongRead(pub String);

fn all_of<T>(
    found: Vec<Option<T>>,
    objects: impl IntoIterator<Item = ObjectId>,
) -> StoreResult<Vec<T>> {
    let found = found.into_iter().zip(objects);
    found.map(|(one, id)| one.ok_or_else(|| StoreError::missing("test", "damage", id))).collect()
}

impl ReachableObjects {
    /// Reads an intact store.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn of(store: &dyn Store, repo: &RepoName) -> StoreResult<Self> {
        let refs = block_on(store.list_refs(repo, ""))?;
        let log = block_on(store.ref_log(repo, &LogQuery::default()))?;
        let targets = log.iter().filter_map(|entry| entry.after.as_ref());
        let targets: Vec<&RefTarget> =
            refs.iter().map(|(_, target)| target).chain(targets).collect();
        let mut left: Vec<CommitId> = targets.iter().filter_map(|one| one.commit()).collect();
        let (mut seen, mut commits) = (BTreeSet::new(), Vec::new());
        while let Some(id) = left.pop() {
            if seen.insert(id) {
                let commit = block_on(store.require_commit(repo, id))?;
                left.extend(commit.parents.iter().copied());
                commits.push(commit);
            }
        }
        let ids: BTreeSet<ToolsetId> =
            commits.iter().flat_map(|one| [one.toolset, one.active]).flatten().collect();
        let ids: Vec<ToolsetId> = ids.into_iter().collect();
        let sets = block_on(store.toolsets(repo, &ids))?;
        let sets = all_of(sets, ids.iter().map(|id| ObjectId::Toolset(*id)))?;
        let mut keys: BTreeSet<_> =
            commits.iter().flat_map(|commit| commit.linked_blobs().collect::<Vec<_>>()).collect();
        keys.extend(sets.iter().flat_map(|set| set.entries().iter().map(|entry| entry.schema)));
        keys.extend(targets.iter().filter_map(|target| target.blob()));
        let keys: Vec<BlobKey> = keys.into_iter().map(BlobKey::from).collect();
        let blobs = block_on(store.blobs(repo, &keys))?;
        let blobs = all_of(blobs, keys.iter().map(|key| ObjectId::Blob(key.id)))?;
        let toolsets = ids.into_iter().zip(sets).collect();
        Ok(Self { repo: repo.clone(), commits, blobs, toolsets, refs, log })
    }

    /// Reads all objects again. Returns the ones that could not be read, by id if it is known.
    ///
    /// # Errors
    /// [`WrongRead`] if a read returns other data than was stored.
    pub fn read(&self, store: &dyn Store) -> Result<Vec<Option<ObjectId>>, WrongRead> {
        let repo = &self.repo;
        let mut failed = Vec::new();
        let mut fail = |error: StoreError| {
            failed.push(match error.kind {
                StoreErrorKind::Corrupt { object } => object,
                StoreErrorKind::Missing { object } => Some(object),
                _ => None,
            });
        };
        let wrong = |what: &dyn fmt::Display| WrongRead(format!("another {what}"));
        let mut judge = |id: ObjectId, is_same: StoreResult<Option<bool>>| {
            match is_same {
                Ok(Some(true)) => {}
                Ok(Some(false)) => return Err(wrong(&id)),
                Ok(None) => fail(StoreError::missing("test", "damage", id)),
                Err(error) => fail(error),
            }
            Ok(())
        };
        for commit in &self.commits {
            let found = block_on(store.commit(repo, commit.id()));
            let is_same = found.map(|found| found.map(|found| found == *commit));
            judge(ObjectId::Commit(commit.id()), is_same)?;
        }
        for blob in &self.blobs {
            let found = block_on(store.blob(repo, blob.id()));
            let is_same = found.map(|found| found.map(|found| found.bytes() == blob.bytes()));
            judge(ObjectId::Blob(blob.id()), is_same)?;
        }
        for (key, toolset) in &self.toolsets {
            let found = block_on(store.toolsets(repo, &[*key])).map(|mut found| found.pop());
            let is_same = found.map(|found| Some(found?? == *toolset));
            judge(ObjectId::Toolset(*key), is_same)?;
        }
        match block_on(store.list_refs(repo, "")) {
            Ok(found) => {
                if let Some((name, _)) = found.iter().find(|one| !self.refs.contains(one)) {
                    return Err(wrong(&format!("ref {name}")));
                }
            }
            Err(error) => fail(error),
        }
        match block_on(store.ref_log(repo, &LogQuery::default())) {
            Ok(found) => {
                if let Some(entry) = found.iter().find(|one| !self.log.contains(one)) {
                    return Err(wrong(&format!("entry {} of the log", entry.seq)));
                }
            }
            Err(error) => fail(error),
        }
        Ok(failed)
    }
}

/// The outcome of flipped bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlipReport {
    /// Rounds in which the store did not open, or its check reported the damage.
    pub found: usize,
    /// Rounds in which everything could be read and the check was clean: the byte is unused.
    pub harmless: usize,
}

/// Flips one bit of one byte of a file in each round, spread over the used part of the file. After
/// each flip it opens the store, reads everything, and calls `sound`. On success the file is
/// restored. Other files next to it, such as a log, are for `open` to remove.
///
/// # Errors
/// [`WrongRead`] if other data was read, or if something cannot be read although `sound` reports no
/// damage.
///
/// # Panics
/// If the file cannot be read or written.
pub fn flipped_bytes(
    file: &Path,
    truth: &ReachableObjects,
    rounds: &mut Rounds,
    open: impl Fn() -> StoreResult<Arc<dyn Store>>,
    sound: impl Fn(&Arc<dyn Store>) -> bool,
) -> Result<FlipReport, WrongRead> {
    let whole = std::fs::read(file).expect("the file can be read");
    // Engines that double the size of their file leave an unused end.
    let used = whole.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    // An odd distance, so that all parts of pages are hit.
    let step = (used / rounds.planned_rounds().max(1)) | 1;
    let places = (used / step).max(1);
    let mut flips = FlipReport::default();
    for round in rounds.by_ref() {
        // If the rounds end early, the flipped bytes are spread over the whole file.
        let at = ((round * 37 % places) * step + 7).min(used - 1);
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(file, &bytes).expect("the file can be written");
        let Ok(store) = open() else {
            flips.found += 1;
            continue;
        };
        let at_byte = |what: &dyn fmt::Display| WrongRead(format!("byte {at}: {what}"));
        let failed = truth.read(&*store).map_err(|wrong| at_byte(&wrong))?;
        match sound(&store) {
            true if failed.is_empty() => flips.harmless += 1,
            true => return Err(at_byte(&format!("it is sound, but {failed:?} cannot be read"))),
            false => flips.found += 1,
        }
    }
    std::fs::write(file, &whole).expect("the file can be written");
    Ok(flips)
}

#[cfg(test)]
mod tests {
    use tract_kv::memory;

    use super::*;
    use crate::fixtures::{batch, line, push_with_tools, schemas};
    use crate::{Fault, FaultyStore};

    #[test]
    fn other_data_and_missing_data_are_distinct() {
        let (store, repo) = (Arc::new(memory()), RepoName::default());
        let commits = block_on(line(&*store, &repo, "main", None, &["one", "two"]));
        let head = commits.expect("it is written")[1].id();
        let mut write = batch("commit");
        let tools = schemas(&[r#"{"name":"t"}"#]);
        let next = push_with_tools(&mut write, Some(head), "three", &tools).id();
        write.refs.push(crate::fixtures::advance("main", Some(head), next));
        block_on(store.apply(&repo, write)).map(drop).expect("it is written");
        let truth = ReachableObjects::of(&*store, &repo).expect("it is whole");
        assert_eq!((truth.commits.len(), truth.blobs.len(), truth.log.len()), (3, 4, 3));
        assert_eq!(truth.read(&*store), Ok(Vec::new()));
        let faulty = |fault| FaultyStore::new(Arc::clone(&store) as Arc<dyn Store>, fault);
        assert!(truth.read(&faulty(Fault::LosesTools)).is_err());
        assert!(truth.read(&faulty(Fault::ForgetsBefore)).is_err());
        let empty = memory();
        assert_eq!(truth.read(&empty).expect("nothing is no other data").len(), 3 + 4 + 1);
    }
}
