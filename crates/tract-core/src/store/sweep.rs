//! Garbage collection at the level of stores: listing objects, reading the position of the writes,
//! and deleting objects if there was no write in between.

use crate::batch::ToolRow;
use crate::object::ObjectId;

use super::{StoreError, StoreErrorKind};

/// The kind of objects to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Commits.
    Commits,
    /// Toolsets.
    Toolsets,
    /// Blobs.
    Blobs,
}

/// A query for one page of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectListing {
    /// The kind of objects.
    pub kind: ListKind,
    /// The start of the page: 0, or `next` of the previous page.
    pub after: u64,
    /// Maximum number of objects to read; at least 1.
    pub limit: usize,
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPage {
    /// The objects with their sizes in bytes. Objects too damaged to have an id are left out.
    pub objects: Vec<(ObjectId, u64)>,
    /// The start of the next page; `None` at the end.
    pub next: Option<u64>,
}

/// A position in the writes of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritePosition {
    /// The number of the newest entry of the ref log; 0 if it is empty.
    pub log: u64,
    /// Increases with every write of an object that the write's own ref moves do not reach
    /// ([`Batch::stores_ahead`](crate::Batch::stores_ahead)): all writes without ref moves, and
    /// some with. The log alone does not show what such objects link to.
    pub unlogged: u64,
}

/// A request to delete objects, all of them or none.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// The position at which the objects were known to be unreachable.
    pub position: WritePosition,
    /// The objects; those not stored are skipped. For a tool, all of its rows in the tool index are
    /// deleted.
    pub objects: Vec<ObjectId>,
    /// Rows that replace the deleted ones in the tool index.
    pub tools: Vec<ToolRow>,
}

/// The outcome of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SweepAnswer {
    /// The objects are deleted, durably.
    Done,
    /// Others wrote in between, and this is the new position. Nothing was deleted.
    Moved(WritePosition),
}

/// The result of returning space to the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceRelease {
    /// Size of the store on disk before, in bytes.
    pub before: u64,
    /// Size of the store on disk after, in bytes.
    pub after: u64,
    /// A hint if the engine does not return all of the space itself.
    pub note: Option<String>,
}

impl SpaceRelease {
    /// Creates a report with the sizes before and after.
    pub fn new(before: u64, after: u64, note: Option<String>) -> Self {
        Self { before, after, note }
    }
}

/// Returns the error of a store that cannot collect garbage.
pub(super) fn unsupported(backend: &'static str, op: &'static str) -> StoreError {
    let message = "this store cannot collect garbage";
    StoreError::new(StoreErrorKind::Unsupported, backend, op, message)
}
