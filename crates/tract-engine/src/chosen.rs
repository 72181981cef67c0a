//! What summaries and edits of a write were decided on, when the write is carried out again.

use std::collections::HashMap;

use tract_core::{Change, Changes, Commit, CommitId, CommitRef, Op};

use crate::plan::{Request, Selection};

/// The messages that summaries were first planned for. A summary that is planned again after a
/// lost race is of the same ones, so it hides nothing that arrived since. Likewise the versions that
/// edits were first planned to replace. Requests are named by their places in the write.
#[derive(Debug, Default)]
pub(crate) struct PlannedTargets {
    messages: HashMap<usize, Vec<CommitId>>,
    replaced: HashMap<usize, CommitId>,
    /// The commits that were made this time.
    made: HashMap<usize, CommitId>,
    /// The places of commits that were made at earlier times, and are not stored.
    places: HashMap<CommitId, usize>,
}

impl PlannedTargets {
    /// Takes in what a request made.
    pub(crate) fn made(&mut self, place: usize, commit: &Commit) {
        self.made.insert(place, commit.id());
        if let Op::Compress { targets } = &commit.op {
            // What it was first planned for counts.
            self.messages.entry(place).or_insert_with(|| targets.clone());
        }
        if let (Op::Edit { .. }, Changes::List(changes)) = (&commit.op, &commit.changes)
            && let [Change::Version { from: CommitRef::Id(version), .. }] = changes.as_slice()
        {
            self.replaced.entry(place).or_insert(*version);
        }
    }

    /// Takes in that nothing of the write is stored.
    pub(crate) fn roll_back(&mut self) {
        self.places.extend(self.made.drain().map(|(place, commit)| (commit, place)));
    }

    /// Returns the request for the messages that its summary was first planned for; `None` when it
    /// is to be planned as it is.
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

    /// Returns what a commit of an earlier time is this time.
    fn now(&self, commit: CommitId) -> CommitId {
        let place = self.places.get(&commit);
        place.and_then(|place| self.made.get(place)).copied().unwrap_or(commit)
    }
}
