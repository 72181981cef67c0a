//! What becomes of answers, and what the faults look up by themselves.

use tract_core::store::{BlobKey, CommitRepository, LocationHint, ObjectRepository};
use tract_core::{
    Batch, Blob, Commit, CommitId, CommitRecord, Conflict, ObjectId, RepoName, StoreError,
    StoreErrorKind, StoreExt, StoreResult, ToolEntry, Toolset,
};

use super::{Fault, FaultyStore};

/// The hint that leads nowhere.
pub(super) const NOWHERE: LocationHint = LocationHint(u64::MAX);

impl FaultyStore {
    pub(super) fn answers<K: PartialEq, T>(
        &self,
        keys: &[K],
        mut found: Vec<Option<T>>,
    ) -> Vec<Option<T>> {
        match self.fault {
            Fault::DropsAbsent => found.retain(Option::is_some),
            Fault::AnswersFew => found.truncate(1000),
            Fault::AnswersOnce => {
                let mut remaining = keys.iter().enumerate();
                found.retain(|_| remaining.next().is_none_or(|(n, key)| !keys[..n].contains(key)));
            }
            _ => {}
        }
        found
    }

    pub(super) fn blob(&self, key: &BlobKey, blob: Blob) -> Option<Blob> {
        match self.fault {
            Fault::LosesEmptyBlobs if blob.bytes().is_empty() => None,
            Fault::LosesLargeBlobs if blob.bytes().len() > 1 << 20 => None,
            Fault::TrustsHints if key.hint == Some(NOWHERE) => None,
            Fault::EndsAtZero => match blob.bytes().iter().position(|byte| *byte == 0) {
                Some(at) => Some(Blob::seal(blob.bytes().slice(..at))),
                None => Some(blob),
            },
            _ => Some(blob),
        }
    }

    pub(super) fn toolset(&self, toolset: Toolset) -> Option<Toolset> {
        let mut entries = toolset.entries().to_vec();
        match self.fault {
            Fault::SortsToolsets => {
                entries.sort_by_key(|entry| entry.tool);
                entries.dedup();
            }
            Fault::LosesTools => drop(entries.pop()),
            Fault::LosesEmptyToolsets if entries.is_empty() => return None,
            _ => return Some(toolset),
        }
        Some(Toolset::seal(entries))
    }

    pub(super) fn commit(&self, commit: Commit) -> Commit {
        let mut record: CommitRecord = commit.record().clone();
        match self.fault {
            Fault::ForgetsMetadata => record.metadata = None,
            Fault::ForgetsParents => record.parents.truncate(1),
            _ => return commit,
        }
        Commit::seal(record).unwrap_or(commit)
    }

    /// The tools in force after a commit, by this store's own answers.
    pub(super) async fn entries(
        &self,
        repo: &RepoName,
        commit: CommitId,
    ) -> StoreResult<Vec<ToolEntry>> {
        let found = self.commits(repo, &[commit]).await?.into_iter().flatten().next();
        let Some(found) = found else {
            return match self.fault {
                Fault::EmptyForUnknown => Ok(Vec::new()),
                _ => Err(self.missing(ObjectId::Commit(commit))),
            };
        };
        let Some(id) = found.toolset else { return Ok(Vec::new()) };
        let found = self.toolsets(repo, &[id]).await?.into_iter().flatten().next();
        let toolset = found.ok_or_else(|| self.missing(ObjectId::Toolset(id)))?;
        Ok(toolset.entries().to_vec())
    }

    pub(super) fn missing(&self, object: ObjectId) -> StoreError {
        StoreError::missing("faulty", "read", object)
    }

    pub(super) fn refuses<T>(&self) -> StoreResult<T> {
        Err(StoreError::new(StoreErrorKind::Invalid, "faulty", "apply", "it does not want to"))
    }

    /// The first of some objects that is not stored.
    pub(super) async fn unknown(
        &self,
        repo: &RepoName,
        objects: &[ObjectId],
    ) -> StoreResult<Option<ObjectId>> {
        for object in objects {
            let batch = Batch { requires: vec![*object], ..crate::fixtures::batch("look") };
            match self.store.apply(repo, batch).await {
                Err(error) if matches!(error.kind, StoreErrorKind::Missing { .. }) => {
                    return Ok(Some(*object));
                }
                answer => drop(answer?),
            }
        }
        Ok(None)
    }

    /// An edit whose expectation does not hold.
    pub(super) async fn stale(
        &self,
        repo: &RepoName,
        batch: &Batch,
    ) -> StoreResult<Option<Conflict>> {
        for edit in &batch.refs {
            let found = self.store.ref_target(repo, &edit.name).await?;
            if !edit.expect.holds(found.as_ref()) {
                let (name, expected) = (edit.name.clone(), edit.expect.clone());
                return Ok(Some(Conflict { name, expected, found }));
            }
        }
        Ok(None)
    }
}
