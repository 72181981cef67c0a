use std::collections::BTreeMap;

use tract::hooks::ToolSummarization;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    let config = ToolSummarization {
        instructions: BTreeMap::from([("grep".to_owned(), "keep file names".to_owned())]),
        auto_threshold: Some(800),
        ..ToolSummarization::default()
    };
    tract.repo().configure_tool_summarization(Some(&config)).await?;
    assert!(tract.repo().tool_summarization().await?.is_some());
    Ok(())
}
