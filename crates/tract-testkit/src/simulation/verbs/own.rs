//! Verbs of a caller: what clients carry out in addition to the engine's verbs.

use std::future::Future;
use std::pin::Pin;

use tract_engine::{Error, Repo};

use super::super::client::Session;
use super::super::watch::Invariant;
use super::{Acknowledged, Outcome};

/// One step of a verb of the caller.
#[derive(Clone, Debug)]
pub struct OwnStep {
    /// The client's handle of its store.
    pub repo: Repo,
    /// The seed of the step's arguments.
    pub seed: u64,
}

/// The end of a step that did not succeed.
#[derive(Debug)]
pub enum OwnError {
    /// A refusal of the engine. It has to be accurate, and a step that lost a race is repeated.
    Engine(Error),
    /// A broken invariant of the caller.
    Broken(String),
}

impl From<Error> for OwnError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Carries out the steps of one schedule. It may only wait for calls of the repository: other waits
/// keep all clients waiting.
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
