//! Rewrites blobs in a smaller form, step by step.

use std::ops::ControlFlow;

use bytes::Bytes;
use tract_compression::{
    DICTIONARY_COPIES, Dictionary, DictionaryRow, MAX_SAMPLE_BYTES, SAMPLE_BYTES, dictionary_of,
    replacement,
};

use super::compressed::{StoredDictionary, put_dictionary};
use super::keys::{Indexed, Repo};
use super::overlay::Overlay;
use super::read::{self, View};
use super::{KvEngine, KvStore, Space};
use tract_core::id::RepoName;
use tract_core::store::{RepackPage, RepackStep, StoreResult};

/// Maximum number of bytes of blobs read by one step. `STEP_BLOBS` is the limit on their number.
const STEP_BYTES: usize = 1 << 20;
const STEP_BLOBS: u64 = 1024;

impl<E: KvEngine> KvStore<E> {
    pub(super) fn repack_step(&self, name: &RepoName, step: RepackStep) -> StoreResult<RepackPage> {
        match step {
            RepackStep::Train => {
                let trained = self.with("repack", name, |view| {
                    let sweeps = view.writes()?.sweeps;
                    Ok(view.train()?.map(|dictionary| (sweeps, dictionary)))
                })?;
                let trained = match trained.flatten() {
                    Some((sweeps, dictionary)) => {
                        match self.store_dictionary(name, sweeps, &dictionary)? {
                            Some(number) => number,
                            None => return Ok(RepackPage::to(RepackStep::Train)),
                        }
                    }
                    None => 0,
                };
                let next = RepackStep::Blobs { after: 0, trained, unreadable: false };
                Ok(RepackPage::to(next))
            }
            RepackStep::Blobs { after, trained, unreadable } => {
                let written = self.write("repack", |overlay| {
                    let Some(repo) = read::repo_number(overlay, E::NAME, name)? else {
                        return Ok(None);
                    };
                    let (known, _) =
                        View { read: &*overlay, repo, backend: E::NAME }.dictionaries()?;
                    let newest = known.iter().rfind(|known| !known.is_stale);
                    // An erasure may mark it as stale, and another repack may remove it.
                    if let Some(newest) = newest {
                        overlay.require(Space::Small, repo.dictionary(newest.id, 0))?;
                    }
                    let newest = newest.and_then(StoredDictionary::open);
                    let every = |_: &[u8]| true;
                    write_again(overlay, repo, E::NAME, after, newest.as_ref(), every).map(Some)
                })?;
                let Some((mut page, last)) = written else { return Ok(RepackPage::default()) };
                let unreadable = unreadable || page.unreadable > 0;
                page.next = Some(match last {
                    Some(after) => RepackStep::Blobs { after, trained, unreadable },
                    None => RepackStep::Finish { trained, unreadable },
                });
                Ok(page)
            }
            RepackStep::Finish { trained, unreadable } => {
                // Since this dictionary became the newest, all blobs were rewritten with it or with
                // a newer one.
                if trained > 0 && !unreadable {
                    self.delete_dictionaries(name, |known| known.number < trained)?;
                }
                Ok(RepackPage::to(RepackStep::Shrink))
            }
            RepackStep::Shrink => {
                let mut page = RepackPage::to(None);
                page.note = self.engine().release_space()?;
                Ok(page)
            }
        }
    }

    /// Stores a dictionary that was trained when the repository had `sweeps` sweeps and erasures.
    /// Returns `None` without storing it if there were others since, because it may contain erased
    /// text.
    fn store_dictionary(
        &self,
        name: &RepoName,
        sweeps: u64,
        dictionary: &Dictionary,
    ) -> StoreResult<Option<u64>> {
        let stored = dictionary.stored();
        self.write("repack", |overlay| {
            let Some(repo) = read::repo_number(overlay, E::NAME, name)? else { return Ok(None) };
            // An erasure counts as a sweep and changes this value, so one that comes between the
            // comparison below and the write makes the write conflict.
            overlay.require(Space::Small, repo.writes())?;
            let view = View { read: &*overlay, repo, backend: E::NAME };
            if view.writes()?.sweeps != sweeps {
                return Ok(None);
            }
            let (known, _) = view.dictionaries()?;
            let number = known.last().map_or(1, |newest| newest.number + 1);
            let row = DictionaryRow { number, is_stale: false, stored: &stored };
            put_dictionary(overlay, repo, dictionary.id(), row);
            Ok(Some(number))
        })
    }

    fn delete_dictionaries(
        &self,
        name: &RepoName,
        is_meant: impl Fn(&StoredDictionary) -> bool,
    ) -> StoreResult<()> {
        self.write("repack", |overlay| {
            let Some(repo) = read::repo_number(overlay, E::NAME, name)? else { return Ok(()) };
            let (known, _) = View { read: &*overlay, repo, backend: E::NAME }.dictionaries()?;
            for known in known.iter().filter(|known| is_meant(known)) {
                for copy in 0..DICTIONARY_COPIES {
                    overlay.delete(Space::Small, repo.dictionary(known.id, copy));
                }
            }
            Ok(())
        })
    }

    /// Removes the stale dictionaries, which may contain text of erased blobs. Blobs that need one
    /// are first rewritten without it.
    pub(super) fn remove_stale_dictionaries(&self, name: &RepoName) -> StoreResult<()> {
        let known = self.with("wipe", name, |view| view.dictionaries())?;
        let (known, _) = known.unwrap_or_default();
        let stale: Vec<_> =
            known.iter().filter(|known| known.is_stale).map(|known| known.id).collect();
        if stale.is_empty() {
            return Ok(());
        }
        let is_meant = |stored: &[u8]| dictionary_of(stored).is_some_and(|id| stale.contains(&id));
        let mut after = Some(0);
        while let Some(place) = after {
            after = self.write("wipe", |overlay| {
                let Some(repo) = read::repo_number(overlay, E::NAME, name)? else {
                    return Ok(None);
                };
                let written = write_again(overlay, repo, E::NAME, place, None, is_meant)?;
                Ok(written.1)
            })?;
        }
        self.delete_dictionaries(name, |known| known.is_stale && stale.contains(&known.id))
    }
}

impl View<'_> {
    /// Trains a dictionary on a sample of blobs, chosen by their hashes so that the sample is
    /// representative.
    fn train(&self) -> StoreResult<Option<Dictionary>> {
        if !tract_compression::IS_AVAILABLE {
            return Ok(None);
        }
        let mut total = 0;
        read::each(self.read, &self.repo.all(Space::Blobs), |_, stored| {
            total += if stored.len() <= MAX_SAMPLE_BYTES { stored.len() as u64 } else { 0 };
            Ok(())
        })?;
        let stride = total.div_ceil(SAMPLE_BYTES).max(1);
        let (mut samples, mut taken) = (Vec::new(), 0u64);
        self.read.scan(&self.repo.indexed(Indexed::Blob, &[]), &mut |key, _| {
            let Some((head, place)) = Repo::index_parts(key) else {
                return Ok(ControlFlow::Continue(()));
            };
            let is_sample = u64::from_be_bytes(head).is_multiple_of(stride);
            let stored = match is_sample {
                true => self.read.get(Space::Blobs, &self.repo.numbered(place))?,
                false => None,
            };
            let Some(stored) = stored.filter(|stored| stored.len() <= MAX_SAMPLE_BYTES) else {
                return Ok(ControlFlow::Continue(()));
            };
            let plain = self.plain(stored)?;
            // A compressed blob may be longer than its stored value, so check the length again.
            if let Some(plain) = plain.filter(|plain| plain.len() <= MAX_SAMPLE_BYTES) {
                taken += plain.len() as u64;
                samples.push(plain);
            }
            let is_enough = taken > 2 * SAMPLE_BYTES;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(Dictionary::train(samples.iter().map(|sample| &sample[..])))
    }
}

/// Stages the blobs after a place again, with a dictionary or without one. Returns the page and the
/// last place visited, or `None` if there are no more blobs.
fn write_again(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    backend: &'static str,
    after: u64,
    dictionary: Option<&Dictionary>,
    is_meant: impl Fn(&[u8]) -> bool,
) -> StoreResult<(RepackPage, Option<u64>)> {
    let (mut page, mut last, mut read) = (RepackPage::default(), after, 0);
    let (mut changed, mut is_whole) = (Vec::new(), true);
    {
        let view = View { read: &*overlay, repo, backend };
        let scan = repo.places(Space::Blobs, after.saturating_add(1), u64::MAX);
        view.read.scan(&scan, &mut |key, stored| {
            if read >= STEP_BYTES || page.blobs >= STEP_BLOBS {
                is_whole = false;
                return Ok(ControlFlow::Break(()));
            }
            last = Repo::number(key).unwrap_or(last);
            page.blobs += 1;
            page.before += stored.len() as u64;
            page.after += stored.len() as u64;
            if !is_meant(stored) {
                read += stored.len() / 64;
                return Ok(ControlFlow::Continue(()));
            }
            let stored = view.stored(Bytes::copy_from_slice(stored))?;
            let Some(plain) = stored.plain() else {
                page.unreadable += 1;
                return Ok(ControlFlow::Continue(()));
            };
            let stored = stored.stored();
            read += plain.len();
            if let Some(again) = replacement(stored, &plain, dictionary) {
                page.after = page.after - stored.len() as u64 + again.len() as u64;
                changed.push((key.to_vec(), Bytes::from(again)));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    page.written = changed.len() as u64;
    for (key, value) in changed {
        // Another handle may erase the blob; then the write must conflict, or it would return.
        overlay.require(Space::Blobs, key.clone())?;
        overlay.put(Space::Blobs, key, value);
    }
    Ok((page, (!is_whole).then_some(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryEngine;
    use tract_core::batch::Batch;
    use tract_core::id::{BatchId, BlobId, OperationId};
    use tract_core::object::Blob;
    use tract_core::refs::{Expect, LogNote, RefEdit, RefName, RefTarget};
    use tract_core::store::{BlockingStore, StoreErrorKind};

    fn batch(blobs: Vec<Blob>, refs: Vec<RefEdit>) -> Batch {
        let (operation, id) = (OperationId::random().unwrap(), BatchId::random().unwrap());
        let (what, who) = ("test".to_owned(), "test".to_owned());
        let note = LogNote { operation, what, who, why: None, undoes: None, at: 0 };
        Batch { blobs, refs, ..Batch::new(id, note) }
    }

    /// `topic` gives each test a dictionary of its own: those that were used lately are shared.
    fn filled(topic: &str) -> (KvStore<MemoryEngine>, RepoName, BlobId) {
        let (store, repo) = (KvStore::new(MemoryEngine::new()).unwrap(), RepoName::default());
        let text = |n: usize| Blob::seal(format!("The {topic} of number {n} is {}", n * 7919));
        let blobs: Vec<Blob> = (0..2000).map(text).collect();
        let secret = blobs[7].id();
        let written = store.apply_group(&[(repo.clone(), batch(blobs, Vec::new()))]);
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        (store, repo, secret)
    }

    fn erase(store: &KvStore<MemoryEngine>, repo: &RepoName, blob: BlobId) {
        let document = Blob::seal("why");
        let to = Some(RefTarget::Blob(document.id()));
        let edit = RefEdit { name: RefName::erasure(blob), expect: Expect::Absent, to };
        let written = store.apply_group(&[(repo.clone(), batch(vec![document], vec![edit]))]);
        assert!(written.iter().all(Result::is_ok), "{written:?}");
    }

    fn repack(store: &KvStore<MemoryEngine>, repo: &RepoName) {
        let mut step = Some(RepackStep::Train);
        while let Some(next) = step {
            step = store.repack_step(repo, next).unwrap().next;
        }
    }

    fn dictionaries(store: &KvStore<MemoryEngine>, repo: &RepoName) -> Vec<bool> {
        let known = store.with("test", repo, |view| view.dictionaries()).unwrap().unwrap().0;
        known.iter().map(|known| known.is_stale).collect()
    }

    #[test]
    fn dictionaries_that_saw_what_is_erased_do_not_outlive_a_wipe() {
        let (store, repo, secret) = filled("erasure");
        repack(&store, &repo);
        assert_eq!(dictionaries(&store, &repo), [false]);
        erase(&store, &repo, secret);
        assert_eq!(dictionaries(&store, &repo), [true], "nothing more is compressed with it");
        store.wipe().unwrap();
        assert_eq!(dictionaries(&store, &repo), [false; 0]);
        assert_eq!(store.check(&repo, false).unwrap(), []);
    }

    #[test]
    fn a_damaged_copy_of_a_dictionary_takes_no_blob_with_it() {
        let (store, repo, secret) = filled("damage");
        repack(&store, &repo);
        let known = store.with("test", &repo, |view| view.dictionaries()).unwrap().unwrap().0;
        let damage = |copy: u8| {
            store.write("test", |overlay| {
                overlay.put(Space::Small, Repo(1).dictionary(known[0].id, copy), "?".into());
                Ok(())
            })
        };
        damage(0).unwrap();
        tract_compression::forget_dictionaries();
        assert!(store.blobs(&repo, &[secret.into()]).unwrap()[0].is_some());
        let found = store.check(&repo, false).unwrap();
        assert!(matches!(&found[..], [one] if one.what.contains("dictionary")), "{found:?}");
        damage(1).unwrap();
        tract_compression::forget_dictionaries();
        let error = store.blobs(&repo, &[secret.into()]).unwrap_err();
        assert!(matches!(error.kind, StoreErrorKind::Corrupt { .. }), "{error:?}");
    }

    #[test]
    fn dictionaries_that_are_trained_while_something_is_erased_are_not_kept() {
        let (store, repo, secret) = filled("race");
        let view = |view: &View<'_>| Ok((view.writes()?.sweeps, view.train()?));
        let (sweeps, dictionary) = store.with("test", &repo, view).unwrap().unwrap();
        erase(&store, &repo, secret);
        let stored = store.store_dictionary(&repo, sweeps, &dictionary.unwrap()).unwrap();
        assert_eq!((stored, dictionaries(&store, &repo)), (None, Vec::new()));
    }
}
