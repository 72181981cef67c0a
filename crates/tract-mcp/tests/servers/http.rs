use std::time::Duration;

use tract_core::DynTool;
use tract_mcp::{McpError, McpEvent, McpServer, ServerOptions, ServerUrl};

use crate::script::{call_cancelled, check_echo, check_progress, context, options};
use crate::web::{ServerBehavior, Web, method, until};

async fn connect(web: &Web, options: ServerOptions) -> McpServer {
    McpServer::connect("web", web.url(), options).await.unwrap()
}

#[tokio::test]
async fn approvals_of_a_server_without_a_label_are_bound_to_its_whole_url_which_stays_secret() {
    let page = r#"[{"name":"a","inputSchema":{"type":"object"}}]"#.to_owned();
    let web = Web::start(ServerBehavior { pages: vec![page], ..ServerBehavior::default() });
    let bound_to = async |label: &str, url: ServerUrl| {
        let server = McpServer::connect(label, url, ServerOptions::default()).await.unwrap();
        let tool = server.tools().await.unwrap().tools.remove(0);
        let origin = DynTool::spec(&tool).origin.unwrap();
        assert_eq!(origin.server, server.identity());
        server.close().await;
        origin.server
    };
    let url = |query: &str| ServerUrl::new(web.loopback.url(&format!("/mcp{query}")));
    let (plain, one) = (bound_to("", url("")).await, bound_to("", url("?key=secret")).await);
    assert_eq!(plain, web.loopback.url("/mcp"));
    assert!(one.starts_with(&format!("{plain}#")) && !one.contains("secret"), "{one}");
    assert_ne!(one, bound_to("", url("?key=secret2")).await, "another account, another server");
    assert_eq!(one, bound_to("", url("?key=secret")).await);
    // What a header carries may be renewed at any time.
    assert_eq!(one, bound_to("", url("?key=secret").bearer("token")).await);
    assert_eq!(bound_to("web", url("?key=secret")).await, "web", "a label is all that counts");
}

#[tokio::test]
async fn arguments_and_results_pass_as_they_were_written_over_http() {
    let pages = [
        r#"[{"name":"a","inputSchema":{"type":"object","z":1.50},"x-own":[1e2]}]"#,
        r#"[{"name":"b","inputSchema":{}}]"#,
    ];
    let pages: Vec<String> = pages.iter().map(|page| (*page).to_owned()).collect();
    let web = Web::start(ServerBehavior { pages: pages.clone(), ..ServerBehavior::default() });
    let server = connect(&web, ServerOptions::default()).await;
    let listing = server.tools().await.unwrap();
    let texts: Vec<String> =
        listing.tools.iter().map(|tool| format!("[{}]", tool.definition().text())).collect();
    assert_eq!(texts, pages, "every page, every byte");
    check_echo(&server).await;
    assert_eq!(server.call("list", "{}", &context()).await.unwrap().text(), "in a list");
    server.close().await;
    let requests = web.loopback.take_requests();
    let hello = requests.iter().find(|request| method(request) == "initialize").unwrap();
    assert_eq!(hello.header("mcp-session-id"), None);
    assert_eq!(hello.header("accept"), Some("application/json, text/event-stream"));
    for later in requests.iter().filter(|request| method(request) != "initialize") {
        assert_eq!(later.header("mcp-session-id"), Some("s-1"), "{later:?}");
        assert_eq!(later.header("mcp-protocol-version"), Some("2025-11-25"), "{later:?}");
        assert_eq!(later.header("mcp-method"), None, "{later:?}");
    }
    assert_eq!(requests.last().unwrap().method, "DELETE", "the session is ended");
}

#[tokio::test]
async fn faults_of_http_are_errors_that_say_what_came() {
    let web = Web::start(ServerBehavior::default());
    let (options, events) = options();
    let server = connect(&web, ServerOptions { max_line_bytes: 64 << 10, ..options }).await;
    for (tool, code, part) in [
        ("cut", "mcp_cut", "broke off"),
        ("cut_json", "mcp_cut", "broke off"),
        ("broken", "mcp_status", "status 500: out of cheese"),
        ("bad_request", "mcp_refused", "bad arguments (code -32602)"),
        ("html", "mcp_protocol", "found \"text/html\""),
        ("nothing", "mcp_protocol", "found status 202"),
        ("elsewhere", "mcp_status", "redirects are not followed"),
        ("other_id", "mcp_protocol", "found none"),
        ("no_json", "mcp_protocol", "found none"),
        ("huge", "mcp_too_large", "longer than 65536 bytes"),
        ("huge_stream", "mcp_too_large", "longer than 65536 bytes"),
        ("question", "mcp_protocol", "input_required"),
    ] {
        let error = server.call(tool, "{}", &context()).await.unwrap_err();
        assert_eq!(error.code(), code, "{tool}: {error}");
        assert!(error.to_string().contains(part), "{tool}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        // None of it is the end.
        let after = server.call("other", "{}", &context()).await.unwrap();
        assert_eq!(after.text(), "unknown other", "after {tool}");
    }
    let oversized = McpEvent::Oversized { limit_bytes: 64 << 10 };
    assert!(events.lock().unwrap().contains(&oversized));
    assert_eq!(web.manner.lock().unwrap().session, 1, "all in one session");
    server.close().await;
}

#[tokio::test]
async fn a_stream_that_broke_off_is_taken_up_where_it_ended() {
    let web = Web::start(ServerBehavior::default());
    let server = connect(&web, ServerOptions::default()).await;
    assert_eq!(server.call("resumed", "{}", &context()).await.unwrap().text(), "whole");
    server.close().await;
}

#[tokio::test]
async fn a_call_whose_stream_cannot_be_resumed_is_not_sent_again() {
    for resumes_with in [404, 400, 401, 405, 500] {
        let web = Web::start(ServerBehavior { resumes_with, ..ServerBehavior::default() });
        let server = connect(&web, ServerOptions::default()).await;
        let error = server.call("pay", "{}", &context()).await.unwrap_err();
        assert!(error.may_have_run(), "{resumes_with}: {error:?}");
        assert_eq!(error.code(), "mcp_cut", "{resumes_with}");
        assert_eq!(web.manner.lock().unwrap().paid, 1, "{resumes_with}");
        server.close().await;
    }
}

#[tokio::test]
async fn an_error_of_a_tool_that_mentions_a_session_is_not_a_lost_session() {
    let web = Web::start(ServerBehavior::default());
    let server = connect(&web, ServerOptions::default()).await;
    let error = server.call("pay_unconfirmed", "{}", &context()).await.unwrap_err();
    assert!(error.to_string().contains("could not be confirmed"), "{error:?}");
    assert!(error.may_have_run(), "{error:?}");
    assert_eq!(web.manner.lock().unwrap().paid, 1);
    server.close().await;
}

#[tokio::test]
async fn a_call_that_a_gateway_reports_as_unfinished_may_have_run() {
    let web = Web::start(ServerBehavior::default());
    let server = connect(&web, ServerOptions::default()).await;
    for tool in ["closed", "internal", "aborted"] {
        let error = server.call(tool, "{}", &context()).await.unwrap_err();
        assert!(error.may_have_run(), "{tool}: {error:?}");
    }
    let error = server.call("bad_request", "{}", &context()).await.unwrap_err();
    assert!(!error.may_have_run(), "its arguments are rejected: {error:?}");
    server.close().await;
}

#[tokio::test]
async fn half_an_emoji_in_a_result_is_replaced() {
    let web = Web::start(ServerBehavior::default());
    let server = connect(&web, ServerOptions::default()).await;
    let result = server.call("half_emoji", "{}", &context()).await.unwrap();
    assert_eq!(result.text(), "ok \u{fffd}");
    server.close().await;
}

#[tokio::test]
async fn tools_of_the_pages_before_one_that_fails_are_listed() {
    let page = |name: &str| format!(r#"[{{"name":"{name}","inputSchema":{{"type":"object"}}}}]"#);
    let web = Web::start(ServerBehavior {
        pages: vec![page("one"), page("two"), page("three")],
        failing_page: Some(2),
        ..ServerBehavior::default()
    });
    let server = connect(&web, ServerOptions::default()).await;
    let listing = server.tools().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.origin()).collect();
    assert_eq!(names, ["one", "two"]);
    let warnings: Vec<String> = listing.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|text| text.contains("no more pages")), "{warnings:?}");
    server.close().await;
}

#[tokio::test]
async fn a_forgotten_session_is_replaced() {
    for says_400 in [false, true] {
        let web = Web::start(ServerBehavior { says_400, ..ServerBehavior::default() });
        let (options, events) = options();
        let server = connect(&web, options).await;
        assert_eq!(server.call("forget", "{}", &context()).await.unwrap().text(), "forgotten");
        // The server has other things in mind: the call that meets that is sent again.
        assert_eq!(server.call("other", "{}", &context()).await.unwrap().text(), "unknown other");
        assert!(server.tools_changed(), "another session may have other tools");
        assert!(events.lock().unwrap().contains(&McpEvent::Restarted));
        assert_eq!(web.manner.lock().unwrap().session, 102);
        // Two calls meet it at once: one session is begun.
        server.call("forget", "{}", &context()).await.unwrap();
        let (one, other) = (context(), context());
        let both = tokio::join!(server.call("a", "{}", &one), server.call("b", "{}", &other));
        assert_eq!(both.0.unwrap().text(), "unknown a");
        assert_eq!(both.1.unwrap().text(), "unknown b");
        server.close().await;
    }
}

#[tokio::test]
async fn a_server_that_forgets_again_and_again_is_given_up() {
    let web = Web::start(ServerBehavior { forgets: true, ..ServerBehavior::default() });
    let server = connect(&web, ServerOptions { max_restarts: 2, ..ServerOptions::default() }).await;
    let error = server.call("other", "{}", &context()).await.unwrap_err();
    assert!(matches!(error, McpError::SessionLost { .. }), "{error:?}");
    let error = server.call("other", "{}", &context()).await.unwrap_err();
    assert!(matches!(error, McpError::KeepsEnding { times: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn a_call_over_http_that_hangs_is_cancelled() {
    let web = Web::start(ServerBehavior::default());
    let options =
        ServerOptions { call_timeout: Duration::from_millis(200), ..ServerOptions::default() };
    let server = connect(&web, options).await;
    let error = server.call("hang", "{}", &context()).await.unwrap_err();
    assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
    let done = call_cancelled(&server, "hang", "{}", 20).await;
    assert!(matches!(done, Err(McpError::Cancelled)), "{done:?}");
    until(|| web.manner.lock().unwrap().cancelled == 2).await;
    assert_eq!(server.call("cancelled", "{}", &context()).await.unwrap().text(), "2");
    server.close().await;
}

#[tokio::test]
async fn progress_and_changes_are_reported_over_http() {
    let web = Web::start(ServerBehavior { tells: true, ..ServerBehavior::default() });
    let (options, events) = options();
    let server = connect(&web, options).await;
    check_progress(&server).await;
    // What belongs to no request comes by a stream of its own.
    until(|| server.tools_changed()).await;
    let log = McpEvent::Log { level: "info".to_owned(), text: "hello".to_owned() };
    until(|| events.lock().unwrap().contains(&log)).await;
    assert!(events.lock().unwrap().contains(&McpEvent::ToolsChanged));
    server.close().await;
}

#[tokio::test]
async fn a_server_without_handshake_and_sessions_is_spoken_with() {
    let page = r#"[{"name":"läs","inputSchema":{"type":"object"}}]"#;
    let manner = ServerBehavior {
        stateless: true,
        pages: vec![page.to_owned()],
        ..ServerBehavior::default()
    };
    let web = Web::start(manner);
    let server = connect(&web, ServerOptions::default()).await;
    let [tool] = &server.tools().await.unwrap().tools[..] else { panic!("one tool") };
    assert_eq!(tool.origin(), "läs");
    assert_eq!(server.call("läs", "{}", &context()).await.unwrap().text(), "unknown läs");
    server.close().await;
    let requests = web.loopback.take_requests();
    let call = requests.iter().find(|request| method(request) == "tools/call").unwrap();
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("=?base64?bMOkcw==?="));
    assert_eq!(call.header("mcp-session-id"), None);
}

#[tokio::test]
async fn refused_access_and_an_unreachable_server_are_reported() {
    let web =
        Web::start(ServerBehavior { token: Some("Bearer t0ken"), ..ServerBehavior::default() });
    let error = McpServer::connect("web", web.url(), ServerOptions::default()).await.unwrap_err();
    let McpError::Unauthorized { status: 401, challenge, .. } = &error else { panic!("{error:?}") };
    assert_eq!(challenge.as_deref(), Some("Bearer realm=\"tools\""));
    assert!(error.notes()[0].contains("Authorization"));
    let options = ServerOptions::default;
    let server = McpServer::connect("web", web.url().bearer(" t0ken\n"), options()).await.unwrap();
    assert_eq!(server.call("other", "{}", &context()).await.unwrap().text(), "unknown other");
    assert!(!format!("{:?} {server:?}", web.url().bearer("t0ken")).contains("t0ken"));
    server.close().await;
    // A closed port.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", free.local_addr().unwrap());
    drop(free);
    let error = McpServer::connect("web", ServerUrl::new(url), options()).await.unwrap_err();
    assert_eq!(error.code(), "mcp_unreachable", "{error}");
    let error = McpServer::connect("web", ServerUrl::new("mcp"), options()).await.unwrap_err();
    assert_eq!(error.code(), "mcp_url", "{error}");
}
