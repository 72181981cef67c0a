//! The memory that one large tool result takes on its way in and out.

use tract::{Draft, Limits, OpenOptions, Part, Tract, block_on};

use crate::size::{peak_of_child, print_peak};
use crate::stores;
use crate::table::Table;

/// Bytes of the result, as a tool gives it.
const BYTES: usize = 100_000_000;

fn open(url: &str) -> Tract {
    let limits = Limits { blob_bytes: 128 << 20, ..Limits::default() };
    block_on(OpenOptions::new().limits(limits).open(url)).unwrap()
}

pub(crate) fn run(table: &mut Table, _quick: bool) {
    let folder = tempfile::tempdir().unwrap();
    for (what, way) in [("in", "--peak-of-large-in"), ("out", "--peak-of-large-out")] {
        let Some(kib) = peak_of_child(way, &stores::url("sqlite", folder.path())) else { return };
        let times = kib * 1024.0 / BYTES as f64;
        table.limit(
            format!("peak memory of a process that takes a tool result of 100 MB {what}"),
            format!("{:.0} MB, {times:.2} × the result", kib * 1024.0 / 1e6),
            "< 3 ×",
            times < 3.0,
        );
    }
}

/// Commits the result, and prints the most memory that this process ever had.
pub(crate) fn taken_in(url: &str) {
    let tract = open(url);
    block_on(tract.commit(Draft::assistant("").call("c1", "read", r#"{"path":"log"}"#))).unwrap();
    let line = "a line of a log file, with \"quotes\", of which there are very many, one by one\n";
    let mut result = String::with_capacity(BYTES + line.len());
    while result.len() < BYTES {
        result.push_str(line);
    }
    block_on(tract.tool_result("c1", result)).unwrap();
    print_peak();
}

/// Compiles the branch that ends in the result, and prints the most memory that this process
/// ever had.
pub(crate) fn given_out(url: &str) {
    let tract = open(url);
    let compiled = block_on(tract.compile()).unwrap();
    let parts = compiled.messages().flat_map(|message| message.content.parts());
    let is_result = |part: &Part| matches!(part, Part::Text { text } if text.len() >= BYTES);
    assert_eq!(parts.filter(|part| is_result(part)).count(), 1);
    print_peak();
}
