//! The server is killed while it is written to: what was acknowledged is there, what was under way
//! happened once or not at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tract_core::{Applied, RefTarget, RepoName, Store, StoreExt, block_on};
use tract_store_postgres::PostgresOptions;
use tract_testkit::fixtures::{appending, branch};

use crate::server;
use crate::support::{self, is_sound, opened};

const WRITERS: usize = 4;

/// Ten times at full scale.
#[test]
fn a_killed_server_loses_nothing_acknowledged() {
    let Some(server) = server::Server::start(&[]) else { return server::left_out() };
    let options = PostgresOptions {
        retry_for: Duration::from_secs(120),
        pool_size: WRITERS,
        ..support::options()
    };
    let store = opened(&server.url(), &options);
    let repo = RepoName::default();
    let mut heads = [None; WRITERS];
    let mut lengths = [0usize; WRITERS];
    let (mut acknowledged, mut resolved) = (0, 0);
    let mut loops = tract_testkit::rounds(10, 2);
    for round in loops.by_ref() {
        let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
        let ends = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (store, repo, stop, written) = (&store, &repo, &stop, &written);
                    let mut head = heads[writer];
                    scope.spawn(move || {
                        let (mut done, mut already) = (0, 0);
                        while !stop.load(Ordering::Acquire) {
                            let (branch, text) =
                                (format!("b{writer}"), format!("{writer}: {done}"));
                            let (writing, next) = appending(&branch, head, &text);
                            match block_on(store.apply(repo, writing)).expect("it is resolved") {
                                Applied::Done => done += 1,
                                // The answer was lost with the server, the commit was not.
                                Applied::Already => already += 1,
                                lost => panic!("done twice: {lost:?}"),
                            }
                            head = Some(next);
                            written.fetch_add(1, Ordering::AcqRel);
                        }
                        (head, done, already)
                    })
                })
                .collect();
            let wait = |more: usize| {
                let from = written.load(Ordering::Acquire);
                while written.load(Ordering::Acquire) < from + more {
                    assert!(!writers.iter().any(|writer| writer.is_finished()), "a writer ended");
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            wait(20 + 7 * round % 13);
            server.kill();
            server.launch();
            wait(WRITERS * 2);
            stop.store(true, Ordering::Release);
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect::<Vec<_>>()
        });
        for (writer, (head, done, already)) in ends.into_iter().enumerate() {
            heads[writer] = head;
            lengths[writer] += done + already;
            acknowledged += done + already;
            resolved += already;
        }
        for (writer, head) in heads.iter().enumerate() {
            let head = head.expect("each has written");
            let at = block_on(store.ref_target(&repo, &branch(&format!("b{writer}"))));
            assert_eq!(at.expect("it is read"), Some(RefTarget::Commit(head)));
            let line = block_on(store.walk_all(&repo, head)).expect("it is walked");
            assert_eq!(line.len(), lengths[writer], "every write once: writer {writer}");
        }
        is_sound(&store);
    }
    let finding = format!(
        "{} kills of the server under 4 writers, {acknowledged} acknowledged, 0 lost; {resolved} \
         were written although their answer was lost",
        loops.done()
    );
    tract_testkit::figure("T1 kill -9", "postgres", finding);
}
