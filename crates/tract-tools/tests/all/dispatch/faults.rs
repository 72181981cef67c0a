use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tract_core::{ToolTraits, block_on};
use tract_hooks::{BeforeDispatch, DispatchAction, Hooks};
use tract_tools::dispatch::{
    CallKey, CallStart, DispatchOptions, Dispatched, Journal, Outcome, Recorded, Start,
};
use tract_tools::policy::{Decision, PolicyRequest};
use tract_tools::snapshot::BoxError;
use tract_tools::{Dispatcher, Registry, Turn};

use super::support::{Act, FAULTS, Fault, Host, Scripted, TestSession, Trap, call, ids, outcomes};

/// Where something of the second of three calls breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Policy,
    Hook,
    Ledger,
    Start,
    Snapshot,
    Handler,
    Provider,
    Note,
    CleanUp,
    Invoked,
}

const STAGES: [Stage; 10] = [
    Stage::Policy,
    Stage::Hook,
    Stage::Ledger,
    Stage::Start,
    Stage::Snapshot,
    Stage::Handler,
    Stage::Provider,
    Stage::Note,
    Stage::CleanUp,
    Stage::Invoked,
];

struct TrappedJournal {
    recorded: Trap,
    started: Trap,
}

#[async_trait]
impl Journal for TrappedJournal {
    async fn start(&self, _: &CallStart) -> Result<Start, BoxError> {
        self.started.spring().map(|()| Start::Begin)
    }

    async fn recorded(&self, _: &CallKey) -> Result<Option<Recorded>, BoxError> {
        self.recorded.spring()?;
        Ok(None)
    }
}

/// Runs three calls, of which the second runs into the fault; in parallel, they only read.
fn run(host: &Host, stage: Stage, fault: Fault, parallel: bool) -> (Dispatched, Arc<TestSession>) {
    // Uses are counted from 0; the second call is the second use, but for what only it does.
    let at =
        |wanted: Stage, place: usize| Trap::new(host, (wanted == stage).then_some((fault, place)));
    let mut session = TestSession::new(host);
    session.on_snapshot = at(Stage::Snapshot, 1);
    session.on_note = at(Stage::Note, 1);
    session.on_invoked = at(Stage::Invoked, 1);
    let session = Arc::new(session);
    let policy = at(Stage::Policy, 1);
    let hook = at(Stage::Hook, 1);
    let journal = TrappedJournal { recorded: at(Stage::Ledger, 1), started: at(Stage::Start, 0) };
    // With an idempotent call first, this tool's own first use is the second call.
    let act =
        Scripted { trap: Some(at(Stage::Handler, 0)), ..host.tool("act", ToolTraits::default()) };
    let reading = ToolTraits::READ_ONLY;
    let look = Scripted { trap: Some(at(Stage::Handler, 1)), ..host.tool("look", reading) };
    let put = host.tool("put", ToolTraits { idempotent: true, ..ToolTraits::default() });
    let registry = Registry::builder().tool(act).tool(look).tool(put).build().unwrap();
    let policy = move |_: &PolicyRequest<'_>| match policy.spring() {
        Ok(()) => Decision::Allow,
        Err(error) => Decision::deny(format!("no: {}", error.to_string().len())),
    };
    let hooks = Hooks::new().time_limit(None).on_try("trap", move |_: &BeforeDispatch| {
        hook.spring().map(|()| DispatchAction::Pass).map_err(|error| error.to_string())
    });
    let dispatcher = Dispatcher {
        options: DispatchOptions { grace: Duration::ZERO, ..DispatchOptions::default() },
        policies: vec![Arc::new(policy)],
        hooks,
        ..Dispatcher::new(Arc::new(registry))
    };
    let turn = Turn {
        resources: Some(host.resources(at(Stage::CleanUp, 0), at(Stage::Provider, 0))),
        journal: Some(Arc::new(journal)),
        ..host.turn(&session)
    };
    // Starts are written down before the first call that is not idempotent: let it be the second.
    let (first, others) = match stage {
        _ if parallel => ("look", "look"),
        Stage::Start | Stage::Handler => ("put", "act"),
        _ => ("act", "act"),
    };
    let second = match stage {
        Stage::Provider | Stage::CleanUp => Act::PerCall,
        _ => Act::Ok,
    };
    let calls = vec![
        call("c1", first, &Act::Ok),
        call("c2", others, &second),
        call("c3", others, &Act::Ok),
    ];
    (block_on(dispatcher.run(calls, &turn)), session)
}

/// A fault of time or cancellation in what comes after the handler is too late for this call: it
/// has succeeded, and the next one does not run.
fn too_late(stage: Stage, fault: Fault) -> bool {
    let after = matches!(stage, Stage::Note | Stage::CleanUp | Stage::Invoked);
    // The handler itself returned in spite of it.
    let returned = matches!(stage, Stage::Handler | Stage::Provider);
    (after || returned) && matches!(fault, Fault::Timeout | Fault::Cancel)
}

#[test]
fn every_stage_and_every_fault_leave_the_state_before_and_one_failed_answer() {
    let mut combinations = 0;
    for stage in STAGES {
        for fault in FAULTS {
            combinations += 1;
            let what = format!("{stage:?} × {fault:?}");
            let host = Host::new();
            let (done, session) = run(&host, stage, fault, false);
            assert_eq!(ids(&done, |_| true), ["c1", "c2", "c3"], "{what}");
            let succeeded = ids(&done, |answer| answer.outcome() == Outcome::Succeeded);
            // State after is state before plus what the calls that succeeded did.
            assert_eq!(session.notes(), succeeded, "{what}");
            let files = host.all_files();
            let written: Vec<&str> =
                files.keys().filter_map(|p| p.strip_prefix("calls/")).collect();
            assert_eq!(written, succeeded, "{what}");
            let ended = matches!(fault, Fault::Timeout | Fault::Cancel)
                || matches!(stage, Stage::Ledger | Stage::Start | Stage::Snapshot);
            assert_eq!(done.ended.is_some(), ended, "{what}: {:?}", done.ended);
            let expected = match (too_late(stage, fault), ended) {
                (true, _) => vec!["c1", "c2"],
                (false, true) => vec!["c1"],
                (false, false) => vec!["c1", "c3"],
            };
            assert_eq!(succeeded, expected, "{what}");
            let failed =
                ids(&done, |answer| answer.is_error && answer.outcome() != Outcome::NotExecuted);
            assert_eq!(failed.len(), 1, "{what}: exactly one failed answer");
            for answer in &done.answers {
                assert!(!answer.text.contains("secret"), "{what}: {}", answer.text);
                let deep = answer.operator.as_deref().unwrap_or_default();
                let faulty = matches!(fault, Fault::Error | Fault::Panic);
                let of_host = !matches!((stage, fault), (Stage::Policy, Fault::Error));
                if answer.call_id == "c2" && faulty && of_host {
                    assert!(deep.contains("the secret reason"), "{what}: operator reads {deep:?}");
                }
            }
        }
    }
    assert_eq!(combinations, 40);
}

#[test]
fn the_same_faults_of_a_parallel_call_fail_it_alone() {
    for fault in [Fault::Error, Fault::Panic] {
        for stage in [Stage::Handler, Stage::Note, Stage::Invoked, Stage::CleanUp, Stage::Provider]
        {
            let (done, session) = run(&Host::new(), stage, fault, true);
            let failed: Vec<bool> = done.answers.iter().map(|answer| answer.is_error).collect();
            assert_eq!(failed, [false, true, false], "{stage:?} × {fault:?}");
            assert_eq!(session.notes(), ["c1", "c3"], "{stage:?} × {fault:?}");
        }
    }
}

#[test]
fn state_that_cannot_be_restored_ends_the_turn() {
    for fault in [Fault::Error, Fault::Panic] {
        let host = Host::new();
        let mut session = TestSession::new(&host);
        session.on_restore = Trap::new(&host, Some((fault, 0)));
        let session = Arc::new(session);
        let calls = vec![call("c1", "act", &Act::Other), call("c2", "act", &Act::Ok)];
        let done = block_on(host.dispatcher().run(calls, &host.turn(&session)));
        assert_eq!(outcomes(&done), [Outcome::Failed, Outcome::NotExecuted]);
        assert_eq!(done.ended.as_ref().unwrap().code(), "host");
        let operator = done.answers[0].operator.as_deref().unwrap();
        assert!(operator.contains("session was not put back"), "{operator}");
        assert!(host.all_files().keys().all(|path| !path.starts_with("calls")), "the files were");
    }
}
