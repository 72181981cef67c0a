use tract::core::{DynTool, ToolContext};
use tract::mcp::{McpServer, PinPolicy, ServerCommand, ServerOptions, distinct_names};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tract = tract::open("memory:").await?;
    let command = ServerCommand::new("npx").args(["-y", "@modelcontextprotocol/server-memory"]);
    let server = McpServer::start("memory", command, ServerOptions::default()).await?;
    let pins = tract.pins().all().await?;
    let tools = distinct_names(server.tools().await?.tools);
    let tools: Vec<_> =
        tools.into_iter().map(|tool| tool.pinned(&pins, PinPolicy::RefuseChanged)).collect();
    tract.set_tools(tools.iter().map(|tool| tool.definition())).await?;
    let answer = tools[0].run(r#"{"entities":[]}"#, &ToolContext::new("c1")).await?;
    println!("{}", answer.model_text());
    server.close().await;
    Ok(())
}
