//! Simulates many clients on one store, in an order determined by a seed.
//!
//! Every store call is a point where another client may run, or where the client dies. Clients have
//! handles and caches of their own and share one or two stores and a virtual clock. After every
//! step, [`Invariant`]s are checked for all clients. A [`Case`] that breaks one is shrunk to the
//! fewest clients and verbs, and replays exactly.
//!
//! ```
//! use tract_testkit::simulation::Simulation;
//! let simulation = Simulation::memory();
//! if let Err(failure) = simulation.search(0..10) {
//!     panic!("{failure}");
//! }
//! ```

mod case;
mod client;
mod erased;
mod executor;
mod order;
mod random;
mod session;
mod verb;
mod verbs;
mod watch;
mod world;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tract_core::{Draft, RepeatableIds, Store, StoreResult, block_on};
use tract_engine::{Error, ImportConversation, ImportOptions, Repo, VerifyOptions, import, verify};

use self::case::{Bounds, ClientPlan};
pub use self::case::{Case, ParseCaseError};
use self::client::Client;
use self::order::Order;
pub use self::verb::{UnknownVerb, Verb};
pub use self::verbs::{OwnError, OwnStep, OwnVerb};
use self::verbs::{compare_search, imported};
pub use self::watch::{Finding, Invariant};
use self::world::{World, branch};

/// Opens an empty store for a schedule, in a new folder.
type Open = Arc<dyn Fn(&Path) -> StoreResult<Arc<dyn Store>> + Send + Sync>;

/// Makes a caller's verb for a schedule.
type BeginOwn = Arc<dyn Fn() -> OwnVerb + Send + Sync>;

/// Runs schedules of clients on a kind of store.
#[derive(Clone)]
pub struct Simulation {
    open: Open,
    needs_folder: bool,
    threads: usize,
    bounds: Bounds,
    own: Vec<(&'static str, BeginOwn)>,
}

/// A schedule without a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The number of store calls.
    pub calls: u64,
    /// A hash of these calls and their order: equal for equal runs.
    pub order: u64,
}

/// A case that broke an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The shortest failing case.
    pub case: Case,
    /// The broken invariant.
    pub finding: Finding,
    /// The store calls of the clients, one per line.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { invariant, text } = &self.finding;
        writeln!(f, "{invariant:?}: {text}")?;
        writeln!(f, "case {}", self.case)?;
        self.trace.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Simulation {
    /// Runs schedules on stores opened by a function. It gets an empty folder each time.
    pub fn new(
        open: impl Fn(&Path) -> StoreResult<Arc<dyn Store>> + Send + Sync + 'static,
    ) -> Self {
        let bounds = Bounds { verbs: Verb::ALL.to_vec(), own: Vec::new(), clients: 6, steps: 6 };
        Self { open: Arc::new(open), needs_folder: true, threads: 1, bounds, own: Vec::new() }
    }

    /// Runs schedules on stores in memory.
    pub fn memory() -> Self {
        let memory = |_: &Path| -> StoreResult<Arc<dyn Store>> { Ok(Arc::new(tract_kv::memory())) };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { needs_folder: false, threads, ..Self::new(memory) }
    }

    /// Runs the same schedules on stores without files: the function gets an empty path.
    #[must_use]
    pub fn without_folder(mut self) -> Self {
        self.needs_folder = false;
        self
    }

    /// Sets the verbs that clients carry out; all by default. They also commit.
    #[must_use]
    pub fn verbs(mut self, verbs: impl Into<Vec<Verb>>) -> Self {
        self.bounds.verbs = verbs.into();
        self
    }

    /// Adds a caller's verb, which at least half of the steps run. `begin` makes it once per
    /// schedule, so that the steps of a schedule can share state.
    #[must_use]
    pub fn own_verb(
        mut self,
        name: &'static str,
        begin: impl Fn() -> OwnVerb + Send + Sync + 'static,
    ) -> Self {
        self.own.push((name, Arc::new(begin)));
        self.bounds.own.push(Verb::Own(name));
        self
    }

    /// Sets the number of schedules that run concurrently, each on its own thread. Default: 1, or
    /// one per processor in memory.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Runs a case.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn run(&self, case: &Case) -> Result<Run, Finding> {
        self.run_traced(case, false).0
    }

    /// Runs a case unchanged, and records the store calls.
    ///
    /// # Errors
    /// The first broken invariant, with the trace of the run.
    pub fn replay(&self, case: &Case) -> Result<Run, Box<Failure>> {
        let (result, trace) = self.run_traced(case, true);
        result.map_err(|finding| Box::new(Failure { case: case.clone(), finding, trace }))
    }

    /// Runs a case, and returns the store calls of the clients, one per line.
    pub fn trace(&self, case: &Case) -> Vec<String> {
        self.run_traced(case, true).1
    }

    fn run_traced(&self, case: &Case, trace: bool) -> (Result<Run, Finding>, Vec<String>) {
        let plans = self.bounds.clients(case);
        let two = plans.iter().any(|plan| {
            plan.store == 1 || plan.steps.iter().any(|step| step.verb.needs_two_stores())
        });
        let mut folders = Vec::new();
        let mut stores = Vec::new();
        for _ in 0..if two { 2 } else { 1 } {
            let folder = self.needs_folder.then(tempfile::tempdir).transpose();
            let folder = folder.expect("a folder for a store can be made");
            let path = folder.as_ref().map_or(Path::new(""), |folder| folder.path());
            match (self.open)(path) {
                Ok(store) => stores.push(store),
                Err(error) => panic!("the store of a simulation does not open: {error}"),
            }
            folders.push(folder);
        }
        let own = self.own.iter().map(|(name, begin)| (*name, begin())).collect();
        let _ids = RepeatableIds::seeded(case.seed);
        let world = Arc::new(World::new(stores, &plans, own, trace));
        let clients: Vec<Arc<Client>> = plans
            .iter()
            .enumerate()
            .map(|(number, plan)| Arc::new(Client::new(&world, number, plan.clone())))
            .collect();
        if let Err(error) = block_on(set_up(&world)) {
            panic!("a simulation cannot begin: {error}");
        }
        world.check_all();
        let mut order = Order::of(case, clients.len());
        let searched = |plan: &ClientPlan| plan.steps.iter().any(|step| step.verb == Verb::Search);
        let searches = plans.iter().any(searched);
        let ran = world.scheduler.run(
            &mut order,
            clients.len(),
            |client| clients[client].work(&world),
            |client| clients[client].dropped(&world),
            || world.finding().is_some(),
        );
        if let Err(panic) = ran {
            world.report(Invariant::Panic, panic);
        }
        if world.finding().is_none()
            && let Err(error) = block_on(finish(&world, case.seed, searches))
        {
            world.report(Invariant::Accurate, format!("at the end: {error} ({})", error.code()));
        }
        let (calls, order) = world.scheduler.calls();
        let trace = world.scheduler.take_trace();
        (world.finding().map_or(Ok(Run { calls, order }), Err), trace)
    }

    /// Runs the schedules of some seeds, and returns the number of store calls.
    ///
    /// # Errors
    /// The first failure, [shrunk](Self::shrink).
    pub fn search(&self, seeds: Range<u64>) -> Result<u64, Box<Failure>> {
        let (next, calls) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
        let (is_over, failed) = (AtomicBool::new(false), Mutex::new(None));
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    break;
                }
                match self.run(&Case::new(seed)) {
                    Ok(run) => {
                        calls.fetch_add(run.calls, Ordering::Relaxed);
                    }
                    Err(finding) => {
                        is_over.store(true, Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        // The first seed counts, whichever thread was faster.
                        if failed.as_ref().is_none_or(|(first, _)| seed < *first) {
                            *failed = Some((seed, finding));
                        }
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            (1..self.threads).for_each(|_| {
                scope.spawn(work);
            });
            work();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((seed, finding)) => Err(Box::new(self.shrink(&Case::new(seed), finding))),
            None => Ok(calls.into_inner()),
        }
    }

    /// Finds the fewest clients and verbs that break the same invariant.
    pub fn shrink(&self, case: &Case, finding: Finding) -> Failure {
        let plans = self.bounds.clients(case);
        let kept = case.kept.clone();
        let mut kept: Vec<Vec<usize>> = kept
            .unwrap_or_else(|| plans.iter().map(|plan| (0..plan.steps.len()).collect()).collect());
        let (mut case, mut finding) = (case.clone(), finding);
        // Fewer steps need another order, so several orders are tried.
        let fails = |kept: &[Vec<usize>], wanted: Invariant| {
            (0..ORDERS).find_map(|order| {
                let order = case.seed.wrapping_add(order);
                let case = Case { seed: case.seed, order, kept: Some(kept.to_vec()) };
                let finding = self.run(&case).err()?;
                (finding.invariant == wanted).then_some((case, finding))
            })
        };
        let mut best = None;
        let mut removed = true;
        while removed {
            removed = false;
            for client in 0..kept.len() {
                let whole = std::mem::take(&mut kept[client]);
                if !whole.is_empty()
                    && let Some(smaller) = fails(&kept, finding.invariant)
                {
                    (best, removed) = (Some(smaller), true);
                    continue;
                }
                kept[client] = whole;
                let mut at = kept[client].len();
                while at > 0 {
                    at -= 1;
                    let step = kept[client].remove(at);
                    match fails(&kept, finding.invariant) {
                        Some(smaller) => (best, removed) = (Some(smaller), true),
                        None => kept[client].insert(at, step),
                    }
                }
            }
        }
        if let Some((smaller, found)) = best {
            (case, finding) = (smaller, found);
        }
        let trace = self.run_traced(&case, true).1;
        Failure { case, finding, trace }
    }
}

/// One in this many schedules is verified at its end. Clients verify in the others.
const VERIFIED: u64 = 4;
/// Number of orders tried per attempt to shrink a case.
const ORDERS: u64 = 24;

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// Writes the initial content of every schedule: two branches that share a few messages, an
/// imported conversation, and one whose branch was deleted.
async fn set_up(world: &World) -> Result<(), Error> {
    for (number, store) in world.stores.iter().enumerate() {
        let repo = Repo::new(Arc::clone(&store.bare), world.options("set up"));
        repo.init().await?;
        if number == 0 {
            let drafts = ["alpha kkllmmnn", "beta ppqqrrss", "alpha ttuuvvww"].map(Draft::user);
            let commits = repo.append_all(&branch("main"), drafts).await?;
            repo.create_branch("side", commits[1].id()).await?;
            repo.append(&branch("side"), Draft::assistant("gamma gghhiijj")).await?;
            let options = ImportOptions::default();
            let drafts = vec![imported("c1", 0, 0)];
            import(&repo, ImportConversation::new("c1", drafts), &options).await?;
            let drafts = vec![imported("shared", 0, 0), imported("old", 0, 1)];
            import(&repo, ImportConversation::new("old", drafts), &options).await?;
            repo.delete_branch("old").await?;
        }
    }
    Ok(())
}

/// Checks each store after all clients are done, and the search index if a client wrote one.
async fn finish(world: &World, seed: u64, searches: bool) -> Result<(), Error> {
    world.check_all();
    world.check_links();
    for (number, store) in world.stores.iter().enumerate() {
        let repo = Repo::new(Arc::clone(&store.bare), world.options("check"));
        // Verifying takes as long as all steps together.
        if seed.is_multiple_of(VERIFIED) {
            let report = verify(&repo, &VerifyOptions::default()).await?;
            if let Some(damage) = report.damage.first() {
                let text = format!("store {number}: {:?}: {}", damage.object, damage.what);
                world.report(Invariant::Verify, text);
            }
        }
        for branch in repo.branches().await? {
            // Also if a client moved it back to a commit before an erasure.
            repo.compile(Some(branch.head)).await?;
        }
        if searches {
            compare_search(world, number, &repo, "alpha").await?;
        }
    }
    erased::check(world).await
}
