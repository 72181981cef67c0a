use tract::hooks::{BeforeCommit, CommitAction, Hooks, ToolResultAction, ToolResultReceived};
use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let hooks = Hooks::new()
        .on("no-secrets", |event: &BeforeCommit| {
            if event.draft.content.text().contains("sk-") {
                CommitAction::Reject("it contains an API key".to_owned())
            } else {
                CommitAction::Pass
            }
        })
        .on("short", |event: &ToolResultReceived| match event.token_count {
            0..=800 => ToolResultAction::Pass,
            tokens => ToolResultAction::edit(format!("{tokens} tokens were left out")),
        });
    let tract = tract::open("memory:").await?.with_hooks(hooks);

    let refused = tract.user("My key is sk-1234").await;
    assert_eq!(refused.map_err(|error| error.code()).err(), Some("rejected_by_hook"));

    tract.commit(Draft::assistant("").call("c1", "read", "{}")).await?;
    let result = tract.tool_result("c1", "word ".repeat(5000)).await?;
    let original = tract.expand(&result).await?; // the original is kept
    assert_eq!(original.map(|content| content.text().len()), Some(25_000));
    Ok(())
}
