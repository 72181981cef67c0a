//! The lock under which one thread at a time creates resources.
//!
//! With a plain mutex, a provider that requests a resource from `Resources` rather than from its
//! scope would deadlock. Here the second entry of a thread is refused.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

#[derive(Debug, Default)]
pub(super) struct Gate {
    inside: Mutex<Option<ThreadId>>,
    left: Condvar,
}

/// Permission to create resources, until it is dropped.
#[derive(Debug)]
pub(super) struct GateGuard<'a>(&'a Gate);

impl Gate {
    fn inside(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread is inside; `None` if the current thread is.
    pub(super) fn enter(&self) -> Option<GateGuard<'_>> {
        let me = std::thread::current().id();
        let mut inside = self.inside();
        while let Some(other) = *inside {
            if other == me {
                return None;
            }
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        *inside = Some(me);
        Some(GateGuard(self))
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        *self.0.inside() = None;
        self.0.left.notify_one();
    }
}
