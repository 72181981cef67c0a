//! The verb `merge`: common ancestors, fast-forward, and the merge commit.

mod kept;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use tract_core::store::Walk;
use tract_core::{Commit, CommitId, ObjectId, RefName, RefTarget};
use tract_hooks::BeforeMerge;

pub(crate) use self::kept::decisions_ref;
pub use self::kept::{KeptConflict, KeptMerge, MergeProgress};
use crate::error::{Error, Result};
use crate::pending::{Document, PendingRequest, WriteTarget};
use crate::plan::{
    Details, MergeConflict, MergeSides, NewContent, Refusal, Request, Resolution, ResolveFn,
    Resolver, merge as plan_merge,
};
use crate::rebase::Shared;
use crate::repo::Repo;
use crate::txn::{Txn, WriteOptions};

/// Options of a merge.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Makes a commit even where the branch could merely be forwarded.
    pub no_fast_forward: bool,
    /// Merges histories that have no commit in common.
    pub allow_unrelated: bool,
    /// What the commit says of itself.
    pub details: Details,
    resolve: Option<Resolve>,
}

#[derive(Clone)]
struct Resolve(Arc<ResolveFn>);

impl fmt::Debug for Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolve")
    }
}

impl MergeOptions {
    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a commit even where the branch could merely be forwarded.
    #[must_use]
    pub fn no_fast_forward(mut self) -> Self {
        self.no_fast_forward = true;
        self
    }

    /// Merges histories that have no commit in common.
    #[must_use]
    pub fn allow_unrelated(mut self) -> Self {
        self.allow_unrelated = true;
        self
    }

    /// Sets what the commit says of itself.
    #[must_use]
    pub fn details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }

    /// Resolves conflicts with a function; `None` leaves a conflict open. Each conflict is asked
    /// about once. The metadata of the merge commit lists the resolutions as `resolutions`.
    ///
    /// ```
    /// use tract_engine::plan::{ConflictKind, Resolution};
    /// use tract_engine::MergeOptions;
    /// let options = MergeOptions::new().resolve(|conflict| match conflict.kind {
    ///     ConflictKind::Version => Some(Resolution::Both),
    ///     _ => Some(Resolution::Theirs),
    /// });
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn resolve(
        mut self,
        resolve: impl Fn(&MergeConflict) -> Option<Resolution> + Send + Sync + 'static,
    ) -> Self {
        self.resolve = Some(Resolve(Arc::new(resolve)));
        self
    }

    fn resolver(&self) -> Resolver<'_> {
        self.resolve.as_ref().map_or_else(Resolver::none, |resolve| Resolver::new(&*resolve.0))
    }
}

/// What a merge did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merged {
    /// The branch has all that the source has.
    NothingToMerge,
    /// The branch was forwarded to the source.
    FastForward {
        /// Where it points now.
        head: CommitId,
    },
    /// A commit joins both.
    Commit(Commit),
}

/// What handlers made of a merge: details and a document to write, where there is something to say.
type MergeNote = Option<Box<(Details, Document)>>;

impl Repo {
    /// Brings what a head has into a branch.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`Refusal::Conflicts`](crate::Refusal) when both sides changed the
    /// same and [`MergeOptions::resolve`] does not resolve it, with
    /// [`Refusal::IllegalResolution`](crate::Refusal) when a resolution does not fit its conflict;
    /// nothing is written then.
    pub async fn merge(
        &self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        let mut races = self.races();
        // Handlers are asked once, however often the race is lost.
        let mut ruling = None;
        let mut resolver = options.resolver();
        loop {
            let mut txn = Txn::new(self)?;
            let merged =
                txn.merge_asking(branch, source, options, &mut ruling, &mut resolver).await?;
            if merged == Merged::NothingToMerge {
                return Ok(merged);
            }
            if races.won(txn.apply("merge", &WriteOptions::default()).await?).await? {
                return Ok(merged);
            }
        }
    }

    /// Plans a merge and writes nothing. No handler is asked.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub async fn preview_merge(
        &self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        Txn::new(self)?.merge_decided(branch, source, options).await
    }
}

impl Txn<'_> {
    /// Brings what a head has into a branch, as a part of this write.
    ///
    /// # Errors
    /// As [`Repo::merge`].
    pub async fn merge(
        &mut self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        self.merge_asking(branch, source, options, &mut None, &mut options.resolver()).await
    }

    /// Merges without asking handlers.
    pub(crate) async fn merge_decided(
        &mut self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        let resolver = &mut options.resolver();
        self.merge_asking(branch, source, options, &mut Some(None), resolver).await
    }

    /// Returns what a branch shares with another head: enough of it to tell for each commit of the
    /// branch, from the head on, whether it is the first that both have.
    pub(crate) async fn shared(&mut self, head: CommitId, other: CommitId) -> Result<Shared> {
        let ancestry = common(self, head, other).await?;
        let contains_head = matches!(ancestry, Ancestry::Contained);
        let commits = match ancestry {
            Ancestry::Forward => HashSet::from([head]),
            Ancestry::Best(bases) if bases.is_empty() => HashSet::new(),
            Ancestry::Contained | Ancestry::Best(_) => {
                ancestors(self, &mut Graph::default(), other).await?
            }
        };
        Ok(Shared { contains_head, commits })
    }

    /// Merges; handlers are asked where there is no ruling yet.
    async fn merge_asking(
        &mut self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
        ruling: &mut Option<MergeNote>,
        resolver: &mut Resolver<'_>,
    ) -> Result<Merged> {
        let head = self.head(branch).await?;
        let ancestry = match head {
            Some(head) => common(self, head, source).await?,
            None => Ancestry::Forward,
        };
        let forward = matches!(ancestry, Ancestry::Forward) && !options.no_fast_forward;
        let forward = forward || head.is_none();
        if matches!(ancestry, Ancestry::Contained) {
            return Ok(Merged::NothingToMerge);
        }
        if matches!(&ancestry, Ancestry::Best(bases) if bases.is_empty())
            && !options.allow_unrelated
        {
            return Err(Refusal::Unrelated.into());
        }
        let hooks = self.repo().hooks();
        if ruling.is_none() && hooks.has_handler::<BeforeMerge>() && !self.imports() {
            let event = BeforeMerge::new(branch.clone(), vec![source]);
            let event = event.head(head).fast_forward(forward);
            let decision = hooks.before_merge(&event).await;
            let request = PendingRequest::Merge {
                source,
                no_fast_forward: options.no_fast_forward,
                details: options.details.clone(),
                conflicts: None,
            };
            match WriteTarget::new(self.repo(), branch, head).merge(decision, request) {
                Ok(noted) => *ruling = Some(noted),
                Err(stopped) => return Err(stopped.store(self.repo()).await),
            }
        }
        let noted_down = ruling.as_ref().and_then(Option::as_ref);
        if forward {
            if self.made_here(source).is_none() {
                self.repo().require_commit(source).await?;
            }
            // No commit is made that could contain the record.
            if let Some(noted) = noted_down {
                noted.1.add_to(self)?;
            }
            self.move_ref(branch, Some(RefTarget::Commit(source))).await?;
            return Ok(Merged::FastForward { head: source });
        }
        let bases = match ancestry {
            Ancestry::Best(bases) => bases,
            Ancestry::Forward | Ancestry::Contained => head.into_iter().collect(),
        };
        let ours = self.line(head).await?;
        let theirs = self.line(Some(source)).await?;
        let mut lines = Vec::with_capacity(bases.len());
        for base in bases {
            lines.push(self.line(Some(base)).await?);
        }
        let sides = MergeSides { ours: &ours, theirs: &theirs, bases: &lines };
        let details = noted_down.map_or(&options.details, |noted| &noted.0);
        let planned =
            self.plan_with(head, |records| plan_merge(sides, records, details, resolver)).await?;
        let merged = self.commit(branch, &ours, planned.commit).await?;
        let details = Details {
            origin: options.details.origin.clone(),
            created_at: options.details.created_at,
            ..Details::default()
        };
        for (target, text) in planned.texts {
            let content = NewContent::Text(text);
            let edit = Request::Edit { target, content, details: details.clone() };
            Box::pin(self.add_decided(branch, &edit)).await?;
        }
        Ok(Merged::Commit(merged))
    }
}

/// How two heads are related.
enum Ancestry {
    /// Ours is an ancestor of theirs.
    Forward,
    /// Theirs is ours, or an ancestor of it.
    Contained,
    /// The best common ancestors: those that are no ancestor of another one. Maybe none.
    Best(Vec<CommitId>),
}

/// Parents as far as they were read.
#[derive(Default)]
struct Graph(HashMap<CommitId, Vec<CommitId>>);

impl Graph {
    /// Reads the parents of a commit, and with them those of its first-parent ancestors.
    async fn parents(&mut self, txn: &Txn<'_>, id: CommitId, limit: usize) -> Result<&[CommitId]> {
        if !self.0.contains_key(&id) {
            match txn.made_here(id) {
                Some(commit) => self.0.extend([(id, commit.parents.clone())]),
                None => {
                    let (repo, walk) = (txn.repo(), Walk { limit, ..Walk::from(id) });
                    let page = repo.store().walk(repo.name(), walk).await?;
                    let commits = page.steps.into_iter().map(|step| step.commit);
                    self.0.extend(commits.map(|commit| (commit.id(), commit.parents.clone())));
                }
            }
        }
        self.0.get(&id).map(Vec::as_slice).ok_or(Error::Missing(ObjectId::Commit(id)))
    }
}

/// Finds how two heads are related, over all parents.
async fn common(txn: &Txn<'_>, ours: CommitId, theirs: CommitId) -> Result<Ancestry> {
    if ours == theirs {
        return Ok(Ancestry::Contained);
    }
    let mut graph = Graph::default();
    if let Some(near) = near(txn, &mut graph, ours, theirs).await? {
        return Ok(near);
    }
    let mine = ancestors(txn, &mut graph, ours).await?;
    if mine.contains(&theirs) {
        return Ok(Ancestry::Contained);
    }
    let yours = ancestors(txn, &mut graph, theirs).await?;
    if yours.contains(&ours) {
        return Ok(Ancestry::Forward);
    }
    // What lies between two common ancestors is common too, so an ancestor of another one
    // is a parent of a common one.
    let common: HashSet<CommitId> = mine.intersection(&yours).copied().collect();
    let mut inner = HashSet::new();
    for id in &common {
        inner.extend(graph.parents(txn, *id, 1).await?.iter().copied());
    }
    let mut best: Vec<CommitId> = common.difference(&inner).copied().collect();
    best.sort_unstable();
    Ok(Ancestry::Best(best))
}

/// The usual case: two first-parent lines without merges since they parted. Reads no further
/// than a few times as far as it has to.
async fn near(
    txn: &Txn<'_>,
    graph: &mut Graph,
    ours: CommitId,
    theirs: CommitId,
) -> Result<Option<Ancestry>> {
    let mut lines = [HistoryTail::new(ours), HistoryTail::new(theirs)];
    let mut limit = 64;
    loop {
        for line in &mut lines {
            if !line.grow(txn, graph, limit).await? {
                return Ok(None);
            }
        }
        let [mine, yours] = &lines;
        if let Some(fork) = yours.ids.iter().find(|id| mine.seen.contains(id)) {
            return Ok(Some(match *fork {
                fork if fork == ours => Ancestry::Forward,
                fork if fork == theirs => Ancestry::Contained,
                fork => Ancestry::Best(vec![fork]),
            }));
        }
        if lines.iter().all(|line| line.next.is_none()) {
            return Ok(Some(Ancestry::Best(Vec::new())));
        }
        limit = (limit * 4).min(4096);
    }
}

struct HistoryTail {
    ids: Vec<CommitId>,
    seen: HashSet<CommitId>,
    next: Option<CommitId>,
}

impl HistoryTail {
    fn new(head: CommitId) -> Self {
        Self { ids: Vec::new(), seen: HashSet::new(), next: Some(head) }
    }

    /// Walks `limit` commits further; returns `false` at a merge.
    async fn grow(&mut self, txn: &Txn<'_>, graph: &mut Graph, limit: usize) -> Result<bool> {
        for _ in 0..limit {
            let Some(id) = self.next else { break };
            let parents = graph.parents(txn, id, limit).await?;
            if parents.len() > 1 {
                return Ok(false);
            }
            self.next = parents.first().copied();
            self.ids.push(id);
            self.seen.insert(id);
        }
        Ok(true)
    }
}

async fn ancestors(txn: &Txn<'_>, graph: &mut Graph, head: CommitId) -> Result<HashSet<CommitId>> {
    let mut seen = HashSet::from([head]);
    let mut open = vec![head];
    while let Some(id) = open.pop() {
        for parent in graph.parents(txn, id, 4096).await? {
            if seen.insert(*parent) {
                open.push(*parent);
            }
        }
    }
    Ok(seen)
}
