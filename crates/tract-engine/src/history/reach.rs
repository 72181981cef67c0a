//! What is reachable from given commits: the links that closure, export and verify follow.

mod order;

use std::collections::HashMap;

use hashbrown::HashTable;
use tract_compile::IdSet;
use tract_core::store::{
    Damage, LocationHint, StoreError, StoreErrorKind, StoreResult, Walk, WalkEntry,
};
use tract_core::{
    Blob, BlobId, Change, Changes, Commit, CommitId, CommitRef, ObjectId, Op, RefName, RefTarget,
    RepoName, Store,
};

use crate::repo::Repo;
use crate::repo::error::Error;

/// Returns the other commits that a commit links to: its parents, then the versions and marks in
/// its changes, and what it reverts, without which a check that it reverts no more is impossible.
/// Anything else that looks like an id is a name.
pub(crate) fn links(commit: &Commit, changes: &[Change]) -> Vec<CommitId> {
    let mut found = commit.parents.clone();
    let mut seen: IdSet<CommitId> = found.iter().copied().collect();
    let mut link = |this: CommitRef| {
        if let CommitRef::Id(id) = this
            && seen.insert(id)
        {
            found.push(id);
        }
    };
    if let Op::Revert { targets, .. } = &commit.op {
        targets.iter().copied().map(CommitRef::Id).for_each(&mut link);
    }
    for change in changes {
        match change {
            Change::Add { row, .. } | Change::Remove { row, .. } => {
                link(row.version);
                row.mark.into_iter().for_each(&mut link);
            }
            Change::Version { from, to, .. } => [*from, *to].into_iter().for_each(&mut link),
            Change::Mark { from, to, .. } => {
                [*from, *to].into_iter().flatten().for_each(&mut link);
            }
        }
    }
    found
}

/// Returns the chosen refs, or all, sorted by name. Those [of this store
/// alone](RefName::is_local) are never among them: the url of a remote may have a password.
pub(crate) async fn chosen_refs(
    repo: &Repo,
    chosen: Option<&[RefName]>,
) -> Result<Vec<(RefName, RefTarget)>, Error> {
    let mut refs = repo.store().list_refs(repo.name(), "").await?;
    refs.retain(|(name, _)| !name.is_local());
    let Some(chosen) = chosen else { return Ok(refs) };
    refs.retain(|(name, _)| chosen.contains(name));
    let absent = chosen.iter().find(|name| refs.iter().all(|(found, _)| found != *name));
    let Some(absent) = absent else { return Ok(refs) };
    Err(match absent.branch_name() {
        Some(branch) => repo.unknown_branch(branch).await?,
        None => Error::UnknownRevision { text: absent.as_str().to_owned(), nearest: Vec::new() },
    })
}

/// Returns a commit's list of changes, wherever the record keeps it.
///
/// The inner error says what is wrong with the blob that should hold them.
pub(crate) async fn changes_of(
    store: &dyn Store,
    repo: &RepoName,
    commit: &Commit,
) -> StoreResult<Result<Vec<Change>, Damage>> {
    let id = match &commit.changes {
        Changes::List(list) => return Ok(Ok(list.clone())),
        Changes::Blob(id) => *id,
    };
    Ok(blob(store, repo, id).await?.and_then(|blob| {
        Changes::from_blob(blob.bytes()).map_err(|error| {
            let what = format!("as the changes of commit {}: {error}", commit.id());
            damage(ObjectId::Blob(id), what)
        })
    }))
}

/// Reads one blob; the inner error says that it is damaged or not there.
pub(crate) async fn blob(
    store: &dyn Store,
    repo: &RepoName,
    id: BlobId,
) -> StoreResult<Result<Blob, Damage>> {
    let read = store.blobs(repo, &[id.into()]).await;
    let other = |blob: &Blob| (blob.id() != id).then(|| format!("it reads as blob {}", blob.id()));
    one(ObjectId::Blob(id), read, other)
}

/// Takes an object that was read alone; the inner error says that it is damaged or not there, or
/// what it is instead.
pub(crate) fn one<T>(
    object: ObjectId,
    read: StoreResult<Vec<Option<T>>>,
    other: impl Fn(&T) -> Option<String>,
) -> StoreResult<Result<T, Damage>> {
    let found = match read {
        Ok(found) => found.into_iter().flatten().next(),
        Err(error) => return harm(object, error).map(Err),
    };
    let found = found.ok_or_else(|| damage(object, "it is referenced but not stored"));
    Ok(found.and_then(|found| match other(&found) {
        None => Ok(found),
        Some(what) => Err(damage(object, what)),
    }))
}

/// Reads objects together; where that fails each alone, and `failed` takes why one cannot be read.
pub(crate) async fn each<K: Clone, T, F: Future<Output = StoreResult<Vec<Option<T>>>>>(
    keys: &[K],
    read: impl Fn(Vec<K>) -> F,
    mut failed: impl FnMut(&K, StoreError) -> StoreResult<()>,
) -> StoreResult<Vec<Option<T>>> {
    if let Ok(found) = read(keys.to_vec()).await {
        return Ok(found);
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        found.push(match read(vec![key.clone()]).await {
            Ok(one) => one.into_iter().next().flatten(),
            Err(error) => failed(key, error).map(|()| None)?,
        });
    }
    Ok(found)
}

pub(crate) fn commit_id(object: ObjectId) -> Option<CommitId> {
    match object {
        ObjectId::Commit(id) => Some(id),
        ObjectId::Blob(_) | ObjectId::Toolset(_) | ObjectId::Tool(_) => None,
    }
}

/// Turns an error that speaks of one object into damage of that object; others stay errors.
pub(crate) fn harm(object: ObjectId, error: StoreError) -> StoreResult<Damage> {
    match error.kind {
        StoreErrorKind::Corrupt { .. } => Ok(damage(object, error.message)),
        StoreErrorKind::Missing { .. } => Ok(damage(object, "it is referenced but not stored")),
        _ => Err(error),
    }
}

pub(crate) fn damage(object: ObjectId, what: impl Into<String>) -> Damage {
    Damage { object: Some(object), what: what.into(), derived: false }
}

/// What is known of a commit that something links to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownCommit {
    /// Something links to it; it was not read yet.
    Name,
    Read,
    /// It could not be read.
    Lost,
}

/// The commits that can be reached, without their records: ids and links alone, by number. With
/// first parents only, it takes some 45 bytes for each.
#[derive(Debug, Default)]
pub(crate) struct CommitGraph {
    /// The numbers, by the ids that they have in `ids`.
    numbers: HashTable<u32>,
    ids: Vec<CommitId>,
    known: Vec<KnownCommit>,
    /// The first parent of each; `NONE` at a root.
    parents: Vec<u32>,
    /// What a commit links to after its first parent, for those that link to more.
    links: HashMap<u32, Vec<u32>>,
    /// Whether `links` stays empty.
    first_parents_only: bool,
    /// Where reading began, in that order.
    roots: Vec<u32>,
    /// What was found wrong on the way.
    pub(crate) damage: Vec<Damage>,
}

/// No commit's number.
const NONE: u32 = u32::MAX;

/// Commits asked for in one page of a walk: short for the many short forks, long for long lines.
const PAGES: [usize; 2] = [32, 4096];

/// How many commits are read before a page is given, if there are so many.
const FULL: usize = 1024;

pub(crate) use self::order::{BitSet, FoldOrder};

/// A commit as it is reached, for the first and only time.
#[derive(Debug)]
pub(crate) struct ReachedCommit {
    pub(crate) number: u32,
    pub(crate) commit: Commit,
    /// Where its content lies.
    pub(crate) content: Option<LocationHint>,
}

/// How far reading what a root leads to has come.
#[derive(Debug)]
pub(crate) struct Reading {
    open: Vec<CommitId>,
    next: Option<CommitId>,
    /// How many commits the next page asks for.
    limit: usize,
    /// How many commits are read singly before a page is asked for again.
    one_by_one: usize,
}

impl CommitGraph {
    /// Makes a graph that knows no links except those to first parents. It follows all the same.
    pub(crate) fn of_first_parents() -> Self {
        Self { first_parents_only: true, ..Self::default() }
    }

    /// Reads everything that commits lead to; refuses when something of it is damaged or missing.
    pub(crate) async fn of(
        repo: &Repo,
        commits: impl IntoIterator<Item = CommitId>,
    ) -> Result<Self, Error> {
        let mut reach = Self::default();
        for id in commits {
            reach.add(repo.store().as_ref(), repo.name(), id).await?;
        }
        reach.is_whole()?;
        Ok(reach)
    }

    /// Reads everything that `root` leads to and was not reached before.
    pub(crate) async fn add(
        &mut self,
        store: &dyn Store,
        repo: &RepoName,
        root: CommitId,
    ) -> StoreResult<()> {
        let mut reading = self.begin(root)?;
        while !self.page(store, repo, &mut reading).await?.is_empty() {}
        Ok(())
    }

    /// Begins to read what a root leads to, page by page.
    pub(crate) fn begin(&mut self, root: CommitId) -> StoreResult<Reading> {
        self.begin_at(root)?;
        Ok(Reading { open: vec![root], next: None, limit: 0, one_by_one: 0 })
    }

    /// Reads on, and gives the commits that are new. None come when all were read.
    ///
    /// Lines are read by range walks whose every step is compared with the parent that the step
    /// before it names.
    pub(crate) async fn page(
        &mut self,
        store: &dyn Store,
        repo: &RepoName,
        reading: &mut Reading,
    ) -> StoreResult<Vec<ReachedCommit>> {
        let [first, most] = PAGES;
        let mut reached = Vec::new();
        while reached.len() < FULL {
            let Some(at) = reading.next.filter(|id| !self.knows(*id)) else {
                reading.next = reading.open.pop();
                (reading.limit, reading.one_by_one) = (first, 0);
                if reading.next.is_none() {
                    break;
                }
                continue;
            };
            if reading.one_by_one > 0 {
                reading.one_by_one -= 1;
                reading.next =
                    self.single(store, repo, at, &mut reading.open, &mut reached).await?;
                continue;
            }
            let walk = Walk { head: at, until: None, limit: reading.limit, stop_at: None };
            let page = match store.walk(repo, walk).await {
                Ok(page) => page,
                Err(error) => {
                    harm(ObjectId::Commit(at), error)?;
                    // Which commit of the page it is, reading them singly tells.
                    reading.one_by_one = reading.limit;
                    continue;
                }
            };
            let mut is_known = false;
            for step in page.steps {
                if reading.next != Some(step.commit.id()) {
                    break;
                }
                is_known = self.knows(step.commit.id());
                if is_known {
                    break;
                }
                reading.next =
                    self.take(store, repo, step, &mut reading.open, &mut reached).await?;
            }
            if is_known {
                continue;
            }
            let next = reading.next;
            if next != page.next || next == Some(at) {
                let (place, found) = (ObjectId::Commit(at), page.next);
                let label = found.map_or("the end".to_owned(), |id| format!("commit {id}"));
                let so = next.map_or("the end".to_owned(), |id| format!("commit {id}"));
                let what =
                    format!("a range walk from here continues at {label}, parents lead to {so}");
                self.damage.push(Damage { derived: true, ..damage(place, what) });
                reading.one_by_one = reading.limit;
            }
            reading.limit = (reading.limit * 2).min(most);
        }
        Ok(reached)
    }

    /// Reads one commit by its id; returns its first parent.
    async fn single(
        &mut self,
        store: &dyn Store,
        repo: &RepoName,
        id: CommitId,
        open: &mut Vec<CommitId>,
        reached: &mut Vec<ReachedCommit>,
    ) -> StoreResult<Option<CommitId>> {
        let read = store.commits(repo, &[id]).await;
        let other = |commit: &Commit| {
            (commit.id() != id).then(|| format!("it reads as commit {}", commit.id()))
        };
        match one(ObjectId::Commit(id), read, other)? {
            Ok(commit) => {
                let entry = WalkEntry { commit, content: None };
                self.take(store, repo, entry, open, reached).await
            }
            Err(lost) => {
                self.damage.push(lost);
                let number = self.number(id)?;
                self.set(number, KnownCommit::Lost);
                Ok(None)
            }
        }
    }

    /// Refuses when something was found wrong on the way. Places that are wrong cost time, not
    /// truth.
    pub(crate) fn is_whole(&self) -> Result<(), Error> {
        let found = self.damage.iter().find(|damage| !damage.derived);
        found.map_or(Ok(()), |found| Err(found.clone().into()))
    }

    /// Begins the orders at a commit.
    pub(crate) fn begin_at(&mut self, root: CommitId) -> StoreResult<()> {
        let number = self.number(root)?;
        self.roots.push(number);
        Ok(())
    }

    async fn take(
        &mut self,
        store: &dyn Store,
        repo: &RepoName,
        entry: WalkEntry,
        open: &mut Vec<CommitId>,
        reached: &mut Vec<ReachedCommit>,
    ) -> StoreResult<Option<CommitId>> {
        let WalkEntry { commit, content } = entry;
        let changes = match changes_of(store, repo, &commit).await? {
            Ok(changes) => changes,
            Err(damage) => {
                self.damage.push(damage);
                Vec::new()
            }
        };
        let links = links(&commit, &changes);
        let parent = commit.parent();
        let others: Vec<CommitId> = links.into_iter().filter(|id| Some(*id) != parent).collect();
        open.extend(others.iter().filter(|id| !self.knows(**id)));
        let number = self.insert(commit.id(), parent, &others)?;
        reached.push(ReachedCommit { number, commit, content });
        Ok(parent)
    }

    /// Adds a commit by its first parent and what else it links to; returns its number.
    pub(crate) fn insert(
        &mut self,
        id: CommitId,
        parent: Option<CommitId>,
        others: &[CommitId],
    ) -> StoreResult<u32> {
        let number = self.number(id)?;
        let first = parent.map_or(Ok(NONE), |parent| self.number(parent))?;
        if !self.first_parents_only {
            let others: Vec<u32> =
                others.iter().map(|id| self.number(*id)).collect::<StoreResult<_>>()?;
            if !others.is_empty() {
                self.links.insert(number, others);
            }
        }
        if let Some(slot) = self.parents.get_mut(number as usize) {
            *slot = first;
        }
        self.set(number, KnownCommit::Read);
        Ok(number)
    }

    /// Returns the commits that others link to and that were not read themselves, sorted.
    pub(crate) fn boundary(&self) -> Vec<CommitId> {
        let named = self.ids.iter().zip(&self.known);
        let mut ids: Vec<CommitId> =
            named.filter(|(_, known)| **known == KnownCommit::Name).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the number of a commit, which it gets when it is first named.
    pub(crate) fn number(&mut self, id: CommitId) -> StoreResult<u32> {
        if let Some(number) = self.find(id) {
            return Ok(number);
        }
        let number = u32::try_from(self.ids.len()).ok().filter(|number| *number != NONE);
        let number = number.ok_or_else(|| {
            let what = format!("too many commits: more than {} (limit {NONE})", self.ids.len());
            StoreError::new(StoreErrorKind::TooLarge, "engine", "reach", what)
        })?;
        self.ids.push(id);
        self.known.push(KnownCommit::Name);
        self.parents.push(NONE);
        let ids = &self.ids;
        let rehash = |number: &u32| ids.get(*number as usize).map_or(0, first_bytes);
        self.numbers.insert_unique(first_bytes(&id), number, rehash);
        Ok(number)
    }

    /// Returns the number of a commit that was named.
    pub(crate) fn find(&self, id: CommitId) -> Option<u32> {
        let is_it = |number: &u32| self.ids.get(*number as usize) == Some(&id);
        self.numbers.find(first_bytes(&id), is_it).copied()
    }

    /// Returns how many commits were named: their numbers are below.
    pub(crate) fn named(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn id(&self, number: u32) -> Option<CommitId> {
        self.ids.get(number as usize).copied()
    }

    fn set(&mut self, number: u32, known: KnownCommit) {
        if let Some(slot) = self.known.get_mut(number as usize) {
            *slot = known;
        }
    }

    fn state(&self, number: u32) -> KnownCommit {
        self.known.get(number as usize).copied().unwrap_or(KnownCommit::Name)
    }

    pub(crate) fn parent(&self, number: u32) -> Option<u32> {
        self.parents.get(number as usize).copied().filter(|parent| *parent != NONE)
    }

    pub(crate) fn knows(&self, id: CommitId) -> bool {
        self.find(id).is_some_and(|number| self.state(number) != KnownCommit::Name)
    }

    /// Returns whether the commit was reached and could be read.
    pub(crate) fn holds(&self, id: CommitId) -> bool {
        self.find(id).is_some_and(|number| self.state(number) == KnownCommit::Read)
    }
}

/// An id is a hash already: its first bytes are as good as any hash of it.
fn first_bytes(id: &CommitId) -> u64 {
    id.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}
