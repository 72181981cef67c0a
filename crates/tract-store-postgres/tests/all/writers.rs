//! Many writers of one ref through one handle, and what they wait for.

use std::future::{Future, poll_fn};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tract_core::store::{LogQuery, RefRepository};
use tract_core::{Applied, Batch, CommitId, Store, StoreErrorKind, StoreResult, block_on};
use tract_store_postgres::{PostgresOptions, PostgresStore};
use tract_testkit::fixtures::{advance, appending, branch, done};

use crate::proxy::Proxy;
use crate::server;
use crate::support::{self, append, is_sound, length, opened, repo};

/// How long a test waits for what must not take for ever.
const FOR_EVER: Duration = Duration::from_secs(120);

/// Begins the branch; the store then knows the short way.
fn begin(store: &PostgresStore) -> CommitId {
    append(store, "main", None, "it begins")
}

/// Batches of one commit each, in a line.
fn line(mut head: CommitId, count: usize) -> (Vec<Batch>, CommitId) {
    let mut batches = Vec::new();
    for n in 0..count {
        let (writing, next) = appending("main", Some(head), &format!("message {n}"));
        batches.push(writing);
        head = next;
    }
    (batches, head)
}

/// Hands batches over in order, as tasks do that plan one after another, and waits for all.
fn at_once(store: &PostgresStore, batches: Vec<Batch>) -> Vec<StoreResult<Applied>> {
    let repo = repo();
    let mut writes: Vec<_> =
        batches.into_iter().map(|writing| store.apply(&repo, writing)).collect();
    let mut answers: Vec<Option<StoreResult<Applied>>> = writes.iter().map(|_| None).collect();
    block_on(poll_fn(|context| {
        for (write, answer) in writes.iter_mut().zip(&mut answers).filter(|(_, a)| a.is_none()) {
            if let Poll::Ready(ready) = write.as_mut().poll(context) {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }));
    answers.into_iter().flatten().collect()
}

/// Runs something that must come to an end.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(FOR_EVER).expect("it comes to an end")
}

#[test]
fn a_write_that_is_neither_polled_nor_dropped_holds_no_other_up() {
    let Some(url) = server::shared() else { return };
    let store = opened(&server::with_schema(url, &server::schema()), &support::options());
    ends(move || {
        let (batches, last) = line(begin(&store), 3);
        let repo = repo();
        let mut writes: Vec<_> =
            batches.into_iter().map(|write| store.apply(&repo, write)).collect();
        let polled = |write: &mut std::pin::Pin<Box<dyn Future<Output = _> + Send + '_>>| {
            block_on(poll_fn(|context| Poll::Ready(write.as_mut().poll(context).is_ready())))
        };
        // The first two rest after one poll: one under way, one queued behind it.
        polled(&mut writes[0]);
        polled(&mut writes[1]);
        let answer = block_on(writes.remove(2)).expect("it is written");
        assert_eq!(answer, Applied::Done);
        append(&store, "main", Some(last), "after it");
        for write in writes {
            assert_eq!(block_on(write).expect("it was written meanwhile"), Applied::Done);
        }
        is_sound(&store);
    });
}

#[test]
fn writes_of_one_ref_that_come_at_once_share_round_trips() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let proxy = Proxy::before(&url);
        let options = PostgresOptions { row_security, ..support::options() };
        let store = opened(&server::with_schema(proxy.url(), &server::schema()), &options);
        let (batches, head) = line(begin(&store), 200);
        let ids: Vec<_> = batches.iter().map(|batch| batch.id).collect();
        let before = proxy.trips();
        for answer in at_once(&store, batches) {
            assert_eq!(answer.expect("an answer"), Applied::Done);
        }
        let trips = proxy.trips() - before;
        assert!(trips <= 10, "{trips} round trips of 200 writes");
        assert_eq!(length(&store, head), 201);
        // Each is an entry of its own in the log, in order.
        let query = LogQuery { name: Some(branch("main")), ..LogQuery::default() };
        let log = block_on(store.ref_log(&repo(), &query)).expect("it is read");
        let logged: Vec<_> = log.iter().rev().skip(1).map(|entry| entry.batch).collect();
        assert_eq!(logged, ids);
        is_sound(&store);
    }
}

#[test]
fn of_writes_that_continue_each_other_those_before_a_lost_race_are_stored() {
    let Some(url) = server::shared() else { return };
    let with_schema = server::with_schema(url, &server::schema());
    let store = opened(&with_schema, &support::options());
    let head = begin(&store);
    // Another handle moves the branch before any of them.
    let other = opened(&with_schema, &support::options());
    let moved = append(&other, "main", Some(head), "theirs");
    let (batches, _) = line(head, 20);
    for answer in at_once(&store, batches) {
        let Applied::Conflict(conflict) = answer.expect("an answer") else { panic!("a conflict") };
        assert_eq!(conflict.found.and_then(|found| found.commit()), Some(moved));
    }
    // One in the middle lacks its blob: those before it are stored, and only it gets the error.
    let (mut batches, _) = line(moved, 5);
    batches[2].blobs.clear();
    let answers = at_once(&store, batches);
    let kinds: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(Applied::Done) => "done",
            Ok(_) => "conflict",
            Err(error) if matches!(error.kind, StoreErrorKind::Missing { .. }) => "missing",
            Err(_) => "error",
        })
        .collect();
    assert_eq!(kinds, ["done", "done", "missing", "conflict", "conflict"]);
    is_sound(&store);
}

#[test]
fn a_chain_whose_answer_is_lost_is_written_once() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let store = opened(&server::with_schema(proxy.url(), &server::schema()), &support::options());
    let mut head = begin(&store);
    for _ in 0..5 {
        let (batches, next) = line(head, 10);
        proxy.lose_answer();
        for answer in at_once(&store, batches) {
            assert!(!matches!(answer.expect("an answer"), Applied::Conflict(_)));
        }
        head = next;
    }
    assert_eq!(length(&store, head), 51);
    is_sound(&store);
}

#[test]
fn writes_behind_a_silent_server_do_not_wait_for_each_other() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let schema = server::with_schema(proxy.url(), &server::schema());
    drop(opened(&schema, &support::options()));
    let options = PostgresOptions {
        pool_size: 2,
        statement_timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_millis(500),
        ..support::options()
    };
    let store = opened(&schema, &options);
    let (batches, _) = line(begin(&store), 8);
    let before = proxy.connections();
    proxy.fall_silent();
    // Not on top of each other, so that each would need a statement of its own.
    let batches: Vec<_> = batches.into_iter().rev().collect();
    for answer in ends(move || at_once(&store, batches)) {
        let error = answer.expect_err("nothing answers");
        let kinds = [StoreErrorKind::Busy, StoreErrorKind::Unknown, StoreErrorKind::Unavailable];
        assert!(kinds.contains(&error.kind), "{error:?}");
    }
    let connections = proxy.connections() - before;
    assert!(connections <= 4, "{connections} connections were tried one after another");
}

#[test]
fn a_large_write_to_a_silent_server_ends() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let schema = server::with_schema(proxy.url(), &server::schema());
    drop(opened(&schema, &support::options()));
    let options = PostgresOptions {
        retry_for: Duration::ZERO,
        statement_timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(300),
        ..support::options()
    };
    let store = opened(&schema, &options);
    let head = begin(&store);
    let (writing, _) = appending("main", Some(head), &"x".repeat(9 << 20));
    proxy.fall_silent();
    let answer = ends(move || block_on(store.apply(&repo(), writing)));
    let error = answer.expect_err("nothing answers");
    assert!(error.message.contains("127.0.0.1"), "it names the server: {error}");
}

#[test]
fn a_repository_that_is_written_to_is_found_sound() {
    let Some(url) = server::shared() else { return };
    let store = opened(&server::with_schema(url, &server::schema()), &support::options());
    let mut head = begin(&store);
    let store = &store;
    let (stop, stopped) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut n = 0;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                n += 1;
                let (mut writing, next) = appending("main", Some(head), &format!("message {n}"));
                writing.refs.push(advance(&format!("branch-{n}"), None, next));
                done(block_on(store.apply(&repo(), writing))).expect("it is written");
                head = next;
            }
        });
        let checks: Vec<_> = (0..30).map(|_| block_on(store.check(&repo(), false))).collect();
        drop(stop);
        for damage in checks {
            assert_eq!(damage.expect("it is checked"), []);
        }
    });
}

#[test]
fn a_check_reads_contents_in_pages_of_bounded_size() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let store = opened(&server::with_schema(proxy.url(), &server::schema()), &support::options());
    let mut head = begin(&store);
    // 30 MiB in contents of 1 MiB, and one that is larger than a page.
    for n in 0..30 {
        head = append(&store, "main", Some(head), &format!("{n} {}", "x".repeat(1 << 20)));
    }
    append(&store, "main", Some(head), &"y".repeat(10 << 20));
    proxy.largest_answer();
    is_sound(&store);
    let largest = proxy.largest_answer();
    // As the text protocol of `bytea` is not used, a byte is a byte.
    assert!(largest < 12 << 20, "{largest} bytes answered one request");
}
