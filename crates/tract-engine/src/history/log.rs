//! The log: the commits that lead to a head, and a line of description for each.

mod describe;

use std::collections::HashMap;

use tract_core::{Commit, CommitId};

pub use self::describe::{LogLine, describe, one_line};
use crate::history::graph::order;
use crate::repo::Repo;
use crate::repo::error::Result;

/// A page of a log.
#[derive(Clone, Debug, Default)]
pub struct LogPage {
    /// The commits, newest first.
    pub commits: Vec<Commit>,
    /// The first commit of the next page; `None` at the end.
    pub next: Option<CommitId>,
}

/// Reads up to `limit` commits of a history, first parents only, newest first. Includes the commits
/// of skipped and summarized messages.
///
/// # Errors
/// When the head is not stored, or the store fails.
pub async fn log(repo: &Repo, head: CommitId, limit: usize) -> Result<LogPage> {
    let mut history = repo.history(head).pages(limit.min(4096), 4096);
    let mut commits = Vec::new();
    while commits.len() < limit
        && let Some(commit) = history.next().await?
    {
        commits.push(commit);
    }
    Ok(LogPage { commits, next: history.peek() })
}

/// Reads up to `limit` commits that lead to any of several heads, over all parents. Every child
/// comes before its parents, and branches are not interleaved, in the order that
/// [`graph::layout`](crate::graph::layout) draws. The head with the latest time comes first.
///
/// # Errors
/// When a head is not stored, or the store fails.
///
/// # Complexity
/// Linear in the history of the heads, since the order depends on all of it. For one head without
/// merges in its last `limit` commits, linear in `limit`.
pub async fn log_all(repo: &Repo, heads: &[CommitId], limit: usize) -> Result<Vec<Commit>> {
    let mut pages = LogPages::all(repo, heads, limit).await?;
    let mut commits = Vec::new();
    while let Some(page) = pages.next_page().await? {
        commits.extend(page);
    }
    Ok(commits)
}

/// Number of commits read together.
const PAGE: usize = 512;

/// A log that is read in pages, so that memory is bounded by one page for any length.
#[derive(Debug)]
pub struct LogPages {
    repo: Repo,
    left: usize,
    source: LogSource,
}

#[derive(Debug)]
enum LogSource {
    /// First parents from here on.
    FirstParents(Option<CommitId>),
    /// Commits that were already read.
    Read(Vec<Commit>),
    /// These commits, in this order.
    Ids(std::vec::IntoIter<CommitId>),
}

impl LogPages {
    /// Starts the log of one history, as [`log`] reads it.
    pub fn first_parents(repo: &Repo, head: CommitId, limit: usize) -> Self {
        Self { repo: repo.clone(), left: limit, source: LogSource::FirstParents(Some(head)) }
    }

    /// Starts the log of several heads, as [`log_all`] reads it.
    ///
    /// # Errors
    /// As [`log_all`].
    ///
    /// # Complexity
    /// As [`log_all`]; plus memory for the ids of the history, some hundred bytes each, since the
    /// order depends on all of it.
    pub async fn all(repo: &Repo, heads: &[CommitId], limit: usize) -> Result<Self> {
        let of = |source| Self { repo: repo.clone(), left: limit, source };
        if let ([head], true) = (heads, limit <= 8 * PAGE) {
            let page = log(repo, *head, limit).await?;
            if page.commits.iter().all(|commit| commit.parents.len() < 2) {
                return Ok(of(LogSource::Read(page.commits)));
            }
        }
        let known = repo.or_collected(explore(repo, heads).await, heads).await?;
        let mut heads = heads.to_vec();
        // Stable: heads with the same time keep their order.
        heads.sort_by_cached_key(|head| std::cmp::Reverse(made(&known, *head)));
        let parents = known.into_iter().map(|(id, (parents, _))| (id, parents)).collect();
        let mut ids = order(&heads, &parents);
        ids.truncate(limit);
        Ok(of(LogSource::Ids(ids.into_iter())))
    }

    /// Reads the next commits; `None` at the end.
    ///
    /// # Errors
    /// When a commit is not stored, or the store fails.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Commit>>> {
        let most = self.left.min(PAGE);
        let commits = match &mut self.source {
            LogSource::FirstParents(next) => match *next {
                Some(head) if most > 0 => {
                    let page = log(&self.repo, head, most).await?;
                    *next = page.next;
                    page.commits
                }
                Some(_) | None => Vec::new(),
            },
            LogSource::Read(commits) => std::mem::take(commits),
            LogSource::Ids(ids) => {
                let ids: Vec<CommitId> = ids.take(most).collect();
                self.repo.require_commits(&ids).await?
            }
        };
        self.left -= commits.len().min(self.left);
        Ok((!commits.is_empty()).then_some(commits))
    }
}

/// A commit's parents, and its time if it has one.
type KnownCommits = HashMap<CommitId, (Vec<CommitId>, Option<i64>)>;

async fn explore(repo: &Repo, heads: &[CommitId]) -> Result<KnownCommits> {
    let mut known = KnownCommits::new();
    let mut open: Vec<CommitId> = heads.to_vec();
    while let Some(head) = open.pop() {
        let mut history = repo.history(head).pages(32, 4096);
        while let Some(commit) = history.next_unless(|id| known.contains_key(&id)).await? {
            open.extend(commit.parents.iter().skip(1));
            known.insert(commit.id(), (commit.parents.clone(), commit.created_at));
        }
    }
    Ok(known)
}

/// Returns the time of a commit: its own, else that of its nearest ancestor with a time, else 0.
fn made(known: &KnownCommits, mut id: CommitId) -> i64 {
    while let Some((parents, at)) = known.get(&id) {
        match (at, parents.first()) {
            (Some(at), _) => return *at,
            (None, Some(parent)) => id = *parent,
            (None, None) => return 0,
        }
    }
    0
}
