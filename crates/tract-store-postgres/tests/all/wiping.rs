//! What was erased is in no file of the server after a wipe, and a wipe waits for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tract_core::store::RefRepository;
use tract_core::{
    BlobId, CommitId, Draft, RefName, RepoName, Store, StoreErrorKind, StoreExt, block_on,
};
use tract_engine::secrets::Scanner;
use tract_engine::{
    EraseRequest, GcOptions, PushOptions, Repo, RepoOptions, SearchOptions, VerifyOptions, erase,
    finish_erasures, gc, push, search, verify,
};
use tract_store_postgres::{PostgresOptions, PostgresStore};
use tract_testkit::fixtures::{done, erasing, line};

use crate::server::{self, Server};
use crate::support::{self, append, is_sound, length};

fn main_branch() -> RefName {
    RefName::branch("main").expect("a name")
}

fn repo_of(store: PostgresStore) -> Repo {
    Repo::new(Arc::new(store), RepoOptions { who: "tester".to_owned(), ..RepoOptions::default() })
}

fn opened(url: &str) -> PostgresStore {
    support::opened(url, &support::options())
}

/// A text of so many bytes that no server compresses, with a needle in the middle.
fn random(bytes: usize, needle: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 7_u64;
    let mut letter = || {
        // A generator of Knuth's.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        char::from(LETTERS[usize::from((state >> 40) as u8 % 64)])
    };
    let mut text: String = (0..bytes / 2).map(|_| letter()).collect();
    text.push_str(needle);
    text.extend((0..bytes / 2).map(|_| letter()));
    text
}

/// How the server stores the texts of this test.
const ALL: [&str; 4] = ["in the row", "next to the row", "in portions", "compressible"];

fn in_the_row() -> String {
    format!("the code of the vault is {}, keep it", needle(1))
}

fn texts() -> [String; 4] {
    let long = "and so on and so on ".repeat(6_000);
    [
        in_the_row(),
        random(150_000, &needle(2)),
        random(9 << 20, &needle(3)),
        format!("{long}{}{long}", needle(4)),
    ]
}

fn needle(n: usize) -> String {
    format!("ACME-2026000{n}-xyzzy")
}

/// Writes the texts, and what is derived from them; gives their blobs.
fn fill(repo: &Repo, texts: &[String]) -> Vec<BlobId> {
    let mut blobs = Vec::new();
    for text in texts {
        let commit = block_on(repo.append(&main_branch(), Draft::user(text)));
        blobs.extend(commit.expect("it is written").content);
    }
    for n in 0..40 {
        let draft = Draft::user(format!("message {n}"));
        block_on(repo.append(&main_branch(), draft)).expect("it is written");
    }
    let head = block_on(repo.head_of(&main_branch())).expect("it is read").expect("a head");
    block_on(search(repo, &[head], "vault", &SearchOptions::default())).expect("it is searched");
    blobs
}

/// Which of the texts are in files of the server.
fn found(server: &Server) -> Vec<&'static str> {
    support::execute(&server.url(), "CHECKPOINT");
    let there = |n| !server.files_with(&needle(n)).is_empty();
    ALL.into_iter().zip(1..).filter(|(_, n)| there(*n)).map(|(kind, _)| kind).collect()
}

fn is_clean(repo: &Repo, erased: usize) {
    let report = block_on(verify(repo, &VerifyOptions::default())).expect("it is read");
    assert!(report.clean, "{:?}", report.damage);
    assert_eq!(report.erased.len(), erased);
}

/// The law of erasures: searched in all files of a server, its write-ahead log apart, of which the
/// report says that it has them.
#[test]
fn no_file_of_the_server_has_what_was_erased() {
    let Some(server) = Server::start(&[]) else { return server::left_out() };
    let url = server::with_schema(&server.url(), "files");
    let repo = repo_of(opened(&url));
    // Else the server hides the compressible one from a search of files.
    let sql = "ALTER TABLE files.blobs ALTER COLUMN data SET STORAGE EXTERNAL";
    support::execute(&server.url(), sql);
    let texts = texts();
    let blobs = fill(&repo, &texts);
    support::execute(&server.url(), "ANALYZE");
    assert_eq!(found(&server), ALL);
    // Deleted, the rows are still in the files.
    for blob in &blobs {
        done(block_on(repo.store().apply(repo.name(), erasing(*blob)))).expect("it is erased");
    }
    assert_eq!(found(&server), ALL);
    // Another process wipes, as `tract erase --finish` does.
    let fresh = repo_of(opened(&url));
    let wiped = block_on(finish_erasures(&fresh)).expect("it is wiped");
    assert!(wiped.remains[0].contains("pg_wal"), "{wiped:?}");
    assert_eq!(wiped.remains.len(), 1, "{wiped:?}");
    assert_eq!(found(&server), [""; 0]);
    is_clean(&fresh, 4);

    // One call does all of it. The store is used meanwhile, and after it.
    let url = server::with_schema(&server.url(), "calls");
    let repo = repo_of(opened(&url));
    fill(&repo, &texts);
    assert_eq!(found(&server), ALL[..3], "the last one is compressed");
    let scanner = Scanner::empty().with_pattern("ACME-[0-9]{8}-xyzzy").expect("a pattern");
    let report = block_on(erase(&repo, &EraseRequest::secrets(scanner))).expect("it is erased");
    assert_eq!(report.blobs.len(), 4);
    report.wiped.expect("it is wiped");
    assert_eq!(found(&server), [""; 0]);
    is_clean(&repo, 4);
    block_on(gc(&repo, &GcOptions { keep: Duration::ZERO, ..GcOptions::default() }))
        .expect("it is collected");
    is_clean(&repo, 4);
    let head = block_on(repo.head_of(&main_branch())).expect("it is read");
    block_on(repo.compile(head)).expect("it compiles");
    server.stop();
    for n in 1..=4 {
        assert_eq!(server.files_with(&needle(n)), [""; 0]);
    }
}

/// A store made by an earlier version, of whose contents the server has samples for its planner.
#[test]
fn samples_of_contents_are_wiped_too() {
    let Some(server) = Server::start(&[]) else { return server::left_out() };
    let execute = |sql: &str| support::execute(&server.url(), sql);
    execute(
        "CREATE ROLE owner_of_tables LOGIN; GRANT CREATE ON DATABASE postgres TO owner_of_tables",
    );
    for user in ["tract", "owner_of_tables"] {
        let url = server.url().replace("tract@", &format!("{user}@"));
        let store = opened(&server::with_schema(&url, user));
        for table in ["blobs", "blobs_0", "blobs_1"] {
            let sql = format!("ALTER TABLE {user}.{table} ALTER COLUMN data SET STATISTICS -1");
            execute(&sql);
        }
        let repo = repo_of(store);
        let blobs = fill(&repo, &[in_the_row()]);
        execute("ANALYZE");
        let samples = || {
            execute("CHECKPOINT");
            let sql = "SELECT pg_relation_filepath('pg_statistic')";
            let path = support::ask(&server.url(), sql)[0].get::<_, String>(0);
            let files = server.files_with(&needle(1));
            files.iter().any(|file| file.ends_with(&path))
        };
        assert!(samples(), "the server has a sample of the content in the row");
        done(block_on(repo.store().apply(repo.name(), erasing(blobs[0])))).expect("erased");
        let wiped = block_on(finish_erasures(&repo)).expect("it is wiped");
        if user == "tract" {
            assert_eq!(wiped.remains.len(), 1, "{wiped:?}");
        } else {
            // The owner of the tables is not that of the database.
            let note = wiped.remains.iter().find(|note| note.contains("pg_statistic"));
            let (_, commands) = note.and_then(|note| note.split_once('`')).expect("what is left");
            let commands = commands.trim_end_matches('`').split("; ");
            commands.for_each(&execute);
        }
        let wiped = block_on(finish_erasures(&repo)).expect("it is wiped");
        assert!(!wiped.remains.iter().any(|note| note.contains("pg_statistic")), "{wiped:?}");
        execute("ANALYZE");
        assert!(!samples());
        execute("CHECKPOINT");
        assert_eq!(server.files_with(&needle(1)), [""; 0]);
    }
}

/// A store with an erased message, of which the old row is still in the file.
fn erased(url: &str) -> (PostgresStore, CommitId) {
    let store = opened(url);
    let repo = RepoName::default();
    let commits = block_on(line(&store, &repo, "main", None, &["one", "the secret"]));
    let commits = commits.expect("they are written");
    let blob = commits[1].content.expect("a message");
    done(block_on(store.apply(&repo, erasing(blob)))).expect("it is erased");
    (store, commits[1].id())
}

#[test]
fn a_wipe_that_waits_for_others_is_busy_and_delays_no_writer() {
    let Some(server) = Server::start(&[]) else { return server::left_out() };
    let url = &server.url();
    let with_schema = server::with_schema(url, "busy");
    let (store, mut head) = erased(&with_schema);
    drop(store);
    let options =
        PostgresOptions { statement_timeout: Duration::from_millis(1500), ..support::options() };
    let cases = [
        // A reader of a table, and one that may still read what was deleted.
        ("LOCK TABLE busy.blobs IN ACCESS SHARE MODE", "others use the table \"busy\".blobs"),
        ("SELECT pg_current_xact_id()", "may still read what was deleted"),
    ];
    for (sql, reason) in cases {
        let wiping = support::opened(&with_schema, &options);
        let store = opened(&with_schema);
        let held = support::hold(url, sql);
        let waiting = thread::spawn(move || (block_on(wiping.wipe()), wiping));
        let (mut longest, mut count) = (Duration::ZERO, 0);
        while !waiting.is_finished() {
            let begun = Instant::now();
            let next = append(&store, "main", Some(head), &format!("{count}"));
            longest = longest.max(begun.elapsed());
            (head, count) = (next, count + 1);
        }
        let (wiped, wiping) = waiting.join().expect("it ends");
        let error = wiped.expect_err("others use it");
        assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
        assert!(error.message.contains(reason), "{error}");
        eprintln!("{count} writes meanwhile, the longest took {longest:?}");
        assert!(count > 10 && longest < Duration::from_millis(250), "{count}, {longest:?}");
        held.release();
        block_on(wiping.wipe()).expect("it is wiped");
    }
    is_sound(&opened(&with_schema));
}

/// The store is written to and read without a pause; a wipe finds its moments.
#[test]
fn a_wipe_is_done_while_others_write_and_read() {
    let Some(url) = server::shared() else { return };
    let with_schema = server::with_schema(url, &server::schema());
    let (store, head) = erased(&with_schema);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        for n in 0..4 {
            let (with_schema, end) = (&with_schema, &end);
            scope.spawn(move || {
                let store = opened(with_schema);
                let (branch, mut last) = (format!("b{n}"), None);
                while !end.load(Ordering::Acquire) {
                    let next = append(&store, &branch, last, "said again and again");
                    assert_eq!(length(&store, head), 2);
                    last = Some(next);
                }
            });
        }
        thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        let wiped = block_on(store.wipe());
        let fresh = block_on(opened(&with_schema).wipe());
        eprintln!("wiped twice in {:?}", begun.elapsed());
        end.store(true, Ordering::Release);
        wiped.expect("the tables of the erasure");
        fresh.expect("all tables");
    });
    is_sound(&store);
}

#[test]
fn a_role_that_does_not_own_the_tables_is_told_what_their_owner_runs() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    drop(erased(&server::with_schema(url, &schema)));
    support::grant_all(url, &schema);
    let guest = opened(&server::with_schema(&support::tenant_url(url), &schema));
    let repo = RepoName::default();
    assert!(guest.capabilities().erases);
    let main = block_on(guest.ref_target(&repo, &main_branch())).expect("it is read");
    let head = main.and_then(|main| main.commit()).expect("a head");
    let commit = block_on(guest.require_commit(&repo, head)).expect("it is read");
    let first = block_on(guest.require_commit(&repo, commit.parents[0])).expect("it is read");
    let blob = first.content.expect("a message");
    done(block_on(guest.apply(&repo, erasing(blob)))).expect("it is erased");
    assert_eq!(block_on(guest.blob(&repo, blob)).expect("it is read"), None);
    let error = block_on(guest.wipe()).expect_err("it is not the owner");
    assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
    let (_, rest) = error.message.split_once("`VACUUM FULL ").expect("the command");
    let (tables, _) = rest.split_once('`').expect("its end");
    assert!(tables.contains("blobs_") && tables.contains("derived_"), "{error}");
    support::execute(url, &format!("VACUUM FULL {tables}"));
}

#[test]
fn a_push_erases_on_the_server_what_was_erased_here() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let options = PostgresOptions { row_security, ..support::options() };
        let with_schema = server::with_schema(&url, &server::schema());
        let there = repo_of(support::opened(&with_schema, &options));
        let here = Repo::new(
            Arc::new(tract_kv::memory()),
            RepoOptions { who: "tester".to_owned(), ..RepoOptions::default() },
        );
        for text in ["hello", "the code is ACME-20260001-xyzzy", "noted"] {
            block_on(here.append(&main_branch(), Draft::user(text))).expect("it is written");
        }
        block_on(push(&here, &there, "team", &PushOptions::default())).expect("it is pushed");
        let scanner = Scanner::empty().with_pattern("ACME-[0-9]{8}").expect("a pattern");
        let report = block_on(erase(&here, &EraseRequest::secrets(scanner))).expect("erased");
        let pushed =
            block_on(push(&here, &there, "team", &PushOptions::default())).expect("pushed");
        assert_eq!(pushed.erased.blobs, 1);
        assert_eq!(pushed.erased.not_wiped, None);
        let blob = block_on(there.store().blob(there.name(), report.blobs[0].id));
        assert_eq!(blob.expect("it is read"), None);
        is_clean(&there, 1);
        let listed = block_on(there.store().list_refs(there.name(), RefName::erasures()));
        let listed = listed.expect("they are listed").into_iter();
        assert_eq!(listed.filter(|(name, _)| name.erased_blob().is_some()).count(), 1);
    }
}
