//! Ranked search and grep over many messages of natural text.

use std::time::Duration;

use tract::engine::{GrepOptions, GrepPattern, SearchOptions, SearchReport};
use tract::store::WriteMode;
use tract::{CommitId, Draft, Tract, block_on};
use tract_testkit::data;

use crate::messages;
use crate::table::{Table, median, timed};

/// The words of recorded conversations in their order, or made ones where there are no recordings.
pub(crate) fn recorded_words() -> Vec<String> {
    let file = data::full("trajectories/tau_airline_gpt4o.jsonl");
    let text = file.map(|file| std::fs::read_to_string(file).unwrap());
    let mut words = Vec::new();
    for line in text.unwrap_or_default().lines() {
        collect(&serde_json::from_str(line).unwrap(), &mut words);
    }
    if words.is_empty() {
        eprintln!("no recordings: made words");
        words = (0..2_000)
            .flat_map(|n| messages::text(n).split(' ').map(str::to_owned).collect::<Vec<_>>())
            .collect();
    }
    words
}

fn collect(value: &serde_json::Value, words: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => {
            words.extend(text.split_whitespace().map(str::to_owned));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        serde_json::Value::Object(members) => {
            members.values().for_each(|member| collect(member, words));
        }
        _ => {}
    }
}

/// The n-th message: 500 characters in phrases of recorded text, and a word of its own.
pub(crate) fn text(words: &[String], n: u64) -> String {
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = format!("m{n}");
    while text.len() < 500 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let from = (state % words.len() as u64) as usize;
        for word in words.iter().skip(from).take(8) {
            text.push(' ');
            text.push_str(word);
        }
    }
    let end = (0..=500).rev().find(|end| text.is_char_boundary(*end)).unwrap();
    text.truncate(end);
    text
}

fn ask(tract: &Tract, head: CommitId, query: &str) -> (SearchReport, Duration) {
    timed(|| block_on(tract.search(&[head], query, &SearchOptions::default())).unwrap())
}

/// One message a durable write.
fn append(tract: &Tract, words: &[String], from: u64, count: u64) -> f64 {
    let ((), took) = timed(|| {
        for n in from..from + count {
            block_on(tract.commit(Draft::user(text(words, n)))).unwrap();
        }
    });
    count as f64 / took.as_secs_f64()
}

fn stored(tract: &Tract) -> u64 {
    block_on(tract.store().stats(tract.repo().name())).unwrap().disk_bytes
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let count: u64 = if quick { 20_000 } else { 1_000_000 };
    let folder = tempfile::tempdir().unwrap();
    let words = recorded_words();
    let mut tract = messages::open(folder.path(), WriteMode::InPlace);
    let mut n = 0;
    while n < count {
        let drafts: Vec<Draft> = (n..n + 1000).map(|n| Draft::user(text(&words, n))).collect();
        block_on(tract.commit_all(drafts)).unwrap();
        n += 1000;
    }
    let head = block_on(tract.head()).unwrap().unwrap();
    let bytes: u64 = block_on(tract.store().stats(tract.repo().name())).unwrap().blob_bytes;
    // Both figures of appends are of a handle that was just opened.
    messages::close(tract);
    tract = messages::open(folder.path(), WriteMode::InPlace);
    let before = median((0..3).map(|k| append(&tract, &words, count + k * 200, 200)).collect());

    let size = stored(&tract);
    let (first, took) = ask(&tract, head, "reservation");
    eprintln!("  index built in {took:.1?}: {} commits", first.added);
    table.limit(
        format!("index {count} messages at the first search"),
        format!("{:.1} s", took.as_secs_f64()),
        "said",
        None,
    );
    messages::close(tract);
    tract = messages::open(folder.path(), WriteMode::InPlace);
    let derived = block_on(tract.store().stats(tract.repo().name())).unwrap().derived_bytes;
    let share = (stored(&tract).saturating_sub(size)) as f64 / size as f64;
    eprintln!("  store {size} bytes, derived rows {derived} bytes, blobs {bytes} bytes");
    table.limit(
        format!("index of {count} messages, of the store"),
        format!("{:.1} %", share * 100.0),
        "< 15 %",
        share < 0.15,
    );
    for (what, query) in [
        ("a common word", "reservation"),
        ("three words", "refund cancelled insurance"),
        ("six common words", "the flight to your reservation is"),
        ("a word of one message", "m777"),
    ] {
        let times = (0..5).map(|_| ask(&tract, head, query).1.as_secs_f64() * 1e3).collect();
        let (report, _) = ask(&tract, head, query);
        let time = median(times);
        eprintln!(
            "  {what}: {time:.1} ms, {} match, {} entries",
            report.matching, report.entries_read
        );
        table.limit(
            format!("search {count} messages, {what}"),
            format!("{time:.1} ms"),
            "< 50 ms",
            time < 50.0,
        );
    }
    let after =
        median((0..3).map(|k| append(&tract, &words, count + 1000 + k * 200, 200)).collect());
    table.limit(
        "append with an index, against before it",
        format!("{after:.0} for {before:.0} a second"),
        "> 0.9",
        after > 0.9 * before,
    );
    let head = block_on(tract.head()).unwrap().unwrap();
    let (report, took) = ask(&tract, head, "reservation");
    table.limit(
        format!("search after {} appends", report.added),
        format!("{:.1} ms", took.as_secs_f64() * 1e3),
        "said",
        None,
    );
    grep(table, &tract, head, bytes);
    messages::close(tract);
}

fn grep(table: &mut Table, tract: &Tract, head: CommitId, bytes: u64) {
    let pattern = |text: &str| GrepPattern::new().regex(text).unwrap();
    let first = (0..3).map(|_| {
        let (hits, took) = timed(|| {
            let heads = [head];
            let search = tract.grep(&heads, pattern("reservation"), GrepOptions::default());
            let mut search = block_on(search).unwrap();
            block_on(search.next_hits()).unwrap()
        });
        assert!(hits.is_some());
        took.as_secs_f64() * 1e3
    });
    let first = median(first.collect());
    table.limit("grep, first hit", format!("{first:.1} ms"), "< 100 ms", first < 100.0);
    let whole = || {
        let heads = [head];
        let search = tract.grep(&heads, pattern("zzqx+y"), GrepOptions::default());
        let mut search = block_on(search).unwrap();
        while block_on(search.next_hits()).unwrap().is_some() {}
    };
    whole();
    let ((), took) = timed(whole);
    let rate = bytes as f64 / 1e6 / took.as_secs_f64();
    table.limit(
        "grep, whole history without a hit",
        format!("{rate:.0} MB/s"),
        ">= 400 MB/s",
        rate >= 400.0,
    );
}
