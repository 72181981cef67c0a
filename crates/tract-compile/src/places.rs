//! Persistent maps by place that grow at their end.

use std::sync::Arc;

use imbl::OrdMap;

use crate::view::RowKey;

/// The most values outside of the tree. The list is copied with each append, the nodes on the way
/// to a leaf only once for so many.
const RECENT: usize = 16;

/// Values by place, in order. A clone shares all structure.
///
/// Most lines grow at their end. What came last is in one short list behind the tree: to copy that
/// list costs the same for any length of the line, while a tree's nodes on the way to its last leaf
/// are more and larger the longer it is.
#[derive(Clone, Debug)]
pub(crate) struct Places<V> {
    tree: OrdMap<RowKey, V>,
    /// In order; all of it behind all of the tree.
    recent: Arc<Vec<(RowKey, V)>>,
}

/// Where a value was put.
#[derive(Debug)]
pub(crate) enum Put<V> {
    /// Behind the tree, whose values are as they were.
    Recent,
    /// Into the tree.
    Tree,
    /// Where it belongs; the tree got these, the value among them if it is not last.
    Moved(Vec<(RowKey, V)>),
}

impl<V> Default for Places<V> {
    fn default() -> Self {
        Self { tree: OrdMap::new(), recent: Arc::default() }
    }
}

impl<V> Places<V> {
    pub(crate) fn len(&self) -> usize {
        self.tree.len() + self.recent.len()
    }

    /// Walks all of it in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&RowKey, &V)> + Clone {
        self.tree.iter().chain(self.recent.iter().map(|(place, value)| (place, value)))
    }

    /// Walks what is before a place, in order.
    pub(crate) fn before(&self, place: RowKey) -> impl DoubleEndedIterator<Item = &V> {
        let end = self.recent.partition_point(|(at, _)| *at < place);
        let recent = self.recent.iter().take(end).map(|(_, value)| value);
        self.tree.range(..place).map(|(_, value)| value).chain(recent)
    }

    /// Walks what is after a place, in order.
    pub(crate) fn after(&self, place: RowKey) -> impl DoubleEndedIterator<Item = &V> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = self.recent.partition_point(|(at, _)| *at <= place);
        let recent = self.recent.iter().skip(start).map(|(_, value)| value);
        self.tree.range((Excluded(place), Unbounded)).map(|(_, value)| value).chain(recent)
    }

    pub(crate) fn get(&self, place: &RowKey) -> Option<&V> {
        match self.recent.first() {
            Some((first, _)) if first <= place => {
                let at = self.find_recent(place).ok()?;
                self.recent.get(at).map(|(_, value)| value)
            }
            _ => self.tree.get(place),
        }
    }

    pub(crate) fn contains(&self, place: &RowKey) -> bool {
        self.get(place).is_some()
    }

    /// Walks what is behind the tree, in order.
    pub(crate) fn recent(&self) -> impl DoubleEndedIterator<Item = &(RowKey, V)> {
        self.recent.iter()
    }

    /// Returns the places whose value differs from the one in an earlier map, and all that either
    /// has behind its tree. Nodes that both trees share are not visited.
    pub(crate) fn changed_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = RowKey> + 'a
    where
        V: PartialEq,
    {
        use imbl::ordmap::DiffItem;
        let in_trees = before.tree.diff(&self.tree).map(|item| match item {
            DiffItem::Add(place, _) | DiffItem::Remove(place, _) => *place,
            DiffItem::Update { new: (place, _), .. } => *place,
        });
        let recent = before.recent.iter().chain(self.recent.iter()).map(|(place, _)| *place);
        in_trees.chain(recent)
    }

    fn find_recent(&self, place: &RowKey) -> Result<usize, usize> {
        self.recent.binary_search_by(|(at, _)| at.cmp(place))
    }
}

impl<V: Clone> Places<V> {
    pub(crate) fn get_mut(&mut self, place: &RowKey) -> Option<&mut V> {
        match self.recent.first() {
            Some((first, _)) if first <= place => {
                let at = self.find_recent(place).ok()?;
                self.recent_mut().get_mut(at).map(|(_, value)| value)
            }
            _ => self.tree.get_mut(place),
        }
    }

    /// Puts a value at a place.
    pub(crate) fn insert(&mut self, place: RowKey, value: V) -> Put<V> {
        let is_last = match self.recent.first() {
            Some((first, _)) => *first <= place,
            None => self.tree.get_max().is_none_or(|(last, _)| *last < place),
        };
        if !is_last {
            self.tree.insert(place, value);
            return Put::Tree;
        }
        match self.find_recent(&place) {
            Ok(at) => {
                if let Some(entry) = self.recent_mut().get_mut(at) {
                    *entry = (place, value);
                }
                Put::Recent
            }
            Err(at) if self.recent.len() < RECENT => {
                self.recent_mut().insert(at, (place, value));
                Put::Recent
            }
            Err(at) => {
                let mut moved = Arc::unwrap_or_clone(std::mem::take(&mut self.recent));
                if at < moved.len() {
                    moved.insert(at, (place, value));
                } else {
                    self.recent_mut().push((place, value));
                }
                self.tree.extend(moved.iter().cloned());
                Put::Moved(moved)
            }
        }
    }

    pub(crate) fn remove(&mut self, place: &RowKey) -> Option<V> {
        match self.find_recent(place) {
            Ok(at) => Some(self.recent_mut().remove(at).1),
            Err(_) => self.tree.remove(place),
        }
    }

    /// Returns the list, copied when it is shared, with room for all it may ever take.
    fn recent_mut(&mut self) -> &mut Vec<(RowKey, V)> {
        if Arc::get_mut(&mut self.recent).is_none() {
            let mut own = Vec::with_capacity(RECENT);
            own.extend_from_slice(&self.recent);
            self.recent = Arc::new(own);
        }
        Arc::make_mut(&mut self.recent)
    }
}

impl<V: Clone> Extend<(RowKey, V)> for Places<V> {
    fn extend<I: IntoIterator<Item = (RowKey, V)>>(&mut self, values: I) {
        self.tree.extend(std::mem::take(&mut self.recent).iter().cloned());
        self.tree.extend(values);
    }
}

impl<V: Clone> FromIterator<(RowKey, V)> for Places<V> {
    fn from_iter<I: IntoIterator<Item = (RowKey, V)>>(values: I) -> Self {
        Self { tree: values.into_iter().collect(), recent: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tract_core::CommitId;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Append(u8),
        Insert(u8, u8),
        Remove(u8),
        Change(u8, u8),
        /// From here on the map is shared.
        Hold,
    }

    fn act() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => any::<u8>().prop_map(Op::Append),
            2 => any::<(u8, u8)>().prop_map(|(at, value)| Op::Insert(at, value)),
            2 => any::<u8>().prop_map(Op::Remove),
            2 => any::<(u8, u8)>().prop_map(|(at, value)| Op::Change(at, value)),
            1 => Just(Op::Hold),
        ]
    }

    fn place(key: u64) -> RowKey {
        RowKey { key, slot: CommitId::from_bytes([key as u8; 32]) }
    }

    fn same(places: &Places<u8>, model: &BTreeMap<RowKey, u8>) {
        assert_eq!(places.len(), model.len());
        assert!(places.iter().eq(model.iter()));
        assert!(places.iter().rev().eq(model.iter().rev()));
        for at in (0..300).step_by(7).map(place) {
            assert_eq!(places.get(&at), model.get(&at));
            assert!(places.before(at).eq(model.range(..at).map(|(_, value)| value)));
            let after = (std::ops::Bound::Excluded(at), std::ops::Bound::Unbounded);
            assert!(places.after(at).rev().eq(model.range(after).rev().map(|(_, value)| value)));
        }
        assert!(places.recent.len() <= RECENT);
    }

    proptest! {
        #[test]
        fn a_map_of_places_is_an_ordered_map(acts in prop::collection::vec(act(), 0..200)) {
            let (mut places, mut model) = (Places::default(), BTreeMap::new());
            let (mut next, mut held) = (0, Vec::new());
            for act in acts {
                match act {
                    Op::Append(value) => {
                        places.insert(place(next), value);
                        model.insert(place(next), value);
                        next += 1;
                    }
                    Op::Insert(at, value) => {
                        places.insert(place(at.into()), value);
                        model.insert(place(at.into()), value);
                        next = next.max(u64::from(at) + 1);
                    }
                    Op::Remove(at) => {
                        let at = place(u64::from(at) % (next + 1));
                        prop_assert_eq!(places.remove(&at), model.remove(&at));
                    }
                    Op::Change(at, value) => {
                        let at = place(u64::from(at) % (next + 1));
                        let (found, wanted) = (places.get_mut(&at), model.get_mut(&at));
                        prop_assert_eq!(found.is_some(), wanted.is_some());
                        found.into_iter().chain(wanted).for_each(|found| *found = value);
                    }
                    Op::Hold => held.push((places.clone(), model.clone())),
                }
            }
            held.push((places, model));
            held.iter().for_each(|(places, model)| same(places, model));
        }

        #[test]
        fn a_view_finds_each_row_by_its_slot(acts in prop::collection::vec(act(), 0..200)) {
            let (mut view, mut model) = (crate::View::empty(), BTreeMap::new());
            let mut held = Vec::new();
            for act in acts {
                let id = |at: u64| CommitId::from_bytes([at as u8; 32]);
                let row = |key: u64, version: u8| crate::Row {
                    slot: id(key), key, version: id(version.into()), mark: None, answers: None,
                };
                match act {
                    Op::Append(version) if view.next() < 256 => {
                        let row = row(view.next(), version);
                        model.insert(row.slot, row);
                        view.insert(row);
                    }
                    Op::Insert(at, version) => {
                        model.insert(id(at.into()), row(at.into(), version));
                        view.insert(row(at.into(), version));
                    }
                    Op::Remove(at) => {
                        model.remove(&id(at.into()));
                        view.remove_row(id(at.into()));
                    }
                    Op::Change(at, version) => {
                        let slot = id(at.into());
                        if let Some(row) = model.get_mut(&slot) {
                            row.version = id(version.into());
                            view.replace(*row);
                        }
                    }
                    Op::Append(_) | Op::Hold => held.push((view.clone(), model.clone())),
                }
            }
            held.push((view, model));
            for (view, model) in held {
                prop_assert!(view.rows().eq(model.values()));
                for at in 0..=255 {
                    let slot = CommitId::from_bytes([at; 32]);
                    prop_assert_eq!(view.get(slot), model.get(&slot));
                }
            }
        }
    }
}
