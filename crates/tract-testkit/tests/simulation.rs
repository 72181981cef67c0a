//! The simulation of many clients, on the store in memory.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tract_core::store::{StoreResult, Sweep, SweepAnswer};
use tract_core::{Expect, RefName, Store};
use tract_testkit::simulation::{Case, Invariant, Simulation, Verb};
use tract_testkit::{Answer, Call, Fault, FaultyStore, Watch, WatchedStore, figure, scaled};

/// Each test uses all processors: they run one after the other, so that the times are of one alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_seed_runs_the_same_way_each_time() {
    let _alone = alone();
    let simulation = Simulation::memory();
    let seeds = scaled(2000, 0.05, 100) as u64;
    for seed in 0..seeds {
        let case = Case::new(seed);
        assert_eq!(simulation.run(&case), simulation.run(&case), "case {case}");
    }
    figure("simulation, replays", "memory", format!("{seeds} schedules ran twice the same way"));
}

#[test]
fn many_clients_on_the_store_in_memory() {
    let _alone = alone();
    let schedules = scaled(1_000_000, 0.02, 1000) as u64;
    let begun = Instant::now();
    match Simulation::memory().search(0..schedules) {
        Ok(calls) => {
            let seconds = begun.elapsed().as_secs_f64();
            let text = format!("{schedules} schedules, {calls} store calls, {seconds:.0} s");
            figure("simulation", "memory", text);
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn many_clients_that_pause_for_long() {
    let _alone = alone();
    let schedules = scaled(200_000, 0.02, 1000) as u64;
    let begun = Instant::now();
    match Simulation::memory().search(Case::PRIORITIES..Case::PRIORITIES + schedules) {
        Ok(calls) => {
            let seconds = begun.elapsed().as_secs_f64();
            let text = format!("{schedules} schedules, {calls} store calls, {seconds:.0} s");
            figure("simulation, long pauses", "memory", text);
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// Schedules that found a defect once, with the verbs of which they were made.
#[test]
fn cases_that_failed_once_pass() {
    let all = Verb::ALL;
    // The verbs at that time, since the steps of a seed depend on them.
    let before: Vec<Verb> = all.iter().copied().filter(|verb| *verb != Verb::Repeat).collect();
    let before = before.as_slice();
    let cases: &[(&str, &[Verb])] = &[
        // A place of the search index was named by the number of commits after a mark, which
        // several commits may continue: an edited message was found by its old text.
        ("4330/4330:0;0,1;0,1", before),
        // A head that was collected while its branch was searched was reported as damage, and the
        // index was dropped.
        ("3408/3414:0;0;;0;0,1", before),
        // A message that was collected while it was looked for, to be erased: without a remedy.
        ("7578/7579:;0,1;0;;;", before),
        // A merge of a head that was pruned and collected while it was planned: reported as a
        // missing object of a damaged store.
        ("38323/38325:;;1;0,1", before),
        ("38323/38324:1;;1;0,1", before),
        // All selected messages were skipped: the refusal had no remedy.
        ("13350/13351:;0;;0", all),
        // A message whose text is the mark of an erasure was erased: reported as a missing object.
        ("37380/37382:0,1,2,3;0,1,3", all),
        // Two undos of one operation: the second found the branch where it would have moved it. The
        // watch did not count that as a value that the client had read.
        ("109005/109009:1,4;0,1,2,3", all),
        // An undo of an import whose earlier document was collected, and a rebase onto a head that
        // was: both were reported as missing objects.
        ("114937/114944:;3,5;1", all),
        ("135419/135428:;;;1,2;0;0", all),
        // An erasure of a message that another erasure had marked meanwhile. The watch expected the
        // mark to be erased.
        ("590495/590497:;2,5;0", all),
        // A search whose commits were collected while it read them tried the same again and again,
        // and reported damage.
        ("761192/761192:0,1,2,3;0,4;0,1,2,3,4", all),
        // The decision on a short message kept its text after the message was erased.
        ("394704/394704:;0;3,4", all),
        // A push whose erasures were applied to the other store while it collected garbage.
        ("892286/892286:0,2;1;0,1;0,1;0,2", all),
        // A search between an erasure and the removal of its rows: it joined rows of before with new
        // ones, and so stored the erased words again.
        ("922109/922123:0;0,2;0,1,3;0,1", all),
        // A merge that was kept, or was checked for erased messages, when its branch was dropped
        // and collected: reported as a missing object.
        ("1099511795748/1099511795748:0,1;;0", all),
        // A branch that was renamed while its message was erased and its creation undone: under
        // the new name it showed the erased message.
        ("1099511796363/1099511796363:;;1;0;1;0", all),
    ];
    for (case, verbs) in cases {
        let case: Case = case.parse().unwrap();
        let run = Simulation::memory().verbs(*verbs).replay(&case);
        assert!(run.is_ok(), "{}", run.unwrap_err());
    }
}

/// A fault between the engine and the store: a rule of one of them that is not kept.
#[derive(Clone, Copy, Debug)]
enum Planted {
    /// A store that breaks one promise.
    Store(Fault),
    /// A batch does not require the objects that its refs are to point at.
    ForgottenRequirement,
    /// Collections of garbage do not see tags.
    MissedTags,
    /// Collections of garbage do not see pending approvals.
    MissedPending,
    /// Branches are moved wherever they point.
    NoExpectedValue,
    /// A sweep is repeated until no write came in between.
    SweepAtAnyPosition,
    /// Rows of an index are stored also where something was erased since their messages were read.
    UnconditionalRows,
    /// A writer stores objects ahead of its refs and holds no lease for them.
    ForgottenLease,
}

#[async_trait]
impl Watch for Planted {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        match (self, call) {
            (Self::ForgottenRequirement, Call::Apply { repo, batch }) => {
                let mut batch = batch.clone();
                batch.requires.clear();
                Ok(store.apply(repo, batch).await?.into())
            }
            (Self::NoExpectedValue, Call::Apply { repo, batch }) => {
                let mut batch = batch.clone();
                for edit in &mut batch.refs {
                    if edit.name.branch_name().is_some() {
                        edit.expect = Expect::Any;
                    }
                }
                Ok(store.apply(repo, batch).await?.into())
            }
            (Self::UnconditionalRows, Call::Apply { repo, batch }) if !batch.derived.is_empty() => {
                let mut batch = batch.clone();
                batch.refs.retain(|edit| {
                    let stays = match &edit.expect {
                        Expect::Is(at) => edit.to.as_ref() == Some(at),
                        Expect::Any | Expect::Absent => edit.to.is_none(),
                    };
                    edit.name != RefName::newest_erasure() || !stays
                });
                Ok(store.apply(repo, batch).await?.into())
            }
            (Self::ForgottenLease, Call::Apply { repo, batch }) => {
                let mut batch = batch.clone();
                batch.refs.retain(|edit| !edit.name.is_lease());
                Ok(store.apply(repo, batch).await?.into())
            }
            (Self::MissedTags | Self::MissedPending, Call::Sweep { repo, sweep }) => {
                let mut sweep = sweep.clone();
                let prefix = if matches!(self, Self::MissedTags) { "tags/" } else { "pending/" };
                let missed = store.list_refs(repo, prefix).await?;
                let branches = store.list_refs(repo, "heads/").await?;
                let missed =
                    missed.iter().filter(|(_, at)| branches.iter().all(|(_, head)| head != at));
                sweep.objects.extend(missed.filter_map(|(_, at)| at.object()));
                Ok(store.sweep(repo, sweep).await?.into())
            }
            (Self::SweepAtAnyPosition, Call::Sweep { repo, sweep }) => {
                let mut sweep: Sweep = sweep.clone();
                loop {
                    match store.sweep(repo, sweep.clone()).await? {
                        SweepAnswer::Moved(position) => sweep.position = position,
                        done => return Ok(done.into()),
                    }
                }
            }
            (_, call) => call.ask(store).await,
        }
    }
}

impl Planted {
    fn open(self) -> Arc<dyn Store> {
        let memory = Arc::new(tract_kv::memory());
        match self {
            Self::Store(fault) => Arc::new(FaultyStore::new(memory, fault)),
            planted => Arc::new(WatchedStore::new(memory, planted)),
        }
    }
}

/// Faults, and the verbs that meet them.
const PLANTED: &[(Planted, &[Verb])] = &[
    (Planted::ForgottenRequirement, &[Verb::GcNow, Verb::Undo, Verb::Redo]),
    (Planted::MissedTags, &[Verb::GcNow, Verb::Tag, Verb::DeleteBranch, Verb::Reset]),
    (Planted::MissedPending, &[Verb::GcNow, Verb::Defer, Verb::Decide]),
    (Planted::UnconditionalRows, &[Verb::Erase, Verb::Search]),
    (Planted::ForgottenLease, &[Verb::GcNow, Verb::ApplyAtomic]),
    (Planted::NoExpectedValue, &[Verb::Edit, Verb::Turn]),
    (Planted::SweepAtAnyPosition, &[Verb::GcNow, Verb::CreateBranch, Verb::DeleteBranch]),
    (Planted::Store(Fault::IgnoresExpectations), &[Verb::Edit]),
    (Planted::Store(Fault::LosesMoves), &[Verb::Turn]),
    (Planted::Store(Fault::SweepsAnyway), &[Verb::GcNow, Verb::CreateBranch, Verb::DeleteBranch]),
    (Planted::Store(Fault::IgnoresPositions), &[Verb::Erase, Verb::Repeat]),
    (Planted::Store(Fault::SweepsContent), &[Verb::GcNow, Verb::DeleteBranch, Verb::Import]),
    (Planted::Store(Fault::ErasesNothing), &[Verb::Erase]),
    (Planted::Store(Fault::SkipsCommits), &[Verb::Turn]),
    (Planted::Store(Fault::ForgetsParents), &[Verb::Merge]),
    (Planted::Store(Fault::RepackLoses), &[Verb::Repack]),
];

/// Each is found, and the case that is left of it finds the same again.
#[test]
fn planted_faults_are_found() {
    let _alone = alone();
    let begun = Instant::now();
    let (mut missed, mut seeds) = (Vec::new(), Vec::new());
    for (planted, verbs) in PLANTED {
        let open = move |_: &Path| -> StoreResult<Arc<dyn Store>> { Ok(planted.open()) };
        let simulation = Simulation::new(open).without_folder().threads(2).verbs(*verbs);
        let Err(failure) = simulation.search(0..50_000) else {
            missed.push(planted);
            continue;
        };
        assert_ne!(failure.finding.invariant, Invariant::Panic, "{planted:?}: {failure}");
        let again = simulation.run(&failure.case).unwrap_err();
        assert_eq!(again, failure.finding, "{planted:?}");
        let Case { seed, .. } = failure.case;
        println!("{planted:?}: {:?} at seed {seed}, case {}", again.invariant, failure.case);
        seeds.push(seed);
    }
    let last = seeds.iter().max().unwrap();
    let (faults, seconds) = (seeds.len(), begun.elapsed().as_secs_f64());
    let text = format!("{faults} faults, each found by seed {last} or earlier, {seconds:.0} s");
    figure("simulation, planted", "memory", &text);
    assert!(missed.is_empty(), "not found: {missed:?}");
}
