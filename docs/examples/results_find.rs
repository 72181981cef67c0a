use tract::engine::ToolQuery;
use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    tract.commit(Draft::assistant("").call("c1", "grep", "{}").call("c2", "ls", "{}")).await?;
    tract.tool_result("c1", "src/main.rs:7: fn main() {").await?;

    let turns: Vec<_> = tract.turns().find(&ToolQuery::named(["grep"])).await?.collect();
    assert_eq!((turns[0].results.len(), turns[0].open_calls()), (1, 1));
    Ok(())
}
