//! A persistent ordered map that is optimized for appends.

use std::sync::Arc;

use imbl::OrdMap;

use crate::view::RowKey;

/// Maximum length of the tail. Each append copies the tail if it is shared; the tree's path to its
/// last leaf is copied only once per this number of appends.
const RECENT: usize = 16;

/// A persistent map ordered by [`RowKey`]. A clone shares all structure.
///
/// Most histories grow at their end, so the newest entries are kept in a short tail behind the
/// tree. Copying the tail costs the same for any history, while the path to the tree's last leaf
/// gets longer with the number of rows.
///
/// Invariant: all keys of the tail are greater than all keys of the tree. `get`, `iter` and the
/// range walks rely on it: they look up a key in one of the two, or concatenate them without
/// merging.
#[derive(Clone, Debug)]
pub(crate) struct Places<V> {
    tree: OrdMap<RowKey, V>,
    /// Sorted; all keys are greater than those of the tree.
    recent: Arc<Vec<(RowKey, V)>>,
}

/// The part of the map into which a value was inserted.
#[derive(Debug)]
pub(crate) enum Put<V> {
    /// The tail. The tree is unchanged.
    Recent,
    /// The tree.
    Tree,
    /// The tail was full: these entries were moved into the tree. They include the new value unless
    /// it is the last one, which starts the new tail.
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

    /// Returns an iterator over all entries, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&RowKey, &V)> + Clone {
        self.tree.iter().chain(self.recent.iter().map(|(place, value)| (place, value)))
    }

    /// Returns an iterator over the values before a key, in order.
    pub(crate) fn before(&self, place: RowKey) -> impl DoubleEndedIterator<Item = &V> {
        let end = self.recent.partition_point(|(at, _)| *at < place);
        let recent = self.recent.iter().take(end).map(|(_, value)| value);
        self.tree.range(..place).map(|(_, value)| value).chain(recent)
    }

    /// Returns an iterator over the values after a key, in order.
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

    /// Returns an iterator over the tail, in order.
    pub(crate) fn recent(&self) -> impl DoubleEndedIterator<Item = &(RowKey, V)> {
        self.recent.iter()
    }

    /// Returns the keys whose value differs from that in an earlier map, plus all keys in either
    /// tail. Does not visit nodes that both trees share.
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

    /// Inserts a value, or replaces the value of its key.
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
                // The tail must be behind the whole tree. An entry in the middle goes to the tree
                // with the others; one at the end begins the next tail.
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

    /// Returns the tail for writing. Copies it if it is shared, with capacity for its maximum
    /// length.
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
