//! `kill -9` of a process that imports or appends: nothing acknowledged is lost, and what is there
//! verifies clean.

use std::collections::{BTreeSet, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tract_testkit::power::SeededRng;

use crate::support::{RunOutput, Workspace, each, in_store, stream, user_says};

/// A store of some engine in a folder.
struct Store {
    url: String,
    place: Workspace,
}

impl Store {
    fn of(engine: &str) -> Self {
        let place = Workspace::empty();
        let url = format!("{engine}:{}", place.path("tract.db").display());
        Self { url, place }
    }

    fn tract(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(&in_store(&self.url, arguments));
        command.stderr(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> RunOutput {
        RunOutput::after(&mut self.tract(arguments))
    }

    #[track_caller]
    fn clean(&self) {
        let report = &self.run(&["verify", "--json"]).expect(0).lines()[0];
        assert_eq!(report["clean"], true, "{report}");
    }
}

fn kill(child: &mut Child) {
    child.kill().expect("SIGKILL is sent");
    child.wait().expect("the child is gone");
}

/// Waits for a pseudo-random time: the same every time, as far as a scheduler allows.
fn pause(rng: &mut SeededRng, most_ms: usize) {
    std::thread::sleep(Duration::from_micros(rng.below(most_ms * 1000) as u64));
}

/// Reads the JSON lines that a process writes until it is killed; a line cut by the kill
/// acknowledges nothing. Returns once the first one is there, so that a slow start of the process
/// is not all that gets killed.
fn acknowledged(child: &mut Child, member: &'static str) -> JoinHandle<Vec<String>> {
    let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let (first, begun) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        output
            .split(b'\n')
            .map_while(Result::ok)
            .map_while(|line| serde_json::from_slice::<Value>(&line).ok())
            .filter_map(|event| event[member].as_str().map(str::to_owned))
            .inspect(|_| {
                let _ = first.send(()); // only the first is waited for
            })
            .collect()
    });
    // A process that ended without a word has hung up: then there is nothing to wait for.
    let _ = begun.recv_timeout(Duration::from_secs(20));
    reader
}

#[test]
fn a_killed_appending_process_loses_nothing_acknowledged() {
    appending_killed("sqlite", 100);
}

#[test]
fn a_killed_appending_process_on_redb_loses_nothing_acknowledged() {
    appending_killed("redb", 100);
}

fn appending_killed(engine: &str, kills: usize) {
    let store = Store::of(engine);
    store.run(&["init"]).expect(0);
    let mut rng = SeededRng(7);
    let mut seen = Vec::new();
    let mut rounds = tract_testkit::rounds(kills, 20);
    for round in rounds.by_ref() {
        let mut child = store
            .tract(&["apply", "--json", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("apply starts");
        let mut input = child.stdin.take().expect("stdin is piped");
        let feeder = std::thread::spawn(move || {
            for n in 0.. {
                let line = format!("{{\"op\":\"user\",\"text\":\"round {round}, line {n}\"}}\n");
                if input.write_all(line.as_bytes()).is_err() {
                    break; // the reader was killed
                }
            }
        });
        let reader = acknowledged(&mut child, "commit");
        pause(&mut rng, 60);
        kill(&mut child);
        feeder.join().expect("the feeder ends");
        seen.extend(reader.join().expect("the reader ends"));
        if round % 20 == 19 {
            store.clean();
        }
    }
    let kills = rounds.done();
    assert!(seen.len() >= kills, "only {} lines were acknowledged", seen.len());
    let log = store.run(&["log", "--limit", "0", "--json"]).lines();
    let stored: HashSet<&str> = each(&log, "commit").into_iter().collect();
    let lost = seen.iter().filter(|id| !stored.contains(id.as_str())).count();
    assert_eq!(lost, 0, "{lost} of {} acknowledged commits are lost", seen.len());
    let finding = format!("{kills} kills of `tract apply`, {} acknowledged, 0 lost", seen.len());
    tract_testkit::figure("T1 kill -9, command line", engine, finding);
}

#[test]
fn a_killed_import_can_continue() {
    importing_killed("sqlite", 50);
}

#[test]
fn a_killed_import_on_redb_can_continue() {
    importing_killed("redb", 50);
}

fn importing_killed(engine: &str, kills: usize) {
    let store = Store::of(engine);
    let sample = tract_testkit::data::bundled("trajectories/conversations.jsonl");
    let sample = std::fs::read_to_string(sample).expect("the bundled recordings");
    // The same conversations under many ids, so that there is something to interrupt.
    let copies = (0..60).flat_map(|copy| {
        sample.lines().enumerate().map(move |(n, line)| {
            let mut value: Value = serde_json::from_str(line).expect("a recording");
            value["id"] = format!("copy-{copy}-{n}").into();
            value["messages"][0]["content"] = format!("conversation {copy} {n}").into();
            value
        })
    });
    store.place.write("many.jsonl", stream(copies));
    let import = ["import", "--json", "many.jsonl"];
    let mut rng = SeededRng(11);
    let mut seen = BTreeSet::new();
    let mut rounds = tract_testkit::rounds(kills, 10);
    for round in rounds.by_ref() {
        let mut command = store.tract(&import);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("import starts");
        let reader = acknowledged(&mut child, "branch");
        pause(&mut rng, 120);
        kill(&mut child);
        seen.extend(reader.join().expect("the reader ends"));
        if round % 5 == 4 && store.place.path("tract.db").exists() {
            store.clean();
        }
    }
    let mut again = 0;
    for event in store.run(&import).lines() {
        if event["branch"].as_str().is_some_and(|branch| seen.contains(branch)) {
            assert_eq!(event["status"], "unchanged", "an acknowledged conversation: {event}");
            again += 1;
        }
    }
    assert_eq!(again, seen.len(), "every acknowledged conversation is there");
    assert!(again > 0, "no conversation was acknowledged before a kill");
    store.clean();
    let (kills, count) = (rounds.done(), seen.len());
    let finding =
        format!("{kills} kills of `tract import`, {count} conversations acknowledged, 0 lost");
    tract_testkit::figure("T1 kill -9, command line", engine, finding);
}

#[test]
fn two_processes_that_apply_streams_to_one_branch_at_once_lose_no_line() {
    let store = Store::of("sqlite");
    store.run(&["init"]).expect(0);
    let children: Vec<Child> = (0..2)
        .map(|process| {
            let file = format!("{process}.jsonl");
            let texts = (0..300).map(|n| format!("{process}, line {n}"));
            store.place.write(&file, user_says(texts));
            let mut apply = store.tract(&["apply", "--json", &file]);
            apply.stdout(Stdio::piped()).spawn().expect("apply starts")
        })
        .collect();
    for child in children {
        let answers =
            RunOutput::of(child.wait_with_output().expect("apply ends")).expect(0).lines();
        let lines = answers.iter().filter_map(|answer| answer["line"].as_u64());
        assert!(lines.eq(1..=300), "{answers:?}");
    }
    assert_eq!(store.run(&["log", "--limit", "0", "--json"]).lines().len(), 600);
    store.clean();
}

#[test]
fn a_killed_push_leaves_a_whole_store_and_continues() {
    push_killed("sqlite", 60);
}

#[test]
fn a_killed_push_on_redb_leaves_a_whole_store_and_continues() {
    push_killed("redb", 30);
}

fn push_killed(engine: &str, kills: usize) {
    let source = Store::of("sqlite");
    source.run(&["init"]).expect(0);
    let mut target = Store::of(engine);
    let mut rng = SeededRng(11);
    let (mut killed, mut brought) = (0, 0);
    let mut rounds = tract_testkit::rounds(kills, 10);
    for round in rounds.by_ref() {
        // Every tenth push begins an empty store.
        let name = format!("target-{}", round / 10);
        if round % 10 == 0 {
            target = Store::of(engine);
            source.run(&["remote", "add", &name, &target.url]).expect(0);
        }
        let texts = (0..150).map(|n| format!("round {round}, line {n}"));
        source.place.write("stream.jsonl", user_says(texts));
        source.run(&["apply", "stream.jsonl"]).expect(0);
        let mut push = source.tract(&["push", &name]);
        let mut child = push.stdout(Stdio::null()).spawn().expect("push starts");
        pause(&mut rng, 400);
        let running = child.try_wait().expect("it is ours").is_none();
        killed += usize::from(running);
        kill(&mut child);
        if round % 10 == 9 {
            // What the killed ones left is whole, and the next one continues it.
            if target.run(&["status"]).code == Some(0) {
                target.clean();
            }
            let answer = &source.run(&["push", &name, "--json"]).expect(0).lines()[0];
            brought += answer["commits"].as_u64().expect("a number");
            target.clean();
            assert_eq!(target.run(&["export"]).stdout, source.run(&["export"]).stdout);
        }
    }
    source.clean();
    let kills = rounds.done();
    let finding = format!(
        "{killed} kills in {kills} pushes, {brought} commits left for the next push, all equal"
    );
    tract_testkit::figure("T1 kill -9, push", engine, finding);
}
