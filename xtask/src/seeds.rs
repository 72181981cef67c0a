//! The map from the seeds' features to tests, `docs/seeds.md`: each test and file that it cites has to
//! exist.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::Outcome;

const MAP: &str = "docs/seeds.md";

pub(crate) fn run() -> Outcome {
    println!("--- seeds");
    let map = std::fs::read_to_string(MAP).map_err(|error| format!("{MAP}: {error}"))?;
    let mut functions = HashSet::new();
    for file in rust_files()? {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        functions.extend(function_names(&text).map(str::to_owned));
    }
    crate::reported(&missing(&map, &functions, |path| Path::new(path).exists()))
}

fn rust_files() -> Result<Vec<PathBuf>, String> {
    let mut files = crate::tidy::tracked()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    Ok(files)
}

/// The names of the functions in a file.
fn function_names(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).map(|after| {
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &after[..end.unwrap_or(after.len())]
    })
}

/// Returns the tests and files that the map cites and that do not exist.
fn missing(map: &str, functions: &HashSet<String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut missing = Vec::new();
    for (line, number) in map.lines().zip(1..) {
        let text = match line.strip_prefix('|') {
            Some(row) => row.trim_end().trim_end_matches('|').rsplit(" | ").next().unwrap_or(""),
            None => line,
        };
        for cited in text.split('`').skip(1).step_by(2) {
            let is_name = cited.contains('_')
                && cited.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            let is_path = cited.contains('/');
            if (is_name && !functions.contains(cited)) || (is_path && !exists(cited)) {
                missing.push(format!("{MAP}:{number}: `{cited}` does not exist"));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cited_test_or_file_that_does_not_exist_is_reported() {
        let functions = function_names("#[test]\nfn a_test() {}\nasync fn other_test<T>(t: T) {}");
        let functions: HashSet<String> = functions.map(str::to_owned).collect();
        let check = |map: &str| missing(map, &functions, |path| path == "tests/there.rs").len();
        assert_eq!(check("| a | `Type::gone_name` | `a_test` (`tests/there.rs`) |"), 0);
        assert_eq!(check("| a | b | `a_test`, `gone_test` |"), 1);
        assert_eq!(check("| a | b | `other_test` (`tests/gone.rs`) |"), 1);
        assert_eq!(check("The tests are `gone_test` and `a_test`."), 1);
    }
}
