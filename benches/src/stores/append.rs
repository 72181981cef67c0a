//! Durable appends on redb, against raw redb.

use tract::block_on;
use tract::store::WriteMode;

use crate::append::{ROUNDS, add, singles};
use crate::messages;
use crate::table::{Table, median, micros, timed};

pub(crate) fn run(table: &mut Table, quick: bool) {
    let sizes: &[u64] = if quick { &[0, 5_000] } else { &[0, 5_000, 50_000] };
    for &filled in sizes {
        let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let direct = super::open("redb", folders[0].path(), WriteMode::InPlace);
        let thread = super::open("redb", folders[1].path(), WriteMode::Thread);
        for tract in [&direct, &thread] {
            messages::fill(tract, 0, filled.max(1));
        }
        let mut floor = tract_benches::bare::redb(folders[2].path(), &direct).unwrap();
        (0..filled.div_ceil(100)).for_each(|_| floor.write(100).unwrap());
        let mut next = filled + 10;
        let each = if quick { 15 } else { 50 };
        let (mut direct_us, mut thread_us, mut floor_us) = (vec![], vec![], vec![]);
        let (mut batch_us, mut batch_floor_us) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            direct_us.push(singles(&direct, &mut next, each));
            thread_us.push(singles(&thread, &mut next, each));
            let (_, took) = timed(|| (0..each).for_each(|_| floor.write(1).unwrap()));
            floor_us.push(micros(took) / each as f64);
            let (_, took) = timed(|| {
                for _ in 0..2 {
                    let drafts: Vec<_> = (next..next + 100).map(messages::draft).collect();
                    block_on(direct.commit_all(drafts)).unwrap();
                    next += 100;
                }
            });
            batch_us.push(micros(took) / 200.0);
            let (_, took) = timed(|| (0..2).for_each(|_| floor.write(100).unwrap()));
            batch_floor_us.push(micros(took) / 200.0);
        }
        let base = median(floor_us);
        let what = |how: &str| format!("redb, durable append at {filled}, {how}");
        add(table, what("in place"), median(direct_us), base, "≥ 0.8", 0.8);
        add(table, what("writer thread"), median(thread_us), base, "≥ 0.7", 0.7);
        let (ours, base) = (median(batch_us), median(batch_floor_us));
        let what = format!("redb, batched append at {filled}, 100 a write");
        add(table, what, ours, base, "≥ 0.6", 0.6);
    }
}
