use std::sync::Arc;

use tract_core::store::{StoreError, StoreErrorKind};
use tract_core::{Store, StoreResult, block_on};
use tract_engine::{
    CarriedErasures, CopyOptions, EraseRequest, EraseTarget, FetchOptions, PullBranches,
    PushOptions, Repo, copy, erase, fetch, push,
};
use tract_kv::memory;
use tract_testkit::{Call, WatchedStore};

use crate::fixture::{branch, head, is_clean, one, repo, repo_in, say};

const LEAK: &str = "the door code is 4711-0815";

/// A store whose files are in use, so that they cannot be wiped.
fn in_use(store: &Arc<dyn Store>) -> Repo {
    let watched = WatchedStore::new(Arc::clone(store), |call: Call<'_>| -> StoreResult<()> {
        match call {
            Call::Wipe { .. } => {
                Err(StoreError::new(StoreErrorKind::Busy, "test", "wipe", "it is in use"))
            }
            _ => Ok(()),
        }
    });
    repo_in(Arc::new(watched))
}

/// Two repositories with the same messages, one of which was erased in the first.
fn erased_in_one() -> (Repo, Arc<dyn Store>) {
    let (from, store) = (repo(), Arc::new(memory()) as Arc<dyn Store>);
    let leak = say(&from, "main", LEAK);
    say(&from, "main", "second");
    let options = PushOptions::new().all(true);
    block_on(push(&from, &repo_in(Arc::clone(&store)), "team", &options)).expect("it is pushed");
    let request = EraseRequest::targets(vec![EraseTarget::Commit(leak)], "a leak");
    block_on(erase(&from, &request)).expect("it is erased");
    (from, store)
}

fn check(erased: &CarriedErasures, from: &Repo, to: &Repo) {
    assert_eq!(erased.blobs, 1);
    assert!(erased.not_wiped.as_ref().is_some_and(|why| why.contains("it is in use")));
    assert_eq!(head(to, &branch("main")), head(from, &branch("main")));
    let line = block_on(to.compile(head(to, &branch("main")))).expect("it compiles");
    assert_eq!(line.messages().count(), 2);
    is_clean(to);
}

#[test]
fn a_push_erases_and_says_where_bytes_may_be_left() {
    let (from, store) = erased_in_one();
    let to = in_use(&store);
    let options = PushOptions::new().all(true);
    let report = block_on(push(&one(&from), &one(&to), "team", &options)).expect("it is pushed");
    check(&report.erased, &from, &to);
    let again = block_on(push(&one(&from), &one(&to), "team", &options)).expect("it is pushed");
    assert_eq!(again.erased, CarriedErasures::default());
}

#[test]
fn a_pull_erases_and_says_where_bytes_may_be_left() {
    let (from, store) = erased_in_one();
    let to = in_use(&store);
    let options = FetchOptions::new().pull(PullBranches::All);
    let report = block_on(fetch(&one(&to), &from, "team", &options)).expect("it is pulled");
    check(&report.erased, &from, &to);
    // The pull is reverted, not the erasure.
    block_on(to.undo(&branch("main"))).expect("it is undone");
    let error = block_on(to.compile(head(&to, &branch("main")))).expect_err("it is erased");
    assert_eq!(error.code(), "erased");
}

#[test]
fn a_copy_erases_and_says_where_bytes_may_be_left() {
    let (from, store) = erased_in_one();
    let to = in_use(&store);
    let report = block_on(copy(&from, &one(&to), &CopyOptions::new())).expect("it is copied");
    check(&report.erased, &from, &to);
}

#[test]
fn a_store_with_the_bytes_does_not_bring_them_back() {
    let (from, store) = erased_in_one();
    let to = repo_in(store);
    say(&to, "main", "third");
    let options = FetchOptions::new();
    let report = block_on(fetch(&one(&from), &to, "team", &options)).expect("it is fetched");
    assert_eq!((report.commits, report.erased), (1, CarriedErasures::default()));
    let theirs = crate::fixture::seen("team", "main");
    let error = block_on(from.compile(head(&from, &theirs))).expect_err("it is erased");
    assert_eq!(error.code(), "erased");
    is_clean(&from);
}
