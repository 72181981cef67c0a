//! Canonical JSON in bytes a second, over recorded messages and tool schemas.

use std::path::{Path, PathBuf};

use tract_core::json::{self, Escapes};

use crate::table::{Table, median, timed};

const BUNDLED: &str = include_str!("../../tests/data/trajectories/conversations.jsonl");

/// Reads the lines of the recorded files of a folder of `TRACT_DATA` (by default `../shared/data`
/// next to the repository).
fn recorded(folder: &str) -> Vec<String> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let data = std::env::var_os("TRACT_DATA").map_or_else(default, PathBuf::from);
    let files = std::fs::read_dir(data.join(folder)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    paths
        .iter()
        .map(text)
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Takes the values of a list out of each line.
fn items(lines: &[String], list: &str) -> Vec<String> {
    let lists = lines.iter().flat_map(|line| json::split_object(line).unwrap());
    let found = lists.filter(|(key, value)| key == list && *value != "null");
    found.flat_map(|(_, value)| json::split_array(value).unwrap()).map(str::to_owned).collect()
}

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
    let mut lines = recorded("trajectories");
    if lines.is_empty() {
        eprintln!("  TRACT_DATA names no folder of recordings: those that are bundled are taken");
        lines = BUNDLED.lines().map(str::to_owned).collect();
    }
    let messages = items(&lines, "messages");
    let mut tools = recorded("toolcatalog");
    if tools.is_empty() {
        tools = items(&lines, "tools");
    }
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
