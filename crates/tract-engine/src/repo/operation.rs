//! One command as the ref log knows it: the id that its writes share, and the ids of its writes.

use std::sync::{Arc, Mutex, PoisonError};

use tract_core::store::{LogQuery, Store};
use tract_core::{BatchId, OperationId, RepoName};

use crate::repo::error::{Error, Result};

/// One command. Writes of one operation share its id in the ref log, and one
/// [`undo`](crate::Repo::undo) reverts all of them. Cheap to clone; clones are the same operation.
///
/// The ids of its writes come in pages that share their first 8 bytes, so that the ref log finds
/// them by its index of writes. A page is left only once it has entries, so the pages have no gap.
#[derive(Clone, Debug)]
pub struct Operation {
    id: OperationId,
    page: Arc<Mutex<Page>>,
    /// Whether writes are durable when they are reported: not so where they are held back first.
    records: bool,
}

#[derive(Debug, Default)]
struct Page {
    number: u64,
    entries: usize,
    /// Whether the next write is the first, whose id is the operation's own.
    first: bool,
}

/// After how many entries a page is left. Whether a batch was applied before is looked for among
/// those of its page.
const PAGE: usize = 256;

impl Operation {
    /// Starts a new operation.
    ///
    /// # Errors
    /// [`Error::Random`] when the operating system has no randomness to give.
    pub fn begin() -> Result<Self> {
        let id = OperationId::random().map_err(Error::Random)?;
        let page = Page { first: true, ..Page::default() };
        Ok(Self { id, page: Arc::new(Mutex::new(page)), records: true })
    }

    /// Returns its id.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// Returns the same operation for a store that holds writes back: what is reported as written
    /// there may still be lost.
    pub(crate) fn held_back(&self) -> Self {
        Self { records: false, ..self.clone() }
    }

    /// Makes the id of its next write.
    pub(crate) fn next_batch(&self) -> Result<BatchId> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut page.first) {
            // The log keeps one id where the operation is a single write.
            return Ok(BatchId::from_bytes(*self.id.as_bytes()));
        }
        let number = page.number;
        drop(page);
        let id = BatchId::random().map_err(Error::Random)?;
        Ok(id.with_prefix(self.id.batch_prefix(number)))
    }

    /// Returns an id that belongs to this operation, from one that was made for another.
    pub(crate) fn adopt(&self, id: BatchId) -> BatchId {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        id.with_prefix(self.id.batch_prefix(page.number))
    }

    /// Counts what a write moved, and turns to the next page when this one is full and the ref log
    /// has entries of it: a move to where a ref is already leaves none.
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

    /// Counts moves of a write; returns the number of its page when that is full.
    fn count(&self, id: BatchId, moves: usize) -> Option<u64> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        // A write that was begun on an earlier page says nothing of this one.
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
    /// Names an operation that others may write to as well.
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
        // What was begun on the page before does not fill this one.
        assert_eq!(operation.count(slow, PAGE), None);
        assert_eq!(page(operation.adopt(BatchId::from_bytes([7; 16]))), Some(1));
    }
}
