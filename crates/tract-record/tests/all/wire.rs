use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tract_testkit::data;

use crate::support::{Answer, Bench};

struct Exchange {
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    answer: Vec<u8>,
}

fn recorded(folder: &Path) -> Exchange {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let request: Value = serde_json::from_slice(&read("request.json")).unwrap();
    let url = request["url"].as_str().unwrap();
    let path = &url[url.find("/v1/").unwrap()..];
    let headers =
        request["headers"].as_array().unwrap().iter().map(|pair| {
            (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned())
        });
    let of_connection = ["content-length", "host", "connection", "transfer-encoding"];
    let headers = headers.filter(|(name, _)| !of_connection.contains(&name.as_str()));
    Exchange {
        path: path.to_owned(),
        headers: headers.collect(),
        body: BASE64_STANDARD.decode(request["body_b64"].as_str().unwrap()).unwrap(),
        answer: read("response.sse"),
    }
}

fn exchanges() -> Option<Vec<Exchange>> {
    let folder = data::full("sessions/wire-anthropic")?;
    let mut turns: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    turns.retain(|path| path.is_dir());
    turns.sort();
    Some(turns.iter().map(|folder| recorded(folder)).collect())
}

async fn replay(bench: &Bench, exchange: &Exchange, piece: usize) {
    let headers: Vec<(&str, &str)> =
        exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let got = bench.send(&exchange.path, &headers, &exchange.body, piece).await;
    assert_eq!(got.body, exchange.answer);
    assert_eq!(bench.server.got().last().unwrap().body, exchange.body);
}

fn answer(exchange: &Exchange, chunk: usize) -> Answer {
    Answer::new("text/event-stream; charset=utf-8", exchange.answer.clone())
        .header("content-encoding", "gzip")
        .chunk(chunk)
}

/// Seventeen exchanges of Claude Code, eight of which are at hand: a title, the session, a
/// subagent.
#[tokio::test(flavor = "multi_thread")]
async fn traffic_of_claude_code_is_recorded_by_conversation() {
    let Some(exchanges) = exchanges() else { return };
    for chunk in [1, 100, 1 << 20] {
        let bench = Bench::new(exchanges.iter().map(|exchange| answer(exchange, chunk))).await;
        for exchange in &exchanges {
            replay(&bench, exchange, chunk.max(50)).await;
            bench.settle().await;
        }
        let session = "record/ac9b5a71-50d4-47c2-b771-4d5c3e96d899";
        let agent = format!("{session}.agent-a0c0778e223db598c");
        let side = format!("{session}.side-1");
        assert_eq!(bench.branches().await, [session, &agent, &side]);
        let last: Value = serde_json::from_slice(&exchanges[5].body).unwrap();
        let blocks = |message: &Value| message["content"].as_array().unwrap().len();
        let messages = last["messages"].as_array().unwrap();
        let contents = bench.contents(session).await;
        let results = contents
            .iter()
            .filter(|content| matches!(content, tract_core::Content::ToolResult(_)))
            .count();
        let sent = messages.iter().flat_map(|message| message["content"].as_array().unwrap());
        assert_eq!(results, sent.filter(|block| block["type"] == "tool_result").count());
        let assistants = contents.iter().filter(|c| matches!(c, tract_core::Content::Assistant(_)));
        let of_model = messages.iter().filter(|message| message["role"] == "assistant");
        let sent: Vec<usize> = of_model.map(blocks).collect();
        let assistants: Vec<usize> = assistants.map(|content| content.parts().len()).collect();
        assert_eq!(assistants[..sent.len()], sent);
        assert_eq!(assistants.len(), sent.len() + 1, "and the answer");
        let report = bench.finish().await;
        assert_eq!((report.recorded, report.lost()), (8, 0), "{report:?}");
    }
}

fn thread_of(row: &Value) -> &str {
    let thread = row["meta"]["thread_id"].as_str().filter(|thread| !thread.is_empty());
    thread.or(row["harness_session_id"].as_str()).unwrap()
}

/// The answer to a request, which is not in the recording: what the next request of its thread has
/// after it, up to the first result.
fn answer_of(rows: &[Value], place: usize) -> Value {
    let items = |row: &Value| row["raw_request"]["input"].as_array().unwrap().clone();
    let of_thread = |row: &&Value| thread_of(row) == thread_of(&rows[place]);
    let next = rows[place + 1..].iter().find(of_thread).map(items).unwrap_or_default();
    let is_result = |item: &Value| item["type"].as_str().is_some_and(|t| t.ends_with("_output"));
    let answer = next.into_iter().skip(items(&rows[place]).len());
    let output: Vec<Value> = answer.take_while(|item| !is_result(item)).collect();
    serde_json::json!({ "object": "response", "status": "completed", "output": output })
}

/// Thirteen requests of Codex: a session and two threads within it.
#[tokio::test(flavor = "multi_thread")]
async fn traffic_of_codex_is_recorded_by_conversation() {
    let Some(folder) = data::full("sessions/wire-codex") else { return };
    let packed = std::fs::read(folder.join("corpus-codex-delta.jsonl.gz")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&*packed), &mut text)
        .unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.filter(|row| row["source"] == "wire").collect();
    assert_eq!(rows.len(), 13);
    let answers = (0..rows.len()).map(|place| Answer::json(&answer_of(&rows, place).to_string()));
    let bench = Bench::new(answers).await;
    let mut threads = std::collections::BTreeSet::new();
    for row in &rows {
        let (session, thread) = (row["harness_session_id"].as_str().unwrap(), thread_of(row));
        threads.insert(thread.to_owned());
        let body = row["raw_request"].to_string();
        let headers = [("session-id", session), ("thread-id", thread)];
        bench.record("/v1/responses", &headers, &body).await;
    }
    let report = bench.settle().await;
    let branches = bench.branches().await;
    assert_eq!(threads.len(), 3, "a session and two threads within it");
    assert_eq!((report.recorded, report.lost()), (13, 0), "{report:?}");
    assert_eq!(branches.len(), threads.len(), "{branches:?}");
}
