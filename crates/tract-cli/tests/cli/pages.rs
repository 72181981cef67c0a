//! Blocks of the documentation that show what the binary answers.

use std::path::Path;

/// Checks that the first text block after a line of a page is this text, except for its ids;
/// `TRACT_DOCS=write` writes it.
#[track_caller]
pub(crate) fn shows(page: &str, after: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let whole = std::fs::read_to_string(&path).expect("the page");
    let line = format!("\n{after}\n");
    let at = whole.find(&line).unwrap_or_else(|| panic!("{page} has no line {after:?}"));
    let (before, rest) = whole.split_at(at + line.len());
    let (between, rest) = rest.split_once("```text\n").expect("a block");
    let (block, rest) = rest.split_once("\n```").expect("its end");
    if std::env::var("TRACT_DOCS").is_ok_and(|value| value == "write") {
        let new = format!("{before}{between}```text\n{text}\n```{rest}");
        std::fs::write(&path, new).expect("written");
        return;
    }
    assert_eq!(without_ids(block), without_ids(text), "docs/{page}: run with TRACT_DOCS=write");
}

/// Ids differ from run to run.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let words = words.map(|part| {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_id(word) { part.replacen(word, "IDENTITY", 1) } else { part.to_owned() }
    });
    words.collect()
}
