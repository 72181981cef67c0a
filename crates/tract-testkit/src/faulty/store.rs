//! The store, and where it breaks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tract_core::store::{
    BlobKey, Capabilities, CommitRepository, Damage, DerivedRepository, LogQuery, ObjectListing,
    ObjectPage, ObjectRepository, RefRepository, RepackPage, RepackStep, SpaceRelease, StoreStats,
    Sweep, SweepAnswer, ToolRepository, Walk, WalkPage, WipeReport, WritePosition,
};
use tract_core::{
    Applied, Batch, BatchId, Blob, Commit, CommitId, Conflict, DerivedKind, Expect, IdPrefix,
    LogEntry, ObjectId, RefEdit, RefName, RefTarget, RepoName, Store, StoreErrorKind, StoreExt,
    StoreResult, ToolDefinition, ToolId, Toolset, ToolsetId,
};

use super::Fault;
use super::answers::NOWHERE;

/// A store that works, but for one promise.
#[derive(Debug)]
pub struct FaultyStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) fault: Fault,
    /// How many batches moved refs.
    moves: AtomicUsize,
}

impl FaultyStore {
    /// Breaks one promise of a store.
    pub fn new(store: Arc<dyn Store>, fault: Fault) -> Self {
        Self { store, fault, moves: AtomicUsize::new(0) }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn repo(&self, repo: &RepoName) -> RepoName {
        match self.fault {
            Fault::MixesRepositories => RepoName::default(),
            _ => repo.clone(),
        }
    }

    /// Writes the first commit of a batch before the others, so that readers see half of it.
    async fn in_halves(&self, repo: &RepoName, mut batch: Batch) -> StoreResult<Applied> {
        if let ([first, _, ..], [edit]) = (&batch.commits[..], &mut batch.refs[..]) {
            let to = RefTarget::Commit(first.id());
            let half = Batch {
                blobs: batch.blobs.clone(),
                commits: vec![first.clone()],
                refs: vec![RefEdit { to: Some(to.clone()), ..edit.clone() }],
                ..crate::fixtures::batch("half")
            };
            let answer = self.store.apply(repo, half).await?;
            if answer != Applied::Done {
                return Ok(answer);
            }
            edit.expect = Expect::Is(to);
            std::thread::sleep(Duration::from_millis(2));
        }
        self.store.apply(repo, batch).await
    }

    /// What becomes of a batch before the store sees it: an answer instead, or another batch.
    async fn instead(&self, repo: &RepoName, batch: &mut Batch) -> StoreResult<Option<Applied>> {
        match self.fault {
            Fault::IgnoresExpectations => {
                batch.refs.iter_mut().for_each(|edit| edit.expect = Expect::Any);
            }
            Fault::ForgetsBatches => {
                batch.id = BatchId::random()?;
            }
            Fault::IgnoresLinks => batch.requires.clear(),
            Fault::LosesWrites if batch.refs.is_empty() => drop(batch.blobs.pop()),
            Fault::KeepsOldRows => {
                for row in std::mem::take(&mut batch.derived) {
                    let known = self.store.derived(repo, row.kind, &[row.commit]).await?;
                    if known.iter().all(Option::is_none) {
                        batch.derived.push(row);
                    }
                }
            }
            Fault::AppliesHalf => {
                let half = Batch { refs: Vec::new(), requires: Vec::new(), ..batch.clone() };
                let _ = self.store.apply(repo, half).await;
            }
            Fault::KeepsRefs => batch.refs.retain(|edit| edit.to.is_some()),
            Fault::TakesTwoEdits => {
                let last: BTreeMap<RefName, RefEdit> =
                    batch.refs.drain(..).map(|edit| (edit.name.clone(), edit)).collect();
                batch.refs = last.into_values().collect();
            }
            Fault::LeavesOutBadTargets => batch.refs.retain(|edit| edit.check().is_ok()),
            Fault::LogsEverything if batch.refs.is_empty() => {
                let to = Some(RefTarget::Ref(crate::fixtures::branch("nowhere")));
                batch.refs.push(RefEdit { name: RefName::head(), expect: Expect::Any, to });
            }
            Fault::RefusesKnown => {
                let ids: Vec<CommitId> = batch.commits.iter().map(Commit::id).collect();
                if self.store.commits(repo, &ids).await?.iter().any(Option::is_some) {
                    return self.refuses();
                }
            }
            Fault::RefusesEmpty => {
                let Batch { blobs, toolsets, commits, refs, .. } = &*batch;
                if blobs.is_empty() && toolsets.is_empty() && commits.is_empty() && refs.is_empty()
                {
                    return self.refuses();
                }
            }
            Fault::RequiresStored => {
                if let Some(object) = self.unknown(repo, &batch.requires).await? {
                    return Err(self.missing(object));
                }
            }
            Fault::ComparesTooMuch => {
                return Ok(self.stale(repo, batch).await?.map(Applied::Conflict));
            }
            Fault::MissesFirst => {
                let parents = batch.commits.iter().flat_map(|commit| commit.parents.clone());
                let before = parents.filter(|id| batch.commits.iter().all(|one| one.id() != *id));
                let before: Vec<ObjectId> = before.map(ObjectId::Commit).collect();
                if let Some(object) = self.unknown(repo, &before).await? {
                    return Err(self.missing(object));
                }
            }
            Fault::ShowsHalf => return self.in_halves(repo, batch.clone()).await.map(Some),
            Fault::LosesMoves | Fault::ConflictsFalsely => {
                let Some(edit) = batch.refs.first() else { return Ok(None) };
                if self.moves.fetch_add(1, Ordering::Relaxed) % 7 != 6 {
                    return Ok(None);
                }
                if self.has(Fault::LosesMoves) {
                    return Ok(Some(Applied::Done));
                }
                let (name, expected) = (edit.name.clone(), edit.expect.clone());
                return Ok(Some(Applied::Conflict(Conflict { name, expected, found: None })));
            }
            _ => {}
        }
        Ok(None)
    }
}

#[async_trait]
impl ObjectRepository for FaultyStore {
    async fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let found = self.store.blobs(&self.repo(repo), keys).await?;
        let found = keys.iter().zip(found).map(|(key, blob)| self.blob(key, blob?)).collect();
        Ok(self.answers(keys, found))
    }

    async fn toolsets(
        &self,
        repo: &RepoName,
        ids: &[ToolsetId],
    ) -> StoreResult<Vec<Option<Toolset>>> {
        let found = self.store.toolsets(&self.repo(repo), ids).await?;
        let found = found.into_iter().map(|set| self.toolset(set?)).collect();
        Ok(self.answers(ids, found))
    }

    async fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        let limit = if self.has(Fault::IgnoresLimit) { limit + 1 } else { limit };
        let digits = prefix.as_str().get(..16).filter(|_| self.has(Fault::CutsPrefixes));
        let cut = digits.and_then(IdPrefix::new);
        let prefix = cut.as_ref().unwrap_or(prefix);
        let mut found = self.store.resolve_prefix(&self.repo(repo), prefix, limit).await?;
        if self.has(Fault::FindsBlobsOnly) {
            found.retain(|object| matches!(object, ObjectId::Blob(_)));
        }
        Ok(found)
    }
}

#[async_trait]
impl CommitRepository for FaultyStore {
    async fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        let found = self.store.commits(&self.repo(repo), ids).await?;
        let found = found.into_iter().map(|commit| commit.map(|commit| self.commit(commit)));
        Ok(self.answers(ids, found.collect()))
    }

    async fn walk(&self, repo: &RepoName, mut walk: Walk) -> StoreResult<WalkPage> {
        if self.has(Fault::IgnoresUntil) {
            walk.until = None;
        }
        if self.has(Fault::IgnoresRows) {
            walk.stop_at = None;
        }
        let repo = self.repo(repo);
        let mut page = match self.store.walk(&repo, walk).await {
            Err(error)
                if self.has(Fault::EmptyForUnknown)
                    && matches!(error.kind, StoreErrorKind::Missing { .. }) =>
            {
                WalkPage::default()
            }
            page => page?,
        };
        match self.fault {
            Fault::LosesPages => page.next = None,
            Fault::SkipsCommits if page.steps.len() > 2 => drop(page.steps.remove(2)),
            Fault::WalksPastTheRoot if page.next.is_none() && page.stopped.is_none() => {
                page.next = page.steps.last().map(|step| step.commit.id());
            }
            Fault::SkipsAtPages => {
                if let Some(next) = page.next {
                    page.next = self.store.require_commit(&repo, next).await?.parent();
                }
            }
            Fault::WalksShort if page.steps.len() > 1000 => {
                page.steps.truncate(1000);
                page.next = None;
            }
            Fault::TrustsHints => {
                page.steps.iter_mut().for_each(|step| step.content = Some(NOWHERE));
            }
            Fault::OrdersByTime => {
                page.steps.sort_by_key(|step| std::cmp::Reverse(step.commit.created_at));
            }
            _ => {}
        }
        Ok(page)
    }
}

#[async_trait]
impl ToolRepository for FaultyStore {
    async fn tools(
        &self,
        repo: &RepoName,
        ids: &[ToolId],
    ) -> StoreResult<Vec<Option<ToolDefinition>>> {
        let mut found = self.store.tools(&self.repo(repo), ids).await?;
        if self.has(Fault::ForgetsTimes) {
            found.iter_mut().flatten().for_each(|tool| tool.created_at = 0);
        }
        Ok(self.answers(ids, found))
    }

    async fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        if self.has(Fault::CutsNames) && name.len() > 63 {
            return Ok(Vec::new());
        }
        let mut found = self.store.tools_by_name(&self.repo(repo), name).await?;
        match self.fault {
            Fault::RepeatsDefinitions => found.extend(found.clone()),
            Fault::ReversesVersions => found.reverse(),
            Fault::KeepsOneSpelling => found.iter_mut().for_each(|tool| tool.schemas.truncate(1)),
            _ => {}
        }
        Ok(found)
    }

    async fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        let mut names = self.store.tool_names(&self.repo(repo)).await?;
        if self.has(Fault::ListsUnsorted) {
            names.reverse();
        }
        Ok(names)
    }

    async fn tool_ids_of(&self, repo: &RepoName, commit: CommitId) -> StoreResult<Vec<ToolId>> {
        Ok(self.entries(repo, commit).await?.iter().map(|entry| entry.tool).collect())
    }

    async fn tools_of(&self, repo: &RepoName, commit: CommitId) -> StoreResult<Vec<Blob>> {
        let entries = self.entries(repo, commit).await?;
        let keys: Vec<BlobKey> = entries.iter().map(|entry| entry.schema.into()).collect();
        let found = self.blobs(repo, &keys).await?;
        let missing = |key: &BlobKey| self.missing(ObjectId::Blob(key.id));
        keys.iter().zip(found).map(|(key, blob)| blob.ok_or_else(|| missing(key))).collect()
    }
}

#[async_trait]
impl RefRepository for FaultyStore {
    async fn refs(
        &self,
        repo: &RepoName,
        names: &[RefName],
    ) -> StoreResult<Vec<Option<RefTarget>>> {
        let repo = self.repo(repo);
        let mut found = self.store.refs(&repo, names).await?;
        if self.has(Fault::FollowsRefs) {
            for target in &mut found {
                if let Some(RefTarget::Ref(name)) = target {
                    *target = self.store.refs(&repo, std::slice::from_ref(name)).await?.remove(0);
                }
            }
        }
        if self.has(Fault::LosesDocuments) {
            let is_document = |target: &RefTarget| target.blob().is_some();
            for target in found.iter_mut().filter(|one| one.as_ref().is_some_and(is_document)) {
                *target = None;
            }
        }
        Ok(self.answers(names, found))
    }

    async fn list_refs(
        &self,
        repo: &RepoName,
        prefix: &str,
    ) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let mut refs = self.store.list_refs(&self.repo(repo), prefix).await?;
        if self.has(Fault::ListsUnsorted) {
            refs.reverse();
        }
        Ok(refs)
    }

    async fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        let all = LogQuery::default();
        let query = if self.has(Fault::IgnoresQueries) { &all } else { query };
        let mut entries = self.store.ref_log(&self.repo(repo), query).await?;
        match self.fault {
            Fault::LogsBackwards => entries.reverse(),
            Fault::CutsLog => {
                let newest = LogQuery { limit: 1, ..LogQuery::default() };
                let newest = self.store.ref_log(&self.repo(repo), &newest).await?;
                let newest = newest.first().map_or(0, |entry| entry.seq);
                entries.retain(|entry| entry.seq + 1000 > newest);
            }
            Fault::ForgetsBefore => entries.iter_mut().for_each(|entry| entry.before = None),
            Fault::CutsSweptLog => {
                let mut kept = Vec::new();
                for entry in entries {
                    if self.are_stored(&self.repo(repo), &entry).await? {
                        kept.push(entry);
                    }
                }
                entries = kept;
            }
            Fault::ForgetsReasons => entries.iter_mut().for_each(|entry| entry.note.why = None),
            _ => {}
        }
        Ok(entries)
    }
}

#[async_trait]
impl DerivedRepository for FaultyStore {
    async fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let repo = self.repo(repo);
        let mut found = self.store.derived(&repo, kind, commits).await?;
        if self.has(Fault::MixesKinds) {
            for kind in DerivedKind::ALL {
                let others = self.store.derived(&repo, kind, commits).await?;
                for (row, other) in found.iter_mut().zip(others) {
                    *row = row.take().or(other);
                }
            }
        }
        Ok(self.answers(commits, found))
    }

    async fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        match self.fault {
            Fault::KeepsDerived => Ok(()),
            _ => self.store.drop_derived(&self.repo(repo)).await,
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn backend(&self) -> &'static str {
        "faulty"
    }

    fn capabilities(&self) -> Capabilities {
        let mut claims = self.store.capabilities();
        if self.has(Fault::Overclaims) {
            (claims.durable, claims.persistent, claims.multi_process) = (true, true, true);
        }
        claims
    }

    async fn apply(&self, repo: &RepoName, mut batch: Batch) -> StoreResult<Applied> {
        let repo = self.repo(repo);
        if let Some(answer) = self.instead(&repo, &mut batch).await? {
            return Ok(answer);
        }
        self.erase_badly(&repo, &mut batch).await?;
        let merges = batch.commits.iter().any(|commit| commit.parents.len() > 1);
        match self.answer_badly(self.store.apply(&repo, batch).await) {
            Err(error)
                if self.has(Fault::ForgetsOtherParents)
                    && merges
                    && matches!(error.kind, StoreErrorKind::Missing { .. }) =>
            {
                Ok(Applied::Done)
            }
            Err(error)
                if self.has(Fault::AcknowledgesMissing)
                    && matches!(error.kind, StoreErrorKind::Missing { .. }) =>
            {
                Ok(Applied::Done)
            }
            Ok(Applied::Conflict(conflict)) if self.has(Fault::ForgetsFound) => {
                Ok(Applied::Conflict(Conflict { found: None, ..conflict }))
            }
            answer => answer,
        }
    }

    async fn repos(&self) -> StoreResult<Vec<RepoName>> {
        let mut repos = self.store.repos().await?;
        if self.has(Fault::ListsUnsorted) {
            repos.reverse();
        }
        Ok(repos)
    }

    async fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        let mut stats = self.store.stats(&self.repo(repo)).await?;
        if self.has(Fault::Miscounts) {
            stats.blobs += 1;
        }
        Ok(stats)
    }

    async fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        let mut damage = self.store.check(&self.repo(repo), repair).await?;
        if self.has(Fault::CriesWolf) {
            damage.push(Damage { object: None, what: "a wolf".to_owned(), derived: false });
        }
        Ok(damage)
    }

    async fn list_objects(
        &self,
        repo: &RepoName,
        listing: ObjectListing,
    ) -> StoreResult<ObjectPage> {
        let mut page = self.store.list_objects(&self.repo(repo), listing).await?;
        if self.has(Fault::ListsFew) && page.next.is_none() {
            page.objects.pop();
        }
        Ok(page)
    }

    async fn write_position(&self, repo: &RepoName) -> StoreResult<WritePosition> {
        let mut position = self.store.write_position(&self.repo(repo)).await?;
        if self.has(Fault::CountsRefsOnly) {
            position.unlogged = 0;
        }
        Ok(position)
    }

    async fn sweep(&self, repo: &RepoName, sweep: Sweep) -> StoreResult<SweepAnswer> {
        self.sweep_badly(&self.repo(repo), sweep).await
    }

    async fn release_space(&self) -> StoreResult<SpaceRelease> {
        self.store.release_space().await
    }

    async fn wipe(&self) -> StoreResult<WipeReport> {
        self.store.wipe().await
    }

    async fn repack(&self, repo: &RepoName, step: RepackStep) -> StoreResult<RepackPage> {
        self.store.repack(&self.repo(repo), step).await
    }

    async fn close(&self) -> StoreResult<()> {
        match self.fault {
            Fault::StaysOpen => Ok(()),
            _ => self.store.close().await,
        }
    }
}
