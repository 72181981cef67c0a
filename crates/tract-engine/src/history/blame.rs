//! Blame: the commits that made each message of a context what it is.

use tract_compile::{IdMap, IdSet, appended, resolved};
use tract_core::{Change, Commit, CommitId, Kind, Op};

use crate::plan::{Refusal, own_slot};
use crate::repo::Repo;
use crate::repo::error::Result;

/// A message of a context, and the commits that shaped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlameEntry {
    /// The message's number in the context, from 1: the `n` of `#n` in a revision.
    pub number: usize,
    /// The message's slot, its permanent name.
    pub slot: CommitId,
    /// The commit whose content is shown.
    pub version: CommitId,
    /// The kind of that content.
    pub kind: Option<Kind>,
    /// The commits that changed it, oldest first.
    pub commits: Vec<BlameCommit>,
}

/// A commit that changed a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlameCommit {
    /// The commit; its origin names the author.
    pub commit: Commit,
    /// Its effect on the message.
    pub action: BlameAction,
}

/// The effect of a commit on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlameAction {
    /// It added the message.
    Added,
    /// It replaced the content of the message.
    Edited,
    /// It set the priority of the message.
    Marked,
    /// It wrote the message as a summary, or hid it under one.
    Summarized,
    /// It reverted what another commit did to the message.
    Reverted,
    /// It merged what another branch did to the message.
    Merged,
    /// An action of a later version of tract.
    Other,
}

impl BlameAction {
    /// Returns the stable code of the action.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Edited => "edited",
            Self::Marked => "marked",
            Self::Summarized => "summarized",
            Self::Reverted => "reverted",
            Self::Merged => "merged",
            Self::Other => "other",
        }
    }

    fn of(commit: &Commit) -> Self {
        match &commit.op {
            Op::Append { .. } => Self::Added,
            Op::Edit { .. } => Self::Edited,
            Op::Annotate { .. } => Self::Marked,
            Op::Compress { .. } => Self::Summarized,
            Op::Revert { .. } => Self::Reverted,
            Op::Merge { .. } => Self::Merged,
            Op::Tools | Op::Note | Op::Unknown { .. } => Self::Other,
        }
    }
}

/// Returns the commits that made each message of a context what it is: the commits along first
/// parents that change it and, for a message that a merge took over, the commits that added, last
/// edited and last marked it on the other branch.
///
/// # Errors
/// When a commit is not stored, or the store fails.
///
/// # Complexity
/// Linear in the commits since the oldest message of the context.
pub async fn blame(repo: &Repo, head: CommitId) -> Result<Vec<BlameEntry>> {
    let history = repo.fold(Some(head)).await?;
    let rows: Vec<_> = history
        .view()
        .rows()
        .filter_map(|row| Some((row, history.fact(row.slot).filter(|fact| fact.is_shown())?)))
        .collect();
    let mut concerning: IdMap<CommitId, Vec<BlameCommit>> =
        rows.iter().map(|(row, _)| (row.slot, Vec::new())).collect();
    let mut unmade = concerning.len();
    let mut commits = repo.history(head).pages(1024, 1024);
    while unmade > 0
        && let Some(commit) = commits.next().await?
    {
        for slot in slots(repo, &commit).await? {
            if let Some(commits) = concerning.get_mut(&slot) {
                unmade -= usize::from(slot == commit.id());
                let action = BlameAction::of(&commit);
                commits.push(BlameCommit { commit: commit.clone(), action });
            }
        }
    }
    let mut entries = Vec::with_capacity(rows.len());
    for (place, (row, fact)) in rows.into_iter().enumerate() {
        let mut commits = concerning.remove(&row.slot).unwrap_or_default();
        commits.reverse();
        let mut named = vec![row.slot];
        named.extend([Some(row.version), row.mark].into_iter().flatten());
        let mut seen: IdSet<CommitId> = commits.iter().map(|known| known.commit.id()).collect();
        named.retain(|id| seen.insert(*id));
        if !named.is_empty() {
            // The commit of a slot is only a name and may not be stored.
            let elsewhere = repo.store().commits(repo.name(), &named).await?;
            let elsewhere = elsewhere.into_iter().flatten().map(|commit| {
                let action = BlameAction::of(&commit);
                BlameCommit { commit, action }
            });
            commits.splice(0..0, elsewhere.collect::<Vec<_>>());
        }
        entries.push(BlameEntry {
            number: place + 1,
            slot: row.slot,
            version: row.version,
            kind: fact.kind.clone(),
            commits,
        });
    }
    Ok(entries)
}

/// Returns the slot of the message that a commit added, edited or wrote as a summary.
///
/// # Errors
/// [`Refusal::NoMessage`] when it did none of these; when the commit is not stored, or the store
/// fails.
pub async fn slot_of(repo: &Repo, version: CommitId) -> Result<CommitId> {
    let commit = repo.require_commit(version).await?;
    own_slot(version, &changes(repo, &commit).await?).ok_or_else(|| {
        Refusal::NoMessage { target: version, op: commit.op.name().to_owned() }.into()
    })
}

/// Returns whether a commit changes a message.
///
/// # Errors
/// When its list of changes cannot be read.
pub async fn concerns(repo: &Repo, commit: &Commit, slot: CommitId) -> Result<bool> {
    Ok(slots(repo, commit).await?.contains(&slot))
}

/// Returns the messages that a commit changes, without duplicates.
async fn slots(repo: &Repo, commit: &Commit) -> Result<Vec<CommitId>> {
    let changes = changes(repo, commit).await?;
    let mut seen = IdSet::default();
    let slots = changes.iter().map(|change| change.slot().resolve(commit.id()));
    Ok(slots.filter(|slot| seen.insert(*slot)).collect())
}

/// Returns the changes of a commit, with its own id in place of `.`. An append adds a row.
async fn changes(repo: &Repo, commit: &Commit) -> Result<Vec<Change>> {
    // The position of the row does not matter here.
    let mut changes: Vec<Change> =
        appended(&tract_compile::View::empty(), commit).into_iter().collect();
    changes.extend(repo.changes(commit).await?);
    Ok(changes.iter().map(|change| resolved(change, commit.id())).collect())
}
