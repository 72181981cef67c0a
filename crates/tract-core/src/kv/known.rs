//! What a batch needs: stored already, or brought along.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::read::View;
use crate::batch::Batch;
use crate::id::{BlobId, CommitId};
use crate::object::{Blob, ObjectId, ToolEntry};
use crate::store::{StoreError, StoreResult};

/// What a batch brings and links to: where it lies, as far as it is stored.
pub(super) struct Known<'b> {
    /// Commits of the batch and those it links to; `None` is to be stored.
    pub(super) commits: HashMap<CommitId, Option<u64>>,
    pub(super) blobs: HashMap<BlobId, Option<u64>>,
    pub(super) new_blobs: Vec<&'b Blob>,
}

impl<'b> Known<'b> {
    /// Checks that all that is required or linked to is stored or in the batch.
    pub(super) fn check(view: &View<'_>, batch: &'b Batch) -> StoreResult<Self> {
        let mut known =
            Self { commits: HashMap::new(), blobs: HashMap::new(), new_blobs: Vec::new() };
        for blob in &batch.blobs {
            if let Entry::Vacant(entry) = known.blobs.entry(blob.id()) {
                let place = view.place_of_blob(blob)?;
                entry.insert(place);
                if place.is_none() {
                    known.new_blobs.push(blob);
                }
            }
        }
        for commit in &batch.commits {
            if let Entry::Vacant(entry) = known.commits.entry(commit.id()) {
                entry.insert(view.commit(commit.id())?.map(|found| found.place));
            }
        }
        for object in &batch.requires {
            known.need(view, batch, *object)?;
        }
        for commit in &batch.commits {
            if known.commits.get(&commit.id()).is_some_and(Option::is_some) {
                continue;
            }
            for parent in &commit.parents {
                known.need(view, batch, ObjectId::Commit(*parent))?;
            }
            for blob in commit.linked_blobs() {
                known.need(view, batch, ObjectId::Blob(blob))?;
            }
            for toolset in [commit.toolset, commit.active].into_iter().flatten() {
                known.need(view, batch, ObjectId::Toolset(toolset))?;
            }
        }
        for toolset in &batch.toolsets {
            for ToolEntry { schema, .. } in toolset.entries() {
                known.need(view, batch, ObjectId::Blob(*schema))?;
            }
        }
        for row in &batch.tools {
            known.need(view, batch, ObjectId::Commit(row.commit))?;
            known.need(view, batch, ObjectId::Blob(row.schema))?;
        }
        for row in &batch.derived {
            known.need(view, batch, ObjectId::Commit(row.commit))?;
        }
        Ok(known)
    }

    fn need(&mut self, view: &View<'_>, batch: &Batch, object: ObjectId) -> StoreResult<()> {
        let is_known = match object {
            ObjectId::Commit(id) => {
                self.commits.contains_key(&id) || {
                    let found = view.commit(id)?.map(|found| found.place);
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
        match is_known {
            true => Ok(()),
            false => Err(StoreError::missing(view.backend, "apply", object)),
        }
    }
}
