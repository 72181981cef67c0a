//! Canonical JSON in bytes a second, over recorded messages and tool schemas.

use tract_core::json::{self, Escapes};
use tract_testkit::data;

use crate::table::{Table, median, timed};

fn rate(texts: &[String], escapes: Escapes) -> (f64, f64) {
    let bytes: usize = texts.iter().map(String::len).sum();
    let rates = (0..9).map(|_| {
        let (out, took) = timed(|| {
            texts.iter().map(|text| json::canonical(text, escapes).unwrap().len()).sum::<usize>()
        });
        assert!(out > 0);
        bytes as f64 / 1e6 / took.as_secs_f64()
    });
    (median(rates.collect()), bytes as f64 / 1e6)
}

pub(crate) fn run(table: &mut Table, _quick: bool) {
    let conversations = data::recorded();
    let messages = conversations.iter().flat_map(|one| one.messages.clone()).collect();
    let tools = match data::full("toolcatalog") {
        Some(folder) => data::lines(&folder),
        None => conversations.into_iter().flat_map(|one| one.tools).collect::<Vec<_>>(),
    };
    for (what, texts, escapes) in [
        ("messages, non-ASCII raw", messages, Escapes::Raw),
        ("tool schemas, ASCII escapes", tools, Escapes::Ascii),
    ] {
        let (rate, megabytes) = rate(&texts, escapes);
        table.limit(
            format!("canonical JSON of {} recorded {what}", texts.len()),
            format!("{rate:.0} MB/s ({megabytes:.1} MB)"),
            "linear",
            true,
        );
    }
}
