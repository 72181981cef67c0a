use std::path::Path;
use std::process::{Command, Stdio};

use tract_core::store::{BlockingStore, Walk};
use tract_core::{Applied, CommitId, Store, StoreExt, block_on};

use crate::common::*;

const CHILD: &str = "TRACT_TEST_CHILD";
const WRITES: usize = 40;

/// What the other test starts, to append to two branches: one of its own and one that all share; by
/// itself there is nothing to do.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (name, path) = task.split_once(' ').unwrap();
    let store = create(Path::new(path));
    let mut parent = None;
    for text in messages().take(WRITES) {
        let (batch, id) = appending(name, parent, &format!("{name}: {text}"));
        assert_eq!(apply(&store, batch).unwrap(), Applied::Done);
        append_to_shared(&store, &format!("{name} too: {text}"));
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
            Applied::Conflict(_) | Applied::Moved(_) => {}
            Applied::Already => unreachable!("every batch has an id of its own"),
        }
    }
}

#[test]
fn processes_append_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let spawn = |name: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{name} {}", path.display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    // The file does not exist yet: they also race for that.
    let children = ["a", "b", "c"].map(spawn);
    let store = create(&path);
    for n in 0..WRITES {
        append_to_shared(&store, &format!("parent {n}"));
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for (name, count) in [("a", WRITES), ("b", WRITES), ("c", WRITES), ("shared", 4 * WRITES)] {
        let head = head(&store, name).expect("a branch");
        let page = store.store().walk(&repo(), Walk::from(head)).unwrap();
        assert_eq!((page.entries.len(), page.next), (count, None), "{name}");
    }
    assert_sound(&store);
}
