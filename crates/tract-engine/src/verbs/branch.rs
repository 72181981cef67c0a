//! Branches, tags and `HEAD`.

use tract_core::store::LogQuery;
use tract_core::{Applied, CommitId, RefName, RefTarget, nearest};

use crate::repo::batch::require_done;
use crate::repo::error::{Error, Result};
use crate::repo::{FIRST_BRANCH, Repo};
use crate::write::txn::{Txn, WriteOptions};

impl Repo {
    /// Makes `HEAD` point to the first branch, if there is no `HEAD` yet. The branch itself starts
    /// with its first commit. Returns whether anything was written.
    ///
    /// # Errors
    /// [`Error::BadName`] when the repository's name has invisible characters; when the store
    /// fails.
    pub async fn init(&self) -> Result<bool> {
        self.name().check_visible()?;
        let mut txn = Txn::new(self)?;
        if txn.target(&RefName::head()).await?.is_some() {
            return Ok(false);
        }
        let first = RefTarget::Ref(RefName::branch(FIRST_BRANCH)?);
        txn.move_ref(&RefName::head(), Some(first)).await?;
        let applied = txn.apply("init", &WriteOptions::default()).await?;
        // If it is not stored, another writer was faster, with the same result.
        Ok(applied.is_stored())
    }

    /// Lists the tags with their commits, sorted by name.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tags(&self) -> Result<Vec<(String, CommitId)>> {
        let refs = self.store().list_refs(self.name(), "tags/").await?;
        let tags = refs
            .into_iter()
            .filter_map(|(name, target)| Some((name.tag_name()?.to_owned(), target.commit()?)));
        Ok(tags.collect())
    }

    /// Creates a branch at a commit with one ref write; nothing is copied. If the commit shows a
    /// message that was erased since, the branch gets the edit of the erasure on top.
    ///
    /// # Errors
    /// [`Error::Exists`] when the branch already exists, [`Error::BadName`] for a bad name,
    /// [`Error::Collected`] when the commit is not stored.
    pub async fn create_branch(&self, name: &str, at: CommitId) -> Result<RefName> {
        let name = RefName::branch(name)?;
        self.create(&name, at, "branch").await?;
        Ok(name)
    }

    /// Creates a tag, which never moves.
    ///
    /// # Errors
    /// As [`create_branch`](Self::create_branch).
    pub async fn create_tag(&self, name: &str, at: CommitId) -> Result<RefName> {
        let name = RefName::tag(name)?;
        self.create(&name, at, "tag").await?;
        Ok(name)
    }

    async fn create(&self, name: &RefName, at: CommitId, what: &str) -> Result<()> {
        name.check_shell_safe()?;
        self.require_uncollected(&[at]).await?;
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            if let Some(at) = txn.target(name).await? {
                return Err(Error::Exists { name: name.clone(), at });
            }
            txn.move_ref(name, Some(RefTarget::Commit(at))).await?;
            let applied = txn.apply(what, &WriteOptions::default()).await;
            match self.or_collected(applied, &[at]).await? {
                Applied::Done | Applied::Already => return Ok(()),
                // Another message was erased since the check; the branch must not show it.
                Applied::Conflict(conflict) if conflict.name == RefName::newest_erasure() => {
                    races.lose().await?;
                }
                Applied::Conflict(conflict) => {
                    return Err(match conflict.found {
                        Some(at) => Error::Exists { name: conflict.name, at },
                        None => conflict.into(),
                    });
                }
                Applied::Moved(_) => races.lose().await?,
            }
        }
    }

    /// Deletes a branch and returns its last head. Its commits stay, and the ref log keeps the
    /// head.
    ///
    /// # Errors
    /// [`Error::UnknownBranch`] when it does not exist, [`Error::CheckedOut`] when `HEAD` points to
    /// it, [`Error::Conflict`] when another writer moves it during the call.
    pub async fn delete_branch(&self, name: &str) -> Result<CommitId> {
        let heads = self.delete_branches(&[name]).await?;
        Ok(heads.into_iter().next().expect("one branch has one head"))
    }

    /// Deletes several branches in one write, all or none. Returns their last heads, in order.
    ///
    /// # Errors
    /// As [`delete_branch`](Self::delete_branch).
    pub async fn delete_branches(&self, names: &[impl AsRef<str>]) -> Result<Vec<CommitId>> {
        let mut txn = Txn::new(self)?;
        let at = txn.target(&RefName::head()).await?;
        let current = self.current_branch().await?;
        // Hold `HEAD`, so that no branch is checked out while it is deleted.
        txn.hold(&RefName::head(), at.clone());
        let mut heads = Vec::with_capacity(names.len());
        for name in names.iter().map(AsRef::as_ref) {
            let branch = self.stored_branch(name).await?;
            if current == branch || at == Some(RefTarget::Ref(branch.clone())) {
                return Err(Error::CheckedOut { name: name.to_owned() });
            }
            let Some(head) = txn.head(&branch).await? else {
                return Err(self.unknown_branch(name).await?);
            };
            txn.move_ref(&branch, None).await?;
            heads.push(head);
        }
        require_done(txn.apply("branch", &WriteOptions::default()).await?)?;
        Ok(heads)
    }

    /// Renames a branch in one write. `HEAD` follows if it points to the branch. Returns the head;
    /// `None` for the current branch before its first commit.
    ///
    /// The ref log of the new name starts here; that of the old name keeps the earlier moves.
    ///
    /// # Errors
    /// [`Error::UnknownBranch`] when it does not exist, [`Error::Exists`] when the new name is
    /// taken, [`Error::HasPending`] when pending approvals name the branch, [`Error::Conflict`]
    /// when another writer moves it during the call.
    pub async fn rename_branch(&self, name: &str, to: &str) -> Result<Option<CommitId>> {
        let branch = self.stored_branch(name).await?;
        let renamed = RefName::branch(to)?;
        renamed.check_shell_safe()?;
        let mut txn = Txn::new(self)?;
        let at = txn.target(&RefName::head()).await?;
        let is_current = self.current_branch().await? == branch;
        let head = txn.head(&branch).await?;
        if head.is_none() && !is_current {
            return Err(self.unknown_branch(name).await?);
        }
        if let Some(at) = txn.target(&renamed).await? {
            return Err(Error::Exists { name: renamed, at });
        }
        // A pending approval is later carried out on the branch that it names.
        let pending = self.pending().await?;
        let count = pending.iter().filter(|pending| pending.branch == branch).count();
        if count > 0 {
            return Err(Error::HasPending { name: name.to_owned(), count });
        }
        if is_current {
            txn.move_ref(&RefName::head(), Some(RefTarget::Ref(renamed.clone()))).await?
        } else {
            txn.hold(&RefName::head(), at)
        }
        if let Some(head) = head {
            txn.move_ref(&branch, None).await?;
            txn.move_ref(&renamed, Some(RefTarget::Commit(head))).await?;
            self.move_document(&mut txn, &branch, &renamed).await?;
        }
        require_done(txn.apply("branch", &WriteOptions::default()).await?)?;
        Ok(head)
    }

    /// Moves the document of a branch, which has its title and its project, to another name.
    async fn move_document(
        &self,
        txn: &mut Txn<'_>,
        branch: &RefName,
        renamed: &RefName,
    ) -> Result<()> {
        let (Some(from), Some(to)) = (branch.companion(), renamed.companion()) else {
            return Ok(());
        };
        if let Some(document) = txn.target(&from).await?
            && txn.target(&to).await?.is_none()
        {
            txn.move_ref(&from, None).await?;
            txn.move_ref(&to, Some(document)).await?;
        }
        Ok(())
    }

    /// Deletes tags and their signatures in one write, all or none. Returns their commits, which
    /// stay, in order.
    ///
    /// # Errors
    /// [`Error::UnknownTag`] when a tag does not exist.
    pub async fn delete_tags(&self, names: &[impl AsRef<str>]) -> Result<Vec<CommitId>> {
        let mut txn = Txn::new(self)?;
        let mut commits = Vec::with_capacity(names.len());
        for name in names.iter().map(AsRef::as_ref) {
            let tag = RefName::new(format!("tags/{name}"))?;
            let Some(commit) = txn.head(&tag).await? else {
                let tags = self.tags().await?;
                let near = nearest(name, tags.iter().map(|(tag, _)| tag.as_str()));
                let nearest = near.map(str::to_owned).into_iter().collect();
                return Err(Error::UnknownTag { name: name.to_owned(), nearest });
            };
            txn.move_ref(&tag, None).await?;
            if let Some(signature) = tag.companion()
                && txn.target(&signature).await?.is_some()
            {
                txn.move_ref(&signature, None).await?;
            }
            commits.push(commit);
        }
        require_done(txn.apply("tag", &WriteOptions::default()).await?)?;
        Ok(commits)
    }

    /// Returns the branch that was checked out before the current one, from the ref log of `HEAD`.
    /// Deleted branches are skipped.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn previous_branch(&self) -> Result<Option<String>> {
        let current = self.current_branch().await?;
        let mut before = None;
        loop {
            let query =
                LogQuery { name: Some(RefName::head()), before, limit: 64, ..LogQuery::default() };
            let log = self.store().ref_log(self.name(), &query).await?;
            let Some(last) = log.last() else { return Ok(None) };
            before = Some(last.seq);
            for entry in &log {
                let Some(RefTarget::Ref(branch)) = &entry.before else { continue };
                if *branch != current && self.ref_target(branch).await?.is_some() {
                    return Ok(branch.branch_name().map(str::to_owned));
                }
            }
        }
    }

    /// Points `HEAD` to a branch. Does not affect handles on other branches.
    ///
    /// # Errors
    /// [`Error::UnknownBranch`] when the branch does not exist; [`Error::KeptMoving`] when `HEAD`
    /// or the branch moves during every try. `HEAD` is then unchanged.
    pub async fn checkout(&self, name: &str) -> Result<RefName> {
        let branch = self.stored_branch(name).await?;
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            let Some(at) = txn.target(&branch).await? else {
                return Err(self.unknown_branch(name).await?);
            };
            // Hold the branch, so that `HEAD` is never left on one that is deleted during the call.
            txn.hold(&branch, Some(at));
            txn.move_ref(&RefName::head(), Some(RefTarget::Ref(branch.clone()))).await?;
            if races.won(txn.apply("checkout", &WriteOptions::default()).await?).await? {
                return Ok(branch);
            }
        }
    }

    /// Returns the ref of a branch as it is stored. Branches of older versions and other stores may
    /// have names that are now rejected or normalized differently.
    async fn stored_branch(&self, name: &str) -> Result<RefName> {
        let as_given = RefName::new(format!("heads/{name}"))?;
        match RefName::branch(name) {
            Ok(branch) if branch != as_given && self.ref_target(&as_given).await?.is_none() => {
                Ok(branch)
            }
            _ => Ok(as_given),
        }
    }
}
