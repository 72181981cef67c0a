//! The data that a store must keep and the rules of a write, independent of an engine. The two other
//! levels share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use tract_core::store::{Damage, LogQuery, StoreStats, Walk, WalkEntry, WalkPage};
use tract_core::{
    Applied, Batch, Blob, BlobId, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId,
    RefName, RefTarget, RepoName, StoreError, StoreResult, ToolDefinition, ToolId, ToolRow,
    Toolset, ToolsetId,
};

/// The repositories of a store, by name.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) repos: BTreeMap<RepoName, Repository>,
}

/// The objects, refs and log of one repository.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    pub(crate) blobs: BTreeMap<BlobId, Blob>,
    pub(crate) toolsets: BTreeMap<ToolsetId, Toolset>,
    pub(crate) commits: BTreeMap<CommitId, Commit>,
    pub(crate) refs: BTreeMap<RefName, RefTarget>,
    pub(crate) derived: BTreeMap<(DerivedKind, CommitId), bytes::Bytes>,
    tools: BTreeMap<(ToolId, BlobId), ToolRow>,
    /// Oldest first; an entry's number is its index plus one.
    log: Vec<LogEntry>,
}

impl State {
    /// Returns a repository; one without any write is empty.
    pub(crate) fn repo(&self, name: &RepoName) -> &Repository {
        static EMPTY: LazyLock<Repository> = LazyLock::new(Repository::default);
        self.repos.get(name).unwrap_or(&EMPTY)
    }

    /// Writes a batch. A refused one leaves no trace, not even an empty repository.
    pub(crate) fn apply(
        &mut self,
        backend: &'static str,
        name: &RepoName,
        batch: &Batch,
    ) -> StoreResult<Applied> {
        let answer = self.repo(name).check(backend, batch)?;
        if answer == Applied::Done {
            self.repos.entry(name.clone()).or_default().write(batch);
        }
        Ok(answer)
    }
}

impl Repository {
    /// Makes every check of a batch and changes nothing, so that there is nothing to roll back.
    fn check(&self, backend: &'static str, batch: &Batch) -> StoreResult<Applied> {
        batch.check_refs(backend)?;
        // First: a retry after a lost answer must not meet its own moves as a conflict.
        if self.log.iter().any(|entry| entry.batch == batch.id) {
            return Ok(Applied::Already);
        }
        for edit in &batch.refs {
            // An edit that changes nothing succeeds, regardless of the value it expects.
            if let Some(conflict) = edit.conflict(self.refs.get(&edit.name)) {
                return Ok(Applied::Conflict(conflict));
            }
        }
        let brought: BTreeSet<ObjectId> = batch.objects().collect();
        for object in batch.requires.iter().copied().chain(batch.links()) {
            if !self.holds(object) && !brought.contains(&object) {
                return Err(StoreError::missing(backend, "apply", object));
            }
        }
        Ok(Applied::Done)
    }

    /// Carries out a batch that was checked. An object that is stored already is the same one, a row
    /// of the tool index stays as it is, and a derived row is replaced.
    fn write(&mut self, batch: &Batch) {
        self.blobs.extend(batch.blobs.iter().map(|blob| (blob.id(), blob.clone())));
        self.toolsets.extend(batch.toolsets.iter().map(|set| (set.id(), set.clone())));
        self.commits.extend(batch.commits.iter().map(|commit| (commit.id(), commit.clone())));
        for row in &batch.tools {
            self.tools.entry((row.id, row.schema)).or_insert_with(|| row.clone());
        }
        let derived = batch.derived.iter();
        self.derived.extend(derived.map(|row| ((row.kind, row.commit), row.bytes.clone())));
        for edit in &batch.refs {
            let before = match &edit.to {
                Some(target) => self.refs.insert(edit.name.clone(), target.clone()),
                None => self.refs.remove(&edit.name),
            };
            // Only a move is logged: `undo` reads the log and must find what changed.
            if before != edit.to {
                let (name, after) = (edit.name.clone(), edit.to.clone());
                let (batch, note) = (batch.id, batch.note.clone());
                let seq = self.log.len() as u64 + 1;
                self.log.push(LogEntry { seq, name, before, after, batch, note });
            }
        }
    }

    fn holds(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::Commit(id) => self.commits.contains_key(&id),
            ObjectId::Blob(id) => self.blobs.contains_key(&id),
            ObjectId::Toolset(id) => self.toolsets.contains_key(&id),
            ObjectId::Tool(id) => self.tool(id).is_some(),
        }
    }

    /// Walks first parents. Every commit is found by its id here, so no place can be wrong.
    pub(crate) fn walk(&self, backend: &'static str, walk: &Walk) -> StoreResult<WalkPage> {
        let mut page = WalkPage::default();
        let mut next = Some(walk.head);
        while let Some(id) = next.filter(|id| walk.until != Some(*id)) {
            if page.entries.len() >= walk.limit.max(1) {
                page.next = Some(id);
                break;
            }
            let row = walk.stop_at.and_then(|kind| self.derived.get(&(kind, id)));
            if let Some(row) = row {
                page.stopped = Some((id, row.clone()));
                break;
            }
            let found = self.commits.get(&id);
            let missing = || StoreError::missing(backend, "walk", ObjectId::Commit(id));
            let commit = found.ok_or_else(missing)?.clone();
            next = commit.parent();
            page.entries.push(WalkEntry { commit, content: None });
        }
        Ok(page)
    }

    pub(crate) fn resolve(&self, prefix: &IdPrefix, limit: usize) -> Vec<ObjectId> {
        let commits = self.commits.keys().map(|id| ObjectId::Commit(*id));
        let blobs = self.blobs.keys().map(|id| ObjectId::Blob(*id));
        let toolsets = self.toolsets.keys().map(|id| ObjectId::Toolset(*id));
        let tools = self.tools.keys().map(|(id, _)| ObjectId::Tool(*id));
        let mut found: Vec<ObjectId> = commits
            .chain(blobs)
            .chain(toolsets)
            .chain(tools)
            .filter(|id| prefix.matches(id.as_bytes()))
            .collect();
        found.dedup();
        found.truncate(limit);
        found
    }

    pub(crate) fn tool(&self, id: ToolId) -> Option<ToolDefinition> {
        let mut rows: Vec<&ToolRow> = self.tools.values().filter(|row| row.id == id).collect();
        rows.sort_by_key(|row| (row.created_at, row.commit, row.schema));
        let first = rows.first()?;
        Some(ToolDefinition {
            id,
            name: first.name.clone(),
            schemas: rows.iter().map(|row| row.schema).collect(),
            first: first.commit,
            created_at: first.created_at,
        })
    }

    pub(crate) fn tools_by_name(&self, name: &str) -> Vec<ToolDefinition> {
        let rows = self.tools.values().filter(|row| row.name == name);
        let mut ids: Vec<ToolId> = rows.map(|row| row.id).collect();
        ids.dedup();
        let mut found: Vec<_> = ids.into_iter().filter_map(|id| self.tool(id)).collect();
        found.sort_by_key(|tool| (tool.created_at, tool.first, tool.id));
        found
    }

    pub(crate) fn tool_names(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.tools.values().map(|row| &row.name).collect();
        names.into_iter().cloned().collect()
    }

    pub(crate) fn list_refs(&self, prefix: &str) -> Vec<(RefName, RefTarget)> {
        let found = self.refs.iter().filter(|(name, _)| name.as_str().starts_with(prefix));
        found.map(|(name, target)| (name.clone(), target.clone())).collect()
    }

    pub(crate) fn ref_log(&self, query: &LogQuery) -> Vec<LogEntry> {
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let wanted = |entry: &&LogEntry| {
            query.name.as_ref().is_none_or(|name| entry.name == *name)
                && query.batch.is_none_or(|batch| entry.batch == batch)
                && query.batch_prefix.is_none_or(|prefix| entry.batch.prefix() == prefix)
                && query.before.is_none_or(|before| entry.seq < before)
        };
        self.log.iter().rev().filter(wanted).take(limit).cloned().collect()
    }

    pub(crate) fn stats(&self) -> StoreStats {
        let tools: BTreeSet<&ToolId> = self.tools.keys().map(|(id, _)| id).collect();
        StoreStats {
            commits: self.commits.len() as u64,
            commit_bytes: self.commits.values().map(|commit| commit.encode().len() as u64).sum(),
            blobs: self.blobs.len() as u64,
            blob_bytes: self.blobs.values().map(|blob| blob.bytes().len() as u64).sum(),
            toolsets: self.toolsets.len() as u64,
            tools: tools.len() as u64,
            refs: self.refs.len() as u64,
            log_entries: self.log.len() as u64,
            derived: self.derived.len() as u64,
            derived_bytes: self.derived.values().map(|row| row.len() as u64).sum(),
            ..StoreStats::default()
        }
    }

    /// Compares the refs with a replay of the log. Objects need no check: they can only be made by
    /// hashing, and nothing here turns them into bytes and back.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let mut replayed: BTreeMap<&RefName, &RefTarget> = BTreeMap::new();
        for LogEntry { name, after, .. } in &self.log {
            match after {
                Some(target) => replayed.insert(name, target),
                None => replayed.remove(name),
            };
        }
        if replayed.into_iter().eq(&self.refs) {
            return Vec::new();
        }
        let what = "the refs differ from a replay of the ref log".to_owned();
        vec![Damage { object: None, what, derived: false }]
    }
}

/// Looks values up, one answer for each key.
pub(crate) fn found<'k, K: Ord + 'k, V: Clone>(
    values: &BTreeMap<K, V>,
    keys: impl IntoIterator<Item = &'k K>,
) -> Vec<Option<V>> {
    keys.into_iter().map(|key| values.get(key).cloned()).collect()
}
