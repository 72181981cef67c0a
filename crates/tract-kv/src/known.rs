//! Checks that everything a batch needs is stored or part of the batch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::read::View;
use super::recent::Recent;
use tract_core::batch::Batch;
use tract_core::id::{BlobId, CommitId};
use tract_core::object::{Blob, ObjectId, ToolEntry};
use tract_core::store::{StoreError, StoreResult};

/// The objects that a batch contains or links to, each with its place if it is stored.
pub(super) struct KnownObjects<'b, 'r> {
    recent: &'r Recent,
    sweeps: u64,
    /// Commits of the batch, and commits that it links to; `None` if still to be stored.
    pub(super) commits: HashMap<CommitId, Option<u64>>,
    pub(super) blobs: HashMap<BlobId, Option<u64>>,
    pub(super) new_blobs: Vec<&'b Blob>,
}

impl<'b, 'r> KnownObjects<'b, 'r> {
    pub(super) fn new(recent: &'r Recent, sweeps: u64) -> Self {
        let (commits, blobs, new_blobs) = Default::default();
        Self { recent, sweeps, commits, blobs, new_blobs }
    }

    /// Returns the place of a commit of the batch; `None` if it is still to be stored.
    pub(super) fn commit(&mut self, view: &View<'_>, id: CommitId) -> StoreResult<Option<u64>> {
        if let Some(known) = self.commits.get(&id) {
            return Ok(*known);
        }
        let place = self.find(view, id)?;
        self.commits.insert(id, place);
        Ok(place)
    }

    fn find(&self, view: &View<'_>, id: CommitId) -> StoreResult<Option<u64>> {
        match self.recent.place((view.repo, self.sweeps), id) {
            Some(place) => Ok(Some(place)),
            None => Ok(view.commit(id)?.map(|found| found.place)),
        }
    }

    /// Checks that all required or linked objects are stored or in the batch.
    pub(super) fn check(&mut self, view: &View<'_>, batch: &'b Batch) -> StoreResult<()> {
        for blob in &batch.blobs {
            if let Entry::Vacant(entry) = self.blobs.entry(blob.id()) {
                let place = view.place_of_blob(blob)?;
                entry.insert(place);
                let is_erased = batch.erases(blob.id())
                    // `sweeps` also counts erasures. While it is 0 nothing was ever erased, and the
                    // lookup is saved.
                    || (place.is_none()
                        && self.sweeps > 0
                        && view.is_erased(blob.id())?
                        && !batch.allows_again(blob.id()));
                if is_erased {
                    return Err(StoreError::erased(view.backend, "apply", blob.id()));
                }
                if place.is_none() {
                    self.new_blobs.push(blob);
                }
            }
        }
        for commit in &batch.commits {
            self.commit(view, commit.id())?;
        }
        for object in &batch.requires {
            self.require(view, batch, *object, false)?;
        }
        for commit in &batch.commits {
            if self.commits.get(&commit.id()).is_some_and(Option::is_some) {
                continue;
            }
            for link in commit.links() {
                self.require(view, batch, link, true)?;
            }
        }
        for toolset in &batch.toolsets {
            for ToolEntry { schema, .. } in toolset.entries() {
                self.require(view, batch, ObjectId::Blob(*schema), true)?;
            }
        }
        for row in &batch.tools {
            self.require(view, batch, ObjectId::Commit(row.commit), true)?;
            self.require(view, batch, ObjectId::Blob(row.schema), true)?;
        }
        for row in &batch.derived {
            self.require(view, batch, ObjectId::Commit(row.commit), true)?;
        }
        Ok(())
    }

    fn require(
        &mut self,
        view: &View<'_>,
        batch: &Batch,
        object: ObjectId,
        is_link: bool,
    ) -> StoreResult<()> {
        let is_known = match object {
            ObjectId::Commit(id) => {
                self.commits.contains_key(&id) || {
                    let found = self.find(view, id)?;
                    found.is_some_and(|place| self.commits.insert(id, Some(place)).is_none())
                }
            }
            ObjectId::Blob(id) => {
                self.blobs.contains_key(&id) || {
                    let found = view.blob(id, None)?.map(|(place, _)| place);
                    found.is_some_and(|place| self.blobs.insert(id, Some(place)).is_none())
                }
            }
            ObjectId::Toolset(id) => {
                batch.toolsets.iter().any(|toolset| toolset.id() == id)
                    || view.toolset(id)?.is_some()
            }
            ObjectId::Tool(id) => {
                batch.tools.iter().any(|row| row.id == id) || view.tool(id)?.is_some()
            }
        };
        if is_known {
            return Ok(());
        }
        if let ObjectId::Blob(blob) = object {
            // A commit keeps its links when the bytes are erased. The batch that erases them may
            // still bring commits with such a link.
            if is_link && batch.erases(blob) {
                return Ok(());
            }
            if self.sweeps > 0 && view.is_erased(blob)? {
                return Err(StoreError::erased(view.backend, "apply", blob));
            }
        }
        Err(StoreError::missing(view.backend, "apply", object))
    }
}
