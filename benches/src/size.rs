//! Bytes on disk, forks, and the memory that a compile takes.

use std::process::Command;

use tract::block_on;
use tract::store::{Store, WriteMode};
use tract_benches::bare;
use tract_benches::engine::peak_bytes;

use crate::table::{Table, median, micros, timed};
use crate::{messages, stores};

pub(crate) fn bytes(table: &mut Table, quick: bool) {
    let sizes: &[u64] = if quick { &[1_000, 5_000] } else { &[1_000, 5_000, 50_000] };
    let mut each = Vec::new();
    for &count in sizes {
        let folder = tempfile::tempdir().unwrap();
        let tract = messages::open(folder.path(), WriteMode::InPlace);
        // One message a write: the dearest way, with a ref move logged for each.
        for n in 0..count {
            block_on(tract.commit(messages::draft(n))).unwrap();
        }
        let stats = block_on(tract.store().stats(tract.repo().name())).unwrap();
        messages::close(tract);
        let bytes = messages::bytes(folder.path());
        let one = bytes as f64 / count as f64;
        each.push(one);
        table.limit(
            format!("bytes on disk per 500-character message, {count} messages"),
            format!("{one:.0} B (derived rows {} B in all)", stats.derived_bytes),
            "≤ 1,000 B, derived < 10 %",
            one <= 1000.0 && stats.derived_bytes * 10 < bytes,
        );
    }
    let apart = |a: f64, b: f64| (a / b - 1.0).abs() * 100.0;
    if let [first, second, third] = each[..] {
        let (far, near) = (apart(first, third), apart(second, third));
        table.limit(
            "the same, 50,000 against 5,000 and 1,000 messages",
            format!("{near:.1} % and {far:.1} % apart"),
            "≤ 5 % and ≤ 15 %",
            near <= 5.0 && far <= 15.0,
        );
    }
}

pub(crate) fn fork(table: &mut Table, _quick: bool) {
    let folder = tempfile::tempdir().unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    messages::fill(&tract, 0, 5_000);
    let head = block_on(tract.head()).unwrap().unwrap();
    let raw = tempfile::tempdir().unwrap();
    let mut floor = bare::create("sqlite", raw.path(), &tract).unwrap().unwrap();
    let before = block_on(tract.store().stats(tract.repo().name())).unwrap();
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for n in 0..50 {
        let (_, took) = timed(|| block_on(tract.fork(&format!("fork-{n}"), head)).unwrap());
        ours.push(micros(took));
        // A durable write of nothing but one ref and its log entry: the sync that a fork pays.
        floors.push(micros(timed(|| floor.write(0).unwrap()).1));
    }
    let after = block_on(tract.store().stats(tract.repo().name())).unwrap();
    assert_eq!(
        (before.blobs, before.commits),
        (after.blobs, after.commits),
        "a fork copies nothing"
    );
    let (ours, floor) = (median(ours), median(floors));
    let (what, note) = ("fork of 5,000 messages (0 message bytes copied)", "one durable ref write");
    let (wanted, met) = ("< 500 µs plus one sync", ours - floor < 500.0);
    table.compare(what, "µs", [ours, floor], note, wanted, met);
}

pub(crate) fn memory(table: &mut Table, _quick: bool) {
    let folder = messages::filled(5_000);
    let Some(kib) = peak_of_child("--peak-of-compile", &stores::url("sqlite", folder.path()))
    else {
        return;
    };
    table.limit(
        "peak memory of a process that opens and compiles 5,000 messages",
        format!("{:.1} MB", kib / 1024.0),
        "< 40 MB",
        kib / 1024.0 < 40.0,
    );
}

/// Runs this program in one of its ways, which prints the most memory that it had, in KiB.
pub(crate) fn peak_of_child(way: &str, url: &str) -> Option<f64> {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args([way, url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let kib = stdout.trim().parse();
    if kib.is_err() {
        eprintln!("  peak memory: not measured here: {stdout}");
    }
    kib.ok()
}

/// Prints the most memory that this process ever had, in KiB.
pub(crate) fn print_peak() {
    let kib = peak_bytes().map(|bytes| bytes / 1024);
    println!("{}", kib.map_or("no VmHWM".to_owned(), |kib| kib.to_string()));
}

/// Opens, compiles, and prints the most memory that this process ever had.
pub(crate) fn peak_of_compile(url: &str) {
    let tract = block_on(tract::open(url)).unwrap();
    let compiled = block_on(tract.compile()).unwrap();
    assert_eq!(compiled.message_count(), 5_000);
    print_peak();
}
