//! The targets that summaries and edits of a write were first planned for, kept across retries.

use std::collections::HashMap;

use tract_core::{Change, Changes, Commit, CommitId, CommitRef, Op};

use crate::plan::{Request, Selection};

/// The messages that each summary was first planned for, and the versions that each edit was first
/// planned to replace. A summary that is retried after a lost race covers the same messages, so it
/// hides nothing that arrived since. The versions show whether a message changed after a handler
/// decided on its edit. Requests are identified by their position in the write.
///
/// A target may be a commit of the same write, whose id changes when the write is planned again on
/// another head. `now` maps it to the new id through its position.
#[derive(Debug, Default)]
pub(crate) struct PlannedTargets {
    messages: HashMap<usize, Vec<CommitId>>,
    replaced: HashMap<usize, CommitId>,
    /// The commits of this try, by position.
    made: HashMap<usize, CommitId>,
    /// The positions of commits of earlier tries, which were not stored.
    places: HashMap<CommitId, usize>,
}

impl PlannedTargets {
    /// Records the commit made for a request.
    pub(crate) fn made(&mut self, place: usize, commit: &Commit) {
        self.made.insert(place, commit.id());
        if let Op::Compress { targets } = &commit.op {
            // Only the first plan counts.
            self.messages.entry(place).or_insert_with(|| targets.clone());
        }
        if let (Op::Edit { .. }, Changes::List(changes)) = (&commit.op, &commit.changes)
            && let [Change::Version { from: CommitRef::Id(version), .. }] = changes.as_slice()
        {
            self.replaced.entry(place).or_insert(*version);
        }
    }

    /// Starts another try: none of the commits made so far is stored.
    pub(crate) fn roll_back(&mut self) {
        // Ids of all earlier tries are kept: the targets of a first plan may name commits of the
        // first try, or of a later one if an earlier request failed until then.
        self.places.extend(self.made.drain().map(|(place, commit)| (commit, place)));
    }

    /// Returns the request restricted to the messages of its first plan; `None` if it is planned
    /// for the first time or is not a summary.
    pub(crate) fn again(&self, place: usize, request: &Request) -> Option<Request> {
        let messages = self.messages.get(&place)?;
        let mut exactly = request.clone();
        let Request::Compress { select, .. } = &mut exactly else { return None };
        *select = Selection::Exactly(messages.iter().map(|message| self.now(*message)).collect());
        Some(exactly)
    }

    /// Returns the version that an edit was first planned to replace.
    pub(crate) fn replaced(&self, place: usize) -> Option<CommitId> {
        self.replaced.get(&place).map(|version| self.now(*version))
    }

    /// Returns the id that a commit of an earlier try has in this one.
    fn now(&self, commit: CommitId) -> CommitId {
        let place = self.places.get(&commit);
        place.and_then(|place| self.made.get(place)).copied().unwrap_or(commit)
    }
}
