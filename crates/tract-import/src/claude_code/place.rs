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

    /// Begins a branch after a place, with the results and blocks that belong to what is there;
    /// returns the last item before it.
    pub(super) fn fork(&mut self, place: Position, speaker: Speaker) -> Option<ItemNumber> {
        let mut base = place;
        if let Some(branch) = self.branches.get(place.branch) {
            let after = branch.items.get(place.items..).unwrap_or_default();
            base.items += after.iter().take_while(|item| !item.advances).count();
        }
        let item = self.item_before(base);
        self.branches.push(Branch { base: Some(base), speaker, items: Vec::new(), advanced: 0 });
        item
    }

    /// Begins a branch with nothing before it.
    pub(super) fn root(&mut self, speaker: Speaker) {
        self.branches.push(Branch { base: None, speaker, items: Vec::new(), advanced: 0 });
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
