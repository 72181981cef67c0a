//! Import: whole conversations in, each on a branch of its own, equal prefixes shared.

mod chain;
mod write;

use std::collections::{HashMap, HashSet};
use std::fmt;

use tract_core::json::{self, Escapes};
use tract_core::store::BlobKey;
use tract_core::{
    Batch, Blob, BlobId, Commit, CommitId, Draft, JsonText, ObjectId, RefName, RefTarget,
    StoreError, StoreErrorKind, ToolRow, ToolSchema, Toolset,
};

use self::chain::{Builder, Chain};
pub use self::chain::{ImportAnomaly, ImportAnomalyKind};
use crate::repo::Repo;
use crate::repo::batch::require_done;
use crate::repo::erasure::Erasure;
use crate::repo::error::{Error, Result};
use crate::repo::operation::Operation;
use crate::upkeep::erase::banned;
use crate::write::lease::Lease;
use crate::write::txn::ref_edit;

/// A conversation to import, as an adapter read it.
#[derive(Clone, Debug)]
pub struct ImportConversation {
    /// Its name, from which the name of its branch is made.
    pub id: String,
    /// Its messages, in order.
    pub drafts: Vec<Draft>,
    /// The tools in force from the start; none and an empty list are alike.
    pub tools: Vec<ToolSchema>,
    /// Other facts, such as its file: a JSON object that is stored next to the history.
    pub meta: Option<JsonText>,
}

impl ImportConversation {
    /// Makes a conversation without tools.
    pub fn new(id: impl Into<String>, drafts: Vec<Draft>) -> Self {
        Self { id: id.into(), drafts, tools: Vec::new(), meta: None }
    }

    /// Sets the tools in force from the start.
    #[must_use]
    pub fn tools(mut self, tools: Vec<ToolSchema>) -> Self {
        self.tools = tools;
        self
    }

    /// Sets other facts: a JSON object.
    #[must_use]
    pub fn meta(mut self, meta: JsonText) -> Self {
        self.meta = Some(meta);
        self
    }
}

/// Options of an [`Importer`].
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Conversations in one durable write, at most; 256 by default.
    pub group_conversations: usize,
    /// Bytes of content that are collected for one durable write; 8 MiB by default. One
    /// conversation is never split.
    pub group_bytes: usize,
    /// The operation of the ref moves; a new one when absent.
    pub operation: Option<Operation>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { group_conversations: 256, group_bytes: 8 << 20, operation: None }
    }
}

impl ImportOptions {
    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many conversations one durable write holds at most.
    #[must_use]
    pub fn group_conversations(mut self, count: usize) -> Self {
        self.group_conversations = count;
        self
    }

    /// Sets how many bytes are collected for one durable write.
    #[must_use]
    pub fn group_bytes(mut self, bytes: usize) -> Self {
        self.group_bytes = bytes;
        self
    }

    /// Sets the operation of the ref moves, so that one `undo` reverts all of them.
    #[must_use]
    pub fn operation(mut self, operation: impl Into<Operation>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}

/// The outcome for the branch of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImportStatus {
    /// It was made.
    Created,
    /// It was there, and what was imported continues it.
    Forwarded,
    /// It pointed to the end of the conversation already.
    Unchanged,
    /// It pointed to messages of the conversation that the user has abandoned since, and points to
    /// those now that continue it. Another branch keeps the abandoned ones.
    Moved,
    /// It holds other commits and was left alone; the commits are stored, but no branch holds them.
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
    /// The conversation's own name.
    pub id: String,
    /// The name of its branch.
    pub branch: String,
    /// The outcome for that branch.
    pub status: ImportStatus,
    /// Its last commit; none when it has neither messages nor tools.
    pub head: Option<CommitId>,
    /// Commits in the conversation.
    pub commits: usize,
    /// How many of them were stored already, or came with another conversation of the same group.
    pub reused: usize,
    /// Its anomalies, which were kept as recorded.
    pub anomalies: Vec<ImportAnomaly>,
}

/// Imports conversations, several to a durable write.
///
/// An answer is given when its conversation is durable, in the order in which they were added.
///
/// ```no_run
/// # async fn example(repo: &tract_engine::Repo, conversations: Vec<tract_engine::ImportConversation>)
/// # -> tract_engine::Result<()> {
/// use tract_engine::{ImportOptions, Importer};
/// let mut importer = Importer::new(repo, ImportOptions::new())?;
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
    /// Keeps the beginning of a large conversation until its branch is there.
    lease: Lease,
    group: Vec<PlannedImport>,
    bytes: usize,
    /// What may not be stored again, once it was read.
    banned: Option<HashMap<BlobId, Erasure>>,
}

/// A conversation made commits, and the names that it may take.
#[derive(Debug)]
struct PlannedImport {
    id: String,
    names: [ImportRefs; 2],
    meta: Option<JsonText>,
    chain: Chain,
}

/// A branch, and the document that says whose branch it is.
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

    /// The places of a conversation, best first. Its plain name is the first when it needs no
    /// cleaning, or when an older version gave it to this very conversation; the second has digits
    /// of the id, so that no other id leads to it.
    fn of(id: &str) -> Result<[Self; 2]> {
        let digits = Self::new(&RefName::with_digits(id))?;
        Ok([Self::new(&RefName::sanitize(id)).unwrap_or_else(|_| digits.clone()), digits])
    }
}

impl Importer {
    /// Makes an importer with an empty group.
    ///
    /// # Errors
    /// [`Error::Random`] when the operating system has no randomness to give.
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

    /// Adds a conversation. Writes the group when it is full, and returns its outcomes.
    ///
    /// # Errors
    /// When the conversation breaks a limit, or has content without canonical form or that is erased
    /// and banned; it is left out then, and others may follow. When the store fails, nothing of the
    /// group was written.
    pub async fn add(&mut self, conversation: ImportConversation) -> Result<Vec<Imported>> {
        let ImportConversation { id, drafts, tools, meta } = conversation;
        let mut builder = Builder::new(self.repo.limits(), &tools)?;
        for draft in drafts {
            // Its text becomes what is stored of it: a large message is in memory once.
            builder.add(draft)?;
        }
        let chain = builder.finish();
        self.refuse_banned(&chain.links).await?;
        let planned = PlannedImport { names: ImportRefs::of(&id)?, id, meta, chain };
        // Two of one name in a group would be two edits of one ref.
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

    /// Takes a conversation whose drafts come one after the other, and gives its answer and those of
    /// the group before it. Its commits are stored in portions while they come, and its branch moves
    /// in the last write: memory holds one portion and the ids, however many messages there are.
    ///
    /// # Errors
    /// What `next` says, and as [`add`](Self::add). No branch leads then to what was stored of it.
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
        // A branch leads there now, or nothing is to be kept.
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

    /// Refuses commits that are not stored yet and bring banned bytes.
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

    /// Stores commits that no ref leads to yet, and keeps them; returns how many were stored before.
    async fn store(&self, links: Vec<ImportCommit>) -> Result<usize> {
        let Some(last) = links.last().map(|link| ObjectId::Commit(link.commit.id())) else {
            return Ok(0);
        };
        let mut races = self.repo.races();
        loop {
            let mut batch = self.repo.batch(&self.operation, "import")?;
            let reused = self.add_missing(&mut batch, &mut HashSet::new(), &links).await?;
            // It may have been stored before, and be collected as garbage now.
            batch.requires.push(last);
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

    /// Writes the last group, and returns its outcomes. The importer may be used again.
    ///
    /// # Errors
    /// When the store fails; nothing of the group was written then.
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
                // Found stored while planning, and collected as garbage since: plan with it whole.
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

    /// Writes the rows of the turn index that long conversations call for.
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

    /// Plans one write of a group: what is not stored yet, and the refs that move.
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
        let owners = self.owners(group, &targets).await?;
        for one in group {
            let brought = self.add_missing(&mut batch, &mut brought, &one.chain.links).await?;
            let reused = one.chain.reused + brought;
            let head = one.chain.ids.last().copied();
            let place = place(one, &targets, &owners);
            let at = targets.get(&place.branch);
            let status = match (at, head) {
                (None, Some(_)) => ImportStatus::Created,
                (None, None) => ImportStatus::Unchanged,
                (Some(at), head) if at.commit() == head => ImportStatus::Unchanged,
                (Some(RefTarget::Commit(at)), _) if one.chain.ids.contains(at) => {
                    ImportStatus::Forwarded
                }
                (Some(_), _) => ImportStatus::Diverged,
            };
            if let (Some(head), ImportStatus::Created | ImportStatus::Forwarded) = (head, status) {
                let (name, to) = (place.branch.clone(), RefTarget::Commit(head));
                batch.refs.push(ref_edit(name, at.cloned(), Some(to)));
            }
            if status != ImportStatus::Diverged {
                let document = document(&one.id, one.meta.as_ref(), head)?;
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
                head,
                commits: one.chain.ids.len(),
                reused,
                anomalies: one.chain.anomalies.clone(),
            });
        }
        Ok((batch, answers))
    }

    /// Reads whose branches the names lead to: the ids that the documents next to them name.
    async fn owners(
        &self,
        group: &[PlannedImport],
        targets: &HashMap<&RefName, RefTarget>,
    ) -> Result<HashMap<RefName, String>> {
        let mut documents: Vec<(RefName, BlobKey)> = Vec::new();
        for place in group.iter().flat_map(|one| &one.names) {
            if let Some(RefTarget::Blob(id)) = targets.get(&place.document) {
                documents.push((place.document.clone(), (*id).into()));
            }
        }
        let mut owners = HashMap::with_capacity(documents.len());
        // Few at a time: documents hold all that a line says besides its messages.
        for documents in documents.chunks(16) {
            let keys: Vec<BlobKey> = documents.iter().map(|(_, key)| *key).collect();
            let blobs = self.repo.store().blobs(self.repo.name(), &keys).await?;
            for ((name, _), blob) in documents.iter().zip(blobs) {
                owners.extend(blob.as_ref().and_then(owner).map(|id| (name.clone(), id)));
            }
        }
        Ok(owners)
    }

    /// Puts into the batch what is neither stored nor in it; returns how many commits were.
    async fn add_missing(
        &self,
        batch: &mut Batch,
        brought: &mut HashSet<CommitId>,
        links: &[ImportCommit],
    ) -> Result<usize> {
        let ids: Vec<CommitId> = links.iter().map(|link| link.commit.id()).collect();
        let stored = self.repo.store().commits(self.repo.name(), &ids).await?;
        let mut reused = 0;
        for (link, stored) in links.iter().zip(stored) {
            if stored.is_some() || brought.contains(&link.commit.id()) {
                reused += 1;
                continue;
            }
            brought.insert(link.commit.id());
            batch.commits.push(link.commit.clone());
            batch.blobs.extend(link.blobs.iter().cloned());
            batch.toolsets.extend(link.toolset.iter().cloned());
            batch.tools.extend(link.tools.iter().cloned());
        }
        Ok(reused)
    }
}

/// Imports one conversation in a durable write of its own.
///
/// # Behavior
/// - Writes nothing that is not in the input: equal prefixes of two conversations are the same
///   commits, in every store.
/// - A commit of the tools comes first when there are tools, then one for each draft.
/// - A result is bound to the nearest earlier open call of its id; one that finds none stays as it
///   is, and is reported among the anomalies.
/// - The branch is named after the id; where that is no valid name, or the name is that of another
///   branch, digits of the id's hash are added. It is created when absent, forwarded when the
///   conversation continues what it holds, else left alone. It is never one that another
///   conversation, or a person, made.
/// - Importing the same conversation again changes nothing, and logs nothing.
///
/// # Errors
/// When the conversation breaks a limit or has content without canonical form, and when the store
/// fails; nothing was written then.
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

/// Chooses the place of a conversation: where it is already; else its plain name, when that needs no
/// cleaning and is free; else the one with digits. A branch of something else is never taken.
fn place<'a>(
    one: &'a PlannedImport,
    targets: &HashMap<&RefName, RefTarget>,
    owners: &HashMap<RefName, String>,
) -> &'a ImportRefs {
    let [plain, digits] = &one.names;
    let is_own = |place: &ImportRefs| owners.get(&place.document) == Some(&one.id);
    let is_free = |place: &ImportRefs| {
        !targets.contains_key(&place.branch) && !targets.contains_key(&place.document)
    };
    // A branch named HEAD would be ambiguous on the command line.
    let is_exact = plain.branch.branch_name() == Some(one.id.as_str()) && one.id != "HEAD";
    if is_own(plain) || !is_own(digits) && is_exact && is_free(plain) { plain } else { digits }
}

/// Reads whose document this is.
fn owner(document: &Blob) -> Option<String> {
    let members = json::split_object(document.text()?).ok()?;
    let (_, id) = members.into_iter().find(|(key, _)| key == "id")?;
    serde_json::from_str(id).ok()
}

/// The document of a conversation: what belongs to it and not to its commits.
fn document(id: &str, meta: Option<&JsonText>, head: Option<CommitId>) -> Result<Blob> {
    let mut text = String::from("{");
    if let Some(head) = head {
        text.push_str(&format!("\"head\":\"{head}\","));
    }
    text.push_str("\"id\":");
    json::write_string(&mut text, id, Escapes::Raw);
    if let Some(meta) = meta {
        text.push_str(",\"meta\":");
        text.push_str(meta.as_str());
    }
    text.push('}');
    // The parts are canonical; what is left to be refused is nesting.
    json::check(&text)?;
    Ok(Blob::seal(text.into_bytes()))
}

/// One commit and what it brings along.
#[derive(Debug)]
struct ImportCommit {
    commit: Commit,
    blobs: Vec<Blob>,
    toolset: Option<Toolset>,
    tools: Vec<ToolRow>,
}
