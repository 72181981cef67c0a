//! A store written from nothing: a plain file that only grows, read into memory when it is opened.
//!
//! It uses the public API of `tract-core` alone. `docs/writing-a-store.md` walks through it.
#![forbid(unsafe_code)]

mod journal;
mod open;

pub use crate::journal::JournalEngine;
pub use crate::open::{JournalStore, open};
