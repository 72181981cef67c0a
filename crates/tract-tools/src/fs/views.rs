//! The views that the calls of a turn change files through.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Filesystem;
use crate::snapshot::{BoxError, SavedState, Snapshot};

/// A view of each filesystem that a call of the turn has asked for, so that what fails is undone
/// without what other turns do with the same filesystem.
#[derive(Default)]
pub(crate) struct Views(Mutex<Vec<View>>);

struct View {
    base: Arc<dyn Filesystem>,
    view: Arc<dyn Filesystem>,
    /// How it was made, until it is part of a snapshot.
    born: Option<SavedState>,
}

impl Views {
    fn lock(&self) -> MutexGuard<'_, Vec<View>> {
        // Each change is complete at each step, so a panic leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turn's view of a filesystem; one that has no views is returned itself.
    pub(crate) fn of(&self, base: Arc<dyn Filesystem>) -> Result<Arc<dyn Filesystem>, BoxError> {
        let mut views = self.lock();
        let is_base = |view: &&View| std::ptr::addr_eq(Arc::as_ptr(&view.base), Arc::as_ptr(&base));
        if let Some(known) = views.iter().find(is_base) {
            return Ok(Arc::clone(&known.view));
        }
        let Some(view) = base.view() else { return Ok(base) };
        let born = Some(view.snapshot()?);
        views.push(View { base, view: Arc::clone(&view), born });
        Ok(view)
    }
}

impl Snapshot for Views {
    fn name(&self) -> &str {
        "files"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        let mut saved = Vec::new();
        for view in self.lock().iter_mut() {
            saved.push(view.view.snapshot()?);
            view.born = None;
        }
        Ok(SavedState::new(saved))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        let saved: Vec<SavedState> = saved.take()?;
        let mut failed = Vec::new();
        let mut views = self.lock();
        // Those that were made since go back to how they were made.
        for view in views.iter_mut().skip(saved.len()).rev() {
            let Some(born) = view.born.take() else { continue };
            match view.view.restore(born).and_then(|()| view.view.snapshot()) {
                Ok(born) => view.born = Some(born),
                Err(error) => failed.push(format!("{}: {error}", view.view.name())),
            }
        }
        let before: Vec<_> = views.iter().zip(saved).collect();
        for (view, saved) in before.into_iter().rev() {
            if let Err(error) = view.view.restore(saved) {
                failed.push(format!("{}: {error}", view.view.name()));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
    }
}
