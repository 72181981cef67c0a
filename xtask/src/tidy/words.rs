//! The words and type names that this project does not use, and what it uses instead.
//!
//! Pages are held against the words; of the code, the names of types that other modules see.

use std::path::Path;

/// A phrase, and what to write instead; matched as whole words.
const WORDS: &[(&str, &str)] = &[
    ("anew", "again"),
    ("bears", "has"),
    ("beside", "next to, in addition to"),
    ("by now", "leave it out"),
    ("by then", "leave it out, or say when"),
    ("goes on", "continues"),
    ("gone on", "continued"),
    ("nobody", "the one who does not, or the passive"),
    ("somebody", "the one who does, or the passive"),
    ("stands", "is, points to"),
    ("stood", "was, pointed to"),
    ("taken back", "reverted"),
    ("to be had", "available"),
    ("told of", "reported"),
    ("what there is to say", "the details"),
    ("whoever", "the one who does"),
];

/// Names of types that say what happened to a thing and not what it is.
const TYPES: &[&str] = &[
    "Asked", "Driven", "Found", "Given", "Kept", "LetGo", "Life", "Look", "Place", "Rest", "Said",
    "Stand", "Standing", "Taken", "Told", "Verdict", "Way",
];

/// Reports each use of a listed word in a page, and each listed name of a type.
pub(super) fn check(file: &Path, text: &str, found: &mut Vec<String>) {
    let name = file.to_string_lossy();
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("md") if !name.contains("tests/data/") => check_page(&name, text, found),
        Some("rs") if !name.contains("tests") => check_types(&name, text, found),
        _ => {}
    }
}

/// Blocks and spans of code are what programs print and names of tests: they are left out.
fn check_page(name: &str, text: &str, found: &mut Vec<String>) {
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ` ");
        let spaced = spaced(&prose);
        for (word, instead) in WORDS {
            if spaced.contains(&format!(" {word} ")) {
                found.push(format!("{name}:{}: \"{word}\" (write: {instead})", number + 1));
            }
        }
    }
}

fn check_types(name: &str, text: &str, found: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        if let Some(kind) = visible_type(line).filter(|kind| TYPES.contains(kind)) {
            found.push(format!("{name}:{}: type {kind}: a type is named by a noun", number + 1));
        }
    }
}

/// The words of a line in lower case, each between single spaces.
fn spaced(line: &str) -> String {
    let mut spaced = String::with_capacity(line.len() + 2);
    spaced.push(' ');
    for c in line.chars() {
        if c.is_alphanumeric() || c == '\'' {
            spaced.extend(c.to_lowercase());
        } else if !spaced.ends_with(' ') {
            spaced.push(' ');
        }
    }
    spaced.push(' ');
    spaced
}

/// The name of a type that a line defines for a whole crate or more.
fn visible_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    if !matches!(words.next()?, "pub" | "pub(crate)") {
        return None;
    }
    if !matches!(words.next()?, "struct" | "enum" | "trait" | "type") {
        return None;
    }
    words.next()?.split(|c: char| !c.is_alphanumeric()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(file: &str, text: &str) -> usize {
        let mut found = Vec::new();
        check(Path::new(file), text, &mut found);
        found.len()
    }

    #[test]
    fn listed_words_are_found_in_prose_and_not_in_code() {
        assert_eq!(findings("a.md", "Nobody says where it stands.\nA standstill, besides."), 2);
        assert_eq!(findings("a.md", "The test `it_stands` and `it stands`.\n```\nstood\n```\n"), 0);
    }

    #[test]
    fn listed_type_names_are_found_where_they_are_defined() {
        assert_eq!(findings("src/a.rs", "pub(crate) struct Told<'a> {"), 1);
        assert_eq!(findings("src/a.rs", "    Told { text: String },\nstruct Teller;"), 0);
    }
}
