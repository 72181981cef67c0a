//! The facts about each commit that later checks need, in a few bytes instead of the whole record.

use std::collections::HashMap;

use tract_compile::HistoryCounts;
use tract_core::store::StoreResult;
use tract_core::{CallRef, Changes, Commit, CommitId, Op};

use crate::history::counts::{count_append, is_shown_alone};
use crate::history::reach::CommitGraph;
use crate::history::turns::has_no_entries;

/// The commit appends one row under its own name and changes nothing else, so its record is not
/// needed again to fold it.
const APPEND: u8 = 1;
/// An append that states a priority.
const MARKED: u8 = 1 << 1;
/// An append that answers a call.
const ANSWERS: u8 = 1 << 2;
/// The commit may have entries for the turn index.
const TURNS: u8 = 1 << 3;
/// An append whose row is shown.
const SHOWN: u8 = 1 << 4;
/// An append with active tools of its own, in addition to those set permanently.
const ACTIVE: u8 = 1 << 5;

/// The row of a plain append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlainAppend {
    pub(super) is_marked: bool,
    pub(super) answers: Option<CallRef>,
}

/// The facts about each commit, by its number.
#[derive(Debug, Default)]
pub(super) struct Facts {
    flags: Vec<u8>,
    /// The calls that plain appends answer: the number of the message, and the index of the call.
    calls: HashMap<u32, (u32, u32)>,
}

impl Facts {
    /// Records the facts about a commit. `has_text_only` means that its content is a single text.
    pub(super) fn note(
        &mut self,
        graph: &mut CommitGraph,
        number: u32,
        commit: &Commit,
        has_text_only: bool,
    ) -> StoreResult<()> {
        let mut flags = 0;
        let is_unchanging = matches!(&commit.changes, Changes::List(list) if list.is_empty());
        if let Op::Append { slot: None, answers, priority, .. } = &commit.op
            && is_unchanging
        {
            flags |= APPEND;
            if priority.is_some() {
                flags |= MARKED;
            }
            if is_shown_alone(commit) {
                flags |= SHOWN;
            }
            if commit.active.is_some() {
                flags |= ACTIVE;
            }
            if let Some(call) = answers {
                flags |= ANSWERS;
                self.calls.insert(number, (graph.number(call.slot)?, call.index));
            }
        }
        if !has_no_entries(commit, || has_text_only) {
            flags |= TURNS;
        }
        let place = number as usize;
        if self.flags.len() <= place {
            self.flags.resize(graph.named().max(place + 1), 0);
        }
        if let Some(slot) = self.flags.get_mut(place) {
            *slot = flags;
        }
        Ok(())
    }

    fn flags(&self, number: u32) -> u8 {
        self.flags.get(number as usize).copied().unwrap_or_default()
    }

    pub(super) fn is_append(&self, number: u32) -> bool {
        self.flags(number) & APPEND != 0
    }

    /// Returns the row that a commit adds, if it is a plain append.
    pub(super) fn append(&self, graph: &CommitGraph, number: u32) -> Option<PlainAppend> {
        let flags = self.flags(number);
        if flags & APPEND == 0 {
            return None;
        }
        let answers = match flags & ANSWERS {
            0 => None,
            _ => {
                let (slot, index) = *self.calls.get(&number)?;
                let slot: CommitId = graph.id(slot)?;
                Some(CallRef { slot, index })
            }
        };
        Some(PlainAppend { is_marked: flags & MARKED != 0, answers })
    }

    /// Adds a plain append to the counts of its history.
    pub(super) fn count(&self, number: u32, counts: &mut HistoryCounts) {
        let flags = self.flags(number);
        count_append(counts, flags & SHOWN != 0);
        counts.tools_set |= flags & ACTIVE != 0;
    }

    pub(super) fn may_say_of_turns(&self, number: u32) -> bool {
        self.flags(number) & TURNS != 0
    }
}
