//! Every block of Rust in the documentation is a program that compiles and runs.
//!
//! A block of `rust` follows a comment with the name of its program in `docs/examples`, and is that
//! file, word for word: `<!-- examples/agent.rs -->`. Where a page quotes a part of a source file,
//! the comment has that file's path: `<!-- from crates/tract-core/src/lib.rs -->`.
//!
//! `TRACT_DOCS=write cargo test -p tract-tests --test book` copies the programs into the pages.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// How the `main` of a program ends.
trait Ended {
    fn check(self);
}

impl Ended for () {
    fn check(self) {}
}

impl<E: Debug> Ended for Result<(), E> {
    fn check(self) {
        self.expect("the program succeeds");
    }
}

macro_rules! programs {
    (run: $($run:ident),*; compile: $($compile:ident),*;) => {
        /// The programs that are compiled here.
        const PROGRAMS: &[&str] = &[$(stringify!($run),)* $(stringify!($compile),)*];

        $(mod $run {
            include!(concat!("../docs/examples/", stringify!($run), ".rs"));

            #[test]
            fn runs() {
                super::Ended::check(main());
            }
        })*

        $(#[allow(dead_code, reason = "it needs another server")]
        mod $compile {
            include!(concat!("../docs/examples/", stringify!($compile), ".rs"));
        })*
    };
}

programs! {
    run: agent, approval, at_a_time, definition, dispatch, hooks, hydrate, import, pin_gate, property,
        readme, repositories, results_configure, results_find, selection, strict, tool_by_hand,
        tool_function, tool_struct, tutorial_change, tutorial_errors, tutorial_record,
        tutorial_send, tutorial_tools;
    compile: mcp, mcp_http, mcp_serve, model;
}

#[test]
fn every_program_of_the_documentation_is_compiled() {
    let folder = root().join("docs/examples");
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| {
        let path = entry.expect("an entry").path();
        path.file_stem().expect("a name").to_string_lossy().into_owned()
    });
    let files: BTreeSet<String> = files.collect();
    assert_eq!(files, PROGRAMS.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn every_block_of_rust_in_the_documentation_is_a_program_or_quotes_a_source() {
    let root = root();
    let write = std::env::var("TRACT_DOCS").is_ok_and(|what| what == "write");
    let mut shown = BTreeSet::new();
    let mut wrong = Vec::new();
    for page in pages(&root) {
        let text = std::fs::read_to_string(&page).expect("a page");
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("```rust") {
            let (before, block) = rest.split_at(at);
            let (fence, block) = block.split_once('\n').expect("a fence ends");
            let (block, after) = block.split_once("```").expect("a block ends");
            shown.insert(source_of(before).unwrap_or_default().to_owned());
            out.push_str(before);
            let name = page.strip_prefix(&root).unwrap_or(&page).display();
            match expected(&root, before, block) {
                Ok(source) => {
                    if fence != "```rust" || source != block {
                        wrong.push(format!("{name}: a block is not its source:\n{block}"));
                    }
                    out.push_str(&format!("```rust\n{source}```"));
                }
                Err(why) => {
                    wrong.push(format!("{name}: {why}:\n{block}"));
                    out.push_str(&format!("{fence}\n{block}```"));
                }
            }
            rest = after;
        }
        out.push_str(rest);
        if write && out != text {
            std::fs::write(&page, out).expect("the page is written");
        }
    }
    for program in PROGRAMS {
        let path = format!("examples/{program}.rs");
        assert!(shown.contains(&path), "no page shows {path}");
    }
    assert!(write || wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A caller of `code()` finds every code that can come out in `docs/errors.md`.
#[test]
fn every_error_code_is_explained() {
    let root = root();
    let page = std::fs::read_to_string(root.join("docs/errors.md")).expect("a page");
    let mut missing = BTreeSet::new();
    let mut seen = 0;
    let mut explained = |code: &str| {
        seen += 1;
        if !page.contains(&format!("`{code}`")) {
            missing.insert(code.to_owned());
        }
    };
    for source in files(&root.join("crates"), "rs") {
        // Why a run ended is not an error; `docs/run.md` has those.
        if source.ends_with("tract-run/src/progress.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&source).expect("a source");
        for function in text.split("fn code(").skip(1) {
            let body = function.split("\n    }").next().unwrap_or_default();
            let codes = body.split("=> \"").skip(1).filter_map(|rest| rest.split('"').next());
            codes.for_each(&mut explained);
        }
        // The command line has codes of its own.
        for call in ["Failure::no(", "Self::no("] {
            for rest in text.split(call).skip(1) {
                let code =
                    rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                code.into_iter().for_each(&mut explained);
            }
        }
    }
    assert!(seen > 100, "{seen} codes are not all");
    assert_eq!(missing, BTreeSet::new());
}

/// Returns the comment before a block, which names its source.
fn source_of(before: &str) -> Option<&str> {
    let comment = before.trim_end().lines().last()?;
    comment.strip_prefix("<!-- ")?.strip_suffix(" -->")
}

/// Returns what a block has to be, by the comment before it.
fn expected(root: &Path, before: &str, block: &str) -> Result<String, String> {
    let Some(comment) = source_of(before) else {
        return Err("a block without a comment".to_owned());
    };
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let Some(source) = comment.strip_prefix("from ") else {
        return read(&format!("docs/{comment}"));
    };
    let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    if trimmed(&read(source)?).contains(trimmed(block).trim()) {
        Ok(block.to_owned())
    } else {
        Err(format!("{source} does not contain a block"))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The README, those of the crates, and every page of `docs/`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = files(&root.join("docs"), "md");
    pages.push(root.join("README.md"));
    for entry in std::fs::read_dir(root.join("crates")).expect("a folder") {
        let page = entry.expect("an entry").path().join("README.md");
        pages.extend(page.exists().then_some(page));
    }
    pages.sort();
    pages
}

/// Returns the files of a folder and all below it that end so.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.append(&mut files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}
