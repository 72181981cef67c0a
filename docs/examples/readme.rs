use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?; // "sqlite:agent.db" is durable when `await` returns
    tract.system("You are a travel agent. Be brief.").await?;
    let weather = r#"{"name":"get_weather","description":"Returns the weather in a city.",
        "input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}"#;
    tract.set_tools([weather]).await?; // any provider's shape, kept byte for byte
    let question = tract.user("Do I need a coat in Paris?").await?;
    tract.commit(Draft::assistant("").call("c1", "get_weather", r#"{"city":"Paris"}"#)).await?;
    tract.tool_result("c1", r#"{"celsius":11,"rain":true}"#).await?;
    let lyon = tract.fork("lyon", &question).await?; // one new ref, nothing is copied
    lyon.edit(&question, "Do I need a coat in Lyon?").await?; // the original keeps its id
    let request = lyon.compile().await?.to_anthropic_params()?;
    let request = request.with("model", "claude-opus-4-7").with("max_tokens", 1024);
    println!("{}", request.to_json()); // system, messages and tools, ready to send
    println!("{}", tract.diff("main", "lyon").await?);
    Ok(())
}
