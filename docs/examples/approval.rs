use std::sync::Arc;

use tract::run::Stop;
use tract::tools::{Registry, policy::ApprovalRequired};
use tract::{ChatModel, Content, Draft, ModelError, Reply, core::ModelRequest, tool};

/// Closes a branch of the shop for good.
#[tool(destructive)]
async fn close_shop(city: String) -> String {
    format!("closed {city}")
}

struct Script;

#[tract::tools::async_trait]
impl ChatModel for Script {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        Ok(Reply::new(match request.messages.last().map(|last| &last.content) {
            Some(Content::ToolResult(_)) => Content::assistant("It is done."),
            _ => Draft::assistant("").call("c1", "close_shop", r#"{"city":"Bern"}"#).content,
        }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tract = tract::open("memory:").await?;
    let tools = || Registry::builder().tool(CloseShop).build();
    let agent =
        |tools| tract.agent(Arc::new(Script), tools).policy(ApprovalRequired::of_destructive());
    let report = agent(tools()?).run("Close Bern.").await?;
    assert_eq!(report.stop, Stop::Waiting);

    // Later, perhaps in another process, or on the command line: `tract pending approve ID`.
    tract.repo().approve(&report.pending[0]).await?;
    let report = agent(tools()?).run(None).await?;
    assert_eq!(report.text, "It is done.");
    Ok(())
}
