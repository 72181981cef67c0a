//! Round trips are counted, answers are lost, and still every write happens once.

use tract_core::store::{CommitRepository, RefRepository, Walk};
use tract_core::{Applied, CommitId, RepoName, Store, StoreExt, block_on};
use tract_store_postgres::{PostgresOptions, PostgresStore};
use tract_testkit::fixtures::{advance, appending, batch, branch, done, push};

use crate::proxy::Proxy;
use crate::server;
use crate::support::{self, append, is_sound, length, opened};

fn through(url: &str, row_security: bool) -> (Proxy, PostgresStore) {
    let proxy = Proxy::before(url);
    let url = server::with_schema(proxy.url(), &server::schema());
    let options = PostgresOptions { pool_size: 1, row_security, ..support::options() };
    (proxy, opened(&url, &options))
}

#[test]
fn a_commit_is_one_round_trip() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let (proxy, store) = through(&url, row_security);
        let mut head = append(&store, "main", None, "the first");
        let before = proxy.trips();
        for n in 0..10 {
            head = append(&store, "main", Some(head), &format!("message {n}"));
        }
        assert_eq!(proxy.trips() - before, 10, "ten commits");
    }
}

#[test]
fn a_batch_with_several_refs_is_one_round_trip() {
    let Some(url) = server::shared() else { return };
    let (proxy, store) = through(url, false);
    let head = append(&store, "main", None, "the first");
    let before = proxy.trips();
    let mut writing = batch("branches");
    writing.refs = ["c", "a", "b"].map(|name| advance(name, None, head)).to_vec();
    done(block_on(store.apply(&RepoName::default(), writing))).expect("it is written");
    assert_eq!(proxy.trips() - before, 1);
}

#[test]
fn reading_is_one_round_trip_with_row_security_too() {
    let Some(url) = server::shared() else { return };
    let (proxy, store) = through(&support::tenant_url(url), true);
    let head = append(&store, "main", None, "the first");
    let repo = RepoName::default();
    let main = [branch("main")];
    let target = block_on(store.refs(&repo, &main)).expect("the number of the repository is read");
    assert_eq!(target[0].as_ref().and_then(|to| to.commit()), Some(head));
    let before = proxy.trips();
    for _ in 0..5 {
        block_on(store.refs(&repo, &main)).expect("it is read");
    }
    assert_eq!(proxy.trips() - before, 5);
}

#[test]
fn a_walk_of_10_000_is_one_round_trip() {
    let Some(url) = server::shared() else { return };
    let (proxy, store) = through(url, false);
    let repo = RepoName::default();
    let mut head: Option<CommitId> = None;
    // Twenty batches on forks of forks, so that the line lies in several segments.
    for round in 0..20 {
        let mut writing = batch("import");
        for n in 0..500 {
            head = Some(push(&mut writing, head, &format!("message {n}")).id());
        }
        done(block_on(store.apply(&repo, writing))).expect("it is written");
        if round % 5 == 0 {
            // Another writer continues here first.
            let mut writing = batch("fork");
            push(&mut writing, head, "elsewhere");
            done(block_on(store.apply(&repo, writing))).expect("it is written");
        }
    }
    let head = head.expect("commits were made");
    let before = proxy.trips();
    let page = block_on(store.walk(&repo, Walk { limit: 10_000, ..Walk::from(head) }));
    let page = page.expect("it is walked");
    assert_eq!(proxy.trips() - before, 1);
    assert_eq!((page.entries.len(), page.next), (10_000, None));
    let mut expected = Some(head);
    for entry in &page.entries {
        assert_eq!(Some(entry.commit.id()), expected);
        expected = entry.commit.parent();
    }
}

/// The outcome is unknown to the store, which finds out by itself: every write happens once.
#[test]
fn a_lost_answer_is_resolved() {
    let Some(url) = server::shared() else { return };
    let (proxy, store) = through(url, false);
    let repo = RepoName::default();
    let mut head = append(&store, "main", None, "the first");
    for n in 0..20 {
        let (writing, next) = appending("main", Some(head), &format!("message {n}"));
        match n % 2 {
            0 => proxy.lose_answer(),
            _ => proxy.lose_request(),
        }
        let answer = block_on(store.apply(&repo, writing)).expect("it is resolved");
        let expected = if n % 2 == 0 { Applied::Already } else { Applied::Done };
        assert_eq!(answer, expected, "write {n}");
        head = next;
        assert_eq!(block_on(store.ref_log(&repo, &Default::default())).unwrap().len(), n + 2);
    }
    assert_eq!(length(&store, head), 21);
    is_sound(&store);
    assert!(proxy.connections() > 20, "lost connections were not used again");
}

/// When the server stays away, the answer is that the outcome is unknown; the same batch settles
/// it.
#[test]
fn an_unknown_outcome_says_so_and_a_retry_settles_it() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let schema = server::schema();
    let options = PostgresOptions {
        pool_size: 1,
        retry_for: std::time::Duration::ZERO,
        ..support::options()
    };
    let store = opened(&server::with_schema(proxy.url(), &schema), &options);
    let head = append(&store, "main", None, "the first");
    let repo = RepoName::default();
    let (writing, next) = appending("main", Some(head), "the second");
    proxy.lose_answer();
    let error = block_on(store.apply(&repo, writing.clone())).expect_err("it is unknown");
    assert_eq!(error.kind, tract_core::StoreErrorKind::Unknown);
    // Meanwhile another writer undoes the commit: the retry must not do it again.
    let mut undo = batch("undo");
    undo.refs.push(advance("main", Some(next), head));
    done(block_on(store.apply(&repo, undo))).expect("it is written");
    assert_eq!(block_on(store.apply(&repo, writing)).expect("it is settled"), Applied::Already);
    let main = block_on(store.ref_target(&repo, &branch("main"))).expect("it is read");
    assert_eq!(main.and_then(|to| to.commit()), Some(head));
}
