//! Transactions: commits on branches and moves of refs that are written together.

mod apply;
mod mend;
mod seal;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use tract_compile::{IdMap, IdSet, UnstoredObjects};
use tract_core::store::WritePosition;
use tract_core::{
    Batch, BatchId, Blob, BlobId, CallRef, Change, Commit, CommitId, Content, Expect, Op, RefEdit,
    RefName, RefTarget, ToolId,
};

pub(crate) use self::mend::mend_erased;
pub(crate) use self::seal::check_limits;
use crate::history::counts::{recent_history, tip_of};
use crate::history::turns::{LoadedObjects, NewRow, due, silent_row};
use crate::plan::{
    BranchTip, History, Plan, PlannedCommit, Records, Refusal, Request, is_plain, message, plan,
};
use crate::repo::Repo;
use crate::repo::batch::require_done;
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::{Error, Result};
use crate::repo::operation::Operation;
use crate::write::erasures::KnownErasures;
use crate::write::fetch::plan_with;
use crate::write::hooks::{Configured, NotWritten, Ruled, WriteTarget};
use crate::write::pending::Document;

/// Number of histories that a write keeps in addition to those of its heads: enough for the bases of
/// the merges of a few branches that merge each other.
const LATELY: usize = 16;

/// A transaction. Nothing is stored before [`apply`](Self::apply); later requests see the effects
/// of earlier ones.
pub struct Txn<'a> {
    repo: &'a Repo,
    operation: Operation,
    /// The objects to store. Its refs and requirements are filled in at the end.
    batch: Batch,
    imports: bool,
    histories: IdMap<CommitId, History>,
    /// The last histories of commits of this write that are no heads, such as the bases of merges.
    lately: Mutex<VecDeque<History>>,
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
    History(History),
}

impl<'a> Txn<'a> {
    /// Begins a write.
    ///
    /// # Errors
    /// [`Error::Random`] when the operating system cannot provide randomness.
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
            histories: IdMap::default(),
            lately: Mutex::default(),
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

    /// Requires that nothing is written between a position and this write. Otherwise its answer is
    /// [`Applied::Moved`](tract_core::Applied::Moved).
    pub(crate) fn require_position(&mut self, position: WritePosition) {
        self.batch.position = Some(position);
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
    /// [`Error::Missing`] when neither contains it.
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
    /// [`Error::TooLarge`] when it exceeds the limit.
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
    pub async fn fold(&self, head: Option<CommitId>) -> Result<History> {
        // Only heads and a few others keep their history here; the rest are folded again from the
        // nearest one known.
        let mut made = Vec::new();
        let mut next = head;
        let base = loop {
            match next.map(|id| (self.known_history(id), self.made_here(id))) {
                Some((Some(history), _)) => break history,
                Some((None, Some(commit))) => {
                    made.push(commit.clone());
                    next = commit.parent();
                }
                Some((None, None)) | None => break Box::pin(self.repo.fold(next)).await?,
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
        let history = Box::pin(self.repo.compiler().advance_with(&base, &made, unstored)).await?;
        self.keep_history(history.clone());
        Ok(history)
    }

    /// Returns a history that this write folded, if it is still in memory.
    fn known_history(&self, head: CommitId) -> Option<History> {
        self.histories.get(&head).cloned().or_else(|| {
            let lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
            lately.iter().find(|history| history.head() == Some(head)).cloned()
        })
    }

    /// Keeps a history that is no head. One for each commit of a long write would need quadratic
    /// memory, so only a few are kept.
    pub(crate) fn keep_history(&self, history: History) {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        if lately.len() >= LATELY {
            lately.pop_front();
        }
        lately.push_back(history);
    }

    /// Calls a planner and reads the records that it asks for.
    pub(crate) async fn plan_with<T>(
        &mut self,
        head: Option<CommitId>,
        planner: impl FnMut(&Records) -> Plan<T>,
    ) -> Result<T> {
        if self.planned_on != head {
            // Only the chain of first parents depends on the head. All other records are named by
            // their hash and stay valid.
            self.records.restart_chain();
            self.planned_on = head;
        }
        plan_with(self.repo, head, &mut self.records, planner).await
    }

    /// Carries out a request on a branch and moves the branch to the new commit.
    ///
    /// # Errors
    /// [`Error::Refused`] when the planner refuses;
    /// [`Error::Rejected`] and [`Error::Deferred`]
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
            // A handler may write to this branch while it is asked. The plan stays as it is: this
            // transaction expects the head that it read, so the write then conflicts and is planned
            // again.
            match self.ask(branch, request, &ready).await {
                Ok(None) => {}
                Ok(Some(request)) => {
                    let commit = Box::pin(self.add_decided(branch, &request)).await?;
                    return Ok((commit, Some(request)));
                }
                // The document goes into a write of its own, because this transaction is dropped
                // with everything that was added to it before.
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
        let history = self.fold(head).await?;
        let planned = self.plan_with(head, |records| plan(request, &history, records)).await?;
        Ok(Box::new(PlannedRequest { head, on: PlanBase::History(history), planned }))
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
                && repo.compiler().cached_history(*id).is_none()
        }) else {
            return Ok(None);
        };
        let Some(history) = Box::pin(recent_history(repo, id)).await? else { return Ok(None) };
        match self.plan_with(head, |records| plan(request, &history, records)).await {
            Ok(planned) => {
                let tip = BranchTip::from(&history);
                let on = PlanBase::Change(tip);
                Ok(Some(Box::new(PlannedRequest { head, on, planned })))
            }
            // The record of the target alone decides this.
            Err(error @ Error::Refused(Refusal::NoMessage { .. })) => Err(error),
            // The whole history may allow the request; if it does not, its refusal is more precise.
            Err(_) => Ok(None),
        }
    }

    /// Returns the facts about the history of a head that a plain message is planned from.
    async fn tip_at(&self, head: Option<CommitId>) -> Result<BranchTip> {
        match head {
            Some(id) if self.made_here(id).is_none() => Box::pin(tip_of(self.repo, id)).await,
            _ => Ok(BranchTip::from(&self.fold(head).await?)),
        }
    }

    async fn write(&mut self, branch: &RefName, ready: Box<PlannedRequest>) -> Result<Commit> {
        match ready.on {
            PlanBase::Tip(tip) => self.append(branch, tip, ready.planned),
            PlanBase::Change(tip) => self.change(branch, tip, ready.planned),
            PlanBase::History(history) => {
                Box::pin(self.commit(branch, &history, ready.planned)).await
            }
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
        let PlanBase::History(history) = on else { return None };
        let version = history.view().get(call.slot)?.version;
        let index = usize::try_from(call.index).ok()?;
        let content = self.records.contents.get(&version)?;
        content.calls().nth(index).map(|call| call.name.clone())
    }
}

/// Options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The expected head; `Some(None)` for a branch without a commit. When absent, the write uses
    /// the current head and plans again when it loses a race.
    pub expect: Option<Option<CommitId>>,
    /// The verb for the ref log. Default: that of the first request.
    pub what: Option<String>,
    /// The reason for the ref log.
    pub why: Option<String>,
    /// Shared with other writes of one command, so that one `undo` reverts all of them.
    pub operation: Option<Operation>,
    /// Whether to refuse an edit whose target is not the current version of its message, instead of
    /// replacing a newer version. Checked again after a lost race.
    pub current_versions: bool,
}

/// A ref as it was read, and its new target.
struct StagedRef {
    found: Option<RefTarget>,
    to: Option<RefTarget>,
    /// Whether the ref must be unchanged even if it is not moved.
    held: bool,
}

impl Txn<'_> {
    /// Returns whether any ref is moved.
    pub fn moves_refs(&self) -> bool {
        self.refs.values().any(|moved| moved.to != moved.found)
    }

    /// Reads many refs at once and caches them for [`target`](Self::target).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn look_up(&mut self, names: &[RefName]) -> Result<()> {
        let unknown = names.iter().filter(|name| !self.refs.contains_key(*name));
        let unknown: Vec<RefName> = unknown.cloned().collect();
        let found = self.repo.store().refs(self.repo.name(), &unknown).await?;
        for (name, target) in unknown.iter().zip(found) {
            self.found(name, target);
        }
        Ok(())
    }

    /// Returns the target of a ref, including moves by this transaction.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn target(&mut self, name: &RefName) -> Result<Option<RefTarget>> {
        if let Some(moved) = self.refs.get(name) {
            return Ok(moved.to.clone());
        }
        let found = self.repo.ref_target(name).await?;
        self.found(name, found.clone());
        Ok(found)
    }

    /// Returns the head of a branch, including commits of this transaction.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn head(&mut self, branch: &RefName) -> Result<Option<CommitId>> {
        Ok(self.target(branch).await?.and_then(|target| target.commit()))
    }

    /// Requires a ref to have this target when the write is applied.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it already has another target.
    pub async fn expect(&mut self, name: &RefName, at: Option<RefTarget>) -> Result<()> {
        let found = self.target(name).await?;
        if found == at {
            Ok(())
        } else {
            let expected = at.map_or(Expect::Absent, Expect::Is);
            Err(Error::Conflict { name: name.clone(), expected, found })
        }
    }

    /// Moves, creates or deletes a ref. The write conflicts if it was moved since it was first
    /// read.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn move_ref(&mut self, name: &RefName, to: Option<RefTarget>) -> Result<()> {
        self.target(name).await?;
        if let Some(moved) = self.refs.get_mut(name) {
            moved.to = to;
        }
        Ok(())
    }

    /// Moves a ref whose current target is known to the caller. The write conflicts if it differs.
    pub fn move_from(&mut self, name: &RefName, from: Option<RefTarget>, to: Option<RefTarget>) {
        self.found(name, from).to = to;
    }

    /// Adds a document, which must not exist yet.
    pub(crate) fn add_document(&mut self, document: &Document) -> Result<()> {
        self.replace_document(document, None)
    }

    /// Adds a document in place of the current target of its ref.
    pub(crate) fn replace_document(
        &mut self,
        document: &Document,
        now: Option<RefTarget>,
    ) -> Result<()> {
        self.blob(document.blob.clone())?;
        self.move_from(&document.name, now, Some(document.target()));
        Ok(())
    }

    /// Stores a document in a transaction of its own.
    pub(crate) async fn store_document(repo: &Repo, document: &Document, what: &str) -> Result<()> {
        let mut txn = Txn::new(repo)?;
        txn.add_document(document)?;
        require_done(txn.apply(what, &WriteOptions::default()).await?)
    }

    /// Stores the document of a decision against a request. Returns the error to report.
    pub(crate) async fn store_stopped(repo: &Repo, stopped: NotWritten) -> Error {
        let (document, what, error) = match stopped {
            NotWritten::Rejected(rejected, document) => {
                (document, "reject", Error::Rejected(rejected))
            }
            NotWritten::Deferred(deferred, document) => {
                (document, "defer", Error::Deferred(deferred))
            }
            NotWritten::Failed(error) => return error,
        };
        Self::store_document(repo, &document, what).await.err().unwrap_or(error)
    }

    /// Requires this commit to be stored when the write is applied.
    pub(crate) fn require(&mut self, id: CommitId) {
        self.requires.insert(id);
    }

    /// Requires this ref to have the target `at` when the write is applied. It is not moved, unless
    /// another part of the transaction moves it.
    pub(crate) fn hold(&mut self, name: &RefName, at: Option<RefTarget>) {
        self.found(name, at).held = true;
    }

    /// Assumes that a branch has the tip that this handle left it at. The write conflicts if not.
    pub(crate) fn assume_tip(&mut self, branch: &RefName, tip: BranchTip) {
        self.found(branch, tip.head.map(RefTarget::Commit));
        self.tip = Some(tip);
    }

    fn found(&mut self, name: &RefName, found: Option<RefTarget>) -> &mut StagedRef {
        let moved = StagedRef { to: found.clone(), found, held: false };
        // The first read counts, even if the caller reads again later. The batch expects it, so
        // every decision of this transaction rests on the same state of the ref.
        self.refs.entry(name.clone()).or_insert_with(|| Box::new(moved))
    }
}

/// Returns the edit that moves a ref from the target it was read with.
pub(crate) fn ref_edit(name: RefName, found: Option<RefTarget>, to: Option<RefTarget>) -> RefEdit {
    RefEdit { name, expect: found.map_or(Expect::Absent, Expect::Is), to }
}

impl Txn<'_> {
    /// Folds the histories of heads at the end of runs of plain messages, if a snapshot or a row of
    /// the turn index may be due. All other heads are folded when they are read: a plain message
    /// fits any history, so it needs no check now.
    async fn fold_heads(&mut self) -> Result<()> {
        let moved = self.refs.values().filter_map(|moved| moved.to.as_ref()?.commit());
        // `roomy` heads are not folded. That is what makes an append constant in time: its cost
        // must not depend on the length of the history.
        let (every, made) = (self.repo.turn_rows_every(), self.batch.commits.len() as u64);
        let roomy = |head: CommitId| {
            self.tip.is_some_and(|tip| {
                let no_row = tip.silence.is_some() || tip.commits % every >= made;
                // A row can be made from the counts alone, without the folded history.
                let no_row = no_row || tip.counts.is_some();
                tip.head == Some(head) && tip.room > 0 && no_row
            })
        };
        let heads: Vec<CommitId> = moved
            // A head that this write did not make has had its snapshot and its row decided when it
            // was written.
            .filter(|head| self.made.contains(head) && !self.histories.contains_key(head))
            .filter(|head| !roomy(*head))
            .collect();
        for head in heads {
            let mut history = self.fold(Some(head)).await?;
            self.batch.derived.extend(self.repo.compiler().snapshot_due(&mut history));
            self.histories.insert(head, history);
        }
        Ok(())
    }

    /// Adds the rows of the turn index that are due at the heads. Rows that cannot be made are
    /// skipped: queries work without them.
    async fn add_turn_rows(&mut self) -> Vec<NewRow> {
        let every = self.repo.turn_rows_every();
        let mut rows = Vec::new();
        for moved in self.refs.values() {
            let Some(head) = moved.to.as_ref().and_then(RefTarget::commit) else { continue };
            let run = self.tip.filter(|tip| tip.head == Some(head));
            let history = self.histories.get(&head);
            let Some(count) =
                history.map(|history| history.commit_count()).or(run.map(|run| run.commits))
            else {
                continue;
            };
            let counts = history.map(|history| history.counts()).or(run.and_then(|run| run.counts));
            // A row is due if the new commits of this head cross a multiple of `every`. First a
            // bound that costs nothing: all commits of the batch. Only if that crosses one are the
            // commits of this head counted.
            if count % every >= self.batch.commits.len() as u64 {
                continue;
            }
            let made = self.made_down_from(head);
            if count / every == count.saturating_sub(made.len() as u64) / every {
                continue;
            }
            // The row describes messages without entries, so it is made from the tip alone and
            // quotes nothing that an erasure could remove.
            if let Some(silence) = run.and_then(|run| run.silence) {
                rows.push(silent_row(self.repo, head, silence, counts));
                continue;
            }
            let commits = self.batch.commits.iter().map(|commit| (commit.id(), commit.clone()));
            let blobs = self.batch.blobs.iter().map(|blob| (blob.id(), blob.clone()));
            let mut hand = LoadedObjects {
                commits: commits.collect(),
                blobs: blobs.collect(),
                ..LoadedObjects::default()
            };
            // Read the mark before the messages of the row: a later erasure then makes the write
            // drop the row.
            let known = self.known_erasures.as_ref().map(|known| &known.mark);
            let mark = match known.or(self.mark.as_ref()) {
                Some(mark) => mark.clone(),
                None => match ErasureMark::read(self.repo).await {
                    Ok(mark) => mark,
                    Err(_left_away) => continue,
                },
            };
            if let Ok(row) = Box::pin(due(self.repo, head, made, counts, &mut hand)).await {
                rows.push(row);
                self.mark = Some(mark);
            }
        }
        self.batch.derived.extend(rows.iter().map(|row| row.row.clone()));
        rows
    }

    /// Returns the commits of this write that lead to a head, newest first.
    fn made_down_from(&self, head: CommitId) -> Vec<Commit> {
        let next = |commit: &&Commit| commit.parent().and_then(|id| self.made_here(id));
        std::iter::successors(self.made_here(head), next).cloned().collect()
    }
}
