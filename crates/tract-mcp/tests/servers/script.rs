//! A server that does as its environment says. The test program starts itself with the name of the
//! test below; what libtest prints before are lines that are no messages, as real servers write
//! them, too.

use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_mcp::{McpEvent, McpServer, ServerCommand, ServerOptions};

const VARIABLE: &str = "TRACT_MCP_SCRIPT";

/// The command that starts this program as a server; `tools` is the file with its pages of tools:
/// a line each, JSON lists.
pub(crate) fn command(tools: &std::path::Path) -> ServerCommand {
    ServerCommand::new(std::env::current_exe().unwrap())
        .args(["script::serve", "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, tools.as_os_str())
}

/// Events that a server caused.
pub(crate) type Events = Arc<Mutex<Vec<McpEvent>>>;

/// Options that note events.
pub(crate) fn options() -> (ServerOptions, Events) {
    let events = Events::default();
    let heard = Arc::clone(&events);
    (ServerOptions::new().on_event(move |event| heard.lock().unwrap().push(event)), events)
}

/// Starts a server with these pages of tools.
pub(crate) async fn start(
    folder: &tempfile::TempDir,
    pages: &[&str],
    options: ServerOptions,
) -> McpServer {
    let file = folder.path().join("pages.jsonl");
    std::fs::write(&file, pages.join("\n")).unwrap();
    McpServer::start("script", command(&file), options).await.unwrap()
}

#[derive(Deserialize)]
struct ScriptRequest<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: String,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(default)]
    name: String,
    cursor: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: serde_json::Value,
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A client that left does not read any more.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn answer(id: &str, result: &str) {
    say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
}

fn text(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)
}

/// No test of its own: the server that the others start.
#[test]
fn serve() {
    let Some(file) = std::env::var_os(VARIABLE) else { return };
    say("");
    let mut cancelled = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let asked: ScriptRequest<'_> = serde_json::from_str(&line).unwrap();
        let id = asked.id.map(RawValue::get).unwrap_or_default();
        match (asked.method.as_str(), asked.params) {
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
        "echo" => {
            let given = params.arguments.map_or("null", RawValue::get);
            answer(
                id,
                &format!(
                    r#"{{"content":[],"structuredContent":{{"given":{given}}},"_meta":{{"x":1.50}},"unknown":[1e2]}}"#
                ),
            );
        }
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
            let token = &params.meta["progressToken"];
            for done in 1..=2 {
                say(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{done},"total":2,"message":"step"}}}}"#
                ));
            }
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
