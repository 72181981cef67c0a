//! Measures a flush, which every durable write waits for, and makes flushes slower on demand.
//!
//! A flush takes 30 µs on one machine and 3 ms on another. That decides how much of a write is the
//! store's own time, and how much a group of writers saves. `--slow-flush 500` adds 500 µs to each
//! flush, those of the floors included.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::table::{Table, median, micros, timed};

/// The variable that the preloaded library reads.
const MORE: &str = "TRACT_SLOW_FLUSH_US";

/// Runs this program again with slower flushes, and exits with its status.
pub(crate) fn slowly(micros: &str, arguments: &[&String]) -> ! {
    if micros.parse::<u32>().is_err() {
        eprintln!("--slow-flush wants microseconds, not {micros:?}");
        std::process::exit(2);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(arguments).env(MORE, micros).env("LD_PRELOAD", library(folder.path()));
    let status = child.status().unwrap();
    drop(folder);
    std::process::exit(status.code().unwrap_or(1));
}

/// Whether flushes are slowed down.
pub(crate) fn is_slowed() -> bool {
    std::env::var_os(MORE).is_some()
}

/// Builds the library that makes flushes slow.
fn library(folder: &Path) -> PathBuf {
    if !cfg!(target_os = "linux") {
        eprintln!("--slow-flush works by LD_PRELOAD, on Linux alone");
        std::process::exit(2);
    }
    let (source, library) = (folder.join("slow_flush.c"), folder.join("slow_flush.so"));
    std::fs::write(&source, include_str!("slow_flush.c")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).arg("-ldl");
    assert!(cc.status().is_ok_and(|status| status.success()), "cc builds the library");
    library
}

/// Adds what a flush of 4 KiB takes here, written over again and again.
pub(crate) fn measure(table: &mut Table) {
    let folder = tempfile::tempdir().unwrap();
    let mut file = File::create(folder.path().join("flush")).unwrap();
    let mut once = || {
        file.rewind().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
    };
    once();
    let took = median((0..500).map(|_| micros(timed(&mut once).1)).collect());
    let more = std::env::var(MORE).map(|more| format!(", {more} of it added"));
    let ours = format!("{took:.0} µs{}", more.unwrap_or_default());
    table.limit("a flush of 4 KiB on this disk", ours, "–", None);
}
