//! Which tools the index must have: what is in force, and since which commit.

use std::collections::HashMap;

use rusqlite::Connection;
use tract_core::{Commit, CommitId, ToolsetId};

use super::OP;
use crate::read::find_commit;

/// What the commit before a row was.
pub(super) struct CommitBefore {
    pub(super) id: CommitId,
    pub(super) toolset: Option<ToolsetId>,
    /// When it was made, as far as that was worked out.
    pub(super) time: Option<i64>,
}

/// Notes the first commit at which each toolset is in force.
pub(super) struct ToolsInForce<'c> {
    connection: &'c Connection,
    repo: i64,
    pub(super) first: HashMap<ToolsetId, (i64, CommitId)>,
    /// When commits were made that had to be looked for, so that no line is followed twice.
    known: HashMap<CommitId, i64>,
}

impl<'c> ToolsInForce<'c> {
    pub(super) fn new(connection: &'c Connection, repo: i64) -> Self {
        Self { connection, repo, first: HashMap::new(), known: HashMap::new() }
    }

    fn commit(&self, id: CommitId) -> Option<Commit> {
        find_commit(self.connection, OP, self.repo, id).ok().flatten().map(|(_, commit)| commit)
    }

    /// Looks at a commit; `near` is the one before its row. Returns when it was made, if that is
    /// known without a search.
    pub(super) fn see(&mut self, commit: &Commit, near: Option<&CommitBefore>) -> Option<i64> {
        let near = near.filter(|near| Some(near.id) == commit.parent());
        let time = match (commit.created_at, commit.parent(), near) {
            (Some(time), _, _) => Some(time),
            (None, None, _) => Some(0),
            (None, Some(_), near) => near.and_then(|near| near.time),
        };
        let Some(toolset) = commit.toolset else { return time };
        let at_parent = match (near, commit.parent()) {
            (Some(near), _) => Some(near.toolset),
            (None, Some(parent)) => self.commit(parent).map(|parent| parent.toolset),
            (None, None) => None,
        };
        if at_parent == Some(Some(toolset)) {
            return time;
        }
        let time = time.unwrap_or_else(|| self.search(commit));
        let seen = (time, commit.id());
        self.first.entry(toolset).and_modify(|first| *first = seen.min(*first)).or_insert(seen);
        Some(time)
    }

    /// Works out when a commit was made: one without a time counts as its parent's, a root as 0.
    fn search(&mut self, commit: &Commit) -> i64 {
        let (mut at, mut passed) = (commit.clone(), Vec::new());
        let time = loop {
            if let Some(time) = at.created_at.or_else(|| self.known.get(&at.id()).copied()) {
                break time;
            }
            passed.push(at.id());
            match at.parent().and_then(|parent| self.commit(parent)) {
                Some(parent) => at = parent,
                None => break 0,
            }
        };
        self.known.extend(passed.into_iter().map(|id| (id, time)));
        time
    }
}
