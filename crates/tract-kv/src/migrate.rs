//! Migrates a store to the newest format in numbered steps. Before the first one a copy is made,
//! and each step is one atomic write.

use super::{
    Durability, KvBatch, KvEngine, KvEntry, KvOutcome, KvRead, Scan, Space, keys, read, value,
};
use tract_core::store::{StoreError, StoreErrorKind, StoreResult};

/// A migration step from one format to the next.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct KvStep {
    /// The format before the step. The step leads to the next one.
    pub from: u32,
    /// The new values of keys, computed from a snapshot of the old format.
    pub writes: fn(&dyn KvRead) -> StoreResult<Vec<KvEntry>>,
}

/// All steps, in order.
pub(super) const STEPS: &[KvStep] = &[
    // Format 2 compresses blobs. Blobs that start like a compressed one are marked as plain.
    KvStep { from: 1, writes: mark_plain_blobs },
];

fn mark_plain_blobs(read: &dyn KvRead) -> StoreResult<Vec<KvEntry>> {
    read::collect(read, &Scan::prefix(Space::Blobs, Vec::new()), |key, value| {
        tract_compression::is_ambiguous(value).then(|| {
            let key = bytes::Bytes::copy_from_slice(key);
            let value = tract_compression::as_it_is(value).into_owned();
            KvEntry { space: Space::Blobs, key, value: Some(value.into()) }
        })
    })
}

/// Reads the format of a store; `None` if it has no keys at all.
fn format<E: KvEngine>(read: &dyn KvRead) -> StoreResult<Option<u32>> {
    let not_a_store =
        |message: &str| Err(StoreError::new(StoreErrorKind::NotAStore, E::NAME, "open", message));
    let Some(sealed) = read.get(Space::Small, keys::FORMAT)? else {
        for space in Space::ALL {
            let mut found = false;
            read.scan(&Scan::prefix(space, Vec::new()), &mut |_, _| {
                found = true;
                Ok(std::ops::ControlFlow::Break(()))
            })?;
            if found {
                return not_a_store("expected a format version, found keys without one");
            }
        }
        return Ok(None);
    };
    match value::open_number(keys::FORMAT, &sealed) {
        Some(version) if version > 0 => Ok(Some(version)),
        _ => not_a_store("the format version is damaged"),
    }
}

/// Returns the entry for a format version.
fn format_entry(version: u32) -> KvEntry {
    let sealed = value::seal(keys::FORMAT, version.to_be_bytes().to_vec());
    KvEntry { space: Space::Small, key: keys::FORMAT.into(), value: Some(sealed) }
}

/// Migrates a store to a format. An empty store gets the format at once. Before the first step, the
/// engine makes a copy of the store. Each step is one write together with its format version, so a
/// process that is killed continues with the next step.
///
/// # Errors
/// `TooNew` for a newer format, `NotAStore` for keys that are not a store's, `Unsupported` if a
/// step is missing, and the engine's failures.
#[doc(hidden)]
pub fn migrate<E: KvEngine>(engine: &E, steps: &[KvStep], to: u32) -> StoreResult<()> {
    let mut copied = false;
    loop {
        let read = engine.read()?;
        let mut batch = KvBatch::default();
        match format::<E>(&*read)? {
            Some(found) if found == to => return Ok(()),
            Some(found) if found > to => {
                let kind = StoreErrorKind::TooNew { found, known: to };
                let message = format!("expected format {to} or older, found {found}");
                return Err(StoreError::new(kind, E::NAME, "open", message));
            }
            Some(from) => {
                let step_from = |from| steps.iter().find(|step| step.from == from);
                let (Some(step), true) =
                    (step_from(from), (from..to).all(|n| step_from(n).is_some()))
                else {
                    let message = format!("expected a way from format {from} to {to}, found none");
                    let kind = StoreErrorKind::Unsupported;
                    return Err(StoreError::new(kind, E::NAME, "migrate", message));
                };
                if !copied {
                    // Some engines allow only one read at a time.
                    drop(read);
                    engine.keep_copy(from)?;
                    copied = true;
                    continue;
                }
                batch.requires.push(format_entry(from));
                batch.writes = (step.writes)(&*read)?;
                batch.writes.push(format_entry(from + 1));
            }
            None => {
                batch.requires.push(KvEntry { value: None, ..format_entry(to) });
                batch.writes.push(format_entry(to));
            }
        }
        drop(read);
        // On a conflict another process was faster; the loop reads the new state.
        match engine.write(&batch, Durability::Immediate)? {
            KvOutcome::Committed | KvOutcome::Conflict { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    use bytes::Bytes;
    use tract_core::store::Capabilities;

    use super::*;
    use crate::tests::Failing;

    /// Records the requested copies, each with the value of a key at that time.
    struct Copying {
        engine: Failing,
        copies: Mutex<Vec<(u32, Option<Bytes>)>>,
    }

    impl KvEngine for Copying {
        const NAME: &'static str = "copying";

        fn capabilities(&self) -> Capabilities {
            self.engine.capabilities()
        }

        fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
            self.engine.read()
        }

        fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome> {
            self.engine.write(batch, durability)
        }

        fn keep_copy(&self, format: u32) -> StoreResult<()> {
            let held = self.engine.read()?.get(Space::Blobs, b"a")?;
            self.copies.lock().expect("no panic").push((format, held));
            Ok(())
        }
    }

    fn put(key: &'static [u8], value: &'static [u8]) -> KvEntry {
        KvEntry { space: Space::Blobs, key: key.into(), value: Some(value.into()) }
    }

    const STEPS: [KvStep; 2] = [
        // Reads what the one before wrote.
        KvStep {
            from: 2,
            writes: |read| {
                let key = Bytes::from_static(b"b");
                let value = read.get(Space::Blobs, b"a")?;
                Ok(vec![KvEntry { space: Space::Blobs, key, value }])
            },
        },
        KvStep { from: 1, writes: |_| Ok(vec![put(b"a", b"two")]) },
    ];

    fn empty() -> Copying {
        let (writes_left, kind) = (usize::MAX.into(), StoreErrorKind::Full);
        let engine = Failing { engine: Default::default(), writes_left, kind };
        Copying { engine, copies: Mutex::default() }
    }

    fn old() -> Copying {
        let copying = empty();
        let batch = KvBatch { requires: vec![], writes: vec![format_entry(1), put(b"a", b"one")] };
        let done = copying.engine.write(&batch, Durability::Immediate).expect("it is written");
        assert_eq!(done, KvOutcome::Committed);
        copying
    }

    fn values(copying: &Copying) -> Vec<Bytes> {
        let read = copying.engine.read().expect("it is read");
        let all = Scan::prefix(Space::Blobs, Vec::new());
        let values = read::collect(&*read, &all, |_, value| Some(Bytes::copy_from_slice(value)));
        values.expect("it is read")
    }

    fn version(copying: &Copying) -> u32 {
        let format = format::<Copying>(&*copying.engine.read().expect("it is read"));
        format.expect("it is sound").expect("a version")
    }

    #[test]
    fn steps_go_in_order_after_one_copy() {
        let store = old();
        migrate(&store, &STEPS, 3).expect("it goes");
        assert_eq!((version(&store), values(&store)), (3, vec!["two".into(), "two".into()]));
        assert_eq!(*store.copies.lock().expect("no panic"), [(1, Some("one".into()))]);
        migrate(&store, &STEPS, 3).expect("there is nothing to do");
        assert_eq!(store.copies.lock().expect("no panic").len(), 1);
    }

    #[test]
    fn a_step_that_fails_is_not_half_done_and_the_next_opening_continues() {
        for writes in 0..2 {
            let store = old();
            store.engine.writes_left.store(writes, Ordering::SeqCst);
            let error = migrate(&store, &STEPS, 3).expect_err("no room");
            assert_eq!(error.kind, StoreErrorKind::Full);
            let expected = [vec![Bytes::from("one")], vec![Bytes::from("two")]];
            assert_eq!(
                (version(&store), values(&store)),
                (writes as u32 + 1, expected[writes].clone())
            );
            store.engine.writes_left.store(usize::MAX, Ordering::SeqCst);
            migrate(&store, &STEPS, 3).expect("there is room");
            assert_eq!((version(&store), values(&store)), (3, vec!["two".into(), "two".into()]));
        }
    }

    #[test]
    fn without_a_way_or_with_a_newer_format_nothing_is_touched() {
        let store = old();
        let error = migrate(&store, &STEPS[..1], 3).expect_err("no first step");
        assert_eq!(error.kind, StoreErrorKind::Unsupported);
        migrate(&store, &STEPS, 3).expect("it goes");
        let error = migrate(&store, &STEPS, 2).expect_err("it is newer");
        assert_eq!(error.kind, StoreErrorKind::TooNew { found: 3, known: 2 });
        assert_eq!((version(&store), store.copies.lock().expect("no panic").len()), (3, 1));
    }

    #[test]
    fn an_empty_engine_takes_the_newest_format_without_a_copy() {
        let store = empty();
        migrate(&store, &STEPS, 3).expect("it goes");
        assert_eq!((version(&store), store.copies.lock().expect("no panic").len()), (3, 0));
    }
}
