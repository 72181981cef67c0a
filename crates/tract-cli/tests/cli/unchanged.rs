//! Files that did not change since they were imported: they are not read again, and everything is
//! as if they were.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Workspace, each, list, sessions, text};

/// The file of the cache, in the folder of a test.
const CACHE: &str = ".tract/tract.db.imports";

/// Imports, and returns how many files were not read.
#[track_caller]
fn unread(place: &Workspace, arguments: &[&str]) -> usize {
    let ran = place.run(&[&["-vv", "import"], arguments].concat()).expect(0);
    let (_, number) = ran.stderr.split_once("unchanged=").expect("the log says how many");
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Two stores with the same commands: one with the cache, and one whose cache is deleted before
/// each of them. Both must say and have the same.
struct StorePair {
    cached: Workspace,
    plain: Workspace,
}

impl StorePair {
    fn new() -> Self {
        let twins = Self { cached: Workspace::new(), plain: Workspace::new() };
        twins.run(&["commit", "user", "Hello", "--at", "2026-05-01T00:00:00Z"]);
        twins
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Vec<Value> {
        // There is none before the first import.
        let _ = std::fs::remove_file(self.plain.path(CACHE));
        let [with, without] = [&self.cached, &self.plain].map(|place| {
            let lines = place.ok(&[&["--json"], arguments].concat());
            // The times of what the two stores did are their own.
            let lines = if arguments[0] == "import" { lines } else { String::new() };
            (lines, place.ok(&["branch", "--json"]), place.ok(&["export"]))
        });
        assert_eq!(with, without, "{arguments:?}");
        with.0.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }
}

#[test]
fn unchanged_sessions_are_not_read_again_and_reported_the_same() {
    for (tool, files) in [("claude-code", 4), ("codex", 1), ("gemini-cli", 2)] {
        let place = Workspace::new();
        let folder = sessions(tool);
        let arguments = [tool, text(&folder)];
        assert_eq!(unread(&place, &arguments), 0, "{tool}");
        assert_eq!(unread(&place, &arguments), files, "{tool}");
        let import = ["import", tool, text(&folder), "--anomalies"];
        let with_json = [&import[..], &["--json"]].concat();
        let (people, json) = (place.run(&import).expect(0), place.run(&with_json).expect(0));
        let log = place.ok(&["stats", "--json"]);
        std::fs::remove_file(place.path(CACHE)).expect("it is there");
        let read = place.run(&import).expect(0);
        assert_eq!((people.stdout, people.stderr), (read.stdout, read.stderr), "{tool}");
        std::fs::remove_file(place.path(CACHE)).expect("it is there again");
        assert_eq!(json.stdout, place.run(&with_json).expect(0).stdout, "{tool}");
        assert_eq!(log, place.ok(&["stats", "--json"]), "no entry in the log: {tool}");
    }
}

#[test]
fn unchanged_files_are_read_again_where_the_store_does_not_have_them() {
    let twins = StorePair::new();
    let folder = sessions("claude-code");
    let import = ["import", "claude-code", text(&folder)];
    let status = |lines: &[Value]| lines[4]["summary"]["branches"].clone();
    assert_eq!(status(&twins.run(&import))["created"], 4);
    assert_eq!(unread(&twins.cached, &import[1..]), 4);
    let lines = twins.run(&import);
    let sessions = lines[..4].iter();
    let branches: Vec<&str> =
        sessions.flat_map(|line| each(list(&line["branches"]), "branch")).collect();
    twins.run(&["checkout", branches[0]]);
    twins.run(&["undo"]);
    assert_eq!(status(&twins.run(&import))["created"], 4);
    twins.run(&["checkout", "main"]);
    twins.run(&["branch", "-d", branches[0]]);
    let lines = twins.run(&import);
    assert_eq!((&status(&lines)["created"], &status(&lines)["unchanged"]), (&1.into(), &3.into()));
    // Objects that were deleted are written again.
    twins.run(&[&["branch", "-d"], &branches[..]].concat());
    twins.run(&["gc", "--keep", "0s"]);
    assert_eq!(status(&twins.run(&import))["created"], 4);
    // Another store at the same place.
    for place in [&twins.cached, &twins.plain] {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(place.path(&format!(".tract/tract.db{end}")));
        }
        place.ok(&["init"]);
    }
    assert_eq!(status(&twins.run(&import))["created"], 4);
    twins.cached.is_clean();
}

#[test]
fn unchanged_files_whose_branches_were_continued_or_replaced_are_judged_as_if_read() {
    let twins = StorePair::new();
    let folder = sessions("claude-code");
    let import = ["import", "claude-code", text(&folder)];
    let lines = twins.run(&import);
    let branch = lines[1]["branches"][0]["branch"].as_str().expect("a branch").to_owned();
    twins.run(&["checkout", &branch]);
    twins.run(&["commit", "user", "And the tide?", "--at", "2026-06-01T00:00:00Z"]);
    let lines = twins.run(&import);
    assert_eq!(lines[4]["summary"]["branches"]["unchanged"], 4);
    assert_eq!(unread(&twins.cached, &import[1..]), 4, "a branch that has more has it all");
    // Another conversation under its name: the session goes next to it, and stays there.
    twins.run(&["checkout", "main"]);
    twins.run(&["branch", "-d", &branch]);
    for place in [&twins.cached, &twins.plain] {
        place.write("other.jsonl", r#"{"id":"other","messages":[{"role":"user","content":"Hi"}]}"#);
    }
    twins.run(&["import", "other.jsonl"]);
    twins.run(&["branch", &branch, "--from", "other"]);
    let next = format!("{branch}.2");
    assert_eq!(twins.run(&import)[1]["branches"][0]["branch"], next);
    assert_eq!(unread(&twins.cached, &import[1..]), 4);
    assert_eq!(twins.run(&import)[1]["branches"][0]["branch"], next);
    // The name is free again.
    twins.run(&["branch", "-d", &branch]);
    assert_eq!(twins.run(&import)[1]["branches"][0]["branch"], branch);
}

#[test]
fn unchanged_subagents_are_read_again_when_their_caller_is_not_there() {
    let twins = StorePair::new();
    let folder = sessions("claude-code");
    let project = folder.join("projects/-home-ada-tide-tables");
    let subagents = project.join("bfb38461-8fc8-5582-bd81-bc1cb996f385/subagents");
    let (all, agent) = (text(&folder), text(&subagents));
    let anomalies = |lines: &[Value]| {
        let summary = &lines.last().expect("a summary")["summary"];
        summary["anomalies"]["unknown_caller"].clone()
    };
    assert_eq!(anomalies(&twins.run(&["import", "claude-code", agent])), 1);
    assert_eq!(anomalies(&twins.run(&["import", "claude-code", all])), Value::Null);
    assert_eq!(anomalies(&twins.run(&["import", "claude-code", agent])), 1);
    assert_eq!(anomalies(&twins.run(&["import", "claude-code", all])), Value::Null);
}

#[test]
fn unchanged_files_are_read_again_by_another_build_and_where_the_cache_is_damaged() {
    let place = Workspace::new();
    let folder = sessions("claude-code");
    let arguments = ["claude-code", text(&folder)];
    assert_eq!((unread(&place, &arguments), unread(&place, &arguments)), (0, 4));
    let sound = place.read(CACHE);
    let header = sound.lines().next().expect("a header");
    let reader = serde_json::from_str::<Value>(header).expect("it is JSON")["reader"].clone();
    let reader = reader.as_str().expect("a text");
    let (_, body) = sound.split_once('\n').expect("a header");
    let digit = body.rfind("\"messages\":").expect("a count") + "\"messages\":".len();
    let other = if body.as_bytes()[digit] == b'1' { "2" } else { "1" };
    let mut flipped = body.to_owned();
    flipped.replace_range(digit..=digit, other);
    let flipped = format!("{header}\n{flipped}");
    for odd in [
        sound.replacen(reader, "0.0.1 1 1", 1),
        sound.replacen("{\"format\":", "{\"format\":9", 1),
        flipped,
        sound[..sound.len() / 2].to_owned(),
        String::new(),
        "no cache at all\n".to_owned(),
    ] {
        assert_ne!(odd, sound);
        place.write(CACHE, &odd);
        assert_eq!(unread(&place, &arguments), 0, "{odd}");
        assert_eq!(unread(&place, &arguments), 4, "it is written again");
    }
    // Where none can be written, there is none.
    std::fs::remove_file(place.path(CACHE)).expect("it is there");
    std::fs::create_dir(place.path(CACHE)).expect("a folder in its place");
    assert_eq!((unread(&place, &arguments), unread(&place, &arguments)), (0, 0));
    let left = std::fs::read_dir(place.path(".tract")).expect("a folder");
    let left = left.map(|entry| entry.expect("one").file_name().into_string().expect("a name"));
    assert!(left.into_iter().all(|name| !name.ends_with(".tmp")), "nothing half written is left");
}

/// Imports until all files are old enough to be left unread, for some time at most.
#[cfg(unix)]
#[track_caller]
fn until_unread(place: &Workspace, arguments: &[&str], files: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while unread(place, arguments) < files {
        assert!(Instant::now() < end, "the files are read again and again");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(unix)]
#[test]
fn unchanged_is_only_what_has_the_same_size_times_and_identity() {
    let place = Workspace::new();
    let file = |user: &str| {
        serde_json::json!({
            "type": "user", "sessionId": "5e551011-0000-4000-8000-000000000001",
            "uuid": "5e551011-0000-4000-8000-000000000002", "parentUuid": null,
            "timestamp": "2026-03-01T10:00:00Z", "cwd": "/home/ada", "version": "2.1.0",
            "isSidechain": false, "message": {"role": "user", "content": user},
        })
        .to_string()
    };
    let arguments = ["claude-code", "session.jsonl"];
    place.write("session.jsonl", file("High water?"));
    // A file that was just written may change without a trace.
    assert_eq!((unread(&place, &arguments), unread(&place, &arguments)), (0, 0));
    until_unread(&place, &arguments, 1);
    let path = place.path("session.jsonl");
    let time = std::fs::metadata(&path).expect("a file").modified().expect("a time");
    // Another content of the same size, with the same time of modification.
    place.write("session.jsonl", file("Low  water?"));
    let open = std::fs::File::options().write(true).open(&path).expect("it opens");
    open.set_modified(time).expect("it is set");
    drop(open);
    let lines = place.json(&["--json", "import", "claude-code", "session.jsonl"]);
    assert_eq!(lines[1]["summary"]["new"], 1, "{lines:?}");
    // Another file under the name, as old as the first one.
    until_unread(&place, &arguments, 1);
    let folder = sessions("claude-code/projects/-home-ada-tide-tables");
    let old = folder.join("f2c71dd1-538d-55a4-9725-6db16fce0c50.jsonl");
    std::fs::remove_file(&path).expect("it is there");
    std::os::unix::fs::symlink(old, &path).expect("a link");
    assert_eq!(unread(&place, &arguments), 0);
    assert_eq!(unread(&place, &arguments), 1);
}

#[test]
fn unchanged_files_are_read_again_with_other_redaction_and_the_cache_goes_with_an_erasure() {
    let place = Workspace::new();
    let folder = sessions("claude-code");
    let import = ["claude-code", text(&folder)];
    let with_secrets = [&import[..], &["--no-redact"]].concat();
    assert_eq!((unread(&place, &import), unread(&place, &with_secrets)), (0, 0));
    assert_eq!((unread(&place, &with_secrets), unread(&place, &import)), (4, 0));
    assert_eq!(unread(&place, &import), 4);
    let session = "claude-code/f2c71dd1-538d-55a4-9725-6db16fce0c50";
    place.ok(&["erase", session, "--reason", "a test", "--yes"]);
    assert!(!place.path(CACHE).exists(), "titles may be what is erased");
    let lines = place.json(&[&["--json", "import"], &import[..]].concat());
    assert_eq!(lines[4]["summary"]["branches"]["unchanged"], 4);
}

#[test]
fn unchanged_files_are_known_for_each_repository() {
    let place = Workspace::new();
    let folder = sessions("codex");
    let arguments = ["codex", text(&folder)];
    assert_eq!((unread(&place, &arguments), unread(&place, &arguments)), (0, 1));
    let other = [&arguments[..], &["--repo", "other"]].concat();
    assert_eq!((unread(&place, &other), unread(&place, &other)), (0, 1));
    assert_eq!(unread(&place, &arguments), 1);
    let lines = place.json(&[&["--json", "import"], &other[..]].concat());
    assert_eq!(lines[0]["branches"][0]["status"], "unchanged");
}
