//! Commits repeated elsewhere, and branches that are moved.

use tract_core::{CommitId, Draft};
use tract_engine::{NamedMessage, PickTarget, Rebase, Rebased};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Repeats commits of other branches on this handle's branch. A message with calls brings its
    /// results and its reasoning, a result its call. What was picked and is merged later shows once.
    /// A message that is named by its number, as in `side#4`, is copied with its edits.
    ///
    /// ```
    /// # tract::block_on(async {
    /// let tract = tract::open("memory:").await?;
    /// let first = tract.user("one").await?;
    /// let side = tract.fork("side", &first).await?;
    /// tract.user("two").await?;
    /// let found = side.user("found").await?;
    /// tract.cherry_pick([&found]).await?;
    /// assert_eq!(tract.compile().await?.messages().count(), 3);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `replay_conflicts` when a commit cannot be repeated here, with the reason; `nothing_to_pick`.
    /// Nothing is written then.
    pub async fn cherry_pick<R: Into<Revision>>(
        &self,
        commits: impl IntoIterator<Item = R>,
    ) -> Result<Rebased> {
        let mut targets = Vec::new();
        for commit in commits {
            targets.push(self.pick_target(commit).await?);
        }
        Ok(self.repo().rebase(self.branch(), &Rebase::Pick { targets, from: None }).await?)
    }

    /// Repeats the commits of this handle's branch that another revision has not on top of that
    /// revision. Only the branch moves.
    ///
    /// # Errors
    /// `replay_conflicts` when a commit cannot be repeated there; nothing is written then.
    pub async fn rebase(&self, onto: impl Into<Revision>) -> Result<Rebased> {
        let onto = self.resolve_position(onto).await?;
        Ok(self.repo().rebase(self.branch(), &Rebase::Onto { onto, plan: None }).await?)
    }

    /// Leaves commits of this handle's branch out. A message with calls goes with its results and
    /// its reasoning, and an edit of a message with that message.
    ///
    /// # Errors
    /// `not_in_range` when a commit is not on the branch; `replay_conflicts`; `empty_branch`.
    pub async fn drop_commits<R: Into<Revision>>(
        &self,
        commits: impl IntoIterator<Item = R>,
    ) -> Result<Rebased> {
        let mut targets = Vec::new();
        for commit in commits {
            targets.push(self.drop_target(commit).await?);
        }
        let commits = targets;
        Ok(self.repo().rebase(self.branch(), &Rebase::Drop { commits }).await?)
    }

    /// Adds a message behind a commit of this handle's branch.
    ///
    /// # Errors
    /// `not_in_range` when the commit is not on the branch; `inside_turn` between a call and its
    /// result.
    pub async fn insert_after(&self, after: impl Into<Revision>, draft: Draft) -> Result<Rebased> {
        let after = self.resolve_position(after).await?;
        let insert = Rebase::Insert { after, draft: Box::new(draft) };
        Ok(self.repo().rebase(self.branch(), &insert).await?)
    }

    /// Moves this handle's branch to any commit; [`undo`](Self::undo) moves it back. Returns where
    /// it was.
    ///
    /// # Errors
    /// `unknown_revision`; errors of the store.
    pub async fn reset(&self, to: impl Into<Revision>) -> Result<Option<CommitId>> {
        let to = self.resolve_position(to).await?;
        Ok(self.repo().reset(self.branch(), to).await?)
    }

    /// Returns what a revision means to [`cherry_pick`](Self::cherry_pick): a message where it ends
    /// in `#20`, else a commit.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn pick_target(&self, revision: impl Into<Revision>) -> Result<PickTarget> {
        let revision = revision.into();
        Ok(match self.resolve_message(revision.clone()).await? {
            Some(NamedMessage { slot, head, .. }) => PickTarget::Message { slot, head },
            None => PickTarget::Commit(self.resolve(revision).await?),
        })
    }

    /// Returns the commit that a revision means to [`drop_commits`](Self::drop_commits): of a message
    /// the commit that added it. A message that a merge brought keeps its own commit, which is not on
    /// the branch, since dropping the merge would drop others too.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn drop_target(&self, revision: impl Into<Revision>) -> Result<CommitId> {
        let revision = revision.into();
        Ok(match self.resolve_message(revision.clone()).await? {
            Some(message) if message.is_own => message.position,
            Some(message) => message.slot,
            None => self.resolve(revision).await?,
        })
    }
}
