//! The k-th access of the disk fails, for each k: a typed error and nothing half done, and what was
//! acknowledged is there afterwards.
//!
//! A process appends under the library of the losses of power, which lets one access fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use tract_core::store::{BlockingStore, RepackStep, ThreadedStore};
use tract_core::{Applied, CommitId, Store, block_on};
use tract_store_sqlite::{SqliteOptions, SqliteStore};
use tract_testkit::disk::{DiskReport, say};
use tract_testkit::power::{Act, FileOp, WriteTrace};

use crate::common::*;

const FOLDER: &str = "TRACT_TAPE_OF";
const CHILD: &str = "TRACT_DISK_ERRORS";
const MESSAGES: usize = 8;

/// The process whose disk fails; by itself it has nothing to do.
#[test]
fn disk_errors_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let store = match tract_store_sqlite::open(folder.join("agent.db"), &options) {
        Ok(store) => store,
        Err(error) => return say(format_args!("refused {:?}", error.kind)),
    };
    let mut parent = None;
    for (n, text) in messages().take(MESSAGES).enumerate() {
        let (batch, id) = appending("main", parent, &text);
        say(format_args!("asks {id}"));
        match apply(&store, batch) {
            Ok(done) => assert_eq!(done, Applied::Done),
            Err(error) => {
                say(format_args!("error {:?}", error.kind));
                return after_the_error(&store, parent);
            }
        }
        say(format_args!("done {id}"));
        parent = Some(id);
        if n == MESSAGES / 2 {
            // A checkpoint: the log goes into the file. One that fails leaves both as they are.
            if let Ok(connection) = rusqlite::Connection::open(folder.join("agent.db")) {
                let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
                let _ = connection.query_row(checkpoint, [], |_| Ok(()));
            }
        }
    }
    // All contents are written again, and then the file.
    let mut step = Some(RepackStep::Train);
    while let Some(next) = step {
        match store.store().repack(&repo(), next) {
            Ok(page) => step = page.next,
            Err(error) => {
                say(format_args!("repack failed"));
                say(format_args!("error {:?}", error.kind));
                return after_the_error(&store, parent);
            }
        }
    }
    match block_on(store.close()) {
        Ok(()) => say(format_args!("closed")),
        Err(error) => say(format_args!("error {:?}", error.kind)),
    }
}

/// What the same handle says of itself, and whether it writes.
fn after_the_error(store: &ThreadedStore<SqliteStore>, parent: Option<CommitId>) {
    let (batch, id) = appending("main", parent, "after the error");
    say(format_args!("asks {id}"));
    match apply(store, batch) {
        Ok(done) => {
            assert_eq!(done, Applied::Done);
            say(format_args!("done {id}"));
        }
        Err(error) => say(format_args!("again {:?}", error.kind)),
    }
}

fn run(library: &Path, folder: &Path, more: &[(&str, String)]) -> DiskReport {
    std::fs::create_dir_all(folder).expect("a folder");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "disk_errors::disk_errors_child", "--nocapture", "--test-threads", "1"])
        .env("LD_PRELOAD", library)
        .env(FOLDER, folder)
        .env(CHILD, "1")
        .envs(more.iter().map(|(name, value)| (name, value)))
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // An error of the disk is an answer: never a panic, an abort or a signal.
    assert!(output.status.success(), "{more:?}: {text}");
    DiskReport::read(&text)
}

fn errors_of(report: &DiskReport) -> Vec<&str> {
    report.lines_of(&["refused", "error", "again"])
}

/// Opens what is left, on a disk that works again.
fn judge(folder: &Path, report: &DiskReport, what: &str) {
    let path = folder.join("agent.db");
    let store =
        SqliteStore::open(&path, &SqliteOptions { create: true, ..SqliteOptions::default() });
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    let line = report.judge(&store, what);
    // One that failed may be there, whole: the caller got the answer that it is unknown. It is the
    // message that the disk failed, or the one that was asked for after it.
    assert!(line.starts_with(&report.acknowledged), "{what}: {line:?} of {report:?}");
    assert!(line.len() <= report.acknowledged.len() + 1, "{what}: {line:?} of {report:?}");
    assert_eq!(store.check(&repo(), false).expect("it checks itself"), [], "{what}");
}

#[test]
fn the_kth_error_of_the_disk_is_reported_and_loses_nothing() {
    if !cfg!(target_os = "linux") {
        println!("left out: errors of the disk under SQLite, which need LD_PRELOAD");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let library = tract_testkit::power::library(folder.path()).expect("cc builds the library");
    let whole = folder.path().join("whole");
    let record = folder.path().join("tape");
    let report = run(&library, &whole, &[("TRACT_TAPE", record.display().to_string())]);
    assert_eq!((report.acknowledged.len(), errors_of(&report).len()), (MESSAGES, 0), "{report:?}");
    judge(&whole, &report, "nothing fails");
    // Its log, its file and what is made next to it; not the memory that processes share.
    let tape = std::fs::read(record).expect("it is written");
    let tape = WriteTrace::read(&tape).expect("it is a tape");
    let of_file = |step: &&FileOp| {
        let name = step.file.file_name().unwrap_or_default().to_string_lossy();
        name.contains("agent.db") && step.act != Act::Remove
    };
    let accesses: Vec<Act> =
        tape.steps.iter().filter(of_file).map(|step| step.act.clone()).collect();
    assert!(accesses.len() > 3 * MESSAGES, "{} accesses", accesses.len());

    let mut rounds = tract_testkit::rounds(4 * accesses.len(), 60);
    let (mut errors, mut poisoned, mut unharmed) = (0, 0, 0);
    for round in rounds.by_ref() {
        // However many rounds there are time for, they lie everywhere; all of them are each once.
        let n = round * 151 % (4 * accesses.len());
        let (at, how) = (n / 4, ["once", "ever", "full", "short"][n % 4]);
        let what = format!("access {} fails: {how}", at + 1);
        let scratch = folder.path().join(round.to_string());
        let more = [
            ("TRACT_FAIL_AT", (at + 1).to_string()),
            ("TRACT_FAIL_HOW", how.to_owned()),
            ("TRACT_FAIL_IN", "agent.db".to_owned()),
        ];
        let report = run(&library, &scratch, &more);
        // SQLite writes the rest of what was cut short.
        let kinds = errors_of(&report);
        assert!(how != "short" || kinds.is_empty(), "{what}: {report:?}");
        for kind in &kinds {
            let typed = ["Engine", "Full", "Poisoned", "Unavailable", "Unknown", "Unsupported"];
            assert!(typed.contains(kind), "{what}: {report:?}");
        }
        let flush_of_a_write = how == "once"
            && matches!(accesses[at], Act::Flush)
            && report.lines_of(&["refused"]).is_empty()
            && (report.acknowledged.len() < MESSAGES || report.lines_of(&["repack"]) == ["failed"])
            && !kinds.is_empty();
        if flush_of_a_write {
            // After a flush that failed the content of the disk is unknown.
            assert!(kinds.contains(&"Poisoned"), "{what}: {report:?}");
        }
        errors += kinds.len();
        poisoned += kinds.iter().filter(|kind| **kind == "Poisoned").count();
        unharmed += usize::from(kinds.is_empty());
        judge(&scratch, &report, &what);
        std::fs::remove_dir_all(&scratch).expect("it is ours");
    }
    assert!(errors > rounds.done() / 3 && poisoned > 0, "{errors} errors, {poisoned} poisoned");
    let finding = format!(
        "{} times one of {} accesses failed (EIO once, EIO from there on, no space, half a write): \
         {errors} typed errors, {poisoned} handles poisoned, {unharmed} unharmed, 0 acknowledged lost",
        rounds.done(),
        accesses.len()
    );
    tract_testkit::figure("T3 errors of the disk", "sqlite", finding);
}
