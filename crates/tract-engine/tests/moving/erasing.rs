use std::sync::Arc;

use tract_core::store::{StoreError, StoreErrorKind};
use tract_core::{Store, StoreResult, block_on};
use tract_engine::{
    CarriedErasures, CopyOptions, EraseRequest, EraseTarget, FetchOptions, PullBranches,
    PushOptions, Repo, VerifyOptions, copy, erase, fetch, push, verify,
};
use tract_kv::memory;
use tract_testkit::{Call, WatchedStore};

use crate::fixture::{branch, head, is_clean, meanwhile, one, repo, repo_in, say};

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
    let options = PushOptions { all: true, ..PushOptions::default() };
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
    let options = PushOptions { all: true, ..PushOptions::default() };
    let report = block_on(push(&one(&from), &one(&to), "team", &options)).expect("it is pushed");
    check(&report.erased, &from, &to);
    let again = block_on(push(&one(&from), &one(&to), "team", &options)).expect("it is pushed");
    assert_eq!(again.erased, CarriedErasures::default());
}

#[test]
fn a_pull_erases_and_says_where_bytes_may_be_left() {
    let (from, store) = erased_in_one();
    let to = in_use(&store);
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    let report = block_on(fetch(&one(&to), &from, "team", &options)).expect("it is pulled");
    check(&report.erased, &from, &to);
    // A pull is reverted, not the erasure.
    let erased = head(&to, &branch("main"));
    say(&from, "main", "third");
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    block_on(fetch(&to, &from, "team", &options)).expect("it is pulled");
    block_on(to.undo(&branch("main"))).expect("it is undone");
    assert_eq!(head(&to, &branch("main")), erased);
}

#[test]
fn a_copy_erases_and_says_where_bytes_may_be_left() {
    let (from, store) = erased_in_one();
    let to = in_use(&store);
    let report = block_on(copy(&from, &one(&to), &CopyOptions::default())).expect("it is copied");
    check(&report.erased, &from, &to);
}

#[test]
fn a_store_with_the_bytes_does_not_bring_them_back() {
    let (from, store) = erased_in_one();
    let to = repo_in(store);
    say(&to, "main", "third");
    let options = FetchOptions::default();
    let report = block_on(fetch(&one(&from), &to, "team", &options)).expect("it is fetched");
    assert_eq!((report.commits, report.erased), (1, CarriedErasures::default()));
    let theirs = crate::fixture::seen("team", "main");
    let error = block_on(from.compile(head(&from, &theirs))).expect_err("it is erased");
    assert_eq!(error.code(), "erased");
    is_clean(&from);
}

/// A repository on which another client says the erased text right before the erasure is written.
fn also_said_there(store: Arc<dyn Store>) -> Repo {
    let other = repo_in(Arc::clone(&store));
    let erases: fn(&Call<'_>) -> bool = |call| match call {
        Call::Apply { batch, .. } => batch.refs.iter().any(|at| at.name.erased_blob().is_some()),
        _ => false,
    };
    repo_in(meanwhile(store, 1, erases, move || _ = say(&other, "theirs", LEAK)))
}

#[test]
fn an_erasure_that_arrives_deletes_no_bytes_of_a_message_that_came_first() {
    let push_all = |from: &Repo, to: &Repo| {
        let options = PushOptions { all: true, ..PushOptions::default() };
        block_on(push(from, to, "team", &options)).expect("it is pushed").erased
    };
    let copy_all = |from: &Repo, to: &Repo| {
        block_on(copy(from, to, &CopyOptions::default())).expect("it is copied").erased
    };
    type Transfer<'a> = &'a dyn Fn(&Repo, &Repo) -> CarriedErasures;
    let transfers: [Transfer<'_>; 2] = [&push_all, &copy_all];
    for transfer in transfers {
        // The receiver has the erased message, or it gets the erasure together with the history.
        for has_message in [true, false] {
            let (from, store) = erased_in_one();
            let store = if has_message { store } else { Arc::new(memory()) };
            let to = also_said_there(Arc::clone(&store));
            let erased = transfer(&from, &to);
            assert_eq!(erased.blobs, 0, "{erased:?}");
            let there = repo_in(store);
            let line = block_on(there.compile(head(&there, &branch("theirs")))).expect("it shows");
            assert_eq!(line.messages().next().expect("a message").content.text(), LEAK);
            let line = block_on(there.compile(head(&there, &branch("main")))).expect("it shows");
            assert_eq!(line.messages().next().expect("one").content.text(), "[erased: a leak]");
            is_clean(&there);
        }
    }
}

/// A repository on which a message is erased right before it is read for the second time.
fn erased_meanwhile(reads: fn(&Call<'_>) -> bool) -> (Repo, Repo) {
    let store: Arc<dyn Store> = Arc::new(memory());
    let below = repo_in(Arc::clone(&store));
    let leak = say(&below, "main", LEAK);
    for number in 0..40 {
        say(&below, "main", &format!("message {number}"));
    }
    let other = repo_in(Arc::clone(&store));
    let from = meanwhile(store, 1, reads, move || {
        let request = EraseRequest::targets(vec![EraseTarget::Commit(leak)], "a leak");
        block_on(erase(&other, &request)).expect("it is erased");
    });
    (repo_in(from), below)
}

#[test]
fn an_erasure_in_the_source_meanwhile_stops_no_transfer() {
    let reads: fn(&Call<'_>) -> bool = |call| matches!(call, Call::Blobs { .. });
    let check = |to: &Repo, below: &Repo| {
        let shown = block_on(to.compile(head(to, &branch("main")))).expect("it compiles");
        assert!(shown.messages().all(|message| !message.content.text().contains("4711")));
        is_clean(to);
        is_clean(below);
    };
    let ((from, below), to) = (erased_meanwhile(reads), repo());
    block_on(push(&from, &to, "team", &PushOptions::default())).expect("it is pushed");
    check(&to, &below);
    let ((from, below), to) = (erased_meanwhile(reads), repo());
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    block_on(fetch(&to, &from, "team", &options)).expect("it is fetched");
    check(&to, &below);
    let ((from, below), to) = (erased_meanwhile(reads), repo());
    block_on(copy(&from, &to, &CopyOptions::default())).expect("it is copied");
    check(&to, &below);
}

#[test]
fn verify_reports_nothing_that_is_erased_meanwhile() {
    let reads: [fn(&Call<'_>) -> bool; 3] = [
        |call| matches!(call, Call::Blobs { .. }),
        |call| matches!(call, Call::Walk { .. }),
        |call| matches!(call, Call::RefLog { .. }),
    ];
    for reads in reads {
        let (from, below) = erased_meanwhile(reads);
        let report = block_on(verify(&from, &VerifyOptions::default())).expect("it is read");
        assert_eq!(report.damage, []);
        assert!(report.clean);
        is_clean(&below);
    }
}
