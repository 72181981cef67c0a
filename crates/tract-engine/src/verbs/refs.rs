//! Branches, tags, `HEAD` and remotes, and revisions, which name commits by them.

mod ahead_behind;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use tract_core::store::LogQuery;
use tract_core::{Applied, Blob, CommitId, ObjectId, RefEdit, RefName, RefTarget, nearest};

use crate::repo::batch::{apply_and_tell, require_done};
use crate::repo::error::{Error, Result};
use crate::repo::{FIRST_BRANCH, Repo};
use crate::verbs::revision::{
    Marks, NamedMessage, position_of, resolve_in, resolve_message, resolve_position_in,
};
use crate::verbs::sessions::check_title;
use crate::verbs::undo::{self, UndoReport};
use crate::write::import_document::ImportDocument;
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions, ref_edit};

/// The SSH signature namespace. It prevents a signature made for another purpose from being
/// accepted for a tag.
pub const SIGNATURE_NAMESPACE: &str = "tract";

/// The prefix of the refs that hold signatures.
const SIGNATURES: &str = "signatures/";

/// A tag with its commit and signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTag {
    /// The tag's name.
    pub tag: String,
    /// The commit that the tag names.
    pub commit: CommitId,
    /// The signature, in the armored format of `ssh-keygen -Y sign`; `None` for an unsigned tag.
    pub signature: Option<String>,
}

impl SignedTag {
    /// Creates an unsigned tag.
    pub fn new(tag: impl Into<String>, commit: CommitId) -> Self {
        Self { tag: tag.into(), commit, signature: None }
    }

    /// Returns the text to sign: the name and the commit. A signature for another tag or commit
    /// does not verify against it.
    ///
    /// ```
    /// use tract_core::CommitId;
    /// use tract_engine::SignedTag;
    /// let tag = SignedTag::new("v1", CommitId::from_bytes([0xab; 32]));
    /// assert_eq!(tag.text(), format!("tract tag 1\ntag v1\ncommit {}\n", "ab".repeat(32)));
    /// ```
    pub fn text(&self) -> String {
        format!("tract tag 1\ntag {}\ncommit {}\n", self.tag, self.commit.to_hex())
    }
}

/// The ref of the document with the remotes.
const REMOTES: &str = "config/remotes";

/// A remote: another store, by a local name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its local name.
    pub name: String,
    /// The URL of the store, or `bundle:PATH`. It may contain a password: do not print it
    /// unchanged.
    pub url: String,
    /// The repository in that store; the same name as this one if absent.
    pub repo: Option<String>,
}

impl Remote {
    /// Creates a remote.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self { name: name.into(), url: url.into(), repo: None }
    }

    /// Returns the path if the remote is a bundle.
    pub fn bundle(&self) -> Option<&str> {
        self.url.strip_prefix("bundle:")
    }
}

#[derive(Deserialize, Serialize)]
struct RemoteEntry {
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
}

type Entries = BTreeMap<String, RemoteEntry>;

/// The number of commits that only one of two heads leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadBehind {
    /// Number of commits that only the first head leads to.
    pub ahead: usize,
    /// Number of commits that only the second head leads to.
    pub behind: usize,
}

/// The last known state of a branch in a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// The remote.
    pub remote: String,
    /// The head of the branch when it was last fetched or pushed.
    pub head: CommitId,
    /// The difference between the local branch and that head.
    pub counts: AheadBehind,
}

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
        create_ref(self, &name, at, "branch").await?;
        Ok(name)
    }

    /// Creates a tag, which never moves.
    ///
    /// # Errors
    /// As [`create_branch`](Self::create_branch).
    pub async fn create_tag(&self, name: &str, at: CommitId) -> Result<RefName> {
        let name = RefName::tag(name)?;
        create_ref(self, &name, at, "tag").await?;
        Ok(name)
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
            let branch = stored_branch(self, name).await?;
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
        let mut attempts = Attempts::new(self);
        loop {
            match rename(self, name, to).await {
                // A message was erased since the check; the branch must not show it.
                Err(Error::Conflict { name, .. }) if name == RefName::newest_erasure() => {
                    attempts.lose().await?;
                }
                renamed => return renamed,
            }
        }
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
        let branch = stored_branch(self, name).await?;
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

    /// Sets the title of a branch, or removes it with `None`. It is stored in the document of the
    /// branch, next to the history; no commit changes.
    ///
    /// # Errors
    /// [`Error::UnknownBranch`] when the branch does not exist; [`Error::BadTitle`] for an empty
    /// title, one of several lines, or a longer one than
    /// [`MAX_TITLE_CHARS`](crate::MAX_TITLE_CHARS); [`Error::Conflict`] when another writer changes
    /// the document during the call.
    pub async fn set_title(&self, branch: &str, title: Option<&str>) -> Result<()> {
        if let Some(title) = title {
            check_title(title)?;
        }
        let name = RefName::branch(branch)?;
        let Some(head) = self.head_of(&name).await? else {
            return Err(self.unknown_branch(branch).await?);
        };
        let at = ImportDocument::ref_of(branch)?;
        let mut document = match ImportDocument::read(self, &at).await? {
            Some(document) => document,
            None if title.is_none() => return Ok(()),
            None => ImportDocument::new(branch, Some(head), None),
        };
        document.title = title.map(|title| title.trim().to_owned());
        self.set_documents("branch", vec![(at, document.seal()?)]).await
    }

    /// Resolves a revision to a commit: a branch, a tag, `HEAD`, `remotes/REMOTE/BRANCH` or short
    /// `REMOTE/BRANCH`, or an id or a prefix of it with at least 4 digits; followed by any of `~n`
    /// (commits back), `#n` (the n-th message shown, from 1), and directly after a branch `@{n}` or
    /// `@{time}` (an earlier target, from the ref log).
    ///
    /// A final `#n` resolves to the current version of the message: the commit that added it, or
    /// its last edit. For a position in the history, use
    /// [`resolve_position`](Self::resolve_position).
    ///
    /// # Errors
    /// [`Error::UnknownRevision`] with similar names, [`Error::Ambiguous`] with the commits that
    /// match a prefix, [`Error::BadRevision`] when it goes beyond the history.
    pub async fn resolve(&self, text: &str) -> Result<CommitId> {
        resolve_in(&mut Txn::new(self)?, text, &Marks::new()).await
    }

    /// Resolves a revision to a position in a history. Like [`resolve`](Self::resolve), but a final
    /// `#n` resolves to the commit of that history that added the message or merged it in,
    /// regardless of later edits.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    ///
    /// # Complexity
    /// For `#n`, linear in the commits since the message was added.
    pub async fn resolve_position(&self, text: &str) -> Result<CommitId> {
        resolve_position_in(&mut Txn::new(self)?, text, &Marks::new()).await
    }

    /// Resolves a revision that ends in `#n` to a message; `None` for any other revision.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn resolve_message(&self, text: &str) -> Result<Option<NamedMessage>> {
        resolve_message(self, text).await
    }

    /// Returns the commit of a history, along first parents, that added a message or merged it in.
    ///
    /// # Errors
    /// [`Error::BadRevision`] when the context at the head lacks the message.
    ///
    /// # Complexity
    /// Linear in the commits since the message was added.
    pub async fn position_of(&self, head: CommitId, slot: CommitId) -> Result<CommitId> {
        position_of(self, head, slot).await
    }

    /// Reverts the last operation that moved this ref, with all other refs that it moved. Only refs
    /// move; commits stay. Tool effects and decisions of people are not undone. `HEAD` moves back
    /// if the branch it names is removed.
    ///
    /// # Behavior
    /// - All refs get their targets from before the operation, or none moves. A branch that would
    ///   show an erased message gets the edit of the erasure on top, so an erasure is not undone:
    ///   the operation before it is.
    /// - An operation that is still writing is reverted up to its latest write, since there is no
    ///   sign whether more will follow. Its later writes come after the undo, so it cannot be
    ///   undone as a whole again: another undo is refused and names the first one.
    /// - If the operation itself writes during the undo, the undo is retried for up to
    ///   [`RepoOptions::retry_for`](crate::RepoOptions::retry_for).
    ///
    /// # Errors
    /// [`Error::NothingToUndo`]; [`Error::MovedSince`] when another operation moved one of the refs
    /// since, or this one keeps writing; [`Error::Collected`] when garbage collection deleted a
    /// commit that a ref would go back to. Nothing moves then.
    pub async fn undo(&self, name: &RefName) -> Result<UndoReport> {
        undo::undo(self, name).await
    }

    /// Reverts the last undo of this ref.
    ///
    /// # Errors
    /// As [`undo`](Self::undo). After another operation there is nothing to redo.
    pub async fn redo(&self, name: &RefName) -> Result<UndoReport> {
        undo::redo(self, name).await
    }

    /// Creates a tag with its signature in one write, or signs an existing one.
    ///
    /// # Errors
    /// As [`create_tag`](Self::create_tag); [`Error::Exists`] also when the tag names another
    /// commit. An existing signature is replaced.
    pub async fn create_signed_tag(&self, tag: &SignedTag) -> Result<RefName> {
        let name = RefName::tag(&tag.tag)?;
        let to = RefTarget::Commit(tag.commit);
        self.require_uncollected(&[tag.commit]).await?;
        let mut txn = Txn::new(self)?;
        match txn.target(&name).await? {
            Some(at) if at == to => txn.hold(&name, Some(at)),
            Some(at) => return Err(Error::Exists { name, at }),
            None => txn.move_ref(&name, Some(to)).await?,
        }
        if let (Some(at), Some(signature)) = (name.companion(), &tag.signature) {
            let document = Blob::seal(signature.clone());
            let to = RefTarget::Blob(document.id());
            txn.blob(document)?;
            txn.move_ref(&at, Some(to)).await?;
        }
        require_done(txn.apply("tag", &WriteOptions::default()).await?)?;
        Ok(name)
    }

    /// Lists the tags with their signatures, sorted by name. Signatures are not verified: use
    /// `ssh-keygen -Y verify` with [`SignedTag::text`].
    ///
    /// # Errors
    /// When the store fails.
    pub async fn signed_tags(&self) -> Result<Vec<SignedTag>> {
        let tags = self.tags().await?.into_iter();
        let mut tags: Vec<_> = tags.map(|(tag, commit)| SignedTag::new(tag, commit)).collect();
        for (name, document) in self.documents(SIGNATURES).await? {
            let Some(tag) = name.as_str().strip_prefix(SIGNATURES) else { continue };
            let found = tags.binary_search_by(|found| found.tag.as_str().cmp(tag)).ok();
            if let Some(found) = found.and_then(|place| tags.get_mut(place)) {
                // A document that is not text becomes a signature that never verifies.
                found.signature = Some(document.text().unwrap_or_default().to_owned());
            }
        }
        Ok(tags)
    }

    /// Lists the remotes, sorted by name.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the document of the remotes is invalid.
    pub async fn remotes(&self) -> Result<Vec<Remote>> {
        let (_, entries) = remote_entries(self).await?;
        Ok(entries
            .into_iter()
            .map(|(name, RemoteEntry { url, repo })| Remote { name, url, repo })
            .collect())
    }

    /// Returns the remote with a name; without a name `origin`, or else the only one.
    ///
    /// # Errors
    /// [`Error::UnknownRemote`] when there is no such remote, or when no name is given and there is
    /// not exactly one.
    pub async fn remote(&self, name: Option<&str>) -> Result<Remote> {
        let mut remotes = self.remotes().await?;
        let wanted = name.unwrap_or("origin");
        if let Some(at) = remotes.iter().position(|remote| remote.name == wanted) {
            return Ok(remotes.swap_remove(at));
        }
        if name.is_none() && remotes.len() == 1 {
            return Ok(remotes.swap_remove(0));
        }
        Err(unknown_remote(name, remotes.into_iter().map(|remote| remote.name)))
    }

    /// Adds a remote.
    ///
    /// # Errors
    /// [`Error::RemoteExists`]; [`Error::BadName`].
    pub async fn add_remote(&self, remote: Remote) -> Result<()> {
        RefName::check_new_remote(&remote.name)?;
        let (at, mut entries) = remote_entries(self).await?;
        let Remote { name, url, repo } = remote;
        if entries.contains_key(&name) {
            return Err(Error::RemoteExists { name });
        }
        entries.insert(name, RemoteEntry { url, repo });
        write_remotes(self, "remote add", at, &entries, Vec::new()).await
    }

    /// Removes a remote, with its remote-tracking refs.
    ///
    /// # Errors
    /// [`Error::UnknownRemote`].
    pub async fn remove_remote(&self, name: &str) -> Result<()> {
        let (at, mut entries) = remote_entries(self).await?;
        if entries.remove(name).is_none() {
            return Err(unknown_remote(Some(name), entries.into_keys()));
        }
        let seen = self.store().list_refs(self.name(), &format!("remotes/{name}/")).await?;
        let gone = seen.into_iter().map(|(name, target)| ref_edit(name, Some(target), None));
        write_remotes(self, "remote remove", at, &entries, gone.collect()).await
    }

    /// Returns the last known state of a branch in each remote, from the refs under `remotes/`,
    /// sorted by remote. The remotes are not contacted.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn tracking(&self, branch: &RefName) -> Result<Vec<Tracking>> {
        let Some(name) = branch.branch_name() else { return Ok(Vec::new()) };
        let seen = self.remote_branches().await?;
        let Some(seen) = seen.get(name) else { return Ok(Vec::new()) };
        let Some(head) = self.head_of(branch).await? else { return Ok(Vec::new()) };
        let mut found = Vec::with_capacity(seen.len());
        for (remote, there) in seen {
            let counts = self.ahead_behind(head, *there).await?;
            found.push(Tracking { remote: remote.clone(), head: *there, counts });
        }
        Ok(found)
    }

    /// Returns the last known heads of all branches in remotes: for each branch, the remotes and
    /// commits.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn remote_branches(&self) -> Result<HashMap<String, Vec<(String, CommitId)>>> {
        let mut found: HashMap<String, Vec<(String, CommitId)>> = HashMap::new();
        for (name, target) in self.store().list_refs(self.name(), "remotes/").await? {
            if let (Some((remote, branch)), Some(id)) = (name.remote_branch_name(), target.commit())
            {
                found.entry(branch.to_owned()).or_default().push((remote.to_owned(), id));
            }
        }
        Ok(found)
    }

    /// Counts the commits that only one of two heads leads to, over all parents.
    ///
    /// Both histories are read page by page in turn until they meet. If one of them has a merge
    /// that the other lacks, both are read to their roots.
    ///
    /// # Errors
    /// [`Error::Missing`] when a commit is not stored; those of the store.
    pub async fn ahead_behind(&self, ours: CommitId, theirs: CommitId) -> Result<AheadBehind> {
        ahead_behind::count(self, ours, theirs).await
    }
}

async fn create_ref(repo: &Repo, name: &RefName, at: CommitId, what: &str) -> Result<()> {
    name.check_shell_safe()?;
    repo.require_uncollected(&[at]).await?;
    let mut races = repo.races();
    loop {
        let mut txn = Txn::new(repo)?;
        if let Some(at) = txn.target(name).await? {
            return Err(Error::Exists { name: name.clone(), at });
        }
        txn.move_ref(name, Some(RefTarget::Commit(at))).await?;
        let applied = txn.apply(what, &WriteOptions::default()).await;
        match repo.or_collected(applied, &[at]).await? {
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

/// Moves the document of a branch, which has its title and its project, to another name.
async fn move_document(txn: &mut Txn<'_>, branch: &RefName, renamed: &RefName) -> Result<()> {
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

/// Renames a branch, if nothing was erased while it is read.
async fn rename(repo: &Repo, name: &str, to: &str) -> Result<Option<CommitId>> {
    let branch = stored_branch(repo, name).await?;
    let renamed = RefName::branch(to)?;
    renamed.check_shell_safe()?;
    let mut txn = Txn::new(repo)?;
    let at = txn.target(&RefName::head()).await?;
    let is_current = repo.current_branch().await? == branch;
    let head = txn.head(&branch).await?;
    if head.is_none() && !is_current {
        return Err(repo.unknown_branch(name).await?);
    }
    if let Some(at) = txn.target(&renamed).await? {
        return Err(Error::Exists { name: renamed, at });
    }
    // A pending approval is later carried out on the branch that it names.
    let pending = repo.pending().await?;
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
        move_document(&mut txn, &branch, &renamed).await?;
    }
    require_done(txn.apply("branch", &WriteOptions::default()).await?)?;
    Ok(head)
}

/// Returns the ref of a branch as it is stored. Branches of older versions and other stores may
/// have names that are now rejected or normalized differently.
async fn stored_branch(repo: &Repo, name: &str) -> Result<RefName> {
    let as_given = RefName::new(format!("heads/{name}"))?;
    match RefName::branch(name) {
        Ok(branch) if branch != as_given && repo.ref_target(&as_given).await?.is_none() => {
            Ok(branch)
        }
        _ => Ok(as_given),
    }
}

async fn remote_entries(repo: &Repo) -> Result<(Option<RefTarget>, Entries)> {
    let Some(target) = repo.ref_target(&RefName::new(REMOTES)?).await? else {
        return Ok((None, Entries::new()));
    };
    let Some(id) = target.blob() else { return Ok((Some(target), Entries::new())) };
    let blob = repo.require_blob(id).await?;
    match serde_json::from_slice(blob.bytes()) {
        Ok(entries) => Ok((Some(target), entries)),
        Err(error) => Err(Error::Damaged {
            object: Some(ObjectId::Blob(id)),
            what: format!("as the list of remotes: {error}"),
        }),
    }
}

async fn write_remotes(
    repo: &Repo,
    what: &str,
    at: Option<RefTarget>,
    entries: &Entries,
    mut edits: Vec<RefEdit>,
) -> Result<()> {
    let text = serde_json::to_string(entries).map_err(|error| Error::Damaged {
        object: None,
        what: format!("as the list of remotes: {error}"),
    })?;
    let blob = Blob::seal(text.into_bytes());
    let operation = repo.operation_or_new(None)?;
    let to = (!entries.is_empty()).then(|| RefTarget::Blob(blob.id()));
    edits.push(ref_edit(RefName::new(REMOTES)?, at, to));
    let mut batch = repo.batch(&operation, what)?;
    if !entries.is_empty() {
        batch.blobs.push(blob);
    }
    batch.refs = edits;
    require_done(apply_and_tell(repo, &operation, batch).await?)
}

fn unknown_remote(name: Option<&str>, known: impl Iterator<Item = String>) -> Error {
    let known: Vec<String> = known.collect();
    let near = name.and_then(|name| nearest(name, known.iter().map(String::as_str)));
    let nearest = near.map(str::to_owned);
    Error::UnknownRemote { name: name.map(str::to_owned), nearest, known }
}
