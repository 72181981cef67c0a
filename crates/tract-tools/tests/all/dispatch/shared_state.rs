//! Resources, state and sessions that several turns share.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tract_core::{CancellationToken, ToolContext, block_on};
use tract_tools::dispatch::{CallContext, Dispatcher, Outcome, Turn};
use tract_tools::resource::{Binding, Resources};
use tract_tools::session::{SessionError, SessionItem};
use tract_tools::snapshot::{BoxError, SavedState, Snapshot};
use tract_tools::{Call, EventType, Registry, Session, ToolError, tool};

use super::support::{Turns, together, yield_once};

/// Numbers that can be put back, as in-memory state of tools is.
#[derive(Default)]
struct Ledger(Mutex<Vec<u32>>);

impl Ledger {
    fn numbers(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}

impl Snapshot for Ledger {
    fn name(&self) -> &str {
        "ledger"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        Ok(SavedState::new(self.numbers()))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        *self.0.lock().unwrap() = saved.take()?;
        Ok(())
    }
}

/// A handle whose clones are the same ledger.
struct Handle(Arc<Ledger>);

impl Snapshot for Handle {
    fn name(&self) -> &str {
        "handle"
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        self.0.snapshot()
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        self.0.restore(saved)
    }
}

/// A number in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Added(u32);

impl SessionItem for Added {
    const NAME: &'static str = "added";
}

impl EventType for Added {
    const KIND: &'static str = "added";
}

/// What the tools of these tests change.
#[derive(Clone)]
struct Shared {
    ledger: Arc<Ledger>,
    other: Arc<Ledger>,
    resources: Arc<Resources>,
    session: Session,
    lent_as: LentAs,
    running: Arc<AtomicUsize>,
    most_running: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LentAs {
    Resources,
    State,
    /// Two states, in one order or the other.
    TwoStates,
    Handle,
    Session,
    /// Resources that are never put back.
    PlainResources,
}

impl Shared {
    fn new(lent_as: LentAs) -> Self {
        let ledger = Arc::<Ledger>::default();
        let mut binding = Binding::value(Arc::clone(&ledger));
        if lent_as == LentAs::Resources {
            binding = binding.snapshots(|ledger| Arc::clone(ledger) as Arc<dyn Snapshot>);
        }
        let resources = Resources::builder().bind(binding).build().unwrap();
        resources.get::<Ledger>().unwrap();
        Self {
            ledger,
            other: Arc::default(),
            resources: Arc::new(resources),
            session: Session::new(),
            lent_as,
            running: Arc::default(),
            most_running: Arc::default(),
        }
    }

    fn turn_within(&self, context: &ToolContext, number: u32) -> Turn {
        let context = context.clone().with_resource(self.clone());
        let turn = Turn { context, ..Turn::default() };
        let ledger = || Arc::clone(&self.ledger) as Arc<dyn Snapshot>;
        let other = || Arc::clone(&self.other) as Arc<dyn Snapshot>;
        match self.lent_as {
            LentAs::Resources | LentAs::PlainResources => {
                Turn { resources: Some(Arc::clone(&self.resources)), ..turn }
            }
            LentAs::State => Turn { state: vec![ledger()], ..turn },
            LentAs::TwoStates if number.is_multiple_of(2) => {
                Turn { state: vec![ledger(), other()], ..turn }
            }
            LentAs::TwoStates => Turn { state: vec![other(), ledger()], ..turn },
            LentAs::Handle => {
                Turn { state: vec![Arc::new(Handle(Arc::clone(&self.ledger)))], ..turn }
            }
            LentAs::Session => Turn { session: Some(Arc::new(self.session.clone())), ..turn },
        }
    }

    fn turn(&self, number: u32) -> Turn {
        self.turn_within(&ToolContext::new(""), number)
    }

    fn add(&self, number: u32, context: &ToolContext) -> Result<(), ToolError> {
        match self.lent_as {
            LentAs::Session => return context.publish(Added(number)),
            _ => self.ledger.0.lock().unwrap().push(number),
        }
        Ok(())
    }

    fn numbers(&self) -> Vec<u32> {
        match self.lent_as {
            LentAs::Session => self.session.all().unwrap().iter().map(|Added(n)| *n).collect(),
            _ => self.ledger.numbers(),
        }
    }
}

/// Writes a number down, lets others run, and may fail then.
#[tool]
async fn enter(number: u32, fails: bool, context: &ToolContext) -> Result<String, ToolError> {
    let shared = context.resource::<Shared>()?;
    let running = shared.running.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most_running.fetch_max(running, Ordering::SeqCst);
    shared.add(number, context)?;
    for _ in 0..3 {
        yield_once().await;
    }
    shared.running.fetch_sub(1, Ordering::SeqCst);
    if fails { Err(ToolError::other("no")) } else { Ok("entered".to_owned()) }
}

/// Writes a number down, and never returns.
#[tool]
async fn hang(context: &ToolContext) -> Result<String, ToolError> {
    context.resource::<Shared>()?.add(99, context)?;
    pending().await
}

/// Runs a call of its own on the same state.
#[tool]
async fn delegate(context: &ToolContext) -> Result<String, ToolError> {
    let shared = context.resource::<Shared>()?;
    let turn = match context.session() {
        // A session that was lent needs no word of the context.
        Some(session) => Turn { session: Some(Arc::new(session.clone())), ..shared.turn(7) },
        // Where it had to wait for its own turn, it would be refused.
        None => Turn { wait_for_others: Some(Duration::ZERO), ..shared.turn_within(context, 7) },
    };
    let ran = dispatcher().run(call(7, false), &turn).await;
    Ok(ran.answers.into_iter().map(|answer| answer.text).collect())
}

fn dispatcher() -> Dispatcher {
    let registry = Registry::builder().tool(Enter).tool(Hang).tool(Delegate).build().unwrap();
    Dispatcher::new(Arc::new(registry))
}

fn call(number: u32, fails: bool) -> Call {
    Call::new("c1", "enter", format!(r#"{{"number":{number},"fails":{fails}}}"#))
}

const RESTORED: [LentAs; 5] =
    [LentAs::Resources, LentAs::State, LentAs::TwoStates, LentAs::Handle, LentAs::Session];

#[test]
fn a_turn_that_fails_keeps_what_another_one_did_with_the_same_state() {
    for lent_as in RESTORED {
        for fails_first in [true, false] {
            let shared = Shared::new(lent_as);
            let (one, other) = (shared.turn(1), shared.turn(2));
            // Dispatchers that know nothing of each other.
            let (first, second) = (dispatcher(), dispatcher());
            let turns: Turns<'_> = vec![
                Box::pin(first.run(call(1, fails_first), &one)),
                Box::pin(second.run(call(2, !fails_first), &other)),
            ];
            let ran = together(turns, |_| {});
            assert_ne!(ran[0].answers[0].is_error, ran[1].answers[0].is_error, "one fails");
            let kept = if fails_first { 2 } else { 1 };
            assert_eq!(shared.numbers(), [kept], "{lent_as:?}");
            assert_eq!(shared.session.held_by(), None);
        }
    }
}

#[test]
fn turns_work_at_the_same_time_on_resources_that_are_never_put_back() {
    let shared = Shared::new(LentAs::PlainResources);
    let (one, other) = (shared.turn(1), shared.turn(2));
    let dispatcher = dispatcher();
    let turns: Turns<'_> = vec![
        Box::pin(dispatcher.run(call(1, false), &one)),
        Box::pin(dispatcher.run(call(2, false), &other)),
    ];
    assert!(together(turns, |_| {}).iter().all(|ran| !ran.answers[0].is_error));
    assert_eq!(shared.most_running.load(Ordering::SeqCst), 2);
}

#[test]
fn a_turn_that_may_not_wait_longer_runs_nothing_and_says_who_has_the_state() {
    for lent_as in RESTORED {
        let (shared, dispatcher) = (Shared::new(lent_as), dispatcher());
        let first = Turn { evaluation: "first".into(), ..shared.turn(1) };
        let mut hangs = Box::pin(dispatcher.run(Call::new("c1", "hang", "{}"), &first));
        assert!(hangs.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let impatient = Turn { wait_for_others: Some(Duration::ZERO), ..shared.turn(2) };
        let ran = block_on(dispatcher.run(call(2, false), &impatient));
        assert_eq!(ran.answers[0].outcome(), Outcome::NotExecuted);
        let text = &ran.answers[0].text;
        assert!(text.contains(r#"a turn of "first" works on the same "#), "{text}");
        assert!(ran.ended.is_none(), "the model may try again");
        let token = CancellationToken::new();
        token.cancel();
        let context = ToolContext::new("").with_cancellation(token);
        let cancelled = shared.turn_within(&context, 3);
        let ran = block_on(dispatcher.run(call(3, false), &cancelled));
        assert_eq!(ran.answers[0].outcome(), Outcome::Cancelled);
        assert_eq!(shared.numbers(), [99], "the first one still works");
        // A turn that is dropped gives the state back as it found it.
        drop(hangs);
        let ran = block_on(dispatcher.run(call(4, false), &shared.turn(4)));
        assert!(!ran.answers[0].is_error);
        assert_eq!(shared.numbers(), [4], "{lent_as:?}");
    }
}

#[test]
fn a_call_runs_calls_of_its_own_on_the_state_of_its_turn() {
    for lent_as in RESTORED {
        let shared = Shared::new(lent_as);
        let turn = shared.turn(1);
        let ran = block_on(dispatcher().run(Call::new("c1", "delegate", "{}"), &turn));
        assert_eq!(ran.answers[0].text, "entered", "{lent_as:?}");
        assert_eq!(shared.numbers(), [7]);
        // Its context is worth nothing when the turn is over.
        let ran = block_on(dispatcher().run(call(8, false), &turn));
        assert!(!ran.answers[0].is_error);
    }
}

#[test]
fn a_session_that_a_turn_works_on_names_the_turn_to_others() {
    let (shared, dispatcher) = (Shared::new(LentAs::Session), dispatcher());
    let turn = shared.turn(1);
    let mut hangs = Box::pin(dispatcher.run(Call::new("c1", "hang", "{}"), &turn));
    assert!(hangs.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let none = CancellationToken::new();
    match block_on(shared.session.hold("me", Some(Duration::ZERO), &none)).unwrap_err() {
        SessionError::Held { by } => assert_eq!(by, r#"a turn of "main""#),
        error => panic!("{error}"),
    }
}
