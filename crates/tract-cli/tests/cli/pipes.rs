use std::process::Stdio;

use serde_json::json;

#[cfg(target_os = "linux")]
use crate::support::user_says;
use crate::support::{RunOutput, Workspace, stream};

/// Runs a command whose reader closes its end at once, as `head` does when it has enough.
pub(crate) fn without_reader(place: &Workspace, arguments: &[&str]) -> RunOutput {
    let mut command = place.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    RunOutput::of(child.wait_with_output().expect("it ends"))
}

/// A file of this many conversations, `c0` and so on, each of one question.
pub(crate) fn conversations(count: usize) -> String {
    stream((0..count).map(|n| {
        let question = json!({"role": "user", "content": format!("Question {n}")});
        json!({"id": format!("c{n}"), "messages": [question]})
    }))
}

#[test]
fn an_import_without_a_reader_takes_in_every_conversation() {
    let place = Workspace::new();
    place.write("chats.jsonl", conversations(1_500));
    without_reader(&place, &["import", "--json", "chats.jsonl"]).expect(0);
    assert_eq!(place.json(&["stats", "--json"])[0]["commits"], 1_500);
}

#[test]
fn a_refused_line_is_exit_1_with_or_without_a_reader() {
    let place = Workspace::new();
    let good = "{\"op\":\"user\",\"text\":\"one\"}\n";
    place.write("stream.jsonl", format!("{good}nonsense\n{good}"));
    without_reader(&place, &["apply", "--json", "--keep-going", "stream.jsonl"]).expect(1);
    assert_eq!(place.json(&["--json", "log"]).len(), 2);
}

#[test]
fn damage_is_exit_1_with_or_without_a_reader() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "a message that will be damaged"]);
    assert!(place.execute("UPDATE blobs SET data = CAST('another' AS BLOB)") > 0);
    for json in [&["verify"][..], &["verify", "--json"]] {
        without_reader(&place, json).expect(1);
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
    let stderr = RunOutput::after(command.stdout(full)).expect(1).stderr;
    assert!(stderr.contains("1,500 commits"), "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
    assert_eq!(place.json(&["stats", "--json"])[0]["commits"], 1_500);
}

/// Runs a command that may have so much memory of its own, in KiB; one that needs more is ended by
/// the failed allocation.
#[cfg(target_os = "linux")]
fn within(place: &Workspace, kib: usize, arguments: &str) -> RunOutput {
    let mut shell = std::process::Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_tract");
    shell.arg("-c").arg(format!("ulimit -d {kib}; exec '{binary}' {arguments}"));
    RunOutput::after(shell.current_dir(place.path("")).env_remove("TRACT_STORE"))
}

#[cfg(target_os = "linux")]
#[test]
fn the_graph_of_a_thousand_branches_takes_no_memory_for_its_rows() {
    let place = Workspace::new();
    let root = json!({"op": "user", "text": "root", "mark": "r"});
    let branches = (0..1_000).flat_map(|n| {
        let name = format!("b{n}");
        let branch = json!({"op": "branch", "name": name, "from": ":r"});
        let text = format!("on {n}");
        [branch, json!({"op": "checkout", "name": name}), json!({"op": "user", "text": text})]
    });
    let lines = stream([root].into_iter().chain(branches));
    place.feed(&["apply", "-"], lines.as_bytes()).expect(0);
    let log = within(&place, 80 << 10, "log --all --limit 0");
    assert_eq!(log.code, Some(0), "{}", log.stderr);
    assert!(log.stdout.len() > 1_000_000, "{} bytes", log.stdout.len());
}

#[cfg(target_os = "linux")]
#[test]
fn an_atomic_stream_needs_no_memory_for_all_of_its_lines() {
    let place = Workspace::new();
    let text = "y".repeat(1 << 20);
    place.write("stream.jsonl", user_says((0..150).map(|n| format!("{n} {text}"))));
    within(&place, 110 << 10, "apply --atomic --json stream.jsonl").expect(0);
    assert_eq!(place.json(&["stats", "--json"])[0]["commits"], 150);
}
