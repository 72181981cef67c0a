//! `chat` and `generate` against a server on loopback.

use std::io::Read as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use tract_testkit::loopback::{HttpAnswer, HttpEnd, HttpRequest, Loopback};

use crate::support::{RunOutput, Workspace, each, list, signal};

pub(crate) const KEY: &str = "sk-cli-0123456789";

pub(crate) fn event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"r1\",\"model\":\"m-1\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn hello() -> String {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
    let (first, last) = (
        event(r#"{"role":"assistant","content":"Hel"}"#, "null"),
        event(r#"{"content":"lo"}"#, "\"stop\""),
    );
    first + &last + usage
}

/// An error document, as a server of this API answers a request that it refuses.
fn refusal(status: u16) -> HttpAnswer {
    let body = r#"{"error":{"message":"not now","type":"server_error"}}"#;
    HttpAnswer::new(status, "application/json", body)
}

/// A reply of a model, whole or in events.
fn reply(text: String) -> HttpAnswer {
    let kind = if text.starts_with('{') { "application/json" } else { "text/event-stream" };
    HttpAnswer::new(200, kind, text)
}

/// A model that gives one answer after the other, to those who send the key.
pub(crate) struct Server {
    pub(crate) url: String,
    loopback: Loopback,
}

impl Server {
    pub(crate) fn start(replies: Vec<String>) -> Self {
        Self::answering(replies.into_iter().map(reply))
    }

    fn answering(answers: impl IntoIterator<Item = HttpAnswer>) -> Self {
        let loopback = Loopback::answering(answers).expect("a port");
        Self { url: loopback.url("/v1"), loopback }
    }

    /// Runs a command with its model.
    pub(crate) fn run(&self, place: &Workspace, arguments: &[&str]) -> RunOutput {
        let model = ["--model", "openai/some", "--base-url", &self.url];
        run(place, &[arguments, &model].concat())
    }

    /// Returns the bodies that were asked; each answer was given.
    pub(crate) fn requests(&self) -> Vec<Value> {
        assert_eq!(self.loopback.answers_left(), 0, "answers that were not asked for");
        self.loopback.take_requests().iter().map(body).collect()
    }
}

fn body(request: &HttpRequest) -> Value {
    let bearer = format!("Bearer {KEY}");
    let is_authorized = request.header("authorization") == Some(&bearer)
        || request.header("x-goog-api-key") == Some(KEY);
    assert!(is_authorized, "the key of the environment is sent");
    serde_json::from_str(&request.body).expect("it is JSON")
}

/// A command that has the key, and nothing else of a model from the environment.
pub(crate) fn command(place: &Workspace, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    command.env("OPENAI_API_KEY", KEY).env_remove("OPENAI_BASE_URL").env_remove("TRACT_MODEL");
    command.stdin(Stdio::null());
    command
}

pub(crate) fn run(place: &Workspace, arguments: &[&str]) -> RunOutput {
    RunOutput::after(&mut command(place, arguments))
}

/// A streamed answer of Gemini's, whose parts and end are given.
fn gemini_says(parts: &str) -> String {
    format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":{parts},\"role\":\"model\"}},\"finishReason\":\"STOP\"}}],\"usageMetadata\":{{\"promptTokenCount\":9,\"candidatesTokenCount\":2}},\"modelVersion\":\"g-1\"}}\r\n\r\n"
    )
}

#[test]
fn all_answers_to_one_request_are_kept() {
    let choices = r#"[{"index":0,"message":{"role":"assistant","content":"Tea."},"finish_reason":"stop"},
        {"index":1,"message":{"role":"assistant","content":"Coffee."},"finish_reason":"stop"}]"#;
    let answer = format!(r#"{{"id":"r1","model":"m-1","choices":{choices}}}"#);
    let server = Server::start(vec![answer.clone(), answer]);
    let place = Workspace::new();
    let output = server.run(&place, &["chat", "Tea or coffee?", "--no-stream"]);
    assert!(output.stderr.contains("1 more answer is in its metadata"), "{}", output.stderr);
    let head = &place.json(&["--json", "log", "-n", "1"])[0];
    assert!(place.ok(&["show", "HEAD"]).contains("Coffee."), "{head}");
    let messages = place.ok(&["cat"]);
    assert!(messages.contains("Tea.") && !messages.contains("Coffee."), "{messages}");
    let output = server.run(&place, &["chat", "Again?", "--no-stream", "--json"]).expect(0).lines();
    let others = &output[output.len() - 1]["other_choices"];
    assert_eq!(others[0]["message"]["content"], "Coffee.", "{output:?}");
}

#[test]
fn gemini_is_asked_run_and_compiled_for() {
    let place = Workspace::new();
    let call = r#"[{"text":"Hm.","thought":true},{"functionCall":{"name":"fs_read","args":{"path":"a.txt"}},"thoughtSignature":"EjQKMgG+Zv8="}]"#;
    let answers = vec![gemini_says(call), gemini_says(r#"[{"text":"All seen."}]"#)];
    let server = Server::start(answers);
    place.write("work/a.txt", "hello");
    let base = server.url.trim_end_matches("/v1");
    let look = ["run", "Look.", "--model", "gemini/g-1", "--base-url", base, "--fs", "work"];
    let ran = place.run_with("GEMINI_API_KEY", KEY, &look).expect(0);
    assert!(ran.stdout.contains("All seen."), "{ran:?}");
    let requests = server.requests();
    assert_eq!(requests[0]["contents"][0]["parts"][0]["text"], "Look.");
    assert!(
        requests[0].get("model").is_none() && requests[0].get("stream").is_none(),
        "{}",
        requests[0]
    );
    let declared = requests[0]["tools"][0]["functionDeclarations"].as_array().expect("tools");
    assert!(declared.iter().any(|tool| tool["name"] == "fs_read"), "{declared:?}");
    // The model's turn goes back as it came, thought and signature with it.
    let parts: Value = serde_json::from_str(call).expect("JSON");
    assert_eq!(requests[1]["contents"][1]["parts"], parts);
    assert!(requests[1]["contents"][2]["parts"][0].get("functionResponse").is_some());

    let compiled = place.run(&["compile", "--to", "gemini-params"]).expect(0);
    assert_eq!(compiled.lines()[0]["contents"][1], requests[1]["contents"][1]);
    place.write("g.json", &compiled.stdout);
    place.ok(&["import", "--format", "gemini", "g.json"]);
    place.ok(&["verify"]);
}

#[test]
fn a_question_and_its_answer_are_commits() {
    let place = Workspace::new();
    let server = Server::start(vec![hello(), hello()]);
    let ran = server.run(&place, &["chat", "Hi", "--set", "temperature=0.5"]).expect(0);
    assert_eq!(ran.stdout, "Hello\n");
    assert!(ran.stderr.contains("m-1") && ran.stderr.contains("9 + 2 tokens"), "{ran:?}");

    let lines = server.run(&place, &["generate", "--json"]).expect(0).lines();
    assert_eq!(lines[0], serde_json::json!({"piece": "text", "text": "Hel"}));
    let answer = lines.last().expect("the answer");
    assert_eq!(answer["text"], "Hello");
    assert_eq!(answer["usage"]["output_tokens"], 2);
    assert_eq!(answer["stop_reason"], "end_turn");

    let requests = server.requests();
    assert_eq!(requests[0]["temperature"], 0.5);
    assert_eq!(requests[0]["messages"], serde_json::json!([{"role": "user", "content": "Hi"}]));
    assert_eq!(requests[1]["messages"].as_array().map(Vec::len), Some(2));
    let log = place.json(&["log", "--json"]);
    assert_eq!(log.len(), 3);
    assert_eq!(log[0]["commit"], answer["commit"]);
    assert_eq!(log[0]["metadata"]["stop_reason"], "end_turn");
    place.ok(&["verify"]);
    // One undo for each command: the answer, then the question with its answer.
    place.ok(&["undo"]);
    assert_eq!(place.json(&["log", "--json"]).len(), 2);
    place.ok(&["undo"]);
    assert_eq!(place.json(&["log", "--json"]).len(), 0);
    let store = std::fs::read(place.store()).expect("the store");
    let has_key = store.windows(KEY.len()).any(|window| window == KEY.as_bytes());
    assert!(!has_key, "the key is in the store");
}

#[test]
fn an_interrupted_answer_is_in_the_log_and_in_no_context() {
    let place = Workspace::new();
    let begun = event(r#"{"role":"assistant","content":"Hel"}"#, "null");
    let server = Server::answering([reply(begun).end(HttpEnd::Hanging)]);
    let chat = ["chat", "Hi", "--model", "openai/some", "--base-url", &server.url];
    let mut command = command(&place, &chat);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut shown = [0; 3];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut shown).expect("the first piece");
    assert_eq!(&shown, b"Hel", "shown as it comes");
    signal(child.id(), "-INT");
    let ran = RunOutput::of(child.wait_with_output().expect("it ends")).expect(130);
    assert!(ran.stderr.contains("error[broken_off]"), "{ran:?}");
    server.requests();
    let log = place.json(&["log", "--json"]);
    assert_eq!(log.len(), 2, "the question, and a note of what came");
    assert_eq!(log[0]["op"]["name"], "note");
    let compiled = place.json(&["compile", "--to", "openai"]);
    assert_eq!(compiled[0].as_array().map(Vec::len), Some(1), "the question alone");
    place.ok(&["verify"]);
}

#[test]
fn an_unusable_model_or_question_is_reported() {
    let place = Workspace::new();
    place.refused(&["generate", "--model", "gpt"], 2, "usage", "expected provider/model");
    place.refused(&["generate", "--model", "opnai/x"], 2, "usage", "did you mean");
    let nowhere = ["--model", "openai/x", "--base-url", "http://127.0.0.1:9/v1"];
    place.refused(&[&["generate"], &nowhere[..]].concat(), 1, "invalid", "no message to answer");
}

#[test]
fn a_question_that_failed_is_asked_again_and_recorded_once() {
    for verb in ["chat", "run"] {
        let place = Workspace::new();
        let plan: &[&str] = if verb == "run" { &["--plan", "none"] } else { &[] };
        let ask = |url: &str, more: &[&str]| {
            let with = [verb, "Is it raining?", "--model", "openai/some", "--base-url", url];
            run(&place, &[&with[..], plan, more].concat())
        };
        // Unreachable, refused for the key, refused for a parameter: three failures in a row.
        ask("http://127.0.0.1:9/v1", &[]).expect(1);
        let server = Server::answering([refusal(401), refusal(400), reply(hello())]);
        ask(&server.url, &[]).expect(1);
        ask(&server.url, &["--set", "bogus=1"]).expect(1);
        ask(&server.url, &[]).expect(0);

        let requests = server.requests();
        let last = requests.last().expect("a request");
        let question = serde_json::json!({"role": "user", "content": "Is it raining?"});
        let texts = list(&last["messages"]).iter().filter(|message| message["role"] == "user");
        let texts: Vec<&Value> = texts.collect();
        assert_eq!(texts, [&question], "{verb}: sent once");
        assert_eq!(last["bogus"], Value::Null, "{verb}: a parameter of the failed request");
        let context = place.json(&["compile", "--to", "openai"]);
        let mut roles = each(list(&context[0]), "role");
        roles.retain(|role| *role != "system");
        assert_eq!(roles, ["user", "assistant"], "{verb}");

        // The same words after an answer are a new question.
        let server = Server::start(vec![hello()]);
        ask(&server.url, &[]).expect(0);
        let requests = server.requests();
        let count = list(&requests[0]["messages"]).iter();
        assert_eq!(count.filter(|message| **message == question).count(), 2, "{verb}");
        place.is_clean();
    }
}

#[test]
fn an_empty_question_is_refused_before_anything_is_recorded() {
    let place = Workspace::new();
    let with = ["--model", "openai/x", "--base-url", "http://127.0.0.1:9/v1"];
    for (arguments, stdin) in [
        (vec!["chat"], &b""[..]),
        (vec!["chat", "-"], b"\n"),
        (vec!["chat", "  "], b""),
        (vec!["run", ""], b""),
    ] {
        let arguments = [&arguments[..], &with[..]].concat();
        place.refused_with(&arguments, stdin, 2, "usage", "the text is empty");
    }
    assert!(place.json(&["log", "--json"]).is_empty());
}
