//! Transactions: commits on branches and moves of refs that are written together.

mod apply;
mod mend;
mod options;
mod refs;
mod rows;
mod seal;

use std::collections::{BTreeMap, HashSet};

use tract_compile::{IdMap, IdSet, UnstoredObjects};
use tract_core::{
    Batch, BatchId, Blob, BlobId, CallRef, Change, Commit, CommitId, Content, Op, RefName, ToolId,
};

pub use self::options::WriteOptions;
use self::refs::StagedRef;
pub(crate) use self::refs::ref_edit;
pub(crate) use self::seal::check_limits;
use crate::plan::{
    BranchTip, Line, Plan, PlannedCommit, Records, Request, is_plain, message, plan,
};
use crate::repo::Repo;
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::Result;
use crate::repo::operation::Operation;
use crate::write::erasures::KnownErasures;
use crate::write::hooks::{Configured, Ruled, WriteTarget};

/// A transaction. Nothing is stored before [`apply`](Self::apply); later requests see the effects
/// of earlier ones.
pub struct Txn<'a> {
    repo: &'a Repo,
    operation: Operation,
    /// The objects to store. Its refs and requirements are filled in at the end.
    batch: Batch,
    imports: bool,
    lines: IdMap<CommitId, Line>,
    records: Records,
    planned_on: Option<CommitId>,
    /// The tip of a run of plain messages, whose history is only folded if something asks for it.
    tip: Option<BranchTip>,
    /// Boxed: a node of the map has room for eleven entries.
    refs: BTreeMap<RefName, Box<StagedRef>>,
    made: IdSet<CommitId>,
    /// The tool definitions and schemas among the tools of this write.
    known_tools: HashSet<(ToolId, BlobId)>,
    requires: IdSet<CommitId>,
    /// Commits without a time of their own that introduce tools.
    undated: Vec<CommitId>,
    /// The results to summarize automatically, read when first needed.
    summaries: Configured,
    /// The newest erasure when messages were read for derived rows.
    mark: Option<ErasureMark>,
    /// The erasures that branches were checked against. The write fails if there is a newer one.
    known_erasures: Option<KnownErasures>,
    /// Whether new refs may have names that only older versions allowed.
    any_name: bool,
}

/// A planned request and its base. Boxed: it is large, and so would be a future that contains it.
struct PlannedRequest {
    head: Option<CommitId>,
    on: PlanBase,
    planned: PlannedCommit,
}

enum PlanBase {
    /// The end of a run of plain messages.
    Tip(BranchTip),
    /// The end of a history that is not in memory; the request changes rows near it.
    Change(BranchTip),
    Line(Line),
}

impl<'a> Txn<'a> {
    /// Begins a write.
    ///
    /// # Errors
    /// [`Error::Random`](crate::Error::Random) when the operating system cannot provide randomness.
    pub fn new(repo: &'a Repo) -> Result<Self> {
        Self::within(repo, None)
    }

    /// Begins a write of an operation. Without one it belongs to the operation of the repository
    /// handle, or to a new one.
    pub(crate) fn within(repo: &'a Repo, operation: Option<&Operation>) -> Result<Self> {
        let operation = repo.operation_or_new(operation)?;
        Ok(Self {
            repo,
            batch: repo.batch(&operation, "")?,
            operation,
            imports: false,
            lines: IdMap::default(),
            records: Records::default(),
            planned_on: None,
            tip: None,
            refs: BTreeMap::new(),
            made: IdSet::default(),
            known_tools: HashSet::new(),
            requires: IdSet::default(),
            undated: Vec::new(),
            summaries: Configured::default(),
            mark: None,
            known_erasures: None,
            any_name: false,
        })
    }

    /// Reserves memory for commits that each have content.
    pub(crate) fn reserve(&mut self, commits: usize) {
        self.batch.commits.reserve_exact(commits);
        self.batch.blobs.reserve_exact(commits);
        self.made.reserve(commits);
        self.records.commits.reserve(commits);
        self.records.blobs.reserve(commits);
    }

    /// Marks the commits as recorded elsewhere. Records get no time and no batch unless the
    /// requests state them, so equal input gives equal commits; no handler is asked.
    #[must_use]
    pub fn importing(mut self) -> Self {
        self.imports = true;
        self
    }

    /// Allows new refs with names that older versions allowed, for copies of such stores.
    #[must_use]
    pub(crate) fn any_name(mut self) -> Self {
        self.any_name = true;
        self
    }

    /// Adds objects that were made elsewhere. Its refs are ignored: move them separately.
    pub(crate) fn bring(&mut self, batch: Batch) {
        for blob in &batch.blobs {
            self.records.insert_blob(blob.clone());
        }
        for toolset in &batch.toolsets {
            self.records.toolsets.insert(toolset.id(), Some(toolset.clone()));
        }
        for commit in batch.commits {
            self.records.insert(commit.clone());
            if self.made.insert(commit.id()) {
                self.batch.commits.push(commit);
            }
        }
        self.batch.blobs.extend(batch.blobs);
        self.batch.toolsets.extend(batch.toolsets);
        self.batch.tools.extend(batch.tools);
    }

    /// Provides the content of a version that can no longer be read from the store.
    pub(crate) fn know_content(&mut self, version: CommitId, content: Content) {
        self.records.contents.insert(version, content.into());
    }

    /// Returns whether the commits were recorded elsewhere.
    pub(crate) fn imports(&self) -> bool {
        self.imports
    }

    /// Returns the repository.
    pub fn repo(&self) -> &'a Repo {
        self.repo
    }

    /// Returns the id of this write in the ref log.
    pub fn id(&self) -> BatchId {
        self.batch.id
    }

    /// Returns the commits made so far, in order.
    pub fn commits(&self) -> &[Commit] {
        &self.batch.commits
    }

    /// Returns a commit that this write makes.
    pub fn made_here(&self, id: CommitId) -> Option<&Commit> {
        let commit = self.records.commits.get(&id).and_then(Option::as_ref);
        commit.filter(|_| self.made.contains(&id))
    }

    /// Returns the changes of a commit that this write makes, if they are stored in a blob.
    pub(crate) fn made_changes(&self, id: CommitId) -> Option<&[Change]> {
        self.records.changes.get(&id).map(AsRef::as_ref)
    }

    /// Reads a commit of this write or of the store.
    ///
    /// # Errors
    /// [`Error::Missing`](crate::Error::Missing) when neither contains it.
    pub(crate) async fn require_commit(&self, id: CommitId) -> Result<Commit> {
        match self.made_here(id) {
            Some(commit) => Ok(commit.clone()),
            None => self.repo.require_commit(id).await,
        }
    }

    /// Returns a blob that this write made or read.
    pub(crate) fn blob_here(&self, id: BlobId) -> Option<&Blob> {
        self.records.blobs.get(&id).and_then(Option::as_ref)
    }

    /// Adds a blob that a ref will point to.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge) when it exceeds the limit.
    pub fn blob(&mut self, blob: Blob) -> Result<()> {
        self.repo.limits().check_blob(blob.bytes().len())?;
        self.records.insert_blob(blob.clone());
        self.batch.blobs.push(blob);
        Ok(())
    }

    /// Returns the folded history of a head, made here or stored.
    ///
    /// # Errors
    /// When a commit of the history is missing or cannot be applied.
    pub async fn line(&self, head: Option<CommitId>) -> Result<Line> {
        // Only heads keep their history here; others are folded again from the nearest one known.
        let mut made = Vec::new();
        let mut next = head;
        let base = loop {
            match next.map(|id| (self.lines.get(&id), self.made_here(id))) {
                Some((Some(line), _)) => break line.clone(),
                Some((None, Some(commit))) => {
                    made.push(commit.clone());
                    next = commit.parent();
                }
                Some((None, None)) | None => break Box::pin(self.repo.line(next)).await?,
            }
        };
        if made.is_empty() {
            return Ok(base);
        }
        made.reverse();
        let blobs: Vec<Blob> = made
            .iter()
            .flat_map(|commit| commit.linked_blobs())
            .filter_map(|id| self.records.blobs.get(&id)?.clone())
            .collect();
        let unstored = UnstoredObjects { blobs: &blobs, commit: &|id| self.made_here(id).cloned() };
        Ok(Box::pin(self.repo.compiler().advance_with(&base, &made, unstored)).await?)
    }

    /// Calls a planner and reads the records that it asks for.
    pub(crate) async fn plan_with<T>(
        &mut self,
        head: Option<CommitId>,
        planner: impl FnMut(&Records) -> Plan<T>,
    ) -> Result<T> {
        if self.planned_on != head {
            self.records.restart_chain();
            self.planned_on = head;
        }
        self.repo.plan_with(head, &mut self.records, planner).await
    }

    /// Carries out a request on a branch and moves the branch to the new commit.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) when the planner refuses;
    /// [`Error::Rejected`](crate::Error::Rejected) and [`Error::Deferred`](crate::Error::Deferred)
    /// when a handler does. The transaction is then unchanged.
    pub async fn add(&mut self, branch: &RefName, request: &Request) -> Result<Commit> {
        Ok(self.add_asking(branch, request).await?.0)
    }

    /// Carries out a request. Also returns its replacement if a handler changed it.
    pub(crate) async fn add_asking(
        &mut self,
        branch: &RefName,
        request: &Request,
    ) -> Result<(Commit, Option<Box<Request>>)> {
        let ready = self.ready(branch, request).await?;
        if !self.imports {
            match self.ask(branch, request, &ready).await {
                Ok(None) => {}
                Ok(Some(request)) => {
                    let commit = Box::pin(self.add_decided(branch, &request)).await?;
                    return Ok((commit, Some(request)));
                }
                Err(stopped) => return Err(Box::pin(Self::store_stopped(self.repo, stopped)).await),
            }
        }
        Ok((self.write(branch, ready).await?, None))
    }

    /// Carries out a request that handlers have already decided on.
    pub(crate) async fn add_decided(
        &mut self,
        branch: &RefName,
        request: &Request,
    ) -> Result<Commit> {
        let ready = self.ready(branch, request).await?;
        self.write(branch, ready).await
    }

    /// Asks the handlers about a request without carrying it out.
    pub(crate) async fn rule(&mut self, branch: &RefName, request: &Request) -> Ruled<Request> {
        let ready = self.ready(branch, request).await?;
        self.ask(branch, request, &ready).await
    }

    /// Plans a request on the branch as it is in this transaction.
    async fn ready(&mut self, branch: &RefName, request: &Request) -> Result<Box<PlannedRequest>> {
        let head = self.head(branch).await?;
        if let Request::Append(draft) | Request::Import(draft) = request
            && is_plain(draft)
        {
            let tip = match self.tip {
                Some(tip) if tip.head == head => tip,
                _ => self.tip_at(head).await?,
            };
            let planned = self.plan_with(head, |_| message(tip, draft, None)).await?;
            return Ok(Box::new(PlannedRequest { head, on: PlanBase::Tip(tip), planned }));
        }
        if let Some(ready) = self.ready_at_end(branch, head, request).await? {
            return Ok(ready);
        }
        let line = self.line(head).await?;
        let planned = self.plan_with(head, |records| plan(request, &line, records)).await?;
        Ok(Box::new(PlannedRequest { head, on: PlanBase::Line(line), planned }))
    }

    /// Plans a request that touches only rows near the end of a history that is not in memory;
    /// `None` if it may touch others. Once this handle has written to the branch, reading the whole
    /// history pays off.
    async fn ready_at_end(
        &mut self,
        branch: &RefName,
        head: Option<CommitId>,
        request: &Request,
    ) -> Result<Option<Box<PlannedRequest>>> {
        let repo = self.repo;
        let touches_few = matches!(request, Request::Edit { .. } | Request::Annotate { .. });
        let Some(id) = head.filter(|id| {
            touches_few
                && self.made_here(*id).is_none()
                && repo.heads().tip(branch).tip.is_none()
                && repo.compiler().cached_line(*id).is_none()
        }) else {
            return Ok(None);
        };
        let Some(line) = Box::pin(repo.recent_line(id)).await? else { return Ok(None) };
        match self.plan_with(head, |records| plan(request, &line, records)).await {
            Ok(planned) => {
                let tip = BranchTip::from(&line);
                let on = PlanBase::Change(tip);
                Ok(Some(Box::new(PlannedRequest { head, on, planned })))
            }
            // The whole history may allow the request; if it does not, its refusal is more precise.
            Err(_) => Ok(None),
        }
    }

    /// Returns the facts about the history of a head that a plain message is planned from.
    async fn tip_at(&self, head: Option<CommitId>) -> Result<BranchTip> {
        match head {
            Some(id) if self.made_here(id).is_none() => Box::pin(self.repo.tip_of(id)).await,
            _ => Ok(BranchTip::from(&self.line(head).await?)),
        }
    }

    async fn write(&mut self, branch: &RefName, ready: Box<PlannedRequest>) -> Result<Commit> {
        match ready.on {
            PlanBase::Tip(tip) => self.append(branch, tip, ready.planned),
            PlanBase::Change(tip) => self.change(branch, tip, ready.planned),
            PlanBase::Line(line) => Box::pin(self.commit(branch, &line, ready.planned)).await,
        }
    }

    /// Asks the hooks about a planned request.
    async fn ask(
        &self,
        branch: &RefName,
        request: &Request,
        ready: &PlannedRequest,
    ) -> Ruled<Request> {
        // Check sizes first: handlers are not given contents that exceed the limits.
        check_limits(self.repo.limits(), &ready.planned.blobs, None)?;
        let tool = match &ready.planned.record.op {
            Op::Append { answers: Some(call), .. } => self.called(call, &ready.on),
            _ => None,
        };
        let place = WriteTarget {
            summaries: Some(&self.summaries),
            ..WriteTarget::new(self.repo, branch, ready.head)
        };
        place.rule(request, &ready.planned, tool).await
    }

    /// Returns the name of the tool that was called, from the records that the planner read.
    fn called(&self, call: &CallRef, on: &PlanBase) -> Option<String> {
        let PlanBase::Line(line) = on else { return None };
        let version = line.view().get(call.slot)?.version;
        let index = usize::try_from(call.index).ok()?;
        let content = self.records.contents.get(&version)?;
        content.calls().nth(index).map(|call| call.name.clone())
    }
}
