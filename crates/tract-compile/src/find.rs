//! Gets the state of a head, from the cache or by folding, and loads its messages.

use std::sync::Arc;

use tract_core::store::BlobKey;
use tract_core::{BlobId, Change, Changes, Commit, CommitId, ObjectId, parallel};

use crate::chain::Chain;
use crate::compiler::Compiler;
use crate::error::{CompileError, Result};
use crate::fact::{ContextEntry, LoadedMessage};
use crate::fetch::{GivenObjects, ObjectReader, read_changes};
use crate::ids::IdMap;
use crate::load;
use crate::state::{FoldedState, NextCommit, State};
use crate::view::RowKey;

/// A state, either shared or owned.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
enum FoundState {
    Kept(Arc<State>),
    /// Not shared, so it may be changed in place.
    New(FoldedState),
}

impl Compiler {
    pub(crate) async fn state(&self, head: Option<CommitId>, whole: bool) -> Result<Arc<State>> {
        match self.find(head, whole).await? {
            FoundState::Kept(state) => Ok(state),
            FoundState::New(reached) => {
                let state = Arc::new(reached.waiting());
                self.inner.keep(&state);
                Ok(state)
            }
        }
    }

    async fn find(&self, head: Option<CommitId>, whole: bool) -> Result<FoundState> {
        let Some(head) = head else { return Ok(FoundState::Kept(Arc::default())) };
        if let Some(state) = self.inner.cached(head, whole) {
            return Ok(FoundState::Kept(state));
        }
        let none = GivenObjects::default();
        let chain = self.inner.chain(head, whole).await?;
        let mut reached = match self.follow(&chain, &none).await? {
            Some(reached) => reached,
            None => self.follow_whole(&self.inner.chain(head, true).await?, &none).await?,
        };
        reached.state = self.inner.charged(reached.state);
        Ok(FoundState::New(reached))
    }

    /// Folds all commits of the chain onto its base, which must be whole. If that fails because a
    /// row is missing, starts again from the root, without snapshots.
    pub(crate) async fn follow_whole(
        &self,
        chain: &Chain,
        given: &GivenObjects<'_>,
    ) -> Result<FoldedState> {
        if let Some(reached) = self.follow(chain, given).await? {
            return Ok(reached);
        }
        let mut whole = match chain.base.head {
            Some(base) => self.inner.chain_from_root(base).await?,
            None => Chain::default(),
        };
        whole.commits.extend(chain.commits.iter().cloned());
        let reached = self.follow(&whole, given).await?;
        Ok(reached.expect("a state that begins at the root is whole"))
    }

    /// Folds all commits of the chain onto its base. Returns `None` if they touch, or may touch, a
    /// row that a partial base lacks.
    async fn follow(&self, chain: &Chain, given: &GivenObjects<'_>) -> Result<Option<FoldedState>> {
        if chain.commits.is_empty() {
            return Ok(Some(State::clone(&chain.base).into()));
        }
        let keys = chain.commits.iter().filter_map(|(commit, _)| match commit.changes {
            Changes::Blob(id) => Some(BlobKey::from(id)),
            Changes::List(_) => None,
        });
        let blobs = self.inner.find_blobs(keys.collect(), given).await?;
        let mut lists: IdMap<CommitId, Vec<Change>> = IdMap::default();
        for (commit, _) in &chain.commits {
            if let Changes::Blob(id) = &commit.changes {
                lists.insert(commit.id(), read_changes(commit, blobs.get(id), *id)?);
            }
        }
        let nexts: Vec<NextCommit<'_>> = chain
            .commits
            .iter()
            .map(|(commit, hint)| {
                let changes = match &commit.changes {
                    Changes::List(list) => list,
                    Changes::Blob(_) => lists.get(&commit.id()).map_or(&[][..], Vec::as_slice),
                };
                NextCommit { commit, changes, hint: *hint }
            })
            .collect();
        let (begun, nexts) = match chain.base.head {
            None => State::begin(&nexts),
            Some(_) => (None, nexts.as_slice()),
        };
        let base = match begun {
            Some(begun) if nexts.is_empty() => return Ok(Some(begun)),
            Some(begun) => &Arc::new(begun.waiting()),
            None => &chain.base,
        };
        let Some(folded) = base.fold(nexts)? else { return Ok(None) };
        let wanted = folded.needed_commits();
        let mut others: IdMap<CommitId, Commit> = IdMap::default();
        let unstored = wanted.iter().filter_map(|id| given.commit.and_then(|find| find(*id)));
        others.extend(unstored.map(|commit| (commit.id(), commit)));
        let stored: Vec<CommitId> =
            wanted.iter().filter(|id| !others.contains_key(*id)).copied().collect();
        others.extend(self.inner.find_commits(&stored).await?);
        if let Some(id) = wanted.iter().find(|id| !others.contains_key(id)) {
            let commit = chain.commits.last().map_or(*id, |(commit, _)| commit.id());
            return Err(CompileError::Missing { object: ObjectId::Commit(*id), commit });
        }
        Ok(folded.settle(others).map(FoldedState::from))
    }

    /// Returns the state of a head with all shown messages loaded.
    pub(crate) async fn loaded(&self, head: Option<CommitId>) -> Result<Arc<State>> {
        let reached = match self.find(head, false).await? {
            FoundState::Kept(state) if state.unloaded.is_empty() => return Ok(state),
            FoundState::Kept(state) => State::clone(&state).into(),
            FoundState::New(reached) => reached,
        };
        let state = if reached.shown.is_empty() {
            let waiting = load::waiting(&reached.state, 0);
            let messages = self.messages(&waiting).await?;
            let places = waiting.into_iter().map(|(place, _)| place);
            let messages = places.zip(messages).collect();
            load::with_messages(reached.state, messages, imbl::Vector::new())
        } else {
            let messages = self.messages(&reached.shown).await?;
            reached.with_messages(messages)
        };
        let state = Arc::new(state);
        self.inner.keep(&state);
        Ok(state)
    }

    /// Returns the state of a head without loading messages.
    pub(crate) async fn waiting_state(&self, head: Option<CommitId>) -> Result<State> {
        Ok(match self.find(head, false).await? {
            FoundState::Kept(state) => State::clone(&state),
            FoundState::New(reached) => reached.waiting(),
        })
    }

    /// Reads the messages of rows. The result is parallel to the rows.
    pub(crate) async fn messages(
        &self,
        rows: &[(RowKey, ContextEntry)],
    ) -> Result<Vec<Arc<LoadedMessage>>> {
        let ObjectReader { counter, meter, .. } = &*self.inner;
        let mut messages = Vec::with_capacity(rows.len());
        // In chunks, to bound the number of contents that are in memory both as bytes and parsed.
        for rows in rows.chunks(1024) {
            let mut blobs = self.inner.blobs(&load::keys(rows)).await?.into_iter();
            let mut next = |id: Option<BlobId>| id.and_then(|_| blobs.next().flatten());
            let mut with_blobs = Vec::with_capacity(rows.len());
            for (_, entry) in rows {
                let content = next(entry.fact.content);
                with_blobs.push((entry, content, next(entry.fact.verbatim)));
            }
            let loaded =
                parallel::map(&with_blobs, parallel::OBJECTS, |(entry, content, verbatim)| {
                    let (content, verbatim) = (content.as_ref(), verbatim.as_ref());
                    load::message(entry, content, verbatim, counter.as_ref(), meter).map(Arc::new)
                });
            for loaded in loaded {
                messages.push(loaded?);
            }
        }
        Ok(messages)
    }
}
