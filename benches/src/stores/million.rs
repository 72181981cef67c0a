//! A store of a million commits against one of a thousand: what is done with one conversation of
//! 500 messages must not take longer because there are others.

use std::path::Path;
use std::sync::Arc;

use tract::store::WriteMode;
use tract::{OpenOptions, Tract, block_on};
use tract_store_redb::RedbOptions;

use super::{ENGINES, open, url};
use crate::messages;
use crate::table::{Table, median, micros, timed};

const MESSAGES: u64 = 500;
const ROUNDS: usize = 9;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let large = if quick { 20_000 } else { 1_000_000 };
    for engine in ENGINES {
        let folders = [1_000, large].map(|commits| {
            let folder = tempfile::tempdir().unwrap();
            fill(engine, folder.path(), commits);
            folder
        });
        let figures = folders.each_ref().map(|folder| {
            measure(ROUNDS, |options| {
                let options = options.write_mode(WriteMode::InPlace);
                block_on(options.open(&url(engine, folder.path()))).unwrap()
            })
        });
        compare(table, &format!("{engine},"), large, figures);
        if engine == "redb" {
            quick_repair(table, folders[1].path(), large);
        }
    }
}

/// Adds what [`measure`] gave for a store of a thousand commits, and for a large one.
pub(crate) fn compare(table: &mut Table, on: &str, large: u64, [small, big]: [[f64; 3]; 2]) {
    let names = ["opening", "an append", "compiling 500 messages, cold"];
    for ((what, small), big) in names.into_iter().zip(small).zip(big) {
        let what = format!("{on} {what} in a store of {large} commits");
        let note = "in a store of 1,000";
        table.compare(what, "µs", [big, small], note, "≤ 2 × as long", big <= 2.0 * small);
    }
}

/// The cost of quick repair per append to a large file, and the time it saves when the file is opened
/// after a kill. redb leaves the choice to its user.
fn quick_repair(table: &mut Table, folder: &Path, commits: u64) {
    let path = folder.join("tract.store");
    let [with, without] = [true, false].map(|quick| {
        let options = RedbOptions {
            write_mode: WriteMode::InPlace,
            quick_repair: quick,
            ..RedbOptions::default()
        };
        let store = Arc::new(tract_store_redb::open(&path, &options).unwrap());
        let tract = block_on(OpenOptions::new().branch("line-0").open_store(store)).unwrap();
        let append = |n| micros(timed(|| block_on(tract.user(messages::text(n))).unwrap()).1);
        let appended = median((0..50).map(append).collect());
        // A kill leaves the file of a store that was not closed.
        let killed = folder.join("killed.store");
        std::fs::copy(&path, &killed).unwrap();
        // Opening flushes: the copy itself must be on the disk before.
        std::fs::File::open(&killed).unwrap().sync_all().unwrap();
        messages::close(tract);
        let (opened, took) = timed(|| tract_store_redb::open(&killed, &options));
        opened.unwrap();
        [appended, micros(took)]
    });
    for (n, what) in ["an append", "opening after a kill"].into_iter().enumerate() {
        let what = format!("redb, {what} without quick repair, {commits} commits");
        table.compare(what, "µs", [without[n], with[n]], "with it, the default", "–", None);
    }
}

/// Writes conversations of 500 messages, each on a branch of its own.
fn fill(engine: &str, folder: &Path, commits: u64) {
    let tract = open(engine, folder, WriteMode::InPlace);
    for line in 0..commits / MESSAGES {
        messages::fill(&tract.on(&format!("line-{line}")).unwrap(), line * MESSAGES, MESSAGES);
    }
    messages::close(tract);
}

/// Opens, compiles and appends; gives the medians in microseconds, in the order of the table.
pub(crate) fn measure(rounds: usize, open: impl Fn(OpenOptions) -> Tract) -> [f64; 3] {
    let (mut opened, mut appended, mut compiled) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let branch = format!("line-{}", round % 2);
        let (tract, took) = timed(|| open(OpenOptions::new().branch(branch)));
        opened.push(micros(took));
        let (context, took) = timed(|| block_on(tract.compile()).unwrap());
        assert!(context.message_count() >= MESSAGES as usize);
        compiled.push(micros(took));
        for n in 0..10 {
            let text = messages::text(n);
            let (_, took) = timed(|| block_on(tract.user(text)).unwrap());
            appended.push(micros(took));
        }
        messages::close(tract);
    }
    [median(opened), median(appended), median(compiled)]
}
