//! Telemetry of the binary, received by a collector on loopback.

#[path = "../../../tract-otel/tests/receiver/mod.rs"]
mod receiver;

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tract::core::telemetry::names;
use tract_testkit::loopback::HttpEnd;

use self::receiver::{Received, ReceivedSpan, Receiver};
use crate::agents::{calls, says};
use crate::chat::{KEY, Server, event};
use crate::picture::Picture;
use crate::support::{RunOutput, Workspace};

/// An answer that tells its tokens.
fn answer(text: &str) -> String {
    let usage = json!({"choices": [], "usage": {
        "prompt_tokens": 90, "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }});
    let delta = json!({"role": "assistant", "content": text}).to_string();
    let events = event(&delta, "null") + &event("{}", "\"stop\"");
    format!("{events}data: {usage}\n\ndata: [DONE]\n\n")
}

/// A command whose telemetry goes to the collector.
fn command(place: &Workspace, receiver: &Receiver, arguments: &[&str]) -> Command {
    let mut command = crate::chat::command(place, arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url());
    // A busy machine is not a collector that hangs.
    command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "60000");
    command.env("XDG_CACHE_HOME", place.path("caches"));
    command
}

/// A run that reads a file and fails to read another one.
fn runs(place: &Workspace, receiver: &Receiver, environment: &[(&str, &str)]) -> Received {
    place.write("desk/notes.txt", "buy oat-milk\n");
    let server = Server::start(vec![
        calls("c1", "fs_read", &json!({"path": "notes.txt"})),
        calls("c2", "fs_read", &json!({"path": "absent.txt"})),
        answer("It says milk."),
    ]);
    let with = ["--model", "openai/some", "--base-url", &server.url, "--fs", "desk"];
    let set = ["--set", "temperature=0.5", "--set", "top_p=0.9", "--set", "max_tokens=64"];
    let task = ["run", "Read my-private-notes."];
    let mut command = command(place, receiver, &[&task[..], &with[..], &set[..]].concat());
    let ran = RunOutput::after(command.envs(environment.iter().copied()));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "It says milk.\n"), "{ran:?}");
    assert!(!ran.stderr.contains("telemetry"), "{ran:?}");
    server.requests();
    receiver.take()
}

#[test]
fn a_run_is_received_as_the_table_says_without_content_and_keys() {
    let (place, receiver) = (Workspace::new(), Receiver::start());
    let headers = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collector-key")];
    let received = runs(&place, &receiver, &headers);
    received.is_as_the_table_says(false);
    assert_eq!(received.resource.get("service.name").map(String::as_str), Some("tract"));
    for request in &received.requests {
        assert_eq!(request.header("authorization"), Some("Bearer collector-key"));
    }
    let command = received.one(names::COMMAND);
    assert_eq!((command.name.as_str(), command.get(names::EXIT_CODE)), ("tract run", Some("0")));
    let run = received.one(names::AGENT_RUN);
    assert_eq!(run.parent, command.id);
    let calls = received.named(names::MODEL_CALL);
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!((call.name.as_str(), &call.parent), ("chat some", &run.id));
        assert_eq!(call.get(names::PROVIDER), Some("openai"));
        assert_eq!(call.get(names::SERVER_ADDRESS), Some("127.0.0.1"));
        assert_eq!(call.get(names::REQUEST_MAX_TOKENS), Some("64"));
        assert!(call.get(names::TIME_TO_FIRST_CHUNK).is_some(), "it was streamed: {call:?}");
        // What is named can be read where the repository can.
        let commit = call.get(names::TRACT_COMMIT).expect("a commit");
        assert_eq!(place.id(commit), commit);
    }
    let last = calls.iter().find(|call| call.get(names::CACHE_READ_TOKENS) == Some("30"));
    assert_eq!(last.and_then(|call| call.get(names::INPUT_TOKENS)), Some("90"));
    let tools = received.named(names::TOOL);
    let outcome =
        |tool: &&&receiver::ReceivedSpan| tool.get(names::TRACT_OUTCOME) != Some("succeeded");
    assert_eq!((tools.len(), tools.iter().filter(outcome).count()), (2, 1), "{tools:?}");
    let read = received.metric("gen_ai.client.inference.usage.cache_read.input_tokens");
    assert_eq!(read.map(|metric| metric.points[0].1), Some(30));
    for hidden in
        [KEY, "collector-key", "my-private-notes", "oat-milk", "It says milk", "notes.txt"]
    {
        assert!(!received.contains(hidden), "{hidden}");
    }
    let trace = &command.trace;
    assert!(received.spans.iter().all(|span| span.trace == *trace), "one trace");
}

/// The columns of the names in the picture of a trace, and of the bars next to them.
const TRACE_COLUMNS: (f64, f64) = (27.0, 56.0);

#[test]
fn the_picture_is_the_trace_of_a_run() {
    let (place, receiver) = (Workspace::new(), Receiver::start());
    let received = runs(&place, &receiver, &[]);
    let mut rows = Vec::new();
    rows_of_trace(&received, "", 0, &mut rows);
    let (start, end) = rows[0].1.time_ns;
    let mut picture = Picture::new("The spans of `tract run`", 94, rows.len());
    for (row, (depth, span)) in rows.iter().enumerate() {
        picture.text(row, (2 * depth) as f64, &span.name, "");
        let (first, columns) = TRACE_COLUMNS;
        let at = |time: u64| {
            first + (time.saturating_sub(start)) as f64 / (end - start) as f64 * columns
        };
        let bar = (at(span.time_ns.0), at(span.time_ns.1));
        let color = match span.name.split([' ', '.']).next() {
            _ if span.get(names::TRACT_OUTCOME) == Some("failed") => "#ff7b72",
            Some("chat") => "#79c0ff",
            Some("execute_tool") => "#7ee787",
            Some("invoke_agent") => "#d2a8ff",
            _ => "#8b949e",
        };
        picture.bar(row, bar, color);
        let took = (span.time_ns.1 - span.time_ns.0) as f64 / 1e6;
        picture.text(row, first + columns + 1.0, &format!("{took:6.1} ms"), "");
    }
    // Times differ from run to run; names, order and depth do not.
    let names = |svg: &str| -> Vec<String> {
        let texts = svg.lines().filter(|line| line.starts_with("<text") && !line.contains(" ms<"));
        texts.map(str::to_owned).collect()
    };
    crate::pages::shows_but("images/trace.svg", &picture.end(), |svg| names(svg).join("\n"));
}

/// A span and those below it, in the order in which they began.
fn rows_of_trace<'a>(
    received: &'a Received,
    parent: &str,
    depth: usize,
    rows: &mut Vec<(usize, &'a ReceivedSpan)>,
) {
    let mut below: Vec<&ReceivedSpan> =
        received.spans.iter().filter(|span| span.parent == parent).collect();
    below.sort_by_key(|span| span.time_ns);
    for span in below {
        rows.push((depth, span));
        rows_of_trace(received, &span.id, depth + 1, rows);
    }
}

#[test]
fn a_run_has_content_when_the_variable_asks_for_it_and_keys_never() {
    let (place, receiver) = (Workspace::new(), Receiver::start());
    let received = runs(&place, &receiver, &[(names::CONTENT_VARIABLE, "SPAN_ONLY")]);
    received.is_as_the_table_says(true);
    for shown in ["my-private-notes", "oat-milk", "It says milk", "notes.txt"] {
        assert!(received.contains(shown), "{shown}");
    }
    assert!(!received.contains(KEY));
    let unseen = received.attributes_not_seen(&[names::MODEL_CALL, names::TOOL]);
    assert_eq!(unseen, ["chat: error.type"], "no request failed");
}

#[test]
fn apply_and_compile_are_one_trace_each_under_their_caller() {
    let (place, receiver) = (Workspace::new(), Receiver::start());
    let stream = "{\"op\":\"commit\",\"kind\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"hello-there\"}]}\n";
    place.write("stream.jsonl", stream);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    for (arguments, spans) in [
        (&["apply", "stream.jsonl"][..], [names::COMMAND, names::STORE_WRITE]),
        (&["compile", "--to", "openai-params"], [names::COMMAND, names::COMPILE]),
    ] {
        let mut command = command(&place, &receiver, arguments);
        let service = "OTEL_RESOURCE_ATTRIBUTES";
        command.env("TRACEPARENT", &parent).env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
        command.env(service, "service.name=ci,deployment.environment.name=test");
        let ran = RunOutput::after(&mut command);
        assert!(ran.code == Some(0) && !ran.stderr.contains("telemetry"), "{ran:?}");
        let received = receiver.take();
        received.is_as_the_table_says(false);
        assert!(received.spans.iter().all(|span| span.trace == trace), "{received:?}");
        for name in spans {
            assert!(!received.named(name).is_empty(), "no {name}: {received:?}");
        }
        let command = received.one(names::COMMAND);
        assert_eq!(command.parent, "b7ad6b7169203331");
        let resource = &received.resource;
        assert_eq!(resource.get("service.name").map(String::as_str), Some("ci"));
        assert_eq!(resource.get("deployment.environment.name").map(String::as_str), Some("test"));
        assert!(!received.contains("hello-there"));
    }
}

#[test]
fn a_failing_command_has_its_exit_code_and_error_in_its_span() {
    let (place, receiver) = (Workspace::empty(), Receiver::start());
    RunOutput::after(&mut command(&place, &receiver, &["log"])).expect(3);
    let received = receiver.take();
    received.is_as_the_table_says(false);
    let command = received.one(names::COMMAND);
    assert!(command.failed);
    assert_eq!(command.get(names::EXIT_CODE), Some("3"));
    assert_eq!(command.get(names::ERROR_TYPE), Some("no_store"));
}

#[test]
fn a_collector_that_fails_is_reported_once_and_changes_nothing_else() {
    let place = Workspace::new();
    let refuses = Receiver::refusing(503, "over\u{1b}[2Jloaded");
    let hangs = Receiver::ending(HttpEnd::Silent);
    let vanishes = Receiver::ending(HttpEnd::Dropped);
    for (url, timeout, says) in [
        ("http://127.0.0.1:9".to_owned(), "5000", "127.0.0.1:9: "),
        (refuses.url(), "5000", "status 503: over[2Jloaded"),
        (hangs.url(), "300", "no answer within 300ms"),
        (vanishes.url(), "5000", "telemetry was not exported to http://127.0.0.1:"),
    ] {
        let mut command = place.command(&["commit", "user", "Hello", "--json"]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).env("OTEL_EXPORTER_OTLP_TIMEOUT", timeout);
        command.env("XDG_CACHE_HOME", place.path("caches"));
        let ran = RunOutput::after(&mut command);
        assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "once: {ran:?}");
        assert!(ran.stderr.contains(says), "{says}: {ran:?}");
    }
    assert_eq!(place.json(&["log", "--json"]).len(), 4, "each command did its work");
}

#[test]
fn a_collector_that_hangs_is_waited_for_once_a_minute() {
    let place = Workspace::new();
    let hangs = Receiver::ending(HttpEnd::Silent);
    let log = || {
        let mut command = place.command(&["commit", "user", "Hello"]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", hangs.url());
        command.env("XDG_CACHE_HOME", place.path("caches"));
        RunOutput::after(&mut command).expect(0).stderr
    };
    let says = "no answer within 200ms; commands do not wait for it for 60 s";
    assert!(log().contains(says));
    assert_eq!(log(), "");
    let mut files = std::fs::read_dir(place.path("caches/tract")).expect("a folder");
    let file = files.next().expect("a file").expect("an entry").path();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(61);
    let opened = std::fs::File::options().write(true).open(file).expect("it opens");
    opened.set_modified(long_ago).expect("its time is set");
    assert!(log().contains(says));
}

#[test]
fn a_variable_that_cannot_be_used_turns_telemetry_off_and_says_so() {
    let (place, receiver) = (Workspace::new(), Receiver::start());
    for (name, value, says) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "unsupported protocol \"grpc\""),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "user:hunter2@host", "expected a URL"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli", "gzip or none"),
    ] {
        let ran =
            RunOutput::after(command(&place, &receiver, &["stats"]).env(name, value)).expect(0);
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(ran.stderr.contains("telemetry is off: ") && ran.stderr.contains(says), "{ran:?}");
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    }
    let mut disabled = command(&place, &receiver, &["stats"]);
    let ran = RunOutput::after(disabled.env("OTEL_SDK_DISABLED", "true"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    // Without any variable it is off.
    place.ok(&["status"]);
    assert!(receiver.take().requests.is_empty());
}

#[test]
fn the_log_is_the_same_with_and_without_telemetry() {
    let receiver = Receiver::start();
    let mut logs = Vec::new();
    for observed in [false, true] {
        let place = Workspace::new();
        place.write("desk/notes.txt", "buy milk\n");
        let read = calls("c1", "fs_read", &json!({"path": "notes.txt"}));
        let server = Server::start(vec![read, says("Well.")]);
        let with = ["--model", "openai/some", "--base-url", &server.url, "--plan", "none"];
        let arguments = [&["run", "Read it.", "--fs", "desk", "-vv", "--json"], &with[..]].concat();
        let mut command = command(&place, &receiver, &arguments);
        if !observed {
            command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        }
        let ran = RunOutput::after(&mut command).expect(0);
        // Without the time at its start.
        let line = ran.stderr.lines().find(|line| line.contains("call_id=")).expect("a call");
        logs.push(line.split_once(' ').expect("a time").1.to_owned());
        server.requests();
    }
    assert_eq!(logs[0], logs[1]);
    assert!(logs[1].trim_start().starts_with("DEBUG tract::dispatch: "), "{logs:?}");
    assert!(!receiver.take().spans.is_empty());
}
