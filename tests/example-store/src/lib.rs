//! Stores written as examples, one at each of the three levels. `docs/writing-a-store.md` walks
//! through them. They use the public API of `tract-core` and `tract-kv` alone.
//!
//! - `KvEngine`: [`open()`] gives a durable store in a plain file that only grows.
//! - `BlockingStore`: [`LocalStore`] is a store in memory whose calls block.
//! - `Store`: [`RemoteStore`] is the client of a server.
#![forbid(unsafe_code)]

mod journal;
mod local;
mod open;
mod remote;
mod state;

pub use crate::journal::JournalEngine;
pub use crate::local::LocalStore;
pub use crate::open::{JournalStore, open};
pub use crate::remote::RemoteStore;
