//! `tract import … --follow`: what is written while it runs is imported, and nothing is lost or
//! doubled.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;

use crate::support::{RunOutput, Workspace, copy_folder, key, sessions, signal, text};

/// How long something may take before the test fails; nothing waits that long.
const DEADLINE: Duration = Duration::from_secs(60);

/// A process that follows, and what it prints.
struct FollowingImport {
    child: Child,
    lines: Receiver<Value>,
    /// The lines that were waited for.
    seen: Vec<Value>,
}

impl FollowingImport {
    /// Starts it, and waits until the first import is done.
    fn start(place: &Workspace, arguments: &[&str]) -> Self {
        let mut command = place.command(&[&["import", "--follow", "--json"], arguments].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.expect("it is text");
                let _ = sender.send(serde_json::from_str(&line).expect("it is JSON"));
            }
        });
        let mut following = Self { child, lines, seen: Vec::new() };
        following.wait_for("the first import", |line| line["following"].is_object());
        following
    }

    /// Waits for a line.
    #[track_caller]
    fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Ok(line) = self.lines.recv_timeout(DEADLINE) else {
                panic!("{what} did not come; before it: {:?}", self.seen);
            };
            self.seen.push(line.clone());
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Waits until a branch has so many commits.
    #[track_caller]
    fn wait_for_commits(&mut self, branch: &str, commits: usize) {
        self.wait_for(&format!("{commits} commits of {branch}"), |line| {
            let mut branches = line["branches"].as_array().into_iter().flatten();
            branches.any(|known| known["branch"] == branch && known["commits"] == commits)
        });
    }

    /// Interrupts it, and returns the summary.
    fn stop(mut self) -> Value {
        signal(self.child.id(), "-INT");
        let summary = self.wait_for("the summary", |line| line["summary"].is_object());
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{:?}", self.seen);
        summary["summary"].clone()
    }
}

impl Drop for FollowingImport {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("it opens");
    file.write_all(bytes).expect("it is written");
}

/// A line of a session of Claude Code: its n-th message, after the one before.
fn line(session: &str, n: usize, text: &str) -> String {
    let parent = match n {
        0 => Value::Null,
        n => Value::from(format!("{session}-{}", n - 1)),
    };
    let line = serde_json::json!({
        "type": "user", "sessionId": session, "uuid": format!("{session}-{n}"),
        "parentUuid": parent, "timestamp": format!("2026-03-01T10:{:02}:{:02}Z", n / 60, n % 60),
        "cwd": "/home/ada/boats", "version": "2.1.0", "isSidechain": false,
        "message": {"role": "user", "content": text},
    });
    format!("{line}\n")
}

fn session(name: &str, count: usize) -> String {
    (0..count).map(|n| line(name, n, &format!("{name} says {n}"))).collect()
}

/// A plain import of the folder writes nothing, and the store is whole.
#[track_caller]
fn is_settled(place: &Workspace, arguments: &[&str]) {
    let moves = |place: &Workspace| place.json(&["stats", "--json"])[0].clone();
    let before = moves(place);
    let lines = place.json(&[&["import", "--json"], arguments].concat());
    assert_eq!(lines[lines.len() - 1]["summary"]["new"], 0, "{lines:?}");
    let after = moves(place);
    for what in ["commits", "ref_moves", "blobs"] {
        assert_eq!(before[what], after[what], "{what}: {before} {after}");
    }
    place.is_clean();
}

#[test]
fn following_leaves_a_cache_for_the_next_import() {
    let place = Workspace::new();
    let folder = sessions("codex");
    let folder = text(&folder);
    FollowingImport::start(&place, &["codex", folder]).stop();
    let ran = place.run(&["-vv", "import", "codex", folder]).expect(0);
    assert!(ran.stderr.contains("unchanged=1 files=1"), "{ran:?}");
    is_settled(&place, &["codex", folder]);
}

#[test]
fn a_session_that_grows_in_pieces_is_followed_and_nothing_is_lost_or_doubled() {
    let place = Workspace::new();
    let folder = place.path("sessions/boats");
    fs::create_dir_all(&folder).expect("a folder");
    let arguments = ["claude-code", "sessions"];
    let mut following = FollowingImport::start(&place, &arguments);

    // Pieces that cut lines, one of them just before its end. What is whole comes in at once.
    let whole = session("a", 12);
    let path = folder.join("a.jsonl");
    let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let mut from = 0;
    for (count, cut) in [(1, ends[0] + 20), (4, ends[3] - 1), (9, ends[8] + 1), (12, ends[11])] {
        append(&path, &whole.as_bytes()[from..cut]);
        from = cut;
        following.wait_for_commits("claude-code/a", count);
    }
    // Others read the store meanwhile.
    place.ok(&["cat", "claude-code/a", "-n", "1"]);

    // In a folder that is new, two files at once.
    let inner = place.path("sessions/moorings");
    fs::create_dir(&inner).expect("a folder");
    append(&inner.join("b.jsonl"), session("b", 2).as_bytes());
    append(&inner.join("c.jsonl"), session("c", 3).as_bytes());
    following.wait_for_commits("claude-code/b", 2);
    if !following.seen.iter().any(|line| line["session"] == "c") {
        following.wait_for_commits("claude-code/c", 3);
    }

    // Cut short, and then with another end: next to the old one.
    let short = ends[5];
    let file = OpenOptions::new().write(true).open(&path).expect("it opens");
    file.set_len(short as u64).expect("cut");
    append(&path, line("a", 6, "something else").as_bytes());
    following.wait_for_commits("claude-code/a.2", 7);

    // Replaced by a rename, as editors do it.
    let other = session("d", 4);
    place.write("new.jsonl", &other);
    fs::rename(place.path("new.jsonl"), &path).expect("it is replaced");
    following.wait_for_commits("claude-code/d", 4);

    // Rotated: the old file has another name, the new one is another session.
    fs::rename(&path, folder.join("a.1.jsonl")).expect("it is rotated");
    append(&path, session("e", 2).as_bytes());
    following.wait_for_commits("claude-code/e", 2);

    let summary = following.stop();
    assert_eq!(summary["unread"], 0);
    // The cut session has a commit of its own, and shares its first six.
    assert_eq!(summary["new"], 12 + 2 + 3 + 1 + 4 + 2);
    assert_eq!(summary["sessions"], 6);

    // What was written while nothing followed is there before anything else, once.
    append(&path, line("e", 2, "while it was stopped").as_bytes());
    let mut following = FollowingImport::start(&place, &arguments);
    assert_eq!(following.seen.len(), 2, "{:?}", following.seen);
    assert_eq!(following.seen[0]["branches"][0]["commits"], 3);
    append(&path, line("e", 3, "and again").as_bytes());
    following.wait_for_commits("claude-code/e", 4);
    assert_eq!(following.stop()["new"], 2);

    // A secret of a session that grows is one secret.
    let key = key();
    let secret = folder.join("f.jsonl");
    append(&secret, line("f", 0, &format!("the token is {key}")).as_bytes());
    let mut following = FollowingImport::start(&place, &arguments);
    append(&secret, line("f", 1, "that was all").as_bytes());
    following.wait_for_commits("claude-code/f", 2);
    let summary = following.stop();
    assert_eq!((&summary["redacted"], &summary["sessions"]), (&1.into(), &1.into()));

    // One that is killed has stored what it reported.
    let mut following = FollowingImport::start(&place, &arguments);
    append(&path, line("e", 4, "the last word").as_bytes());
    following.wait_for_commits("claude-code/e", 5);
    drop(following);
    let following = FollowingImport::start(&place, &arguments);
    assert_eq!(following.seen.len(), 1, "{:?}", following.seen);
    following.stop();

    is_settled(&place, &arguments);
    let plain = Workspace::new();
    plain.write("a.jsonl", &whole);
    plain.ok(&["import", "claude-code", "a.jsonl"]);
    assert_eq!(place.id("claude-code/a"), plain.id("claude-code/a"));
}

#[test]
fn a_subagent_that_grows_keeps_the_call_that_started_it() {
    let place = Workspace::new();
    copy_folder(&sessions("claude-code"), &place.path("sessions"));
    let subagents = "bfb38461-8fc8-5582-bd81-bc1cb996f385/subagents/agent-a1b2c3d.jsonl";
    let path = place.path("sessions/projects/-home-ada-tide-tables").join(subagents);
    let bytes = fs::read(&path).expect("a subagent");
    fs::remove_file(&path).expect("it is removed");
    let arguments = ["claude-code", "sessions"];
    let mut following = FollowingImport::start(&place, &arguments);
    let first = bytes.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    append(&path, &bytes[..first]);
    following.wait_for("the beginning", |line| line["branches"][0]["start"] == "subagent");
    append(&path, &bytes[first..]);
    let whole = following.wait_for("the rest", |line| line["branches"][0]["start"] == "subagent");
    assert_eq!(whole["anomalies"].get("unknown_caller"), None, "{whole}");
    following.stop();
    is_settled(&place, &arguments);
}

#[test]
fn a_document_that_was_cut_comes_in_when_it_is_whole_and_a_broken_one_is_reported() {
    let trajectory = r#"{"trajectory":[],"history":[{"role":"user","content":"Look."}]}"#;
    let place = Workspace::new();
    fs::create_dir(place.path("runs")).expect("a folder");
    let mut following = FollowingImport::start(&place, &["swe-agent", "runs"]);
    let path = place.path("runs/one.traj");
    append(&path, &trajectory.as_bytes()[..30]);
    append(&place.path("runs/two.traj"), trajectory.replace("Look.", "Listen.").as_bytes());
    following.wait_for_commits("swe-agent/two", 1);
    append(&path, &trajectory.as_bytes()[30..]);
    following.wait_for_commits("swe-agent/one", 1);
    // Nothing writes to it any more, and it is no document.
    place.write("runs/three.traj", r#"{"history":"#);
    following.wait_for("the error", |line| {
        let is_third = line["file"].as_str().is_some_and(|file| file.ends_with("three.traj"));
        is_third && line["error"].is_object()
    });
    // What was an error for a moment is none in the end.
    let summary = following.stop();
    assert_eq!((&summary["unread"], &summary["new"]), (&1.into(), &2.into()));
    place.is_clean();
}

#[test]
fn an_answer_that_grows_is_followed_on_one_branch() {
    let place = Workspace::new();
    fs::create_dir(place.path("chats")).expect("a folder");
    let chat = |answer: &str| {
        format!("# aider chat started at 2026-01-01 10:00:00\n\n#### Why?  \n\n{answer}\n")
    };
    let history = "chats/.aider.chat.history.md";
    place.write(history, chat(""));
    let mut following = FollowingImport::start(&place, &["aider", "chats"]);
    let branch = "aider/2026-01-01T10-00-00";
    for answer in ["Be", "Because.", "Because.\n\nOf the tide."] {
        place.write(history, chat(answer));
        following.wait_for_commits(branch, 2);
    }
    following.stop();
    let log = place.run(&["cat", branch]).expect(0);
    assert!(log.stdout.contains("Of the tide."), "{log:?}");
    let branches = place.run(&["branch"]).expect(0);
    assert!(!branches.stdout.contains(&format!("{branch}.2")), "{branches:?}");
    is_settled(&place, &["aider", "chats"]);
}

#[test]
fn a_file_is_followed_by_its_bytes_and_what_cannot_be_followed_is_refused() {
    let place = Workspace::new();
    place.write("a.jsonl", session("a", 1));
    let mut following = FollowingImport::start(&place, &["a.jsonl"]);
    append(&place.path("a.jsonl"), line("a", 1, "more").as_bytes());
    following.wait_for_commits("claude-code/a", 2);
    following.stop();
    is_settled(&place, &["a.jsonl"]);

    place.write("chats.jsonl", r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    place.refused(&["import", "--follow", "chats.jsonl"], 2, "usage", "recordings of agent tools");
    place.refused(&["import", "--follow", "-"], 2, "usage", "standard input");
    place.refused(&["import", "--follow", "codex", "missing"], 2, "file", "missing");
}

#[test]
fn people_read_a_line_for_what_came_and_a_summary() {
    let place = Workspace::new();
    place.write("a.jsonl", session("a", 1));
    let mut command = place.command(&["import", "claude-code", "a.jsonl", "--follow"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut printed = String::new();
    for _ in 0..2 {
        stderr.read_line(&mut printed).expect("it is text");
    }
    let newest = "on claude-code/a, the newest conversation\n";
    assert_eq!(printed, format!("{newest}following 1 file in a.jsonl; Ctrl-C ends it\n"));
    signal(child.id(), "-INT");
    let ran = RunOutput::of(child.wait_with_output().expect("it ends")).expect(0);
    let lines = "claude-code/a: 1 new commit  a.jsonl\nimported 1 new commit of 1 conversation\n";
    assert_eq!(ran.stdout, lines);
}

#[test]
fn damage_is_reported_while_a_session_is_followed() {
    let place = Workspace::new();
    let folder = place.path("sessions/boats");
    fs::create_dir_all(&folder).expect("a folder");
    let mut following = FollowingImport::start(&place, &["claude-code", "sessions"]);
    let path = folder.join("a.jsonl");
    append(&path, line("a", 0, "first").as_bytes());
    following.wait_for_commits("claude-code/a", 1);
    // Two records in one line.
    let two = format!("{}{}", line("a", 1, "second").trim_end(), line("a", 2, "third"));
    append(&path, two.as_bytes());
    let reports = following.wait_for("the damage", |line| line["anomalies"]["damaged_line"] == 1);
    assert_eq!(reports["branches"][0]["commits"], 3, "{reports}");
    // A line of which nothing can be read brings no commit, and is reported all the same.
    append(&path, b"{\"type\":\n");
    following.wait_for("the broken line", |line| line["anomalies"]["unreadable_line"] == 1);
    following.stop();
}
