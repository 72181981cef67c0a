//! What was erased stays away, in each way of writing, and while others write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tract_core::store::RefRepository;
use tract_core::{
    Applied, Batch, Blob, BlobId, Commit, CommitId, ObjectId, RefName, RepoName, Store,
    StoreErrorKind, StoreExt, StoreResult, block_on,
};
use tract_store_postgres::{PostgresOptions, PostgresStore, open};
use tract_testkit::fixtures::{
    advance, appending, batch, done, erasing, line, push_with_tools, record, schemas, seal, toolset,
};

use crate::group::at_once;
use crate::server;
use crate::short::without_apply;
use crate::support::{self, append, length, repo, turn};

/// The url of a new store, and a handle; with row-level security for a role that it holds.
fn opened(url: &str, row_security: bool) -> (String, PostgresStore) {
    let url = support::role(url, row_security);
    let url = server::with_schema(&url, &server::schema());
    let store = again(&url, row_security);
    (url, store)
}

fn again(url: &str, row_security: bool) -> PostgresStore {
    support::opened(url, &PostgresOptions { row_security, ..support::options() })
}

/// Makes a batch whose commit links to a content that it does not bring.
fn linking(branch: &str, head: CommitId, text: &str) -> (Batch, CommitId) {
    let (record, _) = record(Some(head), text);
    let commit = seal(record);
    let refs = vec![advance(branch, Some(head), commit.id())];
    let id = commit.id();
    (Batch { commits: vec![commit], refs, ..batch("link") }, id)
}

fn content(commit: &Commit) -> BlobId {
    commit.content.expect("a message has content")
}

fn secret() -> BlobId {
    record(None, "the secret").1.id()
}

#[track_caller]
fn is_erased(answer: &StoreResult<Applied>) {
    let object = ObjectId::Blob(secret());
    match answer {
        Err(error) => assert_eq!(error.kind, StoreErrorKind::Erased { object }, "{error}"),
        Ok(answer) => panic!("expected a refusal that names the erasure, found {answer:?}"),
    }
}

fn is_sound(store: &PostgresStore, repo: &RepoName) {
    assert_eq!(block_on(store.check(repo, false)).expect("it is checked"), []);
    assert_eq!(block_on(store.blob(repo, secret())).expect("it is read"), None);
}

#[test]
fn an_append_that_brings_or_needs_what_was_erased_is_refused() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let (with_schema, store) = opened(url, row_security);
        let apply = |writing| block_on(store.apply(&repo(), writing));
        let commits = block_on(line(&store, &repo(), "main", None, &["one", "the secret", "two"]));
        let mut head = commits.expect("they are written")[2].id();
        done(apply(erasing(secret()))).expect("it is erased");
        is_erased(&apply(appending("main", Some(head), "the secret").0));
        is_erased(&apply(linking("main", head, "the secret").0));
        is_erased(&apply(turn("main", head, &["a call", "the secret"]).0));
        // All else goes the short way as before.
        let schema = with_schema.rsplit_once("schema=").expect("a url with a schema").1;
        without_apply(url, schema, || {
            for n in 0..3 {
                let (message, answer) = (format!("message {n}"), format!("answer {n}"));
                let (writing, last) = turn("main", head, &[&message, &answer]);
                done(apply(writing)).expect("it is written");
                head = append(&store, "main", Some(last), &format!("thanks {n}"));
            }
        });
        assert_eq!(length(&store, head), 12);
        is_sound(&store, &repo());
    }
}

#[test]
fn of_writes_that_go_together_those_with_what_was_erased_are_refused() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let store = Arc::new(opened(url, row_security).1);
        let mut heads = Vec::new();
        for n in 0..24 {
            heads.push(append(&store, &format!("b{n}"), None, &format!("branch {n}")));
        }
        append(&store, "secret", None, "the secret");
        done(block_on(store.apply(&repo(), erasing(secret())))).expect("it is erased");
        // As a group: the first content of a batch, one behind it, and one that it links to.
        let batches = heads.iter().enumerate().map(|(n, head)| {
            let branch = format!("b{n}");
            match n % 4 {
                0 => appending(&branch, Some(*head), "the secret").0,
                1 => turn(&branch, *head, &["fine", "the secret"]).0,
                2 => linking(&branch, *head, "the secret").0,
                _ => appending(&branch, Some(*head), "fine").0,
            }
        });
        let writers = batches.map(|batch| vec![batch]).collect();
        for (n, answer) in at_once(&store, writers).into_iter().flatten().enumerate() {
            if n % 4 == 3 { done(answer).expect("it is written") } else { is_erased(&answer) }
        }
        // As a chain: those behind the refused one find the branch elsewhere.
        let mut writes = Vec::new();
        let mut head = heads[0];
        for text in ["a", "b", "the secret", "c"] {
            let (writing, next) = appending("b0", Some(head), text);
            writes.push(writing);
            head = next;
        }
        let all = repo();
        let mut futures: Vec<_> =
            writes.into_iter().map(|writing| store.apply(&all, writing)).collect();
        block_on(std::future::poll_fn(|context| {
            // The first poll hands a batch over.
            futures.iter_mut().for_each(|write| assert!(write.as_mut().poll(context).is_pending()));
            std::task::Poll::Ready(())
        }));
        let answers: Vec<_> = futures.into_iter().map(block_on).collect();
        assert!(matches!(answers[..2], [Ok(Applied::Done), Ok(Applied::Done)]), "{answers:?}");
        is_erased(&answers[2]);
        assert!(matches!(answers[3], Ok(Applied::Conflict(_))), "{answers:?}");
        is_sound(&store, &repo());
    }
}

/// The ways in which a writer that races with an erasure brings or needs the blob.
fn racing(way: usize, branch: &str, head: CommitId) -> Batch {
    match way {
        0 => appending(branch, Some(head), "the secret").0,
        1 => linking(branch, head, "the secret").0,
        2 => turn(branch, head, &["fine", "the secret"]).0,
        // Two refs go the long way.
        3 => {
            let (mut writing, next) = appending(branch, Some(head), "the secret");
            writing.refs.push(advance(&format!("{branch}-too"), None, next));
            writing
        }
        _ => {
            let (mut writing, next) = linking(branch, head, "the secret");
            writing.refs.push(advance(&format!("{branch}-too"), None, next));
            writing
        }
    }
}

/// Whichever comes first, no byte comes back, and no commit links to what is neither stored nor
/// erased.
#[test]
fn writers_that_race_with_an_erasure_bring_nothing_back() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let (with_schema, one) = opened(url, row_security);
        let other = again(&with_schema, row_security);
        let eraser = again(&with_schema, row_security);
        let (written, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for round in tract_testkit::rounds(60, 12) {
            let repo = RepoName::new(format!("round-{round}")).expect("a name");
            let commits = block_on(line(&one, &repo, "main", None, &["one", "the secret"]));
            let head = commits.expect("they are written")[1].id();
            let branches: Vec<String> = (0..10).map(|n| format!("b{n}")).collect();
            let mut writing = batch("branches");
            writing.refs.extend(branches.iter().map(|branch| advance(branch, None, head)));
            done(block_on(one.apply(&repo, writing))).expect("it is written");
            // Both handles know the short way.
            block_on(line(&other, &repo, "other", Some(head), &["x", "y"])).expect("written");
            let start = Barrier::new(branches.len() + 1);
            thread::scope(|scope| {
                for (n, branch) in branches.iter().enumerate() {
                    let store = if n < 5 { &one } else { &other };
                    let (repo, start, written, refused) = (&repo, &start, &written, &refused);
                    let writing = racing(n % 5, branch, head);
                    scope.spawn(move || {
                        start.wait();
                        thread::sleep(Duration::from_micros(300 * (n as u64 % 3)));
                        match block_on(store.apply(repo, writing)) {
                            Ok(Applied::Done) => written.fetch_add(1, Ordering::Relaxed),
                            answer => {
                                is_erased(&answer);
                                refused.fetch_add(1, Ordering::Relaxed)
                            }
                        }
                    });
                }
                let (repo, start, eraser) = (&repo, &start, &eraser);
                scope.spawn(move || {
                    start.wait();
                    thread::sleep(Duration::from_micros(200 * (round as u64 % 12)));
                    done(block_on(eraser.apply(repo, erasing(secret())))).expect("it is erased");
                });
            });
            is_sound(&one, &repo);
            let name = RefName::erasure(secret());
            let erasure = block_on(one.ref_target(&repo, &name)).expect("it is read");
            assert!(erasure.is_some());
        }
        let counts = [written, refused].map(AtomicUsize::into_inner);
        eprintln!("row security {row_security}: written before and refused after {counts:?}");
        assert!(counts.iter().all(|count| *count > 0), "each came first at times: {counts:?}");
    }
}

/// An erasure that waits for a slow writer holds up no other, and says so when it takes too long.
#[test]
fn an_erasure_that_waits_delays_writers_by_a_moment() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let with_schema = server::with_schema(url, &schema);
    let store = again(&with_schema, false);
    let commits = block_on(line(&store, &repo(), "main", None, &["the secret"]));
    let mut head = commits.expect("it is written")[0].id();
    let sql = format!("SELECT pg_advisory_xact_lock_shared(id) FROM {schema}.repos");
    let held = support::hold(url, &sql);
    let options = PostgresOptions { retry_for: Duration::from_millis(1500), ..support::options() };
    let eraser = block_on(open(&with_schema, &options)).expect("it opens");
    let waiting = thread::spawn(move || {
        let answer = block_on(eraser.apply(&repo(), erasing(secret())));
        (answer, eraser)
    });
    let (mut longest, mut count) = (Duration::ZERO, 0);
    while !waiting.is_finished() {
        let begun = Instant::now();
        let next = append(&store, "main", Some(head), &format!("message {count}"));
        longest = longest.max(begun.elapsed());
        (head, count) = (next, count + 1);
    }
    let (answer, eraser) = waiting.join().expect("it ends");
    let error = answer.expect_err("the writer takes too long");
    assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
    eprintln!("{count} writes meanwhile, the longest took {longest:?}");
    assert!(count > 5 && longest < Duration::from_millis(250), "{count} writes, {longest:?}");
    assert!(block_on(store.blob(&repo(), secret())).expect("it is read").is_some());
    held.release();
    done(block_on(eraser.apply(&repo(), erasing(secret())))).expect("it is erased");
    is_sound(&store, &repo());
}

#[test]
fn a_store_with_older_functions_erases_once_its_owner_has_opened_it() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let with_schema = server::with_schema(url, &schema);
    let store = again(&with_schema, false);
    block_on(line(&store, &repo(), "main", None, &["the secret"])).expect("it is written");
    drop(store);
    support::set_edition(url, &schema, Some(5));
    support::grant_all(url, &schema);
    let guest = again(&server::with_schema(&support::tenant_url(url), &schema), false);
    assert!(!guest.capabilities().erases);
    let unsupported = |error: tract_core::StoreError| {
        assert_eq!(error.kind, StoreErrorKind::Unsupported, "{error}");
        assert!(error.message.contains("cannot erase"), "{error}");
    };
    unsupported(block_on(guest.apply(&repo(), erasing(secret()))).expect_err("older functions"));
    unsupported(block_on(guest.wipe()).expect_err("older functions"));
    let refs = block_on(guest.list_refs(&repo(), RefName::erasures())).expect("they are listed");
    assert_eq!(refs, [], "nothing was made");
    let owner = again(&with_schema, false);
    assert!(owner.capabilities().erases);
    done(block_on(owner.apply(&repo(), erasing(secret())))).expect("it is erased");
    // The guest's handle was opened before, and writes by the new functions.
    is_erased(&block_on(guest.apply(&repo(), appending("guest", None, "the secret").0)));
    is_sound(&owner, &repo());
}

#[test]
fn checks_and_repairs_take_what_was_erased_as_it_is() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let (_, store) = opened(url, row_security);
        let apply = |writing| block_on(store.apply(&repo(), writing));
        let tools = schemas(&[r#"{"name":"find","description":"knows the secret"}"#]);
        let mut writing = batch("commit");
        let first = push_with_tools(&mut writing, None, "the secret", &tools);
        writing.refs.push(advance("main", None, first.id()));
        done(apply(writing)).expect("it is written");
        let schema = tools[0].blob().id();
        done(apply(erasing(schema))).expect("it is erased");
        done(apply(erasing(content(&first)))).expect("it is erased");
        is_sound(&store, &repo());
        // A repair rebuilds the index of tools without the text of the schema.
        block_on(store.check(&repo(), true)).expect("it is repaired");
        is_sound(&store, &repo());
        let names = block_on(tract_core::store::ToolRepository::tool_names(&store, &repo()));
        assert_eq!(names.expect("they are listed"), ["find"]);
        // What a batch erases it may link to, whether or not it was ever here.
        let never = schemas(&[r#"{"name":"never","description":"here"}"#]);
        let (mut carried, content) = record(Some(first.id()), "never here");
        carried.toolset = Some(toolset(&never).id());
        let mut writing = erasing(content.id());
        let document = erasing(never[0].blob().id());
        writing.blobs.extend(document.blobs);
        writing.refs.extend(document.refs);
        writing.toolsets.push(toolset(&never));
        let commit = seal(carried);
        writing.refs.push(advance("main", Some(first.id()), commit.id()));
        writing.commits.push(commit);
        done(apply(writing)).expect("it is written");
        is_sound(&store, &repo());
        let mut missing = batch("commit");
        missing.requires.push(ObjectId::Blob(Blob::seal("never stored").id()));
        let error = apply(missing).expect_err("it is missing");
        assert!(matches!(error.kind, StoreErrorKind::Missing { .. }), "{error}");
    }
}
