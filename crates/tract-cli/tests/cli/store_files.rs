//! One store file regardless of the path, and the files that tract writes next to it.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use crate::support::{RunOutput, Workspace, in_store};

const SECRET: &str = "hunter2-and-a-long-tail-of-a-password";

/// The engines that keep a store in one file.
const FILES: [&str; 2] = ["sqlite", "redb"];

/// A workspace with `data/agent.db` in it, of some engine.
struct Files {
    engine: &'static str,
    place: Workspace,
}

impl Files {
    fn new(engine: &'static str) -> Self {
        let files = Self { engine, place: Workspace::empty() };
        std::fs::create_dir_all(files.place.path("data/deep")).expect("folders");
        files
    }

    fn at(&self, path: &str) -> Vec<String> {
        vec![format!("{}:{}", self.engine, self.place.path(path).display())]
    }

    /// Runs on the store at a path.
    fn run(&self, path: &str, arguments: &[&str]) -> RunOutput {
        let url = &self.at(path)[0];
        self.place.run(&in_store(url, arguments))
    }

    #[track_caller]
    fn ok(&self, path: &str, arguments: &[&str]) -> String {
        self.run(path, arguments).expect(0).stdout
    }

    /// Runs as another user.
    fn run_as(&self, user: u32, path: &str, arguments: &[&str]) -> RunOutput {
        let mut command = self.place.command(&in_store(&self.at(path)[0], arguments));
        RunOutput::after(command.uid(user).gid(user))
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.place.path(name)).expect("a link");
    }

    /// Names the files below the workspace that contain some bytes; links are not followed.
    fn holding(&self, bytes: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.place.path("")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let entry = entry.expect("an entry");
                let kind = entry.file_type().expect("a kind");
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    let content = std::fs::read(entry.path()).expect("it reads");
                    let holds = content.windows(bytes.len()).any(|part| part == bytes.as_bytes());
                    found.extend(holds.then(|| entry.path().display().to_string()));
                }
            }
        }
        found
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.place.path(folder)).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("a name")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Stores messages one by one in a process that is killed then.
    fn killed_while_applying(&self, path: &str, messages: usize) {
        let url = &self.at(path)[0];
        let mut child = self
            .place
            .command(&in_store(url, &["apply", "--json", "--batch", "1", "-"]))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = child.stdin.take().expect("a pipe");
        let mut answers = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        for n in 0..messages {
            let text = format!("message {n} {}", "x".repeat(200));
            writeln!(input, "{}", serde_json::json!({"op": "user", "text": text})).expect("sent");
            let mut answer = String::new();
            std::io::BufRead::read_line(&mut answers, &mut answer).expect("an answer");
            assert!(!answer.is_empty(), "message {n} is acknowledged");
        }
        child.kill().expect("it is killed");
        child.wait().expect("it ended");
    }
}

/// Paths that lead to `data/agent.db`.
const PATHS: [&str; 6] = [
    "data/agent.db",
    "relative.db",
    "absolute.db",
    "chain.db",
    "folder/agent.db",
    "data/deep/../agent.db",
];

fn linked(engine: &'static str) -> Files {
    let files = Files::new(engine);
    files.link("data/agent.db", "relative.db");
    files.link(files.place.path("data/agent.db"), "absolute.db");
    files.link("relative.db", "chain.db");
    files.link("data", "folder");
    files
}

#[test]
fn every_path_to_a_file_is_the_same_store() {
    for engine in ["sqlite", "redb", "sled"] {
        if engine == "sled" && !cfg!(feature = "sled") {
            continue;
        }
        let files = linked(engine);
        // The link leads to a file that is still to be created.
        files.ok("chain.db", &["init"]);
        for path in PATHS {
            files.ok(path, &["commit", "user", &format!("written through {path}")]);
        }
        for path in PATHS {
            let log = files.ok(path, &["log", "--limit", "0"]);
            assert_eq!(log.lines().count(), PATHS.len(), "{engine} {path}: {log}");
        }
        let own = ["agent.db", "agent.db-shm", "agent.db-wal", "deep"];
        let names = files.names("data");
        assert!(names.iter().all(|name| own.contains(&name.as_str())), "{engine}: {names:?}");
        assert_eq!(files.names("").len(), 5, "nothing is next to a link: {:?}", files.names(""));
    }
}

#[test]
fn an_erasure_through_a_link_wipes_the_file_that_it_leads_to() {
    for engine in FILES {
        for path in PATHS {
            let files = linked(engine);
            files.ok("data/agent.db", &["init"]);
            files.ok(path, &["commit", "user", SECRET]);
            files.ok(path, &["commit", "assistant", "ok"]);
            files.ok(path, &["erase", "HEAD~1", "--reason", "leaked", "--yes"]);
            assert_eq!(files.holding(SECRET), Vec::<String>::new(), "{engine} {path}");
            for path in PATHS {
                files.ok(path, &["commit", "user", path]);
            }
            let log = files.ok("data/agent.db", &["log", "--limit", "0"]);
            let written = PATHS.iter().filter(|path| log.contains(**path)).count();
            assert_eq!(written, PATHS.len(), "{engine} {path}: one store: {log}");
            files.ok(path, &["repack"]);
            files.ok(path, &["verify"]);
            assert!(files.place.path("relative.db").is_symlink(), "the link is left as it is");
        }
    }
}

#[test]
fn a_damaged_log_is_reported_through_every_path() {
    for path in PATHS {
        let files = linked("sqlite");
        files.ok("data/agent.db", &["init"]);
        files.killed_while_applying(path, 20);
        let log = files.place.path("data/agent.db-wal");
        let mut bytes = std::fs::read(&log).expect("the log is next to the file");
        let middle = bytes.len() / 3;
        bytes[middle] ^= 0x55;
        std::fs::write(&log, bytes).expect("it is damaged");
        let ran = files.run(path, &["log"]);
        assert!(
            ran.code == Some(3) && ran.stderr.contains("acknowledged writes"),
            "{path}: {ran:?}"
        );
        assert!(files.names("data").contains(&"agent.db-wal.damaged".to_owned()), "{path}");
        let verified = files.run(path, &["verify"]);
        assert!(verified.stdout.contains("damaged log"), "{path}: {verified:?}");
    }
}

#[test]
fn a_file_with_several_hard_links_is_not_written() {
    for engine in FILES {
        let files = Files::new(engine);
        files.ok("data/agent.db", &["init"]);
        files.ok("data/agent.db", &["commit", "user", "the first"]);
        let (file, other) = (files.place.path("data/agent.db"), files.place.path("other.db"));
        std::fs::hard_link(&file, &other).expect("a hard link");
        let before = std::fs::read(&file).expect("it reads");
        for path in ["data/agent.db", "other.db"] {
            for verb in [&["commit", "user", "lost"][..], &["branch", "lost"]] {
                let ran = files.run(path, verb);
                assert_eq!(ran.code, Some(3), "{engine} {path} {verb:?}: {ran:?}");
                assert!(ran.stderr.contains("has 2 hard links"), "{engine} {path}: {ran:?}");
            }
        }
        assert!(std::fs::read(&file).expect("it reads") == before, "{engine}: nothing was written");
        std::fs::remove_file(&other).expect("the link is removed");
        files.ok("data/agent.db", &["commit", "user", "the second"]);
        assert_eq!(files.ok("data/agent.db", &["log"]).lines().count(), 2);
    }
}

#[test]
fn a_file_that_is_linked_or_moved_while_it_is_open_is_not_written_any_more() {
    type Change = fn(&Path, &Path) -> std::io::Result<()>;
    let changes: [(Change, &str); 2] = [
        (|file, other| std::fs::hard_link(file, other), "hard links"),
        (|file, other| std::fs::rename(file, other), "was moved"),
    ];
    for engine in FILES {
        for (change, says) in changes {
            let files = Files::new(engine);
            files.ok("data/agent.db", &["init"]);
            let url = &files.at("data/agent.db")[0];
            let mut child = files
                .place
                .command(&in_store(url, &["apply", "--json", "--batch", "1", "-"]))
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .expect("it starts");
            let mut input = child.stdin.take().expect("a pipe");
            let mut answers = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
            let mut answer = String::new();
            writeln!(input, r#"{{"op":"user","text":"acknowledged"}}"#).expect("sent");
            std::io::BufRead::read_line(&mut answers, &mut answer).expect("an answer");
            assert!(answer.contains("commit"), "{answer}");
            change(&files.place.path("data/agent.db"), &files.place.path("other.db"))
                .expect("it is changed");
            writeln!(input, r#"{{"op":"user","text":"refused"}}"#).expect("sent");
            drop(input);
            let mut left = String::new();
            std::io::Read::read_to_string(&mut answers, &mut left).expect("it ends");
            let ran = child.wait_with_output().expect("it ends");
            let text = format!("{left}{}", String::from_utf8_lossy(&ran.stderr));
            assert!(!ran.status.success() && text.contains(says), "{engine}: {text}");
        }
    }
}

/// Mounts a file over another for as long as it lives; `None` where that is not permitted.
struct Mount(std::path::PathBuf);

impl Mount {
    fn bind(from: &Path, to: &Path) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        let output = mount.arg("--bind").arg(from).arg(to).output().ok()?;
        output.status.success().then(|| Self(to.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg(&self.0).output();
        drop(unmounted); // the folder stays when it fails
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_mounted_by_itself_is_not_written_and_a_mounted_folder_is() {
    for engine in FILES {
        let files = Files::new(engine);
        files.ok("data/agent.db", &["init"]);
        std::fs::write(files.place.path("a file.db"), "").expect("a file");
        std::fs::create_dir(files.place.path("mounted")).expect("a folder");
        let bind =
            |from: &str, to: &str| Mount::bind(&files.place.path(from), &files.place.path(to));
        let Some(_file) = bind("data/agent.db", "a file.db") else {
            println!("left out: mounting is not permitted");
            return;
        };
        let ran = files.run("a file.db", &["commit", "user", "lost"]);
        assert_eq!(ran.code, Some(3), "{engine}: {ran:?}");
        assert!(ran.stderr.contains("is a mount point"), "{engine}: {ran:?}");
        let _folder = bind("data", "mounted").expect("a second mount");
        for path in ["mounted/agent.db", "data/agent.db", "mounted/agent.db"] {
            files.ok(path, &["commit", "user", path]);
        }
        assert_eq!(files.ok("data/agent.db", &["log"]).lines().count(), 3, "{engine}");
    }
}

#[test]
fn an_erasure_deletes_the_copies_that_tract_made_and_names_them() {
    for engine in FILES {
        let files = Files::new(engine);
        files.ok("data/agent.db", &["init"]);
        files.ok("data/agent.db", &["commit", "user", SECRET]);
        files.ok("data/agent.db", &["commit", "assistant", "ok"]);
        let copies = ["agent.db.format-1", "agent.db-wal.damaged", "agent.db.99999999.new"];
        for copy in copies {
            files.place.write(&format!("data/{copy}"), SECRET);
        }
        files.place.write("data/agent.db.mine", SECRET);
        let ran = files.run("data/agent.db", &["erase", "HEAD~1", "--reason", "x", "--yes"]);
        let ran = ran.expect(0);
        for copy in ["agent.db.format-1", "agent.db-wal.damaged"] {
            let text = format!("{}{}", ran.stdout, ran.stderr);
            assert!(text.contains(copy), "{engine}: {text}");
        }
        let mine = files.place.path("data/agent.db.mine").display().to_string();
        assert_eq!(files.holding(SECRET), [mine], "{engine}");
    }
}

#[test]
fn a_command_that_writes_removes_what_killed_commands_left() {
    for engine in FILES {
        let files = Files::new(engine);
        files.ok("data/agent.db", &["init"]);
        for name in ["agent.db.4194305.new", "agent.db.format-1.4194305.part"] {
            files.place.write(&format!("data/{name}"), SECRET);
        }
        files.ok("data/agent.db", &["commit", "user", "hello"]);
        assert_eq!(files.holding(SECRET), Vec::<String>::new(), "{engine}");
    }
}

#[test]
fn every_exit_writes_the_log_back() {
    let files = Files::new("sqlite");
    let path = "data/agent.db";
    files.ok(path, &["init"]);
    files.ok(path, &["commit", "user", "the first"]);
    let url = &files.at(path)[0];
    let feed = |arguments: &[&str], input: &str| {
        files.place.feed(&in_store(url, arguments), input.as_bytes())
    };
    let messages = |count: usize| -> String {
        (0..count).map(|n| format!("{{\"op\":\"user\",\"text\":\"word{n}\"}}\n")).collect()
    };
    let whole = |what: &str| {
        let log = std::fs::metadata(files.place.path("data/agent.db-wal"));
        assert!(log.map_or(0, |log| log.len()) == 0, "after {what}");
    };
    let refused = format!("{}{{\"op\":\"nonsense\"}}\n", messages(1));
    assert_eq!(feed(&["apply", "-"], &refused).code, Some(1));
    whole("an apply with a rejected line");
    feed(&["apply", "-"], &messages(600)).expect(0);
    whole("an apply");
    for arguments in [
        &["search", "word5"][..],
        &["search", "word7", "--json"],
        &["turns"],
        &["log"],
        &["verify"],
        &["merge", "nowhere"],
        &["import", "nothing"],
        &["compile"],
        &["cat"],
        &["branch", "other"],
        &["checkout", "nowhere"],
        &["undo"],
        &["erase", "HEAD", "--reason", "x", "--yes"],
        &["gc"],
    ] {
        files.run(path, arguments);
        whole(&format!("{arguments:?}"));
    }
}

/// Waits until a process has the log of a store open.
#[cfg(target_os = "linux")]
#[track_caller]
fn wait_until_open(child: &std::process::Child, what: &str) {
    let is_log = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = std::fs::read_link(entry.expect("an entry").path());
        target.is_ok_and(|target| target.ends_with("agent.db-wal"))
    };
    let folder = format!("/proc/{}/fd", child.id());
    for _ in 0..12_000 {
        if std::fs::read_dir(&folder).expect("it runs").any(is_log) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{what} does not open the store");
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_closes_the_store_before_it_ends_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;

    crate::support::programs_end_at_signals();
    // It accepts connections and answers none.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}/v1", silent.local_addr().expect("an address"));
    let commands: &[&[&str]] = &[
        &["apply", "--batch", "1", "-"],
        &["apply", "-"],
        #[cfg(feature = "follow")]
        &["import", "--follow", "claude-code", "sessions"],
        #[cfg(feature = "serve")]
        &["mcp", "serve"],
        #[cfg(feature = "view")]
        &["view"],
        #[cfg(feature = "record")]
        &["record", "--upstream", &server],
        #[cfg(feature = "record")]
        &["record", "--", "sleep", "3"],
        #[cfg(feature = "run")]
        &["run", "Wait.", "--model", "openai/some", "--base-url", &server, "--plan", "none"],
    ];
    for (signal, number) in [("HUP", 1), ("INT", 2), ("TERM", 15)] {
        for arguments in commands {
            let what = format!("SIG{signal} of {arguments:?}");
            let files = Files::new("sqlite");
            let path = "data/agent.db";
            files.ok(path, &["init"]);
            files.killed_while_applying(path, 3);
            std::fs::create_dir(files.place.path("sessions")).expect("a folder");
            let log = files.place.path("data/agent.db-wal");
            assert!(std::fs::metadata(&log).expect("a log").len() > 0, "{what}");
            let mut command = files.place.command(&in_store(&files.at(path)[0], arguments));
            command.env("OPENAI_API_KEY", "x");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().expect("it starts");
            // Standard input stays open.
            let mut input = child.stdin.take().expect("a pipe");
            if arguments.contains(&"apply") {
                writeln!(input, r#"{{"op":"user","text":"one more"}}"#).expect("sent");
            }
            wait_until_open(&child, &what);
            let mut kill = std::process::Command::new("kill");
            kill.args(["-s", signal, &child.id().to_string()]);
            assert!(kill.status().expect("it is sent").success(), "{what}");
            let status = child.wait().expect("it ends");
            drop(input);
            if arguments.contains(&"apply") {
                assert_eq!(status.signal(), Some(number), "{what}: {status}");
            }
            assert_eq!(std::fs::metadata(&log).map_or(0, |log| log.len()), 0, "{what}");
            let log = files.ok(path, &["log"]);
            assert!(log.lines().count() >= 3, "{what}: {log}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_ignored_signal_stays_ignored() {
    let files = Files::new("sqlite");
    let path = "data/agent.db";
    files.ok(path, &["init"]);
    let apply = files.place.command(&in_store(&files.at(path)[0], &["apply", "-"]));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", r#"trap '' HUP; exec "$0" "$@""#]).arg(apply.get_program());
    shell.args(apply.get_args()).current_dir(files.place.path(""));
    let mut child = shell.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, r#"{{"op":"user","text":"before it"}}"#).expect("sent");
    wait_until_open(&child, "apply");
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-s", "HUP", &id]).status();
    assert!(sent.expect("it is sent").success());
    writeln!(input, r#"{{"op":"user","text":"after it"}}"#).expect("sent");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert!(files.ok(path, &["log"]).contains("after it"));
}

/// Users of the system other than root.
const OWNER: u32 = 12;
const READER: u32 = 65534;

/// Gives a store in a folder that everyone may write to `OWNER`; `false` if this user may not.
fn give_away(files: &Files, path: &str, mode: u32) -> bool {
    let open_to_all = std::fs::Permissions::from_mode(0o777);
    for folder in ["", "data"] {
        std::fs::set_permissions(files.place.path(folder), open_to_all.clone()).expect("a mode");
    }
    let file = files.place.path(path);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
    let given = std::os::unix::fs::chown(file, Some(OWNER), Some(OWNER)).is_ok();
    if !given {
        println!("left out: only root may give a file away");
    }
    given
}

/// Returns the mode, owner and group of a file.
fn rights(path: &Path) -> (u32, u32, u32) {
    let file = std::fs::metadata(path).expect("a file");
    (file.mode() & 0o777, file.uid(), file.gid())
}

#[test]
fn erase_redact_and_repack_leave_the_mode_and_the_owner_of_a_file() {
    for engine in FILES {
        let files = Files::new(engine);
        let path = "data/agent.db";
        files.ok(path, &["init"]);
        for text in [SECRET, "key=AKIAIOSFODNN7EXAMPLE", "ok"] {
            files.ok(path, &["commit", "user", text]);
        }
        give_away(&files, path, 0o600);
        let before = rights(&files.place.path(path));
        for arguments in [
            &["erase", "HEAD~2", "--reason", "x", "--yes"][..],
            &["redact", "--yes"],
            &["repack"],
            &["gc"],
        ] {
            files.run(path, arguments);
            assert_eq!(rights(&files.place.path(path)), before, "{engine} {arguments:?}");
        }
        assert_eq!(files.holding(SECRET), Vec::<String>::new(), "{engine}");
    }
}

#[test]
fn an_export_leaves_the_mode_of_the_file_that_it_replaces() {
    let files = Files::new("sqlite");
    files.ok("data/agent.db", &["init"]);
    files.ok("data/agent.db", &["commit", "user", "one"]);
    let target = files.place.path("backup.jsonl");
    for mode in [0o600, 0o640, 0o666] {
        std::fs::write(&target, "an earlier export").expect("written");
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(mode)).expect("a mode");
        files.ok("data/agent.db", &["export", "--output", &target.display().to_string()]);
        assert_eq!(rights(&target).0, mode);
    }
}

#[test]
fn a_file_of_another_user_is_not_replaced_by_one_of_this_user() {
    let files = Files::new("redb");
    let path = "data/agent.db";
    files.ok(path, &["init"]);
    files.ok(path, &["commit", "user", SECRET]);
    files.ok(path, &["commit", "user", "ok"]);
    if !give_away(&files, path, 0o666) {
        return;
    }
    let ran = files.run_as(READER, path, &["erase", "HEAD~1", "--reason", "x", "--yes"]);
    assert!(ran.code != Some(0) && ran.stderr.contains("run the command as its owner"), "{ran:?}");
    assert_eq!(rights(&files.place.path(path)), (0o666, OWNER, OWNER));
    assert_eq!(files.names("data"), ["agent.db", "deep"]);
}

#[test]
fn the_owner_writes_after_a_user_who_may_only_read() {
    let files = Files::new("sqlite");
    let path = "data/agent.db";
    files.ok(path, &["init"]);
    files.ok(path, &["commit", "user", "one"]);
    if !give_away(&files, path, 0o644) {
        return;
    }
    files.run_as(READER, path, &["log", "--limit", "1"]).expect(0);
    assert_eq!(rights(&files.place.path("data/agent.db-wal")).1, READER, "it leaves its files");
    files.run_as(OWNER, path, &["commit", "user", "two"]).expect(0);
    // While such a process runs, writes fail with the cause, and reads do not.
    let url = &files.at(path)[0];
    let mut reader = files.place.command(&in_store(url, &["mcp", "serve"]));
    reader.uid(READER).gid(READER);
    reader.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut reader = reader.spawn().expect("it starts");
    let mut input = reader.stdin.take().expect("a pipe");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    writeln!(input, "{call}").expect("sent");
    let mut answer = String::new();
    let mut answers = std::io::BufReader::new(reader.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut answers, &mut answer).expect("an answer");
    let ran = files.run_as(OWNER, path, &["commit", "user", "refused"]);
    let cause = format!("agent.db-wal of user {READER} cannot be written");
    assert!(ran.code == Some(3) && ran.stderr.contains(&cause), "{ran:?}");
    assert!(ran.stderr.contains("another process has the store open"), "{ran:?}");
    files.run_as(OWNER, path, &["log"]).expect(0);
    reader.kill().expect("it is killed");
    reader.wait().expect("it ended");
    files.run_as(OWNER, path, &["commit", "user", "three"]).expect(0);
    assert_eq!(files.run_as(OWNER, path, &["log"]).expect(0).stdout.lines().count(), 3);
}

#[cfg(feature = "postgres")]
#[test]
fn the_password_of_a_removed_remote_is_in_no_file_after_gc() {
    for engine in FILES {
        let files = Files::new(engine);
        let path = "data/agent.db";
        files.ok(path, &["init"]);
        files.ok(path, &["commit", "user", "hello"]);
        let url = format!("postgres://ada:{SECRET}@127.0.0.1:1/team");
        files.ok(path, &["remote", "add", "team", &url]);
        files.ok(path, &["remote", "add", "other", "sqlite:other.db"]);
        files.ok(path, &["commit", "user", "more"]);
        files.ok(path, &["remote", "remove", "team"]);
        files.ok(path, &["gc", "--keep", "0s"]);
        assert_eq!(files.holding(SECRET), Vec::<String>::new(), "{engine}");
    }
}
