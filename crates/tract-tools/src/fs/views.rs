//! The views through which the calls of a turn change files.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Filesystem;
use crate::snapshot::{AddedState, BoxError, SavedState, Snapshot, restore_all, snapshot_all};

/// The turn's view of each filesystem that its calls use, so that a rollback does not affect
/// changes by other turns.
#[derive(Default)]
pub(crate) struct Views(Mutex<Vec<View>>);

struct View {
    base: Arc<dyn Filesystem>,
    view: Arc<dyn Filesystem>,
    added: AddedState,
}

impl Views {
    fn lock(&self) -> MutexGuard<'_, Vec<View>> {
        // Each change is a single push, so the list stays consistent after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turn's view of a filesystem, or the filesystem itself if it does not support
    /// views.
    pub(crate) fn of(&self, base: Arc<dyn Filesystem>) -> Result<Arc<dyn Filesystem>, BoxError> {
        let mut views = self.lock();
        let is_base = |view: &&View| std::ptr::addr_eq(Arc::as_ptr(&view.base), Arc::as_ptr(&base));
        if let Some(known) = views.iter().find(is_base) {
            return Ok(Arc::clone(&known.view));
        }
        let Some(view) = base.view() else { return Ok(base) };
        let added = AddedState { born: Some(view.snapshot()?), state: view.clone() };
        views.push(View { base, view: Arc::clone(&view), added });
        Ok(view)
    }
}

impl Snapshot for Views {
    fn name(&self) -> &str {
        "files"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        snapshot_all(self.lock().iter_mut().map(|view| &mut view.added))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        restore_all(self.lock().iter_mut().map(|view| &mut view.added), saved)
    }
}
