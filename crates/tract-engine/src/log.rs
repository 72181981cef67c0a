//! The log: which commits a head has behind it, and what each of them says in a line.

mod describe;

use std::collections::HashMap;

use tract_core::store::Walk;
use tract_core::{Commit, CommitId, ObjectId};

pub use self::describe::{LogLine, describe, one_line};
use crate::error::{Error, Result};
use crate::graph::order;
use crate::repo::Repo;

/// A page of a log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LogPage {
    /// The commits, newest first.
    pub commits: Vec<Commit>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<CommitId>,
}

/// Reads at most `limit` commits of a line, first parents only, newest first. Every commit is
/// shown, skipped or summarised messages' too.
///
/// # Errors
/// When the head is not stored, or the store fails.
pub async fn log(repo: &Repo, head: CommitId, limit: usize) -> Result<LogPage> {
    let mut page = LogPage { commits: Vec::new(), next: Some(head) };
    while let Some(head) = page.next
        && page.commits.len() < limit
    {
        let left = (limit - page.commits.len()).min(4096);
        let walked =
            repo.store().walk(repo.name(), Walk { limit: left, ..Walk::from(head) }).await?;
        page.commits.extend(walked.steps.into_iter().map(|step| step.commit));
        page.next = walked.next;
    }
    Ok(page)
}

/// Reads at most `limit` commits that several heads lead to, over all parents: every child
/// before its parents, one line after the other, as [`graph::layout`](crate::graph::layout) draws
/// them. The head with the latest time comes first.
///
/// # Errors
/// When a head is not stored, or the store fails.
///
/// # Complexity
/// Linear in the history of the heads, as which commit comes next depends on all of it; for one
/// head whose last `limit` commits merge nothing, linear in `limit`.
pub async fn log_all(repo: &Repo, heads: &[CommitId], limit: usize) -> Result<Vec<Commit>> {
    if let [head] = heads {
        let page = log(repo, *head, limit).await?;
        if page.commits.iter().all(|commit| commit.parents.len() < 2) {
            return Ok(page.commits);
        }
    }
    let known = explore(repo, heads).await?;
    let mut heads = heads.to_vec();
    // Stable: heads of one time stay in the order given.
    heads.sort_by_key(|head| std::cmp::Reverse(made(&known, *head)));
    let parents = known.into_iter().map(|(id, (parents, _))| (id, parents)).collect();
    let mut ids = order(&heads, &parents);
    ids.truncate(limit);
    let mut commits = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(512) {
        for (id, commit) in chunk.iter().zip(repo.store().commits(repo.name(), chunk).await?) {
            commits.push(commit.ok_or(Error::Missing(ObjectId::Commit(*id)))?);
        }
    }
    Ok(commits)
}

/// A commit's parents, and its time where it states one.
type Known = HashMap<CommitId, (Vec<CommitId>, Option<i64>)>;

async fn explore(repo: &Repo, heads: &[CommitId]) -> Result<Known> {
    let mut known = Known::new();
    let mut open: Vec<CommitId> = heads.to_vec();
    while let Some(head) = open.pop() {
        let (mut next, mut limit) = (Some(head), 32);
        while let Some(at) = next.filter(|id| !known.contains_key(id)) {
            let walk = Walk { limit, ..Walk::from(at) };
            let page = repo.store().walk(repo.name(), walk).await?;
            next = page.next;
            for step in page.steps {
                let commit = step.commit;
                if known.contains_key(&commit.id()) {
                    next = None;
                    break;
                }
                open.extend(commit.parents.iter().skip(1));
                known.insert(commit.id(), (commit.parents.clone(), commit.created_at));
            }
            limit = (limit * 4).min(4096);
        }
    }
    Ok(known)
}

/// When a commit counts as made: as its parent where it does not say, 0 at a root.
fn made(known: &Known, mut id: CommitId) -> i64 {
    while let Some((parents, at)) = known.get(&id) {
        match (at, parents.first()) {
            (Some(at), _) => return *at,
            (None, Some(parent)) => id = *parent,
            (None, None) => return 0,
        }
    }
    0
}
