//! Where something breaks, and how.

use std::cell::RefCell;
use std::time::Duration;

use tract::CancellationToken;
use tract::core::ManualClock;
use tract::tools::snapshot::BoxError;

use crate::kills;

/// Where something of the second of three calls breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A policy decides.
    Policy,
    /// A hook decides, before the call.
    Hook,
    /// Starts are written down.
    Start,
    /// The state is noted, to be put back.
    Snapshot,
    /// The tool runs.
    Handler,
    /// A resource is made for the call.
    Provider,
    /// The events of the tool are accepted.
    Note,
    /// The resource is closed.
    CleanUp,
    /// What the tool gave is delivered to the session.
    Deliver,
    /// The session hears how the call ended.
    Invoked,
}

impl Stage {
    pub(super) const ALL: [Self; 10] = [
        Self::Policy,
        Self::Hook,
        Self::Start,
        Self::Snapshot,
        Self::Handler,
        Self::Provider,
        Self::Note,
        Self::CleanUp,
        Self::Deliver,
        Self::Invoked,
    ];

    pub(super) fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The first tool of the three: starts are written down right before the first call that is
    /// not idempotent, and that shall be the second.
    pub(super) fn first_tool(self) -> &'static str {
        if self == Self::Start { "put" } else { "act" }
    }
}

/// How it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Error,
    Panic,
    /// Time is over when it returns.
    Timeout,
    /// The run is cancelled when it returns.
    Cancel,
    /// The process ends.
    Kill,
}

impl Fault {
    /// Those that a process survives.
    pub(super) const SURVIVED: [Self; 4] = [Self::Error, Self::Panic, Self::Timeout, Self::Cancel];
}

struct ArmedFault {
    stage: Stage,
    fault: Fault,
    clock: ManualClock,
    token: CancellationToken,
    snapshots: usize,
}

thread_local! {
    // Reducers and what is deserialized have no room for a handle; calls run where they are asked for.
    static ARMED: RefCell<Option<ArmedFault>> = const { RefCell::new(None) };
}

/// Sets the trap: the stage of the call `c2` runs into the fault, once.
pub(super) fn arm(stage: Stage, fault: Fault, clock: &ManualClock, token: &CancellationToken) {
    let (clock, token) = (clock.clone(), token.clone());
    ARMED.set(Some(ArmedFault { stage, fault, clock, token, snapshots: 0 }));
}

pub(super) fn disarm() -> bool {
    ARMED.take().is_some()
}

/// Runs into the fault, when this is the stage and the call.
pub(super) fn spring(stage: Stage, call_id: &str) -> Result<(), BoxError> {
    let sprung = ARMED.with_borrow_mut(|armed| {
        let here = armed.as_mut().is_some_and(|armed| {
            let counted = stage == Stage::Snapshot && armed.stage == stage;
            armed.snapshots += usize::from(counted);
            // One snapshot is taken for each call.
            armed.stage == stage && (call_id == "c2" || armed.snapshots == 2)
        });
        if here { armed.take() } else { None }
    });
    let Some(armed) = sprung else { return Ok(()) };
    match armed.fault {
        Fault::Error => Err("the secret reason".into()),
        Fault::Panic => panic!("the secret reason"),
        Fault::Timeout => {
            armed.clock.advance(Duration::from_secs(3600));
            Ok(())
        }
        Fault::Cancel => {
            armed.token.cancel();
            Ok(())
        }
        Fault::Kill => kills::wait(),
    }
}
