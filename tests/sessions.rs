//! Many agents on one store: none disturbs another, and a turn costs as few durable writes as it can.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tract::core::{ModelRequest, StoreResult};
use tract::run::Stop;
use tract::tools::{Registry, tool};
use tract::{ChatModel, Content, Draft, ModelError, OpenOptions, Reply, Tract, block_on};
use tract_testkit::{Call, WatchedStore};

use crate::faults::places::StoreLocation;
use crate::walks::assert_clean;

/// Doubles.
#[tool(read_only)]
async fn double(n: u64) -> u64 {
    n * 2
}

/// Puts down.
#[tool]
async fn put(n: u64) -> u64 {
    n
}

/// Asks for so many calls of a tool in each of its turns, each with a number of its own, and reads
/// the answers.
struct CallingModel {
    tool: &'static str,
    first: u64,
    calls: u64,
    turns: usize,
    turns_asked: AtomicUsize,
}

impl CallingModel {
    fn new(tool: &'static str, first: u64, calls: u64, turns: usize) -> Arc<Self> {
        Arc::new(Self { tool, first, calls, turns, turns_asked: AtomicUsize::new(0) })
    }
}

#[tract::tools::async_trait]
impl ChatModel for CallingModel {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let turn = self.turns_asked.fetch_add(1, Ordering::SeqCst);
        if turn == self.turns {
            let answers = request.messages.iter().map(|message| &message.content);
            let answers = answers.filter(|content| matches!(content, Content::ToolResult(_)));
            let texts: Vec<String> = answers.map(Content::text).collect();
            return Ok(Reply::new(Content::assistant(texts.join(" "))));
        }
        let call = |draft: Draft, n: u64| {
            let number = self.first + turn as u64;
            draft.call(format!("c{turn}-{n}"), self.tool, format!(r#"{{"n":{number}}}"#))
        };
        Ok(Reply::new((0..self.calls).fold(Draft::assistant(""), call).content))
    }
}

fn registry() -> Registry {
    Registry::builder().tool(Double).tool(Put).build().unwrap()
}

#[test]
fn fifty_sessions_at_once_do_not_disturb_each_other() {
    const SESSIONS: u64 = 50;
    const TURNS: usize = 3;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for place in StoreLocation::all(folder.path()) {
        let tract = place.fast();
        runtime.block_on(async {
            let mut sessions = tokio::task::JoinSet::new();
            for session in 0..SESSIONS {
                let tract = tract.on(&format!("s{session}")).unwrap();
                sessions.spawn(async move {
                    let model = CallingModel::new("double", session * 100, 1, TURNS);
                    let agent = tract.agent(model, registry());
                    (session, agent.run("go").await)
                });
            }
            for (session, report) in sessions.join_all().await {
                let report = report.unwrap_or_else(|error| panic!("{}: {error}", place.name()));
                let own: Vec<String> = (0..TURNS as u64)
                    .map(|turn| ((session * 100 + turn) * 2).to_string())
                    .collect();
                assert_eq!(report.text, own.join(" "), "{}: its own answers", place.name());
                assert_eq!((report.stop, report.calls), (Stop::Answered, TURNS as u32));
            }
        });
        assert_clean(&tract, place.name());
        for session in 0..SESSIONS {
            let own = tract.on(&format!("s{session}")).unwrap();
            let compiled = block_on(own.compile()).unwrap();
            assert_eq!(compiled.message_count(), 2 + 2 * TURNS, "{}", place.name());
        }
        place.close(tract);
    }
}

/// Keeps what each write says that it does, and counts what else is asked of the store.
#[derive(Clone, Debug, Default)]
struct WriteLog(Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>);

impl WriteLog {
    fn hear(&self, call: Call<'_>) -> StoreResult<()> {
        if let Call::Apply { batch, .. } = call {
            self.0.lock().unwrap().push(batch.note.what.clone());
        } else {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// What a turn with so many calls writes, from the model's reply on.
fn writes_of_a_turn(
    tract: &Tract,
    written: &WriteLog,
    tool: &'static str,
    calls: u64,
) -> Vec<String> {
    let tract = tract.on(&format!("{tool}-{calls}")).unwrap();
    let agent = tract.agent(CallingModel::new(tool, 1, calls, 2), registry());
    block_on(agent.run("go")).unwrap();
    let all = std::mem::take(&mut *written.0.lock().unwrap());
    // First what the person says and which tools there are; then turns that are alike, and a last
    // one that only says something.
    let each = (all.len() - 2) / 2;
    let second = all[1 + each..1 + 2 * each].to_vec();
    assert_eq!(all[1..=each], second, "{all:?}");
    second
}

#[test]
fn a_turns_results_are_one_durable_write_and_each_effect_is_claimed_by_one_before_it() {
    let written = WriteLog::default();
    let store: Arc<dyn tract::Store> = Arc::new(tract::core::memory());
    let log = written.clone();
    let watched = WatchedStore::new(store, move |call: Call<'_>| log.hear(call));
    let tract = block_on(OpenOptions::new().open_store(watched)).unwrap();
    written.0.lock().unwrap().clear();
    for calls in [1, 2, 7, 40] {
        // The model's reply, and all that came of it.
        let reads = writes_of_a_turn(&tract, &written, "double", calls);
        assert_eq!(reads.len(), 2, "{calls} calls: {reads:?}");
        // Each call that may have an effect is claimed right before it runs: a claim for a call
        // that has not run yet would say of a crash that it may have.
        let puts = writes_of_a_turn(&tract, &written, "put", calls);
        let count = usize::try_from(calls).unwrap();
        assert_eq!(puts.len(), 2 + count, "{calls} calls: {puts:?}");
        assert_eq!((puts.first(), puts.last()), (reads.first(), reads.last()));
        assert!(puts[1..=count].iter().all(|what| what == "start"), "{puts:?}");
    }
    // What else a turn asks of the store: where the branch points, and no more of it the longer the
    // conversation is.
    let asks = |turns: usize| {
        let tract = tract.on(&format!("turns-{turns}")).unwrap();
        let before = written.1.load(Ordering::SeqCst);
        let agent = tract.agent(CallingModel::new("double", 1, 3, turns), registry());
        block_on(agent.run("go")).unwrap();
        written.1.load(Ordering::SeqCst) - before
    };
    let (few, more, most) = (asks(2), asks(12), asks(112));
    let each = (more - few) / 10;
    assert_eq!(most - more, each * 100, "a late turn asks for no more than an early one");
    assert!(each <= 6, "{each} reads in a turn of three calls");
}
