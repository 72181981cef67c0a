//! The documentation as a book: every page is in the summary, every link leads somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, tidy};

const SUMMARY: &str = "docs/SUMMARY.md";

pub(crate) fn run() -> Outcome {
    println!("--- book");
    let mut found = Vec::new();
    let tracked = tidy::tracked()?;
    for manifest in tracked.iter().filter(|path| path.starts_with("crates")) {
        let page = manifest.with_file_name("README.md");
        if manifest.ends_with("Cargo.toml") && !page.exists() {
            found.push(format!("{} is missing", page.display()));
        }
    }
    let listed: BTreeSet<PathBuf> = links(&read(Path::new(SUMMARY))?)
        .iter()
        .map(|(_, link)| Path::new("docs").join(link))
        .collect();
    for page in tracked.iter().filter(|path| is_page(path)) {
        let in_book = page.starts_with("docs") && page != Path::new(SUMMARY);
        if in_book && !listed.contains(page) {
            found.push(format!("{}: not in {SUMMARY}", page.display()));
        }
        for (line, link) in links(&read(page)?) {
            if let Err(why) = leads_somewhere(page, &link) {
                found.push(format!("{}:{line}: {link}: {why}", page.display()));
            }
        }
    }
    crate::reported(&found)?;
    build()
}

/// Whether a file is a page of the book, of a crate, or one at the root that leads to them.
fn is_page(file: &Path) -> bool {
    let root = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(Path::new);
    let is_in_docs = file.starts_with("docs") && file.extension().is_some_and(|end| end == "md");
    is_in_docs || root.contains(&file) || file.starts_with("crates") && file.ends_with("README.md")
}

/// Builds the book if mdbook is installed; prints a note if it is not.
fn build() -> Outcome {
    match Command::new("mdbook").args(["build", "docs"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(_) => {
            println!("NOT RUN: mdbook build docs; mdbook is not installed");
            Ok(())
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the links of a page outside of its blocks of code, each with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            if let Some((link, _)) = rest.split_once(')') {
                links.push((at + 1, link.to_owned()));
            }
        }
    }
    links
}

fn leads_somewhere(page: &Path, link: &str) -> Result<(), &'static str> {
    if link.starts_with("https://") {
        return Ok(());
    }
    let (file, heading) = match link.split_once('#') {
        Some((file, heading)) => (file, Some(heading)),
        None => (link, None),
    };
    let target = match file {
        "" => page.to_owned(),
        _ => page.with_file_name(file),
    };
    if !target.exists() {
        return Err("no such file");
    }
    let Some(heading) = heading else { return Ok(()) };
    let text = std::fs::read_to_string(&target).map_err(|_| "not a page")?;
    let headings = text.lines().filter(|line| line.starts_with('#')).map(slug);
    if headings.into_iter().any(|found| found == heading) { Ok(()) } else { Err("no such heading") }
}

/// Returns the anchor of a heading.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_no_links() {
        let page = "[a](b.md)\n```\n[c](d.md)\n```\n[e](f.md#g) [h](i.md)\n";
        let wanted = [(1, "b.md"), (5, "f.md#g"), (5, "i.md")];
        let found = links(page);
        let found: Vec<_> = found.iter().map(|(line, link)| (*line, link.as_str())).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_heading_has_the_anchor_that_the_forge_gives_it() {
        assert_eq!(slug("## What a `KvEngine` must not do"), "what-a-kvengine-must-not-do");
    }
}
