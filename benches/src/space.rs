//! The bytes of recordings, messages and large results in a store, before and after a repack.

use std::path::Path;

use tract::engine::{ImportOptions, Importer};
use tract::store::WriteMode;
use tract::{Draft, Tract, block_on};
use tract_testkit::data;

use crate::cold::cold;
use crate::messages;
use crate::table::{Figure, Table, timed};

fn size(tract: &Tract) -> u64 {
    block_on(tract.store().stats(tract.repo().name())).unwrap().disk_bytes
}

/// The texts of all conversations that are recorded in some folders, one to a line or to a file.
fn recordings(folders: &[&str]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in folders.iter().filter_map(|folder| data::full(folder)) {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()).filter(|path| path.is_file()));
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if file.extension().is_some_and(|extension| extension == "jsonl") {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            found.extend(
                lines.enumerate().map(|(n, line)| (format!("{name}-{n}"), line.to_owned())),
            );
        } else {
            found.push((name, text));
        }
    }
    found
}

/// Stores recordings; gives how many there are, and their bytes.
fn import(tract: &Tract, recordings: &[(String, String)]) -> (usize, u64) {
    let (mut stored, mut bytes) = (0, 0);
    let mut importer = Importer::new(tract.repo(), ImportOptions::default()).unwrap();
    for (name, line) in recordings {
        let Ok(read) = tract::import::read(line, None, name) else { continue };
        if block_on(importer.add(read.conversation)).is_ok() {
            stored += 1;
            bytes += line.len() as u64;
        }
    }
    block_on(importer.finish()).unwrap();
    (stored, bytes)
}

fn recorded(table: &mut Table, what: &str, folders: &[&str], most: Option<f64>) {
    let recordings = recordings(folders);
    if recordings.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    let (stored, bytes) = import(&tract, &recordings);
    messages::close(tract);
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    let before = size(&tract);
    block_on(tract.repack(None)).unwrap();
    messages::close(tract);
    let after = messages::bytes(folder.path());
    let share = |part: u64| part as f64 / bytes as f64;
    table.limit(
        format!("{stored} conversations of {what} after a repack, of their JSONL"),
        format!("{:.2} ({:.2} before it)", share(after), share(before)),
        if most.is_some() { "≤ 0.35" } else { "–" },
        most.map(|most| share(after) <= most),
    );
}

/// Messages of natural text: bytes per message, and the time to compile them.
fn short(table: &mut Table, count: u64) {
    let words = crate::search::recorded_words();
    let folder = tempfile::tempdir().unwrap();
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    for n in (0..count).step_by(100) {
        let text = |n| crate::search::text(&words, n);
        let drafts: Vec<Draft> = (n..n + 100).map(|n| Draft::user(text(n))).collect();
        block_on(tract.commit_all(drafts)).unwrap();
    }
    messages::close(tract);
    let (before, plain) = (messages::bytes(folder.path()), cold(folder.path(), count as usize));
    let tract = messages::open(folder.path(), WriteMode::InPlace);
    let (_, took) = timed(|| block_on(tract.repack(None)).unwrap());
    messages::close(tract);
    let (after, packed) = (messages::bytes(folder.path()), cold(folder.path(), count as usize));
    let each = |bytes: u64| bytes as f64 / count as f64;
    table.limit(
        format!("bytes on disk per 500-character message of natural text, {count} repacked"),
        format!(
            "{:.0} B ({:.0} B before, in {:.1} s)",
            each(after),
            each(before),
            took.as_secs_f64()
        ),
        "≤ 420 B",
        each(after) <= 420.0,
    );
    table.add(Figure {
        what: format!("open and cold compile, {count} messages, repacked"),
        ours: format!("{packed:.1} ms"),
        floor: format!("{plain:.1} ms (not repacked)"),
        ratio: Some(plain / packed),
        wanted: "≤ 1.2 × as long",
        met: Some(packed <= 1.2 * plain),
    });
}

/// The output of a command that prints all files of a crate.
fn code() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/tract-core/src");
    let files = data::files(&folder, "rs").into_iter();
    files.map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// A large result as it is written, and after a repack.
fn large(table: &mut Table) {
    let log: String = (0..4000)
        .map(|n| {
            format!(
                "2026-11-25T10:{:02}:{:02}Z INFO request {n} done in {} ms\n",
                n / 60 % 60,
                n % 60,
                n * 37 % 911
            )
        })
        .collect();
    let rows = (0..2000).map(|n| {
        serde_json::json!({"id": n, "name": format!("customer {}", n * 7 % 613), "total": n * 13 % 997, "open": n % 3 == 0})
    });
    let json = serde_json::Value::from_iter(rows).to_string();
    for (what, text) in [("Rust", code()), ("a log", log), ("JSON", json)] {
        let folder = tempfile::tempdir().unwrap();
        let tract = messages::open(folder.path(), WriteMode::InPlace);
        let plain = text.len();
        block_on(tract.commit(Draft::assistant("").call("c", "read", "{}"))).unwrap();
        block_on(tract.tool_result("c", text)).unwrap();
        let report = block_on(tract.repack(None)).unwrap();
        messages::close(tract);
        let times = |stored: u64| plain as f64 / stored as f64;
        table.limit(
            format!("a result of {} kB of {what}, repacked", plain / 1000),
            format!(
                "{:.1} times smaller ({:.1} as it was written)",
                times(report.after),
                times(report.before)
            ),
            "≥ 4",
            times(report.after) >= 4.0,
        );
    }
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let cassettes = [
        "cassettes/anthropic",
        "cassettes/anthropic_compat",
        "cassettes/ollama",
        "cassettes/openai",
        "cassettes/openai_compat",
    ];
    recorded(
        table,
        "trajectories and cassettes",
        &[&["trajectories"], cassettes.as_slice()].concat(),
        Some(0.35),
    );
    recorded(table, "trajectories alone", &["trajectories"], None);
    short(table, if quick { 1_000 } else { 5_000 });
    large(table);
}
