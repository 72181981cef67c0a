use std::path::Path;
use std::sync::Arc;

use tract_engine::{Repo, RepoOptions};
use tract_record::RecorderOptions;
use tract_store_sqlite::SqliteOptions;

use crate::support::{Answer, Bench, anthropic_request, anthropic_stream};

/// Headers that are never kept, each with a value of its own.
const DENIED: &[(&str, &str)] = &[
    ("Authorization", "Bearer plain-value-authorization"),
    ("X-Api-Key", "plain-value-api-key"),
    ("X-Goog-Api-Key", "plain-value-goog"),
    ("Api-Key", "plain-value-azure"),
    ("Cookie", "plain-value-cookie=1"),
    ("Proxy-Authorization", "Basic plain-value-proxy"),
    ("OpenAI-Organization", "plain-value-organization"),
    ("X-Unknown", "plain-value-unknown"),
];

/// The bytes of all files in a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    paths.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_header_with_a_key_and_no_secret_is_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let store = tract_store_sqlite::open(folder.path().join("tract.db"), &options).unwrap();
    let repo = Repo::new(Arc::new(store), RepoOptions::default());
    // Written in two pieces, so that scanners of repositories pass over this page.
    let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
    let message = format!("the token is {key}");
    let stream = Answer::new("text/event-stream", anthropic_stream(&message))
        .header("set-cookie", "plain-value-set-cookie=1")
        .header("request-id", "req_kept");
    let error = format!(r#"{{"error":{{"type":"overloaded_error","message":"no {key}"}}}}"#);
    let refused = Answer::json(&error).status("529 Overloaded");
    let cut_body = anthropic_stream(&message);
    let cut_at = cut_body.find("event: content_block_stop").unwrap();
    let cut = Answer::new("text/event-stream", cut_body).cut_at(cut_at);
    let options = RecorderOptions::default();
    let bench = Bench::with(repo, &options, [stream.clone(), refused, cut, stream]).await;
    let question = format!("my key is {key}");
    let person = r#""metadata":{"user_id":"plain-value-account"},"user":"plain-value-user","#;
    for _ in 0..4 {
        let body = anthropic_request(&[&question]).replacen('{', &format!("{{{person}"), 1);
        let tool = format!(r#""description":"with {key}","name":"read""#);
        let body = body.replace(r#""name":"read""#, &tool);
        assert!(body.contains(&tool));
        let path = "/v1/messages?key=plain-value-query";
        bench.record(path, DENIED, &body).await;
    }
    let sent = bench.server.got();
    assert_eq!(sent[0].header("authorization"), Some("Bearer plain-value-authorization"));
    let branches = bench.branches().await;
    let transcript = bench.transcript(&branches[0]).await;
    assert!(transcript.iter().any(|(_, text)| text.contains("[redacted:github-token")));
    let report = bench.finish().await;
    assert!(report.recorded >= 2, "{report:?}");
    assert!(report.redacted["github-token"] >= 2, "{report:?}");
    assert!(!format!("{report:?}").contains("plain-value"), "{report:?}");
    let mut has_id = false;
    for (path, bytes) in files(folder.path()) {
        for secret in ["plain-value", key.as_str()] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {path}");
        }
        has_id |= bytes.windows(8).any(|window| window == b"req_kept");
    }
    assert!(has_id, "what may be kept is in the files");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_messages_stay_when_asked_for() {
    let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
    let options = RecorderOptions { redact: false, ..RecorderOptions::default() };
    let answer = Answer::new("text/event-stream", anthropic_stream("One."));
    let bench = Bench::with(crate::support::memory_repo(), &options, [answer]).await;
    bench.record("/v1/messages", &[], &anthropic_request(&[&key])).await;
    let branches = bench.branches().await;
    assert_eq!(bench.transcript(&branches[0]).await[1].1, key);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_requests_are_not_stored_whatever_they_look_like() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let store = tract_store_sqlite::open(folder.path().join("tract.db"), &options).unwrap();
    let repo = Repo::new(Arc::new(store), RepoOptions::default());
    let answer = Answer::new("text/event-stream", anthropic_stream("One."));
    let bench = Bench::with(repo, &RecorderOptions::default(), [answer]).await;
    let members = r#""mcp_servers":[{"type":"url","name":"kept-name","authorization_token":"plain-value a"}],
        "extra_headers":{"X-Any":"plain-value b"},"secret":"plain-value c","cookie":"plain-value d",
        "aws_session_token":"plain-value h","vertex_credentials":"plain-value i",
        "extra_query":{"sig":"plain-value j"},"gcp_credentials":{"private_key":"plain-value k"},
        "data_sources":[{"authentication":{"type":"api_key","key":"plain-value e"}}],"#;
    let body = anthropic_request(&["Hello"]).replacen('{', &format!("{{{members}"), 1);
    let tool = r#""type":"mcp","authorization":"plain-value f","headers":{"X-Token":"plain-value g"},
        "name":"read""#;
    let body = body.replace(r#""name":"read""#, tool);
    assert!(body.contains("plain-value g"));
    bench.record("/v1/messages", &[], &body).await;
    let sent = bench.server.got();
    assert_eq!(sent[0].body, body.as_bytes(), "the provider gets what was sent");
    let branches = bench.branches().await;
    assert_eq!(bench.transcript(&branches[0]).await[1].1, "Hello");
    bench.finish().await;
    for (path, bytes) in files(folder.path()) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("plain-value"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_or_user_agent_that_looks_like_a_credential_is_masked_and_still_names_one_branch()
{
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let store = tract_store_sqlite::open(folder.path().join("tract.db"), &options).unwrap();
    let repo = Repo::new(Arc::new(store), RepoOptions::default());
    let answer = |text: &str| Answer::new("text/event-stream", anthropic_stream(text));
    let answers = [answer("One."), answer("Two."), answer("Three.")];
    let bench = Bench::with(repo, &RecorderOptions::default(), answers).await;
    // Written in two pieces, so that scanners of repositories pass over this page.
    let token = format!("q7Tk9ZpL2vXw{}", "8RmN4cB16dyHs6DfJ");
    let (session, agent) = (format!("sess-{token}"), format!("agent/{token} (kept-words)"));
    let headers = [("X-Session-Id", session.as_str()), ("User-Agent", agent.as_str())];
    bench.record("/v1/messages", &headers, &anthropic_request(&["Hello"])).await;
    let next = anthropic_request(&["Hello", "One.", "Again"]);
    bench.record("/v1/messages", &headers, &next).await;
    let uuid = "0b1a6f3e-93c5-4b6a-8a63-2b1d7f0c9e55";
    bench.record("/v1/messages", &[("X-Session-Id", uuid)], &anthropic_request(&["Bye"])).await;
    let branches = bench.branches().await;
    assert_eq!(branches.len(), 2, "{branches:?}");
    assert!(branches.contains(&format!("record/{uuid}")), "{branches:?}");
    let masked = branches.iter().find(|name| !name.contains(uuid)).unwrap();
    assert_eq!(bench.transcript(masked).await.len(), 5);
    bench.finish().await;
    let mut is_kept = false;
    for (path, bytes) in files(folder.path()) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(&token), "{path}");
        is_kept |= text.contains("kept-words");
    }
    assert!(is_kept, "the other words of the user agent are in the files");
}
