//! Tests of blocking stores that are not cases of the contract.

use std::path::Path;

use tract_core::store::{BlockingStore, ThreadedStore, Walk};
use tract_core::{Applied, CommitId, ObjectId, RefTarget, RepoName, StoreErrorKind, StoreResult};

use crate::fixtures::appending;

/// Writes groups of batches to an empty store: one with rejected batches, and one that other
/// batches join while it is written. `reopen` closes and reopens the store, or returns it
/// unchanged. Returns whether batches joined.
///
/// # Panics
/// If answers or stored data differ from those of the same batches written one after another.
pub fn groups_are_whole<S: BlockingStore>(
    store: ThreadedStore<S>,
    reopen: impl FnOnce(ThreadedStore<S>) -> ThreadedStore<S>,
) -> bool {
    let (repo, other) = (RepoName::default(), RepoName::new("other").expect("a valid name"));
    let here = |batch| (repo.clone(), batch);
    let (good, head) = appending("main", None, "goes through");
    let (stale, stale_head) = appending("main", None, "comes too late");
    let (mut dangling, dangling_head) = appending("new", None, "says nothing");
    let missing = ObjectId::Blob(dangling.blobs.remove(0).id());
    let (next, next_head) = appending("main", Some(head), "sees what the first one wrote");
    let never = stale.blobs[0].id();
    let group = [good, stale, dangling, next.clone(), next].map(here);
    let answers = store.store().apply_group(&group);
    let [good, stale, dangling, next, again] = answers.try_into().expect("five answers");
    assert_eq!(good.expect("it goes through"), Applied::Done);
    assert!(matches!(stale.expect("an answer"), Applied::Conflict(conflict)
        if conflict.found == Some(RefTarget::Commit(head))));
    let dangling = dangling.expect_err("its content is missing");
    assert_eq!(dangling.kind, StoreErrorKind::Missing { object: missing });
    assert_eq!(next.expect("it goes through"), Applied::Done);
    assert_eq!(again.expect("it is known"), Applied::Already);
    let ids = [head, stale_head, dangling_head, next_head];
    let found = store.store().commits(&repo, &ids).expect("they are read");
    let found: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(found, [true, false, false, true]);
    assert_eq!(store.store().blobs(&repo, &[never.into()]).expect("it is read"), [None]);
    let stats = store.store().stats(&repo).expect("it is counted");
    assert_eq!((stats.commits, stats.blobs), (2, 2));

    let (first, third) = appending("main", Some(next_head), "begins the group");
    let (stale, _) = appending("main", Some(head), "comes too late");
    let (fourth, fourth_head) = appending("main", Some(third), "sees what the group wrote");
    let (last, last_head) = appending("main", Some(fourth_head), "sees what who joined wrote");
    let waves = [
        vec![here(stale), here(fourth)],
        // A repository that was never written to.
        vec![here(last.clone()), (other.clone(), appending("main", None, "elsewhere").0)],
    ];
    let mut waves = waves.into_iter();
    let mut joining = || waves.next().unwrap_or_default();
    let mut answers = store.store().apply_joined(&[here(first)], &mut joining);
    let is_joined = answers.len() > 1;
    answers.extend(waves.flat_map(|wave| store.store().apply_group(&wave)));
    assert!(matches!(answers.remove(1).expect("an answer"), Applied::Conflict(_)));
    let answers: StoreResult<Vec<Applied>> = answers.into_iter().collect();
    assert_eq!(answers.expect("they go through"), vec![Applied::Done; 4]);
    // A batch that joined the group is remembered like the first one: repeating it does nothing.
    let again = store.store().apply_group(&[here(last)]).swap_remove(0);
    assert_eq!(again.expect("it is known"), Applied::Already);
    let store = reopen(store);
    let page = store.store().walk(&repo, Walk::from(last_head)).expect("it is durable");
    let line: Vec<CommitId> = page.entries.iter().map(|entry| entry.commit.id()).collect();
    assert_eq!(line, [last_head, fourth_head, third, next_head, head]);
    for repo in [repo, other] {
        assert_eq!(store.store().check(&repo, false).expect("it is checked"), []);
    }
    is_joined
}

/// Moves a store away from its path and back. A store that does not notice it would accept writes
/// and lose them when it is closed. `open` creates the store if it is missing.
///
/// # Panics
/// If the store accepts a write while it is moved, or loses one.
pub fn a_moved_store_takes_no_writes<S: BlockingStore>(
    path: &Path,
    open: impl Fn(&Path) -> ThreadedStore<S>,
) {
    let (repo, away) = (RepoName::default(), path.with_file_name("away"));
    let store = open(path);
    let apply = |batch| store.store().apply_group(&[(repo.clone(), batch)]).swap_remove(0);
    let (batch, first) = appending("main", None, "one");
    assert_eq!(apply(batch).expect("it is written"), Applied::Done);
    std::fs::rename(path, &away).expect("it is moved");
    let (batch, second) = appending("main", Some(first), "two");
    let error = apply(batch.clone()).expect_err("it is not in its place");
    assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
    assert!(error.to_string().contains("was moved or deleted"), "{error}");
    std::fs::rename(&away, path).expect("it is moved back");
    assert_eq!(apply(batch).expect("it is written"), Applied::Done);
    store.store().close().expect("it closes");
    drop(store);
    let found = open(path).store().commits(&repo, &[first, second]).expect("they are read");
    assert!(found.iter().all(Option::is_some));
}
