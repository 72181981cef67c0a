//! The mark phase: finds everything that refs, documents and young ref log entries lead to.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;

use tract_compile::IdHasher;
use tract_core::batch::ids_in;
use tract_core::store::{BlobKey, LogQuery, StoreErrorKind, Walk};
use tract_core::{
    BlobId, Commit, CommitId, LogEntry, ObjectId, RefName, RefTarget, ToolId, ToolRow, ToolSchema,
    ToolsetId,
};

use super::{GcProgress, KeptBy, OnGc};
use crate::history::reach::{changes_of, entries_since, links};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// Number of log entries that are read together.
const LOG_PAGE: usize = 4096;
/// Number of commits in a page of a walk: few at first, because many forks are short.
const PAGES: [usize; 2] = [32, 4096];
/// Number of documents that are read together.
const DOCUMENTS: usize = 64;
/// Number of commits between progress reports.
const REPORT: u64 = 4096;

/// The objects known to be needed. Each takes about 32 bytes: half of its id, and the reason.
pub(in crate::upkeep) struct Marks<'a> {
    repo: &'a Repo,
    progress: Option<OnGc>,
    marked: HashMap<u128, KeptBy, BuildHasherDefault<IdHasher>>,
    /// The marked ids that only occur in a document. Their objects are kept, but if one is stored
    /// later, the objects that it leads to are not marked yet.
    named: HashSet<u128>,
    toolsets: HashMap<ToolsetId, FirstSight>,
    /// Toolsets whose schemas are marked.
    read: HashSet<ToolsetId>,
    /// For each tool, the schemas that needed commits use, with the first such commit.
    tools: HashMap<ToolId, Vec<(BlobId, FirstSight)>>,
    commits: u64,
    /// Documents that keep nothing, such as expired leases.
    ignored: HashSet<RefName>,
}

/// Creation time and id of the first commit that has a toolset in force; `None` if it is only used
/// as the active part of another one.
type FirstSight = Option<(i64, CommitId)>;

/// Returns the first half of an id. 128 bits are enough to tell objects apart: a collision takes
/// about 2^64 objects.
fn key(id: &[u8; 32]) -> u128 {
    let (half, _) = id.split_first_chunk::<16>().expect("an id has 32 bytes");
    u128::from_be_bytes(*half)
}

impl<'a> Marks<'a> {
    pub(in crate::upkeep) fn new(repo: &'a Repo, progress: Option<OnGc>) -> Self {
        Self {
            repo,
            progress,
            marked: HashMap::default(),
            named: HashSet::new(),
            toolsets: HashMap::new(),
            read: HashSet::new(),
            tools: HashMap::new(),
            commits: 0,
            ignored: HashSet::new(),
        }
    }

    /// Ignores documents, such as expired leases.
    pub(in crate::upkeep) fn pass_over(&mut self, documents: Vec<(RefName, RefTarget)>) {
        self.ignored.extend(documents.into_iter().map(|(name, _)| name));
    }

    /// Returns why an object is needed; `None` if it is not marked.
    pub(in crate::upkeep) fn reason(&self, object: &ObjectId) -> Option<KeptBy> {
        self.marked.get(&key(object.as_bytes())).copied()
    }

    fn mark(&mut self, id: &[u8; 32], reason: KeptBy) -> bool {
        match self.marked.entry(key(id)) {
            Entry::Vacant(entry) => {
                entry.insert(reason);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Marks an object whose links are marked next. Returns `false` if they already are.
    fn mark_first(&mut self, id: &[u8; 32], reason: KeptBy) -> bool {
        let was_named = self.named.remove(&key(id));
        self.mark(id, reason) || was_named
    }

    /// Marks everything that refs lead to: branches and tags, then documents.
    pub(in crate::upkeep) async fn refs(&mut self) -> Result<()> {
        // One listing, after the write position was read. A ref that moves in between is either
        // seen here or makes the first sweep fail.
        let refs = self.repo.store().list_refs(self.repo.name(), "").await?;
        let (mut heads, mut pinned, mut documents) = (Vec::new(), Vec::new(), Vec::new());
        let mut leases = Vec::new();
        for (name, target) in refs {
            let is_history = name.branch_name().is_some()
                || name.tag_name().is_some()
                || name.remote_branch_name().is_some();
            match target {
                RefTarget::Commit(id) if is_history => heads.push(id),
                RefTarget::Commit(id) => pinned.push(id),
                RefTarget::Blob(_) if self.ignored.contains(&name) => {}
                RefTarget::Blob(id) if name.is_lease() => leases.push(id),
                RefTarget::Blob(id) => documents.push(id),
                RefTarget::Ref(_) => {}
            }
        }
        for id in heads {
            self.history(id, None, KeptBy::History).await?;
        }
        for id in pinned {
            self.history(id, None, KeptBy::Document).await?;
        }
        self.documents(&documents, KeptBy::Document).await?;
        self.schemas(KeptBy::Document).await?;
        self.documents(&leases, KeptBy::Written).await?;
        self.schemas(KeptBy::Written).await
    }

    /// Marks everything that log entries since a time lead to. Objects of older entries may already
    /// be deleted.
    pub(in crate::upkeep) async fn log(&mut self, since: i64) -> Result<()> {
        let mut before = None;
        loop {
            let query = LogQuery { before, limit: LOG_PAGE, ..LogQuery::default() };
            let page = self.repo.store().ref_log(self.repo.name(), &query).await?;
            let is_last = page.len() < LOG_PAGE;
            before = page.last().map(|entry| entry.seq);
            // Clocks of different machines differ, so an entry may be younger than a later one.
            // Stop only after a page without any young entry.
            let any = page.iter().any(|entry| entry.note.at >= since);
            // Objects of an ended lease and earlier positions of the search index are not needed.
            let is_needed = |entry: &LogEntry| {
                let is_passing = entry.name.is_lease() || entry.name.is_search_index();
                entry.note.at >= since && !is_passing
            };
            let young = page.into_iter().filter(is_needed);
            self.entries(young, KeptBy::RefLog).await?;
            if is_last || !any {
                return self.schemas(KeptBy::RefLog).await;
            }
        }
    }

    /// Marks everything that log entries after `after` lead to.
    pub(super) async fn moves(&mut self, after: u64) -> Result<()> {
        let newer = entries_since(self.repo, after).await?;
        self.entries(newer.into_iter(), KeptBy::Written).await?;
        self.schemas(KeptBy::Written).await
    }

    /// Marks everything that entries lead to, the oldest first: an appended commit usually
    /// continues a marked one, so its history is not walked, and all such commits are read
    /// together.
    async fn entries(
        &mut self,
        entries: impl Iterator<Item = LogEntry>,
        reason: KeptBy,
    ) -> Result<()> {
        let entries: Vec<LogEntry> = entries.collect();
        let commits = |entry: &LogEntry| {
            let targets = [entry.before.as_ref(), entry.after.as_ref()];
            targets.map(|target| target.and_then(RefTarget::commit))
        };
        let named = entries.iter().flat_map(commits).flatten();
        let unmarked: HashSet<CommitId> = named.filter(|id| !self.is_marked(*id)).collect();
        let unmarked: Vec<CommitId> = unmarked.into_iter().collect();
        let mut stored: HashMap<CommitId, Commit> = HashMap::new();
        if !unmarked.is_empty() {
            // A commit of an old entry may have been deleted by an earlier collection. Then there
            // is nothing to keep, so a missing one is not an error here, unlike one that a ref
            // leads to.
            let found = self.repo.store().commits(self.repo.name(), &unmarked).await?;
            stored.extend(found.into_iter().flatten().map(|commit| (commit.id(), commit)));
        }
        for entry in entries.iter().rev() {
            let [before, after] = commits(entry);
            for id in [before, after].into_iter().flatten() {
                let Some(commit) = stored.get(&id).filter(|_| !self.is_marked(id)) else {
                    continue;
                };
                if commit.parents.iter().all(|parent| self.is_marked(*parent)) {
                    self.mark_first(id.as_bytes(), reason);
                    for id in self.needs(commit, reason).await? {
                        self.history(id, None, reason).await?;
                    }
                } else {
                    let until = before.filter(|before| self.is_marked(*before));
                    self.history(id, until, reason).await?;
                }
            }
        }
        let targets = entries.iter().flat_map(|entry| [&entry.after, &entry.before]);
        let documents: Vec<BlobId> = targets.flatten().filter_map(RefTarget::blob).collect();
        self.documents(&documents, reason).await
    }

    /// Marks documents and all objects whose ids appear in them.
    async fn documents(&mut self, ids: &[BlobId], reason: KeptBy) -> Result<()> {
        let new: Vec<BlobKey> = ids
            .iter()
            .filter(|id| self.mark_first(id.as_bytes(), reason))
            .map(|id| BlobKey::from(*id))
            .collect();
        for chunk in new.chunks(DOCUMENTS) {
            let found = self.repo.store().blobs(self.repo.name(), chunk).await?;
            let named = found.iter().flatten().flat_map(|blob| ids_in(blob.bytes()));
            // Sorted, so that equal stores are read by equal calls.
            let named: BTreeSet<[u8; 32]> = named.collect();
            let commits: Vec<CommitId> = named.iter().copied().map(CommitId::from_bytes).collect();
            let commits = self.repo.store().commits(self.repo.name(), &commits).await?;
            for commit in commits.into_iter().flatten() {
                self.history(commit.id(), None, reason).await?;
            }
            for id in named {
                if self.mark(&id, reason) {
                    self.named.insert(key(&id));
                }
                // The id may be a toolset's, whose schemas are marked later. If it is something
                // else, `schemas` finds no toolset of that id.
                self.toolsets.entry(ToolsetId::from_bytes(id)).or_insert(None);
            }
        }
        Ok(())
    }

    /// Marks a commit and everything that it leads to. The history up to `until`, an ancestor, is
    /// already marked and not read.
    async fn history(
        &mut self,
        id: CommitId,
        until: Option<CommitId>,
        reason: KeptBy,
    ) -> Result<()> {
        let (store, name) = (self.repo.store().clone(), self.repo.name().clone());
        let mut open = vec![id];
        while let Some(head) = open.pop() {
            let [mut limit, most] = PAGES;
            let mut next = Some(head);
            'line: while let Some(at) = next.filter(|at| !self.is_marked(*at)) {
                let walk = Walk { head: at, until, limit, stop_at: None };
                let page = store.walk(&name, walk).await.map_err(needed)?;
                for entry in page.entries {
                    let commit = entry.commit;
                    // A marked commit has been walked through, or will be: its history is marked
                    // too. Marking before following links is what makes this linear, however many
                    // heads lead here.
                    if !self.mark_first(commit.id().as_bytes(), reason) {
                        break 'line;
                    }
                    open.extend(self.needs(&commit, reason).await?);
                }
                next = page.next;
                limit = (limit * 2).min(most);
            }
        }
        Ok(())
    }

    /// Marks everything that a commit links to. Returns its unmarked linked commits except its
    /// parent.
    async fn needs(&mut self, commit: &Commit, reason: KeptBy) -> Result<Vec<CommitId>> {
        self.commit(commit, reason);
        let (store, name) = (self.repo.store(), self.repo.name());
        let changes = changes_of(store.as_ref(), name, commit).await.map_err(needed)?;
        let links = links(commit, &changes?).into_iter();
        let others = links.filter(|id| Some(*id) != commit.parent() && !self.is_marked(*id));
        Ok(others.collect())
    }

    fn is_marked(&self, id: CommitId) -> bool {
        let key = key(id.as_bytes());
        self.marked.contains_key(&key) && !self.named.contains(&key)
    }

    fn commit(&mut self, commit: &Commit, reason: KeptBy) {
        for blob in commit.linked_blobs() {
            self.mark(blob.as_bytes(), reason);
        }
        if let Some(toolset) = commit.active {
            self.toolsets.entry(toolset).or_insert(None);
        }
        if let Some(toolset) = commit.toolset {
            let sight = (commit.created_at.unwrap_or(0), commit.id());
            let first = self.toolsets.entry(toolset).or_insert(None);
            let is_first = first.is_none_or(|first| sight < first);
            if is_first {
                *first = Some(sight);
                // The row of the tool index must name the first commit. A toolset that was read for
                // a later one is read again.
                self.read.remove(&toolset);
            }
        }
        self.commits += 1;
        if self.commits.is_multiple_of(REPORT)
            && let Some(progress) = &self.progress
        {
            progress.call(GcProgress::Marking(self.marked.len() as u64));
        }
    }

    /// Marks the toolsets found so far and their schemas.
    async fn schemas(&mut self, reason: KeptBy) -> Result<()> {
        let new: Vec<(ToolsetId, FirstSight)> = self
            .toolsets
            .iter()
            .filter(|(id, _)| !self.read.contains(*id))
            .map(|(id, first)| (*id, *first))
            .collect();
        for chunk in new.chunks(DOCUMENTS) {
            let ids: Vec<ToolsetId> = chunk.iter().map(|(id, _)| *id).collect();
            let found = self.repo.store().toolsets(self.repo.name(), &ids).await?;
            for ((id, first), toolset) in chunk.iter().zip(found) {
                self.read.insert(*id);
                // The id may come from a document and belong to another type of object.
                let Some(toolset) = toolset else { continue };
                self.mark(id.as_bytes(), reason);
                for entry in toolset.entries() {
                    self.mark(entry.schema.as_bytes(), reason);
                    let Some(sight) = *first else { continue };
                    let rows = self.tools.entry(entry.tool).or_default();
                    match rows.iter_mut().find(|(schema, _)| *schema == entry.schema) {
                        Some((_, known)) => *known = (*known).min(Some(sight)),
                        None => rows.push((entry.schema, Some(sight))),
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the schemas of a tool that needed commits have in force.
    pub(super) fn rows_of(&self, tool: ToolId) -> &[(BlobId, FirstSight)] {
        self.tools.get(&tool).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the rows that the tool index must have for the needed commits.
    pub(super) async fn tool_rows(&self, tool: ToolId) -> Result<Vec<ToolRow>> {
        let mut rows = Vec::new();
        for (schema, first) in self.rows_of(tool) {
            let Some((created_at, commit)) = *first else { continue };
            let blob = match self.repo.require_blob(*schema).await {
                Err(Error::Erased(_)) => continue,
                blob => blob?,
            };
            let parsed = blob.text().and_then(|text| ToolSchema::parse(text).ok());
            let name = parsed.map(|schema| schema.name().to_owned()).unwrap_or_default();
            rows.push(ToolRow { id: tool, name, schema: *schema, commit, created_at });
        }
        rows.sort_by_key(|row| (row.created_at, row.commit, row.schema));
        Ok(rows)
    }
}

/// Converts a missing object into damage: it is needed, so nothing may be deleted.
fn needed(error: tract_core::StoreError) -> Error {
    match &error.kind {
        StoreErrorKind::Missing { object } => Error::Damaged {
            object: Some(*object),
            what: "it is needed, but not stored: `tract verify` says what is damaged".to_owned(),
        },
        _ => error.into(),
    }
}
