use std::fmt::Write as _;
use std::process::{Output, Stdio};

use crate::support::Workspace;

/// Runs a command whose reader closes its end at once, as `head` does when it has enough.
fn without_reader(place: &Workspace, arguments: &[&str]) -> Output {
    let mut command = place.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    child.wait_with_output().expect("it ends")
}

fn conversations(count: usize) -> String {
    let mut file = String::new();
    for n in 0..count {
        let _ = writeln!(
            file,
            r#"{{"id":"c{n}","messages":[{{"role":"user","content":"Question {n}"}}]}}"#
        );
    }
    file
}

#[test]
fn an_import_without_a_reader_takes_in_every_conversation() {
    let place = Workspace::new();
    place.write("chats.jsonl", conversations(1_500));
    let output = without_reader(&place, &["import", "--json", "chats.jsonl"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(place.json(&["stats", "--json"])[0]["commits"], 1_500);
}

#[test]
fn a_refused_line_is_exit_1_with_or_without_a_reader() {
    let place = Workspace::new();
    let good = "{\"op\":\"user\",\"text\":\"one\"}\n";
    place.write("stream.jsonl", format!("{good}nonsense\n{good}"));
    let output = without_reader(&place, &["apply", "--json", "--keep-going", "stream.jsonl"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(place.json(&["--json", "log"]).len(), 2);
}

#[test]
fn damage_is_exit_1_with_or_without_a_reader() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "a message that will be damaged"]);
    let connection = rusqlite::Connection::open(place.store()).expect("it opens");
    let sql = "UPDATE blobs SET data = CAST('another' AS BLOB)";
    assert!(connection.execute(sql, []).expect("it is changed") > 0);
    drop(connection);
    for json in [&["verify"][..], &["verify", "--json"]] {
        let output = without_reader(&place, json);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

/// A full disk under stdout loses the report, not the work, and is reported.
#[cfg(target_os = "linux")]
#[test]
fn an_import_into_a_full_report_takes_in_every_conversation_and_says_so() {
    let place = Workspace::new();
    place.write("chats.jsonl", conversations(1_500));
    let mut command = place.command(&["import", "--json", "chats.jsonl"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let output = command.stdout(full).stderr(Stdio::piped()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("1,500 commits"), "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
    assert_eq!(place.json(&["stats", "--json"])[0]["commits"], 1_500);
}

/// Runs a command that may have so much memory of its own, in KiB; one that needs more is ended by
/// the failed allocation.
#[cfg(target_os = "linux")]
fn within(place: &Workspace, kib: usize, arguments: &str) -> Output {
    let mut shell = std::process::Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_tract");
    shell.arg("-c").arg(format!("ulimit -d {kib}; exec '{binary}' {arguments}"));
    shell.current_dir(place.path("")).env_remove("TRACT_STORE").stdin(Stdio::null());
    shell.output().expect("it runs")
}

#[cfg(target_os = "linux")]
#[test]
fn the_graph_of_a_thousand_branches_takes_no_memory_for_its_rows() {
    let place = Workspace::new();
    let mut stream = "{\"op\":\"user\",\"text\":\"root\",\"mark\":\"r\"}\n".to_owned();
    for n in 0..1_000 {
        let _ = writeln!(stream, r#"{{"op":"branch","name":"b{n}","from":":r"}}"#);
        let _ = writeln!(stream, r#"{{"op":"checkout","name":"b{n}"}}"#);
        let _ = writeln!(stream, r#"{{"op":"user","text":"on {n}"}}"#);
    }
    place.feed(&["apply", "-"], stream.as_bytes()).expect(0);
    let output = within(&place, 80 << 10, "log --all --limit 0");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.len() > 1_000_000, "{} bytes", output.stdout.len());
}

#[cfg(target_os = "linux")]
#[test]
fn an_atomic_stream_needs_no_memory_for_all_of_its_lines() {
    let place = Workspace::new();
    let text = "y".repeat(1 << 20);
    let mut stream = String::new();
    for n in 0..150 {
        let _ = writeln!(stream, r#"{{"op":"user","text":"{n} {text}"}}"#);
    }
    place.write("stream.jsonl", stream);
    let output = within(&place, 110 << 10, "apply --atomic --json stream.jsonl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.json(&["stats", "--json"])[0]["commits"], 150);
}
