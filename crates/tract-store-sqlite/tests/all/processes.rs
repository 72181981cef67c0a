use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tract_core::store::{BlockingStore, LogQuery, ThreadedStore, Walk, WriteMode};
use tract_core::{Applied, CommitId, RefName, Store, StoreExt, block_on};
use tract_store_sqlite::{SqliteOptions, SqliteStore};

use crate::common::*;

const CHILD: &str = "TRACT_TEST_CHILD";

/// Starts this test binary once more, to append to two branches: one of its own and one that all
/// share. It prints each commit of its own once that is acknowledged.
fn spawn(path: &Path, name: &str, count: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{name} {count} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn child() {
    // Started by the other tests; by itself there is nothing to do.
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut task = task.splitn(3, ' ');
    let name = task.next().unwrap();
    let count: usize = task.next().unwrap().parse().unwrap();
    let path = PathBuf::from(task.next().unwrap());
    let store = tract_store_sqlite::open(&path, &SqliteOptions::new().create(true)).unwrap();
    let own = branch(name);
    let mut parent = head(&store, &own);
    for text in messages().take(count) {
        let (batch, id) = appending(&own, parent, &format!("{name}: {text}"));
        assert_eq!(apply(&store, batch).unwrap(), Applied::Done);
        append_to_shared(&store, &format!("{name} too: {text}"));
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {id}").unwrap();
        out.flush().unwrap();
        parent = Some(id);
    }
}

fn head(store: &dyn Store, name: &RefName) -> Option<CommitId> {
    block_on(store.ref_target(&repo(), name)).unwrap().and_then(|target| target.commit())
}

/// Appends to the branch that all share, trying again after a lost race; says how often it lost.
fn append_to_shared(store: &dyn Store, text: &str) -> usize {
    for lost in 0.. {
        let (batch, _) = appending(&branch("shared"), head(store, &branch("shared")), text);
        match apply(store, batch).unwrap() {
            Applied::Done => return lost,
            Applied::Conflict(_) => {}
            Applied::Already => unreachable!("every batch has an id of its own"),
        }
    }
    unreachable!("the loop ends when it wins")
}

fn acknowledged(line: &str) -> Option<CommitId> {
    line.split("acknowledged ").nth(1)?.trim().parse().ok()
}

fn length(store: &ThreadedStore<SqliteStore>, name: &str) -> usize {
    let head = head(store, &branch(name)).expect("a branch");
    let page = store.store().walk(&repo(), Walk::from(head)).unwrap();
    assert_eq!(page.next, None);
    page.steps.len()
}

#[test]
fn two_handles_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let (one, two) = (create(&path), create(&path));
    let main = branch("main");
    let mut parent = None;
    for (n, text) in messages().take(20).enumerate() {
        let (writer, reader) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let (batch, id) = appending(&main, parent, &text);
        assert_eq!(apply(writer, batch.clone()).unwrap(), Applied::Done);
        assert_eq!(head(reader, &main), Some(id));
        assert_eq!(apply(reader, batch).unwrap(), Applied::Already);
        let (stale, _) = appending(&main, parent, "too late");
        assert!(matches!(apply(reader, stale).unwrap(), Applied::Conflict(_)));
        parent = Some(id);
    }
    assert_eq!(length(&one, "main"), 20);
    assert_sound(&two);
}

#[test]
fn racing_threads_on_one_expectation_have_one_winner() {
    for mode in [WriteMode::Thread, WriteMode::InPlace] {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new().create(true).write_mode(mode);
        let store = tract_store_sqlite::open(folder.path().join("agent.db"), &options).unwrap();
        let done: usize = std::thread::scope(|scope| {
            let racer = |n: usize| {
                let store = &store;
                move || (0..25).map(|i| append_to_shared(store, &format!("{n} {i}"))).count()
            };
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(racer(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((done, length(&store, "shared")), (200, 200));
        let log = store.store().ref_log(&repo(), &LogQuery::default()).unwrap();
        assert_eq!(log.len(), 200);
        assert_sound(&store);
    }
}

#[test]
fn processes_append_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    // The file does not exist yet: they also race for that.
    let children: Vec<_> = ["a", "b", "c"].map(|name| spawn(&path, name, 40)).into();
    let store = create(&path);
    for n in 0..40 {
        append_to_shared(&store, &format!("parent {n}"));
    }
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(lines.lines().filter_map(acknowledged).count(), 40);
    }
    for (name, count) in [("a", 40), ("b", 40), ("c", 40), ("shared", 160)] {
        assert_eq!(length(&store, name), count, "{name}");
    }
    assert_sound(&store);
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let mut known = Vec::new();
    for round in 0..10 {
        let mut child = spawn(&path, "killed", 100_000);
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = out.lines().map(Result::unwrap);
        let wanted = 1 + round * 3;
        known.extend(lines.by_ref().filter_map(|line| acknowledged(&line)).take(wanted));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts as well.
        known.extend(lines.filter_map(|line| acknowledged(&line)));

        let store = create(&path);
        let head = head(&store, &branch("killed")).unwrap();
        let page = store.store().walk(&repo(), Walk::from(head)).unwrap();
        let stored: Vec<_> = page.steps.iter().rev().map(|step| step.commit.id()).collect();
        // One commit may have been in flight at each death.
        let acknowledged: Vec<_> = stored.iter().filter(|id| known.contains(id)).collect();
        assert_eq!(acknowledged.len(), known.len(), "round {round}");
        assert!(stored.len() <= known.len() + round + 1);
        assert_sound(&store);
    }
}
