use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?; // "sqlite:agent.db" is durable when `await` returns
    tract.system("You are a travel agent. Be brief.").await?;
    tract.set_tools([serde_json::json!({"name": "get_weather", "description": "Weather in a city today.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}})]).await?;
    let question = tract.user("Do I need a coat in Paris?").await?;
    tract.commit(Draft::assistant("").call("c1", "get_weather", r#"{"city":"Paris"}"#)).await?;
    tract.tool_result("c1", r#"{"celsius":11,"rain":true}"#).await?;
    let lyon = tract.fork("lyon", &question).await?; // one new ref, nothing is copied
    lyon.edit(&question, "Do I need a coat in Lyon?").await?; // the original keeps its id
    let context = lyon.compile().await?;
    let request = context.to_anthropic_params()?.with("model", "claude-opus-4-7").with("max_tokens", 1024);
    println!("{}", request.to_json()); // system, messages and tools, ready to send
    println!("{}", tract.diff("main", "lyon").await?);
    Ok(())
}
