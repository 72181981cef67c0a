use tract::hooks::ToolSummarization;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    let config = ToolSummarization::new().tool("grep", "keep file names").auto_threshold(800);
    tract.repo().configure_tool_summarization(Some(&config)).await?;
    assert!(tract.repo().tool_summarization().await?.is_some());
    Ok(())
}
