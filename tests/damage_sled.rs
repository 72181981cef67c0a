//! sled under flipped bytes: in processes of their own, for it may wait for ever. What it loses is
//! printed; what it must not do is give other data.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tract::import::Dialect;
use tract::{CommitId, block_on};
use tract_testkit::data;

use crate::backends::{self, Backend};
use crate::child::test_command;
use crate::walks::{import, trajectories};

const FOLDER: &str = "TRACT_SLED_FOLDER";
const HEAD: &str = "TRACT_SLED_HEAD";
const PATIENCE: Duration = Duration::from_secs(20);

fn sled() -> &'static Backend {
    backends::named("sled")
}

/// What the child found, as the last word that it prints.
#[test]
fn the_child_reads_a_damaged_folder() {
    let (Ok(folder), Ok(head)) = (std::env::var(FOLDER), std::env::var(HEAD)) else {
        // By itself it reads a sound folder, and must find it whole.
        let folder = tempfile::tempdir().unwrap();
        let head = stored(folder.path());
        assert_eq!(state_of(folder.path(), head), "whole");
        return;
    };
    let head: CommitId = head.parse().expect("an id");
    println!("\nverdict {}", state_of(Path::new(&folder), head));
}

/// Reads all that can be read; panics when it is not what was stored.
fn state_of(folder: &Path, head: CommitId) -> &'static str {
    let Ok(tract) = sled().try_open(folder, "agent", false) else { return "refused" };
    let Ok(branches) = block_on(tract.branches().list()) else { return "refused" };
    if !branches.iter().any(|branch| branch.head == head) {
        return "lost";
    }
    // All that is read is hashed, so that what comes is what was stored or an error.
    match block_on(tract.repo().compile(Some(head))) {
        Ok(compiled) => assert_eq!(compiled.head(), Some(head)),
        Err(_) => return "refused",
    }
    match block_on(tract.verify()) {
        Ok(report) if report.clean => "whole",
        _ => "reported",
    }
}

fn stored(folder: &Path) -> CommitId {
    let tract = sled().open(folder, "agent");
    let some: Vec<_> = trajectories().into_iter().take(4).collect();
    let done = import(&tract, Some(Dialect::OpenAi), &some);
    let head = done.last().and_then(|done| done.head).expect("a conversation");
    block_on(tract.store().close()).unwrap();
    head
}

#[test]
fn flipped_bytes_give_no_other_data() {
    let folder = tempfile::tempdir().unwrap();
    let head = stored(folder.path());
    let log = sled().path(folder.path(), "agent").join("db");
    let whole = std::fs::read(&log).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let damaged = tempfile::tempdir().unwrap();
    data::copy(&sled().path(folder.path(), "agent"), &sled().path(damaged.path(), "agent"))
        .unwrap();
    assert_eq!(child(damaged.path(), head, 0), "whole", "a copy without damage");
    let mut rounds = tract_testkit::rounds(1000, 24);
    for n in rounds.by_ref() {
        // All over the log, however many rounds there are time for.
        let at = (n * 7919 + n / 64) * 61 % used;
        let to = sled().path(damaged.path(), "agent");
        let _ = std::fs::remove_dir_all(&to);
        data::copy(&sled().path(folder.path(), "agent"), &to).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (n % 8);
        std::fs::write(to.join("db"), &bytes).unwrap();
        *seen.entry(child(damaged.path(), head, at)).or_default() += 1;
    }
    let finding =
        format!("{} flipped bytes: {seen:?}, 0 silent wrong reads (does not gate)", rounds.done());
    tract_testkit::figure("T5 damage", "sled", finding);
}

/// Lets a process of its own read the folder; gives its verdict.
fn child(folder: &Path, head: CommitId, at: usize) -> String {
    let mut child = test_command("damage_sled::the_child_reads_a_damaged_folder")
        .env(FOLDER, folder)
        .env(HEAD, head.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return "hung".to_owned();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().find_map(|line| line.strip_prefix("verdict ")) {
        Some(state_of) => state_of.to_owned(),
        // sled's own threads may end the process; a test that failed says so.
        None => {
            assert!(!text.contains("panicked") && !text.contains("FAILED"), "byte {at}: {text}");
            "aborted".to_owned()
        }
    }
}
