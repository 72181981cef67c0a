//! Reads many blobs, with one scan for adjacent places.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::compressed::StoredValue;
use super::keys::Repo;
use super::read::View;
use super::{Scan, Space};
use tract_core::id::BlobId;
use tract_core::object::Blob;
use tract_core::parallel;
use tract_core::store::{BlobKey, StoreResult};

/// Maximum distance between two places that one scan reads.
const GAP: u64 = 4;
/// Minimum length of a run for a scan to be worth it.
const RUN: usize = 4;

impl View<'_> {
    /// Reads blobs. The result is parallel to the keys.
    pub(super) fn blobs(&self, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let mut found: Vec<Option<Blob>> = Vec::with_capacity(keys.len());
        let mut rest = keys;
        while !rest.is_empty() {
            let (run, after) = rest.split_at(run_of(rest));
            if run.len() >= RUN {
                self.scan_run(run, &mut found)?
            } else {
                found.extend(run.iter().map(|_| None))
            }
            // A hint may be wrong, so blobs that the scan did not return are looked up by id.
            let from = found.len() - run.len();
            for (key, slot) in run.iter().zip(found.iter_mut().skip(from)) {
                if slot.is_none() {
                    let hint = key.hint.map(|hint| hint.0);
                    *slot = self.blob(key.id, hint)?.map(|(_, blob)| blob);
                }
            }
            rest = after;
        }
        Ok(found)
    }

    /// Reads a run in scans while other threads hash; `None` for blobs that do not match their id.
    fn scan_run(&self, run: &[BlobKey], found: &mut Vec<Option<Blob>>) -> StoreResult<()> {
        let mut portions = run.chunks(parallel::PORTION);
        let next = || portions.next().map(|portion| self.scan_portion(portion)).transpose();
        let check = |read: Vec<(BlobId, Option<StoredValue>)>| {
            read.into_iter().map(|(id, stored)| Blob::check(id, stored?.plain()?)).collect()
        };
        found.extend(parallel::map_read(run.len(), parallel::OBJECTS, next, check)?);
        Ok(())
    }

    /// Reads adjacent blobs in one scan. The result is parallel to the keys.
    fn scan_portion(&self, run: &[BlobKey]) -> StoreResult<Vec<(BlobId, Option<StoredValue>)>> {
        let place = |key: Option<&BlobKey>| key.and_then(|key| key.hint).map_or(0, |hint| hint.0);
        let (first, last) = (place(run.first()), place(run.last()));
        let places = self.repo.places(Space::Blobs, first.min(last), first.max(last));
        let scan = Scan { reverse: first > last, ..places };
        let mut read: Vec<(BlobId, Option<StoredValue>)> =
            run.iter().map(|key| (key.id, None)).collect();
        let mut wanted = run.iter().zip(&mut read).peekable();
        self.read.scan(&scan, &mut |key, bytes| {
            let at = Repo::number(key);
            let passed = |key: &BlobKey| {
                let hint = key.hint.map(|hint| hint.0);
                if first > last { hint > at } else { hint < at }
            };
            while wanted.next_if(|(key, _)| passed(key)).is_some() {}
            let here = |key: &BlobKey| key.hint.map(|hint| hint.0) == at;
            if let Some((_, (_, read))) = wanted.next_if(|(key, _)| here(key)) {
                *read = Some(self.stored(Bytes::copy_from_slice(bytes))?);
            }
            Ok(match wanted.peek() {
                Some(_) => ControlFlow::Continue(()),
                None => ControlFlow::Break(()),
            })
        })?;
        drop(wanted);
        Ok(read)
    }
}

/// Returns the number of leading keys that are close together, all ascending or all descending.
fn run_of(keys: &[BlobKey]) -> usize {
    let step = |pair: &[BlobKey]| match pair {
        [BlobKey { hint: Some(one), .. }, BlobKey { hint: Some(two), .. }] => {
            let near = one.0 != two.0 && one.0.abs_diff(two.0) <= GAP;
            near.then_some(one.0 < two.0)
        }
        _ => None,
    };
    let mut steps = keys.windows(2).map(step);
    let Some(Some(up)) = steps.next() else { return 1 };
    2 + steps.take_while(|step| *step == Some(up)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tract_core::hash;
    use tract_core::store::LocationHint;

    fn runs(hints: &[u64]) -> Vec<usize> {
        let key = |place: &u64| BlobKey { id: hash::blob(b"x"), hint: Some(LocationHint(*place)) };
        let keys: Vec<BlobKey> = hints.iter().map(key).collect();
        let mut rest = keys.as_slice();
        let mut runs = Vec::new();
        while !rest.is_empty() {
            runs.push(run_of(rest));
            rest = &rest[run_of(rest)..];
        }
        runs
    }

    #[test]
    fn runs_go_one_way_and_leave_no_wide_gap() {
        assert_eq!(runs(&[5, 6, 7, 9, 13]), [5]);
        assert_eq!(runs(&[9, 8, 7, 8, 9]), [3, 2]);
        assert_eq!(runs(&[1, 2, 2, 3]), [2, 2]);
        assert_eq!(runs(&[1, 2, 3, 100, 101]), [3, 2]);
        assert_eq!(runs(&[7]), [1]);
    }
}
