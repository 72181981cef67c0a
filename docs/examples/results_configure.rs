use tract::hooks::ToolSummarization;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    let config = ToolSummarization::new().tool("grep", "keep file names").auto_threshold(800);
    tract.configure_tool_summarization(config).await?;
    assert!(tract.tool_summarization().await?.is_some());
    Ok(())
}
