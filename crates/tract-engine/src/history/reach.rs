//! Reachability: the links that closures, exports and checks follow from given commits.

mod order;

use std::collections::HashMap;

use hashbrown::HashTable;
use tract_compile::IdSet;
use tract_core::store::{
    Damage, LocationHint, LogQuery, StoreError, StoreErrorKind, StoreResult, Walk, WalkEntry,
};
use tract_core::{
    Blob, BlobId, Change, Changes, Commit, CommitId, CommitRef, LogEntry, ObjectId, Op, RefName,
    RefTarget, RepoName, Store,
};

use crate::repo::Repo;
use crate::repo::error::Error;

/// Returns the other commits that a commit links to: its parents, then the versions and marks in
/// its changes, and the commits it reverts, which are needed to check its inverse changes. Anything
/// else that looks like an id is a name.
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

/// Number of log entries that are read together.
const LOG_PAGE: usize = 4096;
/// Number of log entries that are read first, because usually few are new.
const NEW_ENTRIES: usize = 32;

/// Returns the entries of the ref log after `after`, the newest first. The cost depends only on
/// their number, so that a collection or an erasure keeps up with concurrent writers.
pub(crate) async fn entries_since(repo: &Repo, after: u64) -> StoreResult<Vec<LogEntry>> {
    let (mut entries, mut before, mut limit) = (Vec::new(), None, NEW_ENTRIES);
    loop {
        let query = LogQuery { before, limit, ..LogQuery::default() };
        let page = repo.store().ref_log(repo.name(), &query).await?;
        before = page.last().map(|entry| entry.seq);
        let is_last = page.len() < limit || before.is_none_or(|before| before <= after + 1);
        entries.extend(page.into_iter().filter(|entry| entry.seq > after));
        if is_last {
            return Ok(entries);
        }
        limit = (limit * 4).min(LOG_PAGE);
    }
}

/// Returns the chosen refs, or all, sorted by name. Refs [of this store alone](RefName::is_local)
/// are always excluded: the url of a remote may contain a password.
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

/// Returns the changes of a commit, whether its record lists them or a blob does.
///
/// The inner error is the damage of that blob.
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

/// Reads one blob. The inner error reports a damaged or missing blob.
pub(crate) async fn blob(
    store: &dyn Store,
    repo: &RepoName,
    id: BlobId,
) -> StoreResult<Result<Blob, Damage>> {
    let read = store.blobs(repo, &[id.into()]).await;
    let other = |blob: &Blob| (blob.id() != id).then(|| format!("it reads as blob {}", blob.id()));
    one(ObjectId::Blob(id), read, other)
}

/// Checks an object that was read alone. The inner error reports a damaged or missing object, or
/// another one in its place.
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

/// Reads objects together. If that fails, reads each alone and passes the error of an unreadable
/// one to `failed`.
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

/// Converts an error about one object into damage of that object. Other errors are returned.
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

/// The state of a commit that another one links to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownCommit {
    /// Only linked to; not read yet.
    Name,
    Read,
    /// Cannot be read.
    Lost,
}

/// The reachable commits without their records: only ids and links, as numbers. With first parents
/// only, it takes about 45 bytes per commit.
///
/// `known` is both the result and the visited set: a commit is read only while it is `Name`, so
/// each one is yielded once, for any number of roots and links to it.
#[derive(Debug, Default)]
pub(crate) struct CommitGraph {
    /// The numbers of commits, hashed by their ids in `ids`.
    numbers: HashTable<u32>,
    ids: Vec<CommitId>,
    known: Vec<KnownCommit>,
    /// The first parent of each commit; `NONE` for a root.
    parents: Vec<u32>,
    /// The further links of commits that have any besides their first parent.
    links: HashMap<u32, Vec<u32>>,
    /// Whether `links` stays empty.
    first_parents_only: bool,
    /// The commits where reading began, in order.
    roots: Vec<u32>,
    /// The damage that was found.
    pub(crate) damage: Vec<Damage>,
}

/// The number of no commit.
const NONE: u32 = u32::MAX;

/// Page sizes of a walk: first and maximum. Small at first because most branches are short forks,
/// doubled for long histories.
const PAGES: [usize; 2] = [32, 4096];

/// Target page size in commits.
const FULL: usize = 1024;

pub(crate) use self::order::{BitSet, FoldOrder};

/// A commit, when it is reached for the first time.
#[derive(Debug)]
pub(crate) struct ReachedCommit {
    pub(crate) number: u32,
    pub(crate) commit: Commit,
    /// The location of its content in the store.
    pub(crate) content: Option<LocationHint>,
}

/// The progress of reading everything that a root leads to.
#[derive(Debug)]
pub(crate) struct Reading {
    open: Vec<CommitId>,
    next: Option<CommitId>,
    /// Size of the next page.
    limit: usize,
    /// Number of commits to read one by one before the next page.
    one_by_one: usize,
}

impl CommitGraph {
    /// Creates a graph that stores only links to first parents. It still follows all links.
    pub(crate) fn of_first_parents() -> Self {
        Self { first_parents_only: true, ..Self::default() }
    }

    /// Reads everything that commits lead to. Fails if any of it is damaged or missing.
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

    /// Reads everything that `root` leads to and that was not reached before.
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

    /// Starts reading everything that a root leads to, in pages.
    pub(crate) fn begin(&mut self, root: CommitId) -> StoreResult<Reading> {
        self.begin_at(root)?;
        Ok(Reading { open: vec![root], next: None, limit: 0, one_by_one: 0 })
    }

    /// Returns the next new commits; an empty page is the end.
    ///
    /// Histories are read by range walks. A walk may use an index of positions, which can be
    /// damaged: so every commit of a page is compared with the parent named by the one before it,
    /// and on a mismatch the commits are read one by one, by id.
    pub(crate) async fn page(
        &mut self,
        store: &dyn Store,
        repo: &RepoName,
        reading: &mut Reading,
    ) -> StoreResult<Vec<ReachedCommit>> {
        let [first, most] = PAGES;
        let mut reached = Vec::new();
        while reached.len() < FULL {
            // A known commit ends a history: its links were followed when it was read. Continue
            // with the next open link.
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
            // Not a `HistoryReader`: its pages are believed, and these are verified.
            let walk = Walk { head: at, until: None, limit: reading.limit, stop_at: None };
            let page = match store.walk(repo, walk).await {
                Ok(page) => page,
                Err(error) => {
                    harm(ObjectId::Commit(at), error)?;
                    // Reading the commits of the page one by one finds the bad one.
                    reading.one_by_one = reading.limit;
                    continue;
                }
            };
            let mut is_known = false;
            for entry in page.entries {
                // Trust a commit only if the one before it names it as its parent.
                if reading.next != Some(entry.commit.id()) {
                    break;
                }
                is_known = self.knows(entry.commit.id());
                if is_known {
                    break;
                }
                reading.next =
                    self.take(store, repo, entry, &mut reading.open, &mut reached).await?;
            }
            if is_known {
                continue;
            }
            // The walk and the parents disagree about the next commit, or the walk made no
            // progress. Ids are hashes, so the parents are right: read on by id, and report the
            // index of the walk as damaged.
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

    /// Reads one commit by its id. Returns its first parent.
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

    /// Fails if damage was found. Derived data is ignored: wrong positions only make reading
    /// slower.
    pub(crate) fn is_whole(&self) -> Result<(), Error> {
        let found = self.damage.iter().find(|damage| !damage.derived);
        found.map_or(Ok(()), |found| Err(found.clone().into()))
    }

    /// Adds a commit as a starting point of the orders.
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
        // The first parent is not pushed: the caller continues with it, which keeps histories
        // together and the stack small.
        open.extend(others.iter().filter(|id| !self.knows(**id)));
        let number = self.insert(commit.id(), parent, &others)?;
        reached.push(ReachedCommit { number, commit, content });
        Ok(parent)
    }

    /// Adds a commit with its first parent and its other links. Returns its number.
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

    /// Returns the commits that are linked to but were not read, sorted.
    pub(crate) fn boundary(&self) -> Vec<CommitId> {
        let named = self.ids.iter().zip(&self.known);
        let mut ids: Vec<CommitId> =
            named.filter(|(_, known)| **known == KnownCommit::Name).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the number of a commit. Assigns one when it is first named.
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

    /// Returns the number of a commit that was already named.
    pub(crate) fn find(&self, id: CommitId) -> Option<u32> {
        let is_it = |number: &u32| self.ids.get(*number as usize) == Some(&id);
        self.numbers.find(first_bytes(&id), is_it).copied()
    }

    /// Returns the number of named commits. All numbers are below it.
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

/// Ids are hashes, so their first bytes serve as a hash.
fn first_bytes(id: &CommitId) -> u64 {
    id.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}
