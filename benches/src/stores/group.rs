//! Sixteen writers, each on its own branch: group commit compared with one write after the other, and
//! the gain of the bare engines if half of the writes share one transaction.

use std::sync::Mutex;

use tract::store::WriteMode;
use tract::{Tract, block_on};
use tract_benches::bare;

use super::{ENGINES, open};
use crate::messages;
use crate::table::{Table, median, timed};

const WRITERS: u64 = 16;
const ROUNDS: u64 = 5;

/// While one group is written, the others wait: of sixteen writers some eight come together.
const TOGETHER: u64 = 8;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let each = if quick { 20 } else { 60 };
    for (engine, (wanted, least)) in ENGINES.into_iter().zip([("≥ 3 ×", 3.0), ("≥ 5 ×", 5.0)])
    {
        let folder = tempfile::tempdir().unwrap();
        let tract = open(engine, folder.path(), WriteMode::Thread);
        messages::fill(&tract, 0, 100);
        let head = block_on(tract.head()).unwrap().unwrap();
        let writers: Vec<Tract> = (0..WRITERS)
            .map(|n| block_on(tract.fork(&format!("writer-{n}"), head)).unwrap())
            .collect();
        let (mut grouped, mut alone) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let from = 1_000 + round * 2 * WRITERS * each;
            grouped.push(rate(&writers, from, each, None));
            let turn = Mutex::new(());
            alone.push(rate(&writers, from + WRITERS * each, each, Some(&turn)));
        }
        let (grouped, alone) = (median(grouped), median(alone));
        let bare = tempfile::tempdir().unwrap();
        let mut floor = bare::create(engine, bare.path(), &tract).unwrap().unwrap();
        let (bare_grouped, bare_alone) =
            floors(each, |branches| floor.write_branches(branches, WRITERS as u32).unwrap());
        let mut add = |what: String, rates, wanted, met: Option<bool>| {
            table.compare(what, "commits/s", rates, "one by one", wanted, met);
        };
        let what = format!("{engine}, {WRITERS} writers, what is queued in one transaction");
        add(what, [grouped, alone], wanted, Some(grouped >= least * alone));
        let what =
            format!("{engine} by itself, {TOGETHER} of {WRITERS} branches in one transaction");
        add(what, [bare_grouped, bare_alone], "–", None);
        messages::close(tract);
    }
}

/// Has a bare engine write as many messages as the store did, in turns of groups and one by one;
/// gives commits a second for both.
fn floors(each: u64, mut write: impl FnMut(u64)) -> (f64, f64) {
    let mut rate = |together: u64| {
        let groups = WRITERS * each / together;
        let (_, took) = timed(|| (0..groups).for_each(|_| write(together)));
        (groups * together) as f64 / took.as_secs_f64()
    };
    let turns: Vec<_> = (0..ROUNDS).map(|_| (rate(TOGETHER), rate(1))).collect();
    let (grouped, alone) = turns.into_iter().unzip();
    (median(grouped), median(alone))
}

/// Lets all writers write; with a turn to wait for, one at a time. Gives commits a second.
fn rate(writers: &[Tract], from: u64, each: u64, turn: Option<&Mutex<()>>) -> f64 {
    let (_, took) = timed(|| {
        std::thread::scope(|scope| {
            for (n, writer) in (0..).zip(writers) {
                scope.spawn(move || {
                    for message in 0..each {
                        let text = messages::text(from + n * each + message);
                        let _turn = turn.map(|turn| turn.lock().unwrap());
                        block_on(writer.user(text)).unwrap();
                    }
                });
            }
        });
    });
    (writers.len() as u64 * each) as f64 / took.as_secs_f64()
}
