//! Compile after one append: flat, for any length of the history.

use tract::block_on;
use tract::prelude::*;
use tract::store::WriteMode;

use crate::messages;
use crate::table::{Table, median, micros, timed};

pub(crate) fn run(table: &mut Table, quick: bool) {
    let sizes: &[u64] = if quick { &[100, 5_000] } else { &[100, 5_000, 50_000] };
    let folders: Vec<_> = sizes.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let tracts: Vec<Tract> = sizes
        .iter()
        .zip(&folders)
        .map(|(&filled, folder)| {
            let tract = messages::open(folder.path(), WriteMode::InPlace);
            messages::fill(&tract, 0, filled);
            block_on(tract.compile()).unwrap();
            tract
        })
        .collect();
    let mut took_us = vec![Vec::new(); sizes.len()];
    // In turns, so that what else the machine does hits all sizes alike.
    for more in 0..280 {
        for ((tract, &filled), took_us) in tracts.iter().zip(sizes).zip(&mut took_us) {
            let n = filled + more;
            block_on(tract.user(messages::text(n))).unwrap();
            let (compiled, took) = timed(|| block_on(tract.compile()).unwrap());
            assert_eq!(compiled.message_count() as u64, n + 1);
            took_us.push(micros(took));
        }
    }
    let means: Vec<f64> = took_us.iter().map(|each| mean(each)).collect();
    let medians: Vec<f64> = took_us.into_iter().map(median).collect();
    for ((tract, &filled), &each) in tracts.iter().zip(sizes).zip(&medians) {
        table.limit(
            format!("compile after one append, {filled} messages"),
            format!("{each:.1} µs"),
            "< 100 µs",
            each < 100.0,
        );
        if filled == 5_000 {
            params(table, tract);
        }
    }
    // The mean counts what an append now and then does for those that follow.
    for (what, each) in [("medians", medians), ("means", means)] {
        let (first, last) = (each[0], each[each.len() - 1]);
        table.limit(
            format!("the same, {} against {} messages, {what}", sizes[sizes.len() - 1], sizes[0]),
            format!("{:.2} ×", last / first),
            "≤ 1.6 ×",
            last / first <= 1.6,
        );
    }
}

/// Returns the mean of all but the slowest fiftieth, which the machine was busy with others in.
fn mean(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.truncate(values.len() - values.len() / 50);
    values.iter().sum::<f64>() / values.len() as f64
}

/// Writes the whole request: linear, however little of it is new.
fn params(table: &mut Table, tract: &Tract) {
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
