//! The write path: plan, ask the hooks, seal, and one batch for all of it.

use std::borrow::Cow;

use tract_core::{Applied, Commit, CommitId, Draft, RefName, RefTarget, ToolSchema};
use tract_hooks::{BeforeCommit, BeforeCompress, ToolResultReceived};

use crate::chosen::PlannedTargets;
use crate::error::{Error, Result};
use crate::plan::{BranchTip, Request, Selection, current_version, is_plain, unchanged_since};
use crate::repo::Repo;
use crate::spare::ReleasedContents;
use crate::txn::{Txn, WriteOptions};

/// How many races a write may lose before it follows no write that is under way: where the store
/// writes in another order than it is given batches, that one may come too late every time.
const UNSETTLED: usize = 2;

impl Repo {
    /// Carries out requests on a branch, in order: all of them in one durable write, or none.
    /// A branch that has no commit yet begins with the first.
    ///
    /// # Behavior
    /// - Writes of one handle (and its clones) that expect nothing of the branch plan one after
    ///   another, in order of arrival, each on top of the one before it, and share flushes: none of
    ///   them is refused for another's sake. Dropping the future gives up its place.
    /// - When another handle or process moves the branch meanwhile, the write plans again on what
    ///   is there, for as long as [`RepoOptions::retry_for`](crate::RepoOptions::retry_for) says.
    ///
    /// Requests that are given away need less memory: what they say goes once it is sealed, and is
    /// read again from there after a lost race.
    ///
    /// # Errors
    /// [`Error::Refused`] when a planner refuses; [`Error::Conflict`] when the branch is not
    /// where [`WriteOptions::expect`] says; [`Error::KeptMoving`] when others won all that time.
    pub fn write<'a>(
        &'a self,
        branch: &'a RefName,
        requests: impl Into<Cow<'a, [Request]>>,
        options: &'a WriteOptions,
    ) -> impl Future<Output = Result<Vec<Commit>>> + 'a {
        self.write_all(branch, requests.into(), options)
    }

    async fn write_all(
        &self,
        branch: &RefName,
        mut requests: Cow<'_, [Request]>,
        options: &WriteOptions,
    ) -> Result<Vec<Commit>> {
        let mut races = self.races();
        // Handlers are asked about a request once, however often the race is lost.
        let mut requested = Vec::with_capacity(requests.len());
        let mut chosen = PlannedTargets::default();
        loop {
            chosen.roll_back();
            let mut txn = Txn::within(self, options.operation.as_ref())?;
            txn.reserve(requests.len());
            // A handler may take long, and may write to the branch itself: no turn is held meanwhile.
            let asks = requested.len() < requests.len() && self.may_ask(&requests);
            let mut turn = if options.expect.is_none() && !asks {
                Some(self.heads().turn(branch).await)
            } else {
                None
            };
            let guess = match options.expect {
                Some(expected) => {
                    txn.expect(branch, expected.map(RefTarget::Commit)).await?;
                    None
                }
                // Where this handle left the branch: the store says whether it is still there.
                None => self.guess(branch, &requests, asks || races.lost() > UNSETTLED).await,
            };
            if let Some(tip) = guess {
                txn.assume_tip(branch, tip);
            }
            let added = match self.check_versions(&mut txn, branch, &requests, options).await {
                Ok(()) => add_all(&mut txn, branch, &requests, &mut requested, &mut chosen).await,
                Err(error) => Err(error),
            };
            let commits = match added {
                Ok(commits) => commits,
                // A handler's decision holds wherever the branch is.
                Err(error @ (Error::Rejected(_) | Error::Deferred(_))) => return Err(error),
                // What is refused on a head that was only believed in may be right on another.
                Err(error) => {
                    if races.is_over() || !self.has_moved(branch, guess).await? {
                        return Err(error);
                    }
                    drop(turn);
                    races.lose().await?;
                    continue;
                }
            };
            if options.expect.is_none() && turn.is_none() {
                let come = self.heads().turn(branch).await;
                if self.heads().tip(branch).head() != guess.map(|tip| tip.head) {
                    // Others wrote while handlers were asked. They are not asked again.
                    continue;
                }
                turn = Some(come);
            }
            let what = options.what.as_deref();
            let what = what.or_else(|| requests.first().map(Request::verb)).unwrap_or("commit");
            let let_go = match &mut requests {
                // The caller gave them up, so their contents can be moved out.
                Cow::Owned(requests) => {
                    let replaced = |place| requested.get(place).is_some_and(Option::is_some);
                    ReleasedContents::of(requests, &commits, replaced, &txn)
                }
                Cow::Borrowed(_) => ReleasedContents::default(),
            };
            match txn.apply_in_turn(branch, what, options, turn).await? {
                Applied::Done | Applied::Already => return Ok(commits),
                Applied::Conflict(_) if options.expect.is_none() => {
                    if let Cow::Owned(requests) = &mut requests {
                        let_go.give_back(requests)?;
                    }
                    races.lose().await?;
                }
                Applied::Conflict(conflict) => {
                    self.heads().forget(branch);
                    return Err(conflict.into());
                }
            }
        }
    }

    /// Checks that edits replace what their messages say now, where that is asked for.
    async fn check_versions(
        &self,
        txn: &mut Txn<'_>,
        branch: &RefName,
        requests: &[Request],
        options: &WriteOptions,
    ) -> Result<()> {
        if !options.current_versions {
            return Ok(());
        }
        let head = txn.head(branch).await?;
        let line = txn.line(head).await?;
        for request in requests {
            if let Request::Edit { target, .. } = request {
                txn.plan_with(head, |records| current_version(&line, records, *target)).await?;
            }
        }
        Ok(())
    }

    /// Whether handlers, or a summarizer, may be asked about requests.
    fn may_ask(&self, requests: &[Request]) -> bool {
        let hooks = self.hooks();
        let is_result = |request: &Request| {
            matches!(request, Request::Append(draft)
                if matches!(draft.content, tract_core::Content::ToolResult(_)))
        };
        hooks.has_handler::<BeforeCommit>()
            || hooks.has_handler::<BeforeCompress>()
            || (requests.iter().any(is_result)
                && (hooks.has_handler::<ToolResultReceived>() || hooks.summarizer_port().is_some()))
    }

    /// Returns what requests may be planned on without reading the head. Only plain messages may
    /// follow a write that is under way, for nothing of it can be read yet; what else there is
    /// waits for its answer.
    async fn guess(
        &self,
        branch: &RefName,
        requests: &[Request],
        settled: bool,
    ) -> Option<BranchTip> {
        let tip = self.heads().tip(branch);
        if requests.iter().any(|request| matches!(request, Request::Compress { .. })) {
            // A summary is planned once, on what the store has: a guess may lack messages that
            // the summary was made of.
            self.heads().settle(branch).await;
            return None;
        }
        let follows = |tip: &BranchTip| {
            let plain = |request: &Request| match request {
                Request::Append(draft) | Request::Import(draft) => is_plain(draft),
                _ => false,
            };
            let (every, made) = (self.turn_rows_every(), requests.len() as u64);
            let no_row = tip.silence.is_some() || tip.commits % every + made < every;
            tip.room > made && no_row && requests.iter().all(plain)
        };
        if tip.settled || (!settled && tip.tip.as_ref().is_some_and(follows)) {
            return tip.tip;
        }
        self.heads().settle(branch).await;
        let tip = self.heads().tip(branch);
        tip.tip.filter(|_| tip.settled)
    }

    /// Whether a branch is no longer where it was believed to be; then nothing is believed of it.
    async fn has_moved(&self, branch: &RefName, guess: Option<BranchTip>) -> Result<bool> {
        let Some(guess) = guess else { return Ok(false) };
        let moved = self.ref_target(branch).await? != guess.head.map(RefTarget::Commit);
        if moved {
            self.heads().forget(branch);
        }
        Ok(moved)
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
        // A request is large, and a future that contains it would be moved with it.
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

    /// Puts a summary in the place of messages.
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

    /// Takes commits back, by a commit.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn revert(&self, branch: &RefName, targets: &[CommitId]) -> Result<Commit> {
        self.write_one(branch, Request::revert(targets)).await
    }

    /// Sets the tools in force from here on; an empty list means that there are none.
    ///
    /// # Errors
    /// As [`write`](Self::write); [`Error::TooLarge`] for too many tools, or one too large;
    /// [`Error::ToolName`] for one without a name, or with the name of another.
    pub async fn set_tools(&self, branch: &RefName, tools: Vec<ToolSchema>) -> Result<Commit> {
        ToolSchema::check_names(&tools)?;
        self.write_one(branch, Request::tools(tools)).await
    }
}

/// Adds requests to a write; `asked` holds, for those that handlers were asked about already, what
/// is written instead.
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
                requested.push(instead);
                commit
            }
        };
        chosen.made(place, &commit);
        commits.push(commit);
    }
    Ok(commits)
}

/// Checks that a message still says what it said when an edit of it was decided on.
pub(crate) async fn check_decided_edit(
    txn: &mut Txn<'_>,
    branch: &RefName,
    target: CommitId,
    version: CommitId,
) -> Result<()> {
    let head = txn.head(branch).await?;
    let line = txn.line(head).await?;
    txn.plan_with(head, |records| unchanged_since(&line, records, target, version)).await
}
