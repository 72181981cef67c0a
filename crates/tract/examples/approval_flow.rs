//! An agent that may not pay by itself: it pauses, the process ends, a person approves, another
//! process continues.
//!
//! `cargo run -p tract --example approval_flow --features run` does all three, each in a process of
//! its own. One at a time, on a store that stays: `-- ask DIRECTORY`, `-- approve DIRECTORY`,
//! `-- resume DIRECTORY`.
//!
//! With feature `http` and `TRACT_MODEL=openai/gpt-5.5` (and its key) a real model is asked.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tract::core::ModelRequest;
use tract::prelude::*;
use tract::tools::policy::ApprovalRequired;
use tract::tools::{Registry, ToolContext, ToolError, tool};
use tract::{ChatModel, Content, ModelError, OpenOptions, Reply};

/// Where payments are written down.
struct Ledger(PathBuf);

/// Pays a sum, in euros.
#[tool(destructive)]
async fn pay(to: String, sum: u32, context: &ToolContext) -> Result<String, ToolError> {
    let path = &context.resource::<Ledger>()?.0;
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{sum} to {to}"));
    written.map_err(|error| ToolError::other("the payment failed").operator(error.to_string()))?;
    Ok(format!("paid {sum} to {to}"))
}

/// Says what a model would, from what it is asked alone: so it continues in another process.
struct Clerk;

#[tract::tools::async_trait]
impl ChatModel for Clerk {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let last = request.messages.last().map(|last| &last.content);
        Ok(Reply::new(match last {
            Some(Content::ToolResult(answer)) if answer.is_error => {
                Content::assistant("The rent is not paid.")
            }
            Some(Content::ToolResult(_)) => Content::assistant("The rent is paid."),
            _ => Draft::assistant("").call("c1", "pay", r#"{"to":"landlord","sum":900}"#).content,
        }))
    }
}

fn model() -> Result<Arc<dyn ChatModel>, Box<dyn Error>> {
    #[cfg(feature = "http")]
    if let Ok(name) = std::env::var("TRACT_MODEL") {
        return Ok(Arc::new(tract::models::HttpModel::from_env(&name)?));
    }
    Ok(Arc::new(Clerk))
}

/// One step, as a process takes it: it opens the store, and knows nothing but what is in there.
pub(crate) async fn step(word: &str, folder: &Path) -> Result<String, Box<dyn Error>> {
    let store = format!("sqlite:{}", folder.join("agent.db").display());
    let tract = OpenOptions::new().create(word == "ask").open(&store).await?;
    let tools = Registry::builder().tool(Pay).build()?;
    let tool_context = ToolContext::new("").with_resource(Ledger(folder.join("ledger.txt")));
    let agent = tract
        .agent(model()?, tools)
        .context(tool_context)
        .policy(ApprovalRequired::of_destructive());
    let summary = match word {
        "ask" => {
            let report = agent.run("Pay the landlord 900 euros.").await?;
            format!("{}: {} call(s) to decide", report.stop.code(), report.pending.len())
        }
        // On the command line: `tract pending` and `tract pending approve ID`.
        "approve" => {
            let waiting = tract.pending().list().await?;
            let first = waiting.first().ok_or("nothing waits")?;
            tract.pending().approve(&first.id).await?;
            format!("approved {}", first.request.describe())
        }
        "resume" => {
            let report = agent.run(None).await?;
            format!("{}: {}", report.stop.code(), report.text)
        }
        other => return Err(format!("expected ask, approve or resume, found {other:?}").into()),
    };
    tract.store().close().await?;
    Ok(summary)
}

fn take(word: &str, folder: &Path) -> Result<String, Box<dyn Error>> {
    // A client for HTTP wants this runtime; without one, `tract::block_on` does.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(step(word, folder))
}

#[allow(dead_code)] // the tests take the steps themselves
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, folder] = &arguments[..] {
        println!("{}", take(word, Path::new(folder))?);
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    for word in ["ask", "approve", "resume"] {
        let process =
            Command::new(std::env::current_exe()?).arg(word).arg(folder.path()).status()?;
        if !process.success() {
            return Err(format!("{word} failed").into());
        }
    }
    print!("ledger: {}", std::fs::read_to_string(folder.path().join("ledger.txt"))?);
    Ok(())
}
