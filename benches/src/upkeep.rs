//! Verifying a store and collecting its garbage: time, memory, and how long it makes writers wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tract::engine::GcOptions;
use tract::store::WriteMode;
use tract::{OpenOptions, Tract, block_on};

use crate::messages;
use crate::size::{peak_of_child, print_peak};
use crate::stores::{ENGINES, url};
use crate::table::{Table, timed};

fn open(url: &str) -> Tract {
    block_on(OpenOptions::new().write_mode(WriteMode::InPlace).open(url)).unwrap()
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    // A commit with its content is two objects.
    let objects: u64 = if quick { 40_000 } else { 1_000_000 };
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let url = url(engine, folder.path());
        let tract = open(&url);
        messages::fill(&tract.on("kept").unwrap(), 0, objects / 4);
        messages::fill(&tract.on("gone").unwrap(), objects, objects / 4);
        messages::close(tract);
        verified(table, engine, &url, objects);
        let tract = open(&url);
        block_on(tract.branches().delete("gone")).unwrap();
        messages::close(tract);
        collected(table, engine, &url, objects);
    }
}

fn megabytes(kib: f64) -> f64 {
    kib * 1024.0 / 1e6
}

/// Verifies in a process of its own.
fn verified(table: &mut Table, engine: &str, url: &str, objects: u64) {
    let (peak, took) = timed(|| peak_of_child("--peak-of-verify", url));
    let each = objects as f64 / took.as_secs_f64();
    table.limit(
        format!("{engine}, verifying {objects} objects, a process with its start"),
        format!("{each:.0} objects/s, {:.1} s", took.as_secs_f64()),
        "≥ 200,000 /s",
        each >= 200_000.0,
    );
    if let Some(peak) = peak.map(megabytes) {
        let what = format!("{engine}, peak memory of that process");
        table.limit(what, format!("{peak:.0} MB"), "< 150 MB", peak < 150.0);
    }
}

/// Verifies, and prints the most memory that this process ever had.
pub(crate) fn peak_of_verify(url: &str) {
    let report = block_on(open(url).verify()).unwrap();
    assert!(report.clean, "{:?}", report.damage);
    print_peak();
}

/// Collects, and prints the most memory that this process ever had.
pub(crate) fn peak_of_gc(url: &str) {
    let tract = open(url);
    let report =
        block_on(tract.gc(&GcOptions { keep: Duration::ZERO, ..GcOptions::default() })).unwrap();
    assert!(report.deleted().objects > 0);
    messages::close(tract);
    print_peak();
}

/// Appends until it is told to stop; returns how long the slowest append took.
fn slowest_append(tract: &Tract, from: u64, stop: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    let mut n = from;
    while !stop.load(Ordering::Acquire) {
        let begun = Instant::now();
        block_on(tract.commit(messages::draft(n))).unwrap();
        slowest = slowest.max(begun.elapsed());
        n += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    slowest
}

/// Collects garbage concurrently with a writer. A redb file belongs to one process, so there both are
/// threads of this process: its memory is not a figure of the collection, and the file is not shrunk,
/// which would block the writer.
fn collected(table: &mut Table, engine: &str, url: &str, objects: u64) {
    let stop = AtomicBool::new(false);
    let (waited, took, peak) = std::thread::scope(|scope| {
        let tract = open(url);
        let own = tract.on("other").unwrap();
        let stop = &stop;
        let writer = scope.spawn(move || slowest_append(&own, 10 * objects, stop));
        let (peak, took) = timed(|| match engine {
            "sqlite" => peak_of_child("--peak-of-gc", url),
            _ => {
                let options = GcOptions {
                    keep: Duration::ZERO,
                    release_space: false,
                    ..GcOptions::default()
                };
                block_on(tract.gc(&options)).unwrap();
                None
            }
        });
        stop.store(true, Ordering::Release);
        let waited = writer.join().unwrap();
        messages::close(tract);
        (waited, took.as_secs_f64(), peak)
    });
    table.limit(
        format!("{engine}, collecting {} of {objects} objects", objects / 2),
        format!("{took:.1} s"),
        "< 30 s",
        took < 30.0,
    );
    let waited = waited.as_secs_f64() * 1e3;
    table.limit(
        format!("{engine}, the slowest append meanwhile"),
        format!("{waited:.0} ms"),
        "< 100 ms",
        waited < 100.0,
    );
    if let Some(peak) = peak.map(megabytes) {
        let what = format!("{engine}, peak memory of the process that collects");
        table.limit(what, format!("{peak:.0} MB"), "< 200 MB", peak < 200.0);
    }
}
