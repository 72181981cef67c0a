//! A folder of its own for each test, and the binary run in it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

/// A conversation with a call of a tool.
pub(crate) const COAT: &str = r#"{"op":"set_tools","tools":[{"name":"get_weather","description":"Returns the weather.","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]}
{"op":"system","text":"You are a travel agent."}
{"op":"user","text":"Do I need a coat in Paris?"}
{"op":"assistant","text":"I look it up.","tool_calls":[{"id":"c1","name":"get_weather","arguments":{"city":"Paris"}}]}
{"op":"tool_result","call_id":"c1","name":"get_weather","content":"11 degrees, rain"}
{"op":"assistant","text":"Yes, and an umbrella."}
"#;

/// A folder that is gone after the test.
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
}

/// What a run of the binary left.
#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workspace {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A folder with a store.
    pub(crate) fn new() -> Self {
        let place = Self::empty();
        place.ok(&["init"]);
        place
    }

    /// A folder with a store that a stream made.
    pub(crate) fn of(stream: &str) -> Self {
        let place = Self::new();
        place.feed(&["apply", "-"], stream.as_bytes()).expect(0);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path(".tract/tract.db")
    }

    /// Writes a file, and makes the folders that it is in.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folders are made");
        std::fs::write(path, bytes).expect("the file is written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file is read")
    }

    /// The binary, with nothing of the tester's own environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tract"));
        command.args(arguments).current_dir(self.folder.path());
        for name in ["TRACT_STORE", "TRACT_LOG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OTEL_") || name == "TRACEPARENT" {
                command.env_remove(name);
            }
        }
        command.env("COLUMNS", "100");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        self.feed(arguments, b"")
    }

    /// Runs with a variable of the environment.
    pub(crate) fn run_with(
        &self,
        name: &str,
        value: impl AsRef<OsStr>,
        arguments: &[&str],
    ) -> RunOutput {
        RunOutput::after(self.command(arguments).env(name, value))
    }

    /// Runs with this on standard input.
    pub(crate) fn feed(&self, arguments: &[&str], stdin: &[u8]) -> RunOutput {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut input = child.stdin.take().expect("stdin is a pipe");
        RunOutput::of(std::thread::scope(|scope| {
            // One that does not read its input to the end is not a mistake of the test.
            scope.spawn(move || drop(input.write_all(stdin)));
            child.wait_with_output().expect("the binary ends")
        }))
    }

    /// Begins a stream that is applied line by line: the process, its input and its answers.
    pub(crate) fn applying(&self) -> (Child, ChildStdin, Lines<BufReader<ChildStdout>>) {
        let mut command = self.command(&["apply", "--json", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        (child, input, answers)
    }

    /// Runs words of a shell on a terminal of their own, as `script` of util-linux makes one;
    /// returns the exit code, and all that the terminal shows.
    #[cfg(target_os = "linux")]
    pub(crate) fn on_a_terminal(
        &self,
        environment: &[(&str, &str)],
        arguments: &str,
    ) -> (Option<i32>, String) {
        let command = format!("{} {arguments}", env!("CARGO_BIN_EXE_tract"));
        let mut script = Command::new("script");
        for name in ["TRACT_STORE", "NO_COLOR", "LESS", "VISUAL", "EDITOR"] {
            script.env_remove(name);
        }
        let output = script
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .current_dir(self.folder.path())
            .envs([("TERM", "dumb"), ("COLUMNS", "100")])
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .expect("`script` of util-linux");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs what must succeed, and returns its stdout.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).expect(0).stdout
    }

    /// Runs what must succeed, and reads its stdout as JSON lines.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        self.run(arguments).expect(0).lines()
    }

    /// Runs what must fail, and checks code, word and a part of what it says.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &[&str], exit: i32, code: &str, says: &str) {
        self.refused_with(arguments, b"", exit, code, says);
    }

    /// As [`refused`](Self::refused), with standard input.
    #[track_caller]
    pub(crate) fn refused_with(
        &self,
        arguments: &[&str],
        stdin: &[u8],
        exit: i32,
        code: &str,
        says: &str,
    ) {
        self.complains(arguments, stdin, exit, code, says);
        let script = self.feed(&[&["--json"], arguments].concat(), stdin);
        assert_eq!(script.code, Some(exit), "{arguments:?}: {script:?}");
        let lines = script.lines();
        let error = &lines.last().expect("a document")["error"];
        assert_eq!(error["code"], code, "{arguments:?}: {lines:?}");
        assert!(error["message"].is_string() && error["notes"].is_array(), "{lines:?}");
    }

    /// As [`refused_with`](Self::refused_with), for people alone.
    #[track_caller]
    pub(crate) fn complains(
        &self,
        arguments: &[&str],
        stdin: &[u8],
        exit: i32,
        code: &str,
        says: &str,
    ) {
        let ran = self.feed(arguments, stdin);
        assert_eq!(ran.code, Some(exit), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(&format!("error[{code}]")), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(says), "{arguments:?}: {ran:?}");
    }

    /// The id of the commit that a revision names.
    #[track_caller]
    pub(crate) fn id(&self, revision: &str) -> String {
        let lines = self.json(&["--json", "log", revision, "--limit", "1"]);
        lines[0]["commit"].as_str().expect("an id").to_owned()
    }

    /// Runs a statement in the database of the store, and returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str) -> usize {
        let store = rusqlite::Connection::open(self.store()).expect("a database");
        store.execute(sql, []).expect("it is changed")
    }

    /// Damages the contents that have a text, and returns how many they are.
    pub(crate) fn damage(&self, text: &str) -> usize {
        self.execute(&format!(
            "UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), '{text}', 'something') AS BLOB) \
             WHERE instr(data, CAST('{text}' AS BLOB)) > 0"
        ))
    }

    /// The messages at a revision, as a request has them.
    pub(crate) fn messages(&self, revision: &str, form: &str) -> Vec<Value> {
        let body = self.json(&["compile", revision, "--to", form, "--json"]).remove(0);
        list(body.get("messages").unwrap_or(&body)).to_vec()
    }

    /// Imports what was imported before: all is known, and nothing is written.
    #[track_caller]
    pub(crate) fn imports_nothing_new(&self, arguments: &[&str]) {
        let counts = || {
            let stats = self.json(&["stats", "--json"]).remove(0);
            (stats["ref_moves"].clone(), stats["commits"].clone())
        };
        let before = counts();
        for line in self.json(arguments) {
            assert_eq!(line["status"], "unchanged", "{line}");
            assert_eq!(line["reused"], line["commits"], "{line}");
        }
        assert_eq!(counts(), before);
    }

    /// Imports sessions again: nothing is new, and no branch moves.
    #[track_caller]
    pub(crate) fn sessions_bring_nothing(&self, arguments: &[&str]) {
        let lines = self.json(arguments);
        let summary = &lines.last().expect("a summary")["summary"];
        assert_eq!(summary["new"], 0, "{summary}");
        let branches = summary["branches"].as_object().expect("branches");
        assert_eq!(branches.keys().collect::<Vec<_>>(), ["unchanged"], "{summary}");
    }

    #[track_caller]
    pub(crate) fn is_clean(&self) {
        let lines = self.json(&["verify", "--json"]);
        assert_eq!(lines[0]["clean"], true, "{lines:?}");
    }
}

impl RunOutput {
    /// What a program left that has ended.
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }

    /// Runs a command to its end.
    pub(crate) fn after(command: &mut Command) -> Self {
        Self::of(command.output().expect("the program starts"))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Stdout as JSON lines.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| match serde_json::from_str(line) {
                Ok(value) => value,
                Err(error) => panic!("{error} in {line:?} of {self:?}"),
            })
            .collect()
    }
}

/// The recorded data, when it is here; else what comes with the repository, said aloud.
pub(crate) fn data(file: &str) -> PathBuf {
    tract_testkit::data::full(file).unwrap_or_else(|| bundled("conversations.jsonl"))
}

/// A recording of the demo.
pub(crate) fn bundled(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("demo").join(file)
}

/// A recording of an agent tool, or all of one tool.
pub(crate) fn sessions(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sessions").join(file)
}

/// A stream of messages of the user.
pub(crate) fn user_says(texts: impl IntoIterator<Item = String>) -> String {
    stream(texts.into_iter().map(|text| json!({"op": "user", "text": text})))
}

/// A stream of these lines.
pub(crate) fn stream(lines: impl IntoIterator<Item = Value>) -> String {
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

/// What a list has.
#[track_caller]
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// The texts that these objects have under a key; those without one are left out.
pub(crate) fn each<'a>(objects: &'a [Value], key: &str) -> Vec<&'a str> {
    objects.iter().filter_map(|object| object[key].as_str()).collect()
}

/// The keys of an object, in order.
pub(crate) fn keys(object: &Value) -> String {
    let keys = object.as_object().expect("an object").keys().map(String::as_str);
    let mut keys: Vec<&str> = keys.collect();
    keys.sort_unstable();
    keys.join(" ")
}

/// What a variable names; without it the rest of the test is left out, but not where all is there.
pub(crate) fn needs(variable: &str, left_out: &str) -> Option<String> {
    let named = std::env::var(variable).ok();
    if named.is_none() {
        assert!(std::env::var_os("CI").is_none(), "set {variable}, as .ci/run does");
        println!("left out: {left_out}");
    }
    named
}

/// Gives a command the environment and the folder of another one.
#[cfg(unix)]
pub(crate) fn set_as(command: &mut Command, other: &Command) {
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(other.get_current_dir().expect("a folder"));
}

/// Copies a folder with all that is in it.
#[cfg(unix)]
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().expect("`cp`").success());
}

/// Sends a signal to a process, such as `-INT`.
#[cfg(unix)]
pub(crate) fn signal(process: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(sent.expect("`kill` runs").success());
}

#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is set");
}

/// The same command in another store of the same folder.
pub(crate) fn in_store<'a>(url: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [&["--store", url], arguments].concat()
}

/// What another store of the same folder exports.
pub(crate) fn export(place: &Workspace, store: &str) -> String {
    place.ok(&in_store(store, &["export"]))
}

/// A key as services write them, put together here so that scanners of repositories pass over it.
pub(crate) fn key() -> String {
    format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a")
}

/// The path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Lets programs that this process starts end at SIGHUP, SIGINT and SIGTERM, even when those are
/// ignored here, as under `nohup` or in the background of a script: what is ignored is inherited, but
/// a signal that has a handler is reset for a new program. This process still ignores them.
#[cfg(unix)]
pub(crate) fn programs_end_at_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    static HANDLERS: std::sync::Once = std::sync::Once::new();
    HANDLERS.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            if ignored.unwrap_or(0) & (1 << (signal - 1)) != 0 {
                signal_hook::flag::register(signal, std::sync::Arc::default()).expect("a handler");
            }
        }
    });
}
