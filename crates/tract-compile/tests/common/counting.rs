//! Counts what is read from a store.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tract_core::{Store, StoreResult};
use tract_testkit::{Answer, Call, Watch};

#[derive(Debug, Default)]
pub struct Counts {
    pub calls: AtomicU64,
    pub commits: AtomicU64,
    pub blobs: AtomicU64,
    pub derived: AtomicU64,
}

impl Counts {
    pub fn reset(&self) {
        for counter in [&self.calls, &self.commits, &self.blobs, &self.derived] {
            counter.store(0, Ordering::SeqCst);
        }
    }

    pub fn count(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }

    fn call(&self, counter: &AtomicU64, count: usize) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        counter.fetch_add(count as u64, Ordering::SeqCst);
    }
}

#[async_trait]
impl Watch for Counts {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let answer = call.ask(store).await?;
        match &answer {
            Answer::Blobs(found) => self.call(&self.blobs, found.len()),
            Answer::Toolsets(found) => self.call(&self.blobs, found.len()),
            Answer::Commits(found) => self.call(&self.commits, found.len()),
            Answer::Derived(found) => self.call(&self.derived, found.len()),
            Answer::Walk(page) => {
                self.call(&self.commits, page.entries.len());
                self.derived.fetch_add(u64::from(page.stopped.is_some()), Ordering::SeqCst);
            }
            _ => {}
        }
        Ok(answer)
    }
}
