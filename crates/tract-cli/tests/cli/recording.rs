//! `tract record`: a client behind the proxy, its variables, its exit code, and what is reported.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use tract_testkit::loopback::{HttpAnswer, Loopback};

use crate::support::{RunOutput, Workspace, needs, signal};

/// A client in the words of a shell: it asks once at the base url of a variable.
const CLIENT: &str = r#"exec 3<>/dev/tcp/HOST"#;

pub(crate) const ANSWER: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-test",
    "content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn",
    "usage":{"input_tokens":3,"output_tokens":2}}"#;

fn server() -> Loopback {
    let answer = HttpAnswer::new(200, "application/json", ANSWER);
    Loopback::answering([answer]).expect("a port")
}

/// A command that asks the server of a variable with bash, as there is no other client everywhere.
pub(crate) fn asks(variable: &str, exit: u8) -> String {
    let body =
        r#"{"model":"claude-test","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#;
    let connect = CLIENT.replace("HOST", "${host/://}");
    format!(
        "url=${{{variable}#http://}}; host=${{url%%/*}}; path=/${{url#*/}}; {connect}; \
         printf 'POST %s/v1/messages HTTP/1.1\\r\\nhost: x\\r\\nx-api-key: k\\r\\n\
         x-session-id: s\\r\\nconnection: close\\r\\ncontent-length: {length}\\r\\n\\r\\n%s' \
         \"$path\" '{body}' >&3; cat <&3 >answer; exit {exit}",
        length = body.len(),
    )
}

#[test]
fn a_command_is_recorded_and_its_exit_code_is_the_answer() {
    let (place, server) = (Workspace::new(), server());
    let base = "ANTHROPIC_BASE_URL";
    let record = ["record", "--", "bash", "-c", &asks(base, 7)];
    let stderr = place.run_with(base, server.url(""), &record).expect(7).stderr;
    assert!(stderr.contains("recorded 1 of 1 exchange"), "{stderr}");
    assert!(stderr.contains("record/s"), "{stderr}");
    let answer = place.read("answer");
    assert!(answer.contains(ANSWER), "{answer}");
    let sent = server.take_requests();
    assert_eq!(sent[0].path, "/v1/messages");
    assert_eq!(sent[0].header("x-api-key"), Some("k"));
    let text = place.ok(&["cat", "record/s"]);
    assert!(text.contains("Hi") && text.contains("Hello."), "{text}");
    place.ok(&["verify"]);
}

#[test]
fn a_report_in_json_is_the_last_line() {
    let (place, server) = (Workspace::new(), server());
    let script = asks("OPENAI_BASE_URL", 0).replace("/v1/messages", "/models");
    let record = ["record", "--json", "--", "bash", "-c", &script];
    let ran = place.run_with("OPENAI_BASE_URL", server.url("/v1"), &record);
    let report = ran.lines().pop().expect("a line");
    assert_eq!(report["recorded"], 0);
    assert_eq!(report["not_recorded"]["not_a_turn"], 1, "{report}");
    assert_eq!(server.take_requests()[0].path, "/v1/models");
}

#[test]
fn a_missing_exchange_is_reported_by_status() {
    let (place, server) = (Workspace::new(), server());
    let script = asks("OPENAI_BASE_URL", 0).replace("/v1/messages", "/v1/completions");
    let record = ["record", "--", "bash", "-c", &script];
    let ran = place.run_with("OPENAI_BASE_URL", server.url("/v1"), &record);
    let why = "not recorded: 1 exchange, the request is in no known dialect";
    assert!(ran.stderr.contains(why), "{ran:?}");
    let ran = place.run(&["status"]).expect(0);
    assert!(ran.stderr.contains("the last recording lacks 1 exchange"), "{}", ran.stderr);
    assert_eq!(place.json(&["status", "--json"])[0]["not_recorded"], 1);
}

#[test]
fn a_service_is_recorded_until_it_is_terminated() {
    let (place, server) = (Workspace::new(), server());
    let arguments = ["record", "--json", "--listen", "127.0.0.1:0", "--upstream", &server.url("")];
    let mut command = place.command(&arguments);
    command.env("TRACT_RECORD_SECRET", "a-secret-that-stays").stdout(Stdio::piped());
    let mut proxy = command.spawn().expect("it starts");
    let mut lines = BufReader::new(proxy.stdout.take().expect("a pipe")).lines();
    let first: Value =
        serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON");
    let url = first["url"].as_str().expect("a url");
    assert!(url.ends_with("/a-secret-that-stays"), "{url}");
    let mut client = std::process::Command::new("bash");
    client.current_dir(place.path("")).env("BASE", url).args(["-c", &asks("BASE", 0)]);
    assert!(client.status().expect("bash").success());
    signal(proxy.id(), "-TERM");
    let last = lines.map(|line| line.expect("text")).last().expect("a report");
    let report: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(report["recorded"], 1, "{report}");
    assert_eq!(report["branches"][0]["branch"], "record/s");
    assert!(proxy.wait().expect("it ends").success());
}

#[test]
fn a_wrong_command_line_is_refused_before_anything_runs() {
    let place = Workspace::new();
    let check = |arguments: &[&str], code: i32, says: &str| {
        let ran = place.run(arguments).expect(code);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    };
    check(&["record"], 2, "COMMAND");
    check(&["record", "--", "no-such-program-here"], 2, "cannot run");
    check(&["record", "--listen", "127.0.0.1:0"], 2, "--upstream");
    check(&["record", "--upstream", "ftp://x"], 2, "neither http nor https");
    check(&["record", "--listen", "0.0.0.0:0", "--upstream", "http://x"], 1, "--allow-remote");
    check(&["record", "--secret", "short", "--upstream", "http://x"], 2, "16 or more");
    check(&["--store", "sqlite:/dev/null/x.db", "record", "--", "true"], 3, "");
}

/// A real model behind the proxy, asked twice by `tract chat`, where one was started: see
/// `docs/models.md`.
#[test]
fn a_real_model_is_recorded_as_its_client_got_it() {
    let Some(url) = needs("TRACT_MODEL_URL", "a real model; see docs/models.md") else { return };
    let (place, client) = (Workspace::new(), Workspace::new());
    let tract = env!("CARGO_BIN_EXE_tract");
    let ask = |question: &str, more: &str| {
        format!(
            "{tract} chat '{question}' --model openai/local --set max_tokens=24 --set temperature=0 {more}"
        )
    };
    let script = format!(
        "cd '{}' && {} && {}",
        client.path("").display(),
        ask("What is the capital of France?", ""),
        ask("And of Italy?", "--no-stream")
    );
    let mut command = place.command(&["record", "--json", "--", "bash", "-c", &script]);
    command.env("OPENAI_BASE_URL", url).env("OPENAI_API_KEY", "a-key-that-is-not-kept");
    let ran = RunOutput::after(&mut command).expect(0);
    // The command's own output, which is the answers of the model, comes before the report.
    let report: Value =
        serde_json::from_str(ran.stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!(report["recorded"], 2, "{ran:?}");
    let branches = report["branches"].as_array().expect("branches");
    assert_eq!(branches.len(), 1, "both turns are one conversation: {report}");
    let branch = branches[0]["branch"].as_str().expect("a name");
    let recorded = place.messages(branch, "openai-params");
    println!("{recorded:?}");
    assert_eq!(recorded.len(), 4, "{recorded:?}");
    let got = client.messages("main", "openai-params");
    assert_eq!(recorded, got, "the proxy and its client say the same");
    place.ok(&["verify"]);
}

/// Sends bodies one after the other through the proxy.
fn record_bodies(
    place: &Workspace,
    flags: &[&str],
    bodies: &[&[u8]],
    answers: Vec<HttpAnswer>,
) -> RunOutput {
    let server = Loopback::answering(answers).expect("a port");
    let mut script =
        String::from("url=${ANTHROPIC_BASE_URL#http://}; host=${url%%/*}; path=/${url#*/}; ");
    for (n, body) in bodies.iter().enumerate() {
        place.write(&format!("body-{n}"), body);
        script += &format!(
            "exec 3<>/dev/tcp/${{host/://}}; printf 'POST %s/v1/messages HTTP/1.1\\r\\nhost: x\\r\\n\
             x-session-id: s\\r\\nconnection: close\\r\\ncontent-length: {}\\r\\n\\r\\n' \"$path\" >&3; \
             cat body-{n} >&3; cat <&3 >/dev/null; ",
            body.len(),
        );
    }
    let arguments = [&["record"], flags, &["--", "bash", "-c", &script]].concat();
    place.run_with("ANTHROPIC_BASE_URL", server.url(""), &arguments).expect(0)
}

#[test]
fn damaged_text_of_an_exchange_is_kept_and_reported_once() {
    let place = Workspace::new();
    let first =
        br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"tree \ud83c"}]}"#;
    let answer = br#"{"id":"msg_1","type":"message","role":"assistant","model":"m",
        "content":[{"type":"text","text":"caf~?"}],"stop_reason":"end_turn",
        "usage":{"input_tokens":3,"output_tokens":2}}"#;
    // A byte that is not UTF-8, in the place of a mark.
    let answer: Vec<u8> =
        answer.iter().map(|byte| if *byte == b'~' { 0xff } else { *byte }).collect();
    // The second request repeats the first one, as clients do.
    let second = "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"tree \\ud83c\"},\
                  {\"role\":\"assistant\",\"content\":\"caf\u{fffd}?\"},{\"role\":\"user\",\"content\":\"Well?\"}]}";
    let answers = vec![
        HttpAnswer::new(200, "application/json", answer),
        HttpAnswer::new(200, "application/json", ANSWER),
    ];
    let report = record_bodies(&place, &["--json"], &[first, second.as_bytes()], answers)
        .lines()
        .pop()
        .expect("a report");
    assert_eq!(report["recorded"], 2, "{report}");
    assert_eq!(report["anomalies"], serde_json::json!({"replaced_text": 2}), "{report}");
    let whats: Vec<&str> = report["listed"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|anomaly| {
            assert_eq!(
                (anomaly["branch"].as_str(), anomaly["kind"].as_str()),
                (Some("record/s"), Some("replaced_text"))
            );
            anomaly["what"].as_str().expect("words")
        })
        .collect();
    assert_eq!(whats[0], "request messages[0].content: an unpaired surrogate was replaced");
    assert!(whats[1].starts_with("response content[0].text: "), "{whats:?}");
    let texts: Vec<Value> = place.json(&["cat", "record/s", "--json"]);
    let texts: Vec<&str> =
        texts.iter().map(|line| line["text"].as_str().expect("a text")).collect();
    assert_eq!(texts, ["tree \u{fffd}", "caf\u{fffd}?", "Well?", "Hello."]);
}

#[test]
fn an_emoji_that_a_stream_splits_is_whole_and_half_of_one_is_reported() {
    let event = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
    let delta = |text: &str| {
        event(
            "content_block_delta",
            &format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
            ),
        )
    };
    let stream = |pieces: &[&str]| {
        let start = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}"#;
        let block =
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#;
        event("message_start", start)
            + &event("content_block_start", block)
            + &pieces.iter().map(|piece| delta(piece)).collect::<String>()
            + &event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#)
            + &event("message_delta", end)
            + &event("message_stop", r#"{"type":"message_stop"}"#)
    };
    let body = br#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]}"#;
    for (pieces, text, count) in [
        (["a \\ud83c", "\\udf33 tree"], "a \u{1f333} tree", None),
        (["a \\ud83c", " tree"], "a \u{fffd} tree", Some(1)),
    ] {
        let place = Workspace::new();
        let answer = HttpAnswer::new(200, "text/event-stream", stream(&pieces));
        let report = record_bodies(&place, &["--json"], &[body], vec![answer])
            .lines()
            .pop()
            .expect("a report");
        assert_eq!(report["anomalies"]["replaced_text"].as_u64(), count, "{report}");
        let lines = place.json(&["cat", "record/s", "--json"]);
        assert_eq!(lines[1]["text"], text);
    }
}

#[test]
fn people_read_what_was_replaced() {
    let place = Workspace::new();
    let body = br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\ud83c!"}]}"#;
    let answer = HttpAnswer::new(200, "application/json", ANSWER);
    let ran = record_bodies(&place, &[], &[body], vec![answer]);
    assert!(ran.stderr.contains("unusual: 1 replaced_text"), "{}", ran.stderr);
    assert!(ran.stderr.contains("record/s: request messages[0].content: "), "{}", ran.stderr);
}
