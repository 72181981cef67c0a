use std::sync::Arc;

use tract::run::Stop;
use tract::tools::planning::{Plan, Planning};
use tract::tools::{Registry, Session};
use tract::{ChatModel, Content, Draft, ModelError, Reply, core::ModelRequest, tool};

/// Returns the temperature in a city.
#[tool(read_only)]
async fn get_weather(city: String) -> String {
    format!("{city}: 20 °C")
}

/// A scripted model, so that this runs anywhere. A real one is `tract::models::HttpModel`.
struct Script;

#[tract::tools::async_trait]
impl ChatModel for Script {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let replies = request.messages.iter();
        let replies = replies.filter(|message| matches!(message.content, Content::Assistant(_)));
        let plan = r#"{"objective":"a coat?","initial_steps":["look"]}"#;
        let step = r#"{"step_id":1,"status":"done","note":"warm"}"#;
        let draft = match replies.count() {
            0 => Draft::assistant("").call("c1", "planning_setup_plan", plan),
            1 => {
                let look = Draft::assistant("").call("c2", "get_weather", r#"{"city":"Bern"}"#);
                look.call("c3", "planning_update_step", step)
            }
            _ => Draft::assistant("No coat."),
        };
        Ok(Reply::new(draft.content))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tract = tract::open("memory:").await?;
    let session = Session::new();
    let mut tools = Registry::builder().tool(GetWeather);
    for tool in Planning::new(&session)?.tools() {
        tools = tools.dyn_tool(tool);
    }
    let agent = tract.agent(Arc::new(Script), tools.build()?).session(&session).max_steps(20);
    let report = agent.run("Do I need a coat in Bern?").await?;
    assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "No coat."));
    assert_eq!((report.steps, report.calls), (3, 3));

    // What the tools remember is on the branch, and travels with it through time.
    let later = Session::new();
    tract::run::load_session(tract.repo(), tract.head().await?, &later).await?;
    assert_eq!(later.latest::<Plan>(), session.latest::<Plan>());

    // The conversation, run again with its own replies and results, is the same.
    assert_eq!(tract.replay("HEAD").await?.difference, None);
    Ok(())
}
