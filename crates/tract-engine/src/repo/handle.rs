//! The repository handle.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tract_compile::{CompileError, Compiled, Compiler, Unreadable};
use tract_core::store::BlobKey;
use tract_core::{
    ApproxCounter, Batch, Blob, BlobId, Change, Clock, Commit, CommitId, Content, Limits, LogNote,
    ObjectId, OperationId, RefName, RefTarget, RepoName, Store, StoreExt, SystemClock,
    TokenCounter, Toolset, ToolsetId, nearest,
};
use tract_hooks::{BeforeCompile, Hooks};

use crate::plan::{ComparedHeads, History};
use crate::repo::erasure::Erasure;
use crate::repo::error::gone::is_gone;
use crate::repo::error::{Error, Result};
use crate::repo::heads::Heads;
use crate::repo::history::HistoryReader;
use crate::repo::operation::Operation;

/// Default of [`RepoOptions::turn_rows_every`].
const TURN_ROWS_EVERY: u64 = 1024;

/// Options of a repository handle.
#[derive(Clone)]
pub struct RepoOptions {
    /// The repository's name in the store; default: `default`.
    pub name: RepoName,
    /// The clock; default: that of the operating system.
    pub clock: Arc<dyn Clock>,
    /// The token counter; default: about four characters per token.
    pub counter: Arc<dyn TokenCounter>,
    /// The handlers that run before a write; default: none.
    pub hooks: Hooks,
    /// The limits that are checked before a write.
    pub limits: Limits,
    /// The author in the ref log; default: empty.
    pub who: String,
    /// Number of commits between two rows of the turn index; default: 1,024. A smaller number makes
    /// queries for turns cheaper and the index larger.
    pub turn_rows_every: u64,
    /// Time during which a write is retried while others keep moving its refs; default: 30 seconds.
    pub retry_for: Duration,
}

impl Default for RepoOptions {
    fn default() -> Self {
        Self {
            name: RepoName::default(),
            clock: Arc::new(SystemClock),
            counter: Arc::new(ApproxCounter),
            hooks: Hooks::default(),
            limits: Limits::default(),
            who: String::new(),
            turn_rows_every: TURN_ROWS_EVERY,
            retry_for: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for RepoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepoOptions")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("who", &self.who)
            .finish_non_exhaustive()
    }
}

/// The first branch of a new repository.
pub const FIRST_BRANCH: &str = "main";

/// A branch and its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its name, without `heads/`.
    pub name: String,
    /// Its head.
    pub head: CommitId,
    /// Whether `HEAD` points to it.
    pub checked_out: bool,
}

/// A named repository in a store. It has no current branch: operations take a branch or a head.
/// Cheap to clone.
#[derive(Clone)]
pub struct Repo {
    store: Arc<dyn Store>,
    options: Arc<RepoOptions>,
    compiler: Compiler,
    heads: Heads,
    compared_heads: ComparedHeads,
    operation: Option<Operation>,
}

impl fmt::Debug for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repo")
            .field("store", &self.store.backend())
            .field("name", &self.options.name)
            .finish_non_exhaustive()
    }
}

impl Repo {
    /// Creates a handle of a repository in a store. Nothing is read or written.
    pub fn new(store: Arc<dyn Store>, options: RepoOptions) -> Self {
        let RepoOptions { name, counter, .. } = &options;
        let compiler = Compiler::new(store.clone(), name.clone(), counter.clone());
        Self {
            store,
            options: Arc::new(options),
            compiler,
            heads: Heads::default(),
            compared_heads: ComparedHeads::default(),
            operation: None,
        }
    }

    /// Returns the same repository in another store, with its own caches.
    pub(crate) fn over(&self, store: Arc<dyn Store>) -> Self {
        Self::new(store, RepoOptions::clone(&self.options))
    }

    /// Returns a handle whose writes belong to one operation, so that one [`undo`](Self::undo)
    /// reverts all of them. Caches are shared.
    ///
    /// ```
    /// # tract_core::block_on(async {
    /// # use tract_core::{Draft, RefName};
    /// # use tract_engine::{Operation, Repo, RepoOptions};
    /// let repo = Repo::new(std::sync::Arc::new(tract_kv::memory()), RepoOptions::default());
    /// let main = RefName::branch("main")?;
    /// let command = repo.within(Operation::begin()?);
    /// command.append(&main, Draft::user("one")).await?;
    /// command.append(&main, Draft::user("two")).await?;
    /// repo.undo(&main).await?;
    /// assert_eq!(repo.head_of(&main).await?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn within(&self, operation: Operation) -> Self {
        Self { operation: Some(operation), ..self.clone() }
    }

    /// Returns the operation that this handle's writes belong to; `None` if each write is a
    /// separate one.
    pub fn operation(&self) -> Option<&Operation> {
        self.operation.as_ref()
    }

    /// Returns the operation that a write belongs to: the chosen one, else this handle's, else a
    /// new one.
    pub(crate) fn operation_or_new(&self, chosen: Option<&Operation>) -> Result<Operation> {
        chosen.or(self.operation()).cloned().map_or_else(Operation::begin, Ok)
    }

    /// Returns the ref log note of a write.
    pub(crate) fn log_note(&self, operation: OperationId, what: &str) -> LogNote {
        LogNote {
            operation,
            what: what.to_owned(),
            who: self.who().to_owned(),
            why: None,
            undoes: None,
            at: self.now_us(),
        }
    }

    /// Returns an empty batch: the next one of an operation.
    pub(crate) fn batch(&self, operation: &Operation, what: &str) -> Result<Batch> {
        Ok(Batch::new(operation.next_batch()?, self.log_note(operation.id(), what)))
    }

    /// Returns another repository of the same store, with the options of this one.
    #[must_use]
    pub fn sibling(&self, name: RepoName) -> Self {
        let options = RepoOptions { name, ..RepoOptions::clone(&self.options) };
        Self::new(Arc::clone(&self.store), options)
    }

    /// Returns the same repository with other handlers. Caches are shared.
    #[must_use]
    pub fn with_hooks(&self, hooks: Hooks) -> Self {
        let options = RepoOptions { hooks, ..RepoOptions::clone(&self.options) };
        Self { options: Arc::new(options), ..self.clone() }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the repository's name.
    pub fn name(&self) -> &RepoName {
        &self.options.name
    }

    /// Returns the compiler of this repository.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Returns the handlers that run before a write.
    pub fn hooks(&self) -> &Hooks {
        &self.options.hooks
    }

    /// Counts the tokens of a text.
    pub fn count(&self, text: &str) -> u64 {
        self.options.counter.count(text)
    }

    pub(crate) fn counter(&self) -> &dyn TokenCounter {
        self.options.counter.as_ref()
    }

    pub(crate) fn turn_rows_every(&self) -> u64 {
        self.options.turn_rows_every.max(1)
    }

    pub(crate) fn retry_for(&self) -> Duration {
        self.options.retry_for
    }

    /// Reads the content of a version of a message.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not stored, or the commit has no content.
    pub async fn content_of(&self, version: CommitId) -> Result<Content> {
        let commit = self.require_commit(version).await?;
        self.content(&commit).await?.ok_or(Error::Missing(ObjectId::Commit(version)))
    }

    /// Reads the content of a commit; `None` if it has no content.
    ///
    /// # Errors
    /// When the store fails; [`Error::Content`] when the blob does not fit the kind in the record.
    pub async fn content(&self, commit: &Commit) -> Result<Option<Content>> {
        let (Some(id), Some(kind)) = (commit.content, &commit.kind) else { return Ok(None) };
        let blob = self.require_blob(id).await?;
        let text = blob.text().ok_or(tract_core::ContentError::NotText)?;
        Ok(Some(Content::from_blob(kind, text)?))
    }

    /// Returns the heads that merges compared last.
    pub(crate) fn compared_heads(&self) -> &ComparedHeads {
        &self.compared_heads
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Returns the limits that are checked before a write.
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Returns the author in the ref log.
    pub fn who(&self) -> &str {
        &self.options.who
    }

    /// Returns the time: microseconds since 1970, UTC.
    pub fn now_us(&self) -> i64 {
        self.options.clock.now_us()
    }

    /// Reads a ref without following a symbolic one.
    pub async fn ref_target(&self, name: &RefName) -> Result<Option<RefTarget>> {
        Ok(self.store.ref_target(self.name(), name).await?)
    }

    /// Reads the commit that a ref points to, following symbolic refs; `None` if the ref does not
    /// exist or does not point to a commit.
    pub async fn head_of(&self, name: &RefName) -> Result<Option<CommitId>> {
        let mut name = name.clone();
        // `HEAD` names a branch. Longer chains are not created by tract, so a small bound suffices.
        for _ in 0..5 {
            match self.ref_target(&name).await? {
                Some(RefTarget::Ref(next)) => name = next,
                Some(RefTarget::Commit(id)) => return Ok(Some(id)),
                Some(RefTarget::Blob(_)) | None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the branch that `HEAD` points to. Without a `HEAD`, or with one from an older
    /// version that does not point to a branch, returns the first branch.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn current_branch(&self) -> Result<RefName> {
        match self.ref_target(&RefName::head()).await? {
            Some(RefTarget::Ref(name)) if name.branch_name().is_some() => Ok(name),
            Some(RefTarget::Ref(_) | RefTarget::Commit(_) | RefTarget::Blob(_)) | None => {
                Ok(RefName::branch(FIRST_BRANCH)?)
            }
        }
    }

    /// Lists the branches, sorted by name.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn branches(&self) -> Result<Vec<Branch>> {
        let current = self.current_branch().await?;
        let refs = self.store().list_refs(self.name(), "heads/").await?;
        let branches = refs.into_iter().filter_map(|(name, target)| {
            let checked_out = name == current;
            let head = target.commit()?;
            Some(Branch { name: name.branch_name()?.to_owned(), head, checked_out })
        });
        Ok(branches.collect())
    }

    /// Lists the erased blobs.
    pub(crate) async fn erased_blobs(&self) -> Result<HashSet<BlobId>> {
        let refs = self.store().list_refs(self.name(), RefName::erasures()).await?;
        Ok(refs.iter().filter_map(|(name, _)| name.erased_blob()).collect())
    }

    /// Returns the error for a branch that does not exist, with the nearest name.
    pub(crate) async fn unknown_branch(&self, name: &str) -> Result<Error> {
        let branches = self.branches().await?;
        let near = nearest(name, branches.iter().map(|branch| branch.name.as_str()));
        let nearest = near.map(str::to_owned).into_iter().collect();
        Ok(Error::UnknownBranch { name: name.to_owned(), nearest })
    }

    /// Checks that garbage collection did not delete commits that a caller or the ref log names. A
    /// commit that a ref leads to was not collected: if it is missing, the store is damaged.
    pub(crate) async fn require_uncollected(&self, commits: &[CommitId]) -> Result<()> {
        let found = self.store().commits(self.name(), commits).await?;
        let mut absent = commits.iter().zip(found).filter(|(_, commit)| commit.is_none());
        let Some((commit, _)) = absent.next() else { return Ok(()) };
        let target = RefTarget::Commit(*commit);
        for prefix in ["heads/", "tags/", "remotes/"] {
            let refs = self.store().list_refs(self.name(), prefix).await?;
            if refs.iter().any(|(_, at)| *at == target) {
                return Ok(());
            }
        }
        Err(Error::Collected { object: ObjectId::Commit(*commit) })
    }

    /// Returns a result of reading commits that a caller named. Its branch may have moved since,
    /// and garbage collection deleted them: this is no damage.
    pub(crate) async fn or_collected<T>(&self, result: Result<T>, named: &[CommitId]) -> Result<T> {
        if result.as_ref().is_err_and(is_gone) {
            self.require_uncollected(named).await?;
        }
        result
    }

    /// Reads a commit.
    pub async fn commit(&self, id: CommitId) -> Result<Option<Commit>> {
        Ok(self.store.commit(self.name(), id).await?)
    }

    /// Reads a commit that must be stored.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not.
    pub async fn require_commit(&self, id: CommitId) -> Result<Commit> {
        self.commit(id).await?.ok_or(Error::Missing(ObjectId::Commit(id)))
    }

    /// Starts to read the history of a head along first parents, newest first. Nothing is read
    /// until the first commit is requested.
    pub fn history(&self, head: CommitId) -> HistoryReader<'_> {
        HistoryReader::new(self, head)
    }

    /// Reads commits that must be stored.
    pub(crate) async fn require_commits(&self, ids: &[CommitId]) -> Result<Vec<Commit>> {
        let found = self.store.commits(self.name(), ids).await?;
        let found = ids.iter().zip(found);
        found.map(|(id, commit)| commit.ok_or(Error::Missing(ObjectId::Commit(*id)))).collect()
    }

    /// Reads a blob that must be stored.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not.
    pub async fn require_blob(&self, id: BlobId) -> Result<Blob> {
        match self.store.blob(self.name(), id).await? {
            Some(blob) => Ok(blob),
            None => Err(self.absent_blob(id).await),
        }
    }

    /// Reads blobs in the order of the keys; `None` for one that was erased.
    ///
    /// # Errors
    /// [`Error::Missing`] for a blob that is not stored and was not erased; when the store fails.
    pub(crate) async fn blobs_or_erased(&self, keys: &[BlobKey]) -> Result<Vec<Option<Blob>>> {
        let found = self.store().blobs(self.name(), keys).await?;
        let absent = keys.iter().zip(&found).filter(|(_, blob)| blob.is_none());
        let absent: Vec<BlobId> = absent.map(|(key, _)| key.id).collect();
        if absent.is_empty() {
            return Ok(found);
        }
        let erasures: Vec<RefName> = absent.iter().map(|id| RefName::erasure(*id)).collect();
        let erasures = self.store().refs(self.name(), &erasures).await?;
        match absent.iter().zip(erasures).find(|(_, erasure)| erasure.is_none()) {
            Some((id, _)) => Err(Error::Missing(ObjectId::Blob(*id))),
            None => Ok(found),
        }
    }

    /// Returns `Erased` for an erased blob, else `Missing`.
    pub(crate) async fn absent_blob(&self, blob: BlobId) -> Error {
        match self.erasure_of(blob).await {
            Ok(Some(erasure)) => Error::Erased(Box::new(erasure)),
            Ok(None) => Error::Missing(ObjectId::Blob(blob)),
            Err(error) => error,
        }
    }

    /// Returns the record of a blob's erasure; `None` if it was not erased.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn erasure_of(&self, blob: BlobId) -> Result<Option<Erasure>> {
        let Some(RefTarget::Blob(id)) = self.ref_target(&RefName::erasure(blob)).await? else {
            return Ok(None);
        };
        let document = self.store().blob(self.name(), id).await?;
        let erasure = document.map(|document| Erasure::read(blob, &document));
        Ok(Some(erasure.unwrap_or_else(|| Erasure::unknown(blob))))
    }

    /// Reads a toolset that must be stored.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not.
    pub async fn require_toolset(&self, id: ToolsetId) -> Result<Toolset> {
        let found = self.store.toolsets(self.name(), &[id]).await?.into_iter().flatten().next();
        found.ok_or(Error::Missing(ObjectId::Toolset(id)))
    }

    /// Reads the changes of a commit, whether its record lists them or a blob does.
    ///
    /// # Errors
    /// [`Error::Compile`] when the list's blob is not stored, or is not a list of changes.
    pub async fn changes(&self, commit: &Commit) -> Result<Vec<Change>> {
        Ok(self.compiler.changes(commit).await?)
    }

    /// Reads the folded history of a head, for planners; empty before the first commit.
    ///
    /// # Errors
    /// [`Error::Compile`] when a commit of the history is not stored, or does not fit its parent's
    /// view; [`Error::Collected`] when garbage collection deleted the head.
    pub async fn fold(&self, head: Option<CommitId>) -> Result<History> {
        let folded = self.compiler.fold(head).await.map_err(Error::from);
        self.or_collected(folded, head.as_slice()).await
    }

    /// Compiles a head: the messages and tools that a model would see.
    ///
    /// # Errors
    /// As [`fold`](Self::fold), and when a shown message or a tool in force cannot be read; and
    /// [`Error::Hook`] when a handler refuses.
    pub async fn compile(&self, head: Option<CommitId>) -> Result<Compiled> {
        if self.hooks().has_handler::<BeforeCompile>() {
            let event = BeforeCompile::new(head);
            self.hooks().before_compile(&event).await.settle()?;
        }
        match self.compiler.compile(head).await {
            Err(
                CompileError::Missing { object: ObjectId::Blob(id), .. }
                | CompileError::MissingTool { object: ObjectId::Blob(id) },
            ) if self.erasure_of(id).await?.is_some() => Err(self.absent_blob(id).await),
            compiled => self.or_collected(compiled.map_err(Error::from), head.as_slice()).await,
        }
    }

    /// Compiles a head for display. Each unreadable message is listed, and replaced by a message
    /// that states the reason. No handler is asked.
    ///
    /// # Errors
    /// When a commit of the history cannot be read, or the store fails for a reason other than
    /// damage to one object.
    pub async fn compile_readable(
        &self,
        head: Option<CommitId>,
    ) -> Result<(Compiled, Vec<Unreadable>)> {
        let compiled = self.compiler.compile_readable(head).await.map_err(Error::from);
        self.or_collected(compiled, head.as_slice()).await
    }

    /// Finds the commit of a history that was its head at a time: the one nearest to `head`, over
    /// first parents, that was made at or before `at_us` (microseconds since 1970, UTC). A commit
    /// without a time counts as its parent's, and 0 at a root. `None` when all were made later.
    ///
    /// # Errors
    /// When the head is not stored, or the store fails.
    pub async fn head_at_time(&self, head: CommitId, at_us: i64) -> Result<Option<CommitId>> {
        Ok(self.compiler().view_at_time(Some(head), at_us).await?)
    }

    /// Compiles a history as it was at a time: messages, priorities and tools; empty before its
    /// first commit.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn compile_at_time(&self, head: CommitId, at_us: i64) -> Result<Compiled> {
        let head = self.head_at_time(head, at_us).await?;
        self.compile(head).await
    }
}
