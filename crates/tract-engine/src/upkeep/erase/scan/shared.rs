//! Blobs that several messages share, and the messages named by an erasure from another store.

use std::collections::HashSet;

use tract_core::store::{BlobKey, ListKind, ObjectListing};
use tract_core::{
    BlobId, Commit, CommitId, ObjectId, Op, RefName, RefTarget, StoreExt as _, ToolsetId,
};

use super::super::message::slot_of;
use super::super::report::{ErasePlace, ErasePlaceKind};
use super::keepers::{Keepers, Keeping};
use super::{ARRIVED, LISTED, Scan, SparedContents};
use crate::repo::erasure::{Erasure, MAX_MESSAGES};
use crate::repo::error::Result;

impl Scan<'_> {
    /// Reads the blobs that were erased elsewhere, and finds the toolsets that contain them.
    pub(super) async fn arrived(&mut self) -> Result<()> {
        let keys: Vec<BlobKey> = self.scope.targets.iter().map(|id| BlobKey::from(*id)).collect();
        for keys in keys.chunks(ARRIVED) {
            for blob in self.repo.store().blobs(self.repo.name(), keys).await?.iter().flatten() {
                self.add(blob, Vec::new());
            }
        }
        let mut after = 0;
        loop {
            let listing = ObjectListing { kind: ListKind::Toolsets, after, limit: LISTED };
            let page = self.repo.store().list_objects(self.repo.name(), listing).await?;
            let ids: Vec<ToolsetId> = page
                .objects
                .iter()
                .filter_map(|(object, _)| match object {
                    ObjectId::Toolset(id) => Some(*id),
                    ObjectId::Commit(_) | ObjectId::Blob(_) | ObjectId::Tool(_) => None,
                })
                .collect();
            let found = self.repo.store().toolsets(self.repo.name(), &ids).await?;
            for toolset in found.into_iter().flatten() {
                let schemas = toolset.entries().iter().map(|entry| entry.schema);
                let erased: Vec<BlobId> = schemas.filter(|schema| self.has(*schema)).collect();
                if !erased.is_empty() {
                    self.toolsets.insert(toolset.id(), erased);
                }
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// Returns the commits that exist in the source of the erasures. Their messages were erased
    /// there, because the bytes are gone from that store.
    pub(super) async fn known_to_sender(&self, commits: &[Commit]) -> Result<HashSet<CommitId>> {
        let Some(from) = self.scope.from else { return Ok(HashSet::new()) };
        let has_some = |commit: &&Commit| {
            let mut toolsets = [commit.toolset, commit.active].into_iter().flatten();
            commit.linked_blobs().any(|blob| self.has(blob))
                || toolsets.any(|id| self.toolsets.contains_key(&id))
        };
        let ids: Vec<CommitId> = commits.iter().filter(has_some).map(Commit::id).collect();
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let found = from.store().commits(from.name(), &ids).await?;
        Ok(found.iter().flatten().map(Commit::id).collect())
    }

    /// Returns whether the message of a commit loses a blob.
    fn loses(&self, commit: &Commit, slot: CommitId, blob: BlobId, there: bool) -> bool {
        let erased_there = |erasure: &Erasure| there || erasure.messages.contains(&slot);
        if self.scope.arrived.get(&blob).is_some_and(erased_there) {
            return true;
        }
        match &self.scope.messages {
            Some(messages) => {
                messages.contains(&slot)
                    || self.scope.summaries.contains(&slot)
                    // The provider's message that the commit is part of.
                    || (commit.verbatim == Some(blob)
                        && commit.joins.is_some_and(|joined| messages.contains(&joined)))
            }
            None => true,
        }
    }

    /// Records the blobs of a commit that stay because a message other than the named ones has
    /// them.
    pub(super) async fn keep_shared(
        &mut self,
        commit: &Commit,
        there: bool,
        spared: &mut SparedContents,
    ) -> Result<HashSet<BlobId>> {
        let mut kept = HashSet::new();
        if !there {
            let toolsets = [commit.toolset, commit.active].into_iter().flatten();
            let schemas = toolsets.filter_map(|id| self.toolsets.get(&id)).flatten();
            let schemas: Vec<BlobId> = schemas.copied().collect();
            self.shared.extend(schemas.into_iter().map(|id| (id, None)));
        }
        let mut hits: Vec<BlobId> = commit.linked_blobs().filter(|blob| self.has(*blob)).collect();
        if hits.is_empty() {
            return Ok(kept);
        }
        let slot = slot_of(self.repo, commit).await?;
        for blob in &hits {
            let mut slots = self.holders.entry(*blob).or_default().iter();
            // An erasure with this many names is treated as one that does not name its messages, so
            // no more are needed.
            if slots.len() < MAX_MESSAGES && !slots.any(|known| *known == slot) {
                self.holders.entry(*blob).or_default().insert(slot);
            }
        }
        hits.retain(|blob| !self.loses(commit, slot, *blob, there));
        if let Some(content) = commit.content
            && hits.contains(&content)
            && !self.scope.targets.contains(&content)
            && self.is_spared(commit, content, spared).await?
        {
            hits.retain(|blob| *blob != content);
        }
        if hits.is_empty() {
            return Ok(kept);
        }
        let keepers = match &mut self.keepers {
            Some(keepers) => keepers,
            None => self.keepers.insert(Keepers::read(self.repo).await?),
        };
        match keepers.keeping(commit.id(), slot) {
            Keeping::Keeps => {}
            Keeping::Erased => return Ok(kept),
            Keeping::Unreferenced => {
                self.unreferenced.insert(commit.id());
                return Ok(kept);
            }
        }
        // The provider's bytes contain the same text, so they stay too.
        kept.extend(hits.iter().copied().chain(commit.verbatim));
        let kind = match () {
            () if matches!(commit.op, Op::Compress { .. }) => ErasePlaceKind::Summary,
            () if commit.content.is_some_and(|id| hits.contains(&id)) => ErasePlaceKind::Message,
            () if commit.verbatim.is_some_and(|id| hits.contains(&id)) => ErasePlaceKind::Verbatim,
            () => ErasePlaceKind::Original,
        };
        self.others.insert(commit.id());
        self.places.push(ErasePlace {
            commit: Some(commit.id()),
            other: true,
            ..ErasePlace::new(kind)
        });
        self.shared.extend(kept.iter().map(|id| (*id, None)));
        Ok(kept)
    }

    /// Returns the text of a document in the source of the erasure.
    pub(super) async fn as_sent(&self, name: &RefName, id: BlobId) -> Result<Option<String>> {
        let Some(from) = self.scope.from else { return Ok(None) };
        let Some(RefTarget::Blob(now)) = from.ref_target(name).await? else { return Ok(None) };
        if now == id {
            return Ok(None);
        }
        let document = from.store().blob(from.name(), now).await?;
        Ok(document.and_then(|document| document.text().map(str::to_owned)))
    }
}
