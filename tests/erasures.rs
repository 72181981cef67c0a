//! Erasures that are cut off by `kill -9`: all of it happened or nothing, and what is left to do is done
//! by the next one. Afterwards no file of the store has the bytes.

use std::path::Path;

use tract::engine::{EraseRequest, EraseTarget};
use tract::{CommitId, Tract, block_on};
use tract_testkit::{data, figure};

use crate::backends::{self, Backend};
use crate::child::{task, task_command};
use crate::kills::{self, kill_at_calls, say};
use crate::walks::{assert_clean, texts};

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
    // A later message quotes it.
    let request = EraseRequest {
        everywhere: true,
        ban: true,
        ..EraseRequest::targets(targets, "a leaked code")
    };
    block_on(tract.erase(&request)).map(drop)
}

/// What the other tests start; by itself it has nothing to do.
#[test]
fn the_child_erases() {
    let Some((_, backend, folder)) = task() else { return };
    erase(&kills::doomed(backend, &folder)).unwrap();
    say("done");
}

/// The files under a folder that have the leak.
fn holding(folder: &Path) -> Vec<String> {
    let needle = &LEAK.as_bytes()[12..];
    let mut files = crate::golden::files(folder, "");
    files.retain(|_, bytes| bytes.windows(needle.len()).any(|window| window == needle));
    files.into_keys().collect()
}

/// Looks at what is left; returns whether the erasure happened.
fn survived(tract: &Tract, what: &str) -> bool {
    assert_clean(tract, what);
    let erasures = block_on(tract.erasures()).unwrap().len();
    assert!(matches!(erasures, 0 | 2), "{what}: {erasures} of two contents are erased");
    for branch in ["main", "side"] {
        let texts = texts(&tract.on(branch).unwrap());
        assert_eq!(texts.len(), MESSAGES - if branch == "side" { 2 } else { 0 }, "{what}");
        for (n, text) in texts.iter().enumerate() {
            match (n, erasures) {
                (LEAKED | 9, 0) => assert!(text.contains(LEAK), "{what}: {text}"),
                (LEAKED | 9, _) => {
                    assert!(text.contains("[erased: a leaked code]"), "{what}: {text}");
                    assert!(!text.contains(LEAK), "{what}: {text}");
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
        let begin = || {
            let folder = tempfile::tempdir().unwrap();
            data::copy(template.path(), folder.path()).unwrap();
            let test = "erasures::the_child_erases";
            let command = task_command(test, "erase", backend, folder.path());
            (folder, command)
        };
        let mut happened: usize = 0;
        let killed = kill_at_calls(backend, &[0, 1, 3, 9], 10, begin, |folder, what| {
            let tract = backend.open(folder, "agent");
            if survived(&tract, what) {
                happened += 1;
                // Either completes it.
                if happened.is_multiple_of(2) {
                    block_on(tract.finish_erasures()).unwrap();
                } else {
                    erase(&tract).unwrap();
                }
            } else {
                erase(&tract).unwrap();
            }
            assert!(survived(&tract, what), "{what}: it is done now");
            assert_eq!(block_on(tract.user(LEAK)).unwrap_err().code(), "erased", "{what}");
            block_on(tract.store().close()).unwrap();
            drop(tract);
            // Sled keeps old segments until the store is copied, and says so.
            if backend.name != "sled" {
                assert_eq!(holding(folder), [""; 0], "{what}");
            }
        });
        let (kills, calls) = (killed.kills, killed.calls);
        assert!(happened > 0 && happened < kills, "{}: {happened}", backend.name);
        let finding = format!(
            "{kills} kills at {calls} calls of an erasure, which had happened {happened} times: no \
             file has the bytes after the next one"
        );
        figure("T15 erase and kills", backend.name, finding);
    }
}
