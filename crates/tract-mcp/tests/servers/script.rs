//! A server that does as its environment says. The test program starts itself with the name of the
//! test below; what libtest prints before are lines that are no messages, as real servers write
//! them, too.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{CancellationToken, ToolContext};
use tract_mcp::{
    CallResult, Listener, McpError, McpEvent, McpServer, ServerCommand, ServerOptions,
};

const VARIABLE: &str = "TRACT_MCP_SCRIPT";

/// The command that starts this program as a server; `tools` is the file with its pages of tools:
/// a line each, JSON lists.
pub(crate) fn command(tools: &std::path::Path) -> ServerCommand {
    let mut command = ServerCommand::new(std::env::current_exe().unwrap()).args([
        "script::serve",
        "--exact",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env.insert(VARIABLE.into(), tools.into());
    command
}

/// The context of a call.
pub(crate) fn context() -> ToolContext {
    ToolContext::new("c1")
}

/// The progress of a call that was reported: its id, and the line.
type ProgressLines = Arc<Mutex<Vec<(String, String)>>>;

/// The context of a call whose progress is noted.
pub(crate) fn listening() -> (ToolContext, ProgressLines) {
    let lines = ProgressLines::default();
    let sink = Arc::clone(&lines);
    let sink = move |id: &str, line: std::fmt::Arguments<'_>| {
        sink.lock().unwrap().push((id.to_owned(), line.to_string()));
    };
    (context().with_progress(Arc::new(sink)), lines)
}

/// Calls a tool that does not answer, and cancels the call after so many milliseconds.
pub(crate) async fn call_cancelled(
    server: &McpServer,
    tool: &str,
    arguments: &str,
    after_ms: u64,
) -> Result<CallResult, McpError> {
    let token = CancellationToken::new();
    let cancelled = context().with_cancellation(token.clone());
    let call = server.call(tool, arguments, &cancelled);
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        token.cancel();
    };
    tokio::join!(call, cancel).0
}

/// Checks that numbers and texts of a call pass both ways as they were written.
pub(crate) async fn check_echo(server: &McpServer) {
    let arguments = r#"{"z":12345678901234567890123, "a":1.0,"ü":"\u00fc"}"#;
    let result = server.call("echo", arguments, &context()).await.unwrap();
    assert_eq!(result.structured(), Some(&*format!(r#"{{"given":{arguments}}}"#)));
    assert!(result.raw().ends_with(r#""_meta":{"x":1.50},"unknown":[1e2]}"#), "{}", result.raw());
}

/// Checks that the caller hears of the progress of its call.
pub(crate) async fn check_progress(server: &McpServer) {
    let (listening, lines) = listening();
    assert_eq!(server.call("progress", "{}", &listening).await.unwrap().text(), "done");
    let lines: Vec<String> =
        lines.lock().unwrap().iter().map(|(id, line)| format!("{id} {line}")).collect();
    assert_eq!(lines, ["c1 1 of 2: step", "c1 2 of 2: step"]);
}

/// Events that a server caused.
pub(crate) type Events = Arc<Mutex<Vec<McpEvent>>>;

/// Options that note events.
pub(crate) fn options() -> (ServerOptions, Events) {
    let events = Events::default();
    let sink = Arc::clone(&events);
    let listener = Listener::new(move |event| sink.lock().unwrap().push(event));
    (ServerOptions { listener, ..ServerOptions::default() }, events)
}

/// A server that was started, with its pages of tools.
pub(crate) struct Started {
    server: McpServer,
    pub(crate) pages: PathBuf,
    _folder: tempfile::TempDir,
}

impl std::ops::Deref for Started {
    type Target = McpServer;

    fn deref(&self) -> &McpServer {
        &self.server
    }
}

/// Starts a server with these pages of tools.
pub(crate) async fn start(pages: &[&str], options: ServerOptions) -> Started {
    start_as("script", pages, options).await
}

/// Starts such a server under a label.
pub(crate) async fn start_as(label: &str, pages: &[&str], options: ServerOptions) -> Started {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pages.jsonl");
    std::fs::write(&file, pages.join("\n")).unwrap();
    let server = McpServer::start(label, command(&file), options).await.unwrap();
    Started { server, pages: file, _folder: folder }
}

/// A message of the client.
#[derive(Deserialize)]
pub(crate) struct ClientMessage<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) method: String,
    #[serde(borrow)]
    pub(crate) params: Option<Params<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Params<'a> {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) cursor: Option<String>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
    #[serde(rename = "_meta", default)]
    pub(crate) meta: serde_json::Value,
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A client that left does not read any more.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn answer(id: &str, answer: &str) {
    say(&result(id, answer));
}

pub(crate) fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(crate) fn text(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)
}

/// The result of a call that gives back its arguments.
pub(crate) fn echo(params: &Params<'_>) -> String {
    let given = params.arguments.map_or("null", RawValue::get);
    format!(
        r#"{{"content":[],"structuredContent":{{"given":{given}}},"_meta":{{"x":1.50}},"unknown":[1e2]}}"#
    )
}

/// What is reported of the progress of a call, in two steps.
pub(crate) fn steps(params: &Params<'_>) -> [String; 2] {
    let token = &params.meta["progressToken"];
    [1, 2].map(|done| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{done},"total":2,"message":"step"}}}}"#
        )
    })
}

/// No test of its own: the server that the others start.
#[test]
fn serve() {
    let Some(file) = std::env::var_os(VARIABLE) else { return };
    say("");
    let mut cancelled = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let request: ClientMessage<'_> = serde_json::from_str(&line).unwrap();
        let id = request.id.map(RawValue::get).unwrap_or_default();
        match (request.method.as_str(), request.params) {
            ("initialize", Some(params)) => {
                let version = params.version.unwrap();
                answer(
                    id,
                    &format!(
                        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"script","version":"1"}}}}"#
                    ),
                );
            }
            ("tools/list", params) => {
                let pages = std::fs::read_to_string(&file).unwrap();
                let pages: Vec<&str> = pages.lines().collect();
                let cursor = params.and_then(|params| params.cursor);
                let at: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                if pages[0] == "endless" {
                    let page = pages[1];
                    answer(id, &format!(r#"{{"tools":{page},"nextCursor":"{}"}}"#, at + 1));
                    continue;
                }
                let next = match pages.get(at + 1) {
                    Some(&"again") => format!(r#","nextCursor":"{at}""#),
                    Some(_) => format!(r#","nextCursor":"{}""#, at + 1),
                    None => String::new(),
                };
                answer(id, &format!(r#"{{"tools":{}{next}}}"#, pages[at]));
            }
            ("tools/call", Some(params)) => call(id, &params, cancelled),
            ("notifications/cancelled", _) => cancelled += 1,
            _ => {}
        }
    }
    std::process::exit(0);
}

#[allow(clippy::zombie_processes, reason = "what a server leaves behind is what is tested")]
fn call(id: &str, params: &Params<'_>, cancelled: u32) {
    match params.name.as_str() {
        "echo" => answer(id, &echo(params)),
        "fail" => {
            answer(id, r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#)
        }
        "refuse" => say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"bad arguments"}}}}"#
        )),
        "crash" => {
            eprintln!("out of cheese");
            std::process::exit(3);
        }
        "hang" => {}
        "cancelled" => answer(id, &text(&cancelled.to_string())),
        "garbage" => {
            say("this is no JSON");
            say(r#"{"jsonrpc":"2.0"}"#);
            say(r#"{"jsonrpc":"2.0","id":"unasked","result":{}}"#);
            answer(id, &text("first"));
            answer(id, &text("second"));
        }
        "environment" => {
            let names = std::env::vars_os().map(|(name, _)| name.into_string().unwrap());
            answer(id, &text(&names.collect::<Vec<_>>().join(" ")));
        }
        "spawn" => {
            let child = std::process::Command::new("sleep")
                .arg("600")
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            answer(id, &text(&child.id().to_string()));
        }
        "huge" => answer(id, &text(&"x".repeat(200_000))),
        "nonsense" => answer(id, "[1]"),
        "progress" => {
            steps(params).iter().for_each(|line| say(line));
            answer(id, &text("done"));
        }
        "loud" => {
            let token = &params.meta["progressToken"];
            for length in [100_000, 2_000_000] {
                let message = "x".repeat(length);
                say(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"message":"{message}"}}}}"#
                ));
            }
            answer(id, &text("done"));
        }
        "change" => {
            say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
            say(
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"changed"}}"#,
            );
            answer(id, &text("changed"));
        }
        other => answer(id, &text(&format!("unknown {other}"))),
    }
}
