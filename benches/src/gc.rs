//! Garbage collection of a million objects while others write: how long it takes, how much memory,
//! and how long a writer ever waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tract::engine::{GcOptions, GcProgress};
use tract::{OpenOptions, Tract, block_on};
use tract_core::{
    Applied, Batch, BatchId, Blob, By, Commit, CommitId, CommitRecord, Content, Expect, LogNote,
    Op, OperationId, RefEdit, RefName, RefTarget, RepoName, Store,
};

use crate::table::Table;

/// Commits of one batch while the store is filled.
const BATCH: u64 = 1_000;
/// Each commit has a content.
const PER_COMMIT: u64 = 2;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let objects = if quick { 20_000 } else { 1_000_000 };
    let folder = tempfile::tempdir().unwrap();
    for engine in ["sqlite", "redb"] {
        let url = format!("{engine}:{}", folder.path().join("gc.store").display());
        measure(table, engine, &url, objects);
        std::fs::remove_file(folder.path().join("gc.store")).unwrap();
    }
    #[cfg(feature = "postgres")]
    if let Some(url) = crate::postgres::own_url() {
        measure(table, "postgres", &url, objects);
    }
}

/// Fills a store, half of it garbage, and collects it in a process of its own.
fn measure(table: &mut Table, engine: &str, url: &str, objects: u64) {
    let store = block_on(OpenOptions::new().create(true).open(url)).unwrap();
    fill(store.store().as_ref(), objects / PER_COMMIT);
    block_on(store.store().close()).unwrap();
    drop(store);
    let child = std::env::current_exe().unwrap();
    let output = std::process::Command::new(child).args(["--gc", url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|word| word.parse::<f64>().unwrap());
    let mut next = || numbers.next().unwrap();
    let (seconds, release, peak_mb) = (next(), next(), next());
    let (wait, wait_in_release, writes, before, after) = (next(), next(), next(), next(), next());
    let of = format!("{engine}, gc of {objects} objects, half of them garbage");
    table.limit(format!("{of}: time"), format!("{seconds:.1} s"), "< 30 s", seconds < 30.0);
    table.limit(format!("{of}: memory"), format!("{peak_mb:.0} MB"), "< 200 MB", peak_mb < 200.0);
    let waited = format!("{wait:.0} ms, of {writes:.0} writes");
    table.limit(format!("{of}: longest append meanwhile"), waited, "< 100 ms", wait < 100.0);
    let waited = format!("{wait_in_release:.0} ms, in {release:.1} s");
    let what = format!("{of}: longest append while space is given back");
    table.limit(what, waited, "< 100 ms", wait_in_release < 100.0);
    let disk = format!("{:.0} MB before, {:.0} MB after", before / 1e6, after / 1e6);
    table.limit(format!("{of}: on disk"), disk, "less", after < before);
}

/// What the child does: collects while a thread appends, and prints what it saw.
pub(crate) fn collected(url: &str) {
    let tract = block_on(OpenOptions::new().open(url)).unwrap();
    // What the store does at the end is measured by itself.
    let is_released = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (tract, is_released, done) =
            (tract.on("live").unwrap(), Arc::clone(&is_released), Arc::clone(&done));
        std::thread::spawn(move || waits(&tract, &is_released, &done))
    };
    let progress = Arc::new(move |progress| {
        if progress == GcProgress::Releasing {
            is_released.store(true, Ordering::Release);
        }
    });
    let start = Instant::now();
    let options = GcOptions::new().keep(Duration::ZERO).progress(progress);
    let report = block_on(tract.gc(&options)).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    done.store(true, Ordering::Release);
    let (longest, longest_in_release, release, writes) = writer.join().unwrap();
    let space = report.released.unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kb: f64 =
        peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0);
    println!(
        "{seconds} {release} {} {longest} {longest_in_release} {writes} {} {}",
        peak_kb / 1e3,
        space.before,
        space.after
    );
    eprintln!("{report:?}");
}

/// Appends until it is over; gives the longest wait in milliseconds, before and while space is given
/// back, the seconds of that, and how many writes there were.
fn waits(tract: &Tract, is_released: &AtomicBool, done: &AtomicBool) -> (f64, f64, f64, u64) {
    let (mut longest, mut longest_in_release, mut writes) = (0.0f64, 0.0f64, 0);
    let mut release: Option<Instant> = None;
    while !done.load(Ordering::Acquire) {
        let start = Instant::now();
        block_on(tract.user(format!("meanwhile {writes}"))).unwrap();
        let took = start.elapsed().as_secs_f64() * 1e3;
        writes += 1;
        if is_released.load(Ordering::Acquire) {
            release.get_or_insert(start);
            longest_in_release = longest_in_release.max(took);
        } else {
            longest = longest.max(took);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let seconds = release.map_or(0.0, |start| start.elapsed().as_secs_f64());
    (longest, longest_in_release, seconds, writes)
}

fn batch(commits: Vec<Commit>, blobs: Vec<Blob>, edit: RefEdit) -> Batch {
    let note = LogNote {
        operation: OperationId::random().unwrap(),
        what: "commit".to_owned(),
        who: "bench".to_owned(),
        why: None,
        undoes: None,
        at: 1,
    };
    let mut batch = Batch::new(BatchId::random().unwrap(), note);
    (batch.commits, batch.blobs) = (commits, blobs);
    batch.refs.push(edit);
    batch
}

/// Writes two branches of as many messages, and deletes one.
fn fill(store: &dyn Store, commits: u64) {
    let repo = RepoName::default();
    let apply = |batch| assert_eq!(block_on(store.apply(&repo, batch)).unwrap(), Applied::Done);
    let target = |head: CommitId| RefTarget::Commit(head);
    for name in ["main", "gone"] {
        let branch = RefName::branch(name).unwrap();
        let mut head: Option<CommitId> = None;
        let mut expect = Expect::Absent;
        for first in (0..commits / 2).step_by(BATCH as usize) {
            let (mut made, mut blobs) = (Vec::new(), Vec::new());
            for n in first..(first + BATCH).min(commits / 2) {
                let text = format!("{name} {n} {}", "what a message says ".repeat(15));
                let blob = Blob::seal(Content::user(text).to_blob().unwrap());
                let mut record = CommitRecord::new(Op::append(), By::User);
                record.parents = head.into_iter().collect();
                record.content = Some(blob.id());
                record.kind = Some(tract_core::Kind::User);
                record.created_at = Some(n as i64 + 1);
                let commit = Commit::seal(record).unwrap();
                head = Some(commit.id());
                made.push(commit);
                blobs.push(blob);
            }
            let to = head.map(target);
            let edit = RefEdit { name: branch.clone(), expect, to: to.clone() };
            expect = to.map_or(Expect::Absent, Expect::Is);
            apply(batch(made, blobs, edit));
        }
        if name == "gone" {
            apply(batch(Vec::new(), Vec::new(), RefEdit { name: branch, expect, to: None }));
        }
    }
}
