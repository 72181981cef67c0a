//! Reverting a summary of many messages, and verifying the store after it, next to four times what
//! both take with a quarter of the messages: the cost of a message must not grow with their number.

use tract::block_on;
use tract::store::WriteMode;

use crate::messages;
use crate::table::{Figure, Table, median, timed};

const ROUNDS: usize = 3;
const PARTS: u64 = 4;

/// Milliseconds that a revert takes, and a verification after it.
fn measured(messages: u64) -> [f64; 2] {
    let (mut reverts, mut checks) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let tract = messages::open(folder.path(), WriteMode::default());
        messages::fill(&tract, 0, messages);
        let first = format!("HEAD~{}", messages - 1);
        let summary = block_on(tract.compress(first.as_str(), "HEAD", "all of it")).unwrap();
        let (reverted, revert) = timed(|| block_on(tract.revert(summary.id())));
        reverted.unwrap();
        let (report, check) = timed(|| block_on(tract.verify()));
        assert!(report.unwrap().clean);
        reverts.push(revert.as_secs_f64() * 1e3);
        checks.push(check.as_secs_f64() * 1e3);
    }
    [median(reverts), median(checks)]
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let messages = if quick { 4_000 } else { 16_000 };
    let (few, many) = (measured(messages / PARTS), measured(messages));
    let what = ["revert of a summary", "verification after that revert"];
    for ((what, few), many) in what.into_iter().zip(few).zip(many) {
        let linear = few * PARTS as f64;
        table.add(Figure {
            what: format!("{what}, {messages} messages"),
            ours: format!("{many:.0} ms"),
            floor: format!("{linear:.0} ms ({PARTS} × that of {} messages)", messages / PARTS),
            ratio: Some(linear / many),
            wanted: "≥ 0.5",
            met: Some(linear / many >= 0.5),
        });
    }
}
