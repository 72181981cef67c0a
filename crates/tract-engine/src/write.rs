//! The write path: plan, ask the hooks, seal, and one batch for all of it.

use std::borrow::Cow;

use tract_compile::Changed;
use tract_core::store::{LogQuery, Store};
use tract_core::{
    Applied, Batch, BatchId, Commit, CommitId, Draft, Expect, OperationId, RefName, RefTarget,
    StoreErrorKind, ToolSchema,
};
use tract_hooks::RefMoved;

use crate::error::{Error, Result};
use crate::plan::{Request, Selection, Stand};
use crate::repo::Repo;
use crate::spare::LetGo;
use crate::txn::Txn;

/// How a write goes about it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Where the branch must be: `Some(None)` means that it has no commit yet. When absent, the
    /// write takes the branch as it finds it and plans again when it loses a race.
    pub expect: Option<Option<CommitId>>,
    /// The verb that the ref log tells; the first request's own when absent.
    pub what: Option<String>,
    /// Why, for the ref log.
    pub why: Option<String>,
    /// Shared with other writes of one command, so that one `undo` takes all of them back.
    pub operation: Option<OperationId>,
}

impl WriteOptions {
    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says where the branch must be; `None` means that it has no commit yet.
    #[must_use]
    pub fn expect(mut self, head: Option<CommitId>) -> Self {
        self.expect = Some(head);
        self
    }

    /// Sets the verb for the ref log.
    #[must_use]
    pub fn what(mut self, what: impl Into<String>) -> Self {
        self.what = Some(what.into());
        self
    }

    /// Sets the reason for the ref log.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Sets the operation that it belongs to.
    #[must_use]
    pub fn operation(mut self, operation: OperationId) -> Self {
        self.operation = Some(operation);
        self
    }
}

/// How often a write that loses races plans again before it gives up.
pub(crate) const ATTEMPTS: usize = 64;

impl Repo {
    /// Carries out requests on a branch, in order: all of them in one durable write, or none.
    /// A branch that has no commit yet begins with the first.
    ///
    /// Requests that are given away need less memory: what they say goes once it is sealed, and is
    /// read again from there after a lost race.
    ///
    /// # Errors
    /// [`Error::Refused`] when a planner refuses; [`Error::Conflict`] when the branch is not
    /// where [`WriteOptions::expect`] says, or kept moving.
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
        let mut attempt = 0;
        // Handlers are asked about a request once, however often the race is lost.
        let mut asked = Vec::with_capacity(requests.len());
        loop {
            attempt += 1;
            let mut txn = Txn::new(self)?;
            txn.reserve(requests.len());
            let guess = match options.expect {
                Some(expected) => {
                    txn.expect(branch, expected.map(RefTarget::Commit)).await?;
                    None
                }
                // Where this handle left the branch: the store says whether it is still there.
                None => self.heads().get(branch),
            };
            if let Some(stand) = guess {
                txn.believe(branch, stand);
            }
            let commits = match add_all(&mut txn, branch, &requests, &mut asked).await {
                Ok(commits) => commits,
                // What a handler decided stands, wherever the branch is.
                Err(error @ (Error::Rejected(_) | Error::Deferred(_))) => return Err(error),
                // What is refused on a head that was only believed in may be right on another.
                Err(_) if attempt < ATTEMPTS && self.has_moved(branch, guess).await? => continue,
                Err(error) => return Err(error),
            };
            let what = options.what.as_deref();
            let what = what.or_else(|| requests.first().map(Request::verb)).unwrap_or("commit");
            let let_go = match &mut requests {
                // Nobody else has them.
                Cow::Owned(requests) => {
                    let replaced = |place| asked.get(place).is_some_and(Option::is_some);
                    LetGo::of(requests, &commits, replaced, &txn)
                }
                Cow::Borrowed(_) => LetGo::default(),
            };
            match txn.apply_undoing(what, options, None).await? {
                Applied::Done | Applied::Already => return Ok(commits),
                Applied::Conflict(_) if options.expect.is_none() && attempt < ATTEMPTS => {
                    self.heads().forget(branch);
                    if let Cow::Owned(requests) = &mut requests {
                        let_go.give_back(requests)?;
                    }
                }
                Applied::Conflict(conflict) => {
                    self.heads().forget(branch);
                    return Err(conflict.into());
                }
            }
        }
    }

    /// Whether a branch is no longer where it was believed to be; then nothing is believed of it.
    async fn has_moved(&self, branch: &RefName, guess: Option<Stand>) -> Result<bool> {
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
        // A request is large, and a future that bore it would be moved about with it.
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
    /// As [`write`](Self::write); [`Error::TooLarge`] for too many tools, or one too large.
    pub async fn set_tools(&self, branch: &RefName, tools: Vec<ToolSchema>) -> Result<Commit> {
        self.write_one(branch, Request::tools(tools)).await
    }
}

/// Adds requests to a write; `asked` holds, for those that handlers were asked about already, what
/// is written instead.
async fn add_all(
    txn: &mut Txn<'_>,
    branch: &RefName,
    requests: &[Request],
    asked: &mut Vec<Option<Box<Request>>>,
) -> Result<Vec<Commit>> {
    let mut commits = Vec::with_capacity(requests.len());
    for (place, request) in requests.iter().enumerate() {
        let commit = match asked.get(place) {
            Some(instead) => txn.add_decided(branch, instead.as_deref().unwrap_or(request)).await?,
            None => {
                let (commit, instead) = txn.add_asking(branch, request).await?;
                asked.push(instead);
                commit
            }
        };
        commits.push(commit);
    }
    Ok(commits)
}

/// Makes what a write is known by.
pub(crate) fn batch_id() -> Result<BatchId> {
    BatchId::random().map_err(Error::Random)
}

/// Returns what a ref must be, given what it was found to be.
pub(crate) fn expect(found: Option<&RefTarget>) -> Expect {
    found.map_or(Expect::Absent, |target| Expect::Is(target.clone()))
}

/// Checks a sealed commit against its operation.
pub(crate) fn check_shape(of: Changed<'_>, targets: &[Changed<'_>]) -> Result<()> {
    Ok(tract_compile::shape(of, targets)?)
}

/// How often a batch is tried again whose outcome got lost.
const RETRIES: usize = 3;

/// Applies a batch. Where the outcome is unknown the same batch is tried again: it happens at
/// most once.
pub(crate) async fn apply_once(repo: &Repo, batch: &Batch) -> Result<Applied> {
    let store: &dyn Store = repo.store().as_ref();
    for _ in 0..RETRIES {
        match store.apply(repo.name(), batch.clone()).await {
            Err(error) if error.kind == StoreErrorKind::Unknown => {}
            outcome => return Ok(outcome?),
        }
    }
    Ok(store.apply(repo.name(), batch.clone()).await?)
}

/// Tells the hooks what a write moved. It is done, whether its log can be read or not.
pub(crate) async fn tell(repo: &Repo, batch: BatchId) {
    if !repo.hooks().hears::<RefMoved>() {
        return;
    }
    // In a box, since nobody listens to most writes.
    Box::pin(async {
        let query = LogQuery { batch: Some(batch), ..Default::default() };
        let entries = repo.store().ref_log(repo.name(), &query).await.unwrap_or_default();
        for entry in entries.into_iter().rev() {
            repo.hooks().ref_moved(&RefMoved::new(entry)).await;
        }
    })
    .await;
}
