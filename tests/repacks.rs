//! Repacks on every store that compresses: cut off by kills and losses of power, and next to writers,
//! collections, erasures and each other. Every message reads the same afterwards.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tract::engine::{EraseRequest, EraseTarget, GcOptions};
use tract::{Draft, Tract, block_on};
use tract_testkit::fixtures::request;
use tract_testkit::{data, figure, power};

use crate::backends::{self, Backend};
use crate::child::{task, task_command};
use crate::collect::lose_power;
use crate::kills::{self, kill_at_calls, say};
use crate::walks::{assert_clean, texts};

const CHILD: &str = "repacks::the_child_repacks";

/// The branch of the messages.
const KEPT: &str = "kept";
/// Enough to train a dictionary on, and to write in two steps.
const MESSAGES: usize = 1_200;

fn drafts() -> Vec<Draft> {
    (0..MESSAGES).map(|number| Draft::user(request(number))).collect()
}

/// A store with messages.
fn prepared(backend: &Backend, folder: &Path) -> Tract {
    let tract = backend.fast(folder, "agent").on(KEPT).unwrap();
    block_on(tract.commit_all(drafts())).unwrap();
    tract
}

/// All messages read as they were written.
fn assert_reads(tract: &Tract, count: usize, what: &str) {
    let texts = texts(&tract.on(KEPT).unwrap());
    assert!(texts.len() >= count, "{what}: {} messages", texts.len());
    for (number, found) in texts.iter().take(count).enumerate() {
        assert_eq!(*found, request(number), "{what}");
    }
    assert_clean(tract, what);
}

/// What the other tests start; by itself it has nothing to do.
#[test]
fn the_child_repacks() {
    let Some((task, backend, folder)) = task() else { return };
    match task.as_str() {
        "killed" => {
            block_on(kills::doomed(backend, &folder).repack(None)).unwrap();
            say("done");
        }
        "recorded" => recorded(backend, &folder),
        other => panic!("unknown task {other}"),
    }
}

/// `kill -9` before, during and after each call of a repack.
#[test]
fn a_repack_that_is_killed_leaves_a_whole_store() {
    for backend in backends::ALL {
        let template = tempfile::tempdir().unwrap();
        block_on(prepared(backend, template.path()).store().close()).unwrap();
        let begin = || {
            let folder = tempfile::tempdir().unwrap();
            data::copy(template.path(), folder.path()).unwrap();
            let command = task_command(CHILD, "killed", backend, folder.path());
            (folder, command)
        };
        let (mut repacked, pauses) = (0, [0, 1, 2, 4, 8, 16]);
        let killed = kill_at_calls(backend, &pauses, 8, begin, |folder, what| {
            let tract = backend.open(folder, "agent");
            assert_reads(&tract, MESSAGES, what);
            let report = block_on(tract.repack(None)).unwrap();
            assert_eq!((report.blobs as usize, report.unreadable), (MESSAGES, 0), "{what}");
            repacked += usize::from(report.written > 0);
            assert_reads(&tract, MESSAGES, what);
            block_on(tract.user("it continues")).unwrap();
        });
        assert_reads(&backend.open(killed.whole.path(), "agent"), MESSAGES, backend.name);
        assert!(repacked > 0, "{}: no kill left anything to do", backend.name);
        let (kills, calls) = (killed.kills, killed.calls);
        let finding = format!("{kills} kills at {calls} calls of a repack, 0 lost");
        figure("T14 repack and kills", backend.name, finding);
    }
}

/// Appends and repacks in turns, and reports what is acknowledged.
fn recorded(backend: &Backend, folder: &Path) {
    let tract = backend.open(folder, "agent");
    let mut acknowledged = power::AckReporter::create(folder).unwrap();
    // They are durable before anything is acknowledged, so every image has them.
    block_on(tract.on(KEPT).unwrap().commit_all(drafts())).unwrap();
    let writer = tract.on("writer-0").unwrap();
    for round in 0..3 {
        for n in 0..10 {
            let message = block_on(writer.user(request(MESSAGES + 10 * round + n))).unwrap();
            acknowledged.add(0, message.id()).unwrap();
        }
        let report = block_on(tract.repack(None)).unwrap();
        assert!(report.written > 0, "{report:?}");
    }
    block_on(tract.store().close()).unwrap();
}

/// The power goes at any moment of appends and repacks: what was acknowledged is there and reads the
/// same, and the next repack ends.
#[test]
fn a_loss_of_power_in_a_repack_loses_nothing() {
    let name = ("T14 repack and power", "appends and repacks");
    lose_power(CHILD, name, (400, 12), |tract, what| {
        assert_reads(tract, MESSAGES, what);
        block_on(tract.repack(None)).unwrap();
        assert_reads(tract, MESSAGES, what);
    });
}

/// Does it until others let it.
fn retried<T>(what: impl Fn() -> tract::Result<T>) -> T {
    for _ in 0..200 {
        match what() {
            Ok(done) => return done,
            Err(error) if error.code() == "busy" => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("busy all the time");
}

/// Two repack in a loop, while one appends, one collects garbage and one erases: each on a handle of its
/// own where the store may have several.
#[test]
fn repacks_at_the_same_time_as_all_others_lose_nothing() {
    for backend in backends::ALL {
        let folder = tempfile::tempdir().unwrap();
        let tract = prepared(backend, folder.path());
        let handle = || backend.again(folder.path(), &tract);
        let rounds = tract_testkit::scaled(20, 0.1, 2);
        let (repacking, erased) = (AtomicUsize::new(2), AtomicUsize::new(0));
        let is_on = || repacking.load(Ordering::Acquire) > 0;
        let appended = std::thread::scope(|scope| {
            for _ in 0..2 {
                let (own, repacking) = (handle(), &repacking);
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let report = retried(|| block_on(own.repack(None)));
                        assert_eq!(report.unreadable, 0, "{}", backend.name);
                    }
                    repacking.fetch_sub(1, Ordering::AcqRel);
                });
            }
            let (own, erased) = (handle().on("leaks").unwrap(), &erased);
            scope.spawn(move || {
                while is_on() {
                    let number = erased.fetch_add(1, Ordering::AcqRel);
                    let leak = format!("the code of vault {number} is 4711-0815-{number}");
                    let leaked = retried(|| block_on(own.user(leak.as_str())));
                    let targets = vec![EraseTarget::Commit(leaked.id())];
                    let request = EraseRequest::targets(targets, "a leaked code");
                    retried(|| block_on(own.erase(&request)));
                }
            });
            let own = handle();
            scope.spawn(move || {
                while is_on() {
                    retried(|| {
                        block_on(
                            own.gc(&GcOptions { keep: Duration::ZERO, ..GcOptions::default() }),
                        )
                    });
                }
            });
            let own = handle().on(KEPT).unwrap();
            let mut count = MESSAGES;
            while is_on() {
                // Who rewrites files in a loop, three at once, can outlast the patience of a writer.
                retried(|| block_on(own.user(request(count))));
                count += 1;
            }
            count
        });
        let what = backend.name;
        assert_reads(&tract, appended, what);
        let report = block_on(tract.repack(None)).unwrap();
        assert_eq!(report.unreadable, 0, "{what}");
        assert_reads(&tract, appended, what);
        let erased = erased.into_inner();
        assert_eq!(block_on(tract.erasures()).unwrap().len(), erased, "{what}");
        let finding = format!(
            "{rounds} repacks each of two, {} appends, {erased} erasures and collections \
             meanwhile, 0 lost",
            appended - MESSAGES
        );
        figure("T14 repacks at once", what, finding);
    }
}
