//! The heads that were compared last.
//!
//! Two branches that merge each other again and again share no part of their views: each adds the
//! messages of the other at its own positions. Comparing all their rows would make each merge cost
//! as much as the whole history. But between two merges only a few rows change on each side, and
//! outside of these the sides differ where they differed before.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tract_compile::{View, WeakHistory};
use tract_core::CommitId;

use super::differing;
use crate::plan::History;

/// Number of comparisons to remember: enough for a few branches that merge each other in turn.
const REMEMBERED: usize = 8;

/// Returns the number of rows from which on a comparison saves nothing: so many differ, or changed
/// since, that a new comparison costs about the same. At least 256, because the tail of each view
/// counts as changed.
fn too_many(ours: &View, theirs: &View) -> usize {
    256 + (ours.len() + theirs.len()) / 16
}

/// The last comparisons of a repository handle and its clones.
#[derive(Clone, Default)]
pub(crate) struct ComparedHeads {
    last: Arc<Mutex<VecDeque<Comparison>>>,
}

/// Two histories, and the messages in which they differ.
#[derive(Clone)]
struct Comparison {
    // A comparison is of use only while both histories are in memory for another reason.
    sides: [WeakHistory; 2],
    differing: Arc<[CommitId]>,
}

impl ComparedHeads {
    /// Returns the messages in which two histories differ; see [`differing`].
    pub(crate) fn differing(&self, ours: &History, theirs: &History) -> Vec<CommitId> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let among = last.iter().rev().find_map(|known| known.among(ours.view(), theirs.view()));
        let differing = differing(ours.view(), theirs.view(), among);
        if differing.len() >= too_many(ours.view(), theirs.view()) {
            return differing;
        }
        let sides = [ours.downgrade(), theirs.downgrade()];
        let compared = Comparison { sides, differing: differing.as_slice().into() };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|known| known.sides.iter().all(|side| side.upgrade().is_some()));
        if last.len() >= REMEMBERED {
            last.pop_front();
        }
        last.push_back(compared);
        differing
    }
}

impl Comparison {
    /// Returns the messages outside of which two views are alike; `None` if too much changed since
    /// this comparison to tell.
    fn among(&self, ours: &View, theirs: &View) -> Option<Vec<CommitId>> {
        let [one, other] = [self.sides[0].upgrade()?, self.sides[1].upgrade()?];
        let since = |one: &History, other: &History| {
            let most = too_many(ours, theirs);
            let changed = ours.changed_slots(one.view()).chain(theirs.changed_slots(other.view()));
            let changed: Vec<CommitId> = changed.take(most).collect();
            (changed.len() < most).then_some(changed)
        };
        let mut among = since(&one, &other).or_else(|| since(&other, &one))?;
        among.extend(self.differing.iter());
        Some(among)
    }
}
