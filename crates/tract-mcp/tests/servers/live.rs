use std::path::{Path, PathBuf};
#[cfg(feature = "http")]
use std::process::Command;
use std::time::Duration;

use tract_mcp::{McpError, McpServer, ServerCommand, ServerOptions};

use crate::script::{call_cancelled, context};

/// The servers that a test needs: `TRACT_MCP_SERVERS` names the `node_modules` folder with them,
/// which `.ci/run` installs. Without it the test is left out, which in continuous integration is a
/// failure: the tests themselves need no network.
fn servers() -> Option<PathBuf> {
    let Some(modules) = std::env::var_os("TRACT_MCP_SERVERS").map(PathBuf::from) else {
        assert!(std::env::var_os("CI").is_none(), "set TRACT_MCP_SERVERS, as .ci/run does");
        println!("left out: the live MCP servers; TRACT_MCP_SERVERS names their folder");
        return None;
    };
    let modules = modules.join("@modelcontextprotocol");
    for name in ["server-everything", "server-filesystem", "server-memory"] {
        let program = modules.join(name).join("dist/index.js");
        assert!(program.is_file(), "{} is missing: run npm as .ci/run does", program.display());
    }
    Some(modules)
}

async fn start(modules: &Path, name: &str, args: &[&Path]) -> McpServer {
    let command = ServerCommand::new("node")
        .args([modules.join(name).join("dist/index.js")])
        .args(args.iter().map(|path| path.as_os_str()));
    let options =
        ServerOptions { handshake_timeout: Duration::from_secs(120), ..ServerOptions::default() };
    McpServer::start(name, command, options).await.unwrap()
}

#[tokio::test]
async fn server_everything_lists_calls_fails_and_is_cancelled() {
    let Some(modules) = servers() else { return };
    let server = start(&modules, "server-everything", &[]).await;
    let listing = server.tools().await.unwrap();
    assert!(listing.refused.is_empty(), "{:?}", listing.refused);
    assert!(listing.tools.iter().any(|tool| tool.origin() == "echo"));
    let answer = server.call("echo", r#"{"message":"hej"}"#, &context()).await.unwrap();
    assert_eq!(answer.text(), "Echo: hej");
    let bad = server.call("echo", r#"{"message":7}"#, &context()).await;
    let failed = match &bad {
        Ok(result) => result.is_error(),
        Err(error) => matches!(error, McpError::Refused { .. }),
    };
    assert!(failed, "{bad:?}");
    let long = listing.tools.iter().find(|tool| tool.origin().contains("long-running"));
    let long = long.expect("it has a long operation").origin().to_owned();
    let done = call_cancelled(&server, &long, r#"{"duration":600,"steps":600}"#, 300).await;
    assert!(matches!(done, Err(McpError::Cancelled)), "{done:?}");
    let answer = server.call("echo", r#"{"message":"still here"}"#, &context()).await.unwrap();
    assert_eq!(answer.text(), "Echo: still here");
    server.close().await;
}

#[tokio::test]
async fn server_filesystem_reads_writes_and_refuses() {
    let Some(modules) = servers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let server = start(&modules, "server-filesystem", &[&root]).await;
    assert!(server.tools().await.unwrap().tools.len() > 5);
    let path = root.join("notes.txt");
    let arguments = |path: &Path, more: &str| {
        format!(r#"{{"path":{}{more}}}"#, serde_json::to_string(&path).unwrap())
    };
    let write = arguments(&path, r#","content":"åäö\n""#);
    assert!(!server.call("write_file", &write, &context()).await.unwrap().is_error());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "åäö\n");
    let read = server.call("read_text_file", &arguments(&path, ""), &context()).await.unwrap();
    assert_eq!(read.text(), "åäö\n");
    let outside = arguments(Path::new("/etc/hostname"), "");
    let refused = server.call("read_text_file", &outside, &context()).await.unwrap();
    assert!(refused.is_error(), "{}", refused.text());
    assert!(!refused.into_tool_result().unwrap().success);
    server.close().await;
}

#[tokio::test]
async fn server_memory_is_started_again_after_a_crash() {
    let Some(modules) = servers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("memory.jsonl");
    // It is killed from inside: a module that ends the process when a file appears.
    let kill = folder.path().join("kill.cjs");
    let flag = folder.path().join("die");
    std::fs::write(
        &kill,
        "const fs = require('fs');\n\
         setInterval(() => { if (fs.existsSync(process.env.DIE)) { fs.unlinkSync(process.env.DIE); process.exit(9); } }, 20).unref();\n",
    )
    .unwrap();
    let mut command = ServerCommand::new("node")
        .args(["--require".as_ref(), kill.as_os_str()])
        .args([modules.join("server-memory/dist/index.js")]);
    command.env =
        [("MEMORY_FILE_PATH", &memory), ("DIE", &flag)].map(|(k, v)| (k.into(), v.into())).into();
    let options =
        ServerOptions { handshake_timeout: Duration::from_secs(120), ..ServerOptions::default() };
    let server = McpServer::start("memory", command, options).await.unwrap();
    let entity =
        r#"{"entities":[{"name":"tract","entityType":"tool","observations":["remembers"]}]}"#;
    let made = server.call("create_entities", entity, &context()).await.unwrap();
    assert!(!made.is_error(), "{}", made.text());
    std::fs::write(&flag, "").unwrap();
    while flag.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The end may be noticed before the next call or during it; the call after that runs.
    let graph = match server.call("read_graph", "{}", &context()).await {
        Ok(graph) => graph,
        Err(error) => {
            assert_eq!(error.code(), "mcp_ended", "{error}");
            server.call("read_graph", "{}", &context()).await.unwrap()
        }
    };
    assert!(graph.text().contains("remembers"), "{}", graph.text());
    assert!(server.tools_changed(), "it was started again");
    server.close().await;
}

/// A server of Node's that listens at a port; it ends with the test.
#[cfg(feature = "http")]
struct Listening(std::process::Child, tract_mcp::ServerUrl);

#[cfg(feature = "http")]
impl Listening {
    async fn start(modules: &Path) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new("node")
            .arg(modules.join("server-everything/dist/index.js"))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut listening =
            Self(child, tract_mcp::ServerUrl::new(format!("http://127.0.0.1:{port}/mcp")));
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(listening.0.try_wait().unwrap().is_none(), "it ended before it listened");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        listening
    }
}

#[cfg(feature = "http")]
impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(feature = "http")]
#[tokio::test]
async fn server_everything_does_the_same_over_http() {
    let Some(modules) = servers() else { return };
    let listening = Listening::start(&modules).await;
    let options =
        ServerOptions { handshake_timeout: Duration::from_secs(120), ..ServerOptions::default() };
    let server = McpServer::connect("everything", listening.1.clone(), options).await.unwrap();
    let stdio = start(&modules, "server-everything", &[]).await;
    let texts = |listing: &tract_mcp::Listing| -> Vec<String> {
        listing.tools.iter().map(|tool| tool.definition().text().to_owned()).collect()
    };
    let listing = server.tools().await.unwrap();
    assert_eq!(texts(&listing), texts(&stdio.tools().await.unwrap()), "over every transport");
    stdio.close().await;
    let answer = server.call("echo", r#"{"message":"hej"}"#, &context()).await.unwrap();
    assert_eq!(answer.text(), "Echo: hej");
    let long = listing.tools.iter().find(|tool| tool.origin().contains("long-running"));
    let long = long.expect("it has a long operation").origin().to_owned();
    let (context, progress) = crate::script::listening();
    let done = server.call(&long, r#"{"duration":1,"steps":2}"#, &context).await.unwrap();
    assert!(!done.is_error(), "{}", done.text());
    assert!(
        progress.lock().unwrap().iter().any(|(_, line)| line.starts_with("1 of 2")),
        "{progress:?}"
    );
    let done = call_cancelled(&server, &long, r#"{"duration":600,"steps":600}"#, 300).await;
    assert!(matches!(done, Err(McpError::Cancelled)), "{done:?}");
    // After its session was ended the next call begins another.
    server.close().await;
    let answer = server.call("echo", r#"{"message":"still here"}"#, &context).await.unwrap();
    assert_eq!(answer.text(), "Echo: still here");
    server.close().await;
}
