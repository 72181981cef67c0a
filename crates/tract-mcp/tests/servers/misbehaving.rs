use std::time::Duration;

use tract_core::{CancellationToken, DynTool};
use tract_mcp::{McpError, McpEvent, McpServer, ServerCommand, ServerOptions, distinct_names};

use crate::script::{
    call_cancelled, check_echo, check_progress, context, listening, options, start, start_as,
};

const NONE: &[&str] = &["[]"];

#[tokio::test]
async fn arguments_and_results_pass_as_they_were_written() {
    let server = start(NONE, ServerOptions::default()).await;
    check_echo(&server).await;
    let lines = server.call("echo", "{\n  \"b\": 1\n}", &context()).await.unwrap();
    assert_eq!(lines.structured(), Some(r#"{"given":{"b":1}}"#));
    let none = server.call("echo", " ", &context()).await.unwrap();
    assert_eq!(none.structured(), Some(r#"{"given":{}}"#));
    let error = server.call("echo", "[1]", &context()).await.unwrap_err();
    assert_eq!(error.code(), "mcp_arguments");
    server.close().await;
}

#[tokio::test]
async fn a_failure_is_a_result_and_a_refusal_an_error() {
    let server = start(NONE, ServerOptions::default()).await;
    assert!(server.call("fail", "{}", &context()).await.unwrap().is_error());
    let error = server.call("refuse", "{}", &context()).await.unwrap_err();
    assert!(matches!(error, McpError::Refused { code: -32602, .. }), "{error:?}");
    let error = server.call("nonsense", "{}", &context()).await.unwrap_err();
    assert!(matches!(error, McpError::Protocol { .. }), "{error:?}");
    assert_eq!(server.call("other", "{}", &context()).await.unwrap().text(), "unknown other");
    server.close().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_asked_to_stop() {
    let options =
        ServerOptions { call_timeout: Duration::from_millis(100), ..ServerOptions::default() };
    let server = start(NONE, options).await;
    let error = server.call("hang", "{}", &context()).await.unwrap_err();
    assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
    let done = call_cancelled(&server, "hang", "{}", 20).await;
    assert!(matches!(done, Err(McpError::Cancelled)), "{done:?}");
    let token = CancellationToken::new();
    token.cancel();
    let cancelled = context().with_cancellation(token);
    let error = server.call("echo", "{}", &cancelled).await.unwrap_err();
    assert!(matches!(error, McpError::Cancelled), "not even sent: {error:?}");
    assert_eq!(server.call("cancelled", "{}", &context()).await.unwrap().text(), "2");
    server.close().await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_reported_and_skipped() {
    let (options, events) = options();
    let server = start(NONE, ServerOptions { max_line_bytes: 64 << 10, ..options }).await;
    let result = server.call("garbage", "{}", &context()).await.unwrap();
    assert_eq!(result.text(), "first", "the first answer counts");
    let error = server.call("huge", "{}", &context()).await.unwrap_err();
    assert!(error.to_string().contains("longer than 65536 bytes"), "{error}");
    assert!(error.may_have_run(), "the server answered, so it ran: {error:?}");
    assert_eq!(server.call("other", "{}", &context()).await.unwrap().text(), "unknown other");
    let events = events.lock().unwrap();
    let malformed = |text: &str| {
        events.iter().any(|event| matches!(event, McpEvent::Malformed { line } if line == text))
    };
    assert!(malformed("this is no JSON") && malformed(r#"{"jsonrpc":"2.0"}"#), "{events:?}");
    let twice = |event: &&McpEvent| matches!(event, McpEvent::AnsweredTwice { .. });
    assert_eq!(events.iter().filter(twice).count(), 1, "{events:?}");
    assert!(events.contains(&McpEvent::Oversized { limit_bytes: 64 << 10 }));
}

#[tokio::test]
async fn a_crashed_server_is_started_again_by_the_next_call() {
    let (options, events) = options();
    let server = start(NONE, ServerOptions { max_restarts: 2, ..options }).await;
    let error = server.call("crash", "{}", &context()).await.unwrap_err();
    assert!(
        matches!(&error, McpError::Ended { stderr, .. } if stderr == "out of cheese"),
        "{error:?}"
    );
    assert_eq!(server.call("other", "{}", &context()).await.unwrap().text(), "unknown other");
    assert!(server.tools_changed(), "another life may have other tools");
    assert!(events.lock().unwrap().contains(&McpEvent::Restarted));
    for _ in 0..3 {
        let error = server.call("crash", "{}", &context()).await.unwrap_err();
        assert_eq!(error.code(), "mcp_ended");
    }
    let error = server.call("other", "{}", &context()).await.unwrap_err();
    assert!(matches!(error, McpError::KeepsEnding { times: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn progress_and_changes_are_reported() {
    let (options, events) = options();
    let server = start(NONE, options).await;
    check_progress(&server).await;
    assert!(!server.tools_changed());
    server.call("change", "{}", &context()).await.unwrap();
    // A later answer: events before it have arrived.
    server.call("other", "{}", &context()).await.unwrap();
    assert!(server.tools_changed());
    assert!(events.lock().unwrap().contains(&McpEvent::ToolsChanged));
    server.tools().await.unwrap();
    assert!(!server.tools_changed());
    server.close().await;
}

#[tokio::test]
async fn one_bad_definition_does_not_hide_the_others() {
    let pages = [
        r#"[{"name":"a","inputSchema":{"type":"object"}},{"name":"b"},"c"]"#,
        r#"[{"name":"a","inputSchema":{}},{"inputSchema":{}},{"name":"d","inputSchema":{}}]"#,
    ];
    let server = start(&pages, ServerOptions::default()).await;
    let listing = server.tools().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(names, ["a", "d"]);
    assert_eq!(listing.refused.len(), 4, "{:?}", listing.refused);
    server.close().await;
    let again = start(&["[]", "again"], ServerOptions::default()).await;
    let listing = again.tools().await.unwrap();
    assert!(listing.warnings[0].contains("was listed before"), "{:?}", listing.warnings);
}

#[tokio::test]
async fn tools_of_several_servers_have_names_of_their_own() {
    let page = r#"[{"name":"echo","inputSchema":{}},{"name":"only","inputSchema":{}}]"#;
    let first = start(&[page], ServerOptions::default()).await;
    let page = r#"[{"name":"echo","inputSchema":{}}]"#;
    let second = start_as("other", &[page], ServerOptions::default()).await;
    let mut tools = first.tools().await.unwrap().tools;
    tools.extend(second.tools().await.unwrap().tools);
    let tools = distinct_names(tools);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(names, ["script__echo", "only", "other__echo"]);
    assert!(tools.iter().all(|tool| tool.spec().name == tool.name()));
    let result = tools[2].run(r#"{"a":1}"#, &context()).await.unwrap();
    assert!(result.success, "it is called by its own name");
    assert_eq!(result.model_text(), r#"{"given":{"a":1}}"#);
}

#[tokio::test]
async fn a_program_that_is_no_server_is_reported() {
    let missing = ServerCommand::new("no-such-program-anywhere");
    let error = McpServer::start("x", missing, ServerOptions::default()).await.unwrap_err();
    assert_eq!(error.code(), "mcp_start");
    // This program itself, without its script: it prints and ends.
    let other = ServerCommand::new(std::env::current_exe().unwrap()).args(["--list"]);
    let error = McpServer::start("x", other, ServerOptions::default()).await.unwrap_err();
    assert_eq!(error.code(), "mcp_handshake", "{error}");
}

#[tokio::test]
async fn of_a_listing_over_a_limit_the_tools_that_fit_are_kept() {
    let options = || ServerOptions { max_line_bytes: 64 << 10, ..ServerOptions::default() };
    let page =
        format!(r#"[{{"name":"a","description":"{}","inputSchema":{{}}}}]"#, "x".repeat(9_000));
    let server = start(&["endless", &page], options()).await;
    let listing = server.tools().await.unwrap();
    assert_eq!(listing.tools.len(), 1);
    assert!(listing.warnings[0].contains("65536 bytes"), "{:?}", listing.warnings);
    server.close().await;
    // Small definitions count, too.
    let good = r#"{"name":"a","inputSchema":{}}"#;
    let page = format!("[{good},{}]", vec!["1"; 3_000].join(","));
    let options = ServerOptions { max_line_bytes: 1 << 20, ..options() };
    let server = start(&["endless", &page], options).await;
    let listing = server.tools().await.unwrap();
    assert_eq!(listing.tools.len() + listing.refused.len(), 10_000);
    assert!(listing.warnings[0].contains("10000 tools"), "{:?}", listing.warnings);
    assert_eq!(listing.tools[0].name(), "a");
    server.close().await;
}

#[tokio::test]
async fn a_line_of_progress_is_cut_to_what_is_read() {
    let (options, events) = options();
    let server = start(NONE, options).await;
    let (listening, progress) = listening();
    assert_eq!(server.call("loud", "{}", &listening).await.unwrap().text(), "done");
    let progress_sink: Vec<usize> =
        progress.lock().unwrap().iter().map(|(_, line)| line.len()).collect();
    assert_eq!(progress_sink.len(), 1, "one is too long to be read at all");
    assert!(progress_sink[0] <= 4 << 10, "{progress_sink:?}");
    let oversized = |event: &McpEvent| matches!(event, McpEvent::Oversized { .. });
    assert!(events.lock().unwrap().iter().any(oversized));
    server.close().await;
}
