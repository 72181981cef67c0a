//! One session and two turns at once.

use std::future::{Future, pending};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tract_core::{CancellationToken, ToolContext, block_on};
use tract_tools::dispatch::{CallContext, Dispatcher, Outcome, Turn};
use tract_tools::session::{SessionError, SessionItem};
use tract_tools::{Call, EventType, Registry, Session, ToolError, tool};

use super::support::{Turns, together, yield_once};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Added(u32);

impl SessionItem for Added {
    const NAME: &'static str = "added";
}

impl EventType for Added {
    const KIND: &'static str = "added";
}

/// Adds a number, lets others run, and may fail then.
#[tool]
async fn add(number: u32, fails: bool, context: &ToolContext) -> Result<String, ToolError> {
    context.publish(Added(number))?;
    for _ in 0..3 {
        yield_once().await;
    }
    if fails { Err(ToolError::other("no")) } else { Ok("added".to_owned()) }
}

/// Adds a number, and never comes back.
#[tool]
async fn hang(context: &ToolContext) -> Result<String, ToolError> {
    context.publish(Added(99))?;
    pending().await
}

/// Runs a call of its own on the session that it was lent.
#[tool]
async fn delegate(context: &ToolContext) -> Result<String, ToolError> {
    let session = context.session().ok_or_else(|| ToolError::other("no session"))?;
    let turn = Turn::new().session(Arc::new(session.clone()));
    let ran = dispatcher().run(call(7, false), &turn).await;
    Ok(ran.answers.into_iter().map(|answer| answer.text).collect())
}

fn dispatcher() -> Dispatcher {
    let registry = Registry::builder().tool(Add).tool(Hang).tool(Delegate).build().unwrap();
    Dispatcher::new(Arc::new(registry))
}

fn call(number: u32, fails: bool) -> Call {
    Call::new("c1", "add", format!(r#"{{"number":{number},"fails":{fails}}}"#))
}

fn turn(session: &Session) -> Turn {
    Turn::new().session(Arc::new(session.clone()))
}

#[test]
fn a_turn_that_fails_keeps_what_another_one_did_on_the_same_session() {
    for fails_first in [true, false] {
        let (session, dispatcher) = (Session::new(), dispatcher());
        let (one, other) = (turn(&session), turn(&session));
        let turns: Turns<'_> = vec![
            Box::pin(dispatcher.run(call(1, fails_first), &one)),
            Box::pin(dispatcher.run(call(2, !fails_first), &other)),
        ];
        let ran = together(turns, |_| {});
        assert_ne!(ran[0].answers[0].is_error, ran[1].answers[0].is_error, "one fails");
        let kept = if fails_first { 2 } else { 1 };
        assert_eq!(*session.all::<Added>().unwrap(), [Added(kept)]);
        assert_eq!(session.held_by(), None);
    }
}

#[test]
fn a_turn_that_may_not_wait_longer_runs_nothing_and_learns_who_has_the_session() {
    let (session, dispatcher) = (Session::new(), dispatcher());
    let first = turn(&session);
    let mut hangs = Box::pin(dispatcher.run(Call::new("c1", "hang", "{}"), &first));
    assert!(hangs.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let token = CancellationToken::new();
    token.cancel();
    let second = turn(&session).context(ToolContext::new("").with_cancellation(token.clone()));
    let ran = block_on(dispatcher.run(call(1, false), &second));
    assert_eq!(ran.answers[0].outcome(), Outcome::Cancelled);
    assert_eq!(*session.all::<Added>().unwrap(), [Added(99)], "the first one works on");
    let refused = block_on(session.hold("me", Some(Duration::ZERO), &CancellationToken::new()));
    match refused.unwrap_err() {
        SessionError::Held { by } => assert_eq!(by, r#"a turn of "main""#),
        error => panic!("{error}"),
    }
    // A turn that is dropped gives the session back as it found it.
    drop(hangs);
    let ran = block_on(dispatcher.run(call(1, false), &turn(&session)));
    assert!(!ran.answers[0].is_error);
    assert_eq!(*session.all::<Added>().unwrap(), [Added(1)]);
}

#[test]
fn a_call_runs_calls_of_its_own_on_the_session_that_it_was_lent() {
    let (session, dispatcher) = (Session::new(), dispatcher());
    let ran = block_on(dispatcher.run(Call::new("c1", "delegate", "{}"), &turn(&session)));
    assert_eq!(ran.answers[0].text, "added");
    assert_eq!(*session.all::<Added>().unwrap(), [Added(7)]);
}
