//! The words and type names that this project does not use, each with its replacement.
//!
//! Pages and code are held against the words: of code its comments and string literals, tests
//! included. Every type and function that code defines is held against the names.

use std::path::Path;

use super::rust_text::{Prose, prose};

/// A phrase and its replacement; matched as whole words.
const WORDS: &[(&str, &str)] = &[
    ("anew", "again"),
    ("anybody", "a caller, or the passive"),
    ("bear", "have, contain"),
    ("bears", "has, contains"),
    ("beside", "next to, in addition to"),
    ("bore", "had, contained"),
    ("by now", "leave it out"),
    ("by then", "leave it out, or say when"),
    ("everybody", "all of them, or say who"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("going on", "continuing"),
    ("gone on", "continued"),
    ("lets in", "admits"),
    ("nobody", "the one who does not, or the passive"),
    ("nothing leads to", "is unreachable"),
    ("somebody", "the one who does, or the passive"),
    ("stand", "be, point to"),
    ("standing", "being, state"),
    ("stands", "is, points to"),
    ("stood", "was, pointed to"),
    ("take back", "revert"),
    ("taken back", "reverted"),
    ("takes back", "reverts"),
    ("to be had", "available"),
    ("told of", "reported"),
    ("went on", "continued"),
    ("what had come", "the part that arrived"),
    ("what there is to say", "the details"),
    ("whoever", "the one who does"),
    ("whomever", "the one who"),
];

/// The same for code alone; pages may use them as prepositions.
const CODE_WORDS: &[(&str, &str)] = &[("whatever", "what, or: for any, regardless of")];

/// Files and words that stay, each with the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/tract-tools/src/fs/tools.rs", "stand", "a tool's definition, whose hash is its id"),
    ("crates/tract-tools/src/fs/tools.rs", "stands", "a tool's definition, whose hash is its id"),
    (
        "crates/tract-tools/src/prompt/expand.rs",
        "stand",
        "a tool's definition, whose hash is its id",
    ),
    ("crates/tract-cli/tests/cli/branches.rs", "whatever", "a long text that is cut"),
    ("crates/tract-cli/tests/cli/catalog.rs", "somebody", "a tool's definition in a catalog"),
    ("crates/tract-store-postgres/tests/all/server.rs", "nobody", "a user of the operating system"),
    ("tests/model_summaries.rs", "whatever", "any text, and any reason of a status line"),
    ("xtask/src/tidy/words.rs", "", "the list itself"),
    ("xtask/src/tidy/phrasing.rs", "", "a list, too"),
];

/// Type names that are participles or gestures instead of nouns.
const TYPES: &[&str] = &[
    "Asked",
    "Before",
    "Beside",
    "Chosen",
    "Doomed",
    "Driven",
    "Elsewhere",
    "Found",
    "Given",
    "Heard",
    "Held",
    "Kept",
    "Lacking",
    "LetGo",
    "Life",
    "Listed",
    "Look",
    "Looks",
    "Made",
    "Manner",
    "Noted",
    "Place",
    "Ran",
    "Rest",
    "Said",
    "Says",
    "Shown",
    "Stand",
    "Standing",
    "Taken",
    "Told",
    "Verdict",
    "Way",
    "What",
    "When",
    "Written",
];

/// Function names that are not verbs for the work that is done.
const FUNCTIONS: &[&str] =
    &["apart", "believe", "beside", "hears", "lend", "need", "patiently", "spoil", "told"];

/// Names of variables, parameters and fields without content.
const VARIABLES: &[&str] = &["asked", "heard", "hears", "lent", "said", "told", "verdict"];

/// Forbidden beginnings of function names: a test is named after a property, not by a clause.
const BEGINNINGS: &[&str] = &["what_", "whatever_", "who_", "whoever_", "whose_"];

/// Reports each use of a listed word in a page, in the prose of code or in the name of a function,
/// and each listed name of a type or a function.
pub(super) fn check(file: &Path, text: &str, found: &mut Vec<String>) {
    let name = file.to_string_lossy();
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("md") if !name.contains("tests/data/") => check_page(&name, text, found),
        Some("rs") => {
            check_code(&name, text, found);
            check_names(&name, text, found);
        }
        _ => {}
    }
}

/// Blocks are what programs print: they are left out.
fn check_page(name: &str, text: &str, found: &mut Vec<String>) {
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if !in_block {
            check_line(name, number + 1, line, WORDS.iter(), found);
        }
    }
}

fn check_code(name: &str, text: &str, found: &mut Vec<String>) {
    let pieces = prose(text);
    for (n, Prose { line, text }) in pieces.iter().enumerate() {
        for (number, text) in text.lines().enumerate() {
            check_line(name, line + number, text, WORDS.iter().chain(CODE_WORDS), found);
        }
        // A comment goes over several lines, and a phrase may be cut by a line's end.
        if let Some(next) = pieces.get(n + 1).filter(|next| next.line == line + 1) {
            let last = text.split_whitespace().next_back().unwrap_or_default();
            let next = next.text.trim_start_matches(['/', '!']);
            let first = next.split_whitespace().next().unwrap_or_default();
            let phrases = WORDS.iter().filter(|(word, _)| word.contains(' '));
            check_line(name, *line, &format!("{last} {first}"), phrases, found);
        }
    }
}

/// Spans of code are names: they are left out.
fn check_line<'a>(
    name: &str,
    number: usize,
    line: &str,
    words: impl Iterator<Item = &'a (&'a str, &'a str)>,
    found: &mut Vec<String>,
) {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ` ");
    let spaced = spaced(&prose);
    for (word, instead) in words {
        let is_allowed = || {
            ALLOWED.iter().any(|(file, may, _)| *file == name && (may == word || may.is_empty()))
        };
        if spaced.contains(&format!(" {word} ")) && !is_allowed() {
            found.push(format!("{name}:{number}: \"{word}\" (write: {instead})"));
        }
    }
}

fn check_names(name: &str, text: &str, found: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        if let Some(kind) = defined(line, &["struct", "enum", "trait", "type"])
            && TYPES.contains(&kind)
        {
            found.push(format!("{name}:{}: type {kind}: a type is named by a noun", number + 1));
        }
        if let Some(variable) = bound(line).filter(|variable| VARIABLES.contains(variable)) {
            let what = "a variable is named by what it holds";
            found.push(format!("{name}:{}: {variable}: {what}", number + 1));
        }
        if let Some(function) = defined(line, &["fn"]) {
            if FUNCTIONS.contains(&function) {
                let what = "a function is named by what it does";
                found.push(format!("{name}:{}: fn {function}: {what}", number + 1));
            }
            if BEGINNINGS.iter().any(|beginning| function.starts_with(beginning)) {
                let what = "begin with the subject: `a_flipped_byte_is_reported`";
                found.push(format!("{name}:{}: fn {function}: {what}", number + 1));
            }
            check_line(name, number + 1, &function.replace('_', " "), WORDS.iter(), found);
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

/// Returns the name that a line defines with one of these keywords.
fn defined<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    let may_precede = |word: &str| word.starts_with("pub") || matches!(word, "async" | "const");
    let keyword = words.find(|word| !may_precede(word))?;
    if !keywords.contains(&keyword) {
        return None;
    }
    words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The name that a line begins to bind: of a variable, or of a field or parameter with a line of
/// its own.
fn bound(line: &str) -> Option<&str> {
    let words = line.trim_start();
    let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_');
    if let Some(pattern) = words.strip_prefix("let ") {
        let pattern = pattern.trim_start_matches('(');
        let pattern = pattern.strip_prefix("mut ").unwrap_or(pattern);
        return pattern.get(..end(pattern)?);
    }
    let field = match words.strip_prefix("pub") {
        Some(rest) => rest.split_once(' ')?.1,
        None => words.strip_prefix("mut ").unwrap_or(words),
    };
    let (name, rest) = field.split_at(end(field)?);
    (rest.starts_with(": ") && !rest.starts_with(": :")).then_some(name)
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
    fn listed_words_are_found_in_pages_and_not_in_their_code() {
        assert_eq!(findings("a.md", "Nobody says where it stands.\nA standstill, besides."), 2);
        assert_eq!(findings("a.md", "The test `it_stands` and `it stands`.\n```\nstood\n```\n"), 0);
    }

    #[test]
    fn listed_words_are_found_in_comments_and_literals_and_not_in_names() {
        assert_eq!(
            findings("src/a.rs", "// Whatever stands `here`.\nlet stands = \"it stood\";"),
            3
        );
        assert_eq!(findings("tests/a.rs", "fn f() { told(beside); } // `stood`"), 0);
        assert_eq!(findings("src/a.rs", "    /// Here it goes\n    /// on and ends."), 1);
    }

    #[test]
    fn an_allowed_word_is_allowed_only_in_its_file() {
        let text = "[\"postgres\", \"nobody\"]";
        assert_eq!(findings("crates/tract-store-postgres/tests/all/server.rs", text), 0);
        assert_eq!(findings("crates/tract-store-postgres/tests/all/main.rs", text), 1);
    }

    #[test]
    fn listed_names_are_found_where_they_are_defined() {
        assert_eq!(findings("src/a.rs", "pub(crate) struct Told<'a> {"), 1);
        assert_eq!(findings("tests/a.rs", "type Way = fn();"), 1);
        assert_eq!(findings("src/a.rs", "    pub(super) async fn told<T>(of: T) {"), 1);
        assert_eq!(findings("tests/a.rs", "fn a_write_goes_on() {\n    understand();"), 1);
        assert_eq!(findings("tests/a.rs", "fn what_is_lost_is_noticed() {\nfn whatever() {"), 1);
        assert_eq!(findings("src/a.rs", "    Told { text: String },\nstruct Teller;"), 0);
        assert_eq!(findings("src/a.rs", "    let (mut told, b) = c;\n    let said = 1;"), 2);
        assert_eq!(findings("src/a.rs", "    pub(crate) asked: u8,\n    mut heard: u8,"), 2);
        assert_eq!(findings("src/a.rs", "let untold = told(1);\n// said: \nsaid::new()"), 0);
    }
}
