//! Applies the faults: changes calls before they reach the store, and answers after it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tract_core::store::{Capabilities, Damage, LocationHint, LogQuery, Walk, WalkPage};
use tract_core::{
    Applied, AuthorKind, Batch, BatchId, Blob, Commit, CommitId, CommitRecord, Conflict,
    DerivedKind, Expect, IdPrefix, ObjectId, Op, RefEdit, RefName, RefTarget, RepoName, Store,
    StoreError, StoreErrorKind, StoreExt, StoreResult, Toolset,
};

use super::Fault;
use super::sweeps::are_stored;
use crate::fixtures;
use crate::watched::{Answer, Call, Watch};

/// An invalid hint.
const NOWHERE: LocationHint = LocationHint(u64::MAX);

#[async_trait]
impl Watch for Fault {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let (default, whole_log) = (RepoName::default(), LogQuery::default());
        let beginning: Option<IdPrefix>;
        let call = match (self, call) {
            (_, Call::Apply { repo, batch }) => {
                return self.apply(store, repo, batch.clone()).await.map(Answer::from);
            }
            (_, Call::Sweep { repo, sweep }) => {
                return self.sweep_badly(store, repo, sweep.clone()).await.map(Answer::from);
            }
            (_, Call::Repack { repo, step }) => {
                return self.repack_badly(store, repo, step).await.map(Answer::from);
            }
            (_, Call::Restore { repo, copies }) => {
                return self.restore_badly(store, repo, copies).await.map(Answer::from);
            }
            (Self::MixesRepositories, Call::Commits { ids, .. }) => {
                Call::Commits { repo: &default, ids }
            }
            (Self::MixesRepositories, Call::ResolvePrefix { prefix, limit, .. }) => {
                Call::ResolvePrefix { repo: &default, prefix, limit }
            }
            (Self::IgnoresLimit, Call::ResolvePrefix { repo, prefix, limit }) => {
                Call::ResolvePrefix { repo, prefix, limit: limit + 1 }
            }
            (Self::CutsPrefixes, Call::ResolvePrefix { repo, prefix, limit }) => {
                beginning = prefix.as_str().get(..16).and_then(IdPrefix::new);
                Call::ResolvePrefix { repo, prefix: beginning.as_ref().unwrap_or(prefix), limit }
            }
            (Self::IgnoresUntil, Call::Walk { repo, walk }) => {
                Call::Walk { repo, walk: Walk { until: None, ..walk } }
            }
            (Self::IgnoresRows, Call::Walk { repo, walk }) => {
                Call::Walk { repo, walk: Walk { stop_at: None, ..walk } }
            }
            (Self::IgnoresQueries, Call::RefLog { repo, .. }) => {
                Call::RefLog { repo, query: &whole_log }
            }
            (Self::CutsNames, Call::ToolsByName { name, .. }) if name.len() > 63 => {
                return Ok(Answer::ToolsByName(Vec::new()));
            }
            (Self::KeepsDerived, Call::DropDerived { .. }) | (Self::StaysOpen, Call::Close {}) => {
                return Ok(Answer::Done(()));
            }
            (_, call) => call,
        };
        let mut answer = match (self, call, call.ask(store).await) {
            (Self::EmptyForUnknown, Call::Walk { .. }, Err(error)) if is_missing(&error) => {
                Answer::Walk(WalkPage::default())
            }
            (.., answer) => answer?,
        };
        self.falsify(store, call, &mut answer).await?;
        Ok(answer)
    }

    fn capabilities(&self, store: &dyn Store) -> Capabilities {
        let mut claims = store.capabilities();
        if *self == Self::Overclaims {
            (claims.durable, claims.persistent, claims.multi_process) = (true, true, true);
        }
        claims
    }
}

fn is_missing(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::Missing { .. })
}

fn lose<T>(found: &mut [Option<T>], is_lost: impl Fn(&T) -> bool) {
    found.iter_mut().for_each(|one| drop(one.take_if(|one| is_lost(one))));
}

impl Fault {
    /// Changes the answer to a call.
    async fn falsify(
        self,
        store: &dyn Store,
        call: Call<'_>,
        answer: &mut Answer,
    ) -> StoreResult<()> {
        match (self, call, answer) {
            (Self::DropsAbsent, _, Answer::Blobs(found)) => found.retain(Option::is_some),
            (Self::DropsAbsent, _, Answer::Toolsets(found)) => found.retain(Option::is_some),
            (Self::DropsAbsent, _, Answer::Commits(found)) => found.retain(Option::is_some),
            (Self::DropsAbsent, _, Answer::Tools(found)) => found.retain(Option::is_some),
            (Self::DropsAbsent, _, Answer::Refs(found)) => found.retain(Option::is_some),
            (Self::DropsAbsent, _, Answer::Derived(found)) => found.retain(Option::is_some),
            (Self::AnswersFew, _, Answer::Blobs(found)) => found.truncate(1000),
            (Self::AnswersFew, _, Answer::Commits(found)) => found.truncate(1000),
            (Self::AnswersOnce, Call::Blobs { keys, .. }, Answer::Blobs(found)) => {
                let mut remaining = keys.iter().enumerate();
                found.retain(|_| remaining.next().is_none_or(|(n, key)| !keys[..n].contains(key)));
            }
            (Self::LosesEmptyBlobs, _, Answer::Blobs(found)) => {
                lose(found, |blob| blob.bytes().is_empty());
            }
            (Self::LosesLargeBlobs, _, Answer::Blobs(found)) => {
                lose(found, |blob| blob.bytes().len() > 1 << 20);
            }
            (Self::EndsAtZero, _, Answer::Blobs(found)) => {
                for blob in found.iter_mut().flatten() {
                    if let Some(at) = blob.bytes().iter().position(|byte| *byte == 0) {
                        *blob = Blob::seal(blob.bytes().slice(..at));
                    }
                }
            }
            (Self::TrustsHints, Call::Blobs { keys, .. }, Answer::Blobs(found)) => {
                for (key, blob) in keys.iter().zip(found) {
                    blob.take_if(|_| key.hint == Some(NOWHERE));
                }
            }
            (Self::SortsToolsets | Self::LosesTools, _, Answer::Toolsets(found)) => {
                for set in found.iter_mut().flatten() {
                    let mut entries = set.entries().to_vec();
                    if self == Self::LosesTools {
                        entries.pop();
                    } else {
                        entries.sort_by_key(|entry| entry.tool);
                        entries.dedup();
                    }
                    *set = Toolset::seal(entries);
                }
            }
            (Self::LosesEmptyToolsets, _, Answer::Toolsets(found)) => {
                lose(found, |set| set.entries().is_empty());
            }
            (Self::FindsBlobsOnly, _, Answer::Objects(found)) => {
                found.retain(|object| matches!(object, ObjectId::Blob(_)));
            }
            (Self::ForgetsMetadata | Self::ForgetsParents, _, Answer::Commits(found)) => {
                for commit in found.iter_mut().flatten() {
                    let mut record = commit.record().clone();
                    match self {
                        Self::ForgetsMetadata => record.metadata = None,
                        _ => record.parents.truncate(1),
                    }
                    *commit = fixtures::seal(record);
                }
            }
            (Self::EmptyForUnknown, _, Answer::Commits(found)) => {
                let empty = fixtures::seal(CommitRecord::new(Op::Note, AuthorKind::User));
                found.iter_mut().for_each(|one| *one = one.take().or_else(|| Some(empty.clone())));
            }
            (Self::LosesPages, _, Answer::Walk(page)) => page.next = None,
            (Self::SkipsCommits, _, Answer::Walk(page)) if page.entries.len() > 2 => {
                page.entries.remove(2);
            }
            (Self::WalksPastTheRoot, _, Answer::Walk(page)) if page.stopped.is_none() => {
                page.next = page.next.or(page.entries.last().map(|entry| entry.commit.id()));
            }
            (Self::SkipsAtPages, Call::Walk { repo, .. }, Answer::Walk(page)) => {
                if let Some(next) = page.next {
                    page.next = store.require_commit(repo, next).await?.parent();
                }
            }
            (Self::WalksShort, _, Answer::Walk(page)) if page.entries.len() > 1000 => {
                page.entries.truncate(1000);
                page.next = None;
            }
            (Self::TrustsHints, _, Answer::Walk(page)) => {
                page.entries.iter_mut().for_each(|entry| entry.content = Some(NOWHERE));
            }
            (Self::OrdersByTime, _, Answer::Walk(page)) => {
                page.entries.sort_by_key(|entry| std::cmp::Reverse(entry.commit.created_at));
            }
            (Self::ForgetsTimes, _, Answer::Tools(found)) => {
                found.iter_mut().flatten().for_each(|tool| tool.created_at = 0);
            }
            (Self::RepeatsDefinitions, _, Answer::ToolsByName(found)) => {
                found.extend(found.clone());
            }
            (Self::ReversesVersions, _, Answer::ToolsByName(found)) => found.reverse(),
            (Self::KeepsOneSpelling, _, Answer::ToolsByName(found)) => {
                found.iter_mut().for_each(|tool| tool.schemas.truncate(1));
            }
            (Self::ListsUnsorted, _, Answer::ToolNames(names)) => names.reverse(),
            (Self::ListsUnsorted, _, Answer::ListRefs(refs)) => refs.reverse(),
            (Self::ListsUnsorted, _, Answer::Repos(repos)) => repos.reverse(),
            (Self::FollowsRefs, Call::Refs { repo, .. }, Answer::Refs(found)) => {
                for target in found {
                    if let Some(RefTarget::Ref(name)) = target {
                        *target = store.ref_target(repo, name).await?;
                    }
                }
            }
            (Self::LosesDocuments, _, Answer::Refs(found)) => {
                lose(found, |target| target.blob().is_some());
            }
            (Self::LogsBackwards, _, Answer::RefLog(entries)) => entries.reverse(),
            (Self::CutsLog, Call::RefLog { repo, .. }, Answer::RefLog(entries)) => {
                let newest = LogQuery { limit: 1, ..LogQuery::default() };
                let newest = store.ref_log(repo, &newest).await?;
                let newest = newest.first().map_or(0, |entry| entry.seq);
                entries.retain(|entry| entry.seq + 1000 > newest);
            }
            (Self::ForgetsBefore, _, Answer::RefLog(entries)) => {
                entries.iter_mut().for_each(|entry| entry.before = None);
            }
            (Self::CutsSweptLog, Call::RefLog { repo, .. }, Answer::RefLog(entries)) => {
                for entry in std::mem::take(entries) {
                    if are_stored(store, repo, &entry).await? {
                        entries.push(entry);
                    }
                }
            }
            (Self::ForgetsReasons, _, Answer::RefLog(entries)) => {
                entries.iter_mut().for_each(|entry| entry.note.why = None);
            }
            (Self::MixesKinds, Call::Derived { repo, commits, .. }, Answer::Derived(found)) => {
                for kind in DerivedKind::ALL {
                    let others = store.derived(repo, kind, commits).await?;
                    for (row, other) in found.iter_mut().zip(others) {
                        *row = row.take().or(other);
                    }
                }
            }
            (Self::Miscounts, _, Answer::Stats(stats)) => stats.blobs += 1,
            (Self::CriesWolf, _, Answer::Check(damage)) => {
                damage.push(Damage { object: None, what: "a wolf".to_owned(), derived: false });
            }
            (Self::ChecksNothing, _, Answer::Check(damage)) => damage.clear(),
            (Self::ListsFew, _, Answer::Listed(page)) if page.next.is_none() => {
                page.objects.pop();
            }
            (Self::CountsRefsOnly, _, Answer::Position(position)) => position.unlogged = 0,
            _ => {}
        }
        Ok(())
    }

    /// Writes a batch, with the fault.
    async fn apply(
        self,
        store: &dyn Store,
        repo: &RepoName,
        mut batch: Batch,
    ) -> StoreResult<Applied> {
        if let Some(answer) = self.instead(store, repo, &mut batch).await? {
            return Ok(answer);
        }
        self.erase_badly(store, repo, &mut batch).await?;
        let merges = batch.commits.iter().any(|commit| commit.parents.len() > 1);
        match (self, store.apply(repo, batch).await) {
            (Self::ForgetsOtherParents, Err(error)) if merges && is_missing(&error) => {
                Ok(Applied::Done)
            }
            (Self::AcknowledgesMissing, Err(error)) if is_missing(&error) => Ok(Applied::Done),
            (Self::TakesErased, Err(error))
                if matches!(error.kind, StoreErrorKind::Erased { .. }) =>
            {
                Ok(Applied::Done)
            }
            (Self::ForgetsFound, Ok(Applied::Conflict(conflict))) => {
                Ok(Applied::Conflict(Conflict { found: None, ..conflict }))
            }
            (_, answer) => answer,
        }
    }

    /// Changes a batch before it reaches the store: returns an answer in its place, or another
    /// batch.
    async fn instead(
        self,
        store: &dyn Store,
        repo: &RepoName,
        batch: &mut Batch,
    ) -> StoreResult<Option<Applied>> {
        let missing = |object| Err(StoreError::missing("faulty", "apply", object));
        let refused = "it does not want to";
        let refuse = || Err(StoreError::new(StoreErrorKind::Invalid, "faulty", "apply", refused));
        match self {
            Self::IgnoresExpectations => {
                batch.refs.iter_mut().for_each(|edit| edit.expect = Expect::Any);
            }
            Self::ForgetsBatches => batch.id = BatchId::random()?,
            Self::IgnoresPositions => batch.position = None,
            Self::IgnoresLinks => batch.requires.clear(),
            Self::LosesWrites if batch.refs.is_empty() => drop(batch.blobs.pop()),
            Self::KeepsOldRows => {
                for row in std::mem::take(&mut batch.derived) {
                    let known = store.derived(repo, row.kind, &[row.commit]).await?;
                    if known.iter().all(Option::is_none) {
                        batch.derived.push(row);
                    }
                }
            }
            Self::AppliesHalf => {
                let half = Batch { refs: Vec::new(), requires: Vec::new(), ..batch.clone() };
                let _ = store.apply(repo, half).await;
            }
            Self::KeepsRefs => batch.refs.retain(|edit| edit.to.is_some()),
            Self::TakesTwoEdits => {
                let last: BTreeMap<RefName, RefEdit> =
                    batch.refs.drain(..).map(|edit| (edit.name.clone(), edit)).collect();
                batch.refs = last.into_values().collect();
            }
            Self::LeavesOutBadTargets => batch.refs.retain(|edit| edit.check().is_ok()),
            Self::LogsEverything if batch.refs.is_empty() => {
                let to = Some(RefTarget::Ref(fixtures::branch("nowhere")));
                batch.refs.push(RefEdit { name: RefName::head(), expect: Expect::Any, to });
            }
            Self::RefusesKnown => {
                let ids: Vec<CommitId> = batch.commits.iter().map(Commit::id).collect();
                if store.commits(repo, &ids).await?.iter().any(Option::is_some) {
                    return refuse();
                }
            }
            Self::RefusesEmpty => {
                let Batch { blobs, toolsets, commits, refs, .. } = &*batch;
                if blobs.is_empty() && toolsets.is_empty() && commits.is_empty() && refs.is_empty()
                {
                    return refuse();
                }
            }
            Self::RequiresStored => {
                if let Some(object) = unknown(store, repo, &batch.requires).await? {
                    return missing(object);
                }
            }
            Self::ComparesTooMuch => {
                for RefEdit { name, expect, .. } in &batch.refs {
                    let found = store.ref_target(repo, name).await?;
                    if !expect.holds(found.as_ref()) {
                        let (name, expected) = (name.clone(), expect.clone());
                        return Ok(Some(Applied::Conflict(Conflict { name, expected, found })));
                    }
                }
            }
            Self::MissesFirst => {
                let parents = batch.commits.iter().flat_map(|commit| commit.parents.clone());
                let before = parents.filter(|id| batch.commits.iter().all(|one| one.id() != *id));
                let before: Vec<ObjectId> = before.map(ObjectId::Commit).collect();
                if let Some(object) = unknown(store, repo, &before).await? {
                    return missing(object);
                }
            }
            Self::ShowsHalf => show_half(store, repo, batch).await?,
            // Batch times differ by one tick, so this hits about every seventh batch.
            Self::LosesMoves if !batch.refs.is_empty() && batch.note.at % 7 == 6 => {
                return Ok(Some(Applied::Done));
            }
            Self::ConflictsFalsely if batch.note.at % 7 == 6 => {
                return Ok(batch.refs.first().cloned().map(|RefEdit { name, expect, .. }| {
                    Applied::Conflict(Conflict { name, expected: expect, found: None })
                }));
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Writes the first commit of a batch before the others, so that readers see half of it.
async fn show_half(store: &dyn Store, repo: &RepoName, batch: &mut Batch) -> StoreResult<()> {
    if let ([first, _, ..], [edit]) = (&batch.commits[..], &mut batch.refs[..]) {
        let to = RefTarget::Commit(first.id());
        let half = Batch {
            blobs: batch.blobs.clone(),
            commits: vec![first.clone()],
            refs: vec![RefEdit { to: Some(to.clone()), ..edit.clone() }],
            ..fixtures::batch("half")
        };
        if store.apply(repo, half).await? == Applied::Done {
            edit.expect = Expect::Is(to);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

/// Returns the first of these objects that is not stored.
async fn unknown(
    store: &dyn Store,
    repo: &RepoName,
    objects: &[ObjectId],
) -> StoreResult<Option<ObjectId>> {
    for object in objects {
        let batch = Batch { requires: vec![*object], ..fixtures::batch("look") };
        match store.apply(repo, batch).await {
            Err(error) if is_missing(&error) => return Ok(Some(*object)),
            answer => drop(answer?),
        }
    }
    Ok(None)
}
