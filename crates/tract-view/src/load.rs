//! Reads the data of pages from the engine.

mod cache;
mod history;
mod search;
mod sessions;
mod tools;
mod usage;
mod window;

use std::borrow::Cow;
use std::collections::HashMap;

use sha2::{Digest, Sha256};
use tract_compile::{Compiled, Unreadable};
use tract_core::{CallRef, Commit, CommitId, Content, Message, Op, RefName};
use tract_engine::{Repo, SessionSummary};

pub(crate) use self::cache::{CacheReport, cache, session_cache};
pub(crate) use self::history::{History, HistoryEntry, history};
pub(crate) use self::search::{FoundMessage, search};
pub(crate) use self::sessions::{ListedSession, SessionList, sessions, sessions_by_branch};
pub(crate) use self::tools::{Approval, ToolFacts, ToolsChange, tool_changes, tool_facts};
pub(crate) use self::usage::{UsageGroup, UsageReport, UsageSum, session_usage, usage};
pub(crate) use self::window::{PARTS, RequestTokens, Window, WindowMark, window};
use crate::error::{Error, Result};

/// Returns a hash of the heads of all branches, which changes with every write that a list shows.
pub(crate) async fn heads(repo: &Repo) -> Result<String> {
    let mut hash = Sha256::new();
    for branch in repo.branches().await? {
        hash.update(branch.name.as_bytes());
        hash.update(branch.head.as_bytes());
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// A context with its revision.
pub(crate) struct LoadedContext {
    /// The revision as given.
    pub(crate) revision: String,
    pub(crate) head: CommitId,
    pub(crate) compiled: Compiled,
    /// The messages that cannot be read.
    pub(crate) unreadable: Vec<Unreadable>,
    /// Whether the revision is a branch, which can grow.
    pub(crate) is_branch: bool,
    /// The facts of the branch; `None` for a commit, or if they cannot be read.
    pub(crate) session: Option<SessionSummary>,
    /// Its subagents, by the ids of the calls that started them.
    pub(crate) subagents: HashMap<String, SessionSummary>,
}

impl LoadedContext {
    /// The title of the session, or the revision.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        self.session.as_ref().map_or(Cow::Borrowed(&self.revision), SessionSummary::name)
    }
}

/// Resolves a revision and compiles its context.
pub(crate) async fn context(repo: &Repo, revision: &str) -> Result<LoadedContext> {
    let head = repo.resolve_position(revision).await?;
    let compiled = repo.compile(Some(head)).await?;
    loaded(repo, revision, head, compiled, Vec::new()).await
}

async fn loaded(
    repo: &Repo,
    revision: &str,
    head: CommitId,
    compiled: Compiled,
    unreadable: Vec<Unreadable>,
) -> Result<LoadedContext> {
    let is_branch = is_branch(repo, revision).await?;
    // The header shows the name of the branch if its facts cannot be read.
    let sessions = if is_branch { sessions_by_branch(repo).await.ok() } else { None };
    let mut sessions = sessions.unwrap_or_default();
    let session = sessions.remove(revision);
    // A fork or a rewind shows the calls that it shares with its parent.
    let origin = session.as_ref().and_then(|session| session.parent.as_ref()?.branch.clone());
    let subagents = sessions.into_values().filter_map(|session| {
        let parent = session.parent.as_ref()?;
        let branch = parent.branch.as_deref()?;
        let is_ours = branch == revision || origin.as_deref() == Some(branch);
        Some((parent.call.clone().filter(|_| is_ours)?, session))
    });
    let (subagents, revision) = (subagents.collect(), revision.to_owned());
    Ok(LoadedContext { revision, head, compiled, unreadable, is_branch, session, subagents })
}

async fn is_branch(repo: &Repo, revision: &str) -> Result<bool> {
    Ok(match RefName::branch(revision) {
        Ok(name) => repo.head_of(&name).await?.is_some(),
        Err(_) => false,
    })
}

/// As [`context`], but a damaged or erased object does not hide the others.
pub(crate) async fn readable_context(repo: &Repo, revision: &str) -> Result<LoadedContext> {
    let head = repo.resolve_position(revision).await?;
    // The compiled context is cached. Only a context with damage is read object by object.
    let (compiled, unreadable) = match repo.compile(Some(head)).await {
        Ok(compiled) => (compiled, Vec::new()),
        Err(_) => repo.compile_readable(Some(head)).await?,
    };
    loaded(repo, revision, head, compiled, unreadable).await
}

/// A message with its number, author and history, for a page.
pub(crate) struct ShownMessage<'a> {
    /// Its number in the context, from 1.
    pub(crate) number: usize,
    pub(crate) message: &'a Message,
    /// The commit of its content; absent if it cannot be read.
    pub(crate) commit: Option<Commit>,
    /// The results of its calls, in the order of the calls, each with its number.
    pub(crate) results: Vec<Option<(usize, &'a Message)>>,
}

impl ShownMessage<'_> {
    /// Whether the content of the message was changed.
    pub(crate) fn is_edited(&self) -> bool {
        matches!(self.commit.as_ref().map(|commit| &commit.op), Some(Op::Edit { .. }))
    }

    /// A revision in which the messages under the summary are still shown.
    pub(crate) fn before_summary(&self) -> Option<CommitId> {
        let commit = self.commit.as_ref()?;
        match commit.op {
            Op::Compress { .. } => commit.parents.first().copied(),
            _ => None,
        }
    }
}

/// Collects a page of messages. Results are shown next to their calls, and not as messages of their
/// own if their call is on the same page.
pub(crate) async fn messages<'a>(
    repo: &Repo,
    messages: impl Iterator<Item = &'a Message> + Clone,
    from: usize,
    count: usize,
) -> Result<Vec<ShownMessage<'a>>> {
    let page: Vec<(usize, &Message)> =
        messages.clone().enumerate().skip(from - 1).take(count).collect();
    let calls: HashMap<CommitId, usize> =
        page.iter().map(|(_, message)| (message.slot, message.content.calls().count())).collect();
    let is_here =
        |call: &CallRef| calls.get(&call.slot).is_some_and(|count| (call.index as usize) < *count);
    let mut results: HashMap<CallRef, (usize, &Message)> = HashMap::new();
    // A result may be on a later page than its call.
    for (place, message) in messages.enumerate() {
        if let Some(call) = message.answers.filter(is_here) {
            results.insert(call, (place + 1, message));
        }
    }
    let stands_alone = |message: &Message| !message.answers.as_ref().is_some_and(is_here);
    let page: Vec<(usize, &Message)> =
        page.into_iter().filter(|(_, message)| stands_alone(message)).collect();
    let ids: Vec<CommitId> = page.iter().map(|(_, message)| message.commit).collect();
    let commits = repo.store().commits(repo.name(), &ids).await;
    let commits = commits.map_err(tract_engine::Error::from)?;
    let shown = page.into_iter().zip(commits).map(|((place, message), commit)| {
        let calls = message.content.calls().count();
        let results = (0..calls).map(|index| {
            let index = u32::try_from(index).ok()?;
            results.get(&CallRef { slot: message.slot, index }).copied()
        });
        ShownMessage { number: place + 1, message, commit, results: results.collect() }
    });
    Ok(shown.collect())
}

/// Reads the whole text of a message, or its original if that is requested.
pub(crate) async fn whole_text(repo: &Repo, revision: &str, original: bool) -> Result<String> {
    let id = repo.resolve(revision).await?;
    let changed = if original { repo.original_of(id).await? } else { None };
    let content: Content = match changed {
        Some(content) => content,
        None => {
            let commit = repo.require_commit(id).await?;
            let content = repo.content(&commit).await?;
            content.ok_or_else(|| Error::NotFound(format!("{} has no message", id.short())))?
        }
    };
    let mut out = String::new();
    for part in content.parts() {
        crate::pages::part_text(part, &mut out);
    }
    if content.parts().is_empty() {
        out = content.text();
    }
    Ok(out)
}
