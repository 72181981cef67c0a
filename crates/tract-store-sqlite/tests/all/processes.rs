use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tract_core::store::{BlockingStore, ThreadedStore, Walk};
use tract_core::{Applied, CommitId, Store, StoreExt, block_on};
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
    let mut parent = head(&store, name);
    for text in messages().take(count) {
        let (batch, id) = appending(name, parent, &format!("{name}: {text}"));
        assert_eq!(apply(&store, batch).unwrap(), Applied::Done);
        append_to_shared(&store, &format!("{name} too: {text}"));
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {id}").unwrap();
        out.flush().unwrap();
        parent = Some(id);
    }
}

fn head(store: &dyn Store, name: &str) -> Option<CommitId> {
    block_on(store.ref_target(&repo(), &branch(name))).unwrap().and_then(|target| target.commit())
}

/// Appends to the branch that all share, trying again after a lost race.
fn append_to_shared(store: &dyn Store, text: &str) {
    loop {
        let (batch, _) = appending("shared", head(store, "shared"), text);
        match apply(store, batch).unwrap() {
            Applied::Done => return,
            Applied::Conflict(_) => {}
            Applied::Already => unreachable!("every batch has an id of its own"),
        }
    }
}

fn acknowledged(line: &str) -> Option<CommitId> {
    line.split("acknowledged ").nth(1)?.trim().parse().ok()
}

fn length(store: &ThreadedStore<SqliteStore>, name: &str) -> usize {
    let head = head(store, name).expect("a branch");
    let page = store.store().walk(&repo(), Walk::from(head)).unwrap();
    assert_eq!(page.next, None);
    page.steps.len()
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
        let head = head(&store, "killed").unwrap();
        let page = store.store().walk(&repo(), Walk::from(head)).unwrap();
        let stored: Vec<_> = page.steps.iter().rev().map(|step| step.commit.id()).collect();
        // One commit may have been in flight at each death.
        let acknowledged: Vec<_> = stored.iter().filter(|id| known.contains(id)).collect();
        assert_eq!(acknowledged.len(), known.len(), "round {round}");
        assert!(stored.len() <= known.len() + round + 1);
        assert_sound(&store);
    }
}
