use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?; // "sqlite:agent.db" keeps it
    tract.system("You are a travel agent. Be brief.").await?;
    let calculate = r#"{"name":"calculate","input_schema":{"type":"object"}}"#;
    tract.set_tools([calculate]).await?; // any provider's shape, kept byte for byte
    let question = tract.user("How much did I save?").await?; // a `Commit`; keep its `id()`
    println!("{} on {}", question.id(), tract.branch_name());

    // Several messages in one durable write: all or none.
    let call = Draft::assistant("").call("c1", "calculate", r#"{"expression":"6594 + 3925"}"#);
    let result = Draft::tool_result("c1", "10519.0").metadata("elapsed_ms", 3)?;
    tract.commit_all([call, result]).await?;

    let context = tract.compile().await?;
    println!("{} messages, {} tools", context.message_count(), context.tools().len());
    assert_eq!(context.message_count(), 4);
    Ok(())
}
