//! A thousand agents in one process, on one store: how many turns and durable writes they take
//! together in a second, against what the store does when as many tasks do nothing but write.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Runtime;
use tract::core::ModelRequest;
use tract::run::Stop;
use tract::store::WriteMode;
use tract::tools::{Registry, tool};
use tract::{ChatModel, Content, Draft, ModelError, Reply, RepoName, Store, Tract, block_on};
use tract_core::{Applied, Batch, CommitId};
use tract_testkit::fixtures::appending;

use crate::messages;
use crate::table::{Figure, Table, at_once};

/// Turns of a session that call the tool. One more turn ends it.
const TURNS: usize = 4;

/// Durable writes of a session: the prompt, a reply and its results per turn, and the last reply.
const WRITES: usize = 2 + 2 * TURNS;

/// Looks up a fare.
#[tool(read_only)]
async fn fare(from: String, to: String, adults: u8) -> String {
    format!("{from}–{to} for {adults}: {}.00", 42 * u32::from(adults))
}

/// A model that calls the tool in each turn, then ends the session.
struct CallingModel(AtomicUsize);

#[tract::tools::async_trait]
impl ChatModel for CallingModel {
    async fn chat(&self, _: &ModelRequest) -> Result<Reply, ModelError> {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Reply::new(if turn < TURNS {
            let mut arguments = String::new();
            let _ = write!(arguments, r#"{{"from":"BSL","to":"LIS","adults":{}}}"#, turn + 1);
            Draft::assistant("").call(format!("call_{turn}"), "fare", arguments).content
        } else {
            Content::assistant("That is all.")
        }))
    }
}

/// Runs the sessions concurrently; gives how many seconds all of them took.
fn sessions(runtime: &Runtime, tract: &Tract, count: usize) -> f64 {
    let registry = Registry::builder().tool(Fare).build().unwrap();
    registry.compile_all().unwrap();
    let sessions = (0..count).map(|session| {
        let tract = tract.on(&format!("session-{session}")).unwrap();
        let agent = tract.agent(Arc::new(CallingModel(AtomicUsize::new(0))), registry.clone());
        async move { agent.run("How much is it?").await }
    });
    let (reports, took) = at_once(runtime, sessions);
    for report in reports {
        let report = report.unwrap();
        assert_eq!((report.stop, report.calls as usize), (Stop::Answered, TURNS));
    }
    took.as_secs_f64()
}

/// Makes a batch that appends one message to a branch.
pub(crate) fn batch(head: Option<CommitId>, branch: &str, n: u64) -> (Batch, CommitId) {
    appending(branch, head, &messages::text(n))
}

/// As many tasks that write as often, and do nothing else.
fn bare(runtime: &Runtime, store: &Arc<dyn Store>, count: usize) -> f64 {
    let tasks = (0..count).map(|task| {
        let store = Arc::clone(store);
        async move {
            let branch = format!("bare-{task}");
            let mut head = None;
            for n in 0..WRITES {
                let (batch, id) = batch(head, &branch, (task * WRITES + n) as u64);
                let answer = store.apply(&RepoName::default(), batch).await.unwrap();
                assert_eq!(answer, Applied::Done);
                head = Some(id);
            }
        }
    });
    at_once(runtime, tasks).1.as_secs_f64()
}

fn measure(table: &mut Table, name: &str, tract: &Tract, count: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let took = sessions(&runtime, tract, count);
    let alone = bare(&runtime, tract.store(), count);
    let report = block_on(tract.verify()).unwrap();
    assert!(report.clean, "{name}: {:?}", report.damage);
    let (turns, writes) = ((count * (TURNS + 1)) as f64, (count * WRITES) as f64);
    let (ours, floor) = (writes / took, writes / alone);
    table.add(Figure {
        what: format!("{name}: {count} sessions at once, {} turns each, no errors", TURNS + 1),
        ours: format!("{:.0} turns, {ours:.0} durable writes a second", turns / took),
        floor: format!("{floor:.0} writes a second (as many tasks, bare batches)"),
        ratio: Some(ours / floor),
        wanted: "no errors",
        met: Some(true),
    });
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let count = if quick { 100 } else { 1_000 };
    let folder = tempfile::tempdir().unwrap();
    let tract = messages::open(folder.path(), WriteMode::default());
    measure(table, "SQLite", &tract, count);
    #[cfg(feature = "postgres")]
    if let Some(store) = crate::postgres::own_store() {
        let tract = block_on(tract::OpenOptions::new().open_store(store)).unwrap();
        measure(table, "PostgreSQL", &tract, count);
    }
}
