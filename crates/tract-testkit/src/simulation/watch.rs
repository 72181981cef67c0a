//! The store of a schedule: every call is a point where another client may run, and every write is
//! checked.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tract_core::store::SweepAnswer;
use tract_core::{
    Applied, Batch, Commit, CommitId, ObjectId, RefName, RefTarget, RepoName, Store,
    StoreErrorKind, StoreExt, StoreResult, block_on,
};

use super::erased::row_has;
use super::executor::Scheduler;
use super::verb::Verb;
use super::world::StoredWord;
use crate::watched::{Answer, Call, Watch};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The invariant.
    pub invariant: Invariant,
    /// The description of the finding.
    pub text: String,
}

/// The invariants that hold after every step, for every client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    /// Every object that a ref reaches is stored and matches its hash, unless it was erased.
    Reachable,
    /// An acknowledged write is in the history of its branch, unless a verb that removes commits
    /// had seen it and removed it.
    Acknowledged,
    /// Erased bytes are not in any object, derived row or entry of the ref log.
    Erased,
    /// `verify` reports nothing.
    Verify,
    /// A verb succeeds, or its error is accurate.
    Accurate,
    /// A verb that failed because of contention succeeds when it is alone.
    Retry,
    /// `search`, `turns` and `grep` return the results of a scan.
    Scan,
    /// The checks of the caller's own verbs.
    Own,
    /// No verb panics.
    Panic,
}

/// The state of the checks of one store.
#[derive(Debug, Default)]
struct Known {
    commits: HashMap<CommitId, Commit>,
    /// Commits that are stored with all objects that they link to.
    whole: HashSet<CommitId>,
    /// Commits that a batch wrote.
    written: HashSet<CommitId>,
    /// Commits that a ref has pointed to at any time.
    reached: HashSet<CommitId>,
    /// Values of branches that a client has read or written.
    seen: HashSet<(usize, RefName, Option<RefTarget>)>,
}

/// Watches one store of a schedule.
pub(super) struct Watcher {
    scheduler: Arc<Scheduler>,
    /// The verb of each client.
    verbs: Arc<Mutex<Vec<Verb>>>,
    findings: Arc<Mutex<Vec<Finding>>>,
    number: usize,
    /// Words whose erasure was acknowledged, so that no row with one of them may be stored; `None`
    /// if a text can be stored a second time.
    pub(super) gone: Option<Arc<Mutex<Vec<StoredWord>>>>,
    known: Mutex<Known>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher {
    pub(super) fn new(
        scheduler: &Arc<Scheduler>,
        verbs: &Arc<Mutex<Vec<Verb>>>,
        findings: &Arc<Mutex<Vec<Finding>>>,
        number: usize,
    ) -> Self {
        Self {
            scheduler: Arc::clone(scheduler),
            verbs: Arc::clone(verbs),
            findings: Arc::clone(findings),
            number,
            gone: None,
            known: Mutex::default(),
        }
    }

    fn report(&self, invariant: Invariant, text: String) {
        let text = format!("store {}: {text}", self.number);
        lock(&self.findings).push(Finding { invariant, text });
    }

    /// Returns whether a ref has ever pointed to a commit.
    pub(super) fn has_reached(&self, commit: CommitId) -> bool {
        lock(&self.known).reached.contains(&commit)
    }

    /// Returns all commits that a ref has ever pointed to.
    pub(super) fn reached(&self) -> Vec<CommitId> {
        let mut reached: Vec<CommitId> = lock(&self.known).reached.iter().copied().collect();
        reached.sort_unstable();
        reached
    }

    fn answered(
        &self,
        store: &dyn Store,
        client: usize,
        call: &Call<'_>,
        before: &[Option<RefTarget>],
        answer: &StoreResult<Answer>,
    ) {
        let mut known = lock(&self.known);
        let mut saw = |name: &RefName, at: Option<&RefTarget>| {
            if name.branch_name().is_some() {
                known.seen.insert((client, name.clone(), at.cloned()));
            }
        };
        match (call, answer) {
            (Call::Refs { names, .. }, Ok(Answer::Refs(targets))) => {
                names.iter().zip(targets).for_each(|(name, at)| saw(name, at.as_ref()));
            }
            (Call::ListRefs { .. }, Ok(Answer::ListRefs(refs))) => {
                refs.iter().for_each(|(name, at)| saw(name, Some(at)));
            }
            (Call::Apply { .. }, Ok(Answer::Applied(Applied::Conflict(conflict)))) => {
                saw(&conflict.name, conflict.found.as_ref());
            }
            (Call::Apply { repo, batch }, Ok(Answer::Applied(Applied::Done))) => {
                drop(known);
                self.applied(store, client, repo, batch, before);
            }
            (Call::Sweep { repo, .. }, Ok(Answer::Swept(SweepAnswer::Done)))
            | (Call::Repack { repo, .. }, Ok(_)) => {
                known.whole.clear();
                drop(known);
                self.check_all(store, repo);
            }
            _ => {}
        }
    }

    fn applied(
        &self,
        store: &dyn Store,
        client: usize,
        repo: &RepoName,
        batch: &Batch,
        before: &[Option<RefTarget>],
    ) {
        for StoredWord { store, word } in self.gone.iter().flat_map(|gone| lock(gone).clone()) {
            if store == self.number && batch.derived.iter().any(|row| row_has(&row.bytes, &word)) {
                self.report(Invariant::Erased, format!("a row with {word:?} was stored"));
            }
        }
        let mut known = lock(&self.known);
        known.written.extend(batch.commits.iter().map(Commit::id));
        let verb = lock(&self.verbs).get(client).copied();
        for (edit, before) in batch.refs.iter().zip(before) {
            if edit.name.branch_name().is_some() {
                let seen = (client, edit.name.clone(), before.clone());
                if *before != edit.to && before.is_some() && !known.seen.contains(&seen) {
                    let text = format!("{} was moved from a value that was not read", edit.name);
                    self.report(Invariant::Acknowledged, text);
                }
                // A store also reports success for a ref that already has its target. The client
                // then knows this value as if it had read it.
                known.seen.insert((client, edit.name.clone(), edit.to.clone()));
            }
            if *before == edit.to {
                continue;
            }
            if let Some(target) = &edit.to
                && let Err(text) = known.complete(store, repo, std::slice::from_ref(target))
            {
                self.report(Invariant::Reachable, format!("{}: {text}", edit.name));
            }
            let forward = match (before, &edit.to) {
                (Some(RefTarget::Commit(old)), Some(RefTarget::Commit(new))) => {
                    known.leads_to(*new, *old)
                }
                (Some(RefTarget::Commit(_)), _) => edit.name.branch_name().is_none(),
                _ => true,
            };
            if edit.name.branch_name().is_some()
                && !forward
                && !verb.is_some_and(|verb| verb.removes_commits())
            {
                let text = format!("{verb:?} moved {} away from its history", edit.name);
                self.report(Invariant::Acknowledged, text);
            }
            if let Some(erased) = edit.name.as_str().strip_prefix("erasures/")
                && edit.to.is_some()
                && let Ok(id) = erased.parse()
                && !matches!(block_on(store.blob(repo, id)), Ok(None))
            {
                self.report(
                    Invariant::Erased,
                    format!("blob {erased} is stored after its erasure"),
                );
            }
        }
    }

    /// Checks that each commit is stored with all objects that it links to, even if it is
    /// unreachable: a writer that finds the commit stored assumes that its objects are stored, too.
    pub(super) fn check_links(&self, store: &dyn Store, repo: &RepoName) {
        let mut written: Vec<CommitId> = lock(&self.known).written.iter().copied().collect();
        written.sort_unstable();
        let stored = match block_on(store.commits(repo, &written)) {
            Ok(stored) => stored,
            Err(error) => return self.report(Invariant::Reachable, error.to_string()),
        };
        let mut known = Known::default();
        for commit in stored.into_iter().flatten() {
            let target = RefTarget::Commit(commit.id());
            if let Err(text) = known.complete(store, repo, &[target]) {
                let id = commit.id();
                self.report(Invariant::Reachable, format!("commit {id} is stored, but {text}"));
            }
        }
    }

    /// Checks all objects that are reachable from refs.
    pub(super) fn check_all(&self, store: &dyn Store, repo: &RepoName) {
        let refs = match block_on(store.list_refs(repo, "")) {
            Ok(refs) => refs,
            Err(error) => return self.report(Invariant::Reachable, error.to_string()),
        };
        let mut known = lock(&self.known);
        for (name, target) in refs {
            if let Err(text) = known.complete(store, repo, &[target]) {
                self.report(Invariant::Reachable, format!("{name}: {text}"));
            }
        }
    }
}

impl Known {
    /// Checks that targets are stored with all objects that they reach.
    fn complete(
        &mut self,
        store: &dyn Store,
        repo: &RepoName,
        targets: &[RefTarget],
    ) -> Result<(), String> {
        let mut next: Vec<CommitId> = targets.iter().filter_map(RefTarget::commit).collect();
        let mut blobs: Vec<_> = targets.iter().filter_map(RefTarget::blob).collect();
        let mut toolsets = Vec::new();
        let mut found = HashSet::new();
        loop {
            next.retain(|id| !self.whole.contains(id) && found.insert(*id));
            if next.is_empty() {
                break;
            }
            let commits =
                block_on(store.commits(repo, &next)).map_err(|error| error.to_string())?;
            let mut parents = Vec::new();
            for (id, commit) in next.iter().zip(commits) {
                let commit = commit.ok_or_else(|| format!("commit {id} is not stored"))?;
                if commit.id() != *id {
                    return Err(format!("commit {id} reads as {}", commit.id()));
                }
                for link in commit.links() {
                    match link {
                        ObjectId::Commit(id) => parents.push(id),
                        ObjectId::Blob(id) => blobs.push(id),
                        ObjectId::Toolset(id) => toolsets.push(id),
                        ObjectId::Tool(_) => {}
                    }
                }
                self.commits.insert(*id, commit);
            }
            next = parents;
        }
        if !toolsets.is_empty() {
            toolsets.sort_unstable();
            toolsets.dedup();
            let read = block_on(store.toolsets(repo, &toolsets));
            for (id, toolset) in toolsets.iter().zip(read.map_err(|error| error.to_string())?) {
                let toolset = toolset.ok_or_else(|| format!("toolset {id} is not stored"))?;
                if toolset.id() != *id {
                    return Err(format!("toolset {id} reads as {}", toolset.id()));
                }
                blobs.extend(toolset.entries().iter().map(|entry| entry.schema));
            }
        }
        blobs.sort_unstable();
        blobs.dedup();
        if !blobs.is_empty() {
            let keys: Vec<_> = blobs.iter().map(|id| (*id).into()).collect();
            let read = block_on(store.blobs(repo, &keys)).map_err(|error| error.to_string())?;
            for (id, blob) in blobs.iter().zip(read) {
                if blob.as_ref().is_some_and(|blob| blob.id() != *id) {
                    return Err(format!("blob {id} reads as another one"));
                }
                let erasure = || RefName::new(format!("erasures/{id}"));
                if blob.is_none()
                    && !erasure().is_ok_and(|name| {
                        matches!(block_on(store.ref_target(repo, &name)), Ok(Some(_)))
                    })
                {
                    return Err(format!("blob {id} is not stored"));
                }
            }
        }
        self.whole.extend(&found);
        self.reached.extend(found);
        Ok(())
    }

    /// Returns whether a commit has another one in its history.
    fn leads_to(&self, from: CommitId, to: CommitId) -> bool {
        let (mut next, mut seen) = (vec![from], HashSet::new());
        while let Some(id) = next.pop() {
            if id == to {
                return true;
            }
            if seen.insert(id)
                && let Some(commit) = self.commits.get(&id)
            {
                next.extend(&commit.parents);
            }
        }
        false
    }
}

#[async_trait]
impl Watch for Watcher {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let describe = |call: Call<'_>| match call {
            Call::Apply { batch, .. } => {
                let names = batch.refs.iter().map(|edit| edit.name.as_str());
                let moves = names.collect::<Vec<_>>().join(" ");
                format!("{} {} {moves}", call.name(), batch.note.what)
            }
            call => call.name().to_owned(),
        };
        let number = self.number;
        self.scheduler.turn(|| format!("store {number} {}", describe(call))).await;
        let Some(client) = self.scheduler.running() else { return call.ask(store).await };
        let before = match call {
            Call::Apply { repo, batch } if !batch.refs.is_empty() => {
                let names: Vec<RefName> = batch.refs.iter().map(|edit| edit.name.clone()).collect();
                block_on(store.refs(repo, &names))?
            }
            _ => Vec::new(),
        };
        // An engine may answer from its own threads. The other clients wait for the answer, so that
        // the order of calls depends only on the seed.
        let answer = block_on(call.ask(store));
        self.answered(store, client, &call, &before, &answer);
        if let Err(error) = &answer
            && matches!(error.kind, StoreErrorKind::Corrupt { .. })
        {
            self.report(Invariant::Reachable, error.to_string());
        }
        if matches!(call, Call::Apply { .. } | Call::Sweep { .. }) {
            // The client may die between the write and its acknowledgment.
            self.scheduler.turn(|| format!("store {number} answers {}", call.name())).await;
        }
        answer
    }
}
