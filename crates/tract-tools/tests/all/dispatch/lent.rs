use std::sync::Arc;

use async_trait::async_trait;
use tract_core::{ChatModel, Content, ModelError, ModelRequest, Reply, ToolContext, block_on};
use tract_tools::dispatch::{CallContext, Dispatcher, Turn};
use tract_tools::{Call, Registry, Session, ToolError, hydrate, tool};

struct Parrot;

#[async_trait]
impl ChatModel for Parrot {
    async fn chat(&self, _: &ModelRequest) -> Result<Reply, ModelError> {
        Ok(Reply::new(Content::assistant("squawk")))
    }
}

/// Asks the model of the turn.
#[tool]
async fn ask(context: &ToolContext) -> Result<String, ToolError> {
    let session = context.session().is_some() && context.resource::<Session>().is_ok();
    let Some(model) = context.model() else { return Ok(format!("no model, session {session}")) };
    let reply =
        model.chat(&ModelRequest::default()).await.map_err(|_| ToolError::other("silent"))?;
    Ok(format!("{}, session {session}", reply.text()))
}

#[test]
fn a_turn_lends_its_session_and_its_model_to_each_call() {
    let registry = Arc::new(Registry::builder().tool(Ask).build().unwrap());
    let dispatcher = Dispatcher::new(Arc::clone(&registry));
    let answer = |turn: Turn| {
        let hydrated = hydrate(Call::new("c1", "ask", "{}"), &registry);
        block_on(dispatcher.dispatch(hydrated, &turn)).answers.remove(0).text
    };
    let session = || Arc::new(Session::new());
    assert_eq!(answer(Turn::default()), "no model, session false");
    assert_eq!(
        answer(Turn { session: Some(session()), ..Turn::default() }),
        "no model, session true"
    );
    let whole = Turn { model: Some(Arc::new(Parrot)), session: Some(session()), ..Turn::default() };
    assert_eq!(answer(whole), "squawk, session true");
}
