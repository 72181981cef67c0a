//! Every terminal session in the documentation is run with the real binary and compared.
//!
//! A block of `console` has commands after `$ ` and what they print. The sessions of one page run
//! in one folder, top to bottom, with the files of `tract demo` and `tests/data/sessions` in it.
//! Ids and times differ from run to run: ids are compared by which of them are equal, times not at
//! all. A line `…` in a page matches any lines. A command that does not succeed ends with a
//! comment, `# exit code 1`.
//!
//! The `sh` blocks of the README run as typed, in a home with sessions of Claude Code and in one without.
//!
//! `TRACT_DOCS=write cargo test -p tract-cli --test docs` writes what comes out into the pages.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// What the README suggests where Claude Code has no sessions.
const BUNDLED: &str = "tract import claude-code tests/data/sessions/claude-code";

/// Commands that compile the workspace: continuous integration runs the first two, and installs.
const BUILDS: &[&str] = &[
    "cargo run -- demo",
    "cargo test --workspace",
    "cargo install --locked --path crates/tract-cli",
    "cargo install --locked --path crates/tract-cli --features postgres,sled",
];

#[test]
fn commands_of_the_readme_work_with_and_without_sessions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let commands = shell_commands(&readme);
    assert!(commands.len() > 10, "{commands:?}");
    assert!(readme.contains(BUNDLED), "the README says what to do without sessions");
    for has_sessions in [true, false] {
        let machine = Machine::new(&root, has_sessions);
        for command in &commands {
            let imports = command.starts_with("tract import claude-code");
            if BUILDS.contains(command) {
                continue;
            } else if imports && !has_sessions {
                let (code, text) = machine.run(command);
                assert_eq!(code, 1, "{command}: {text}");
                assert!(
                    text.contains("error[no_sessions]") && text.contains("tract demo"),
                    "{text}"
                );
                assert_eq!(machine.run(BUNDLED).0, 0);
            } else if command.contains("tract view") {
                machine.serve(command);
            } else if *command == "tract ui" {
                // It needs a terminal; `script` of util-linux makes one.
                if cfg!(target_os = "linux") {
                    let on_a_terminal = "printf q | script -qec 'tract ui' /dev/null";
                    assert_eq!(machine.run(on_a_terminal).0, 0);
                }
            } else {
                let (code, text) = machine.run(command);
                assert_eq!(code, 0, "{command}: {text}");
            }
        }
    }
}

/// The commands of the `sh` blocks of a page, without comments.
fn shell_commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" # ").next().unwrap_or(line));
    lines.map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// A home folder, and a folder with the repository's tests, as in a clone.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(root: &Path, has_sessions: bool) -> Self {
        let tmp = env!("CARGO_TARGET_TMPDIR");
        let folder = tempfile::Builder::new().prefix("readme-").tempdir_in(tmp).expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["clone", "bin", "home/.claude"] {
            std::fs::create_dir_all(at(name)).expect("a folder");
        }
        let tests = root.canonicalize().expect("the repository").join("tests");
        symlink(&tests, at("clone/tests")).expect("a link");
        if has_sessions {
            let projects = tests.join("data/sessions/claude-code/projects");
            symlink(projects, at("home/.claude/projects")).expect("a link");
        }
        // An agent that asks no model, and a browser that shows nothing.
        for name in ["claude", "xdg-open", "open"] {
            let program = at("bin").join(name);
            std::fs::write(&program, "#!/bin/sh\n").expect("a program");
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(program, executable).expect("it is executable");
        }
        Self { folder }
    }

    fn shell(&self, command: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_tract")).parent().expect("a folder");
        let system = std::env::var_os("PATH").unwrap_or_default();
        let folders = [self.folder.path().join("bin"), binary.to_owned()];
        let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&system)));
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.folder.path().join("clone"));
        for name in ["TRACT_STORE", "CLAUDE_CONFIG_DIR", "NO_COLOR", "CLICOLOR_FORCE"] {
            shell.env_remove(name);
        }
        shell.env("PATH", path.expect("folders")).env("HOME", self.folder.path().join("home"));
        shell.env("TERM", "xterm");
        shell
    }

    /// Returns the exit code, and what the command prints.
    fn run(&self, command: &str) -> (i32, String) {
        let output = self.shell(&format!("{{ {command}\n}} 2>&1")).output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap_or(-1), text)
    }

    /// Runs a command that serves pages until it is interrupted, and opens its first page.
    fn serve(&self, command: &str) {
        let mut shell = self.shell(command);
        shell.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = shell.spawn().expect("a shell");
        let lines = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
        let mut lines = lines.map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("http://").map(str::to_owned));
        let status = address.as_deref().map(status_of);
        let group = format!("-{}", shell.id());
        let mut interrupt = Command::new("kill");
        assert!(interrupt.args(["-INT", "--", &group]).status().expect("`kill`").success());
        shell.wait().expect("the shell ends");
        assert!(matches!(status, Some(200..400)), "{command}: {address:?}: {status:?}");
    }
}

/// Returns the status of a page.
fn status_of(address: &str) -> u16 {
    let (host, path) = address.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).expect("a connection");
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
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
