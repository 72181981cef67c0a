use crate::support::{Answer, Bench, anthropic_request, stream};
use tract_core::RefName;

const SESSION: &str = "x-claude-code-session-id";

fn says(kind: &str, text: &str) -> (String, String) {
    (kind.to_owned(), text.to_owned())
}

async fn ask(bench: &Bench, session: &str, texts: &[&str]) {
    let body = anthropic_request(texts);
    let got = bench.record("/v1/messages", &[(SESSION, session)], &body).await;
    assert_eq!(got.start, "HTTP/1.1 200 OK");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_continues_its_conversation() {
    let bench = Bench::new([stream("One."), stream("Two.")]).await;
    ask(&bench, "s", &["first"]).await;
    ask(&bench, "s", &["first", "One.", "second"]).await;
    assert_eq!(bench.branches().await, ["record/s"]);
    let expected = [
        says("system", "Be brief."),
        says("user", "first"),
        says("assistant", "One."),
        says("user", "second"),
        says("assistant", "Two."),
    ];
    assert_eq!(bench.transcript("record/s").await, expected);
    let report = bench.finish().await;
    assert_eq!((report.exchanges, report.recorded), (2, 2));
    assert_eq!(report.branches[0].exchanges, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_is_a_branch() {
    let bench = Bench::new([stream("One."), stream("Two."), stream("Three.")]).await;
    ask(&bench, "s", &["first"]).await;
    ask(&bench, "s", &["first", "One.", "second"]).await;
    ask(&bench, "s", &["first", "One.", "another"]).await;
    assert_eq!(bench.branches().await, ["record/s", "record/s.fork-1"]);
    let texts = bench.texts("record/s.fork-1").await;
    assert_eq!(texts, ["Be brief.", "first", "One.", "another", "Three."]);
    // The fork is where the conversation continues.
    bench.server.next(stream("Four."));
    ask(&bench, "s", &["first", "One.", "another", "Three.", "more"]).await;
    assert_eq!(bench.branches().await, ["record/s", "record/s.fork-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missed_exchange_comes_with_the_next_request() {
    let bench = Bench::new([stream("One."), stream("Three.")]).await;
    ask(&bench, "s", &["first"]).await;
    ask(&bench, "s", &["first", "One.", "second", "Two.", "third"]).await;
    let texts = bench.texts("record/s").await;
    assert_eq!(texts, ["Be brief.", "first", "One.", "second", "Two.", "third", "Three."]);
    assert_eq!(bench.branches().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_request_never_becomes_the_head() {
    let bench =
        Bench::new([stream("A title"), stream("One."), stream("Ready"), stream("Two.")]).await;
    let title = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Name it"}]}"#;
    bench.record("/v1/messages", &[(SESSION, "s")], title).await;
    ask(&bench, "s", &["first"]).await;
    ask(&bench, "s", &["Warmup"]).await;
    ask(&bench, "s", &["first", "One.", "second"]).await;
    assert_eq!(bench.branches().await, ["record/s", "record/s.side-1", "record/s.side-2"]);
    assert_eq!(bench.transcript("record/s").await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_has_a_branch_of_its_own() {
    let bench = Bench::new([stream("One."), stream("From the agent.")]).await;
    ask(&bench, "s", &["first"]).await;
    let body = anthropic_request(&["first"]);
    let headers = [(SESSION, "s"), ("x-claude-code-agent-id", "a1")];
    bench.record("/v1/messages", &headers, &body).await;
    assert_eq!(bench.branches().await, ["record/s", "record/s.agent-a1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_without_a_session_is_found_by_its_content() {
    let one = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"One."},
                  "finish_reason":"stop"}]}"#;
    let bench = Bench::new([Answer::json(one)]).await;
    let first = r#"{"model":"m","messages":[{"role":"user","content":"first"}]}"#;
    bench.record("/v1/chat/completions", &[], first).await;
    let second = r#"{"model":"m","messages":[{"role":"user","content":"first"},
        {"role":"assistant","content":"One."},{"role":"user","content":"second"}]}"#;
    bench.record("/v1/chat/completions", &[], second).await;
    let branch = bench.only_branch().await;
    assert!(branch.starts_with("record/chat-"), "{branch}");
    assert_eq!(bench.transcript(&branch).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_continues_in_the_next_recording() {
    let bench = Bench::new([stream("One.")]).await;
    ask(&bench, "s", &["first"]).await;
    let repo = bench.repo.clone();
    drop(bench.finish().await);
    let options = tract_record::RecorderOptions::default();
    let bench = Bench::with(repo, &options, [stream("Two.")]).await;
    ask(&bench, "s", &["first", "One.", "second"]).await;
    assert_eq!(bench.branches().await, ["record/s"]);
    assert_eq!(bench.transcript("record/s").await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_and_tools_change_in_place() {
    let bench = Bench::new([stream("One."), stream("Two.")]).await;
    ask(&bench, "s", &["first"]).await;
    let body = anthropic_request(&["first", "One.", "second"])
        .replace("Be brief.", "Be long.")
        .replace("\"read\"", "\"write\"");
    bench.record("/v1/messages", &[(SESSION, "s")], &body).await;
    assert_eq!(bench.branches().await, ["record/s"]);
    let transcript = bench.transcript("record/s").await;
    assert_eq!(transcript.len(), 5);
    assert_eq!(transcript[0], says("system", "Be long."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_hides_what_it_replaces() {
    let bench = Bench::new([stream("One."), stream("Two.")]).await;
    ask(&bench, "s", &["first"]).await;
    let summary = "This session is being continued from a previous conversation. Summary: one.";
    ask(&bench, "s", &[summary]).await;
    assert_eq!(bench.branches().await, ["record/s"]);
    let texts = bench.texts("record/s").await;
    assert_eq!(texts, ["Be brief.", summary, "Two."]);
    bench.server.next(stream("Three."));
    ask(&bench, "s", &[summary, "Two.", "third"]).await;
    assert_eq!(bench.branches().await, ["record/s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_upstream_is_a_note() {
    let refused = r#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#;
    let overloaded = Answer::json(refused).status("529 Overloaded");
    let bench = Bench::new([stream("One."), overloaded, stream("Two.")]).await;
    ask(&bench, "s", &["first"]).await;
    let body = anthropic_request(&["first", "One.", "second"]);
    let got = bench.record("/v1/messages", &[(SESSION, "s")], &body).await;
    assert_eq!(got.start, "HTTP/1.1 529 Overloaded");
    assert_eq!(got.body, refused.as_bytes());
    ask(&bench, "s", &["first", "One.", "second"]).await;
    assert_eq!(bench.branches().await, ["record/s"], "a retry is no rewind");
    assert_eq!(bench.transcript("record/s").await.len(), 5);
    let report = bench.finish().await;
    assert_eq!(report.not_recorded[&tract_record::Reason::UpstreamStatus], 1);
    assert_eq!(report.lost(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_sent_back_with_other_content_is_an_edit() {
    let called = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},
        {"type":"tool_use","id":"t1","name":"read","input":{"path":"a","line":1},
         "caller":{"type":"direct"}}],"stop_reason":"tool_use"}"#;
    let bench = Bench::new([Answer::json(called), stream("Done."), stream("Again.")]).await;
    let request = |rest: &str| {
        let first = r#"{"role":"user","content":[{"type":"text","text":"first",
            "cache_control":{"type":"ephemeral"}}]}"#;
        let messages = serde_json::from_str(&format!("[{first}{rest}]")).unwrap();
        let mut body: serde_json::Value =
            serde_json::from_str(&anthropic_request(&["first"])).unwrap();
        body["messages"] = messages;
        body.to_string()
    };
    let sent_back = r#",{"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},
        {"type":"tool_use","id":"t1","name":"read","input":{"line":1,"path":"a","all":false}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"text"}]}"#;
    let more = format!(
        r#"{sent_back},{{"role":"assistant","content":"Done."}},{{"role":"user","content":"b"}}"#
    );
    for rest in ["", sent_back, &more] {
        let body = request(rest);
        bench.record("/v1/messages", &[(SESSION, "s")], &body).await;
    }
    assert_eq!(bench.branches().await, ["record/s"]);
    let contents = bench.contents("record/s").await;
    let call = contents[2].calls().next().expect("a call");
    assert!(call.arguments.contains("all"), "{call:?}");
    assert_eq!(contents.len(), 7);
    let report = bench.finish().await;
    // Tools, instructions, seven messages but the instructions, and one edit.
    assert_eq!(report.branches[0].commits, 2 + 6 + 1, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_next_to_an_answer_are_in_its_metadata_and_unknown_elements_in_the_report() {
    let answered = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
        {"type":"text","text":"One."},{"type":"boat","sail":"red"}],"stop_reason":"stop_sequence",
        "stop_sequence":"halt","container":{"id":"c1","authorization_token":"plain-value-7"},
        "logprobs":[{"token":"tide"}],"metadata":{"user_id":"u1"},"usage":{"input_tokens":3,"service_tier":"batch"}}"#;
    let bench = Bench::new([Answer::json(answered)]).await;
    ask(&bench, "s", &["first"]).await;
    let name = RefName::branch("record/s").unwrap();
    let head = bench.repo.head_of(&name).await.unwrap().expect("a head");
    let answer = bench.repo.require_commit(head).await.unwrap();
    let metadata: serde_json::Value =
        serde_json::from_str(answer.metadata.as_ref().expect("metadata").as_str()).unwrap();
    let response = &metadata["response"];
    assert_eq!(response["stop_sequence"], "halt");
    assert_eq!(response["container"]["id"], "c1");
    assert_eq!(response["usage"], serde_json::json!({"service_tier": "batch"}));
    assert_eq!(response["metadata"], serde_json::Value::Null);
    assert!(!response.to_string().contains("plain-value-7"), "{response}");
    assert_eq!(response["logprobs"][0]["token"], "tide");
    let report = bench.finish().await;
    let listed: Vec<&str> = report.listed.iter().map(|anomaly| anomaly.what.as_str()).collect();
    assert!(
        matches!(listed.as_slice(), [what] if what.contains("content[1]") && what.contains("boat")),
        "{listed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_names_the_answer_before_it_continues_there() {
    let answer = |id: &str, text: &str| {
        Answer::json(&format!(
            r#"{{"id":"{id}","object":"response","status":"completed","model":"m","output":[
            {{"type":"message","role":"assistant","content":[
            {{"type":"output_text","text":"{text}"}}]}}]}}"#
        ))
    };
    let bench = Bench::new([answer("resp_1", "One."), answer("resp_2", "Two.")]).await;
    bench.record("/v1/responses", &[], r#"{"model":"m","input":"first"}"#).await;
    let next = r#"{"model":"m","previous_response_id":"resp_1","input":"second"}"#;
    bench.record("/v1/responses", &[], next).await;
    let texts = bench.texts(&bench.only_branch().await).await;
    assert_eq!(texts, ["first", "One.", "second", "Two."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dialect_is_recorded_whole_and_streamed() {
    let chat = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\
                \"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let ollama = "{\"message\":{\"role\":\"assistant\",\"content\":\"Hel\"},\"done\":false}\n\
                  {\"message\":{\"role\":\"assistant\",\"content\":\"lo.\"},\"done\":true}\n";
    let candidate = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello."}]},
        "finishReason":"STOP"}]}"#;
    let message = r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#;
    let contents = r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}"#;
    for (path, request, answer) in [
        ("/v1/chat/completions", message, Answer::new("text/event-stream", chat)),
        ("/api/chat", message, Answer::new("application/x-ndjson", ollama)),
        (
            "/api/chat",
            message,
            Answer::json(
                r#"{"message":{"role":"assistant",
            "content":"Hello."},"done":true}"#,
            ),
        ),
        ("/v1beta/models/g:generateContent", contents, Answer::json(candidate)),
        (
            "/v1beta/models/g:streamGenerateContent",
            contents,
            Answer::json(&format!("[{candidate}]")),
        ),
        (
            "/v1beta/models/g:streamGenerateContent?alt=sse",
            contents,
            Answer::new("text/event-stream", format!("data: {}\n\n", candidate.replace('\n', ""))),
        ),
    ] {
        let bench = Bench::new([answer]).await;
        bench.post(path, request).await;
        let report = bench.settle().await;
        assert_eq!(report.recorded, 1, "{path}: {report:?}");
        let branches = bench.branches().await;
        let expected = [says("user", "Hi"), says("assistant", "Hello.")];
        assert_eq!(bench.transcript(&branches[0]).await, expected, "{path}");
    }
}

/// Ollama and Gemini call tools without ids: an agent's next request names the call by its place.
#[tokio::test(flavor = "multi_thread")]
async fn calls_without_ids_continue_their_conversation() {
    let ollama = [
        r#"{"created_at":"2026-03-14T09:00:00Z","done":true,"message":{"role":"assistant",
            "content":"","tool_calls":[{"function":{"name":"tide","arguments":{"at":"pier"}}}]}}"#,
        r#"{"created_at":"2026-03-14T09:00:02Z","done":true,"message":{"role":"assistant",
            "content":"3 m."}}"#,
    ];
    let question = r#"{"role":"user","content":"How high?"}"#;
    let called = r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"tide",
        "arguments":{"at":"pier"}}}]},{"role":"tool","tool_name":"tide","content":"3 m"}"#;
    let body =
        |messages: &str| format!(r#"{{"model":"m","stream":false,"messages":[{messages}]}}"#);
    let requests = [body(question), body(&format!("{question},{called}"))];
    continues("/api/chat", ollama, requests).await;

    let gemini = [
        r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"tide",
            "args":{"at":"pier"}}}]},"finishReason":"STOP"}],"responseId":"r1"}"#,
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"3 m."}]},
            "finishReason":"STOP"}],"responseId":"r2"}"#,
    ];
    let question = r#"{"role":"user","parts":[{"text":"How high?"}]}"#;
    let called = r#"{"role":"model","parts":[{"functionCall":{"name":"tide","args":{"at":"pier"}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"tide","response":{"output":"3 m"}}}]}"#;
    let body = |contents: &str| format!(r#"{{"contents":[{contents}]}}"#);
    let requests = [body(question), body(&format!("{question},{called}"))];
    continues("/v1beta/models/gemini-test:generateContent", gemini, requests).await;
}

async fn continues(path: &str, answers: [&str; 2], requests: [String; 2]) {
    let bench = Bench::new(answers.map(Answer::json)).await;
    for request in requests {
        bench.record(path, &[], &request).await;
    }
    let kinds = bench.kinds(&bench.only_branch().await).await;
    assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant"], "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_text_and_answer_under_other_conditions_is_another_exchange() {
    let base = r#"{"model":"m-1","messages":[{"role":"system","content":"Judge."},{"role":"user","content":"Is it true?"}]}"#;
    let others = [
        base.replace("m-1", "m-2"),
        base.replace("Judge.", "Judge strictly."),
        base.replace(r#""model""#, r#""temperature":0.5,"model""#),
        base.replace(
            r#""model""#,
            r#""tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}],"model""#,
        ),
    ];
    let answer = || {
        Answer::json(
            r#"{"id":"r","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#,
        )
    };
    for other in others {
        let bench = Bench::new([answer(), answer()]).await;
        for body in [base, other.as_str()] {
            let got = bench.record("/v1/chat/completions", &[], body).await;
            assert_eq!(got.start, "HTTP/1.1 200 OK");
        }
        let branches = bench.branches().await;
        let mut answers = 0;
        for branch in &branches {
            let texts = bench.texts(branch).await;
            answers += texts.iter().filter(|text| *text == "Yes.").count();
        }
        assert_eq!(answers, 2, "{other}: {branches:?}");
        let used = tract_import::usage(&bench.repo).await.unwrap();
        let input: u64 = used.iter().map(|answer| answer.tokens.input).sum();
        assert_eq!(input, 14, "{other}: {used:?}");
        let report = bench.finish().await;
        assert_eq!((report.exchanges, report.recorded), (2, 2), "{other}");
    }
}
