//! Cherry-picks, rebases, and other moves of branches.

use tract_core::{CommitId, Draft};
use tract_engine::{NamedMessage, Rebase, RebaseTarget, Rebased};

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Copies commits of other branches to this handle's branch. A message with calls includes its
    /// results and its reasoning, and a result its call. A picked message that is merged later
    /// appears only once. A message named by its number, as in `side#4`, is copied with its edits.
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
    /// `replay_conflicts` if a commit cannot be applied here, with the reason; `nothing_to_pick`.
    /// Nothing is written then.
    pub async fn cherry_pick<R: Into<Revision>>(
        &self,
        commits: impl IntoIterator<Item = R>,
    ) -> Result<Rebased> {
        let mut targets = Vec::new();
        for commit in commits {
            targets.push(self.rebase_target(commit).await?);
        }
        Ok(self.repo().rebase(self.branch(), &Rebase::Pick { targets, from: None }).await?)
    }

    /// Rebases this handle's branch onto another revision: commits that the revision lacks are
    /// applied on top of it. Only the branch moves.
    ///
    /// # Errors
    /// `replay_conflicts` if a commit cannot be applied there; nothing is written then.
    pub async fn rebase(&self, onto: impl Into<Revision>) -> Result<Rebased> {
        let onto = self.resolve_position(onto).await?;
        Ok(self.repo().rebase(self.branch(), &Rebase::Onto { onto, plan: None }).await?)
    }

    /// Drops commits from this handle's branch. A message with calls is dropped with its results
    /// and its reasoning, and a message with its edits.
    ///
    /// # Errors
    /// `not_in_range` if a commit is not on the branch; `merged_later` if a later merge brings it
    /// back; `replay_conflicts`; `empty_branch`.
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

    /// Inserts a message after a commit of this handle's branch, or directly after a message named
    /// by its number.
    ///
    /// # Errors
    /// `not_in_range` if the commit is not on the branch; `inside_turn` between a call and its
    /// result; `inside_merge` between two messages that one merge added.
    pub async fn insert_after(&self, after: impl Into<Revision>, draft: Draft) -> Result<Rebased> {
        let after = self.rebase_target(after).await?;
        let insert = Rebase::Insert { after, draft: Box::new(draft) };
        Ok(self.repo().rebase(self.branch(), &insert).await?)
    }

    /// Moves this handle's branch to any commit; [`undo`](Self::undo) reverts it. Returns the old
    /// head.
    ///
    /// # Errors
    /// `unknown_revision`; errors of the store.
    pub async fn reset(&self, to: impl Into<Revision>) -> Result<Option<CommitId>> {
        let to = self.resolve_position(to).await?;
        Ok(self.repo().reset(self.branch(), to).await?)
    }

    /// Returns what a revision means for [`cherry_pick`](Self::cherry_pick) and
    /// [`insert_after`](Self::insert_after): a message if it ends in `#20`, else a commit.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn rebase_target(&self, revision: impl Into<Revision>) -> Result<RebaseTarget> {
        let revision = revision.into();
        Ok(match self.resolve_message(revision.clone()).await? {
            Some(NamedMessage { slot, head, .. }) => RebaseTarget::Message { slot, head },
            None => RebaseTarget::Commit(self.resolve(revision).await?),
        })
    }

    /// Returns the commit that a revision means for [`drop_commits`](Self::drop_commits): for a
    /// message, the commit that added it. For a message of a merged branch this is its own commit,
    /// which is not on the branch, because dropping the merge would drop other messages, too.
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
