//! Since which commit each toolset is in force.

use std::collections::HashMap;
use std::fmt;

use crate::commit::Commit;
use crate::id::{CommitId, ToolsetId};

/// Notes the first commit at which each toolset is in force, for a store that checks or builds its
/// tool index.
pub struct ToolsInForce<'a> {
    read: &'a dyn Fn(CommitId) -> Option<Commit>,
    first: HashMap<ToolsetId, (i64, CommitId)>,
    /// When commits were made that had to be looked for, so that no line is followed twice.
    known: HashMap<CommitId, i64>,
}

impl<'a> ToolsInForce<'a> {
    /// Starts without a commit; `read` reads one by its id, `None` when it cannot be read.
    pub fn new(read: &'a dyn Fn(CommitId) -> Option<Commit>) -> Self {
        Self { read, first: HashMap::new(), known: HashMap::new() }
    }

    /// Looks at a commit and the toolset that it puts in force, if any; `of_parent` is when its parent
    /// was made, if that is known. Returns when it was made, if that is known without a search.
    pub fn see(
        &mut self,
        commit: &Commit,
        toolset: Option<ToolsetId>,
        of_parent: Option<i64>,
    ) -> Option<i64> {
        let root = commit.parent().is_none().then_some(0);
        let time = commit.created_at.or(root).or(of_parent);
        let Some(toolset) = toolset else { return time };
        let time = time.unwrap_or_else(|| self.search(commit));
        let seen = (time, commit.id());
        self.first.entry(toolset).and_modify(|first| *first = seen.min(*first)).or_insert(seen);
        Some(time)
    }

    /// Works out when a commit was made: one without a time counts as its parent, a root as 0.
    fn search(&mut self, commit: &Commit) -> i64 {
        let (mut at, mut passed) = (commit.clone(), Vec::new());
        let time = loop {
            if let Some(time) = at.created_at.or_else(|| self.known.get(&at.id()).copied()) {
                break time;
            }
            passed.push(at.id());
            match at.parent().and_then(self.read) {
                Some(parent) => at = parent,
                None => break 0,
            }
        };
        self.known.extend(passed.into_iter().map(|id| (id, time)));
        time
    }

    /// Returns the first commit at which each toolset is in force, and when it was made:
    /// microseconds since 1970.
    pub fn into_first(self) -> HashMap<ToolsetId, (i64, CommitId)> {
        self.first
    }
}

impl fmt::Debug for ToolsInForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsInForce").field("first", &self.first).finish_non_exhaustive()
    }
}
