//! Search in histories, authors of messages, and details lost in summaries.

use tract_core::{Commit, CommitId};
use tract_engine::{
    BlameEntry, Grep, GrepOptions, GrepPattern, LostEntry, SearchOptions, SearchReport,
};

use crate::error::Result;
use crate::handle::Tract;

impl Tract {
    /// Searches the messages and tool definitions reachable from commits, line by line. Hits arrive
    /// during the search, each content once; [`Grep::into_stream`] converts it to a `Stream`.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::engine::{GrepOptions, GrepPattern};
    /// let tract = tract::open("memory:").await?;
    /// let question = tract.user("Why does the login\ntime out?").await?;
    /// let pattern = GrepPattern::new().word(true).regex("time out")?;
    /// let mut grep = tract.grep(&[question.id()], pattern, GrepOptions::default()).await?;
    /// let hits = grep.next_hits().await?.unwrap_or_default();
    /// assert_eq!((hits[0].commit, hits[0].lines[0].number), (question.id(), 2));
    /// assert_eq!(grep.next_hits().await?, None);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`tract_engine::grep`].
    pub async fn grep(
        &self,
        heads: &[CommitId],
        pattern: GrepPattern,
        options: GrepOptions,
    ) -> Result<Grep> {
        Ok(tract_engine::grep(self.repo(), heads, pattern, options).await?)
    }

    /// Finds the messages of contexts that best match some words. An index of the words is stored
    /// and updated on the way; it can be dropped at any time.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::engine::SearchOptions;
    /// let tract = tract::open("memory:").await?;
    /// let question = tract.user("Why does the login time out?").await?;
    /// let answer = tract.assistant("The clock of the server is wrong.").await?;
    /// let report = tract.search(&[answer.id()], "login timeout", &SearchOptions::default()).await?;
    /// assert_eq!(report.hits.len(), 1);
    /// assert_eq!(report.hits[0].commit, question.id());
    /// assert_eq!(report.hits[0].snippet.text, "Why does the login time out?");
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`tract_engine::search`].
    pub async fn search(
        &self,
        heads: &[CommitId],
        query: &str,
        options: &SearchOptions,
    ) -> Result<SearchReport> {
        Ok(tract_engine::search(self.repo(), heads, query, options).await?)
    }

    /// Finds the commits that added and changed each message of a context.
    ///
    /// # Errors
    /// As [`tract_engine::blame`].
    pub async fn blame(&self, head: CommitId) -> Result<Vec<BlameEntry>> {
        Ok(tract_engine::blame(self.repo(), head).await?)
    }

    /// Returns the permanent name of the message that a commit added, edited or wrote as a summary.
    ///
    /// # Errors
    /// `no_message` if it did none of these.
    pub async fn slot_of(&self, version: CommitId) -> Result<CommitId> {
        Ok(tract_engine::slot_of(self.repo(), version).await?)
    }

    /// Returns whether a commit changes a message, given by its slot.
    ///
    /// # Errors
    /// If the commit's list of changes cannot be read.
    pub async fn concerns(&self, commit: &Commit, slot: CommitId) -> Result<bool> {
        Ok(tract_engine::concerns(self.repo(), commit, slot).await?)
    }

    /// Finds details that the summaries of a context hide and that occur nowhere else in it.
    ///
    /// # Errors
    /// As [`tract_engine::lost`].
    pub async fn lost(&self, head: CommitId) -> Result<Vec<LostEntry>> {
        Ok(tract_engine::lost(self.repo(), head).await?)
    }
}
