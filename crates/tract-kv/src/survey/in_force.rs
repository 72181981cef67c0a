//! Since which commit each toolset is in force.

use std::collections::HashMap;

use super::super::read::View;
use tract_core::commit::Commit;
use tract_core::id::{CommitId, ToolsetId};

/// Notes the first commit at which each toolset is in force.
pub(super) struct ToolsInForce<'a> {
    view: View<'a>,
    pub(super) first: HashMap<ToolsetId, (i64, CommitId)>,
    /// When commits were made that had to be looked for, so that no line is followed twice.
    known: HashMap<CommitId, i64>,
}

impl<'a> ToolsInForce<'a> {
    pub(super) fn new(view: View<'a>) -> Self {
        Self { view, first: HashMap::new(), known: HashMap::new() }
    }

    /// Looks at a commit; `of_parent` is when its parent was made, if that is known. Returns when
    /// it was made, if that is known without a search.
    pub(super) fn see(&mut self, commit: &Commit, of_parent: Option<i64>) -> Option<i64> {
        let root = commit.parent().is_none().then_some(0);
        let time = commit.created_at.or(root).or(of_parent);
        let Some(toolset) = commit.toolset else { return time };
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
            let parent = at.parent().and_then(|id| self.view.commit(id).ok().flatten());
            match parent {
                Some(parent) => at = parent.commit,
                None => break 0,
            }
        };
        self.known.extend(passed.into_iter().map(|id| (id, time)));
        time
    }
}
