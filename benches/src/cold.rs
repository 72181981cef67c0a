//! Opening a store and compiling from nothing.

use std::path::Path;
use std::time::Duration;

use tract::block_on;
use tract::store::WriteMode;
use tract_benches::bare::{self, BareEngine as _};

use crate::messages;
use crate::table::{Table, median, timed};

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// Opens and compiles, nine times; gives the median in milliseconds.
pub(crate) fn cold(folder: &Path, messages: usize) -> f64 {
    let runs = (0..9).map(|_| {
        let ((tract, compiled), took) = timed(|| {
            let tract = messages::open(folder, WriteMode::InPlace);
            let compiled = block_on(tract.compile()).unwrap();
            (tract, compiled)
        });
        assert_eq!(compiled.message_count(), messages);
        messages::close(tract);
        millis(took)
    });
    median(runs.collect())
}

pub(crate) fn run(table: &mut Table, _quick: bool) {
    let folder = tempfile::tempdir().unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    messages::fill(&tract, 0, 5_000);
    let raw = tempfile::tempdir().unwrap();
    let mut floor = bare::sqlite(raw.path(), &tract).unwrap();
    (0..50).for_each(|_| floor.write(100).unwrap());
    messages::close(tract);
    let ours = cold(folder.path(), 5_000);
    let floor = median((0..9).map(|_| millis(timed(|| floor.read().unwrap()).1)).collect());
    let what = "open and cold compile, 5,000 messages";
    table.compare(what, "ms", [ours, floor], "reading the bytes", "< 20 ms", ours < 20.0);
}

/// A long history whose context is short, against a short history with the same context.
pub(crate) fn history(table: &mut Table, quick: bool) {
    let commits: u64 = if quick { 10_000 } else { 100_000 };
    let short = messages::filled(500);
    let long = tempfile::tempdir().unwrap();
    let tract = messages::open(long.path(), WriteMode::InPlace);
    let mut made = 0;
    while made < commits {
        messages::fill(&tract, made, 500);
        made += 500;
        let context = block_on(tract.compile()).unwrap();
        let surplus = context.message_count().saturating_sub(500);
        if surplus > 0 {
            // One summary takes the place of all that is too old.
            let mut old = context.commit_ids().take(surplus + 1);
            let first = old.next().unwrap();
            let last = old.last().unwrap_or(first);
            block_on(tract.compress(first, last, "what was said before")).unwrap();
            made += 1;
        }
    }
    let shown = block_on(tract.compile()).unwrap().message_count();
    messages::close(tract);
    let (ours, base) = (cold(long.path(), shown), cold(short.path(), 500));
    let what = format!("cold compile, {made} commits of which {shown} messages are shown");
    let (note, wanted) = ("a history of 500 messages", "≤ 3 × that history");
    table.compare(what, "ms", [ours, base], note, wanted, ours <= 3.0 * base);
}
