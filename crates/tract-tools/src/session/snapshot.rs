//! Snapshots of a session, and its JSON form.

use std::collections::BTreeMap;

use tract_core::JsonText;

use super::slice::Slice;
use super::{Result, Session, SlicePolicy};

/// A snapshot of all slices. Taking one copies no items.
#[derive(Clone, Debug, Default)]
pub struct SessionSnapshot(BTreeMap<&'static str, Slice>);

/// A slice in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceDocument {
    /// Its name.
    pub name: String,
    /// Whether it is rolled back when a call fails.
    pub policy: SlicePolicy,
    /// Increases with every change.
    pub revision: u64,
    /// Total number of items.
    pub length: usize,
    /// The items as JSON, from the requested index on.
    pub items: Vec<JsonText>,
}

impl Session {
    /// Takes a snapshot of all slices.
    pub fn snapshot(&self) -> SessionSnapshot {
        SessionSnapshot(self.lock().slices.clone())
    }

    /// Restores all state. Logs and registrations stay. A state slice that is newer than the
    /// snapshot is emptied.
    pub fn restore(&self, snapshot: &SessionSnapshot) {
        let mut state = self.lock();
        let states =
            state.slices.iter_mut().filter(|(_, slice)| slice.policy == SlicePolicy::State);
        for (name, slice) in states {
            match snapshot.0.get(name) {
                Some(before) => slice.put(before),
                None => slice.clear(),
            }
        }
    }

    /// Returns every slice in its stored form, with the items from the index `from(name)` on: of a
    /// log, only new items have to be written.
    ///
    /// # Errors
    /// [`SessionError::NoJson`](super::SessionError::NoJson).
    pub fn documents(&self, from: impl Fn(&str) -> usize) -> Result<Vec<SliceDocument>> {
        let state = self.lock();
        let document = |(name, slice): (&&'static str, &Slice)| {
            Ok(SliceDocument {
                name: (*name).to_owned(),
                policy: slice.policy,
                revision: slice.revision,
                length: slice.items.len(),
                items: slice.json_from(from(name))?,
            })
        };
        state.slices.iter().map(document).collect()
    }

    /// Returns the revision of every slice, by name.
    pub fn revisions(&self) -> BTreeMap<String, u64> {
        let state = self.lock();
        state.slices.iter().map(|(name, slice)| ((*name).to_owned(), slice.revision)).collect()
    }

    /// Returns the items of all slices as JSON, by name. Restored slices that no type has claimed
    /// are included unchanged.
    ///
    /// # Errors
    /// [`SessionError::NoJson`](super::SessionError::NoJson).
    pub fn to_json(&self) -> Result<BTreeMap<String, JsonText>> {
        let state = self.lock();
        let mut all = state.unclaimed.clone();
        for (name, slice) in &state.slices {
            all.insert((*name).to_owned(), slice.json()?);
        }
        Ok(all)
    }

    /// Replaces the items of all slices by stored ones, given by name. Slices that are not named
    /// are emptied. A name without a type is kept until a type claims it.
    ///
    /// # Errors
    /// [`SessionError::Shape`](super::SessionError::Shape) if a list does not fit the type of its
    /// slice; nothing is changed then.
    pub fn from_json(&self, slices: &BTreeMap<String, JsonText>) -> Result<()> {
        let mut state = self.lock();
        // Read into copies, so that a list that cannot be read changes nothing. A copy shares the
        // items.
        let mut read = state.slices.clone();
        for (name, slice) in &mut read {
            match slices.get(*name) {
                Some(list) => slice.read(list)?,
                None => slice.clear(),
            }
        }
        let unknown = slices.iter().filter(|(name, _)| !read.contains_key(name.as_str()));
        let unclaimed = unknown.map(|(name, list)| (name.clone(), list.clone())).collect();
        state.unclaimed = unclaimed;
        state.slices = read;
        Ok(())
    }
}
