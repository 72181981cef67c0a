use serde_json::json;
use tract_engine::Repo;
use tract_record::RecorderOptions;

use crate::support::{Answer, Bench, memory_repo};

const SESSION: &str = "session-id";

fn response(id: &str, status: &str, text: &str) -> Answer {
    let content = json!([{ "type": "output_text", "text": text }]);
    let output = json!([{ "type": "message", "role": "assistant", "content": content }]);
    let output = if status == "completed" { output } else { json!([]) };
    let body =
        json!({ "id": id, "object": "response", "status": status, "model": "m", "output": output });
    Answer::json(&body.to_string())
}

fn answer(number: usize) -> Answer {
    response(&format!("resp_{number}"), "completed", &format!("Answer {number}."))
}

fn request(input: &str, more: serde_json::Value) -> String {
    let mut body = json!({ "model": "m", "input": input });
    let members = more.as_object().cloned().unwrap_or_default();
    body.as_object_mut().unwrap().extend(members);
    body.to_string()
}

async fn ask(bench: &Bench, session: Option<&str>, input: &str, more: serde_json::Value) {
    let headers: Vec<_> = session.iter().map(|session| (SESSION, *session)).collect();
    let got = bench.record("/v1/responses", &headers, &request(input, more)).await;
    assert_eq!(got.start, "HTTP/1.1 200 OK");
}

async fn restart(bench: Bench, answers: impl IntoIterator<Item = Answer>) -> Bench {
    let repo: Repo = bench.repo.clone();
    drop(bench.finish().await);
    Bench::with(repo, &RecorderOptions::default(), answers).await
}

fn after(response: &str) -> serde_json::Value {
    json!({ "previous_response_id": response })
}

fn within(conversation: &str) -> serde_json::Value {
    json!({ "conversation": conversation })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_continued_after_a_restart() {
    for session in [None, Some("s")] {
        let bench = Bench::new((1..).take(2).map(answer)).await;
        ask(&bench, session, "first", json!({})).await;
        ask(&bench, session, "second", after("resp_1")).await;
        let bench = restart(bench, [answer(3), answer(4)]).await;
        ask(&bench, session, "third", after("resp_2")).await;
        let branch = bench.only_branch().await;
        let expected = ["first", "Answer 1.", "second", "Answer 2.", "third", "Answer 3."];
        assert_eq!(bench.texts(&branch).await, expected);
        // One that is not the last is a rewind.
        let bench = restart(bench, [answer(4)]).await;
        ask(&bench, session, "another", after("resp_1")).await;
        let fork = format!("{branch}.fork-1");
        assert_eq!(bench.branches().await, [branch, fork.clone()]);
        assert_eq!(bench.texts(&fork).await, ["first", "Answer 1.", "another", "Answer 4."]);
    }
}

/// Two runs that ask the same and get the same differ in the ids of their responses.
#[tokio::test(flavor = "multi_thread")]
async fn equal_conversations_are_told_apart_by_their_responses() {
    let same = |id: &str| response(id, "completed", "Yes.");
    let bench = Bench::new([same("resp_a"), same("resp_b")]).await;
    ask(&bench, None, "Is it so?", json!({})).await;
    ask(&bench, None, "Is it so?", json!({})).await;
    let [first, second] = &bench.branches().await[..] else { panic!("two branches") };
    let (first, second) = (first.clone(), second.clone());
    let bench = restart(bench, [same("resp_c"), same("resp_d")]).await;
    ask(&bench, None, "of a", after("resp_a")).await;
    ask(&bench, None, "of b", after("resp_b")).await;
    assert_eq!(bench.texts(&first).await, ["Is it so?", "Yes.", "of a", "Yes."]);
    assert_eq!(bench.texts(&second).await, ["Is it so?", "Yes.", "of b", "Yes."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_a_response_of_another_on_a_branch_of_its_own() {
    let bench = Bench::new([answer(1), answer(2), answer(3)]).await;
    ask(&bench, Some("one"), "first", json!({})).await;
    ask(&bench, Some("two"), "second", after("resp_1")).await;
    let bench = restart(bench, [answer(3), answer(4)]).await;
    ask(&bench, Some("three"), "third", after("resp_2")).await;
    ask(&bench, Some("three"), "fourth", after("resp_3")).await;
    assert_eq!(bench.branches().await, ["record/one", "record/three", "record/two"]);
    assert_eq!(bench.texts("record/two").await.len(), 4);
    assert_eq!(bench.texts("record/three").await.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_after_an_unknown_response_begins_a_branch() {
    let bench = Bench::new([answer(1), answer(2)]).await;
    ask(&bench, None, "More.", json!({})).await;
    ask(&bench, None, "More.", after("resp_unknown")).await;
    let branches = bench.branches().await;
    assert_eq!(branches.len(), 2);
    assert_eq!(bench.texts(&branches[1]).await, ["More.", "Answer 2."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_the_provider_is_continued_by_its_name() {
    let bench = Bench::new([answer(1), answer(2), answer(3)]).await;
    ask(&bench, None, "Hello.", within("conv_1")).await;
    ask(&bench, None, "Hello.", within("conv_2")).await;
    ask(&bench, None, "more", json!({ "conversation": { "id": "conv_1" } })).await;
    let bench = restart(bench, [answer(4), answer(5)]).await;
    ask(&bench, None, "last", within("conv_1")).await;
    ask(&bench, None, "other", within("conv_2")).await;
    let branches = bench.branches().await;
    assert_eq!(branches.len(), 2, "{branches:?}");
    let first = ["Hello.", "Answer 1.", "more", "Answer 3.", "last", "Answer 4."];
    assert_eq!(bench.texts(&branches[0]).await, first);
    assert_eq!(bench.texts(&branches[1]).await, ["Hello.", "Answer 2.", "other", "Answer 5."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_made_in_the_background_is_recorded_when_it_is_fetched() {
    for restarts in [false, true] {
        let queued = || response("resp_1", "queued", "");
        let mut bench = Bench::new([queued()]).await;
        let more = json!({ "background": true, "temperature": 0.5 });
        ask(&bench, None, "first", more).await;
        let branch = bench.only_branch().await;
        assert_eq!(bench.texts(&branch).await, ["first"]);
        let later = [response("resp_1", "in_progress", ""), answer(1), answer(1), answer(2)];
        if restarts {
            bench = restart(bench, later).await;
        } else {
            later.into_iter().for_each(|answer| bench.server.next(answer));
            // The server repeats its last answer, which is the first one, until it has others.
            bench.get("/v1/responses/resp_1").await;
        }
        for _ in 0..3 {
            let got = bench.get("/v1/responses/resp_1?include=x").await;
            assert_eq!(got.start, "HTTP/1.1 200 OK");
        }
        let report = bench.settle().await;
        let expected = if restarts { 1 } else { 2 };
        assert_eq!((report.recorded, report.lost()), (expected, 0), "{report:?}");
        assert_eq!(bench.texts(&branch).await, ["first", "Answer 1."]);
        let head = bench.repo.branches().await.unwrap().remove(0).head;
        let commit = bench.repo.require_commit(head).await.unwrap();
        let config = commit.generation_config.clone().unwrap();
        assert!(config.as_str().contains("0.5"), "the parameters of the request: {config:?}");
        ask(&bench, None, "second", after("resp_1")).await;
        assert_eq!(bench.only_branch().await, branch);
        assert_eq!(bench.texts(&branch).await.len(), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_answer_whose_stream_was_left_is_recorded_when_it_is_fetched() {
    let created = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":\
                   {\"id\":\"resp_1\",\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n";
    let piece = "event: response.output_text.delta\ndata: {\"type\":\
                 \"response.output_text.delta\",\"delta\":\"Ans\"}\n\n";
    for stream in [created.to_owned(), format!("{created}{piece}")] {
        let bench = Bench::new([Answer::new("text/event-stream", stream), answer(1)]).await;
        ask(&bench, None, "first", json!({ "background": true, "stream": true })).await;
        let branch = bench.only_branch().await;
        bench.get("/v1/responses/resp_1").await;
        assert_eq!(bench.texts(&branch).await, ["first", "Answer 1."]);
        assert_eq!(bench.settle().await.lost(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_was_asked_for_elsewhere_is_not_a_turn() {
    let bench = Bench::new([answer(1)]).await;
    bench.get("/v1/responses/resp_1").await;
    let report = bench.settle().await;
    assert_eq!((report.recorded, report.lost()), (0, 0));
    assert!(bench.branches().await.is_empty());
}

/// More conversations than are read back at first.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_conversation_is_found_among_hundreds() {
    const COUNT: usize = 310;
    for session in [None, Some("s")] {
        let headers: Vec<_> = session.iter().map(|session| (SESSION, *session)).collect();
        let chat = |texts: &[String]| {
            let message = |(place, text): (usize, &String)| json!({ "role": if place % 2 == 0 { "user" } else { "assistant" }, "content": text });
            let messages: Vec<_> = texts.iter().enumerate().map(message).collect();
            json!({ "model": "m", "messages": messages }).to_string()
        };
        let reply = Answer::json(
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"One."},
                "finish_reason":"stop"}]}"#,
        );
        let bench = Bench::with(memory_repo(), &RecorderOptions::default(), [reply.clone()]).await;
        let first = |n: usize| vec![format!("chat {n}")];
        for n in 0..COUNT {
            bench.record("/v1/chat/completions", &headers, &chat(&first(n))).await;
        }
        let before = bench.branches().await;
        assert_eq!(before.len(), COUNT);
        let bench = restart(bench, [reply]).await;
        for n in [0, 1, 150, COUNT - 1] {
            let mut texts = first(n);
            texts.extend(["One.".to_owned(), "more".to_owned()]);
            bench.record("/v1/chat/completions", &headers, &chat(&texts)).await;
        }
        assert_eq!(bench.branches().await, before);
    }
}
