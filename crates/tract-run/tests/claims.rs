//! Runs on one store, in an order that a seed determines: a tool with an effect runs once for each
//! call, whichever branches have the call and whichever runs are forked, undone, cancelled or crash.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tract_core::{
    ChatModel, Draft, ModelError, ModelRequest, RefName, Reply, ToolError, ToolResult, ToolSpec,
};
use tract_run::{Agent, RunError};
use tract_testkit::simulation::{OwnError, OwnStep, Simulation, Verb};
use tract_testkit::{figure, scaled};
use tract_tools::Registry;
use tract_tools::typed::ClosureTool;

/// How often each call ran, by its number. A run that is repeated asks for another call.
#[derive(Clone, Default)]
struct Paid {
    times: Arc<Mutex<BTreeMap<String, usize>>>,
    next: Arc<AtomicUsize>,
}

/// Says some messages, one after the other.
struct Script(Mutex<VecDeque<Draft>>);

#[async_trait]
impl ChatModel for Script {
    async fn chat(&self, _: &ModelRequest) -> Result<Reply, ModelError> {
        let next = self.0.lock().unwrap().pop_front();
        Ok(Reply::new(next.unwrap_or_else(|| Draft::assistant("done")).content))
    }
}

fn tools(paid: &Paid) -> Registry {
    let times = Arc::clone(&paid.times);
    let spec = ToolSpec::new("pay", "Pays.", r#"{"type":"object"}"#);
    let pay = ClosureTool::new(spec, move |arguments, _| {
        *times.lock().unwrap().entry(arguments.to_string()).or_default() += 1;
        std::future::ready(Ok::<_, ToolError>(ToolResult::<()>::done("paid")))
    });
    Registry::builder().tool(pay).build().unwrap()
}

/// A run on a branch: with a message that the model answers with a call, or without one, so that it
/// continues with what the branch has. Some branches are forks that have the call without its result.
async fn run(step: OwnStep, paid: Paid) -> Result<(), OwnError> {
    let (repo, seed) = (step.repo, step.seed);
    let name = ["main", "main", "main", "side", "topic"][(seed % 5) as usize];
    let branch = RefName::branch(name).unwrap();
    let asks = seed / 5 % 2 == 0;
    if seed / 10 % 3 == 0
        && let Some(head) = repo.head_of(&RefName::branch("main").unwrap()).await?
    {
        // Others may have made it.
        let _ = repo.create_branch(name, head).await;
    }
    let says = asks.then(|| {
        let number = paid.next.fetch_add(1, Ordering::Relaxed);
        let arguments = format!(r#"{{"n":{number}}}"#);
        Draft::assistant("").call(format!("call-{number}"), "pay", arguments)
    });
    let model = Arc::new(Script(Mutex::new(says.into_iter().collect())));
    let agent = Agent::new(repo, branch, model, tools(&paid)).wait_for_others(Duration::ZERO);
    let ran = if asks { agent.run("go").await } else { agent.run(None).await };
    if let Some((call, times)) = paid.times.lock().unwrap().iter().find(|(_, times)| **times > 1) {
        return Err(OwnError::Broken(format!("{call} ran {times} times")));
    }
    match ran {
        Ok(_) => Ok(()),
        Err(RunError::Engine(error)) => Err(error.into()),
        // Another run works on the calls, or there is nothing to answer.
        Err(error) if !error.notes().is_empty() => Ok(()),
        Err(error) => Err(OwnError::Broken(format!("no remedy: {error}"))),
    }
}

/// Adds the runs, and verbs that fork, undo and delete.
fn with_runs(simulation: Simulation) -> Simulation {
    let verbs = [Verb::CreateBranch, Verb::Undo, Verb::GcNow, Verb::Reset];
    simulation.verbs(verbs).own_verb("run", || {
        let paid = Paid::default();
        Box::new(move |step| Box::pin(run(step, paid.clone())))
    })
}

#[test]
fn an_effect_happens_once_whichever_runs_claim_it() {
    let schedules = scaled(50_000, 0.02, 200) as u64;
    match with_runs(Simulation::memory()).search(0..schedules) {
        Ok(calls) => {
            let text = format!("{schedules} schedules, {calls} store calls");
            figure("simulation, claims of effects", "memory", text);
        }
        Err(failure) => panic!("{failure}"),
    }
}
