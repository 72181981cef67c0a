//! Hooks of one's own: what may not run does not, what is long is shortened before the model reads
//! it, and every move of the branch is reported.
//!
//! `cargo run -p tract --example custom_hook --features run`

use std::error::Error;
use std::sync::{Arc, Mutex};

use tract::core::ModelRequest;
use tract::hooks::{
    BeforeDispatch, DispatchAction, Hooks, RefMoved, RefMovedAction, ToolResultAction,
    ToolResultReceived,
};
use tract::prelude::*;
use tract::tools::{Registry, tool};
use tract::{ChatModel, Content, ModelError, OpenOptions, Part, Reply};

/// Runs a command of the shell.
#[tool]
async fn shell(command: String) -> String {
    match command.as_str() {
        "cargo test" => (1..=400).map(|n| format!("test number_{n} ... ok\n")).collect(),
        other => format!("ran {other}"),
    }
}

/// How many lines of a result the model reads; all of them stay in the history.
const LINES: usize = 3;

fn hooks(moves: &Arc<Mutex<Vec<String>>>) -> Hooks {
    let sink = Arc::clone(moves);
    Hooks::new()
        // Asked right before a call runs. The first answer that is not `Pass` decides.
        .on("no-force", |event: &BeforeDispatch| {
            if event.call.name == "shell" && event.call.arguments.contains("--force") {
                DispatchAction::Refuse("nothing is forced here".to_owned())
            } else {
                DispatchAction::Pass
            }
        })
        // Asked before a result is committed.
        .on("short", |event: &ToolResultReceived| {
            let texts = event.parts.iter().filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            });
            let text: String = texts.collect();
            let lines = text.lines().count();
            if lines <= LINES {
                return ToolResultAction::Pass;
            }
            let first: Vec<&str> = text.lines().take(LINES).collect();
            let rest = lines - LINES;
            ToolResultAction::edit(format!("{}\n… and {rest} lines more", first.join("\n")))
        })
        // Reports what has happened: nothing can be changed any more.
        .on("tell", move |event: &RefMoved| {
            if let Ok(mut moves) = sink.lock() {
                moves.push(event.entry.name.to_string());
            }
            RefMovedAction::Pass
        })
}

/// Asks for two commands, and then has nothing to say.
struct Script;

#[tract::tools::async_trait]
impl ChatModel for Script {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let answered = request
            .messages
            .iter()
            .any(|message| matches!(message.content, Content::ToolResult(_)));
        Ok(Reply::new(if answered {
            Content::assistant("The tests pass.")
        } else {
            Draft::assistant("")
                .call("c1", "shell", r#"{"command":"git push --force"}"#)
                .call("c2", "shell", r#"{"command":"cargo test"}"#)
                .content
        }))
    }
}

/// What the model read of each call, and which refs moved.
pub(crate) async fn conversation() -> Result<(Vec<String>, Vec<String>), Box<dyn Error>> {
    let moves = Arc::new(Mutex::new(Vec::new()));
    let tract = OpenOptions::new().hooks(hooks(&moves)).open("memory:").await?;
    let tools = Registry::builder().tool(Shell).build()?;
    let agent = tract.agent(Arc::new(Script), tools);
    let report = agent.run("Do the tests pass? Then push.").await?;
    assert_eq!(report.text, "The tests pass.");

    let compiled = tract.compile().await?;
    let mut read = Vec::new();
    for message in compiled.messages() {
        if let Content::ToolResult(_) = &message.content {
            read.push(message.content.text());
            // What the model did not read is still readable.
            if let Some(original) = tract.expand(message.commit).await? {
                assert_eq!(original.text().lines().count(), 400);
            }
        }
    }
    let moves = moves.lock().map(|moves| moves.clone()).unwrap_or_default();
    Ok((read, moves))
}

#[allow(dead_code)] // the tests run the conversation itself
fn main() -> Result<(), Box<dyn Error>> {
    let (read, moves) = tract::block_on(conversation())?;
    for text in read {
        println!("the model read:\n{text}\n");
    }
    println!("moved: {}", moves.join(", "));
    Ok(())
}
