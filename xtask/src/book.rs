//! The documentation as a book: every page is in the summary, every link leads somewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::Outcome;

const SUMMARY: &str = "docs/SUMMARY.md";

pub(crate) fn run() -> Outcome {
    println!("--- book");
    let mut found = Vec::new();
    let pages = pages(Path::new("docs"))?;
    let listed: BTreeSet<PathBuf> = links(&read(Path::new(SUMMARY))?)
        .iter()
        .map(|(_, link)| Path::new("docs").join(link))
        .collect();
    for page in &pages {
        if page != Path::new(SUMMARY) && !listed.contains(page) {
            found.push(format!("{}: not in {SUMMARY}", page.display()));
        }
    }
    let others = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(PathBuf::from);
    let crates = crate_pages(Path::new("crates"), &mut found)?;
    for page in pages.iter().cloned().chain(others).chain(crates) {
        for (line, link) in links(&read(&page)?) {
            if let Err(why) = leads_somewhere(&page, &link) {
                found.push(format!("{}:{line}: {link}: {why}", page.display()));
            }
        }
    }
    crate::reported(&found)?;
    build()
}

/// Returns the page of the crates and that of each, and reports a crate without one.
fn crate_pages(folder: &Path, found: &mut Vec<String>) -> Result<Vec<PathBuf>, String> {
    let mut pages = vec![folder.join("README.md")];
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.join("Cargo.toml").exists() {
            let page = path.join("README.md");
            if page.exists() {
                pages.push(page)
            } else {
                found.push(format!("{} is missing", page.display()))
            }
        }
    }
    Ok(pages)
}

/// Builds the book where mdbook is installed, and says so where it is not.
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

fn pages(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            pages.append(&mut self::pages(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
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
        _ => plain(&page.parent().unwrap_or(Path::new("")).join(file)),
    };
    if !target.exists() {
        return Err("no such file");
    }
    let Some(heading) = heading else { return Ok(()) };
    let text = std::fs::read_to_string(&target).map_err(|_| "not a page")?;
    let headings = text.lines().filter(|line| line.starts_with('#')).map(slug);
    if headings.into_iter().any(|found| found == heading) { Ok(()) } else { Err("no such heading") }
}

/// Resolves `..` in a path by its names alone.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
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
