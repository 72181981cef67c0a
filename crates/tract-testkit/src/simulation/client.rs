//! A client: it executes its steps in order, and reports the answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tract_core::{CommitId, StoreErrorKind};
use tract_engine::{Error, Repo};

use super::case::{ClientPlan, Step};
use super::executor::Work;
use super::random::Random;
use super::session::{Acknowledged, Session};
use super::verb::Verb;
use super::verbs;
use super::watch::Invariant;
use super::world::World;

/// The state of a client that survives a dropped step.
pub(super) struct Client {
    number: usize,
    plan: ClientPlan,
    memory: Mutex<Memory>,
}

struct Memory {
    next: usize,
    repo: Repo,
    commits: Vec<CommitId>,
}

impl Client {
    pub(super) fn new(world: &World, number: usize, plan: ClientPlan) -> Self {
        let repo = world.open(plan.store, &format!("client {number}"));
        let memory = Mutex::new(Memory { next: 0, repo, commits: Vec::new() });
        Self { number, plan, memory }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the remaining work.
    pub(super) fn work(self: &Arc<Self>, world: &Arc<World>) -> Work {
        let (client, world) = (Arc::clone(self), Arc::clone(world));
        Box::pin(async move {
            while let Some(step) = client.next() {
                client.step(&world, step).await;
            }
        })
    }

    fn next(&self) -> Option<Step> {
        let mut memory = self.memory();
        let step = self.plan.steps.get(memory.next).copied();
        memory.next += 1;
        step
    }

    /// Continues after a dropped step, with the same handle or a new one.
    pub(super) fn dropped(&self, world: &World) {
        let mut memory = self.memory();
        let step = memory.next.checked_sub(1).and_then(|at| self.plan.steps.get(at));
        let crash = step.and_then(|step| step.stop).is_some_and(|stop| stop.crash);
        let number = self.number;
        world.scheduler.note(|| {
            format!("client {number} {}", if crash { "crashes" } else { "cancels its step" })
        });
        if crash {
            memory.repo = world.open(self.plan.store, &format!("client {number}"));
            memory.commits.clear();
        }
    }

    fn session<'a>(&self, world: &'a World, step: Step) -> Session<'a> {
        let memory = self.memory();
        Session {
            world,
            store: self.plan.store,
            repo: memory.repo.clone(),
            random: Random::new(step.seed),
            commits: memory.commits.clone(),
        }
    }

    async fn step(&self, world: &World, step: Step) {
        let (number, verb) = (self.number, step.verb);
        world.scheduler.begin(number, step.stop.map(|stop| stop.after));
        world.begin(number, verb);
        world.clock.advance(Duration::from_millis(1 + step.seed % 5));
        world.scheduler.note(|| format!("client {number} begins {verb}"));
        let mut session = self.session(world, step);
        let result = Box::pin(verbs::run(verb, &mut session)).await;
        world.scheduler.note(|| format!("client {number} ends {verb}: {}", outcome(&result)));
        let result = match result {
            Err(error) if is_contention(&error) => {
                let _alone = world.scheduler.alone();
                let mut session = self.session(world, step);
                let again = Box::pin(verbs::run(verb, &mut session)).await;
                world.scheduler.note(|| format!("client {number} again: {}", outcome(&again)));
                if let Err(error) = &again
                    && is_contention(error)
                {
                    let text = format!("client {number}, {verb}, alone: {error}");
                    world.report(Invariant::Retry, text);
                }
                again
            }
            result => result,
        };
        match result {
            Ok(acknowledged) => self.acknowledged(world, verb, acknowledged),
            Err(error) => {
                if !is_accurate(&error) {
                    let text = format!("client {number}, {verb}: {error} ({})", error.code());
                    world.report(Invariant::Accurate, text);
                } else if error.notes().is_empty() {
                    let text = format!("{verb}: no remedy: {error} ({})", error.code());
                    world.report(Invariant::Accurate, text);
                }
            }
        }
        world.scheduler.begin(number, None);
    }

    fn acknowledged(&self, world: &World, verb: Verb, acknowledged: Acknowledged) {
        let number = self.number;
        for commit in &acknowledged.commits {
            if !world.has_reached(self.plan.store, *commit) {
                let text = format!("client {number}, {verb}: no branch has led to commit {commit}");
                world.report(Invariant::Acknowledged, text);
            }
        }
        let mut memory = self.memory();
        memory.commits.extend(acknowledged.commits);
        memory.commits.extend(acknowledged.stored);
    }
}

fn outcome(result: &Result<Acknowledged, Error>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(error) => format!("{error} ({})", error.code()),
    }
}

/// Returns whether other clients interfered, so that the same request may succeed on retry.
fn is_contention(error: &Error) -> bool {
    match error {
        Error::KeptMoving { .. } | Error::Conflict { .. } | Error::DecidedMeanwhile { .. } => true,
        Error::Store(error) => error.kind == StoreErrorKind::Busy,
        _ => false,
    }
}

/// Returns whether an error may occur with a healthy store.
fn is_accurate(error: &Error) -> bool {
    !error.is_store_failure() && !matches!(error.code(), "missing_object" | "corrupt")
}
