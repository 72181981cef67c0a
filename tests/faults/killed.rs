//! Processes that are killed at a stage of dispatch, or at a write of the store, and continue.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tract::run::Stop;
use tract::{Store, block_on};
use tract_testkit::WatchedStore;

use super::agent::Fixture;
use super::matrix::at_starts;
use super::resumed::{continued, fates};
use super::trap::{Fault, Stage, arm};
use crate::backends::{self, Backend};
use crate::child::{task, task_command};
use crate::kills::{Moment, killed_after, say, watched};
use crate::walks::assert_clean;

/// Where a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// In this stage of the second call.
    Stage(Stage),
    /// At this write of the store, from 0.
    Write(usize, Moment),
}

/// Nowhere.
const NEVER: Point = Point::Write(usize::MAX, Moment::Never);

impl Point {
    fn word(self) -> String {
        match self {
            Self::Stage(stage) => stage.word(),
            Self::Write(write, when) => format!("{}-{write}", when.word()),
        }
    }

    fn stage(self) -> Stage {
        match self {
            Self::Stage(stage) => stage,
            // With a first call that is idempotent: starts are written down after it has run.
            Self::Write(..) => Stage::Start,
        }
    }
}

/// The process that is killed. By itself it runs to the end.
#[test]
fn the_child_runs_into_its_end() {
    let (store, word, traces): (Arc<dyn Store>, _, _) = match task() {
        Some((word, backend, folder)) => {
            let store = Arc::clone(backend.open(&folder, "agent").store());
            let traces = traces(backend, &folder, &word);
            (store, word, Some(traces))
        }
        None => (Arc::new(tract::core::memory()), NEVER.word(), None),
    };
    let stage = Stage::ALL.into_iter().find(|stage| stage.word() == word);
    let tract = watched(Arc::new(WatchedStore::new(store, at_starts)), false);
    let on = tract.on(&word).unwrap();
    let desk = Fixture::new(&on, stage.map_or(NEVER, Point::Stage).stage(), traces);
    if let Some(stage) = stage {
        arm(stage, Fault::Kill, &desk.clock, &desk.token);
    }
    let report = block_on(desk.agent.run("go")).unwrap();
    assert_eq!((report.stop, report.calls), (Stop::Answered, 3));
    assert_eq!(desk.changed(), ["c1", "c2", "c3"]);
    block_on(tract.store().close()).unwrap();
    say("done");
}

/// Where the calls of a run that is killed at the point of the word leave their traces.
fn traces(backend: &Backend, folder: &Path, word: &str) -> PathBuf {
    folder.join(format!("{}-{word}", backend.name))
}

/// Runs the agent in a process of its own and kills that at the point; gives the writes that it
/// began.
fn killed(backend: &Backend, folder: &Path, point: Point) -> Vec<String> {
    let test = "faults::killed::the_child_runs_into_its_end";
    let command = task_command(test, &point.word(), backend, folder);
    let (at, when) = match point {
        Point::Stage(_) => (usize::MAX, Moment::Never),
        Point::Write(at, when) => (at, when),
    };
    let (writes, end) = killed_after(command, at, when, Duration::ZERO);
    let expected = if point == NEVER { "done" } else { "killed" };
    assert_eq!(end, Some(expected), "{}: {point:?}", backend.name);
    writes
}

/// What becomes of the three calls when they are resumed. Calls that are neither read-only nor
/// idempotent are claimed, each in a write of its own right before it runs. Of the first one, which
/// is idempotent at the points of writes, it is not known whether it has run.
fn expected(point: Point, writes: &[String]) -> &'static str {
    let nth = |what: &str| writes.iter().position(|write| write == what);
    let (start, record) = (nth("start").unwrap(), writes.len() - 2);
    let durable = match point {
        // Three calls that change something: the second is claimed once it may run.
        Point::Stage(Stage::Policy | Stage::Hook | Stage::Start) => return "inn",
        Point::Stage(_) => return "iin",
        Point::Write(write, when) => write + usize::from(when == Moment::After),
    };
    match durable {
        // Nothing was asked for yet: it is asked for, and runs.
        durable if durable < start => "ddd",
        // The reply is stored, and no claim.
        durable if durable == start => "inn",
        // The second call is claimed, and then the third.
        durable if durable == start + 1 => "iin",
        durable if durable <= record => "iii",
        // The answers are kept.
        _ => "ddd",
    }
}

#[test]
fn a_run_killed_at_a_stage_or_a_write_continues_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for backend in backends::all() {
        let writes = killed(backend, folder, NEVER);
        let moments = |n| [Moment::Before, Moment::After].map(|when| Point::Write(n, when));
        let at_writes = (0..writes.len()).flat_map(moments);
        let points: Vec<Point> =
            Stage::ALL.map(Point::Stage).into_iter().chain(at_writes).collect();
        for point in &points {
            killed(backend, folder, *point);
        }
        let tract = backend.open(folder, "agent");
        for &point in &points {
            let what = format!("{}: {point:?}", backend.name);
            let on = tract.on(&point.word()).unwrap();
            let left =
                continued(&on, point.stage(), &traces(backend, folder, &point.word()), &what);
            assert_eq!(fates(&left), expected(point, &writes), "{what}");
        }
        assert_clean(&tract, backend.name);
        println!("{}: killed at {} points, writes {writes:?}", backend.name, points.len());
        block_on(tract.store().close()).unwrap();
    }
}
