//! What a garbage collection asks of a store: a listing of what it holds, the position of its
//! writes, and the deletion of objects if no write came in between.

use crate::batch::ToolRow;
use crate::object::ObjectId;

use super::{StoreError, StoreErrorKind};

/// A query for a listing of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Commits.
    Commits,
    /// Toolsets.
    Toolsets,
    /// Blobs.
    Blobs,
}

/// A page of a listing of stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectListing {
    /// Which objects.
    pub kind: ListKind,
    /// The start of the page: 0, or `next` of the previous page.
    pub after: u64,
    /// How many objects are read at most; at least 1.
    pub limit: usize,
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPage {
    /// The objects, each with the number of its bytes. What is too damaged to have an id is left out.
    pub objects: Vec<(ObjectId, u64)>,
    /// The start of the next page; `None` at the end.
    pub next: Option<u64>,
}

/// A position in the writes of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritePosition {
    /// The number of the newest entry of the ref log; 0 when it is empty.
    pub log: u64,
    /// Rises with every write that stores an object which its own ref moves do not reach
    /// ([`Batch::stores_ahead`](crate::Batch::stores_ahead)): all of those that move no ref, and some
    /// that do. A sweep cannot tell from the log alone what such objects link to.
    pub unlogged: u64,
}

/// A deletion of objects, all of them or none.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// The position at which it was known that nothing needs the objects.
    pub position: WritePosition,
    /// The objects; those that are not stored are passed over. For a tool, all rows that the tool
    /// index has for it are deleted.
    pub objects: Vec<ObjectId>,
    /// Rows that the tool index gets in their stead.
    pub tools: Vec<ToolRow>,
}

/// The outcome of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SweepAnswer {
    /// The objects are deleted, durably.
    Done,
    /// Others wrote meanwhile, and the repository is here; nothing was deleted.
    Moved(WritePosition),
}

/// The outcome of returning space to the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceRelease {
    /// Bytes of the store on disk before.
    pub before: u64,
    /// Bytes of the store on disk after.
    pub after: u64,
    /// A hint, if the engine does not return all of the space by itself.
    pub note: Option<String>,
}

impl SpaceRelease {
    /// Makes the report of an engine that was so large before and after.
    pub fn new(before: u64, after: u64, note: Option<String>) -> Self {
        Self { before, after, note }
    }
}

/// Returns the error of a store that cannot collect garbage.
pub(super) fn unsupported(backend: &'static str, op: &'static str) -> StoreError {
    let message = "this store cannot collect garbage";
    StoreError::new(StoreErrorKind::Unsupported, backend, op, message)
}
