//! The caller's verbs, which clients run in addition to the engine's verbs.

use std::future::Future;
use std::pin::Pin;

use tract_engine::{Error, Repo};

use super::super::session::{Acknowledged, Outcome, Session};
use super::super::watch::Invariant;

/// A step of a caller's verb.
#[derive(Clone, Debug)]
pub struct OwnStep {
    /// The client's handle to its store.
    pub repo: Repo,
    /// The seed of the step's arguments.
    pub seed: u64,
}

/// A failed step.
#[derive(Debug)]
pub enum OwnError {
    /// An error of the engine. It must be accurate. A step that lost a race is repeated.
    Engine(Error),
    /// A violated invariant of the caller.
    Broken(String),
}

impl From<Error> for OwnError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Runs the steps of one schedule. It may only await calls of the repository: any other wait blocks
/// all clients.
pub type OwnVerb = Box<
    dyn Fn(OwnStep) -> Pin<Box<dyn Future<Output = Result<(), OwnError>> + Send>> + Send + Sync,
>;

pub(super) async fn run(session: &mut Session<'_>, name: &'static str) -> Outcome {
    let own = session.world.own.iter().find(|(own, _)| *own == name);
    let Some((_, verb)) = own else { return Ok(Acknowledged::default()) };
    let step = OwnStep { repo: session.repo.clone(), seed: session.random.next() };
    match verb(step).await {
        Ok(()) => Ok(Acknowledged::default()),
        Err(OwnError::Engine(error)) => Err(error),
        Err(OwnError::Broken(text)) => {
            session.world.report(Invariant::Own, format!("{name}: {text}"));
            Ok(Acknowledged::default())
        }
    }
}
