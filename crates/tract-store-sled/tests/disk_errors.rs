//! The disk fails: while a store is made, while it is written and while it is opened again. Every
//! failure is a typed error, no call waits for ever, and what was acknowledged is there afterwards.
//!
//! A process of its own appends, under a limit of the size of files (which needs no privileges) or
//! under the testkit's library that lets one access fail.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tract_core::store::{BlockingStore, RefRepository};
use tract_core::{Applied, Batch, CommitId, RefTarget, RepoName, Store, block_on};
use tract_store_sled::{SledOptions, open};
use tract_testkit::disk::{DiskReport, say};
use tract_testkit::fixtures::{advance, batch, branch, push};

const FOLDER: &str = "TRACT_TAPE_OF";
const CHILD: &str = "TRACT_SLED_DISK_ERRORS";
const MESSAGES: usize = 6;
/// When a process that does not end counts as one that waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn appending(parent: Option<CommitId>, size: usize) -> (Batch, CommitId) {
    let mut write = batch("commit");
    // Text of its own, that does not get shorter when it is compressed.
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for byte in parent.iter().flat_map(|parent| *parent.as_bytes()) {
        random = random.rotate_left(8) ^ u64::from(byte);
    }
    let text: String = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'0' + (random >> 58) as u8)
    })
    .take(size)
    .collect();
    let id = push(&mut write, parent, &text).id();
    write.refs.push(advance("main", parent, id));
    (write, id)
}

/// The process whose disk fails; by itself it has nothing to do.
#[test]
fn child() {
    let Some(size) = std::env::var(CHILD).ok().and_then(|size| size.parse().ok()) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    let repo = RepoName::default();
    let options = SledOptions { create: true, ..SledOptions::default() };
    let store = match open(folder.join("agent.sled"), &options) {
        Ok(store) => store,
        Err(error) => return say(format_args!("refused {:?}: {error}", error.kind)),
    };
    let head = block_on(store.refs(&repo, &[branch("main")])).expect("refs").swap_remove(0);
    let mut parent = head.as_ref().and_then(RefTarget::commit);
    for _ in 0..MESSAGES {
        let (write, id) = appending(parent, size);
        say(format_args!("asks {id}"));
        match block_on(store.apply(&repo, write)) {
            Ok(done) => assert_eq!(done, Applied::Done),
            Err(error) => {
                say(format_args!("error {:?}: {error}", error.kind));
                let (write, _) = appending(parent, size);
                match block_on(store.apply(&repo, write)) {
                    Ok(done) => say(format_args!("writes {done:?}")),
                    Err(error) => say(format_args!("again {:?}: {error}", error.kind)),
                }
                match block_on(store.refs(&repo, &[branch("main")])) {
                    Ok(_) => say(format_args!("reads")),
                    Err(error) => say(format_args!("again {:?}: {error}", error.kind)),
                }
                break;
            }
        }
        say(format_args!("done {id}"));
        parent = Some(id);
    }
    match std::env::var_os("TRACT_SLED_KILLED") {
        // As if it were killed: nothing is closed.
        Some(_) => std::process::exit(0),
        None => match block_on(store.close()) {
            Ok(()) => say(format_args!("closed")),
            Err(error) => say(format_args!("unclosed {:?}: {error}", error.kind)),
        },
    }
}

/// Runs the child to its end, and reads what it reported.
fn run(mut command: Command, folder: &Path, size: usize) -> DiskReport {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut child = command
        .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
        .env(FOLDER, folder.canonicalize().expect("a path"))
        .env(CHILD, size.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the child starts");
    let start = Instant::now();
    while child.try_wait().expect("the child is ours").is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().expect("the child is ours");
            let output = child.wait_with_output().expect("the child is ours");
            panic!("it waits for ever: {}", String::from_utf8_lossy(&output.stdout));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("the child is ours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let report = DiskReport::read(&text);
    let is_poisoned = report.lines_of(&["writes", "reads"]).is_empty();
    assert!(is_poisoned, "sled's memory may hold half a batch after a write that failed: {text}");
    report
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// Opens what is left, on a disk that works again: it holds what was acknowledged and nothing that
/// was not asked for, and takes more.
fn judge(folder: &Path, report: &DiskReport, what: &str) {
    let store =
        open(folder.join("agent.sled"), &SledOptions { create: true, ..SledOptions::default() });
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    report.judge(store.store(), what);
    let damage = store.store().check(&RepoName::default(), false);
    assert_eq!(damage.expect("it checks itself"), [], "{what}");
}

/// This program under a limit of the size of its files, which makes writes fail as a full disk does.
#[cfg(unix)]
fn limited(kib: usize) -> Command {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {} || exit 1; exec \"$0\" \"$@\"", 2 * kib);
    command.args(["-c".as_ref(), OsStr::new(&script), this_program().as_os_str()]);
    command
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_a_typed_error_and_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    // Values in sled's log, and values in files of their own, one of which does not fit.
    for (size, kib) in [(60_000, 128), (300_000, 200), (300_000, 2)] {
        let what = format!("messages of {size} bytes, files of {kib} KiB");
        let folder = folder.path().join(format!("{size}-{kib}"));
        let report = run(limited(kib), &folder, size);
        let errors = report.lines_of(&["error", "refused"]);
        let error = errors.first().unwrap_or_else(|| panic!("{what}: {report:?}"));
        assert!(error.starts_with("Full"), "{what}: {report:?}");
        assert!(error.contains("agent.sled"), "it names the place: {report:?}");
        if report.lines_of(&["refused"]).is_empty() {
            let again = report.lines_of(&["again", "unclosed"]);
            assert!(again.len() >= 2, "{what}: {report:?}");
            assert!(again.iter().take(2).all(|e| e.starts_with("Poisoned")), "{what}: {report:?}");
        }
        judge(&folder, &report, &what);
    }
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_while_a_killed_store_is_opened_does_not_shut_it_for_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut killed = Command::new(this_program());
    killed.env("TRACT_SLED_KILLED", "1");
    let report = run(killed, folder.path(), 10_000);
    assert_eq!(report.acknowledged.len(), MESSAGES);
    // Opening writes: it marks the end of the log and takes a snapshot of where pages are.
    for blocks in [0, 1] {
        let refused = run(limited(blocks), folder.path(), 10_000);
        assert!(refused.acknowledged.is_empty(), "{refused:?}");
        assert!(refused.lines_of(&["refused"])[0].starts_with("Full"), "{refused:?}");
    }
    judge(folder.path(), &report, "opened again when there is room");
}

#[test]
fn a_snapshot_that_was_not_finished_does_not_shut_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = run(Command::new(this_program()), folder.path(), 100);
    let path = folder.path().join("agent.sled");
    std::fs::write(path.join("snap.00000000FFFFFFFF.generating"), "half of a").expect("a file");
    judge(folder.path(), &report, "an unfinished snapshot");
}

#[test]
fn a_folder_that_was_not_finished_is_no_store_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent.sled");
    std::fs::create_dir_all(path.join("blobs")).expect("a folder");
    std::fs::write(path.join("conf"), "segm").expect("a file");
    let kind = open(&path, &SledOptions::default()).expect_err("it holds nothing").kind;
    assert_eq!(kind, tract_core::StoreErrorKind::NoStore);
    judge(folder.path(), &DiskReport::default(), "half made");
}

#[test]
fn the_kth_error_of_the_disk_is_reported_and_loses_nothing() {
    if !cfg!(target_os = "linux") {
        println!("left out: errors of the disk under sled, which need LD_PRELOAD");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let library = tract_testkit::power::library(folder.path()).expect("cc builds the library");
    let mut rounds = tract_testkit::rounds(240, 30);
    let (mut errors, mut refused) = (0, 0);
    for round in rounds.by_ref() {
        // However many rounds there are time for, they lie everywhere; all of them are each once.
        let n = round * 151 % 240;
        let how = ["once", "ever", "full", "short"][n % 4];
        let (size, at) = ([100, 300_000][n / 4 % 2], 1 + n / 8);
        let what = format!("access {at} fails: {how}, messages of {size} bytes");
        let scratch = folder.path().join(n.to_string());
        let failing = |at: usize| {
            let mut command = Command::new(this_program());
            command
                .env("LD_PRELOAD", &library)
                .env("TRACT_FAIL_AT", at.to_string())
                .env("TRACT_FAIL_HOW", how)
                .env("TRACT_FAIL_IN", "agent.sled")
                .env("TRACT_SLED_KILLED", "1");
            command
        };
        let mut report = run(failing(at), &scratch, size);
        // What is left is opened on a disk that fails as well.
        let second = run(failing(1 + n % 11), &scratch, size);
        for one in [&report, &second] {
            for error in one.lines_of(&["error", "refused", "again", "unclosed"]) {
                let typed = ["Engine", "Full", "Poisoned", "Unknown", "Unavailable"];
                assert!(typed.iter().any(|kind| error.starts_with(kind)), "{what}: {one:?}");
            }
            errors += one.lines_of(&["error", "refused"]).len();
            refused += one.lines_of(&["refused"]).len();
        }
        report.acknowledged.extend(&second.acknowledged);
        report.requested.extend(&second.requested);
        judge(&scratch, &report, &what);
        std::fs::remove_dir_all(&scratch).expect("it is ours");
    }
    assert!(errors > rounds.done() / 2, "{errors} errors");
    let finding = format!(
        "{} times two accesses failed (EIO once, EIO from there on, no space, half a write), while \
         writing and while opening: {errors} typed errors, {refused} of them at opening, 0 \
         acknowledged lost",
        rounds.done()
    );
    tract_testkit::figure("T3 errors of the disk", "sled", finding);
}
