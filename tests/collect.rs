//! Garbage collection on every store: next to writers, and cut off by kills and full disks.
//! Nothing that is needed is ever lost, and the next collection continues.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tract::core::Store;
use tract::engine::{GcOptions, GcReport, KeptBy};
use tract::{CommitId, OpenOptions, Tract, block_on};
use tract_testkit::{Call, WatchedStore, figure, power};

use crate::backends::{self, Backend};
use crate::child::{task, task_command};
use crate::kills::{self, kill_at_calls, say};
use crate::server;
use crate::walks::assert_clean;

const CHILD: &str = "collect::the_child_collects";

/// The branch that stays.
const KEPT: &str = "kept";
const MESSAGES: usize = 12;

fn now() -> GcOptions {
    GcOptions { keep: Duration::ZERO, ..GcOptions::default() }
}

fn collect(tract: &Tract) -> tract::Result<GcReport> {
    block_on(tract.gc(&now()))
}

fn line(tract: &Tract, branch: &str) -> Vec<CommitId> {
    let log = block_on(tract.on(branch).unwrap().log("HEAD", usize::MAX)).unwrap_or_default();
    let mut ids: Vec<CommitId> = log.iter().map(|commit| commit.id()).collect();
    ids.reverse();
    ids
}

/// Four writers append, undo and say again what others left as garbage, while garbage is collected
/// in a loop.
#[test]
fn racing_writers_lose_nothing_on_any_store() {
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let tract = backend.fast(folder.path(), "agent");
        let handle = || backend.again(folder.path(), &tract);
        let each = tract_testkit::scaled(2_500, 0.008, 15);
        let writing = AtomicUsize::new(4);
        let (lines, rounds, deleted) = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (own, writing) = (handle(), &writing);
                    scope.spawn(move || {
                        let name = format!("writer-{writer}");
                        let tract = own.on(&name).unwrap();
                        let mut expected = Vec::new();
                        for n in 0..each {
                            let text = format!("{writer} said {n}");
                            let id = block_on(tract.user(text)).unwrap().id();
                            // Every third is undone, and said again by all writers alike.
                            expected.push(if n % 3 == 0 {
                                block_on(tract.undo()).unwrap();
                                block_on(tract.user("the same words")).unwrap().id()
                            } else {
                                id
                            });
                        }
                        writing.fetch_sub(1, Ordering::AcqRel);
                        (name, expected)
                    })
                })
                .collect();
            let own = handle();
            let writing = &writing;
            let collector = scope.spawn(move || {
                let (mut rounds, mut deleted) = (0, 0);
                while writing.load(Ordering::Acquire) > 0 || rounds == 0 {
                    deleted += collect(&own).unwrap().deleted().objects;
                    rounds += 1;
                }
                (rounds, deleted + collect(&own).unwrap().deleted().objects)
            });
            let lines: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            let (rounds, deleted) = collector.join().unwrap();
            (lines, rounds, deleted)
        });
        for (name, expected) in lines {
            assert_eq!(line(&tract, &name), expected, "{}, {name}", backend.name);
        }
        assert_clean(&tract, backend.name);
        assert!(deleted > 0, "{}: what was undone is garbage", backend.name);
        let finding = format!(
            "{} operations of 4 writers, {rounds} collections meanwhile, {deleted} objects deleted, \
             0 lost",
            4 * each
        );
        figure("T14 gc and writers", backend.name, finding);
    }
}

/// Makes a branch that stays, and garbage: commits, contents, tools.
fn prepared(backend: &Backend, folder: &Path) {
    let tract = backend.open(folder, "agent");
    let kept = tract.on(KEPT).unwrap();
    let gone = tract.on("gone").unwrap();
    for n in 0..MESSAGES {
        block_on(kept.user(format!("kept {n}"))).unwrap();
        block_on(gone.user(format!("gone {n}"))).unwrap();
    }
    block_on(tract.branches().delete("gone")).unwrap();
    block_on(tract.store().close()).unwrap();
}

/// What the other tests start; by itself it has nothing to do.
#[test]
fn the_child_collects() {
    let Some((task, backend, folder)) = task() else { return };
    match task.as_str() {
        "killed" => {
            collect(&kills::doomed(backend, &folder)).unwrap();
            say("done");
        }
        "full" => match backend.try_open(&folder, "agent", false).map(|tract| collect(&tract)) {
            Ok(Ok(_)) => say("done"),
            Ok(Err(error)) | Err(error) => say(&format!("error {}", error.code())),
        },
        "recorded" => recorded(backend, &folder),
        other => panic!("unknown task {other}"),
    }
}

/// `kill -9` before, during and after each call of a collection.
#[test]
fn a_collection_that_is_killed_leaves_a_whole_store() {
    for backend in backends::all() {
        let begin = || {
            let folder = tempfile::tempdir().unwrap();
            prepared(backend, folder.path());
            let command = task_command(CHILD, "killed", backend, folder.path());
            (folder, command)
        };
        let killed = kill_at_calls(backend, &[0], 3, begin, |folder, what| {
            let tract = backend.open(folder, "agent");
            assert_eq!(line(&tract, KEPT).len(), MESSAGES, "{what}");
            assert_clean(&tract, what);
            let report = collect(&tract).unwrap();
            assert_eq!(report.kept[&KeptBy::History].objects, 2 * MESSAGES as u64, "{what}");
            assert_clean(&tract, what);
            assert_eq!(collect(&tract).unwrap().deleted().objects, 0, "{what}");
            block_on(tract.user("it continues")).unwrap();
        });
        let (kills, calls) = (killed.kills, killed.calls);
        let finding = format!("{kills} kills at {calls} calls of a collection, 0 lost");
        figure("T14 gc and kills", backend.name, finding);
    }
}

/// The disk is full from the n-th write of a collection on.
#[test]
fn a_full_disk_in_a_collection_is_an_error_and_loses_nothing() {
    if !cfg!(target_os = "linux") {
        println!("left out: full disks in a collection, which need LD_PRELOAD");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let library = power::library(scratch.path()).expect("cc builds the library");
    for backend in [backends::named("sqlite"), backends::named("redb")] {
        let (mut errors, mut ended) = (0, 0);
        let mut rounds = tract_testkit::rounds(60, 6);
        for round in rounds.by_ref() {
            let folder = tempfile::tempdir().unwrap();
            prepared(backend, folder.path());
            // The first accesses in steps of one, later ones further apart.
            let at = 1 + round + round * round / 8;
            let output = task_command(CHILD, "full", backend, folder.path())
                .env("LD_PRELOAD", &library)
                .env("TRACT_TAPE_OF", folder.path().canonicalize().unwrap())
                .env("TRACT_FAIL_IN", "agent.")
                .env("TRACT_FAIL_HOW", "full")
                .env("TRACT_FAIL_AT", at.to_string())
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let what = format!("{}, full from access {at} on: {text}", backend.name);
            assert!(output.status.success(), "{what}");
            match text.lines().find_map(|line| line.strip_prefix("error ")) {
                Some(_) => errors += 1,
                None => {
                    assert!(text.lines().any(|line| line == "done"), "{what}");
                    ended += 1;
                }
            }
            let tract = backend.open(folder.path(), "agent");
            assert_eq!(line(&tract, KEPT).len(), MESSAGES, "{what}");
            assert_clean(&tract, &what);
            collect(&tract).unwrap();
            assert_eq!(collect(&tract).unwrap().deleted().objects, 0, "{what}");
            block_on(tract.user("there is room")).unwrap();
            assert_clean(&tract, &what);
        }
        assert!(errors > 0, "{}: no collection met the full disk", backend.name);
        let finding = format!(
            "{} full disks in a collection: {errors} typed errors, {ended} had done, 0 lost",
            rounds.done()
        );
        figure("T14 gc and full disks", backend.name, finding);
    }
}

/// Appends, deletes and collects in turns, and reports what is acknowledged.
fn recorded(backend: &Backend, folder: &Path) {
    let tract = backend.open(folder, "agent");
    let mut acknowledged = power::AckReporter::create(folder).unwrap();
    let kept = tract.on("writer-0").unwrap();
    for round in 0..3 {
        let gone = tract.on("gone").unwrap();
        for n in 0..10 {
            let message = block_on(kept.user(format!("kept {round} {n}"))).unwrap();
            acknowledged.add(0, message.id()).unwrap();
            block_on(gone.user(format!("gone {round} {n} {}", "x".repeat(9_000)))).unwrap();
        }
        block_on(tract.branches().delete("gone")).unwrap();
        assert!(collect(&tract).unwrap().deleted().objects >= 20);
    }
    block_on(tract.store().close()).unwrap();
}

/// Cuts the power at any moment of the task `recorded` of a test, on the stores that are written to as
/// files. What was acknowledged must be there; what else holds of an image is checked.
pub(crate) fn lose_power(
    test: &str,
    (name, of): (&str, &str),
    (full, least): (usize, usize),
    check: impl Fn(&Tract, &str),
) {
    for backend in [backends::named("sqlite"), backends::named("redb")] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = task_command(test, "recorded", backend, folder.path());
        let Some(tape) = power::record(&mut child, folder.path()).unwrap() else {
            println!("left out: the loss of power in {of}, which needs LD_PRELOAD");
            return;
        };
        let images = tempfile::tempdir().unwrap();
        let open = |image: &power::Image| {
            let place = images.path().join(image.number().to_string());
            image.write_to(&place).unwrap();
            let tract = backend.open(&place, "agent");
            check(&tract, &format!("{}, image {}", backend.name, image.number()));
            Ok(Arc::clone(tract.store()))
        };
        let mut rounds = tract_testkit::rounds(full, least);
        let losses = power::losses(&tape, &mut rounds, open).expect(backend.name);
        let finding = format!(
            "{} images of {of}: 0 acknowledged lost, {} times the write in flight was there",
            losses.images, losses.in_flight
        );
        figure(name, backend.name, finding);
    }
}

/// The power goes at any moment of appends and collections: what was acknowledged is there, and
/// what was half deleted is collected by the next collection.
#[test]
fn a_loss_of_power_in_a_collection_loses_nothing() {
    let name = ("T14 gc and power", "appends and collections");
    lose_power(CHILD, name, (1_000, 40), |tract, what| {
        assert_clean(tract, what);
        collect(tract).unwrap();
        assert_clean(tract, what);
        assert_eq!(collect(tract).unwrap().deleted().objects, 0, "{what}");
    });
}

/// What is deleted is given back to the file system, or the report says what gives it back.
#[test]
fn a_store_shrinks_when_what_it_held_is_deleted() {
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let tract = backend.open(folder.path(), "agent");
        block_on(tract.user("kept")).unwrap();
        let gone = tract.on("gone").unwrap();
        // Nothing that an engine could compress.
        let mut state = 1u64;
        let mut letter = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + (state >> 60) as u8)
        };
        for _ in 0..40 {
            let text: String = (0..100_000).map(&mut letter).collect();
            block_on(gone.user(text)).unwrap();
        }
        block_on(tract.branches().delete("gone")).unwrap();
        let report = collect(&tract).unwrap();
        let space = report.released.unwrap();
        let what = format!("{}: {space:?}", backend.name);
        assert!(space.before > 2_000_000, "{what}");
        match backend.name {
            "sqlite" | "redb" => {
                assert!(space.after < space.before / 2, "{what}");
                assert_eq!(space.note, None, "{what}");
            }
            "postgres" => {
                assert!(space.after < space.before, "{what}");
                if let Some(note) = &space.note {
                    assert!(note.contains("VACUUM FULL"), "{what}");
                }
            }
            _ => assert!(space.after <= space.before, "{what}"),
        }
        assert_clean(&tract, backend.name);
    }
}

/// Two collections of two repositories of one store, at once and next to their writers.
#[test]
fn repositories_of_one_store_are_collected_apart() {
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let first = backend.fast(folder.path(), "agent");
        let each = tract_testkit::scaled(200, 0.1, 12);
        std::thread::scope(|scope| {
            for name in ["one", "two"] {
                let own = backend.again(folder.path(), &first);
                scope.spawn(move || {
                    let options = OpenOptions::new().repo(name);
                    let store = Arc::clone(own.store());
                    let tract = block_on(options.open_store(store)).unwrap();
                    for n in 0..each {
                        block_on(tract.user(format!("kept {n}"))).unwrap();
                        // Both say the same, so that a mix of repositories would be seen.
                        block_on(tract.user(format!("undone {}", n / 2))).unwrap();
                        block_on(tract.undo()).unwrap();
                        if n % 3 == 2 {
                            collect(&tract).unwrap();
                        }
                    }
                    assert_eq!(block_on(tract.log("HEAD", usize::MAX)).unwrap().len(), each);
                    assert_clean(&tract, backend.name);
                });
            }
        });
    }
}

/// A collection through roles that row-level security holds, from two handles at once.
#[test]
fn row_level_security_lets_each_repository_collect_its_own() {
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let role = "DO $$ BEGIN CREATE ROLE tract_collects LOGIN PASSWORD 'tenant'; \
                EXCEPTION WHEN duplicate_object THEN NULL; END $$; \
                DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO tract_collects', \
                current_database()); END $$";
    crate::golden::execute(role);
    let (scheme, rest) = url.split_once("://").unwrap();
    let (_, place) = rest.split_once('@').unwrap();
    let tenant = format!("{scheme}://tract_collects:tenant@{place}");
    let url = format!("{}&partitions=2&row_security=on", server::with_schema(&tenant, &schema));
    let open =
        |name: &str| block_on(OpenOptions::new().create(true).repo(name).open(&url)).unwrap();
    let others = open("other");
    block_on(others.user("said by both")).unwrap();
    block_on(others.undo()).unwrap();
    let (one, two) = (open("one"), open("one"));
    block_on(one.user("kept")).unwrap();
    block_on(one.user("said by both")).unwrap();
    block_on(two.undo()).unwrap();
    let report = collect(&two).unwrap();
    assert_eq!(report.commits.objects, 1);
    assert!(report.released.is_some());
    assert_eq!(block_on(one.redo()).unwrap_err().code(), "collected");
    assert!(block_on(others.redo()).is_ok(), "the other repository has its own");
    block_on(one.user("said by both")).unwrap();
    for tract in [&one, &two, &others] {
        assert_clean(tract, "row security");
    }
}

/// A call of the store that never comes is none that a kill could be missing.
#[test]
fn a_collection_makes_the_calls_that_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backends::named("sqlite");
    prepared(backend, folder.path());
    let (sweeps, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, seen) = (Arc::clone(&sweeps), Arc::clone(&released));
    let store = Arc::clone(backend.open(folder.path(), "agent").store());
    let watched = WatchedStore::new(store, move |call: Call<'_>| {
        counted.fetch_add(usize::from(matches!(call, Call::Sweep { .. })), Ordering::Relaxed);
        seen.fetch_or(matches!(call, Call::ReleaseSpace { .. }), Ordering::Relaxed);
        Ok(())
    });
    collect(&block_on(OpenOptions::new().open_store(watched)).unwrap()).unwrap();
    assert!(sweeps.load(Ordering::Relaxed) >= 2, "commits, then contents");
    assert!(released.load(Ordering::Relaxed));
}
