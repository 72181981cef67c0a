//! Candidates of a grep: the contents to search, their order, and the heads that show them.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use tract_compile::{IdMap, IdSet, stated_priority};
use tract_core::store::LocationHint;
use tract_core::{BlobId, Change, Changes, Commit, CommitId, Kind, Priority, ToolsetId};

use super::GrepOptions;
use super::backward::{BackwardFold, FoundRow};
use crate::history::reach::CommitGraph;
use crate::repo::Repo;
use crate::repo::error::Result;

/// Heads, as ranges of head numbers.
type Heads = Vec<Range<u32>>;

/// The head's number if there is only one.
const ONLY_HEAD: Range<u32> = 0..1;

/// A content or tool definition to search.
pub(super) struct Candidate {
    /// The commit that added the content, or one after which the tool is in force.
    pub(super) commit: Commit,
    pub(super) blob: BlobId,
    /// The location of the blob, if the walk provided it.
    pub(super) hint: Option<LocationHint>,
    pub(super) is_definition: bool,
    /// The heads that show it; empty for a hidden message.
    pub(super) heads: Heads,
}

/// Produces candidates in pages, newest first along each branch.
pub(super) enum Source {
    /// One head, which is read during the search.
    Line(LineSource),
    /// Several heads, or hidden messages: a first pass has determined the shown contents.
    Graph(Box<GraphSource>),
}

/// Number of commits that are read together: at first, so that the first hits arrive soon, and at
/// most.
const PAGES: [usize; 2] = [32, 1024];

impl Source {
    pub(super) async fn new(
        repo: &Repo,
        heads: &[CommitId],
        options: &GrepOptions,
    ) -> Result<Self> {
        match heads {
            [head] if !options.hidden => Ok(Self::Line(LineSource::new(*head))),
            heads => Ok(Self::Graph(Box::new(GraphSource::new(repo, heads, options).await?))),
        }
    }

    /// Returns the head with a number, as an index into the list given to [`new`](Self::new).
    pub(super) fn head(&self, number: u32) -> usize {
        match self {
            Self::Line(_) => 0,
            Self::Graph(graph) => graph.numbered.get(number as usize).copied().unwrap_or_default(),
        }
    }

    /// Returns the next candidates, possibly none; `None` at the end.
    pub(super) async fn next_page(
        &mut self,
        repo: &Repo,
        options: &GrepOptions,
    ) -> Result<Option<Vec<Candidate>>> {
        match self {
            Self::Line(line) => line.next_page(repo, options).await,
            Self::Graph(graph) => graph.next_page(repo, options).await,
        }
    }
}

/// A walk from one head, with the rows of its view as candidates.
pub(super) struct LineSource {
    next: Option<CommitId>,
    limit: usize,
    fold: BackwardFold,
    /// Whether the tools in force were returned.
    with_tools: bool,
}

impl LineSource {
    fn new(head: CommitId) -> Self {
        let [limit, _] = PAGES;
        Self { next: Some(head), limit, fold: BackwardFold::default(), with_tools: false }
    }

    async fn next_page(
        &mut self,
        repo: &Repo,
        options: &GrepOptions,
    ) -> Result<Option<Vec<Candidate>>> {
        let Some(head) = self.next else { return Ok(None) };
        let mut history = repo.history(head).pages(self.limit, self.limit);
        let page = history.next_entries().await?.unwrap_or_default();
        self.next = history.peek();
        self.limit = (self.limit * 4).min(PAGES[1]);
        let hints = page.iter().filter_map(|entry| Some((entry.commit.content?, entry.content?)));
        let hints: IdMap<BlobId, LocationHint> = hints.collect();
        let commits: Vec<Commit> = page.into_iter().map(|entry| entry.commit).collect();
        let mut candidates = Vec::new();
        if !std::mem::replace(&mut self.with_tools, true)
            && options.takes_definitions()
            && let Some(head) = commits.first()
            && let Some(toolset) = head.toolset
        {
            for blob in schemas(repo, toolset).await? {
                let (commit, heads) = (head.clone(), Heads::from([ONLY_HEAD]));
                candidates.push(Candidate { commit, blob, hint: None, is_definition: true, heads });
            }
        }
        let mut rows = Vec::new();
        for commit in &commits {
            let changes = changes(repo, commit).await?;
            self.fold.visit(commit, &changes, &ONLY_HEAD, |row| rows.push(row));
        }
        for (commit, heads) in shown(repo, commits, rows).await? {
            if let Some(blob) = commit.content.filter(|_| options.takes(&commit)) {
                let (heads, hint) = (vec![heads], hints.get(&blob).copied());
                candidates.push(Candidate { commit, blob, hint, is_definition: false, heads });
            }
        }
        Ok(Some(candidates))
    }
}

/// The heads that show a content.
struct ShownContent {
    /// The newest shown version with this content; among equally new ones the one with the smallest
    /// id, as in a ranked search.
    version: (Reverse<Option<i64>>, CommitId),
    heads: Heads,
}

/// All commits that heads lead to, each after the commits that continue it.
pub(super) struct GraphSource {
    /// The remaining commits; the next ones to search are at the end.
    order: Vec<CommitId>,
    /// For each head number, the index of the head in the caller's list.
    numbered: Vec<usize>,
    messages: IdMap<BlobId, ShownContent>,
    definitions: IdMap<BlobId, ShownContent>,
    /// Contents and definitions that were returned already although no head shows them.
    hidden: [IdSet<BlobId>; 2],
    toolsets: IdSet<ToolsetId>,
    limit: usize,
}

impl GraphSource {
    /// Reads all commits and their changes, but no contents.
    async fn new(repo: &Repo, heads: &[CommitId], options: &GrepOptions) -> Result<Self> {
        let mut graph = CommitGraph::of_first_parents();
        for head in heads {
            graph.add(repo.store().as_ref(), repo.name(), *head).await?;
        }
        graph.is_whole()?;
        let order = graph.fold_order().numbers;
        let order = order.into_iter().filter_map(|number| graph.id(number)).collect();
        drop(graph);
        let mut source = Self {
            order,
            numbered: Vec::with_capacity(heads.len()),
            messages: IdMap::default(),
            definitions: IdMap::default(),
            hidden: [IdSet::default(), IdSet::default()],
            toolsets: IdSet::default(),
            limit: PAGES[0],
        };
        source.find_shown(repo, heads, options).await?;
        Ok(source)
    }

    async fn find_shown(
        &mut self,
        repo: &Repo,
        heads: &[CommitId],
        options: &GrepOptions,
    ) -> Result<()> {
        let mut at: IdMap<CommitId, Vec<usize>> = IdMap::default();
        for (place, head) in heads.iter().enumerate() {
            at.entry(*head).or_default().push(place);
        }
        let mut fold = BackwardFold::default();
        // The number of heads that lead to a commit through the commits that continue it.
        let mut below: IdMap<CommitId, u32> = IdMap::default();
        for ids in self.order.rchunks(PAGES[1]) {
            let ids: Vec<CommitId> = ids.iter().rev().copied().collect();
            let commits = repo.require_commits(&ids).await?;
            let mut rows = Vec::new();
            for commit in &commits {
                let own = at.remove(&commit.id()).unwrap_or_default();
                let mut count = below.remove(&commit.id()).unwrap_or_default();
                count += own.len() as u32;
                self.numbered.extend(&own);
                if count == 0 {
                    // Reachable only as another parent of a merge. The merge commit itself lists
                    // the rows that it takes from there.
                    continue;
                }
                if let Some(parent) = commit.parent() {
                    *below.entry(parent).or_default() += count;
                }
                let end = self.numbered.len() as u32;
                let changes = changes(repo, commit).await?;
                fold.visit(commit, &changes, &(end - count..end), |row| rows.push(row));
                let toolset = commit.toolset.filter(|_| options.takes_definitions());
                if let Some(toolset) = toolset.filter(|_| !own.is_empty()) {
                    for blob in schemas(repo, toolset).await? {
                        let heads = end - own.len() as u32..end;
                        add(&mut self.definitions, blob, commit, heads);
                    }
                }
            }
            for (commit, heads) in shown(repo, commits, rows).await? {
                if let Some(blob) = commit.content.filter(|_| options.takes(&commit)) {
                    add(&mut self.messages, blob, &commit, heads);
                }
            }
        }
        Ok(())
    }

    async fn next_page(
        &mut self,
        repo: &Repo,
        options: &GrepOptions,
    ) -> Result<Option<Vec<Candidate>>> {
        if self.order.is_empty() {
            return Ok(None);
        }
        let rest = self.order.len().saturating_sub(self.limit);
        self.limit = (self.limit * 4).min(PAGES[1]);
        let mut ids = self.order.split_off(rest);
        ids.reverse();
        let mut candidates = Vec::new();
        for commit in repo.require_commits(&ids).await? {
            if let Some(toolset) = commit.toolset.filter(|_| options.takes_definitions())
                && self.toolsets.insert(toolset)
            {
                for blob in schemas(repo, toolset).await? {
                    let heads = match self.definitions.get_mut(&blob) {
                        Some(shown) => std::mem::take(&mut shown.heads),
                        None if options.hidden => Heads::new(),
                        None => continue,
                    };
                    if self.hidden[1].insert(blob) {
                        let commit = commit.clone();
                        candidates.push(Candidate {
                            commit,
                            blob,
                            hint: None,
                            is_definition: true,
                            heads,
                        });
                    }
                }
            }
            let Some(blob) = commit.content.filter(|_| options.takes(&commit)) else { continue };
            let heads = match self.messages.get_mut(&blob) {
                Some(shown) if shown.version.1 == commit.id() => std::mem::take(&mut shown.heads),
                Some(_) => continue,
                None if options.hidden && self.hidden[0].insert(blob) => Heads::new(),
                None => continue,
            };
            candidates.push(Candidate { commit, blob, hint: None, is_definition: false, heads });
        }
        Ok(Some(candidates))
    }
}

fn add(shown: &mut IdMap<BlobId, ShownContent>, blob: BlobId, commit: &Commit, heads: Range<u32>) {
    let version = (Reverse(commit.created_at), commit.id());
    match shown.entry(blob) {
        Entry::Vacant(entry) => {
            entry.insert(ShownContent { version, heads: vec![heads] });
        }
        Entry::Occupied(mut entry) => {
            let shown = entry.get_mut();
            shown.version = shown.version.min(version);
            let known = &mut shown.heads;
            match known.last_mut() {
                // Often the same content occurs several times in one context.
                Some(last) if last.start >= heads.start && last.end <= heads.end => *last = heads,
                Some(last) if last.start <= heads.start && last.end >= heads.end => {}
                Some(_) | None => known.push(heads),
            }
        }
    }
}

/// Returns the versions of the rows with a priority above `Skip`, each with its heads.
async fn shown(
    repo: &Repo,
    commits: Vec<Commit>,
    rows: Vec<FoundRow>,
) -> Result<Vec<(Commit, Range<u32>)>> {
    let mut known: IdMap<CommitId, Commit> =
        commits.into_iter().map(|commit| (commit.id(), commit)).collect();
    let named = rows.iter().flat_map(|row| [Some(row.version), row.mark]).flatten();
    let absent: IdSet<CommitId> = named.filter(|id| !known.contains_key(id)).collect();
    let absent: Vec<CommitId> = absent.into_iter().collect();
    for ids in absent.chunks(PAGES[1]) {
        known.extend(
            repo.require_commits(ids).await?.into_iter().map(|commit| (commit.id(), commit)),
        );
    }
    let rows = rows.into_iter().filter_map(|row| {
        let version = known.get(&row.version)?;
        let marked = row.mark.and_then(|mark| stated_priority(known.get(&mark)?));
        let priority = marked.or_else(|| version.kind.as_ref().map(Kind::default_priority));
        let is_shown = priority.is_some_and(|priority| priority > Priority::Skip);
        is_shown.then(|| (version.clone(), row.heads))
    });
    Ok(rows.collect())
}

/// Returns the changes of a commit. Only a long list is stored as a blob of its own.
async fn changes(repo: &Repo, commit: &Commit) -> Result<Arc<[Change]>> {
    match &commit.changes {
        Changes::List(list) => Ok(list.as_slice().into()),
        Changes::Blob(_) => Ok(repo.changes(commit).await?.into()),
    }
}

async fn schemas(repo: &Repo, toolset: ToolsetId) -> Result<Vec<BlobId>> {
    let toolset = repo.require_toolset(toolset).await?;
    Ok(toolset.entries().iter().map(|entry| entry.schema).collect())
}
