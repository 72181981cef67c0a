//! Imports whole conversations, each on its own branch; equal prefixes share commits.

mod chain;
mod growth;
mod write;

use std::collections::{HashMap, HashSet};
use std::fmt;

use tract_core::store::BlobKey;
use tract_core::{
    Batch, Blob, BlobId, Commit, CommitId, Draft, JsonText, ObjectId, RefName, RefTarget,
    StoreError, StoreErrorKind, ToolRow, ToolSchema, Toolset,
};

use self::chain::{Builder, Chain};
pub use self::chain::{ImportAnomaly, ImportAnomalyKind};
use self::growth::{Growth, growth};
use crate::repo::Repo;
use crate::repo::batch::require_done;
use crate::repo::erasure::Erasure;
use crate::repo::error::{Error, Result};
use crate::repo::operation::Operation;
use crate::upkeep::erase::banned;
use crate::write::import_document::ImportDocument;
use crate::write::lease::Lease;
use crate::write::txn::ref_edit;

/// A conversation to import, as an adapter read it.
#[derive(Clone, Debug)]
pub struct ImportConversation {
    /// Its id, from which the name of its branch is derived.
    pub id: String,
    /// Its messages, in order.
    pub drafts: Vec<Draft>,
    /// The tools in force from the start. An empty list means no tools.
    pub tools: Vec<ToolSchema>,
    /// Additional data, such as its file: a JSON object that is stored next to the history.
    pub meta: Option<JsonText>,
}

impl ImportConversation {
    /// Creates a conversation without tools.
    pub fn new(id: impl Into<String>, drafts: Vec<Draft>) -> Self {
        Self { id: id.into(), drafts, tools: Vec::new(), meta: None }
    }
}

/// Options of an [`Importer`].
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Maximum number of conversations in one durable write; 256 by default.
    pub group_conversations: usize,
    /// Number of bytes in one durable write; 8 MiB by default. A conversation is never split.
    pub group_bytes: usize,
    /// The operation of the ref moves; a new one if absent.
    pub operation: Option<Operation>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { group_conversations: 256, group_bytes: 8 << 20, operation: None }
    }
}

/// The outcome for the branch of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImportStatus {
    /// It was created.
    Created,
    /// It was moved forward to the imported messages.
    Forwarded,
    /// It already pointed to the end of the conversation.
    Unchanged,
    /// It pointed to messages that the user has since abandoned, and was moved to the messages that
    /// continue the conversation. Another branch keeps the abandoned ones.
    Moved,
    /// It has other commits and was not changed. Nothing of the conversation was stored.
    Diverged,
}

impl ImportStatus {
    /// Returns the stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Forwarded => "forwarded",
            Self::Unchanged => "unchanged",
            Self::Moved => "moved",
            Self::Diverged => "diverged",
        }
    }
}

impl fmt::Display for ImportStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The outcome of importing a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The id of the conversation.
    pub id: String,
    /// The name of its branch.
    pub branch: String,
    /// The outcome for that branch.
    pub status: ImportStatus,
    /// Its last commit; `None` if it has neither messages nor tools.
    pub head: Option<CommitId>,
    /// Number of commits of the conversation.
    pub commits: usize,
    /// Number of those already stored, or part of another conversation in the same group.
    pub reused: usize,
    /// Its anomalies. The messages are kept as recorded.
    pub anomalies: Vec<ImportAnomaly>,
}

/// Imports conversations, several in one durable write.
///
/// Returns the outcomes of conversations once they are durable, in the order of adding.
///
/// ```no_run
/// # async fn example(repo: &tract_engine::Repo, conversations: Vec<tract_engine::ImportConversation>)
/// # -> tract_engine::Result<()> {
/// use tract_engine::{ImportOptions, Importer};
/// let mut importer = Importer::new(repo, ImportOptions::default())?;
/// for conversation in conversations {
///     for done in importer.add(conversation).await? {
///         println!("{} {}", done.branch, done.status);
///     }
/// }
/// for done in importer.finish().await? {
///     println!("{} {}", done.branch, done.status);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Importer {
    repo: Repo,
    options: ImportOptions,
    operation: Operation,
    /// Keeps the stored commits of a large conversation until its branch leads to them.
    lease: Lease,
    group: Vec<PlannedImport>,
    bytes: usize,
    /// The banned blobs, read on first use.
    banned: Option<HashMap<BlobId, Erasure>>,
}

/// A conversation converted to commits, and the branch names that it may use.
#[derive(Debug)]
struct PlannedImport {
    id: String,
    names: [ImportRefs; 2],
    meta: Option<JsonText>,
    chain: Chain,
}

/// A branch, and the document that records the conversation of the branch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ImportRefs {
    branch: RefName,
    document: RefName,
}

impl ImportRefs {
    fn new(name: &str) -> Result<Self> {
        let branch = RefName::branch(name)?;
        let document = format!("imports/{}", branch.branch_name().unwrap_or(name));
        Ok(Self { branch, document: RefName::new(document)? })
    }

    /// Returns the possible names for a conversation, best first: the plain name, which is used if
    /// it needs no cleaning or an older version used it for this conversation, and a name with
    /// digits of the id, which no other id produces.
    fn of(id: &str) -> Result<[Self; 2]> {
        let digits = Self::new(&RefName::with_digits(id))?;
        Ok([Self::new(&RefName::sanitize(id)).unwrap_or_else(|_| digits.clone()), digits])
    }
}

impl Importer {
    /// Creates an importer with an empty group.
    ///
    /// # Errors
    /// [`Error::Random`] when the operating system provides no random numbers.
    pub fn new(repo: &Repo, options: ImportOptions) -> Result<Self> {
        let operation = repo.operation_or_new(options.operation.as_ref())?;
        let lease = Lease::new(repo, true)?;
        Ok(Self {
            repo: repo.clone(),
            options,
            operation,
            lease,
            group: Vec::new(),
            bytes: 0,
            banned: None,
        })
    }

    /// Adds a conversation. If the group is full, writes it and returns the outcomes.
    ///
    /// # Errors
    /// When the conversation exceeds a limit, or has content without a canonical form or content
    /// that is erased and banned: it is left out, and others may follow. When the store fails:
    /// nothing of the group was written.
    pub async fn add(&mut self, conversation: ImportConversation) -> Result<Vec<Imported>> {
        let ImportConversation { id, drafts, tools, meta } = conversation;
        let mut builder = Builder::new(self.repo.limits(), &tools)?;
        for draft in drafts {
            // The text is moved, so that a large message is in memory only once.
            builder.add(draft)?;
        }
        let chain = builder.finish();
        self.refuse_banned(&chain.links).await?;
        let planned = PlannedImport { names: ImportRefs::of(&id)?, id, meta, chain };
        // Two conversations with the same name would be two edits of one ref in a batch.
        let taken = self
            .group
            .iter()
            .any(|other| planned.names.iter().any(|name| other.names.contains(name)));
        let mut done = if taken { self.finish().await? } else { Vec::new() };
        self.bytes += planned.chain.size_bytes;
        self.group.push(planned);
        if self.group.len() >= self.options.group_conversations
            || self.bytes >= self.options.group_bytes
        {
            done.extend(self.finish().await?);
        }
        Ok(done)
    }

    /// Adds a conversation whose drafts are produced one at a time, and returns its outcome and
    /// those of the group before it. Its commits are stored in portions, and its branch is created
    /// by the last write. Memory holds one portion and the ids, however many messages there are.
    ///
    /// # Errors
    /// Errors of `next`, and those of [`add`](Self::add). The commits stored before then are not on
    /// any branch.
    pub async fn add_large<E: From<Error>>(
        &mut self,
        id: impl Into<String>,
        tools: &[ToolSchema],
        meta: Option<JsonText>,
        mut next: impl FnMut() -> Result<Option<Draft>, E>,
    ) -> Result<Vec<Imported>, E> {
        let id = id.into();
        let names = ImportRefs::of(&id)?;
        let mut done = self.finish().await?;
        let large = self.large((id, names), tools, meta, &mut next).await;
        // The branch leads to the commits now, or they are not needed.
        self.lease.release().await;
        done.extend(large?);
        Ok(done)
    }

    async fn large<E: From<Error>>(
        &mut self,
        (id, names): (String, [ImportRefs; 2]),
        tools: &[ToolSchema],
        meta: Option<JsonText>,
        next: &mut impl FnMut() -> Result<Option<Draft>, E>,
    ) -> Result<Vec<Imported>, E> {
        let repo = self.repo.clone();
        let mut builder = Builder::new(repo.limits(), tools)?;
        while let Some(draft) = next()? {
            builder.add(draft)?;
            if builder.made.size_bytes >= self.options.group_bytes {
                let links = builder.take_links();
                self.refuse_banned(&links).await?;
                builder.made.reused += self.store(links).await?;
            }
        }
        let chain = builder.finish();
        self.refuse_banned(&chain.links).await?;
        self.group.push(PlannedImport { names, id, meta, chain });
        Ok(self.finish().await?)
    }

    /// Fails if commits that are not stored yet bring banned bytes.
    async fn refuse_banned(&mut self, links: &[ImportCommit]) -> Result<()> {
        let banned = match self.banned.take() {
            Some(banned) => banned,
            None => banned(&self.repo).await?,
        };
        let banned = self.banned.insert(banned);
        if banned.is_empty() {
            return Ok(());
        }
        for link in links {
            // A commit that is already stored is left out of the batch with its blobs, so it cannot
            // bring them back.
            let found = link.blobs.iter().find_map(|blob| banned.get(&blob.id()));
            if let Some(erasure) = found
                && self.repo.commit(link.commit.id()).await?.is_none()
            {
                let backend = self.repo.store().backend();
                return Err(StoreError::erased(backend, "import", erasure.blob).into());
            }
        }
        Ok(())
    }

    /// Stores commits under the lease. Returns the number of commits that were stored before.
    async fn store(&self, links: Vec<ImportCommit>) -> Result<usize> {
        let Some(last) = links.last().map(|link| ObjectId::Commit(link.commit.id())) else {
            return Ok(0);
        };
        let mut races = self.repo.races();
        loop {
            let mut batch = self.repo.batch(&self.operation, "import")?;
            let reused = self.add_missing(&mut batch, &mut HashSet::new(), &links).await?;
            // The commit may have been stored before, and garbage-collected since.
            batch.requires.push(last);
            // No ref leads to a portion until the last write. The lease protects it from a
            // collection.
            match self.lease.store(&self.operation, batch, &[last]).await {
                Err(error) if matches!(error.kind, StoreErrorKind::Missing { .. }) => {
                    races.lose().await?;
                }
                applied => {
                    require_done(applied?)?;
                    return Ok(reused);
                }
            }
        }
    }

    /// Writes the last group, and returns its outcomes. The importer can be used again.
    ///
    /// # Errors
    /// When the store fails; then nothing of the group was written.
    pub async fn finish(&mut self) -> Result<Vec<Imported>> {
        let group = std::mem::take(&mut self.group);
        self.bytes = 0;
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let mut races = self.repo.races();
        loop {
            let (mut batch, answers) = self.plan(&group).await?;
            batch.require_targets();
            if batch.refs.is_empty() && batch.commits.is_empty() {
                return Ok(answers);
            }
            let leads_to_stored = answers.iter().any(|one| {
                one.reused > 0
                    && matches!(one.status, ImportStatus::Created | ImportStatus::Forwarded)
            });
            let applied = match self.apply(batch, leads_to_stored).await {
                // A commit found stored during planning was garbage-collected since. Plan again.
                Err(Error::Store(error))
                    if matches!(error.kind, StoreErrorKind::Missing { .. }) =>
                {
                    races.lose().await?;
                    continue;
                }
                applied => applied?,
            };
            if races.won(applied).await? {
                self.index(&answers).await;
                return Ok(answers);
            }
        }
    }

    /// Writes the missing turn index rows of long conversations.
    async fn index(&self, answers: &[Imported]) {
        let every = self.repo.turn_rows_every();
        for Imported { head, status, commits, .. } in answers {
            if let (Some(head), ImportStatus::Created | ImportStatus::Forwarded) = (*head, status)
                && *commits as u64 >= every
            {
                crate::history::turns::catch_up(&self.repo, head).await;
            }
        }
    }

    /// Plans the write of a group: the commits to store, and the refs that move.
    async fn plan(&self, group: &[PlannedImport]) -> Result<(Batch, Vec<Imported>)> {
        let (store, repo) = (self.repo.store(), self.repo.name());
        let mut batch = self.repo.batch(&self.operation, "import")?;
        let mut brought: HashSet<CommitId> = HashSet::new();
        let mut answers = Vec::with_capacity(group.len());
        let names: Vec<RefName> = group
            .iter()
            .flat_map(|one| &one.names)
            .flat_map(|place| [place.branch.clone(), place.document.clone()])
            .collect();
        let targets = store.refs(repo, &names).await?;
        let targets: HashMap<&RefName, RefTarget> =
            names.iter().zip(targets).filter_map(|(name, at)| Some((name, at?))).collect();
        let stored = self.stored_documents(group, &targets).await?;
        for one in group {
            let head = one.chain.ids.last().copied();
            let place = place(one, &targets, &stored);
            let at = targets.get(&place.branch);
            let mut is_older = false;
            let status = match (at, head) {
                (None, Some(_)) => ImportStatus::Created,
                (None, None) => ImportStatus::Unchanged,
                (Some(at), head) if at.commit() == head => ImportStatus::Unchanged,
                (Some(RefTarget::Commit(at)), _) if one.chain.ids.contains(at) => {
                    ImportStatus::Forwarded
                }
                (Some(RefTarget::Commit(at)), Some(_)) => {
                    match growth(&self.repo, *at, &one.chain).await? {
                        Some(Growth::Newer) => ImportStatus::Forwarded,
                        Some(Growth::Older) => {
                            is_older = true;
                            ImportStatus::Unchanged
                        }
                        None => ImportStatus::Diverged,
                    }
                }
                (Some(_), _) => ImportStatus::Diverged,
            };
            // Commits that no branch leads to would be garbage, and every write of objects without a
            // ref makes a concurrent collection or erasure start again.
            let is_left_out = is_older || status == ImportStatus::Diverged;
            let links = &one.chain.links;
            let stored_before = if is_left_out {
                self.missing(&HashSet::new(), links).await?.1
            } else {
                self.add_missing(&mut batch, &mut brought, links).await?
            };
            let reused = one.chain.reused + stored_before;
            if let (Some(head), ImportStatus::Created | ImportStatus::Forwarded) = (head, status) {
                let (name, to) = (place.branch.clone(), RefTarget::Commit(head));
                batch.refs.push(ref_edit(name, at.cloned(), Some(to)));
            }
            if !is_left_out {
                let mut document = ImportDocument::new(&one.id, head, one.meta.clone());
                document.title = stored.get(&place.document).and_then(|it| it.title.clone());
                let document = document.seal()?;
                let (at, to) = (targets.get(&place.document), RefTarget::Blob(document.id()));
                if at != Some(&to) {
                    batch.blobs.push(document);
                    batch.refs.push(ref_edit(place.document.clone(), at.cloned(), Some(to)));
                }
            }
            answers.push(Imported {
                id: one.id.clone(),
                branch: place.branch.branch_name().unwrap_or_default().to_owned(),
                status,
                head: if is_older { at.and_then(RefTarget::commit) } else { head },
                commits: one.chain.ids.len(),
                reused,
                anomalies: one.chain.anomalies.clone(),
            });
        }
        Ok((batch, answers))
    }

    /// Reads the documents of the branch names, without the facts of the recordings.
    async fn stored_documents(
        &self,
        group: &[PlannedImport],
        targets: &HashMap<&RefName, RefTarget>,
    ) -> Result<HashMap<RefName, ImportDocument>> {
        let mut documents: Vec<(RefName, BlobKey)> = Vec::new();
        for place in group.iter().flat_map(|one| &one.names) {
            if let Some(RefTarget::Blob(id)) = targets.get(&place.document) {
                documents.push((place.document.clone(), (*id).into()));
            }
        }
        let mut stored = HashMap::with_capacity(documents.len());
        // A few at a time, as each has all data of a conversation except its messages.
        for documents in documents.chunks(16) {
            let keys: Vec<BlobKey> = documents.iter().map(|(_, key)| *key).collect();
            let blobs = self.repo.store().blobs(self.repo.name(), &keys).await?;
            for ((name, _), blob) in documents.iter().zip(blobs) {
                if let Some(mut document) = blob.as_ref().and_then(ImportDocument::parse) {
                    document.meta = None;
                    stored.insert(name.clone(), document);
                }
            }
        }
        Ok(stored)
    }

    /// Adds commits to the batch unless they are stored or in it. Returns the number of the others.
    async fn add_missing(
        &self,
        batch: &mut Batch,
        brought: &mut HashSet<CommitId>,
        links: &[ImportCommit],
    ) -> Result<usize> {
        let (missing, reused) = self.missing(brought, links).await?;
        for link in missing {
            brought.insert(link.commit.id());
            batch.commits.push(link.commit.clone());
            batch.blobs.extend(link.blobs.iter().cloned());
            batch.toolsets.extend(link.toolset.iter().cloned());
            batch.tools.extend(link.tools.iter().cloned());
        }
        Ok(reused)
    }

    /// Returns the commits that are neither stored nor in `brought`, and the number of the others.
    async fn missing<'l>(
        &self,
        brought: &HashSet<CommitId>,
        links: &'l [ImportCommit],
    ) -> Result<(Vec<&'l ImportCommit>, usize)> {
        let ids: Vec<CommitId> = links.iter().map(|link| link.commit.id()).collect();
        let stored = self.repo.store().commits(self.repo.name(), &ids).await?;
        let absent = links.iter().zip(stored).filter(|(_, stored)| stored.is_none());
        let missing: Vec<&ImportCommit> = absent
            .map(|(link, _)| link)
            .filter(|link| !brought.contains(&link.commit.id()))
            .collect();
        let reused = links.len() - missing.len();
        Ok((missing, reused))
    }
}

/// Imports one conversation in a durable write.
///
/// # Behavior
/// - Equal prefixes of two conversations are the same commits, in every store.
/// - If there are tools, the first commit sets them. Then each draft becomes a commit.
/// - A result is bound to the nearest earlier open call with its id. A result without such a call
///   is kept as it is and reported as an anomaly.
/// - The branch is named after the id. If that is not a valid name, or the name is in use, digits
///   of the id's hash are appended. The branch is created if absent, moved forward if the
///   conversation continues it, and otherwise left alone. A branch of another conversation or made
///   by a user is never used.
/// - Importing the same conversation again changes nothing, and adds nothing to the log.
///
/// # Errors
/// When the conversation exceeds a limit or has content without a canonical form, and when the
/// store fails; then nothing was written.
pub async fn import(
    repo: &Repo,
    conversation: ImportConversation,
    options: &ImportOptions,
) -> Result<Imported> {
    let mut importer = Importer::new(repo, options.clone())?;
    let mut done = importer.add(conversation).await?;
    done.extend(importer.finish().await?);
    Ok(done.pop().expect("one conversation has one answer"))
}

/// Chooses the names for a conversation: those that it has; else the plain name, if it needs no
/// cleaning and is free; else the one with digits. A branch of something else is never used.
fn place<'a>(
    one: &'a PlannedImport,
    targets: &HashMap<&RefName, RefTarget>,
    stored: &HashMap<RefName, ImportDocument>,
) -> &'a ImportRefs {
    let [plain, digits] = &one.names;
    let is_own = |place: &ImportRefs| stored.get(&place.document).is_some_and(|it| it.id == one.id);
    let is_free = |place: &ImportRefs| {
        !targets.contains_key(&place.branch) && !targets.contains_key(&place.document)
    };
    // A branch named HEAD would be ambiguous on the command line.
    let is_exact = plain.branch.branch_name() == Some(one.id.as_str()) && one.id != "HEAD";
    if is_own(plain) || !is_own(digits) && is_exact && is_free(plain) { plain } else { digits }
}

/// A commit with its objects.
#[derive(Debug)]
struct ImportCommit {
    commit: Commit,
    blobs: Vec<Blob>,
    toolset: Option<Toolset>,
    tools: Vec<ToolRow>,
}
