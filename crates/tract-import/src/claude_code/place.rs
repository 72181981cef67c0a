//! The positions of lines: the tree of a session, read in the order of the file.
//!
//! The lines of a session name their parents. Most nodes with several children are not forks: with
//! parallel calls, both the next call *and* the result are children of a call. So a line continues
//! the branch of its parent, unless the conversation there already continued after the parent;
//! results and further blocks of an answer do not count as continuing. Lines that no model saw are
//! not nodes: they have the position of their parent.

use std::collections::HashMap;

use crate::tree::{BranchNumber, ItemNumber};

/// A position on a branch: after `items` of the branch's own items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Position {
    pub(super) branch: BranchNumber,
    pub(super) items: usize,
}

/// The context that a line belongs to. A subagent has a separate one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Speaker {
    #[default]
    Main,
    Sidechain(Option<String>),
}

/// An item of a branch.
#[derive(Clone, Copy, Debug)]
struct PlacedItem {
    item: ItemNumber,
    /// Whether the conversation continued with it: a prompt, an answer, a summary.
    advances: bool,
}

#[derive(Debug)]
struct Branch {
    base: Option<Position>,
    speaker: Speaker,
    items: Vec<PlacedItem>,
    /// Number of items up to the last one that advances.
    advanced: usize,
    /// Number of items up to the last summary.
    summary: Option<usize>,
    /// The time and the number of its last line.
    last_line: (i64, usize),
}

impl Branch {
    fn new(base: Option<Position>, speaker: Speaker) -> Self {
        Self {
            base,
            speaker,
            items: Vec::new(),
            advanced: 0,
            summary: None,
            last_line: (i64::MIN, 0),
        }
    }
}

/// A known line: its position and its items.
#[derive(Clone, Copy, Debug)]
struct Node {
    place: Position,
    first: ItemNumber,
    count: usize,
}

/// Maximum number of branches that are followed to check whether a position is on a path. Real
/// sessions have far fewer nested rewinds; this bounds the time for a hostile file.
const MAX_DEPTH: usize = 1000;

/// The branches of a session and the positions of its lines.
#[derive(Debug, Default)]
pub(super) struct Places {
    nodes: HashMap<Box<str>, Node>,
    branches: Vec<Branch>,
    /// The branch of each speaker's last line.
    last: HashMap<Speaker, BranchNumber>,
}

impl Places {
    pub(super) fn knows(&self, uuid: &str) -> bool {
        self.nodes.contains_key(uuid)
    }

    pub(super) fn place_of(&self, uuid: &str) -> Option<Position> {
        Some(self.nodes.get(uuid)?.place)
    }

    /// Returns the items of lines.
    pub(super) fn items_of(&self, uuids: &[String]) -> Vec<ItemNumber> {
        let nodes = uuids.iter().filter_map(|uuid| self.nodes.get(uuid.as_str()));
        nodes.flat_map(|node| node.first..node.first + node.count).collect()
    }

    /// Returns the end of the branch with a speaker's last line.
    pub(super) fn end_of(&self, speaker: &Speaker) -> Option<Position> {
        Some(self.tip(*self.last.get(speaker)?))
    }

    pub(super) fn tip(&self, branch: BranchNumber) -> Position {
        let items = self.branches.get(branch).map_or(0, |branch| branch.items.len());
        Position { branch, items }
    }

    pub(super) fn speaker(&self, branch: BranchNumber) -> Option<&Speaker> {
        Some(&self.branches.get(branch)?.speaker)
    }

    pub(super) fn branch_count(&self) -> usize {
        self.branches.len()
    }

    /// Returns whether the conversation of a branch continued after a position on it.
    pub(super) fn continues_after(&self, place: Position) -> bool {
        self.branches.get(place.branch).is_some_and(|branch| branch.advanced > place.items)
    }

    /// Returns whether a position is on the path to the end of a branch.
    pub(super) fn is_on_path(&self, place: Position, branch: BranchNumber) -> bool {
        let mut end = self.tip(branch);
        for _ in 0..MAX_DEPTH {
            if end.branch == place.branch {
                return place.items <= end.items;
            }
            match self.branches.get(end.branch).and_then(|branch| branch.base) {
                Some(base) => end = base,
                None => return false,
            }
        }
        false
    }

    /// Returns whether a position is before another one on the path to it.
    pub(super) fn is_before(&self, place: Position, other: Position) -> bool {
        let is_same = place.branch == other.branch;
        if is_same { place.items < other.items } else { self.is_on_path(place, other.branch) }
    }

    /// Returns whether there is a summary after a position on the path to the end of a branch.
    pub(super) fn has_summary_after(&self, place: Position, branch: BranchNumber) -> bool {
        let mut end = self.tip(branch);
        for _ in 0..MAX_DEPTH {
            let Some(branch) = self.branches.get(end.branch) else { return false };
            let from = if end.branch == place.branch { place.items } else { 0 };
            if branch.summary.is_some_and(|summary| summary > from && summary <= end.items) {
                return true;
            }
            match branch.base {
                Some(base) if end.branch != place.branch => end = base,
                _ => return false,
            }
        }
        false
    }

    /// Records that the last item of a branch is a summary.
    pub(super) fn set_summary(&mut self, branch: BranchNumber) {
        if let Some(branch) = self.branches.get_mut(branch) {
            branch.summary = Some(branch.items.len());
        }
    }

    /// Returns the position for a line whose parent has a position. A compaction may leave its
    /// boundary and summary without a successor, so a line that follows one before the summary is
    /// placed after the summary, unless another line already is.
    pub(super) fn after_summary(&self, place: Position, speaker: &Speaker) -> Position {
        let summary = self.last.get(speaker).and_then(|number| {
            let items = self.branches.get(*number)?.summary?;
            Some(Position { branch: *number, items })
        });
        let is_next =
            |summary: &Position| !self.continues_after(*summary) && self.is_before(place, *summary);
        summary.filter(is_next).unwrap_or(place)
    }

    /// Returns the items from one line to another on the path to the end of a branch; up to that
    /// end if the second line is not after the first.
    pub(super) fn items_between(
        &self,
        first: &str,
        last: Option<&str>,
        branch: BranchNumber,
    ) -> Vec<ItemNumber> {
        let Some(first) = self.nodes.get(first).filter(|node| node.count > 0) else {
            return Vec::new();
        };
        let end = last.and_then(|last| self.nodes.get(last));
        let end = end.filter(|end| !self.is_before(end.place, first.place));
        let mut items = Vec::new();
        let mut place = end.map_or_else(|| self.tip(branch), |end| end.place);
        for _ in 0..MAX_DEPTH {
            let Some(branch) = self.branches.get(place.branch) else { break };
            let before = branch.items.get(..place.items).unwrap_or_default();
            let kept = before.iter().rev().map(|item| item.item);
            items.extend(kept.take_while(|item| *item >= first.first));
            match branch.base {
                Some(base) if place.branch != first.place.branch => place = base,
                _ => break,
            }
        }
        items.sort_unstable();
        items
    }

    /// Returns the items of a branch after a position on it.
    pub(super) fn items_after(&self, place: Position) -> Vec<ItemNumber> {
        let branch = self.branches.get(place.branch);
        let after = branch.and_then(|branch| branch.items.get(place.items..)).unwrap_or_default();
        after.iter().map(|item| item.item).collect()
    }

    /// Starts a branch at a position. The results and blocks that belong to the item there are
    /// shared. Returns the last item before the branch.
    pub(super) fn fork(&mut self, place: Position, speaker: Speaker) -> Option<ItemNumber> {
        let mut base = place;
        if let Some(branch) = self.branches.get(place.branch) {
            let after = branch.items.get(place.items..).unwrap_or_default();
            base.items += after.iter().take_while(|item| !item.advances).count();
        }
        let item = self.item_before(base);
        self.branches.push(Branch::new(Some(base), speaker));
        item
    }

    /// Starts a branch without a parent.
    pub(super) fn root(&mut self, speaker: Speaker) {
        self.branches.push(Branch::new(None, speaker));
    }

    fn item_before(&self, mut place: Position) -> Option<ItemNumber> {
        for _ in 0..MAX_DEPTH {
            let branch = self.branches.get(place.branch)?;
            match place.items.checked_sub(1) {
                Some(last) => return branch.items.get(last).map(|item| item.item),
                None => place = branch.base?,
            }
        }
        None
    }

    /// Adds an item at the end of a branch.
    pub(super) fn push(&mut self, number: BranchNumber, item: ItemNumber, advances: bool) {
        let Some(branch) = self.branches.get_mut(number) else { return };
        branch.items.push(PlacedItem { item, advances });
        if advances {
            branch.advanced = branch.items.len();
        }
        let speaker = branch.speaker.clone();
        self.last.insert(speaker, number);
    }

    /// Records the last line of a branch. A line without a time counts as being as old as the one
    /// before.
    pub(super) fn set_last_line(&mut self, number: BranchNumber, at: Option<i64>, line: usize) {
        if let Some(branch) = self.branches.get_mut(number) {
            branch.last_line = (at.unwrap_or(branch.last_line.0), line);
        }
    }

    /// Returns the branch that Claude Code would resume. The tool continues the newest leaf of a
    /// session, so this is the branch with the newest last line among those of the first branch's
    /// speaker.
    pub(super) fn resumed(&self) -> Option<BranchNumber> {
        let speaker = self.speaker(0)?;
        let own = self.branches.iter().enumerate().filter(|(_, branch)| branch.speaker == *speaker);
        own.max_by_key(|(_, branch)| branch.last_line).map(|(number, _)| number)
    }

    /// Records the position of a line that became items.
    pub(super) fn insert(&mut self, uuid: &str, place: Position, first: ItemNumber, count: usize) {
        self.nodes.insert(uuid.into(), Node { place, first, count });
    }

    /// Moves the position after a line to a later one, because a summary came in between.
    pub(super) fn relocate(&mut self, uuid: &str, place: Position) {
        if let Some(node) = self.nodes.get_mut(uuid) {
            let is_later = node.place.branch != place.branch || node.place.items < place.items;
            if is_later {
                node.place = place;
            }
        }
    }
}
