//! An agent with the tools of an MCP server, which runs as a program of its own.
//!
//! `cargo run -p tract --example mcp_agent --features run,mcp` starts itself as the server: notes
//! in memory. Any other server: `-- npx -y @modelcontextprotocol/server-memory`.
//!
//! With feature `http` and `TRACT_MODEL=openai/gpt-5.5` (and its key) a real model is asked; else a
//! script says what to do with the notes.

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex};

use tract::core::{DynTool as _, ModelRequest};
use tract::mcp::{McpServer, ServerCommand, ServerOptions, distinct_names};
use tract::prelude::*;
use tract::tools::Registry;
use tract::{ChatModel, ModelError, Reply};

/// A model that reads from a script.
struct Script(Mutex<std::vec::IntoIter<Draft>>);

#[tract::tools::async_trait]
impl ChatModel for Script {
    async fn chat(&self, _: &ModelRequest) -> Result<Reply, ModelError> {
        let mut left = self.0.lock().map_err(|_| ModelError::other("the script is torn"))?;
        let next = left.next().map(|draft| Reply::new(draft.content));
        next.ok_or_else(|| ModelError::other("the script is at its end"))
    }
}

fn model() -> Result<Arc<dyn ChatModel>, Box<dyn Error>> {
    #[cfg(feature = "http")]
    if let Ok(name) = std::env::var("TRACT_MODEL") {
        return Ok(Arc::new(tract::models::HttpModel::from_env(&name)?));
    }
    let call =
        |id: &str, name: &str, arguments: &str| Draft::assistant("").call(id, name, arguments);
    let replies = vec![
        call("c1", "add_note", r#"{"text":"buy milk"}"#),
        call("c2", "add_note", "{}").call("c3", "list_notes", "{}"),
        Draft::assistant("There is one note: buy milk."),
    ];
    Ok(Arc::new(Script(Mutex::new(replies.into_iter()))))
}

/// Runs the agent to its end; returns how its calls ended, and what it said last.
pub(crate) async fn conversation(command: ServerCommand) -> Result<Vec<String>, Box<dyn Error>> {
    let tract = tract::open("memory:").await?;
    let server = McpServer::start("notes", command, ServerOptions::default()).await?;

    // The definitions stay as the server wrote them. What it says of itself can only restrict:
    // to rely on `readOnlyHint`, say so with `ServerOptions::trust_annotations`. What was approved
    // in the repository (`tract tools pin`) the agent heeds by itself.
    let mut tools = Registry::builder();
    for tool in distinct_names(server.tools().await?.tools) {
        let definition = tool.spec().definition();
        tools = tools.definition_with(&definition, Arc::new(tool));
    }

    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let agent = tract.agent(model()?, tools.build()?).max_steps(20).on_progress(move |progress| {
        if let (tract::run::Progress::Answered(answered), Ok(mut lines)) = (progress, sink.lock()) {
            lines.push(format!("{} {}: {}", answered.tool_name, answered.outcome, answered.text));
        }
    });
    let report = agent.run("Note that I have to buy milk.").await?;
    server.close().await;

    let mut lines = events.lock().map(|lines| lines.clone()).unwrap_or_default();
    lines.push(report.text);
    Ok(lines)
}

/// The server: a line in, a line out. A real one is made with an SDK; this is all that it takes.
pub(crate) fn serve() -> Result<(), Box<dyn Error>> {
    use serde_json::{Value, json};
    let tools = json!([
        {"name": "add_note", "description": "Adds a note.", "inputSchema": {"type": "object",
            "properties": {"text": {"type": "string"}}, "required": ["text"]}},
        {"name": "list_notes", "description": "Lists all notes.",
            "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
    ]);
    let mut notes: Vec<String> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let params = &message["params"];
        let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
        let result = match (message["method"].as_str(), params["name"].as_str()) {
            (Some("initialize"), _) => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }),
            (Some("tools/list"), _) => json!({ "tools": tools }),
            (Some("tools/call"), Some("add_note")) => {
                notes.extend(params["arguments"]["text"].as_str().map(str::to_owned));
                text(format!("{} note(s)", notes.len()))
            }
            (Some("tools/call"), Some("list_notes")) => text(notes.join("\n")),
            _ => Value::Null,
        };
        // Notifications have no id, and no answer.
        let Some(id) = message.get("id") else { continue };
        let mut answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        if result.is_null() {
            let error = json!({"code": -32601, "message": "method not found"});
            answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

#[allow(dead_code)] // the tests run the conversation itself
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments.split_first() {
        Some((word, [])) if word == "serve" => return serve(),
        Some((program, arguments)) => ServerCommand::new(program).args(arguments),
        None => ServerCommand::new(std::env::current_exe()?).args(["serve"]),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for line in runtime.block_on(conversation(command))? {
        println!("{line}");
    }
    Ok(())
}
