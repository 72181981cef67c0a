//! Time travel: finds the last commit of a history at a given time.

use tract_core::CommitId;
use tract_core::store::Walk;

use crate::compiler::Compiler;
use crate::error::Result;

impl Compiler {
    /// Finds the commit nearest to the head, on its first-parent chain, that was made at or before
    /// `at_us` (microseconds since 1970, UTC). A commit without a time has the time of its parent,
    /// or 0 at the root. Returns `None` if all commits are later. Clocks may run backward.
    ///
    /// # Errors
    /// The store's.
    pub async fn view_at_time(
        &self,
        head: Option<CommitId>,
        at_us: i64,
    ) -> Result<Option<CommitId>> {
        let mut next = head;
        let mut limit = 64;
        // The newest commit of the current run of commits without a time; the run's time is that of
        // the next commit with one.
        let mut timeless = None;
        while let Some(head) = next {
            let page = self.store().walk(self.repo(), Walk { limit, ..Walk::from(head) }).await?;
            for entry in page.entries {
                let id = entry.commit.id();
                match entry.commit.created_at {
                    Some(made) if made <= at_us => return Ok(timeless.or(Some(id))),
                    Some(_) => timeless = None,
                    None => timeless = timeless.or(Some(id)),
                }
            }
            next = page.next;
            limit = 4096;
        }
        Ok(timeless.filter(|_| at_us >= 0))
    }
}
