//! Writes that come at once go together (the functions `append_group`), each with an answer of its own.

use std::sync::{Arc, Barrier};
use std::thread;

use tract_core::store::{LogQuery, RefRepository};
use tract_core::{
    Applied, Batch, CommitId, ObjectId, RefTarget, Store, StoreErrorKind, StoreExt, StoreResult,
    block_on,
};
use tract_store_postgres::{PostgresOptions, PostgresStore};
use tract_testkit::fixtures::{
    advance, appending, batch, branch, push, push_with_tools, record, schemas, seal,
};

use crate::proxy::Proxy;
use crate::server;
use crate::support::{self, append, is_sound, length, repo};

const WRITERS: usize = 12;

fn name(writer: usize) -> String {
    format!("writer-{writer}")
}

fn opened(url: &str, row_security: bool) -> Arc<PostgresStore> {
    let options = PostgresOptions {
        row_security,
        pool_size: 4,
        named_statements: !row_security,
        ..support::options()
    };
    Arc::new(support::opened(url, &options))
}

/// Makes a branch for each writer; the store then knows the short way.
fn branches(store: &PostgresStore) -> Vec<CommitId> {
    let begin = |writer| append(store, &name(writer), None, &format!("{writer} begins"));
    (0..WRITERS).map(begin).collect()
}

/// Applies batches at once, again and again those of the next round; gives the answers of each
/// writer.
pub(crate) fn at_once(
    store: &Arc<PostgresStore>,
    writers: Vec<Vec<Batch>>,
) -> Vec<Vec<StoreResult<Applied>>> {
    let start = Arc::new(Barrier::new(writers.len()));
    let threads: Vec<_> = writers
        .into_iter()
        .map(|batches| {
            let (store, start) = (Arc::clone(store), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                let apply = |writing| block_on(store.apply(&repo(), writing));
                batches.into_iter().map(apply).collect::<Vec<_>>()
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
}

#[test]
fn writes_at_once_share_round_trips_and_each_is_stored_whole() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let proxy = Proxy::before(&url);
        let store = opened(&server::with_schema(proxy.url(), &server::schema()), row_security);
        let mut heads = branches(&store);
        let rounds = 30;
        let writers = heads.iter_mut().enumerate().map(|(writer, head)| {
            let mut next = |round: usize| {
                let mut writing = batch("commit");
                // Lines of one commit to four, with a content each; one that all writers share.
                let texts = (0..round % 4).map(|n| format!("{writer} says {round}.{n}"));
                for text in texts.chain([format!("all say {round}")]) {
                    *head = push(&mut writing, Some(*head), &text).id();
                }
                let before = writing.commits[0].parent();
                writing.refs.push(advance(&name(writer), before, *head));
                writing
            };
            (0..rounds).map(&mut next).collect()
        });
        let before = proxy.trips();
        for answer in at_once(&store, writers.collect()).into_iter().flatten() {
            assert_eq!(answer.expect("an answer"), Applied::Done);
        }
        let trips = proxy.trips() - before;
        assert!(trips < WRITERS * rounds / 2, "{trips} round trips of {} writes", WRITERS * rounds);
        for (writer, head) in heads.iter().enumerate() {
            assert_eq!(
                length(&store, *head),
                1 + (0..rounds).map(|round| 1 + round % 4).sum::<usize>()
            );
            let query = LogQuery { name: Some(branch(&name(writer))), ..LogQuery::default() };
            let log = block_on(store.ref_log(&repo(), &query)).expect("it is read");
            assert_eq!(log.len(), 1 + rounds);
        }
        is_sound(&store);
    }
}

/// When one of them fails, the others are written, and each gets the answer that it would get
/// alone.
#[test]
fn writes_that_go_together_are_answered_each_for_itself() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let store = opened(&server::with_schema(&url, &server::schema()), row_security);
        let heads = branches(&store);
        let apply = |writing| block_on(store.apply(&repo(), writing)).expect("an answer");
        let (won, winner) = appending(&name(0), Some(heads[0]), "won");
        assert_eq!(apply(won.clone()), Applied::Done);
        let tools = schemas(&[r#"{"name":"t"}"#]);
        let mut writing = batch("tools");
        let armed = push_with_tools(&mut writing, Some(heads[1]), "with a tool", &tools);
        writing.refs.push(advance(&name(1), Some(heads[1]), armed.id()));
        assert_eq!(apply(writing), Applied::Done);
        // A commit that brings no content of its own.
        let linking = |branch: usize, head, text: &str| {
            let (mut record, content) = record(Some(head), text);
            (record.toolset, record.active) = (armed.toolset, armed.active);
            let commit = seal(record);
            let mut writing = batch("links");
            writing.requires.push(ObjectId::Blob(content.id()));
            writing.refs.push(advance(&name(branch), Some(head), commit.id()));
            let id = commit.id();
            writing.commits.push(commit);
            (writing, id)
        };
        let (mut links_at, mut fits_at, mut forks_at) = (heads[2], heads[4], heads[5]);
        for round in 0..20 {
            let round_text = format!("round {round}");
            let (lost, _) = appending(&name(0), Some(heads[0]), &round_text);
            let (links, linked) = linking(2, links_at, "with a tool");
            let (lacks, _) = linking(3, heads[3], "this was not stored");
            let (fits, fit) = appending(&name(4), Some(fits_at), &round_text);
            // It continues what the one before is about to write.
            let (follows, followed) = appending(&name(4), Some(fit), &round_text);
            // It continues what has been continued already, so it begins a segment.
            let mut forks = batch("commit");
            let forked = push(&mut forks, Some(heads[0]), &round_text).id();
            forks.refs.push(advance(&name(5), Some(forks_at), forked));
            (links_at, fits_at, forks_at) = (linked, followed, forked);

            let writers = [vec![won.clone()], vec![lost], vec![links], vec![lacks], vec![forks]];
            let writers = writers.into_iter().chain([vec![fits, follows]]).collect();
            let mut answers = at_once(&store, writers).into_iter().flatten();
            let mut next = || answers.next().expect("an answer each");
            assert_eq!(next().expect("an answer"), Applied::Already);
            let target = RefTarget::Commit(winner);
            match next().expect("an answer") {
                Applied::Conflict(conflict) => assert_eq!(conflict.found, Some(target)),
                other => panic!("expected a conflict, found {other:?}"),
            }
            assert_eq!(next().expect("it links to what is stored"), Applied::Done);
            let missing = next().expect_err("its content is missing");
            assert!(matches!(missing.kind, StoreErrorKind::Missing { .. }), "{missing}");
            assert_eq!(next().expect("it forks"), Applied::Done);
            assert_eq!(next().expect("it fits"), Applied::Done);
            assert_eq!(next().expect("it follows"), Applied::Done);
        }
        assert_eq!([links_at, fits_at, forks_at].map(|head| length(&store, head)), [21, 41, 2]);
        is_sound(&store);
    }
}

/// A write waits only for the refs that it moves, and no error reports the wait.
#[test]
fn refs_that_are_held_elsewhere_hold_up_their_own_writes_alone() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let store = opened(&server::with_schema(url, &schema), false);
    let heads = branches(&store);
    let held = [name(0), name(1)].map(|name| format!("'heads/{name}'")).join(", ");
    let lock = format!("SELECT 1 FROM {schema}.refs WHERE name IN ({held}) FOR UPDATE");
    let held = support::hold(url, &lock);
    let next = heads.iter().enumerate().map(|(writer, head)| {
        let (writing, next) = appending(&name(writer), Some(*head), "next");
        (vec![writing], next)
    });
    let (mut writings, nexts): (Vec<_>, Vec<_>) = next.unzip();
    let others = writings.split_off(2);
    // One of the two goes alone, and waits; the other goes with some that are not held.
    let waits = thread::spawn({
        let store = Arc::clone(&store);
        move || at_once(&store, writings)
    });
    for answer in at_once(&store, others).into_iter().flatten() {
        assert_eq!(answer.expect("an answer"), Applied::Done);
    }
    assert!(!waits.is_finished());
    held.release();
    for answer in waits.join().expect("it ends").into_iter().flatten() {
        assert_eq!(answer.expect("an answer"), Applied::Done);
    }
    for head in nexts {
        assert_eq!(length(&store, head), 2);
    }
    is_sound(&store);
}

/// Two handles write to the same refs, each in groups: of two that expect the same, one goes through.
#[test]
fn groups_of_two_handles_lose_no_write_of_each_other() {
    let Some(url) = server::shared() else { return };
    let url = server::with_schema(url, &server::schema());
    let stores = [opened(&url, false), opened(&url, false)];
    let rounds = 40;
    let branches = 6;
    let begun = self::branches(&stores[0]);
    // The other handle learns the short way.
    append(&stores[1], "elsewhere", None, "elsewhere");
    let start = Arc::new(Barrier::new(stores.len() * branches));
    let threads: Vec<_> = stores
        .iter()
        .enumerate()
        .flat_map(|(handle, store)| {
            begun.iter().take(branches).map(move |head| (handle, store, *head))
        })
        .enumerate()
        .map(|(n, (handle, store, mut head))| {
            let (store, start) = (Arc::clone(store), Arc::clone(&start));
            let branch = name(n % branches);
            thread::spawn(move || {
                start.wait();
                let mut written = 0;
                while written < rounds {
                    let (writing, next) =
                        appending(&branch, Some(head), &format!("{handle} {written}"));
                    match block_on(store.apply(&repo(), writing)).expect("an answer") {
                        Applied::Conflict(conflict) => match conflict.found {
                            Some(RefTarget::Commit(found)) => head = found,
                            other => panic!("expected a commit, found {other:?}"),
                        },
                        _ => (head, written) = (next, written + 1),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    for writer in 0..branches {
        let target = block_on(stores[0].ref_target(&repo(), &branch(&name(writer))));
        let Some(RefTarget::Commit(head)) = target.expect("it is read") else {
            panic!("the branch is gone")
        };
        assert_eq!(length(&stores[0], head), 1 + stores.len() * rounds);
    }
    is_sound(&stores[0]);
}

/// Answers that are lost are resolved for each of a group, and nothing happens twice.
#[test]
fn lost_answers_of_groups_are_resolved() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let store = opened(&server::with_schema(proxy.url(), &server::schema()), false);
    let mut heads = branches(&store);
    for _ in 0..10 {
        let writers = heads.iter_mut().enumerate().map(|(writer, head)| {
            let (writing, next) = appending(&name(writer), Some(*head), "next");
            *head = next;
            vec![writing]
        });
        let writers = writers.collect();
        proxy.lose_answer();
        for answer in at_once(&store, writers).into_iter().flatten() {
            let answer = answer.expect("an answer");
            assert!(matches!(answer, Applied::Done | Applied::Already), "{answer:?}");
        }
    }
    for (writer, head) in heads.iter().enumerate() {
        assert_eq!(length(&store, *head), 11);
        let query = LogQuery { name: Some(branch(&name(writer))), ..LogQuery::default() };
        assert_eq!(block_on(store.ref_log(&repo(), &query)).expect("it is read").len(), 11);
    }
    is_sound(&store);
}
