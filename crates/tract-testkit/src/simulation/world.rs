//! The world of one schedule: its stores, its clock, and its findings.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tract_core::{CommitId, ManualClock, RefName, RepoName, Store};
use tract_engine::{Repo, RepoOptions};

use super::case::ClientPlan;
use super::executor::Scheduler;
use super::verb::Verb;
use super::verbs::OwnVerb;
use super::watch::{Finding, Invariant, Watcher};
use crate::watched::WatchedStore;

/// Start time of every schedule: 2026-01-01, in microseconds since 1970.
const BEGIN_US: i64 = 1_767_225_600_000_000;

/// A store of a schedule.
pub(super) struct SimulatedStore {
    /// The unwatched store. Calls on it do not end a turn.
    pub(super) bare: Arc<dyn Store>,
    watched: Arc<WatchedStore<Watcher>>,
}

/// A word that occurs in one message, and the store where a client wrote or erased it.
#[derive(Clone, Debug)]
pub(super) struct StoredWord {
    pub(super) store: usize,
    pub(super) word: String,
}

/// The state that all clients of a schedule share.
pub(super) struct World {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) stores: Vec<SimulatedStore>,
    pub(super) clock: ManualClock,
    /// Bundles and exports that clients wrote.
    pub(super) files: Mutex<Vec<Vec<u8>>>,
    /// Secrets in messages whose write was acknowledged.
    pub(super) secrets: Mutex<Vec<StoredWord>>,
    /// Words whose erasure was acknowledged.
    pub(super) erased: Arc<Mutex<Vec<StoredWord>>>,
    /// Whether a text can be stored a second time: by a repetition, an import, a file or another
    /// store.
    pub(super) brings_back: bool,
    /// The caller's verbs, by name.
    pub(super) own: Vec<(&'static str, OwnVerb)>,
    verbs: Arc<Mutex<Vec<Verb>>>,
    findings: Arc<Mutex<Vec<Finding>>>,
}

impl World {
    pub(super) fn new(
        stores: Vec<Arc<dyn Store>>,
        plans: &[ClientPlan],
        own: Vec<(&'static str, OwnVerb)>,
        trace: bool,
    ) -> Self {
        let scheduler = Arc::new(Scheduler::new(plans.len(), trace));
        let verbs = Arc::new(Mutex::new(vec![Verb::Commit; plans.len()]));
        let mut steps = plans.iter().flat_map(|plan| &plan.steps);
        let brings_back = steps.any(|step| step.verb.brings_back());
        let findings: Arc<Mutex<Vec<Finding>>> = Arc::default();
        let erased: Arc<Mutex<Vec<StoredWord>>> = Arc::default();
        let stores = stores.into_iter().enumerate().map(|(number, bare)| {
            let mut watcher = Watcher::new(&scheduler, &verbs, &findings, number);
            if !brings_back {
                watcher.gone = Some(Arc::clone(&erased));
            }
            let watched = Arc::new(WatchedStore::new(Arc::clone(&bare), watcher));
            SimulatedStore { bare, watched }
        });
        let stores = stores.collect();
        Self {
            stores,
            scheduler,
            clock: ManualClock::at_us(BEGIN_US),
            files: Mutex::default(),
            secrets: Mutex::default(),
            erased,
            brings_back,
            own,
            verbs,
            findings,
        }
    }

    /// Opens a repository handle with its own caches.
    pub(super) fn open(&self, store: usize, who: &str) -> Repo {
        Repo::new(Arc::clone(&self.stores[store].watched) as Arc<dyn Store>, self.options(who))
    }

    /// Returns the options of every handle. A write is not retried after a second lost race,
    /// because the waits before retries would use real time instead of the clock of the schedule.
    pub(super) fn options(&self, who: &str) -> RepoOptions {
        RepoOptions {
            clock: Arc::new(self.clock.clone()),
            who: who.into(),
            turn_rows_every: 4,
            retry_for: Duration::ZERO,
            ..RepoOptions::default()
        }
    }

    pub(super) fn begin(&self, client: usize, verb: Verb) {
        let mut verbs = self.verbs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = verbs.get_mut(client) {
            *current = verb;
        }
    }

    pub(super) fn report(&self, invariant: Invariant, text: String) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.push(Finding { invariant, text });
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        let findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.first().cloned()
    }

    pub(super) fn has_reached(&self, store: usize, commit: CommitId) -> bool {
        self.stores[store].watched.watch().has_reached(commit)
    }

    pub(super) fn reached(&self, store: usize) -> Vec<CommitId> {
        self.stores[store].watched.watch().reached()
    }

    /// Checks all objects that are reachable from the refs of all stores.
    pub(super) fn check_all(&self) {
        for store in &self.stores {
            store.watched.watch().check_all(&*store.bare, &RepoName::default());
        }
    }

    /// Checks that each commit is stored with all objects that it links to.
    pub(super) fn check_links(&self) {
        for store in &self.stores {
            store.watched.watch().check_links(&*store.bare, &RepoName::default());
        }
    }
}

/// The branches of a schedule. Imports use the last ones.
pub(super) const BRANCHES: [&str; 6] = ["main", "side", "topic", "c0", "c1", "c2"];

/// Returns the ref of a branch of [`BRANCHES`].
pub(super) fn branch(name: &str) -> RefName {
    RefName::branch(name).expect("the names of the simulation are valid")
}
