//! Sixteen writers, each on a branch of its own: grouped, against one after the other.

use std::sync::Mutex;

use tract::store::WriteMode;
use tract::{Tract, block_on};

use super::{ENGINES, open};
use crate::messages;
use crate::table::{Figure, Table, median, timed};

const WRITERS: u64 = 16;
const ROUNDS: u64 = 5;

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
        table.add(Figure {
            what: format!("{engine}, {WRITERS} writers, what is queued in one transaction"),
            ours: format!("{grouped:.0} commits/s"),
            floor: format!("{alone:.0} commits/s one by one"),
            ratio: Some(grouped / alone),
            wanted,
            met: Some(grouped >= least * alone),
        });
        messages::close(&tract);
    }
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
