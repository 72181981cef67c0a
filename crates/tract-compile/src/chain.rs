//! Walks from a head back to the nearest known state: a cached one, a snapshot, or the root.

use std::sync::Arc;

use bytes::Bytes;
use tract_core::store::{LocationHint, Walk};
use tract_core::{Commit, CommitId, DerivedKind};

use crate::error::Result;
use crate::fetch::ObjectReader;
use crate::ids::{IdSet, SharedIdMap};
use crate::snapshot;
use crate::state::State;
use crate::view::Row;

/// The rows stored in the separate part of a snapshot and its predecessors; the newest entry for a
/// slot wins.
pub(crate) type SeparateRows = SharedIdMap<CommitId, Option<Row>>;

/// A known state and the commits that follow it, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) base: Arc<State>,
    pub(crate) commits: Vec<(Commit, Option<LocationHint>)>,
}

impl Chain {
    /// Builds a chain from commits in newest-first order.
    fn backwards(base: Arc<State>, mut commits: Vec<(Commit, Option<LocationHint>)>) -> Self {
        commits.reverse();
        Self { base, commits }
    }
}

/// The first page is small because a known state is usually only a few commits back.
const FIRST_PAGE: usize = 64;
const PAGE: usize = 4096;

impl ObjectReader {
    /// Finds the nearest known state at or before a head. With `whole`, partial states do not
    /// count.
    pub(crate) async fn chain(&self, head: CommitId, whole: bool) -> Result<Chain> {
        let mut commits = Vec::new();
        let mut at = head;
        // Commits that were just written are followed in the cache, without reading the store.
        loop {
            if let Some(base) = self.cached(at, whole) {
                return Ok(Chain::backwards(base, commits));
            }
            let Some(commit) = self.cached_commit(at) else { break };
            let parent = commit.parent();
            commits.push((commit, None));
            match parent {
                Some(parent) => at = parent,
                None => return Ok(Chain::backwards(Arc::default(), commits)),
            }
        }
        let mut limit = FIRST_PAGE;
        // With an empty cache there is no state to look up, so skip the check for each commit.
        let may_meet = !self.states.is_empty();
        loop {
            let walk = Walk { head: at, until: None, limit, stop_at: Some(DerivedKind::Snapshot) };
            let page = self.store.walk(&self.repo, walk).await?;
            for entry in page.entries {
                let parent = entry.commit.parent().filter(|_| may_meet);
                commits.push((entry.commit, entry.content));
                if let Some(base) = parent.and_then(|parent| self.cached(parent, whole)) {
                    return Ok(Chain::backwards(base, commits));
                }
            }
            let next = match page.stopped {
                Some((commit, bytes)) => {
                    if let Some(state) = self.read_snapshot(commit, &bytes, whole).await? {
                        return Ok(Chain::backwards(Arc::new(state), commits));
                    }
                    // The snapshot is damaged: step over it and continue with its parent.
                    let walk = Walk { limit: 1, ..Walk::from(commit) };
                    let page = self.store.walk(&self.repo, walk).await?;
                    let passed =
                        page.entries.into_iter().map(|entry| (entry.commit, entry.content));
                    commits.extend(passed);
                    commits.last().and_then(|(commit, _)| commit.parent())
                }
                None => page.next,
            };
            match next {
                Some(next) => at = next,
                None => return Ok(Chain::backwards(Arc::default(), commits)),
            }
            limit = PAGE;
        }
    }

    /// Reads the whole history of a head. Uses neither caches nor snapshots.
    pub(crate) async fn chain_from_root(&self, head: CommitId) -> Result<Chain> {
        let mut commits = Vec::new();
        let mut next = Some(head);
        while let Some(head) = next {
            let page = self.store.walk(&self.repo, Walk { limit: PAGE, ..Walk::from(head) });
            let page = page.await?;
            commits.extend(page.entries.into_iter().map(|entry| (entry.commit, entry.content)));
            next = page.next;
        }
        Ok(Chain::backwards(Arc::default(), commits))
    }

    /// Reads a snapshot. With `whole`, also merges in the separate rows of it and its predecessors.
    /// Returns `None` if one of them is damaged.
    pub(crate) async fn read_snapshot(
        &self,
        commit: CommitId,
        bytes: &Bytes,
        whole: bool,
    ) -> Result<Option<State>> {
        let Some(mut state) = snapshot::decode(commit, bytes) else { return Ok(None) };
        if !(whole && state.is_partial()) {
            return Ok(Some(state));
        }
        let apart = self.separate_rows(commit, Some(bytes.clone())).await?;
        let Some(mut apart) = apart else { return Ok(None) };
        apart.retain(|slot, _| !state.view.contains(*slot));
        let next = state.view.next();
        state.complete(apart.into_iter().filter_map(|(_, row)| row));
        // The key of a separate row is below `next`. If one is not, the parts do not belong
        // together.
        Ok((state.view.next() == next).then_some(state))
    }

    /// Reads the separate rows of a snapshot and its predecessors. `given` is the snapshot's bytes
    /// if the caller has them. Returns `None` if one of the snapshots is damaged.
    pub(crate) async fn separate_rows(
        &self,
        commit: CommitId,
        mut given: Option<Bytes>,
    ) -> Result<Option<SeparateRows>> {
        let (mut rows, mut seen) = (SeparateRows::default(), IdSet::default());
        let mut next = Some(commit);
        while let Some(at) = next {
            let bytes = match given.take() {
                Some(bytes) => Some(bytes),
                None => self.snapshot(at).await?,
            };
            let apart = bytes.and_then(|bytes| snapshot::separate_rows(at, &bytes));
            // Snapshots name their predecessors, so a forged one could form a cycle; `seen` ends
            // the loop.
            let Some(apart) = apart.filter(|_| seen.insert(at)) else { return Ok(None) };
            for (slot, row) in apart.rows {
                rows.entry(slot).or_insert(row);
            }
            next = apart.previous;
        }
        Ok(Some(rows))
    }

    /// Reads the bytes of a commit's snapshot.
    pub(crate) async fn snapshot(&self, commit: CommitId) -> Result<Option<Bytes>> {
        let found = self.store.derived(&self.repo, DerivedKind::Snapshot, &[commit]).await?;
        Ok(found.into_iter().flatten().next())
    }
}
