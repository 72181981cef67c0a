//! Processes that are killed while they write, and several that write to one branch.
//!
//! The test binary starts itself: what a child is to do is in its environment, what it has done
//! it prints, line by line.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tract::core::{Applied, RefTarget, Store, StoreExt};
use tract::{CommitId, RepoName, block_on};
use tract_testkit::crash::{WriterReport, append};
use tract_testkit::fixtures::{appending, branch};
use tract_testkit::power::SeededRng;
use tract_testkit::{figure, rounds};

use crate::backends::{self, Backend};
use crate::child::{task, task_command};
use crate::kills::say;

const WRITERS: usize = 4;
/// What a child may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the other tests start; by itself it has nothing to do.
#[test]
fn the_child_writes_or_judges() {
    let Some((task, backend, folder)) = task() else { return };
    let store = match backend.grouped(&folder, "agent") {
        Ok(store) => store,
        Err(error) => return say(&format!("refused {error}")),
    };
    match task.as_str() {
        "write" => write(&*store),
        "judge" => {
            let report = std::fs::read_to_string(folder.join("told")).unwrap();
            let mut report: WriterReport = report.parse().unwrap();
            match report.judge(&*store, &RepoName::default()) {
                Ok(()) => say(&format!("sound {report}")),
                Err(loss) => say(&format!("lost {loss}")),
            }
        }
        "share" => {
            let lost = share(&*store, &mut |id| say(&format!("ack {id}")));
            say(&format!("lost {lost}"));
        }
        other => panic!("unknown task {other}"),
    }
}

fn start(task: &str, backend: &Backend, folder: &Path) -> Child {
    let test = "processes::the_child_writes_or_judges";
    let mut command = task_command(test, task, backend, folder);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The lines of a child as they come, until it ends.
fn lines(child: &mut Child) -> Receiver<String> {
    let (send, receive) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        // A line that is cut off acknowledges nothing.
        for line in out.split(b'\n').map_while(Result::ok) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receive
}

/// Four writers, each on a branch of its own, until the process is killed.
fn write(store: &dyn Store) {
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let acknowledge = |id: CommitId| say(&format!("ack {writer} {id}"));
                append(store, &RepoName::default(), writer, usize::MAX, acknowledge).unwrap();
            });
        }
    });
}

fn head(store: &dyn Store, name: &str) -> Option<CommitId> {
    let target = block_on(store.ref_target(&RepoName::default(), &branch(name))).unwrap();
    target.as_ref().and_then(RefTarget::commit)
}

/// Lets a process of its own judge: an engine may hang on what it finds. Gives what is known then.
fn judge(backend: &Backend, folder: &Path, report: &WriterReport) -> Result<WriterReport, String> {
    std::fs::write(folder.join("told"), report.to_string()).unwrap();
    let mut child = start("judge", backend, folder);
    let lines = lines(&mut child);
    let judged = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => match line.split_once(' ') {
                Some(("sound", report)) => break Ok(report.parse().unwrap()),
                Some(("lost", how)) => break Err(how.to_owned()),
                Some(("refused", _)) => break Err(line),
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) => break Err("hung".to_owned()),
            Err(RecvTimeoutError::Disconnected) => break Err("died".to_owned()),
        }
    };
    // It may be hanging: then it does not end by itself.
    let _ = child.kill();
    child.wait().unwrap();
    judged
}

/// Lets a process write, and kills it; adds what was acknowledged, and says whether it hung.
fn written_and_killed(
    backend: &Backend,
    folder: &Path,
    report: &mut WriterReport,
    dice: &mut SeededRng,
) -> bool {
    let mut child = start("write", backend, folder);
    let lines = lines(&mut child);
    let wanted = dice.below(40);
    let (mut seen, mut hung) = (0, false);
    let mut take = |line: &str| {
        let mut words = line.strip_prefix("ack ")?.split(' ');
        let writer: usize = words.next()?.parse().ok()?;
        let id: CommitId = words.next()?.parse().ok()?;
        report.acknowledge(writer, id);
        Some(())
    };
    while seen < wanted {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => seen += usize::from(take(&line).is_some()),
            Err(RecvTimeoutError::Timeout) => {
                hung = true;
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let most = if wanted == 0 { 30_000 } else { 3_000 };
    std::thread::sleep(Duration::from_micros(dice.below(most) as u64));
    child.kill().unwrap(); // SIGKILL, on Unix
    child.wait().unwrap();
    // What it said before it died counts as well.
    for line in lines {
        take(&line);
    }
    hung
}

/// So many kills to a file: the making of one is among what is killed.
const KILLS_PER_FILE: usize = 20;

/// T1. `gates`: any loss is a failure; else it is counted.
fn killed(backend: &Backend, gates: bool) {
    let mut dice = SeededRng(17);
    let mut rounds = rounds(300, 20);
    let (mut acknowledged, mut wrong) = (0, Vec::new());
    let mut folder = tempfile::tempdir().unwrap();
    let mut report = WriterReport::new(WRITERS);
    for round in rounds.by_ref() {
        if round % KILLS_PER_FILE == KILLS_PER_FILE - 1 {
            folder = tempfile::tempdir().unwrap();
            report = WriterReport::new(WRITERS);
        }
        let before = report.acknowledged();
        let hung = written_and_killed(backend, folder.path(), &mut report, &mut dice);
        acknowledged += report.acknowledged() - before;
        let judged =
            if hung { Err("hung".to_owned()) } else { judge(backend, folder.path(), &report) };
        match judged {
            Ok(known) => report = known,
            Err(judged) => {
                assert!(!gates, "{}, kill {round}: {judged}", backend.name);
                wrong.push(judged);
                folder = tempfile::tempdir().unwrap();
                report = WriterReport::new(WRITERS);
            }
        }
    }
    let kills = rounds.done();
    assert!(acknowledged >= kills, "{}: only {acknowledged} acknowledged", backend.name);
    let finding = if gates {
        format!("{kills} kills of 4 writers, {acknowledged} acknowledged, 0 lost")
    } else {
        format!(
            "{kills} kills of 4 writers, {acknowledged} acknowledged, {} stores damaged {:?} (does \
             not gate)",
            wrong.len(),
            wrong.iter().take(3).collect::<Vec<_>>()
        )
    };
    figure("T1 kill -9", backend.name, finding);
}

#[test]
fn killed_writers_on_sqlite_lose_nothing_acknowledged() {
    killed(backends::named("sqlite"), true);
}

#[test]
fn killed_writers_on_redb_lose_nothing_acknowledged() {
    killed(backends::named("redb"), true);
}

/// sled is experimental: what it loses is printed.
#[test]
fn killed_writers_on_sled_are_counted() {
    killed(backends::named("sled"), false);
}

/// Appends to one branch from four threads, each trying again when it lost a race; gives how often.
fn share(store: &dyn Store, acknowledged: &mut (dyn FnMut(CommitId) + Send)) -> usize {
    let acknowledged = std::sync::Mutex::new(acknowledged);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let acknowledged = &acknowledged;
                scope.spawn(move || {
                    let mut lost = 0;
                    for n in rounds(500, 20) {
                        let id = loop {
                            let at = head(store, "shared");
                            let text = format!("{} {thread} {n}", std::process::id());
                            let (write, next) = appending("shared", at, &text);
                            match block_on(store.apply(&RepoName::default(), write)).unwrap() {
                                Applied::Done => break next,
                                Applied::Conflict(_) | Applied::Moved(_) => lost += 1,
                                Applied::Already => unreachable!("every batch has its own id"),
                            }
                        };
                        acknowledged.lock().unwrap()(id);
                    }
                    lost
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// T6: every success is a commit of the line, and nothing else is.
fn shared(backend: &Backend) {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let (mut acknowledged, mut lost) = (Vec::new(), 0);
    let store = backend.grouped(folder.path(), "agent").unwrap();
    let several = store.capabilities().multi_process;
    if several {
        let children: Vec<_> = (0..4).map(|_| start("share", backend, folder.path())).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // Not "database is locked", nor anything else.
            assert!(output.status.success(), "{}: {text}", backend.name);
            let acks = text.lines().filter_map(|line| line.strip_prefix("ack "));
            acknowledged.extend(acks.map(|id| id.parse::<CommitId>().unwrap()));
            let lines = text.lines().filter_map(|line| line.strip_prefix("lost "));
            lost += lines.map(|lost| lost.parse::<usize>().unwrap()).sum::<usize>();
        }
    } else {
        std::thread::scope(|scope| {
            let store = &*store;
            let groups: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        let lost = share(store, &mut |id| mine.push(id));
                        (mine, lost)
                    })
                })
                .collect();
            for group in groups {
                let (mine, races) = group.join().unwrap();
                acknowledged.extend(mine);
                lost += races;
            }
        });
    }
    let head = head(&*store, "shared").unwrap();
    let line = block_on(store.walk_all(&RepoName::default(), head)).unwrap();
    let both: BTreeSet<CommitId> =
        line.iter().map(tract::Commit::id).chain(acknowledged.iter().copied()).collect();
    assert_eq!(
        (line.len(), both.len()),
        (acknowledged.len(), acknowledged.len()),
        "{}: successes are the line",
        backend.name
    );
    assert_eq!(block_on(store.check(&RepoName::default(), false)).unwrap(), []);
    let who = if several {
        "4 processes x 4 threads"
    } else {
        "16 threads of one process (the engine is for one)"
    };
    let finding = format!(
        "{who}: {} appends, all in one line, {lost} lost races as values, {:.0} a second",
        acknowledged.len(),
        acknowledged.len() as f64 / begun.elapsed().as_secs_f64()
    );
    figure("T6 one branch", backend.name, finding);
}

#[test]
fn processes_and_threads_on_one_branch_lose_nothing() {
    backends::all().for_each(shared);
}
