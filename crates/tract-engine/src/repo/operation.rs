//! An operation: the id that the writes of one command share in the ref log, and the ids of its
//! batches.

use std::sync::{Arc, Mutex, PoisonError};

use tract_core::store::{LogQuery, Store};
use tract_core::{BatchId, OperationId, RepoName};

use crate::repo::error::{Error, Result};

/// An operation, usually one command. Its writes share an id in the ref log, and one
/// [`undo`](crate::Repo::undo) reverts all of them. Cheap to clone; clones are the same operation.
///
/// The ids of its batches are grouped into pages that share their first 8 bytes, so that the ref
/// log finds them through its index by batch id. The next page is used once the current one has
/// entries, so readers may stop at the first empty page.
#[derive(Clone, Debug)]
pub struct Operation {
    id: OperationId,
    page: Arc<Mutex<Page>>,
    /// Whether writes are durable when they are reported; false for an overlay, which holds them
    /// back.
    records: bool,
}

#[derive(Debug, Default)]
struct Page {
    number: u64,
    entries: usize,
    /// Whether the next batch is the first one, which has the operation's own id.
    first: bool,
}

/// Number of entries after which the next page is used. To check whether a batch was already
/// applied, stores search the entries of its page, so pages are kept short.
const PAGE: usize = 256;

impl Operation {
    /// Starts a new operation.
    ///
    /// # Errors
    /// [`Error::Random`] when the operating system cannot provide randomness.
    pub fn begin() -> Result<Self> {
        let id = OperationId::random().map_err(Error::Random)?;
        let page = Page { first: true, ..Page::default() };
        Ok(Self { id, page: Arc::new(Mutex::new(page)), records: true })
    }

    /// Returns its id.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// Returns the same operation for a store that holds writes back: reported writes may still be
    /// lost there.
    pub(crate) fn held_back(&self) -> Self {
        Self { records: false, ..self.clone() }
    }

    /// Returns the id of its next batch.
    pub(crate) fn next_batch(&self) -> Result<BatchId> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut page.first) {
            // An operation with a single batch has one id in the log.
            return Ok(BatchId::from_bytes(*self.id.as_bytes()));
        }
        let number = page.number;
        drop(page);
        let id = BatchId::random().map_err(Error::Random)?;
        Ok(id.with_prefix(self.id.batch_prefix(number)))
    }

    /// Changes the id of a batch that was created for another operation to one of this operation.
    pub(crate) fn adopt(&self, id: BatchId) -> BatchId {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        id.with_prefix(self.id.batch_prefix(page.number))
    }

    /// Counts the ref moves of a write. Uses the next page once this one is full and the ref log
    /// has entries of it: setting a ref to its current target logs nothing.
    pub(crate) async fn recorded(
        &self,
        store: &dyn Store,
        repo: &RepoName,
        id: BatchId,
        moves: usize,
    ) {
        let Some(number) = self.count(id, moves) else { return };
        let prefix = self.id.batch_prefix(number);
        let query = LogQuery { batch_prefix: Some(prefix), limit: 1, ..LogQuery::default() };
        let has_entries = store.ref_log(repo, &query).await.is_ok_and(|found| !found.is_empty());
        self.turn(number, has_entries);
    }

    /// Counts the ref moves of a write. Returns the page number if the page is full.
    fn count(&self, id: BatchId, moves: usize) -> Option<u64> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        // Ignore writes that were begun on an earlier page.
        if !self.records || id.prefix() != self.id.batch_prefix(page.number) {
            return None;
        }
        page.entries += moves;
        (page.entries >= PAGE).then_some(page.number)
    }

    fn turn(&self, number: u64, has_entries: bool) {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if page.number == number {
            let number = if has_entries { number + 1 } else { number };
            *page = Page { number, ..Page::default() };
        }
    }
}

impl From<OperationId> for Operation {
    /// Creates a handle of an operation that others may write to as well.
    fn from(id: OperationId) -> Self {
        Self { id, page: Arc::default(), records: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_an_operation_have_no_gap() {
        let operation = Operation::begin().expect("random bytes");
        let first = operation.next_batch().expect("random bytes");
        assert_eq!(first.as_bytes(), operation.id().as_bytes());
        let slow = operation.next_batch().expect("random bytes");
        let page = |id: BatchId| (0..9).find(|n| operation.id().batch_prefix(*n) == id.prefix());
        assert_eq!((page(first), page(slow)), (Some(0), Some(0)));
        assert_eq!(operation.held_back().count(first, 10 * PAGE), None);
        assert_eq!(operation.count(first, PAGE - 1), None);
        assert_eq!(operation.count(first, 1), Some(0));
        // A full page without an entry is filled once more.
        operation.turn(0, false);
        assert_eq!(page(operation.next_batch().expect("random bytes")), Some(0));
        assert_eq!(operation.count(first, PAGE), Some(0));
        operation.turn(0, true);
        operation.turn(0, true);
        let next = operation.next_batch().expect("random bytes");
        assert_eq!(page(next), Some(1));
        // A batch of the earlier page does not count towards this one.
        assert_eq!(operation.count(slow, PAGE), None);
        assert_eq!(page(operation.adopt(BatchId::from_bytes([7; 16]))), Some(1));
    }
}
