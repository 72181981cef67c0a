//! Every terminal session in the documentation is run with the real binary and compared.
//!
//! A block of `console` has commands after `$ ` and what they print. The sessions of one page run
//! in one folder, top to bottom, with the files of `tract demo` and `tests/data/sessions` in it.
//! Ids and times differ from run to run: ids are compared by which of them are equal, times not at
//! all. A line `…` in a page matches any lines. A command that does not succeed ends with a
//! comment, `# exit code 1`.
//!
//! `TRACT_DOCS=write cargo test -p tract-cli --test docs` writes what comes out into the pages.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The line that matches any lines.
const ANY: &str = "…";

#[test]
fn sessions_in_the_documentation_print_what_the_pages_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let write = std::env::var("TRACT_DOCS").is_ok_and(|what| what == "write");
    let mut wrong = Vec::new();
    let mut commands = 0;
    for page in pages(&root) {
        let text = std::fs::read_to_string(&page).expect("a page");
        if !text.contains("```console\n") {
            continue;
        }
        let mut session = Session::begin(&root, &page);
        let found = session.page(&text);
        commands += session.commands;
        wrong.append(&mut session.failed);
        if write {
            std::fs::write(&page, found).expect("the page is written");
        } else {
            wrong.append(&mut session.differs);
        }
    }
    assert!(commands > 20, "{commands} commands are not all that the pages have");
    assert!(
        wrong.is_empty(),
        "{}\n\nTRACT_DOCS=write cargo test -p tract-cli --test docs updates them",
        wrong.join("\n\n")
    );
}

/// The README and every page of `docs/`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

struct Session {
    page: String,
    folder: tempfile::TempDir,
    /// The ids of the page, and those of this run.
    ids: Ids,
    commands: usize,
    /// Commands whose exit code is not the stated one.
    failed: Vec<String>,
    /// Commands that print something else than the page shows.
    differs: Vec<String>,
}

impl Session {
    fn begin(root: &Path, page: &Path) -> Self {
        let tmp = env!("CARGO_TARGET_TMPDIR");
        let folder = tempfile::Builder::new().prefix("docs-").tempdir_in(tmp).expect("a folder");
        for file in ["conversations.jsonl", "anthropic.json"] {
            let from = root.join("crates/tract-cli/demo").join(file);
            std::fs::copy(from, folder.path().join(file)).expect("a file of the demo");
        }
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(root.join("tests/data/sessions")).arg(folder.path().join("sessions"));
        assert!(copy.status().expect("`cp`").success());
        Self {
            page: page.strip_prefix(root).unwrap_or(page).display().to_string(),
            folder,
            ids: Ids::default(),
            commands: 0,
            failed: Vec::new(),
            differs: Vec::new(),
        }
    }

    /// Runs the sessions of a page, and returns the page with what they print.
    fn page(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("```console\n") {
            let (before, block) = rest.split_at(at + "```console\n".len());
            let end = block.find("```").expect("a block ends");
            out.push_str(before);
            out.push_str(&self.block(&block[..end]));
            rest = &block[end..];
        }
        out.push_str(rest);
        out
    }

    fn block(&mut self, block: &str) -> String {
        let mut out = String::new();
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            let mut shown = format!("{line}\n");
            let command = line.strip_prefix("$ ").expect("a session begins with a command");
            let mut command = self.ids.translated(command);
            while let Some(more) = lines.next_if(|line| line.starts_with("> ")) {
                let _ = writeln!(shown, "{more}");
                command.push('\n');
                command.push_str(&self.ids.translated(&more[2..]));
            }
            let answer = || lines.next_if(|line| !line.starts_with("$ "));
            let expected: Vec<&str> = std::iter::from_fn(answer).collect();
            let (code, printed) = self.run(&command);
            let stated = command.rsplit_once("# exit code ").map_or("0", |(_, code)| code.trim());
            if code.to_string() != stated {
                self.failed.push(format!("{}: $ {command}\nexit code {code}", self.page));
            }
            let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
            out.push_str(&shown);
            let text = if self.ids.fit(&expected, &printed) {
                expected.join("\n")
            } else {
                let printed: Vec<_> =
                    printed.iter().map(|line| self.ids.as_on_page(line)).collect();
                let (expected, printed) = (expected.join("\n"), printed.join("\n"));
                self.differs.push(format!(
                    "{}: $ {command}\n--- the page\n{expected}\n--- the binary\n{printed}",
                    self.page
                ));
                printed
            };
            out.push_str(&text);
            if !text.is_empty() {
                out.push('\n');
            }
        }
        out
    }

    /// Runs a command as a shell does, with the binary first on its path.
    fn run(&mut self, command: &str) -> (i32, String) {
        self.commands += 1;
        let binary = Path::new(env!("CARGO_BIN_EXE_tract"));
        let mut path = binary.parent().expect("a folder").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(self.folder.path());
        for name in ["TRACT_STORE", "TRACT_SUMMARIZER", "NO_COLOR", "CLICOLOR_FORCE"] {
            shell.env_remove(name);
        }
        let output = shell.env("PATH", path).env("COLUMNS", "92").output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap_or(-1), text)
    }
}

/// Which id of the page is which of this run.
#[derive(Clone, Default)]
struct Ids {
    ran: BTreeMap<String, String>,
    page: BTreeMap<String, String>,
}

impl Ids {
    /// Returns a command with the ids of this run.
    fn translated(&self, command: &str) -> String {
        words(command)
            .into_iter()
            .map(|(word, _)| self.ran.get(word).map_or(word, String::as_str))
            .collect()
    }

    /// Returns a printed line with the ids that the page uses so far, and its own for new ones.
    fn as_on_page(&mut self, line: &str) -> String {
        let mut text = String::new();
        for (word, kind) in words(line) {
            if kind != Word::Id {
                text.push_str(word);
                continue;
            }
            let id = self.page.entry(word.to_owned()).or_insert_with(|| word.to_owned());
            self.ran.entry(id.clone()).or_insert_with(|| word.to_owned());
            text.push_str(id);
        }
        text
    }

    /// Are these lines of the page what was printed?
    fn fit(&mut self, page: &[&str], ran: &[&str]) -> bool {
        let before = self.clone();
        let fits = match (page.split_first(), ran.split_first()) {
            (None, None) => true,
            (Some((&ANY, page)), _) => {
                (0..=ran.len()).any(|skipped| self.fit(page, &ran[skipped..]))
            }
            (Some((line, page)), Some((found, ran))) => {
                self.line_fits(line, found) && self.fit(page, ran)
            }
            _ => false,
        };
        if !fits {
            *self = before;
        }
        fits
    }

    fn line_fits(&mut self, page: &str, ran: &str) -> bool {
        let (page, ran) = (words(page), words(ran));
        page.len() == ran.len()
            && page.iter().zip(&ran).all(|((word, kind), (found, kind_found))| {
                kind == kind_found
                    && match kind {
                        Word::Text => word == found,
                        Word::Time => true,
                        Word::Id => {
                            word.len() == found.len()
                                && leads(&mut self.ran, word, found)
                                && leads(&mut self.page, found, word)
                        }
                    }
            })
    }
}

/// Whether an id is known for this one, or was not known before.
fn leads(ids: &mut BTreeMap<String, String>, from: &str, to: &str) -> bool {
    *ids.entry(from.to_owned()).or_insert(to.to_owned()) == to
}

#[derive(Clone, Copy, PartialEq)]
enum Word {
    Text,
    Id,
    Time,
}

/// Cuts a line into ids, times and what is between them.
fn words(line: &str) -> Vec<(&str, Word)> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let in_word = |c: char| c.is_ascii_alphanumeric() || "-:".contains(c);
        let length = if in_word(first) {
            // A time has colons inside; one at the end is the sentence's.
            let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
            rest[..end].trim_end_matches(':').len().max(first.len_utf8())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        // Names of what waits and of decisions have a letter in front.
        let digits_of = ["m-", "p-", "d-"].iter().find_map(|letter| word.strip_prefix(letter));
        let digits_of = digits_of.unwrap_or(word);
        // One in 2,500 ids of eight digits has letters alone.
        let is_id = digits_of.len() >= 8 && digits_of.chars().all(hex);
        let digits = |word: &str| word.replace(|c: char| c.is_ascii_digit(), "0");
        let is_time = word.len() >= 16 && word.starts_with("20") && word.contains('T')
            || matches!(digits(word).as_str(), "0000-00-00" | "00:00");
        let kind = match (is_id, is_time) {
            (true, _) => Word::Id,
            (_, true) => Word::Time,
            _ => Word::Text,
        };
        words.push((word, kind));
        rest = after;
    }
    words
}

#[test]
fn an_id_of_letters_alone_is_an_id() {
    let kinds = |line| words(line).into_iter().filter(|(_, kind)| *kind == Word::Id).count();
    assert_eq!(kinds("on main at cffddccf  user And in Lyon?"), 1);
    assert_eq!(kinds("p-cbecabbd of 689d9e3a, faced and added"), 2);
}
