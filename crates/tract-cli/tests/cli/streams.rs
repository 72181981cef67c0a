use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::support::{Place, bundled, text};

pub(crate) const MORNING: &str = r#"
{"op":"system","text":"You are a travel agent.","at":"2026-01-31T09:00:00Z"}
{"op":"set_tools","tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}],"at":"2026-01-31T09:00:01Z"}
{"op":"user","text":"Do I need a coat in Paris?","mark":"q","at":"2026-01-31T09:00:02Z"}
{"op":"assistant","text":"","tool_calls":[{"id":"c1","name":"get_weather","arguments":{"city":"Paris"}}],"at":"2026-01-31T09:00:03Z"}
{"op":"tool_result","call_id":"c1","content":"11 degrees, rain","at":"2026-01-31T09:00:04Z"}
{"op":"branch","name":"lyon","from":":q"}
{"op":"edit","target":":q","text":"Do I need a coat in Lille?","at":"2026-01-31T09:00:05Z"}
{"op":"tag","name":"morning"}
"#;

#[test]
fn a_stream_says_what_became_of_each_line() {
    let place = Place::new();
    let stream = "{\"op\":\"user\",\"text\":\"Again, please.\",\"mark\":\"q\"}\n\n\
                  {\"op\":\"tool_result\",\"call_id\":\"c2\",\"content\":\"ok\"}\n\
                  {\"op\":\"user\",\"text\":\"never reached\"}\n";
    let ran = place.feed(&["apply", "--json", "-"], stream.as_bytes()).expect(1);
    let lines = ran.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["line"], &lines[0]["mark"]), (&1.into(), &"q".into()));
    assert_eq!(lines[0]["commit"], place.id("HEAD"));
    // Blank lines count.
    assert_eq!(lines[1]["line"], 3);
    assert_eq!(lines[1]["error"]["code"], "no_open_call");
    assert_eq!(lines[1]["error"]["notes"][0], "no call is open");
    assert_eq!(place.json(&["--json", "log"]).len(), 1);
}

#[test]
fn keep_going_goes_on_and_atomic_takes_all_or_none() {
    let place = Place::new();
    let stream =
        b"{\"op\":\"user\",\"text\":\"one\"}\nnonsense\n{\"op\":\"user\",\"text\":\"two\"}\n";
    place.feed(&["apply", "--atomic", "-"], stream).expect(1);
    assert_eq!(place.json(&["--json", "log"]).len(), 0);
    place.feed(&["apply", "--keep-going", "-"], stream).expect(1);
    assert_eq!(place.json(&["--json", "log"]).len(), 2);
    place.feed(&["apply", "--batch", "100", "-"], &stream[..26]).expect(0);
    assert_eq!(place.json(&["--json", "log"]).len(), 3);
}

#[test]
fn an_export_applied_elsewhere_is_the_same_repository() {
    let place = Place::of(MORNING);
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    place.ok(&["import", text(&bundled("anthropic.json"))]);
    let export = place.ok(&["export"]);
    let copy = Place::new();
    copy.feed(&["apply", "-"], export.as_bytes()).expect(0);
    assert_eq!(copy.ok(&["export"]), export);
    copy.is_clean();
    for branch in ["main", "lyon", "workshop-cargo-bike"] {
        let compiled = |place: &Place| place.ok(&["compile", branch, "--to", "anthropic-params"]);
        assert_eq!(compiled(&copy), compiled(&place), "{branch}");
    }
    // A file gets its name when it is whole, and says the same.
    place.ok(&["export", "--output", "all.jsonl"]);
    assert_eq!(std::fs::read_to_string(place.path("all.jsonl")).unwrap(), export);
    assert!(!place.path("all.partial").exists());
}

#[test]
fn a_changed_line_of_an_export_is_refused() {
    let place = Place::of(MORNING);
    let export = place.ok(&["export"]).replace("coat in Paris", "coat in Praha");
    let copy = Place::new();
    let ran = copy.feed(&["apply", "--json", "-"], export.as_bytes()).expect(1);
    assert!(ran.lines().iter().any(|line| line["error"]["code"].is_string()));
}

#[test]
fn equal_streams_with_times_give_equal_ids() {
    assert_eq!(Place::of(MORNING).id("main"), Place::of(MORNING).id("main"));
    assert_eq!(Place::of(MORNING).id("morning"), Place::of(MORNING).id("main"));
}

/// Lets programs that this process starts end at SIGINT, even when SIGINT is ignored here, as under
/// `nohup`: what is ignored is inherited, but a signal that has a handler is reset for a new program.
/// An interrupt still ends this process.
#[cfg(unix)]
fn programs_end_at_sigint() {
    use tokio::signal::unix::{SignalKind, signal};

    static HANDLER: std::sync::Once = std::sync::Once::new();
    HANDLER.call_once(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let entered = runtime.enter();
        let mut interrupts = signal(SignalKind::interrupt()).expect("a handler");
        drop(entered);
        std::thread::spawn(move || {
            if runtime.block_on(interrupts.recv()).is_some() {
                std::process::exit(130);
            }
        });
    });
}

/// What was acknowledged is stored when the process is interrupted, and nothing is half-done.
#[cfg(unix)]
#[test]
fn interrupting_leaves_what_was_acknowledged() {
    use std::os::unix::process::ExitStatusExt;

    programs_end_at_sigint();
    let place = Place::new();
    let mut command = place.command(&["apply", "--json", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for n in 0..5 {
        writeln!(input, "{{\"op\":\"user\",\"text\":\"message {n}\"}}").expect("it is read");
        let answer = answers.next().expect("an answer").expect("a line");
        assert!(answer.contains("\"commit\""), "{answer}");
    }
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(kill.success());
    // Whoever ignores the signal ends here.
    drop(input);
    let status = child.wait().expect("it ends");
    // A shell says 130 for this.
    assert_eq!(status.signal(), Some(2), "{status:?}");
    assert_eq!(place.json(&["--json", "log"]).len(), 5);
    place.is_clean();
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let place = Place::of(MORNING);
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    let mut command = place.command(&["export"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
