//! Garbage is collected next to others that write without a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tract_core::store::{Sweep, SweepAnswer};
use tract_core::{CommitId, Draft, ObjectId, RefName, RepoName, Store, StoreExt, block_on};
use tract_engine::{GcOptions, Repo, RepoOptions, VerifyOptions, gc, verify};
use tract_store_postgres::PostgresOptions;
use tract_testkit::fixtures::{advance, batch, done, line};

use crate::server;
use crate::support::{self, append, is_sound, opened};

const WRITERS: usize = 4;

#[test]
fn garbage_is_collected_while_others_write_without_a_pause() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let url = server::with_schema(&url, &server::schema());
        let options = PostgresOptions { row_security, ..support::options() };
        let repo = || Repo::new(Arc::new(opened(&url, &options)), RepoOptions::default());
        let collector = repo();
        let count = tract_testkit::scaled(1_000, 0.15, 20);
        let writing = AtomicUsize::new(WRITERS);
        let (longest, rounds, deleted) = thread::scope(|scope| {
            let writers = (0..WRITERS).map(|writer| {
                let (repo, writing) = (repo(), &writing);
                scope.spawn(move || {
                    let branch = RefName::branch(&format!("b{writer}")).expect("a name");
                    let (mut longest, mut kept) = (Duration::ZERO, Vec::new());
                    for n in 0..count {
                        let begun = Instant::now();
                        let message = Draft::user(format!("{writer} says {n}"));
                        let message =
                            block_on(repo.append(&branch, message)).expect("it is written");
                        longest = longest.max(begun.elapsed());
                        kept.push(message.id());
                        // Every third is garbage from then on.
                        if n % 3 == 1 {
                            block_on(repo.undo(&branch)).expect("it is undone");
                            kept.pop();
                        }
                    }
                    writing.fetch_sub(1, Ordering::AcqRel);
                    let head = block_on(repo.head_of(&branch)).expect("it is read");
                    assert_eq!(head, kept.last().copied());
                    longest
                })
            });
            let writers: Vec<_> = writers.collect();
            let (mut rounds, mut deleted) = (0, 0);
            let options = GcOptions { keep: Duration::ZERO, ..GcOptions::default() };
            while writing.load(Ordering::Acquire) > 0 {
                let report = block_on(gc(&collector, &options)).expect("it is collected");
                deleted += report.deleted().objects;
                rounds += 1;
            }
            let longest = writers.into_iter().map(|writer| writer.join().expect("it ends")).max();
            (longest.unwrap_or_default(), rounds, deleted)
        });
        eprintln!(
            "row security {row_security}: {} appends, {rounds} collections meanwhile, {deleted} \
             objects deleted, an append took at most {longest:?}",
            WRITERS * count
        );
        assert!(deleted > 0 && rounds > 3, "{rounds} collections deleted {deleted} objects");
        let report = block_on(verify(&collector, &VerifyOptions::default())).expect("it is read");
        assert!(report.clean, "{:?}", report.damage);
    }
}

/// A collector that marks too slowly, or is gone, delays others by a moment alone.
#[test]
fn a_sweep_that_keeps_others_waiting_lets_go_soon() {
    let Some(url) = server::shared() else { return };
    let url = server::with_schema(url, &server::schema());
    let (store, other) = (opened(&url, &support::options()), opened(&url, &support::options()));
    let repo = RepoName::default();
    let gone = block_on(line(&store, &repo, "gone", None, &["garbage"])).expect("written")[0].id();
    let mut moves = batch("delete");
    moves.refs.push(tract_core::RefEdit { to: None, ..advance("gone", Some(gone), gone) });
    done(block_on(store.apply(&repo, moves))).expect("it is written");
    let mut head: Option<CommitId> = None;
    let mut say = |text: &str| {
        let begun = Instant::now();
        head = Some(append(&other, "main", head, text));
        begun.elapsed()
    };
    let objects = vec![ObjectId::Commit(gone)];
    let sweep = |position| {
        let sweep = Sweep { position, objects: objects.clone(), tools: Vec::new() };
        block_on(store.sweep(&repo, sweep)).expect("an answer")
    };
    let mut position = block_on(store.write_position(&repo)).expect("it is read");
    say("first");
    let mut longest = Duration::ZERO;
    for n in 0..6 {
        let SweepAnswer::Moved(now) = sweep(position) else { panic!("others wrote: {n}") };
        // The first of them only learns that others write; the next ones keep the lock.
        longest = longest.max(say("next"));
        position = now;
    }
    eprintln!("a write waited at most {longest:?}");
    assert!(longest >= Duration::from_millis(20), "it waited for the collector: {longest:?}");
    assert!(longest < Duration::from_millis(250), "{longest:?}");
    assert!(block_on(store.commit(&repo, gone)).expect("it is read").is_some());
    // One that comes in time finds nothing written meanwhile, though another writer waits.
    let SweepAnswer::Moved(now) = sweep(position) else { panic!("others wrote") };
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| say("waits"));
        assert!(matches!(sweep(now), SweepAnswer::Done), "the writer waits");
        waiting.join().expect("it ends")
    });
    assert!(waiting < Duration::from_millis(250), "{waiting:?}");
    assert_eq!(block_on(store.commit(&repo, gone)).expect("it is read"), None);
    is_sound(&store);
}
