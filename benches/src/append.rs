//! Durable appends, one by one and a hundred at a time.

use std::path::Path;

use tract::store::WriteMode;
use tract::{Tract, block_on};
use tract_benches::bare;

use crate::table::{Figure, Table, median, micros, timed};
use crate::{messages, stores};

/// Short and many: what else the machine does comes in bursts, and hits all that take turns alike.
const ROUNDS: usize = 20;
/// As much as the caches that a processor has to itself.
const CACHES: usize = 8 << 20;

pub(crate) fn run(table: &mut Table, quick: bool) {
    computed(table, quick);
    durable(table, quick, "sqlite", if quick { 25 } else { 100 });
}

/// On redb, against raw redb.
pub(crate) fn redb(table: &mut Table, quick: bool) {
    durable(table, quick, "redb", if quick { 15 } else { 50 });
}

fn durable(table: &mut Table, quick: bool, engine: &str, each: u64) {
    let on = if engine == "redb" { "redb, " } else { "" };
    let sizes: &[u64] = if quick { &[0, 5_000] } else { &[0, 5_000, 50_000] };
    for &filled in sizes {
        let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let direct = stores::open(engine, folders[0].path(), WriteMode::InPlace);
        let thread = stores::open(engine, folders[1].path(), WriteMode::Thread);
        for tract in [&direct, &thread] {
            messages::fill(tract, 0, filled.max(1));
        }
        let mut floor = bare::create(engine, folders[2].path(), &direct).unwrap().unwrap();
        (0..filled / 100).for_each(|_| floor.write(100).unwrap());
        let mut next = filled + 10;
        let (mut direct_us, mut thread_us, mut floor_us) = (vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            direct_us.push(singles(&direct, &mut next, each));
            thread_us.push(singles(&thread, &mut next, each));
            let (_, took) = timed(|| (0..each).for_each(|_| floor.write(1).unwrap()));
            floor_us.push(micros(took) / each as f64);
        }
        let base = median(floor_us);
        let what = |how: &str| format!("{on}durable append at {filled}, {how}");
        add(table, what("in place"), median(direct_us), base, "≥ 0.8", Some(0.8));
        add(table, what("writer thread"), median(thread_us), base, "≥ 0.7", Some(0.7));

        let (mut ours, mut floors) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            let batches: Vec<Vec<_>> = (0..2)
                .map(|n| (next + n * 100..next + n * 100 + 100).map(messages::draft).collect())
                .collect();
            next += 200;
            let (_, took) = timed(|| {
                batches.into_iter().for_each(|drafts| {
                    block_on(direct.commit_all(drafts)).unwrap();
                });
            });
            ours.push(micros(took) / 200.0);
            let (_, took) = timed(|| (0..2).for_each(|_| floor.write(100).unwrap()));
            floors.push(micros(took) / 200.0);
        }
        let what = format!("{on}batched append at {filled}, 100 a write");
        add(table, what, median(ours), median(floors), "≥ 0.6", Some(0.6));
    }
}

fn singles(tract: &Tract, next: &mut u64, count: u64) -> f64 {
    let texts: Vec<String> = (*next..*next + count).map(messages::text).collect();
    *next += count;
    let (_, took) = timed(|| {
        for text in texts {
            block_on(tract.user(text)).unwrap();
        }
    });
    micros(took) / count as f64
}

fn add(
    table: &mut Table,
    what: String,
    ours: f64,
    floor: f64,
    wanted: &'static str,
    least: Option<f64>,
) {
    let ratio = floor / ours;
    table.add(Figure {
        what,
        ours: format!("{ours:.0} µs a commit"),
        floor: format!("{floor:.0} µs"),
        ratio: Some(ratio),
        wanted,
        met: least.map(|least| ratio >= least),
    });
}

/// Appends where a flush is free, in a folder in memory: what is left is what the store computes.
/// Once back to back, and once with the caches emptied before each, as they are when the processor
/// did something else while a flush was waited for.
fn computed(table: &mut Table, quick: bool) {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() || crate::flush::is_slowed() {
        eprintln!("  appends with free flushes: left out, no flush is free here");
        return;
    }
    let folders: Vec<_> = (0..2).map(|_| tempfile::tempdir_in(memory).unwrap()).collect();
    let tract = messages::open(folders[0].path(), WriteMode::InPlace);
    messages::fill(&tract, 0, 1);
    let mut floor = bare::create("sqlite", folders[1].path(), &tract).unwrap().unwrap();
    let each = if quick { 25 } else { 100 };
    let mut caches = vec![0_u64; CACHES / 8];
    let mut next = 10;
    for (how, empty) in [("", false), (", with cold caches", true)] {
        let (mut ours, mut floors) = (vec![], vec![]);
        for _ in 0..ROUNDS * each {
            let text = messages::text(next);
            next += 1;
            if empty {
                wipe(&mut caches);
            }
            ours.push(micros(timed(|| block_on(tract.user(text)).unwrap()).1));
            if empty {
                wipe(&mut caches);
            }
            floors.push(micros(timed(|| floor.write(1).unwrap()).1));
        }
        let what = format!("append where flushes are free{how}");
        add(table, what, median(ours), median(floors), "–", None);
    }
    messages::close(tract);
}

/// Writes to every cache line.
fn wipe(caches: &mut [u64]) {
    caches.iter_mut().step_by(8).for_each(|word| *word = word.wrapping_add(1));
}
