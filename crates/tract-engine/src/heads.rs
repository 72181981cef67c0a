//! Where this handle left its branches: a guess that spares a write the reading of the head, and
//! a plain message the fold of its line.
//!
//! The store decides whether the guess holds, by the compare-and-swap that every write ends in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_core::RefName;

use crate::plan::Stand;

/// The heads that this handle wrote last, with what a plain message has to know of them. Bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads(Arc<Mutex<HashMap<RefName, Stand>>>);

/// A handle that writes to more branches than this begins to remember anew.
const BRANCHES: usize = 256;

impl Heads {
    fn lock(&self) -> MutexGuard<'_, HashMap<RefName, Stand>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, branch: &RefName) -> Option<Stand> {
        self.lock().get(branch).copied()
    }

    /// Keeps where a branch stands now; `None` when that is not known.
    pub(crate) fn keep(&self, name: &RefName, stand: Option<Stand>) {
        let mut heads = self.lock();
        let Some(stand) = stand else {
            heads.remove(name);
            return;
        };
        if let Some(known) = heads.get_mut(name) {
            *known = stand;
            return;
        }
        if heads.len() >= BRANCHES {
            heads.clear();
        }
        heads.insert(name.clone(), stand);
    }

    pub(crate) fn forget(&self, name: &RefName) {
        self.lock().remove(name);
    }
}
