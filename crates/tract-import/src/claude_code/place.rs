//! Where a line belongs: the tree of a session, read in the order of the file.
//!
//! A session's lines name their parents. Most nodes with several children are no forks: parallel
//! calls give a call the next call *and* its own result as children. So a line continues the branch
//! of its parent unless something was said there after the parent; results and further blocks of an
//! answer do not count. Lines that no model saw are no nodes: they are at the place of their parent.

use std::collections::HashMap;

use crate::tree::{BranchNumber, ItemNumber};

/// A place on a branch: after so many of its own items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Position {
    pub(super) branch: BranchNumber,
    pub(super) items: usize,
}

/// Whose context a line belongs to: a subagent has one of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Speaker {
    #[default]
    Main,
    Sidechain(Option<String>),
}

/// An item as its branch knows it.
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
    /// How many items there are up to the last one that advances.
    advanced: usize,
    /// How many items there are up to the last summary.
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

/// A line that is known: its place, and the items that it became.
#[derive(Clone, Copy, Debug)]
struct Node {
    place: Position,
    first: ItemNumber,
    count: usize,
}

/// Branches whose bases are followed to find whether a place is on a path. No user goes back that
/// often within going back; a file made so costs a bounded time.
const MAX_DEPTH: usize = 1000;

/// The branches of a session, and where each line is on them.
#[derive(Debug, Default)]
pub(super) struct Places {
    nodes: HashMap<Box<str>, Node>,
    branches: Vec<Branch>,
    /// The branch that each speaker's last line is on.
    last: HashMap<Speaker, BranchNumber>,
}

impl Places {
    pub(super) fn knows(&self, uuid: &str) -> bool {
        self.nodes.contains_key(uuid)
    }

    pub(super) fn place_of(&self, uuid: &str) -> Option<Position> {
        Some(self.nodes.get(uuid)?.place)
    }

    /// The items that lines became.
    pub(super) fn items_of(&self, uuids: &[String]) -> Vec<ItemNumber> {
        let nodes = uuids.iter().filter_map(|uuid| self.nodes.get(uuid.as_str()));
        nodes.flat_map(|node| node.first..node.first + node.count).collect()
    }

    /// The end of the branch that a speaker's last line is on.
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

    /// Whether the conversation of a branch continued after a place on it.
    pub(super) fn continues_after(&self, place: Position) -> bool {
        self.branches.get(place.branch).is_some_and(|branch| branch.advanced > place.items)
    }

    /// Whether a place is on the path to the end of a branch.
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

    /// Whether one place is before another on the path to it.
    pub(super) fn is_before(&self, place: Position, other: Position) -> bool {
        let is_same = place.branch == other.branch;
        if is_same { place.items < other.items } else { self.is_on_path(place, other.branch) }
    }

    /// Whether there is a summary after a place, on the path to the end of a branch.
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

    /// Notes that the last item of a branch is a summary.
    pub(super) fn set_summary(&mut self, branch: BranchNumber) {
        if let Some(branch) = self.branches.get_mut(branch) {
            branch.summary = Some(branch.items.len());
        }
    }

    /// The place of a line whose parent has a place: a compaction may leave its boundary and summary
    /// without successor, so what follows a line before the summary follows the summary, as long as
    /// nothing else does.
    pub(super) fn after_summary(&self, place: Position, speaker: &Speaker) -> Position {
        let summary = self.last.get(speaker).and_then(|number| {
            let items = self.branches.get(*number)?.summary?;
            Some(Position { branch: *number, items })
        });
        let is_next =
            |summary: &Position| !self.continues_after(*summary) && self.is_before(place, *summary);
        summary.filter(is_next).unwrap_or(place)
    }

    /// The items from one line to another on the path to the end of a branch; to that end, where the
    /// second line is not after the first one.
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

    /// The items of a branch after a place on it.
    pub(super) fn items_after(&self, place: Position) -> Vec<ItemNumber> {
        let branch = self.branches.get(place.branch);
        let after = branch.and_then(|branch| branch.items.get(place.items..)).unwrap_or_default();
        after.iter().map(|item| item.item).collect()
    }

    /// Begins a branch after a place, with the results and blocks that belong to what is there;
    /// returns the last item before it.
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

    /// Begins a branch with nothing before it.
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

    /// Notes the last line of a branch. One without a time is as old as the line before it.
    pub(super) fn set_last_line(&mut self, number: BranchNumber, at: Option<i64>, line: usize) {
        if let Some(branch) = self.branches.get_mut(number) {
            branch.last_line = (at.unwrap_or(branch.last_line.0), line);
        }
    }

    /// The branch that Claude Code would resume: of the branches with the speaker of the first one,
    /// the one whose last line is the newest, as the tool continues the newest leaf of a session.
    pub(super) fn resumed(&self) -> Option<BranchNumber> {
        let speaker = self.speaker(0)?;
        let own = self.branches.iter().enumerate().filter(|(_, branch)| branch.speaker == *speaker);
        own.max_by_key(|(_, branch)| branch.last_line).map(|(number, _)| number)
    }

    /// Notes where a line is that became items.
    pub(super) fn insert(&mut self, uuid: &str, place: Position, first: ItemNumber, count: usize) {
        self.nodes.insert(uuid.into(), Node { place, first, count });
    }

    /// Says that what follows a line follows a later place: a summary came between.
    pub(super) fn relocate(&mut self, uuid: &str, place: Position) {
        if let Some(node) = self.nodes.get_mut(uuid) {
            let is_later = node.place.branch != place.branch || node.place.items < place.items;
            if is_later {
                node.place = place;
            }
        }
    }
}
