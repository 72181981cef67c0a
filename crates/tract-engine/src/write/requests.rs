//! The write path of one branch.
//!
//! A write goes through five steps:
//! 1. Assume the tip. `Heads` caches where the writes of this handle leave the branch, including
//!    those that are still in flight. The write waits for its turn and takes that tip without
//!    reading the head.
//! 2. Plan. The planner turns each request into a record on top of the tip; [`Txn`] reads the
//!    records that it asks for.
//! 3. Seal. The hooks decide about each planned request, limits and shape are checked, and the
//!    commits and their blobs are added to one batch.
//! 4. Submit. The store is polled once with the batch, which fixes its place in the store's order.
//! 5. Pass the turn on. The next write plans on top of this one before this one is durable, so the
//!    store can flush both together. Then this write waits for the store's answer.
//!
//! The assumed tip is only a guess. The batch expects the branch to be there, so a wrong guess ends
//! in [`Applied::Conflict`], never in a wrong write. A guess is dropped when a write of this handle
//! conflicts, fails or is cancelled, when a write without a turn moves the branch, and when the
//! writes in flight do not finish within the patience of `heads`. The requests are then planned
//! again on the head that the store has.
//!
//! A write with [`WriteOptions::expect`] reads the head and takes no turn. A write that may call
//! handlers plans first, on a settled tip, and takes its turn only for the steps after that.

use std::borrow::Cow;

use tract_core::{Applied, Blob, Commit, CommitId, Draft, RefName, RefTarget, ToolSchema};
use tract_hooks::{BeforeCommit, BeforeCompress, ToolResultReceived};

use crate::plan::{BranchTip, Request, Selection, current_version, is_plain, unchanged_since};
use crate::repo::Repo;
use crate::repo::batch::{apply_and_tell, require_done};
use crate::repo::error::gone::is_gone;
use crate::repo::error::{Error, Result};
use crate::write::chosen::PlannedTargets;
use crate::write::races::{Attempts, Races};
use crate::write::spare::ReleasedContents;
use crate::write::txn::{Txn, WriteOptions, ref_edit};

/// Number of lost races after which a write no longer plans on top of a write in flight. The first
/// loss is usually another handle that moved the branch, and the second one an unlucky retry. A
/// store that applies batches in another order than they are submitted would make the write lose
/// every time: its predecessor would always arrive too late.
const UNSETTLED: usize = 2;

impl Repo {
    /// Carries out requests on a branch, in order: all of them in one durable write, or none. The
    /// first write to a branch creates it.
    ///
    /// # Behavior
    /// - Writes of one handle (and its clones) that set no [`WriteOptions::expect`] plan one after
    ///   another, in order of arrival, each on top of the one before it. They share flushes and
    ///   never conflict with each other. Dropping the future leaves the queue.
    /// - When another handle or process moves the branch, the write plans again on the new head,
    ///   for up to [`RepoOptions::retry_for`](crate::RepoOptions::retry_for).
    ///
    /// Owned requests use less memory: large contents are dropped once they are in the batch, and
    /// recovered from it if the write has to be retried.
    ///
    /// # Errors
    /// [`Error::Refused`] when a planner refuses; [`Error::Conflict`] when the branch does not
    /// point to [`WriteOptions::expect`]; [`Error::KeptMoving`] when every try within that time
    /// lost a race.
    pub fn write<'a>(
        &'a self,
        branch: &'a RefName,
        requests: impl Into<Cow<'a, [Request]>>,
        options: &'a WriteOptions,
    ) -> impl Future<Output = Result<Vec<Commit>>> + 'a {
        write_all(self, branch, requests.into(), options)
    }

    /// Carries out one request on a branch.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_one(
        &self,
        branch: &RefName,
        request: Request,
    ) -> impl Future<Output = Result<Commit>> {
        // Boxed in a vector: a request is large, and would be moved with the future that holds it.
        let requests = vec![request];
        async move {
            let commits = self.write(branch, requests, &WriteOptions::default()).await?;
            Ok(commits.into_iter().next().expect("one request gives one commit"))
        }
    }

    /// Commits a message.
    ///
    /// # Errors
    /// As [`write`](Self::write); a result that answers no open call is refused.
    pub fn append(&self, branch: &RefName, draft: Draft) -> impl Future<Output = Result<Commit>> {
        self.write_one(branch, Request::Append(draft))
    }

    /// Commits messages: all in one durable write, or none.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn append_all(
        &self,
        branch: &RefName,
        drafts: impl IntoIterator<Item = Draft>,
    ) -> Result<Vec<Commit>> {
        let requests: Vec<Request> = drafts.into_iter().map(Request::Append).collect();
        self.write(branch, requests, &WriteOptions::default()).await
    }

    /// Replaces the text of a message; calls, pictures and the rest stay.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn edit(
        &self,
        branch: &RefName,
        target: CommitId,
        text: impl Into<String>,
    ) -> Result<Commit> {
        self.write_one(branch, Request::edit_text(target, text)).await
    }

    /// Sets the priority of messages.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn annotate(
        &self,
        branch: &RefName,
        targets: &[CommitId],
        priority: tract_core::Priority,
    ) -> Result<Commit> {
        self.write_one(branch, Request::annotate(targets, priority)).await
    }

    /// Replaces messages with a summary.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn compress(
        &self,
        branch: &RefName,
        select: Selection,
        summary: impl Into<String>,
    ) -> Result<Commit> {
        self.write_one(branch, Request::compress(select, summary)).await
    }

    /// Reverts commits with a new commit.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn revert(&self, branch: &RefName, targets: &[CommitId]) -> Result<Commit> {
        self.write_one(branch, Request::revert(targets)).await
    }

    /// Sets the tools in force from here on; an empty list removes all of them.
    ///
    /// # Errors
    /// As [`write`](Self::write); [`Error::TooLarge`] for too many tools, or one too large;
    /// [`Error::ToolName`] for one without a name, or with the name of another.
    pub async fn set_tools(&self, branch: &RefName, tools: Vec<ToolSchema>) -> Result<Commit> {
        ToolSchema::check_names(&tools)?;
        self.write_one(branch, Request::tools(tools)).await
    }

    /// Reads the documents whose names begin with `prefix`, sorted by name.
    ///
    /// # Errors
    /// [`Error::Missing`] for a blob that is not stored; when the store
    /// fails.
    pub async fn documents(&self, prefix: &str) -> Result<Vec<(RefName, Blob)>> {
        let mut found = Vec::new();
        for (name, target) in self.store().list_refs(self.name(), prefix).await? {
            if let RefTarget::Blob(id) = target {
                found.push((name, self.require_blob(id).await?));
            }
        }
        Ok(found)
    }

    /// Writes documents, all or none, and notes `what` in the ref log. Unchanged documents are
    /// skipped; if none changed, nothing is written.
    ///
    /// # Errors
    /// [`Error::Conflict`] when a document was moved since it was read;
    /// when the store fails.
    pub async fn set_documents(&self, what: &str, documents: Vec<(RefName, Blob)>) -> Result<()> {
        let names: Vec<RefName> = documents.iter().map(|(name, _)| name.clone()).collect();
        let targets = self.store().refs(self.name(), &names).await?;
        let operation = self.operation_or_new(None)?;
        let mut batch = self.batch(&operation, what)?;
        for ((name, blob), target) in documents.into_iter().zip(targets) {
            let to = RefTarget::Blob(blob.id());
            if target.as_ref() == Some(&to) {
                continue;
            }
            batch.blobs.push(blob);
            batch.refs.push(ref_edit(name, target, Some(to)));
        }
        if batch.refs.is_empty() {
            return Ok(());
        }
        require_done(apply_and_tell(self, &operation, batch).await?)
    }

    /// Starts counting the lost races of a write.
    pub fn races(&self) -> Races {
        Races::new(self.retry_for())
    }
}

/// Carries out requests as [`Repo::write`] does.
async fn write_all(
    repo: &Repo,
    branch: &RefName,
    mut requests: Cow<'_, [Request]>,
    options: &WriteOptions,
) -> Result<Vec<Commit>> {
    let mut attempts = Attempts::new(repo);
    // Handlers are asked once per request, even if the write is retried.
    let mut requested = Vec::with_capacity(requests.len());
    let mut chosen = PlannedTargets::default();
    loop {
        chosen.roll_back();
        let mut txn = Txn::within(repo, options.operation.as_ref())?;
        txn.reserve(requests.len());
        // A handler may be slow, and may itself write to this branch: holding the turn while it
        // runs would block that write until its patience ends.
        let asks = requested.len() < requests.len() && may_ask(repo, &requests);
        let mut turn = if options.expect.is_none() && !asks {
            Some(repo.heads().turn(branch).await)
        } else {
            None
        };
        let guess = match options.expect {
            // An expected head is a condition of the caller, so a failed compare-and-swap is
            // its answer and nothing is planned again. This is also why such a write needs no
            // place in the queue.
            Some(expected) => {
                txn.expect(branch, expected.map(RefTarget::Commit)).await?;
                None
            }
            // The tip where this handle left the branch. The store checks it when the batch is
            // applied.
            None => assumed_tip(repo, branch, &requests, asks || attempts.lost() > UNSETTLED).await,
        };
        // Without a guess, planning reads the head of the branch from the store. In both cases
        // the batch expects the head that was planned on, so the compare-and-swap finds out
        // about a move in between.
        if let Some(tip) = guess {
            txn.assume_tip(branch, tip);
        }
        let added = match check_versions(&mut txn, branch, &requests, options).await {
            Ok(()) => add_all(&mut txn, branch, &requests, &mut requested, &mut chosen).await,
            Err(error) => Err(error),
        };
        let commits = match added {
            Ok(commits) => commits,
            // A handler's decision does not depend on the head.
            Err(error @ (Error::Rejected(_) | Error::Deferred(_))) => return Err(error),
            // The branch may have moved since its head was read, and its commits or the named
            // ones may have been collected.
            Err(error) if is_gone(&error) => {
                drop(turn);
                let again = if options.expect.is_none() {
                    repo.heads().forget(branch);
                    attempts.again(error).await
                } else {
                    Err(error)
                };
                repo.or_collected(again, &named(&requests)).await?;
                continue;
            }
            // A refusal planned on a stale cached head may not hold on the current one, so
            // retry. Without a guess the head was read, so the refusal is final.
            Err(error) => {
                if attempts.is_over() || !has_moved(repo, branch, guess).await? {
                    return Err(error);
                }
                // Before the pause: the other writes of this branch need not wait for it.
                drop(turn);
                attempts.lose().await?;
                continue;
            }
        };
        // A summary is planned without a guess, so it fails the comparison below whenever this
        // handle has a cached tip, and is planned again. The first try has completed
        // `requested`, so the second one takes its turn first and cannot be overtaken.
        if options.expect.is_none() && turn.is_none() {
            let come = repo.heads().turn(branch).await;
            if repo.heads().tip(branch).head() != guess.map(|tip| tip.head) {
                // Another write took the branch while handlers ran. The answers are kept in
                // `requested`, so the handlers are not called again.
                continue;
            }
            turn = Some(come);
        }
        let what = options.what.as_deref();
        let what = what.or_else(|| requests.first().map(Request::verb)).unwrap_or("commit");
        // Only after planning: a planner reads the contents that are released here. A lost race
        // gives them back before the next try.
        let let_go = match &mut requests {
            // The requests are owned, so their contents can be moved out.
            Cow::Owned(requests) => {
                let replaced = |place| requested.get(place).is_some_and(Option::is_some);
                ReleasedContents::of(requests, &commits, replaced, &txn)
            }
            Cow::Borrowed(_) => ReleasedContents::default(),
        };
        // An error is final. `apply_once` has repeated the batch under the same id as often as
        // makes sense; a new try would get a new batch id, and would write the messages twice
        // if the first batch was stored after all.
        let applied = txn.apply_in_turn(branch, what, options, turn).await;
        match repo.or_collected(applied, &named(&requests)).await? {
            Applied::Done | Applied::Already => return Ok(commits),
            Applied::Conflict(_) if options.expect.is_none() => {
                if let Cow::Owned(requests) = &mut requests {
                    let_go.give_back(requests)?;
                }
                attempts.lose().await?;
            }
            Applied::Conflict(conflict) => {
                repo.heads().forget(branch);
                return Err(conflict.into());
            }
            Applied::Moved(_) => return Err(Error::KeptMoving { attempts: 1 }),
        }
    }
}

/// Checks that every edit replaces the current version of its message, if the options require
/// it.
async fn check_versions(
    txn: &mut Txn<'_>,
    branch: &RefName,
    requests: &[Request],
    options: &WriteOptions,
) -> Result<()> {
    if !options.current_versions {
        return Ok(());
    }
    let head = txn.head(branch).await?;
    let history = txn.fold(head).await?;
    for request in requests {
        if let Request::Edit { target, .. } = request {
            txn.plan_with(head, |records| current_version(&history, records, *target)).await?;
        }
    }
    Ok(())
}

/// Returns whether the write may call handlers or a summarizer.
fn may_ask(repo: &Repo, requests: &[Request]) -> bool {
    // This may return true although no handler will be called. That costs only a wait for the
    // writes in flight. Returning false although one will be called would hold the turn while
    // it runs.
    let hooks = repo.hooks();
    let is_result = |request: &Request| {
        matches!(request, Request::Append(draft)
            if matches!(draft.content, tract_core::Content::ToolResult(_)))
    };
    hooks.has_handler::<BeforeCommit>()
        || hooks.has_handler::<BeforeCompress>()
        || (requests.iter().any(is_result)
            && (hooks.has_handler::<ToolResultReceived>() || hooks.summarizer_port().is_some()))
}

/// Returns the tip to plan on without reading the head; `None` to read the head. Only plain
/// messages may follow a write in flight, since they need no record of it; all other requests
/// wait until the pending writes are acknowledged.
async fn assumed_tip(
    repo: &Repo,
    branch: &RefName,
    requests: &[Request],
    settled: bool,
) -> Option<BranchTip> {
    let tip = repo.heads().tip(branch);
    if requests.iter().any(|request| matches!(request, Request::Compress { .. })) {
        // A summary keeps the messages of its first plan, even when it is retried. A guess may
        // lack some of them, so plan on the stored head.
        repo.heads().settle(branch).await;
        return None;
    }
    let follows = |tip: &BranchTip| {
        let plain = |request: &Request| match request {
            Request::Append(draft) | Request::Import(draft) => is_plain(draft),
            _ => false,
        };
        // A plain message is planned from the tip alone. That no longer works when a snapshot
        // may be due (`room`), or a row of the turn index (`no_row`): both read commits that a
        // write in flight may not have stored yet.
        let (every, made) = (repo.turn_rows_every(), requests.len() as u64);
        let no_row = tip.silence.is_some() || tip.commits % every + made < every;
        tip.room > made && no_row && requests.iter().all(plain)
    };
    if tip.settled || (!settled && tip.tip.as_ref().is_some_and(follows)) {
        return tip.tip;
    }
    repo.heads().settle(branch).await;
    let tip = repo.heads().tip(branch);
    tip.tip.filter(|_| tip.settled)
}

/// Returns whether the assumed tip is stale. If so, drops it from the cache.
async fn has_moved(repo: &Repo, branch: &RefName, guess: Option<BranchTip>) -> Result<bool> {
    let Some(guess) = guess else { return Ok(false) };
    let moved = repo.ref_target(branch).await? != guess.head.map(RefTarget::Commit);
    if moved {
        repo.heads().forget(branch);
    }
    Ok(moved)
}

/// Returns the commits that a caller named in its requests.
fn named(requests: &[Request]) -> Vec<CommitId> {
    requests.iter().flat_map(Request::named).collect()
}

/// Adds requests to a write. `requested` has an entry for each request that handlers were already
/// asked about: the replacement, or `None` to use the request unchanged.
async fn add_all(
    txn: &mut Txn<'_>,
    branch: &RefName,
    requests: &[Request],
    requested: &mut Vec<Option<Box<Request>>>,
    chosen: &mut PlannedTargets,
) -> Result<Vec<Commit>> {
    let mut commits = Vec::with_capacity(requests.len());
    for (place, request) in requests.iter().enumerate() {
        let commit = match requested.get(place) {
            Some(instead) => {
                let request = instead.as_deref().unwrap_or(request);
                let again = chosen.again(place, request);
                if let (Some(Request::Edit { target, .. }), Some(version)) =
                    (instead.as_deref(), chosen.replaced(place))
                {
                    Box::pin(check_decided_edit(txn, branch, *target, version)).await?;
                }
                txn.add_decided(branch, again.as_ref().unwrap_or(request)).await?
            }
            None => {
                let (commit, instead) = txn.add_asking(branch, request).await?;
                // Pushed one by one: if a later request fails and the write is tried again, the
                // handlers are asked about the remaining requests only.
                requested.push(instead);
                commit
            }
        };
        chosen.made(place, &commit);
        commits.push(commit);
    }
    Ok(commits)
}

/// Checks that a message still has the version that its edit was decided on.
pub(crate) async fn check_decided_edit(
    txn: &mut Txn<'_>,
    branch: &RefName,
    target: CommitId,
    version: CommitId,
) -> Result<()> {
    let head = txn.head(branch).await?;
    let history = txn.fold(head).await?;
    txn.plan_with(head, |records| unchanged_since(&history, records, target, version)).await
}
