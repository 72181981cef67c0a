//! Tests of opening a key-value store that an earlier version wrote.

use std::path::Path;

use tract_core::store::{BlockingStore, ThreadedStore, Walk};
use tract_core::{Applied, RefTarget, RepoName, StoreErrorKind, StoreResult};
use tract_kv::{FORMAT, KvEngine, KvEntry, KvRead, KvStep, KvStore, Space, migrate};

use crate::fixtures::{appending, branch};

const KEY: &[u8] = b"\0newer";

/// An upgrade to the format after the current one, which has one more key.
pub const NEXT: KvStep = KvStep {
    from: FORMAT,
    writes: |read: &dyn KvRead| {
        assert_eq!(read.get(Space::Small, KEY)?, None);
        Ok(vec![KvEntry { space: Space::Small, key: KEY.into(), value: Some("here".into()) }])
    },
};

/// Creates a store in an empty folder, upgrades it to the format after the current one, and checks
/// the result: this build rejects the store as too new, and the only other file is a copy of the
/// old store.
///
/// `open` creates the store if it is missing; `open_engine` opens the engine of an existing store.
///
/// # Panics
/// If a check fails.
pub fn keeps_a_copy<E: KvEngine>(
    path: &Path,
    open: impl Fn(&Path) -> StoreResult<ThreadedStore<KvStore<E>>>,
    open_engine: impl Fn(&Path) -> StoreResult<E>,
) {
    let (repo, next) = (RepoName::default(), FORMAT + 1);
    let store = open(path).expect("it is made");
    let (write, head) = appending("main", None, "from an earlier format");
    let done = store.store().apply_group(&[(repo.clone(), write)]);
    assert!(matches!(done[..], [Ok(Applied::Done)]), "{done:?}");
    store.store().close().expect("it closes");
    drop(store);

    let engine = open_engine(path).expect("it opens");
    migrate(&engine, &[NEXT], next).expect("it is upgraded");
    migrate(&engine, &[NEXT], next).expect("there is nothing to do");
    let added = engine.read().expect("a snapshot").get(Space::Small, KEY);
    assert_eq!(added.expect("it is read"), Some("here".into()));
    drop(engine);

    let error = open(path).expect_err("it is newer");
    assert_eq!(error.kind, StoreErrorKind::TooNew { found: next, known: FORMAT });
    let copy = open(&tract_core::store::format_copy_path(path, FORMAT));
    let copy = copy.expect("the copy opens");
    let refs = copy.store().refs(&repo, &[branch("main")]).expect("refs");
    assert_eq!(refs, [Some(RefTarget::Commit(head))]);
    assert_eq!(copy.store().walk(&repo, Walk::from(head)).expect("a history").entries.len(), 1);
    assert_eq!(copy.store().check(&repo, false).expect("it is checked"), []);
    let folder = path.parent().expect("a folder");
    assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 2);
}
