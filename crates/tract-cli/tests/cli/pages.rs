//! Pictures of the documentation, which show what the binary does.

use std::path::Path;

/// Checks that a picture in `docs/` is this one, except for its ids; `TRACT_DOCS=write` writes it.
#[track_caller]
pub(crate) fn shows(name: &str, picture: &str) {
    shows_but(name, picture, without_ids);
}

/// The same for a picture of which only what `kept` leaves is the same in every run.
#[track_caller]
pub(crate) fn shows_but(name: &str, picture: &str, kept: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var("TRACT_DOCS").is_ok_and(|value| value == "write") {
        std::fs::write(&path, picture).expect("written");
        return;
    }
    let there = std::fs::read_to_string(&path).expect("the picture");
    assert_eq!(kept(&there), kept(picture), "docs/{name}: run `cargo xtask picture`");
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
