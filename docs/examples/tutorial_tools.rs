use std::sync::Arc;

use tract::prelude::*;
use tract::tools::dispatch::{Dispatcher, Turn};
use tract::tools::{Registry, tool};

/// Returns the weather in a city.
#[tool(read_only)]
async fn get_weather(
    /// The name of the city.
    city: String,
) -> String {
    format!("{city}: 11 °C, rain")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tract = tract::open("memory:").await?;
    let tools = Arc::new(Registry::builder().tool(GetWeather).build()?);
    tract.set_tools(tools.iter().map(|tool| tool.definition().schema().clone())).await?;
    tract.user("Do I need a coat in Paris?").await?;

    let request = tract.compile().await?.to_openai_params()?.with("model", "gpt-5.5");
    let body = r#"{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant",
        "content":null,"tool_calls":[{"id":"c1","type":"function","function":{
        "name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]}}]}"#;
    let reply = request.reply(body)?;
    tract.commit(&reply).await?;

    // Each call is checked against its schema, run, and gets exactly one answer.
    let done = Dispatcher::new(tools).run(&reply, &Turn::default()).await;
    let results =
        done.answers.iter().map(|answer| Draft::tool_result(&answer.call_id, &answer.text));
    tract.commit_all(results).await?;
    println!("{}", tract.compile().await?.to_openai_params()?.to_json());
    Ok(())
}
