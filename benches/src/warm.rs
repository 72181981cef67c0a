//! Compile after one append: flat, whatever the length of the history.

use tract::block_on;
use tract::prelude::*;
use tract::store::WriteMode;

use crate::messages;
use crate::table::{Table, median, micros, timed};

pub(crate) fn run(table: &mut Table, quick: bool) {
    let sizes: &[u64] = if quick { &[100, 5_000] } else { &[100, 5_000, 50_000] };
    let mut medians = Vec::new();
    for &filled in sizes {
        let folder = tempfile::tempdir().unwrap();
        let tract = messages::open(folder.path(), WriteMode::InPlace);
        messages::fill(&tract, 0, filled);
        block_on(tract.compile()).unwrap();
        let mut took_us = Vec::new();
        for n in filled..filled + 280 {
            block_on(tract.user(messages::text(n))).unwrap();
            let (compiled, took) = timed(|| block_on(tract.compile()).unwrap());
            assert_eq!(compiled.message_count() as u64, n + 1);
            took_us.push(micros(took));
        }
        let each = median(took_us);
        medians.push(each);
        table.limit(
            format!("compile after one append, {filled} messages"),
            format!("{each:.1} µs"),
            "< 100 µs",
            each < 100.0,
        );
        if filled == 5_000 {
            let compiled = block_on(tract.compile()).unwrap();
            let (mut rates, mut bytes) = (Vec::new(), 0);
            for _ in 0..9 {
                let (body, took) = timed(|| compiled.to_openai_params().unwrap().to_json());
                bytes = body.len();
                rates.push(bytes as f64 / 1e6 / took.as_secs_f64());
            }
            table.limit(
                "writing params of 5,000 messages (openai-params)",
                format!("{:.0} MB/s ({:.1} MB)", median(rates), bytes as f64 / 1e6),
                "linear",
                true,
            );
        }
    }
    let (first, last) = (medians[0], medians[medians.len() - 1]);
    table.limit(
        format!("the same, {} against {} messages", sizes[sizes.len() - 1], sizes[0]),
        format!("{:.2} ×", last / first),
        "≤ 1.6 ×",
        last / first <= 1.6,
    );
}
