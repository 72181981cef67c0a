//! Import: whole conversations in, each on a branch of its own, equal prefixes shared.

mod chain;

use std::collections::{HashMap, HashSet};
use std::fmt;

use tract_core::json::{self, Escapes};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, Draft, Expect, JsonText, LogNote, RefEdit, RefName,
    RefTarget, ToolRow, ToolSchema, Toolset,
};

use self::chain::Chain;
pub use self::chain::{ImportAnomaly, ImportAnomalyKind};
use crate::error::Result;
use crate::operation::Operation;
use crate::repo::Repo;
use crate::write::tell;

/// A conversation as an adapter read it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Conversation {
    /// Its name: made a valid one, that of its branch.
    pub id: String,
    /// Its messages, in order.
    pub drafts: Vec<Draft>,
    /// The tools in force from the start; none and an empty list are alike.
    pub tools: Vec<ToolSchema>,
    /// What else belongs to it, such as its file: a JSON object, kept beside the history.
    pub meta: Option<JsonText>,
}

impl Conversation {
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

    /// Sets what else belongs to it: a JSON object.
    #[must_use]
    pub fn meta(mut self, meta: JsonText) -> Self {
        self.meta = Some(meta);
        self
    }
}

/// How [`Importer`] goes about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Conversations in one durable write, at most; 256 by default.
    pub group_conversations: usize,
    /// Bytes of content that are collected for one durable write; 8 MiB by default. One
    /// conversation is never split.
    pub group_bytes: usize,
    /// Shared by the ref moves of one command; made up when absent.
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

    /// Sets what the ref moves share, so that one `undo` takes all of them back.
    #[must_use]
    pub fn operation(mut self, operation: impl Into<Operation>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}

/// What became of the branch of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImportStatus {
    /// It was made.
    Created,
    /// It was there, and what was imported goes on from it.
    Forwarded,
    /// It stood at the end of the conversation already.
    Unchanged,
    /// It stands elsewhere and was left alone; the commits are stored, but no branch holds them.
    Diverged,
}

impl ImportStatus {
    /// Returns the stable word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Forwarded => "forwarded",
            Self::Unchanged => "unchanged",
            Self::Diverged => "diverged",
        }
    }
}

impl fmt::Display for ImportStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What became of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The conversation's own name.
    pub id: String,
    /// The name of its branch.
    pub branch: String,
    /// What became of that branch.
    pub status: ImportStatus,
    /// Its last commit; none when it has neither messages nor tools.
    pub head: Option<CommitId>,
    /// Commits in the conversation.
    pub commits: usize,
    /// How many of them were stored already, or came with another conversation of the same group.
    pub reused: usize,
    /// What is unusual about it, kept as recorded.
    pub anomalies: Vec<ImportAnomaly>,
}

/// Imports conversations, several to a durable write.
///
/// An answer is given when its conversation is durable, in the order in which they were added.
///
/// ```no_run
/// # async fn example(repo: &tract_engine::Repo, conversations: Vec<tract_engine::Conversation>)
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
    group: Vec<Planned>,
    bytes: usize,
}

/// A conversation made commits, and the ref names that it takes.
#[derive(Debug)]
struct Planned {
    id: String,
    branch: RefName,
    document: RefName,
    meta: Option<JsonText>,
    chain: Chain,
}

impl Importer {
    /// Makes an importer with an empty group.
    ///
    /// # Errors
    /// [`Error::Random`] when the operating system has no randomness to give.
    pub fn new(repo: &Repo, options: ImportOptions) -> Result<Self> {
        let operation = match options.operation.as_ref().or(repo.operation()) {
            Some(operation) => operation.clone(),
            None => Operation::begin()?,
        };
        Ok(Self { repo: repo.clone(), options, operation, group: Vec::new(), bytes: 0 })
    }

    /// Takes a conversation; writes the group when it is full, and gives its answers.
    ///
    /// # Errors
    /// When the conversation breaks a limit or has content without canonical form; it is left out
    /// then, and others may follow. When the store fails, nothing of the group was written.
    pub async fn add(&mut self, conversation: Conversation) -> Result<Vec<Imported>> {
        let name = RefName::sanitize(&conversation.id);
        let chain = Chain::new(&conversation.drafts, &conversation.tools, self.repo.limits())?;
        let planned = Planned {
            branch: RefName::branch(&name)?,
            document: RefName::new(format!("imports/{name}"))?,
            id: conversation.id,
            meta: conversation.meta,
            chain,
        };
        // Two of one name in a group would be two edits of one ref.
        let taken = self.group.iter().any(|other| other.branch == planned.branch);
        let mut done = match taken {
            true => self.finish().await?,
            false => Vec::new(),
        };
        self.bytes += planned.chain.size_bytes;
        self.group.push(planned);
        if self.group.len() >= self.options.group_conversations
            || self.bytes >= self.options.group_bytes
        {
            done.extend(self.finish().await?);
        }
        Ok(done)
    }

    /// Writes what is left, and gives its answers. The importer may be used again.
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
            let (batch, answers) = self.plan(&group).await?;
            let empty = batch.refs.is_empty() && batch.commits.is_empty();
            if empty {
                return Ok(answers);
            }
            let (id, moves) = (batch.id, batch.refs.len());
            match self.repo.store().apply(self.repo.name(), batch).await? {
                Applied::Done | Applied::Already => {
                    let (store, name) = (self.repo.store().as_ref(), self.repo.name());
                    self.operation.recorded(store, name, id, moves).await;
                    tell(&self.repo, id).await;
                    self.index(&answers).await;
                    return Ok(answers);
                }
                Applied::Conflict(_) => races.lose().await?,
            }
        }
    }

    /// Writes the rows of the turn index that long conversations call for.
    async fn index(&self, answers: &[Imported]) {
        let every = self.repo.turn_rows_every();
        let long = answers.iter().filter(|answer| answer.commits as u64 >= every);
        for answer in long {
            if let (Some(head), ImportStatus::Created | ImportStatus::Forwarded) =
                (answer.head, answer.status)
            {
                crate::turns::catch_up(&self.repo, head).await;
            }
        }
    }

    /// Plans one write of a group: what is not stored yet, and the refs that move.
    async fn plan(&self, group: &[Planned]) -> Result<(Batch, Vec<Imported>)> {
        let (store, repo) = (self.repo.store(), self.repo.name());
        let note = LogNote {
            operation: self.operation.id(),
            what: "import".to_owned(),
            who: self.repo.who().to_owned(),
            why: None,
            undoes: None,
            at: self.repo.now_us(),
        };
        let mut batch = Batch::new(self.operation.next_batch()?, note);
        let mut brought: HashSet<CommitId> = HashSet::new();
        let mut answers = Vec::with_capacity(group.len());
        let names: Vec<RefName> =
            group.iter().flat_map(|one| [one.branch.clone(), one.document.clone()]).collect();
        let targets = store.refs(repo, &names).await?;
        let targets: HashMap<&RefName, RefTarget> =
            names.iter().zip(targets).filter_map(|(name, at)| Some((name, at?))).collect();
        for one in group {
            let reused = self.bring(&mut batch, &mut brought, &one.chain).await?;
            let head = one.chain.head();
            let at = targets.get(&one.branch);
            let status = match (at, head) {
                (None, Some(_)) => ImportStatus::Created,
                (None, None) => ImportStatus::Unchanged,
                (Some(at), head) if at.commit() == head => ImportStatus::Unchanged,
                (Some(RefTarget::Commit(at)), _) if one.chain.holds(*at) => ImportStatus::Forwarded,
                (Some(_), _) => ImportStatus::Diverged,
            };
            if let (Some(head), ImportStatus::Created | ImportStatus::Forwarded) = (head, status) {
                batch.refs.push(edit(&one.branch, at, RefTarget::Commit(head)));
            }
            if status != ImportStatus::Diverged {
                let document = document(&one.id, one.meta.as_ref(), head)?;
                let (at, to) = (targets.get(&one.document), RefTarget::Blob(document.id()));
                if at != Some(&to) {
                    batch.blobs.push(document);
                    batch.refs.push(edit(&one.document, at, to));
                }
            }
            answers.push(Imported {
                id: one.id.clone(),
                branch: one.branch.branch_name().unwrap_or_default().to_owned(),
                status,
                head,
                commits: one.chain.links.len(),
                reused,
                anomalies: one.chain.anomalies.clone(),
            });
        }
        Ok((batch, answers))
    }

    /// Puts into the batch what is neither stored nor in it; returns how many commits were.
    async fn bring(
        &self,
        batch: &mut Batch,
        brought: &mut HashSet<CommitId>,
        chain: &Chain,
    ) -> Result<usize> {
        let ids: Vec<CommitId> = chain.links.iter().map(|link| link.commit.id()).collect();
        let stored = self.repo.store().commits(self.repo.name(), &ids).await?;
        let mut reused = 0;
        for (link, stored) in chain.links.iter().zip(stored) {
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
///   is, and is told among the anomalies.
/// - The branch is created when absent, forwarded when the conversation goes on from where it
///   stands, else left alone.
/// - Importing the same conversation again changes nothing, and logs nothing.
///
/// # Errors
/// When the conversation breaks a limit or has content without canonical form, and when the store
/// fails; nothing was written then.
pub async fn import(
    repo: &Repo,
    conversation: Conversation,
    options: &ImportOptions,
) -> Result<Imported> {
    let mut importer = Importer::new(repo, options.clone())?;
    let mut done = importer.add(conversation).await?;
    done.extend(importer.finish().await?);
    Ok(done.pop().expect("one conversation has one answer"))
}

fn edit(name: &RefName, at: Option<&RefTarget>, to: RefTarget) -> RefEdit {
    let expect = at.map_or(Expect::Absent, |at| Expect::Is(at.clone()));
    RefEdit { name: name.clone(), expect, to: Some(to) }
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
struct Link {
    commit: Commit,
    blobs: Vec<Blob>,
    toolset: Option<Toolset>,
    tools: Vec<ToolRow>,
}
