//! The state of a session at one time, and its form as JSON.

use std::collections::BTreeMap;

use tract_core::JsonText;

use super::slice::Slice;
use super::{Result, Session, SlicePolicy};

/// The content of all slices at one time. Making one copies nothing.
#[derive(Clone, Debug, Default)]
pub struct SessionSnapshot(BTreeMap<&'static str, Slice>);

/// A slice as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceDocument {
    /// Its name.
    pub name: String,
    /// Its treatment when a call fails.
    pub policy: SlicePolicy,
    /// Grows with every change.
    pub revision: u64,
    /// How many items it holds.
    pub length: usize,
    /// The items: a JSON array. Of a log, only those from the place that was asked for.
    pub items: Vec<JsonText>,
}

impl Session {
    /// Takes a snapshot of all slices.
    pub fn snapshot(&self) -> SessionSnapshot {
        SessionSnapshot(self.lock().slices.clone())
    }

    /// Restores all state. Logs and later registrations stay. A slice of state that is newer than
    /// the snapshot becomes empty.
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

    /// Returns every slice as it is stored. Of each, items before `from(name)` are left out: of a
    /// log only what is new has to be written.
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

    /// Returns all slices as one JSON object: from each name to the list of its items. What was
    /// read and never claimed by a type is in it, as it was.
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

    /// Puts slices in place that were stored: from each name to the list of its items. Slices that
    /// are not named are emptied. A name that no type has yet is kept until one claims it.
    ///
    /// # Errors
    /// [`SessionError::Shape`](super::SessionError::Shape) when a list does not hold what the
    /// slice does, and nothing has changed then.
    pub fn from_json(&self, slices: &BTreeMap<String, JsonText>) -> Result<()> {
        let mut state = self.lock();
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
