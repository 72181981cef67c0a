//! Rules that no compiler knows: file lengths, unfinished marks, words that do not belong here.

mod phrasing;
mod rust_text;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// Lines of a file, its tests apart, above which a second idea is split off.
const MOST_LINES: usize = 1000;

pub(crate) fn run() -> Outcome {
    println!("--- tidy");
    let files = tracked()?;
    let mut found = Vec::new();
    let mut phrasing = phrasing::Phrasing::new()?;
    for file in &files {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        if file.extension().is_some_and(|extension| extension == "rs") {
            check_rust(file, &text, &mut found);
            phrasing.add(file, &text);
        }
        check_paths(file, &text, &mut found);
        words::check(file, &text, &mut found);
        if text.len() > 2 << 20 {
            found.push(format!("{}: larger than 2 MiB", file.display()));
        }
    }
    for wanted in ["docs/architecture.md", "docs/data-model.md", "docs/seeds.md", "CHANGELOG.md"] {
        if !Path::new(wanted).exists() {
            found.push(format!("{wanted} is missing"));
        }
    }
    phrasing.report(&mut found);
    crate::reported(&found)
}

/// Returns the files that git knows.
pub(crate) fn tracked() -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git").args(["ls-files", "-z"]).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout)
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .collect()),
        Ok(output) => Err(format!("git ls-files ended with {}", output.status)),
        Err(error) => Err(format!("git ls-files did not start: {error}")),
    }
}

fn check_rust(file: &Path, text: &str, found: &mut Vec<String>) {
    let is_test = file.components().any(|part| {
        matches!(part.as_os_str().to_str(), Some("tests" | "benches" | "examples" | "tests.rs"))
    });
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    if !is_test && code > MOST_LINES {
        found.push(format!("{}: {code} lines; is there a second idea?", file.display()));
    }
    // Spelled apart, so that this file does not find itself.
    let ignored = concat!("#[ign", "ore");
    let unfinished = [concat!("tod", "o!("), concat!("unimple", "mented!("), concat!("XX", "X")];
    for (number, line) in text.lines().enumerate() {
        if line.contains(ignored) {
            found.push(format!("{}:{}: an ignored test", file.display(), number + 1));
        }
        if unfinished.iter().any(|mark| line.contains(mark)) {
            found.push(format!("{}:{}: an unfinished mark", file.display(), number + 1));
        }
    }
    let crate_root = file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    // The macros of PyO3 generate unsafe code; the lint table of the crate denies it elsewhere.
    let generates_unsafe = file.starts_with("crates/tract-python");
    if crate_root && !generates_unsafe && !text.contains("#![forbid(unsafe_code)]") {
        found.push(format!("{}: does not forbid unsafe code", file.display()));
    }
}

fn check_paths(file: &Path, text: &str, found: &mut Vec<String>) {
    if file.starts_with("LICENSE-APACHE") || file.starts_with("Cargo.lock") {
        return;
    }
    // Within `tests`, cargo would take a file next to the folder for a test of its own.
    if file.ends_with("mod.rs")
        && !file.parent().and_then(Path::parent).is_some_and(|p| p.ends_with("tests"))
    {
        found.push(format!(
            "{}: a module is a file of its name, next to its folder",
            file.display()
        ));
    }
    let home = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/home/", "dev")];
    for (number, line) in text.lines().enumerate() {
        if home.iter().any(|path| line.contains(path)) {
            found.push(format!("{}:{}: an absolute path", file.display(), number + 1));
        }
    }
}
