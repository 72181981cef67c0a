//! Dispatch of calls without I/O, beyond their hydration: policies, a snapshot, the handler, the
//! event, the answer.

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tract::tools::dispatch::{Dispatcher, Turn};
use tract::tools::event::{Event, EventSink};
use tract::tools::policy::{ApprovalRequired, Sequential};
use tract::tools::snapshot::{BoxError, SavedState, Snapshot};
use tract::tools::{Call, Registry, hydrate, tool};

use crate::table::{Figure, Table, median};

/// Adds.
#[tool(idempotent)]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Adds, in parallel with others.
#[tool(read_only)]
async fn look(a: i64, b: i64) -> i64 {
    a + b
}

/// Keeps how many events there were.
#[derive(Default)]
struct Session(Mutex<u64>);

impl Snapshot for Session {
    fn name(&self) -> &str {
        "session"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        Ok(SavedState::new(*self.0.lock().unwrap()))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        *self.0.lock().unwrap() = saved.take()?;
        Ok(())
    }
}

impl EventSink for Session {
    fn publish(&self, event: &Event) -> Result<(), BoxError> {
        *self.0.lock().unwrap() += u64::from(event.kind() == "tool_invoked");
        Ok(())
    }
}

/// Microseconds for each call beyond hydration, and for hydration, the medians of rounds.
fn micros(dispatcher: &Dispatcher, calls: &[Call], rounds: usize) -> (f64, f64) {
    let each = 200;
    let mut beyond = Vec::new();
    let mut before = Vec::new();
    for _ in 0..rounds {
        // A conversation of its own: policies look at the calls before.
        let turn = Turn { session: Some(Arc::new(Session::default())), ..Turn::default() };
        let start = Instant::now();
        let hydrated: Vec<_> =
            (0..each).map(|_| hydrate(black_box(calls), &dispatcher.registry)).collect();
        let count = (each * calls.len()) as f64;
        before.push(start.elapsed().as_secs_f64() * 1e6 / count);
        let start = Instant::now();
        for hydrated in hydrated {
            let done = tract::block_on(dispatcher.dispatch(hydrated, &turn));
            assert!(done.answers.iter().all(|answer| !answer.is_error));
        }
        beyond.push(start.elapsed().as_secs_f64() * 1e6 / count);
    }
    (median(beyond), median(before))
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let rounds = if quick { 5 } else { 31 };
    let registry = Registry::builder().tool(Add).tool(Look).build().unwrap();
    let dispatcher = Dispatcher {
        policies: vec![
            Arc::new(ApprovalRequired::of_destructive()),
            Arc::new(Sequential::new().after("deploy", ["test"])),
        ],
        ..Dispatcher::new(Arc::new(registry))
    };
    for (what, name, count) in [
        ("one call", "add", 1),
        ("eight calls in order", "add", 8),
        ("eight in parallel", "look", 8),
    ] {
        let call = |n: usize| Call::new(format!("c{n}"), name, r#"{"a":20,"b":22}"#);
        let calls: Vec<Call> = (0..count).map(call).collect();
        let (beyond, before) = micros(&dispatcher, &calls, rounds);
        table.add(Figure {
            what: format!("dispatch beyond hydration, each of {what}"),
            ours: format!("{beyond:.2} µs"),
            floor: format!("{before:.2} µs (its hydration)"),
            ratio: None,
            wanted: "< 20 µs",
            met: Some(beyond < 20.0),
        });
    }
}
