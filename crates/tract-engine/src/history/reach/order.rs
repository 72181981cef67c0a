//! Orders of the reached commits: after all links, or along first parents.

use tract_core::CommitId;

use super::{CommitGraph, KnownCommit, NONE};

/// The order in which every commit is folded onto its first parent.
///
/// At a fork, the smaller branches come first and the largest last. A folded commit has to be kept
/// until its last child is folded, and this order keeps few at once: each kept commit still has a
/// branch at least as large as the one being folded, so of n commits at most log2(n) are kept, for
/// any shape of the history.
#[derive(Debug)]
pub(crate) struct FoldOrder {
    /// The numbers of the commits, each after its first parent.
    pub(crate) numbers: Vec<u32>,
    /// Number of children of each commit that are still to come, by number.
    children: Vec<u32>,
}

impl CommitGraph {
    pub(crate) fn is_read(&self, number: u32) -> bool {
        self.state(number) == KnownCommit::Read
    }

    fn count(&self) -> u32 {
        // The number of commits is always below `NONE`.
        u32::try_from(self.ids.len()).unwrap_or(NONE)
    }

    /// Returns the commits so that each comes after all that it links to. Histories stay together.
    pub(crate) fn parents_first(&self) -> Vec<CommitId> {
        enum Visit {
            Enter(u32),
            Leave(u32),
        }
        let mut entered = vec![false; self.ids.len()];
        let mut order = Vec::with_capacity(self.ids.len());
        for root in &self.roots {
            let mut open = vec![Visit::Enter(*root)];
            while let Some(visit) = open.pop() {
                match visit {
                    Visit::Leave(number) => order.extend(self.id(number)),
                    Visit::Enter(number) => {
                        let Some(entered) = entered.get_mut(number as usize) else { continue };
                        if !self.is_read(number) || std::mem::replace(entered, true) {
                            continue;
                        }
                        open.push(Visit::Leave(number));
                        // The parent is pushed last and so visited first: its whole history comes
                        // before the other links, and histories stay together in the order.
                        let others = self.links.get(&number).into_iter().flatten().rev();
                        open.extend(others.map(|link| Visit::Enter(*link)));
                        open.extend(self.parent(number).map(Visit::Enter));
                    }
                }
            }
        }
        order
    }

    pub(crate) fn fold_order(&self) -> FoldOrder {
        let count = self.ids.len();
        let (mut children, mut first, mut next) =
            (vec![0; count], vec![NONE; count], vec![NONE; count]);
        let mut roots = Vec::new();
        for number in (0..self.count()).filter(|number| self.is_read(*number)) {
            match self.parent(number) {
                Some(parent) if self.is_read(parent) => {
                    add(&mut children, parent, 1);
                    set(&mut next, number, at(&first, parent));
                    set(&mut first, parent, number);
                }
                Some(_) | None => roots.push(number),
            }
        }
        let sizes = self.sizes(&children);
        let mut numbers = Vec::with_capacity(count);
        let mut open = roots;
        while let Some(number) = open.pop() {
            numbers.push(number);
            // The stack is last in, first out: put the largest branch below the others.
            let bottom = open.len();
            let (mut child, mut largest) = (at(&first, number), bottom);
            while child != NONE {
                open.push(child);
                if open.get(largest).is_some_and(|best| at(&sizes, child) > at(&sizes, *best)) {
                    largest = open.len() - 1;
                }
                child = at(&next, child);
            }
            if bottom < open.len() {
                open.swap(bottom, largest);
            }
        }
        FoldOrder { numbers, children }
    }

    /// Returns the number of commits that descend from each over first parents, itself included.
    fn sizes(&self, children: &[u32]) -> Vec<u32> {
        // From the leaves to the roots: a commit is added to its parent once all of its own
        // children were added to it.
        let mut left = children.to_vec();
        let mut sizes = vec![1; left.len()];
        let ends = (0..self.count()).filter(|end| self.is_read(*end) && at(&left, *end) == 0);
        let mut open: Vec<u32> = ends.collect();
        while let Some(number) = open.pop() {
            let Some(parent) = self.parent(number).filter(|parent| self.is_read(*parent)) else {
                continue;
            };
            let size = at(&sizes, number);
            add(&mut sizes, parent, size);
            if let Some(left) = left.get_mut(parent as usize) {
                *left -= 1;
                if *left == 0 {
                    open.push(parent);
                }
            }
        }
        sizes
    }

    /// Returns the commits that are in a set or lead to a commit of it.
    pub(crate) fn leading_to(&self, commits: impl IntoIterator<Item = u32>) -> BitSet {
        let mut leads = BitSet::new(self.ids.len());
        for number in commits {
            let mut next = Some(number);
            while let Some(number) = next.filter(|number| leads.insert(*number)) {
                next = self.parent(number);
            }
        }
        leads
    }
}

impl FoldOrder {
    /// Counts a child of a commit as folded. Returns the number of its children that are left.
    pub(crate) fn continued_once(&mut self, number: u32) -> u32 {
        let Some(left) = self.children.get_mut(number as usize) else { return 0 };
        *left = left.saturating_sub(1);
        *left
    }

    /// Returns the number of children of a commit that are still to be folded.
    pub(crate) fn continuations(&self, number: u32) -> u32 {
        self.children.get(number as usize).copied().unwrap_or_default()
    }
}

/// A set of numbers, stored as one bit per possible number.
#[derive(Clone, Debug)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    /// Creates an empty set of numbers below `count`.
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Adds a number. Returns whether it is new; `false` for numbers beyond the limit.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let bit = 1 << (number % 64);
        let Some(word) = self.0.get_mut(number as usize / 64) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).step_by(64).zip(&self.0).flat_map(|(start, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(start + bit)
            })
        })
    }
}

fn at(numbers: &[u32], place: u32) -> u32 {
    numbers.get(place as usize).copied().unwrap_or(NONE)
}

fn set(numbers: &mut [u32], place: u32, value: u32) {
    if let Some(slot) = numbers.get_mut(place as usize) {
        *slot = value;
    }
}

fn add(numbers: &mut [u32], place: u32, more: u32) {
    if let Some(slot) = numbers.get_mut(place as usize) {
        *slot += more;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn id(number: usize) -> CommitId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        CommitId::from_bytes(bytes)
    }

    /// Commits by their first parents, each of an earlier number.
    fn reach(parents: &[Option<usize>]) -> CommitGraph {
        let mut reach = CommitGraph::default();
        // Heads are read before what they lead to.
        for (number, parent) in parents.iter().enumerate().rev() {
            let at = reach.number(id(number)).unwrap();
            let parent = parent.map_or(NONE, |parent| reach.number(id(parent)).unwrap());
            reach.parents[at as usize] = parent;
            reach.set(at, KnownCommit::Read);
        }
        reach
    }

    /// Folds in order and returns how many commits were kept at once.
    fn most_kept(parents: &[Option<usize>]) -> usize {
        let reach = reach(parents);
        let mut order = reach.fold_order();
        let commits = std::mem::take(&mut order.numbers);
        assert_eq!(commits.len(), parents.len());
        let numbers: std::collections::HashMap<u32, usize> =
            (0..parents.len()).map(|number| (reach.find(id(number)).unwrap(), number)).collect();
        let (mut kept, mut most) = (HashSet::new(), 0);
        for commit in commits {
            if let Some(parent) = parents[numbers[&commit]] {
                let parent = reach.find(id(parent)).unwrap();
                assert!(kept.contains(&parent), "a commit is folded before its parent");
                if order.continued_once(parent) == 0 {
                    kept.remove(&parent);
                }
            }
            if order.continuations(commit) > 0 {
                kept.insert(commit);
            }
            most = most.max(kept.len());
        }
        assert!(kept.is_empty(), "nothing is kept to the end");
        most
    }

    #[test]
    fn a_line_keeps_one_commit_and_so_does_one_with_a_fork_at_each() {
        let line: Vec<Option<usize>> = (0..1000usize).map(|n| n.checked_sub(1)).collect();
        assert_eq!(most_kept(&line), 1);
        // Even numbers are the line, odd ones forks of it.
        let comb: Vec<Option<usize>> =
            (0..1000usize).map(|n| n.checked_sub(1 + n % 2).map(|n| n / 2 * 2)).collect();
        assert!(most_kept(&comb) <= 2);
    }

    proptest! {
        #[test]
        fn of_n_commits_few_are_kept_at_once(
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..400),
        ) {
            let parents: Vec<Option<usize>> = picks
                .iter()
                .enumerate()
                .map(|(n, pick)| (n > 0).then(|| pick.index(n)))
                .collect();
            let bound = parents.len().ilog2() as usize + 1;
            prop_assert!(most_kept(&parents) <= bound);
        }
    }
}
