//! Processes that are killed at a stage of dispatch, or at a write of the store, and continue.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tract::core::StoreResult;
use tract::run::Stop;
use tract::{OpenOptions, Store, block_on};
use tract_testkit::{Answer, Call, Watch, WatchedStore};

use super::agent::Fixture;
use super::resumed::{continued, fates};
use super::trap::{Fault, Stage, arm, spring};
use crate::backends::{self, Backend};
use crate::child::{task, task_command};
use crate::kills::{killed_here, say, wait};
use crate::walks::assert_clean;

/// Where a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// In this stage of the second call.
    Stage(Stage),
    /// Before this write of the store, from 0.
    Before(usize),
    /// After it, when it is durable and not yet reported.
    After(usize),
    /// Nowhere.
    Never,
}

impl Point {
    fn word(self) -> String {
        match self {
            Self::Stage(stage) => stage.word(),
            Self::Before(write) => format!("before-{write}"),
            Self::After(write) => format!("after-{write}"),
            Self::Never => "never".to_owned(),
        }
    }

    fn of_word(word: &str) -> Self {
        if let Some(stage) = Stage::ALL.into_iter().find(|stage| stage.word() == word) {
            return Self::Stage(stage);
        }
        match word.split_once('-') {
            Some(("before", write)) => Self::Before(write.parse().unwrap()),
            Some(("after", write)) => Self::After(write.parse().unwrap()),
            _ => Self::Never,
        }
    }

    fn stage(self) -> Stage {
        match self {
            Self::Stage(stage) => stage,
            // With a first call that is idempotent: starts are written down after it has run.
            _ => Stage::Start,
        }
    }
}

/// Ends the process at a write, and tells which writes there were.
#[derive(Debug)]
struct KillAtWrite {
    point: Point,
    made: AtomicUsize,
}

#[async_trait]
impl Watch for KillAtWrite {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let Call::Apply { batch, .. } = call else { return call.ask(store).await };
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        say(&format!("call {}", batch.note.what));
        if self.point == Point::Before(number) {
            wait();
        }
        if batch.note.what == "start" {
            // A kill has no other way out.
            spring(Stage::Start, "c2").unwrap();
        }
        let applied = call.ask(store).await;
        if self.point == Point::After(number) {
            wait();
        }
        applied
    }
}

/// The process that is killed. By itself it runs to the end.
#[test]
fn the_child_runs_into_its_end() {
    let (store, point, traces): (Arc<dyn Store>, _, _) = match task() {
        Some((word, backend, folder)) => {
            let (tract, point) = (backend.open(&folder, "agent"), Point::of_word(&word));
            (Arc::clone(tract.store()), point, Some(traces(backend, &folder, point)))
        }
        None => (Arc::new(tract::core::memory()), Point::Never, None),
    };
    let watch = KillAtWrite { point, made: AtomicUsize::new(0) };
    let tract = block_on(OpenOptions::new().open_store(WatchedStore::new(store, watch))).unwrap();
    let desk = Fixture::new(&tract.on(&point.word()).unwrap(), point.stage(), traces);
    if let Point::Stage(stage) = point {
        arm(stage, Fault::Kill, &desk.clock, &desk.token);
    }
    let report = block_on(desk.agent.run("go")).unwrap();
    assert_eq!((report.stop, report.calls), (Stop::Answered, 3));
    assert_eq!(desk.changed(), ["c1", "c2", "c3"]);
    block_on(tract.store().close()).unwrap();
    say("done");
}

/// Where the calls of a run that is killed at the point leave their traces.
fn traces(backend: &Backend, folder: &Path, point: Point) -> PathBuf {
    folder.join(format!("{}-{}", backend.name, point.word()))
}

/// Runs the agent in a process of its own and kills that at the point; gives the writes that it
/// began.
fn killed(backend: &Backend, folder: &Path, point: Point) -> Vec<String> {
    let test = "faults::killed::the_child_runs_into_its_end";
    let mut command = task_command(test, &point.word(), backend, folder);
    let (writes, end) = killed_here(&mut command, Duration::ZERO);
    let expected = if point == Point::Never { "done" } else { "killed" };
    assert_eq!(end, Some(expected), "{}: {point:?}", backend.name);
    writes
}

/// What becomes of the three calls when they are resumed. Calls that are neither read-only nor
/// idempotent are claimed, each in a write of its own right before it runs. Of the first one, which
/// is idempotent at the points of writes, it is not known whether it has run.
fn expected(point: Point, writes: &[String]) -> &'static str {
    let nth = |what: &str| writes.iter().position(|write| write == what);
    let (start, record) = (nth("start").unwrap(), writes.len() - 2);
    match point {
        // Nothing was asked for yet: it is asked for, and runs.
        Point::Before(write) if write < start => "ddd",
        Point::After(write) if write + 1 < start => "ddd",
        // The reply is stored, and no claim.
        Point::Before(write) if write == start => "inn",
        Point::After(write) if write + 1 == start => "inn",
        Point::Stage(Stage::Start) => "inn",
        // The second call is claimed, and then the third.
        Point::Before(write) if write == start + 1 => "iin",
        Point::After(write) if write == start => "iin",
        Point::Before(write) if write <= record => "iii",
        Point::After(write) if write < record => "iii",
        // The answers are kept.
        Point::Before(_) | Point::After(_) | Point::Never => "ddd",
        // Three calls that change something: the second is claimed once it may run.
        Point::Stage(Stage::Policy | Stage::Hook) => "inn",
        Point::Stage(_) => "iin",
    }
}

#[test]
fn a_run_killed_at_a_stage_or_a_write_continues_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for backend in backends::all() {
        let writes = killed(backend, folder, Point::Never);
        let at_writes = (0..writes.len()).flat_map(|n| [Point::Before(n), Point::After(n)]);
        let points: Vec<Point> =
            Stage::ALL.map(Point::Stage).into_iter().chain(at_writes).collect();
        for point in &points {
            killed(backend, folder, *point);
        }
        let tract = backend.open(folder, "agent");
        for &point in &points {
            let what = format!("{}: {point:?}", backend.name);
            let on = tract.on(&point.word()).unwrap();
            let left = continued(&on, point.stage(), &traces(backend, folder, point), &what);
            assert_eq!(fates(&left), expected(point, &writes), "{what}");
        }
        assert_clean(&tract, backend.name);
        println!("{}: killed at {} points, writes {writes:?}", backend.name, points.len());
        block_on(tract.store().close()).unwrap();
    }
}
