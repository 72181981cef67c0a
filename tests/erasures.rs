//! Erasures that are cut off by `kill -9`: all of it happened or nothing, and what is left to do is done
//! by the next one. Afterwards no file of the store has the bytes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tract::engine::{EraseRequest, EraseTarget};
use tract::{CommitId, Tract, block_on};
use tract_testkit::figure;

use crate::backends::{self, Backend};
use crate::kills::{self, When, killed_after, say};

const BACKEND: &str = "TRACT_ERASE_BACKEND";
const FOLDER: &str = "TRACT_ERASE_FOLDER";

const LEAK: &str = "the code of the vault is 4711-0815-2342-xyzzy";
const MESSAGES: usize = 12;
const LEAKED: usize = 4;

/// A store with the leak on two branches, said again by a later message of one.
fn prepared(backend: &Backend, folder: &Path) {
    let tract = backend.open(folder, "agent");
    for n in 0..MESSAGES {
        let text = match n {
            LEAKED => LEAK.to_owned(),
            9 => format!("as you said: {LEAK}."),
            _ => format!("message {n} says nothing"),
        };
        block_on(tract.user(text)).unwrap();
    }
    let log = block_on(tract.log("HEAD", 3)).unwrap();
    block_on(tract.branches().create("side", log[2].id())).unwrap();
    block_on(tract.store().close()).unwrap();
}

fn leaked(tract: &Tract) -> CommitId {
    let log = block_on(tract.log("HEAD", usize::MAX)).unwrap();
    // The oldest is the last; edits of an erasure are newer.
    log[log.len() - 1 - LEAKED].id()
}

fn erase(tract: &Tract) -> tract::Result<()> {
    let targets = vec![EraseTarget::Commit(leaked(tract))];
    let request = EraseRequest::targets(targets, "a leaked code");
    block_on(tract.erase(&request)).map(drop)
}

/// What the other tests start; by itself it has nothing to do.
#[test]
fn the_child_erases() {
    let said = |name| std::env::var(name).ok();
    let (Some(backend), Some(folder)) = (said(BACKEND), said(FOLDER)) else { return };
    let backend = backends::named(&backend);
    erase(&kills::doomed(backend, Path::new(&folder))).unwrap();
    say("done");
}

fn child(backend: &Backend, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["erasures::the_child_erases", "--exact", "--nocapture", "--test-threads=1"])
        .env(BACKEND, backend.name)
        .env(FOLDER, folder);
    command
}

/// The files under a folder that have the leak.
fn holding(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let needle = &LEAK.as_bytes()[12..];
            if bytes.windows(needle.len()).any(|window| window == needle) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

/// Looks at what is left; returns whether the erasure happened.
fn survived(tract: &Tract, what: &str) -> bool {
    let report = block_on(tract.verify()).unwrap();
    assert!(report.clean, "{what}: {:?}", report.damage);
    let erasures = block_on(tract.erasures()).unwrap().len();
    assert!(matches!(erasures, 0 | 2), "{what}: {erasures} of two contents are erased");
    for branch in ["main", "side"] {
        let compiled = block_on(tract.on(branch).unwrap().compile()).unwrap();
        let texts: Vec<String> =
            compiled.messages().map(|message| message.content.text()).collect();
        assert_eq!(texts.len(), MESSAGES - if branch == "side" { 2 } else { 0 }, "{what}");
        for (n, text) in texts.iter().enumerate() {
            match (n, erasures) {
                (LEAKED | 9, 0) => assert!(text.contains(LEAK), "{what}: {text}"),
                (LEAKED | 9, _) => {
                    assert!(text.contains("[erased: a leaked code]"), "{what}: {text}");
                    assert!(!text.contains("4711"), "{what}: {text}");
                }
                _ => assert_eq!(*text, format!("message {n} says nothing"), "{what}"),
            }
        }
    }
    erasures > 0
}

/// `kill -9` before, during and after each call of an erasure.
#[test]
fn an_erasure_that_is_killed_happened_whole_or_not_at_all() {
    for backend in backends::ALL {
        let template = tempfile::tempdir().unwrap();
        prepared(backend, template.path());
        assert!(!holding(template.path()).is_empty());
        let fresh = || {
            let folder = tempfile::tempdir().unwrap();
            kills::copy(template.path(), folder.path());
            folder
        };
        let whole = fresh();
        let command = child(backend, whole.path());
        let (calls, end) = killed_after(command, usize::MAX, When::Never, Duration::ZERO);
        let calls = calls.len();
        assert!(end == Some("done") && calls > 5, "{}: {calls}", backend.name);
        let mut kills = tract_testkit::rounds(6 * calls, 10);
        let (step, mut happened) = ((6 * calls / kills.planned_rounds().max(1)).max(1), 0);
        for kill in kills.by_ref() {
            let place = kill * step;
            let (when, pause) = match place % 6 {
                0 => (When::Before, 0),
                1 => (When::After, 0),
                pause => (When::During, [0, 1, 3, 9][pause - 2]),
            };
            let folder = fresh();
            let command = child(backend, folder.path());
            let (_, end) = killed_after(command, place / 6, when, Duration::from_millis(pause));
            assert!(end.is_some(), "{}: neither killed nor done", backend.name);
            let what = format!("{}, killed {} call {}", backend.name, when.word(), place / 6);
            let tract = backend.open(folder.path(), "agent");
            if survived(&tract, &what) {
                happened += 1;
                block_on(tract.finish_erasures()).unwrap();
            } else {
                erase(&tract).unwrap();
            }
            assert!(survived(&tract, &what), "{what}: it is done now");
            assert_eq!(block_on(tract.user(LEAK)).unwrap_err().code(), "erased", "{what}");
            block_on(tract.store().close()).unwrap();
            drop(tract);
            // Sled keeps old segments until the store is copied, and says so.
            if backend.name != "sled" {
                assert_eq!(holding(folder.path()), [""; 0], "{what}");
            }
        }
        assert!(happened > 0 && happened < kills.done(), "{}: {happened}", backend.name);
        let finding = format!(
            "{} kills at {calls} calls of an erasure, which had happened {happened} times: no file \
             has the bytes after the next one",
            kills.done()
        );
        figure("T15 erase and kills", backend.name, finding);
    }
}
