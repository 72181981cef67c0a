//! The log on stderr: off by default, `-v` and `TRACT_LOG` turn it on.

use serde_json::json;

use crate::agents::{calls, mcp_server, says};
use crate::chat::{KEY, Server, command};
use crate::support::{RunOutput, Workspace};

/// What a server does whose tool fails with an error that contains a password and steers a
/// terminal.
const FAILS: &str = r#"answer '"error":{"code":-32000,"message":"cannot open postgres://me:hunter2@db/agents \\u001b[2Jdisk"}'"#;

/// Lets a model call the failing tool and returns what ran and what the model read of it.
fn fails(place: &Workspace, flags: &[&str], log: Option<&str>) -> (RunOutput, String) {
    place.write("server.sh", mcp_server(FAILS));
    place.write("tool.json", r#"{"name":"echo","inputSchema":{"type":"object"}}"#);
    let server = Server::start(vec![calls("call-7", "echo", &json!({})), says("Well.")]);
    let with = ["--model", "openai/some", "--base-url", &server.url, "--plan", "none"];
    let how = ["run", "Echo it.", "--approve", "none", "--mcp", "sh server.sh", "--json"];
    let mut command = command(place, &[&how[..], &with[..], flags].concat());
    command.envs(log.map(|log| ("TRACT_LOG", log)));
    let ran = RunOutput::after(&mut command).expect(0);
    let requests = server.requests();
    let read = requests[1]["messages"].as_array().expect("messages").last().expect("one").clone();
    (ran, read["content"].as_str().expect("a text").to_owned())
}

#[test]
fn a_failing_tools_original_error_is_logged_with_its_name_and_call() {
    let (quiet, read) = fails(&Workspace::new(), &[], None);
    assert!(!quiet.stderr.contains("tract::dispatch"), "{quiet:?}");
    for (flags, log) in [
        (&["-v"][..], None),
        (&["-vv"], None),
        (&[], Some("warn")),
        (&["--log", "tract::dispatch=warn"], Some("off")),
    ] {
        let (ran, same) = fails(&Workspace::new(), flags, log);
        let warns: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("WARN")).collect();
        assert_eq!(warns.len(), 1, "{ran:?}");
        let line = warns[0];
        for part in ["tract::dispatch", "tool=\"echo\"", "call_id=\"call-7\"", "cannot open"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(line.contains("postgres://me:…@db/agents"), "{line}");
        assert!(!ran.stderr.contains("hunter2") && !ran.stderr.contains(KEY), "{}", ran.stderr);
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!ran.stderr.contains(steers), "{:?}", ran.stderr);
        assert_eq!(same, read, "the model reads the same");
        ran.lines();
    }
}

#[test]
fn calls_that_succeed_are_logged_from_debug_on() {
    let place = Workspace::new();
    place.write("desk/notes.txt", "buy milk\n");
    for (flag, lines) in [("-v", 0), ("-vv", 1)] {
        let read = calls("c1", "fs_read", &json!({"path": "notes.txt"}));
        let server = Server::start(vec![read, says("Well.")]);
        let task = ["run", "Read it.", "--fs", "desk", "--plan", "none", flag, "--json"];
        let ran = server.run(&place, &task).expect(0);
        let logged = ran.stderr.lines().filter(|line| line.contains("call_id=\"c1\"")).count();
        assert_eq!(logged, lines, "{ran:?}");
        server.requests();
    }
}

#[test]
fn a_filter_that_cannot_be_read_is_a_wrong_command_line() {
    let place = Workspace::new();
    for (filter, says) in [("loud", "loud"), ("tract::run=", "tract::run="), ("a=b=c", "a=b=c")] {
        let ran = place.run(&["status", "--log", filter]).expect(2);
        assert!(ran.stderr.contains(says) && ran.stderr.contains("LEVEL"), "{ran:?}");
        place.run_with("TRACT_LOG", filter, &["status"]).expect(2);
    }
    place.ok(&["status", "--log", "off, hyper=error,"]);
}
