#[cfg(target_os = "linux")]
use std::time::Duration;

use tract_core::ToolContext;
use tract_mcp::{McpServer, ServerOptions};

use crate::script::{command, start};

const NONE: &[&str] = &["[]"];

async fn environment(server: &McpServer) -> Vec<String> {
    let result = server.call("environment", "{}", &ToolContext::new("c1")).await.unwrap();
    result.text().split(' ').map(str::to_owned).collect()
}

/// Cargo sets variables for its tests; they are no business of a server.
#[tokio::test]
async fn a_server_gets_only_the_variables_that_it_needs_or_is_given() {
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "run by cargo");
    let server = start(NONE, ServerOptions::default()).await;
    let names = environment(&server).await;
    let of_cargo: Vec<&String> = names.iter().filter(|name| name.starts_with("CARGO")).collect();
    assert!(of_cargo.is_empty(), "{of_cargo:?}");
    assert!(names.iter().any(|name| name == "PATH"), "{names:?}");
    server.close().await;

    let mut command = command(&server.pages);
    command.inherited = ["CARGO_PKG_NAME", "NOT_SET_ANYWHERE"].map(Into::into).into();
    command.env.insert("OWN".into(), "1".into());
    let server = McpServer::start("script", command, ServerOptions::default()).await.unwrap();
    let names = environment(&server).await;
    for wanted in ["CARGO_PKG_NAME", "OWN"] {
        assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
    }
    for absent in ["CARGO_PKG_VERSION", "NOT_SET_ANYWHERE"] {
        assert!(!names.iter().any(|name| name == absent), "{absent}: {names:?}");
    }
    server.close().await;
}

/// Whether a process runs; one that has ended and was not waited for does not. Read from `/proc`: a
/// bare machine has no `ps`.
#[cfg(target_os = "linux")]
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may contain anything, in parentheses.
    let state = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}

#[cfg(target_os = "linux")]
async fn ends(pid: &str) -> bool {
    for _ in 0..200 {
        if !runs(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn child_processes_end_with_their_server() {
    let context = ToolContext::new("c1");
    for way in ["closed", "dropped", "crashed"] {
        let server = start(NONE, ServerOptions::default()).await;
        let pid = server.call("spawn", "{}", &context).await.unwrap().text();
        assert!(runs(&pid), "{way}");
        match way {
            "closed" => server.close().await,
            "dropped" => drop(server),
            _ => drop(server.call("crash", "{}", &context).await.unwrap_err()),
        }
        assert!(ends(&pid).await, "{way}: process {pid} survives");
    }
}
