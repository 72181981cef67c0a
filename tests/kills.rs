//! `kill -9` at every step of summarizing, deferring and deciding: originals stay readable, no
//! decision is half carried out, and the next process can continue.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tract::core::StoreResult;
use tract::engine::CompressToolCalls;
use tract::hooks::{Hooks, Summarize, ToolResultReceived};
use tract::{Content, Draft, OpenOptions, Store, Tract, block_on};
use tract_testkit::{Answer, Call, Watch, WatchedStore, data};

use crate::backends::{self, Backend};
use crate::child::{task, task_command};
use crate::pending::defers;
use crate::summaries::{FirstLine, LONG};
use crate::walks::assert_clean;

const AT: &str = "TRACT_KILL_AT";
const WHEN: &str = "TRACT_KILL_WHEN";

const SHORT: &str = "src/main.rs:7: fn main() {";

/// What is killed on its way.
const STEPS: [&str; 6] = ["summarize", "squeeze", "defer", "approve", "edit", "reject"];

/// When a call of the store is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    /// While it is under way: the killing process gets a signal, and the call continues.
    During,
    After,
    Never,
}

impl Moment {
    const ALL: [Self; 4] = [Self::Before, Self::During, Self::After, Self::Never];

    pub(crate) fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Tells when a certain call of a store has come, and there waits to be killed.
#[derive(Debug)]
struct KillPoint {
    calls: AtomicUsize,
    at: usize,
    when: Moment,
    /// Whether other calls than writes count; writes alone are said by what they do.
    counts_all: bool,
}

pub(crate) fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{word}").unwrap();
    out.flush().unwrap();
}

#[async_trait]
impl Watch for KillPoint {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let what = match &call {
            Call::Apply { batch, .. } if !self.counts_all => &batch.note.what,
            _ if !self.counts_all => return call.ask(store).await,
            call => call.name(),
        };
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.when == Moment::Never {
            say(&format!("call {what}"));
        }
        if number == self.at {
            match self.when {
                Moment::Before => wait(),
                Moment::During => say("here"),
                Moment::After | Moment::Never => {}
            }
        }
        let answer = call.ask(store).await;
        if number == self.at && self.when == Moment::After {
            wait();
        }
        answer
    }
}

/// Opens a store in the process that is killed at the call which [`killed_after`] named.
pub(crate) fn doomed(backend: &Backend, folder: &Path) -> Tract {
    watched(Arc::clone(backend.open(folder, "agent").store()), true)
}

/// The same of any store, whose writes alone count where not all calls do.
pub(crate) fn watched(store: Arc<dyn Store>, counts_all: bool) -> Tract {
    let variable = |name| std::env::var(name).ok();
    let at = variable(AT).and_then(|at| at.parse().ok()).unwrap_or(usize::MAX);
    let when = Moment::ALL.into_iter().find(|when| variable(WHEN) == Some(when.word()));
    let when = when.unwrap_or(Moment::Never);
    let watch = KillPoint { calls: AtomicUsize::new(0), at, when, counts_all };
    block_on(OpenOptions::new().open_store(WatchedStore::new(store, watch))).unwrap()
}

/// Starts a process that opens a [`watched`] store, and kills it a pause after it said
/// [`here`](wait). Says which calls there were, and whether it was killed or done; `None` if it failed
/// before.
pub(crate) fn killed_after(
    mut command: Command,
    at: usize,
    when: Moment,
    pause: Duration,
) -> (Vec<String>, Option<&'static str>) {
    command.env(AT, at.to_string()).env(WHEN, when.word());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut calls, mut end) = (Vec::new(), None);
    for line in lines.map_while(Result::ok) {
        match line.as_str() {
            "here" => {
                std::thread::sleep(pause);
                // On Unix this is SIGKILL.
                child.kill().unwrap();
                end = Some("killed");
                break;
            }
            "done" => end = Some("done"),
            other => calls.extend(other.strip_prefix("call ").map(str::to_owned)),
        }
    }
    child.wait().unwrap();
    (calls, end)
}

/// What [`kill_at_calls`] did.
pub(crate) struct KilledCalls {
    pub(crate) kills: usize,
    /// How many calls of the store there were to be killed at.
    pub(crate) calls: usize,
    /// The folder of the process that was not killed.
    pub(crate) whole: TempDir,
}

/// Kills processes that open a [`doomed`] store: before each call of it, after it, and during it, so many
/// milliseconds after it began. `begin` makes a folder and the command of a process; what is left in
/// the folder is then checked. As many as there is time for, and at least `least` of them; however few
/// they are, they lie all over the calls.
pub(crate) fn kill_at_calls(
    backend: &Backend,
    pauses: &[u64],
    least: usize,
    begin: impl Fn() -> (TempDir, Command),
    mut check: impl FnMut(&Path, &str),
) -> KilledCalls {
    let (whole, command) = begin();
    let (calls, end) = killed_after(command, usize::MAX, Moment::Never, Duration::ZERO);
    let calls = calls.len();
    assert!(end == Some("done") && calls > 5, "{}: {calls}", backend.name);
    let ways = pauses.len() + 2;
    let places = ways * calls;
    let mut kills = tract_testkit::rounds(places, least);
    // Multiples of the golden section are spread evenly, whenever time ends; without a divisor in
    // common they meet each place once.
    let has_divisor = |n: usize| (2..=n).any(|d| n.is_multiple_of(d) && places.is_multiple_of(d));
    let step = (places * 618 / 1000..).find(|step| !has_divisor(*step)).unwrap();
    for kill in kills.by_ref() {
        let place = kill * step % places;
        let (call, way) = (place / ways, place % ways);
        let (when, pause) = match way {
            0 => (Moment::Before, 0),
            1 => (Moment::After, 0),
            way => (Moment::During, pauses[way - 2]),
        };
        let (folder, command) = begin();
        let (_, end) = killed_after(command, call, when, Duration::from_millis(pause));
        assert!(end.is_some(), "{}: neither killed nor done", backend.name);
        let what = format!("{}, killed {} call {call}", backend.name, when.word());
        check(folder.path(), &what);
    }
    KilledCalls { kills: kills.done(), calls, whole }
}

/// Says that the end has come, and waits for it.
pub(crate) fn wait() -> ! {
    say("here");
    loop {
        std::thread::park();
    }
}

/// Handlers that summarize, and that defer.
fn hooks(step: &str) -> Hooks {
    let hooks = Hooks::new().summarizer(FirstLine);
    match step {
        "defer" => defers(),
        "summarize" => hooks.on("short", |_: &ToolResultReceived| Summarize::new().into()),
        _ => hooks,
    }
}

/// Makes what a step begins with: two results that are long, and a call that is open or whose
/// result waits.
fn prepared(backend: &Backend, folder: &Path, step: &str) {
    let tract = backend.open(folder, "agent");
    let calls = Draft::assistant("").call("a", "grep", "{}").call("b", "ls", "{}");
    let results = ["a", "b"].map(|id| Draft::tool_result(id, LONG));
    block_on(tract.commit_all([vec![calls], results.to_vec()].concat())).unwrap();
    block_on(tract.commit(Draft::assistant("").call("c", "grep", "{}"))).unwrap();
    if decides(step) {
        let error = block_on(tract.with_hooks(hooks("defer")).tool_result("c", LONG)).unwrap_err();
        assert_eq!(error.code(), "deferred");
    }
    block_on(tract.store().close()).unwrap();
}

fn decides(step: &str) -> bool {
    matches!(step, "approve" | "edit" | "reject")
}

/// The process that is killed. By itself it has nothing to do.
#[test]
fn the_child_takes_a_step() {
    let Some((step, backend, folder)) = task() else {
        let folder = tempfile::tempdir().unwrap();
        for step in STEPS {
            let folder = folder.path().join(step);
            std::fs::create_dir(&folder).unwrap();
            prepared(&backends::ALL[0], &folder, step);
            let tract = backends::ALL[0].open(&folder, "agent");
            take(&tract, step);
            assert!(survived(&tract, step), "{step} is done without a kill");
        }
        return;
    };
    take(&doomed(backend, &folder), &step);
    say("done");
}

fn take(tract: &Tract, step: &str) {
    let tract = tract.with_hooks(hooks(step));
    let waits = || block_on(tract.pending().list()).unwrap()[0].id.clone();
    match step {
        "summarize" => drop(block_on(tract.tool_result("c", LONG)).unwrap()),
        "squeeze" => {
            let done = block_on(tract.compress_tool_calls(&CompressToolCalls::default())).unwrap();
            assert_eq!(done.edits.len(), 2);
        }
        "defer" => {
            let error = block_on(tract.tool_result("c", LONG)).unwrap_err();
            assert_eq!(error.code(), "deferred");
        }
        "approve" => drop(block_on(tract.pending().approve(&waits())).unwrap()),
        "edit" => drop(block_on(tract.pending().edit(&waits(), SHORT)).unwrap()),
        "reject" => drop(block_on(tract.pending().reject(&waits(), "a secret")).unwrap()),
        other => panic!("unknown step {other}"),
    }
}

/// Looks at what is left; returns whether the step happened. It did whole, or not at all.
fn survived(tract: &Tract, step: &str) -> bool {
    assert_clean(tract, step);
    let compiled = block_on(tract.compile()).unwrap();
    let results: Vec<_> = compiled
        .messages()
        .filter(|message| matches!(message.content, Content::ToolResult(_)))
        .collect();
    for result in &results {
        let original = block_on(tract.expand(result.commit)).unwrap();
        let original = original.map_or_else(|| result.content.text(), |content| content.text());
        assert_eq!(original, LONG, "{step}: the original is readable");
    }
    let texts: Vec<String> = results.iter().map(|result| result.content.text()).collect();
    let waiting = block_on(tract.pending().list()).unwrap();
    let decisions = block_on(tract.repo().decisions()).unwrap();
    let open = block_on(tract.turns().open_calls()).unwrap().len();
    assert!(waiting.iter().all(|waits| waits.request.content().unwrap().text() == LONG));
    let before = usize::from(decides(step));
    let left = (texts.len(), waiting.len(), decisions.len(), open);
    if left == (2, before, 0, 1) && texts[..2] == [LONG, LONG] {
        return false;
    }
    match step {
        "squeeze" => {
            assert_eq!(
                (&texts[..], left),
                (&[SHORT.to_owned(), SHORT.to_owned()][..], (2, 0, 0, 1))
            );
        }
        "defer" => assert_eq!(left, (2, 1, 0, 1)),
        "summarize" => assert_eq!((texts[2].as_str(), left), (SHORT, (3, 0, 0, 0))),
        _ => {
            let shown = match step {
                "approve" => LONG,
                "edit" => SHORT,
                _ => "rejected: a secret",
            };
            assert_eq!((texts[2].as_str(), left), (shown, (3, 0, 1, 0)), "decided and done");
            assert_eq!(decisions[0].record.action, step);
            assert_eq!(decisions[0].request.content().unwrap().text(), LONG);
            let record = block_on(tract.decision_on(results[2].commit)).unwrap().unwrap();
            assert_eq!(record.pending.as_deref(), Some(decisions[0].id.as_str()));
        }
    }
    true
}

/// Takes a step in a process of its own, and kills it at a call; returns what calls there were.
fn run(
    backend: &Backend,
    folder: &Path,
    step: &str,
    at: usize,
    (when, pause): (Moment, Duration),
) -> Vec<String> {
    let command = task_command("kills::the_child_takes_a_step", step, backend, folder);
    let (calls, end) = killed_after(command, at, when, pause);
    let expected = if when == Moment::Never { "done" } else { "killed" };
    assert_eq!(end, Some(expected), "{step} at call {at}, {when:?}");
    calls
}

/// Continues with what is left.
fn finish(tract: &Tract, step: &str) {
    for waits in block_on(tract.pending().list()).unwrap() {
        block_on(tract.pending().approve(&waits.id)).unwrap();
    }
    for call in block_on(tract.turns().open_calls()).unwrap() {
        block_on(tract.tool_result(call.call_id, LONG)).unwrap();
    }
    assert_clean(tract, step);
    block_on(tract.store().close()).unwrap();
}

#[test]
fn a_process_killed_at_every_call_of_the_store_leaves_nothing_half_decided() {
    let scale: f64 = std::env::var("TRACT_SCALE").ok().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    let races = (scale * 30.0).max(3.0) as usize;
    for backend in backends::ALL {
        let (mut kills, mut happened) = (0, 0);
        for step in STEPS {
            let folder = tempfile::tempdir().unwrap();
            let template = folder.path().join("template");
            std::fs::create_dir(&template).unwrap();
            prepared(backend, &template, step);
            let fresh = |name: String| {
                let to = folder.path().join(name);
                data::copy(&template, &to).unwrap();
                to
            };
            let whole = fresh("whole".to_owned());
            let calls = run(backend, &whole, step, 0, (Moment::Never, Duration::ZERO));
            assert!(survived(&backend.open(&whole, "agent"), step), "{step} is taken");
            let first = calls.iter().position(|call| call == "apply");
            let first = first.unwrap_or_else(|| panic!("{step} writes nothing: {calls:?}"));
            for (at, call) in calls.iter().enumerate() {
                let mut whens = vec![(Moment::Before, Duration::ZERO)];
                if call == "apply" {
                    whens.push((Moment::After, Duration::ZERO));
                    let pauses = (0..races).map(|n| Duration::from_micros(n as u64 * 250 % 3000));
                    whens.extend(pauses.map(|pause| (Moment::During, pause)));
                }
                for (n, (when, pause)) in whens.into_iter().enumerate() {
                    let place = fresh(format!("{at}-{n}"));
                    run(backend, &place, step, at, (when, pause));
                    let tract = backend.open(&place, "agent");
                    let done = survived(&tract, step);
                    match when {
                        Moment::Before => assert!(!done || at > first, "{step} before call {at}"),
                        Moment::After => assert!(done, "{step}: what was acknowledged is there"),
                        Moment::During | Moment::Never => {}
                    }
                    (kills, happened) = (kills + 1, happened + usize::from(done));
                    finish(&tract, step);
                }
            }
        }
        println!("{}: {kills} kills, the step had happened at {happened}", backend.name);
        assert!(happened > 0 && happened < kills, "{}", backend.name);
    }
}
