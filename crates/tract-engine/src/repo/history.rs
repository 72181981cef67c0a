//! Reads the history of a head: its commits along first parents, newest first, in pages.

use std::collections::VecDeque;

use bytes::Bytes;
use tract_core::store::{Walk, WalkEntry};
use tract_core::{Commit, CommitId, DerivedKind, StoreExt, StoreResult};

use super::Repo;
use super::error::{Error, Result};

/// A reader of a history, from its head to the root. Holds one page of commits at a time.
#[derive(Debug)]
pub struct HistoryReader<'a> {
    repo: &'a Repo,
    head: CommitId,
    /// The commits of the last page that were not returned yet.
    page: VecDeque<WalkEntry>,
    /// The first commit of the next page.
    next: Option<CommitId>,
    until: Option<CommitId>,
    limit: usize,
    most: usize,
    stop_at: Option<DerivedKind>,
    row: Option<(CommitId, Bytes)>,
}

impl<'a> HistoryReader<'a> {
    pub(super) fn new(repo: &'a Repo, head: CommitId) -> Self {
        let Walk { head, until, limit, stop_at } = Walk::from(head);
        let (page, next, row) = (VecDeque::new(), Some(head), None);
        Self { repo, head, page, next, until, limit, most: limit, stop_at, row }
    }

    /// Stops before a commit. Without effect if the history does not contain it.
    #[must_use]
    pub fn until(mut self, commit: impl Into<Option<CommitId>>) -> Self {
        self.until = commit.into();
        self.next = self.next.filter(|next| Some(*next) != self.until);
        self
    }

    /// Sets the number of commits per page: first and maximum. Each page has up to four times as
    /// many as the one before it. Default: 4,096 for all.
    #[must_use]
    pub fn pages(mut self, first: usize, most: usize) -> Self {
        (self.limit, self.most) = (first.max(1), most.max(1));
        self
    }

    /// Stops before commits with a derived row of this kind; see [`row`](Self::row).
    #[must_use]
    pub(crate) fn stop_at(mut self, kind: DerivedKind) -> Self {
        self.stop_at = Some(kind);
        self
    }

    /// Returns the id of the next commit without reading it; `None` at the end.
    pub fn peek(&self) -> Option<CommitId> {
        self.page.front().map(|entry| entry.commit.id()).or(self.next)
    }

    /// Returns the next commit; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Collected`] when garbage collection deleted the head; when another commit is not
    /// stored, or the store fails.
    pub async fn next(&mut self) -> Result<Option<Commit>> {
        // Called for each commit: only an error needs another look.
        if let Err(error) = self.fill().await {
            return self.repo.or_collected(Err(error.into()), &[self.head]).await;
        }
        Ok(self.page.pop_front().map(|entry| entry.commit))
    }

    /// Returns the next commit; `None` at the end and from the first known commit on. A known
    /// commit is not read if it begins a page.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_unless(
        &mut self,
        is_known: impl FnOnce(CommitId) -> bool,
    ) -> Result<Option<Commit>> {
        if self.peek().is_none_or(is_known) {
            return Ok(None);
        }
        self.next().await
    }

    /// Returns the remaining commits of a page, or the next page; `None` at the end.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_page(&mut self) -> Result<Option<Vec<Commit>>> {
        let page = self.next_entries().await.map_err(Error::from);
        let page = self.repo.or_collected(page, &[self.head]).await?;
        Ok(page.map(|page| page.into_iter().map(|entry| entry.commit).collect()))
    }

    /// Returns the next page with the locations of the contents. Returns the store's own error,
    /// for callers that handle a missing commit.
    pub(crate) async fn next_entries(&mut self) -> StoreResult<Option<Vec<WalkEntry>>> {
        self.fill().await?;
        Ok((!self.page.is_empty()).then(|| std::mem::take(&mut self.page).into()))
    }

    /// Returns the derived row at which the reader stopped.
    pub(crate) fn row(&self) -> Option<&(CommitId, Bytes)> {
        self.row.as_ref()
    }

    /// Reads the commit of the row at which the reader stopped, and continues with its parent.
    /// `None` if it did not stop at a row.
    pub(crate) async fn pass_row(&mut self) -> StoreResult<Option<Commit>> {
        let Some((id, _)) = self.row.take() else { return Ok(None) };
        let commit = self.repo.store().require_commit(self.repo.name(), id).await?;
        self.next = commit.parent().filter(|parent| Some(*parent) != self.until);
        Ok(Some(commit))
    }

    /// Reads the next page if no commit of the last one is left.
    async fn fill(&mut self) -> StoreResult<()> {
        if !self.page.is_empty() {
            return Ok(());
        }
        let Some(head) = self.next else { return Ok(()) };
        let Self { until, limit, stop_at, .. } = *self;
        let walk = Walk { head, until, limit, stop_at };
        let page = self.repo.store().walk(self.repo.name(), walk).await?;
        self.limit = limit.saturating_mul(4).min(self.most);
        // A page can be empty: the head itself may have a row.
        (self.page, self.next, self.row) = (page.entries.into(), page.next, page.stopped);
        Ok(())
    }
}
