//! Runs hydrated calls and answers each of them, even if some fail.
//!
//! A call is a transaction. State is snapshotted before its handler runs and restored if it fails
//! for any reason; only logs keep a record of the attempt. A failing tool does not end the turn:
//! the model reads the error. Few errors end a turn early ([`TurnError`]), and even then every call
//! is answered.

mod admit;
mod answer;
mod call;
mod error;
mod group;
mod handler;
mod hold;
mod journal;
mod limits;
mod outcome;
mod run;
mod scope;
mod state;
mod turn;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tract_hooks::Hooks;

pub use self::answer::{CallAnswer, Deferral, Dispatched};
pub use self::error::{Cause, TurnError};
pub use self::journal::{Approval, Approvals, CallKey, CallStart, Journal, Recorded, Start};
pub use self::limits::DispatchLimits;
pub(crate) use self::limits::Permit;
pub use self::outcome::{DispatchStage, Outcome, ToolInvoked};
pub use self::scope::{CallContext, CallScope};
pub use self::turn::{ReplySource, Turn};
use crate::hydrate::{HydrateOptions, Hydrated, IntoCalls, hydrate_with};
use crate::policy::Policy;
use crate::registry::Registry;

/// Options for running calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchOptions {
    /// Maximum number of read-only calls of a turn that run in parallel; 8 by default, 1 runs them
    /// one after the other. Calls that may change something always run alone in their turn.
    /// [`DispatchLimits`] limits all turns together.
    pub concurrent: usize,
    /// Maximum number of parallel calls of the same tool; 4 by default.
    pub concurrent_of_one_tool: usize,
    /// Maximum number of attempts, including the first, at a call of an idempotent tool whose
    /// errors are retryable; 3 by default. Other calls run once.
    pub attempts: u32,
    /// Wait before the second attempt, doubled before each further one; 100 ms by default.
    pub backoff: Duration,
    /// Time limit for calls of tools without a timeout of their own; `None` by default, so that
    /// only the turn's time limits them.
    pub timeout: Option<Duration>,
    /// Time that a cancelled handler has to end by itself before it is dropped; 200 ms by default.
    pub grace: Duration,
}

impl Default for DispatchOptions {
    fn default() -> Self {
        Self {
            concurrent: 8,
            concurrent_of_one_tool: 4,
            attempts: 3,
            backoff: Duration::from_millis(100),
            timeout: None,
            grace: Duration::from_millis(200),
        }
    }
}

/// Runs the calls of turns. Cheap to clone and shared between conversations: each [`Turn`] brings
/// the state of its conversation.
///
/// # Behavior
/// - One answer for each call, in their order.
/// - Each call passes these checks in order: time, cancellation and budget of the turn; errors of
///   hydration; whether the tool is available now; policies, of which the first denial wins; hooks
///   ([`BeforeDispatch`](tract_hooks::BeforeDispatch)), which may replace the arguments, after
///   which the call is hydrated and checked by policies again; the approval that a policy requires;
///   time again; an answer recorded earlier; the claim on its effect; a snapshot; the handler.
/// - An approved call runs exactly as it was shown to the person: hooks may still refuse it, but
///   neither replace its arguments nor defer it again.
/// - The handler runs within its time limit and until it is cancelled; a panic is a failure. A
///   handler that blocks its thread is not interrupted; use [`blocking`](crate::blocking) for such
///   work.
/// - On every failure the session and all resources with snapshots are restored. Events that the
///   call published are rolled back with the state, but stay in the log.
/// - Neighboring read-only calls run in parallel. They are checked and settled one after the other,
///   so their answers are the same as if each ran alone.
/// - An error that ends the evaluation rolls back and answers its call; the calls after it are
///   answered as not executed.
/// - One turn at a time works on a [`Session`](crate::Session), on resources with snapshots and on
///   other restorable state. Other turns wait, up to [a limit](Turn::wait_for_others) and until
///   they are cancelled. A tool that dispatches calls itself must pass on its context and the
///   session from it; otherwise its turn waits for the turn that it is part of.
/// - Causes of errors and panic messages go to `tracing` and the operator's text, never to the
///   model.
///
/// ```
/// use std::sync::Arc;
/// use tract_core::block_on;
/// use tract_tools::dispatch::{Dispatcher, Outcome, Turn};
/// use tract_tools::{Call, Registry, ToolError, tool};
///
/// /// Divides.
/// #[tool(read_only)]
/// async fn divide(a: i64, b: i64) -> Result<i64, ToolError> {
///     a.checked_div(b).ok_or_else(|| ToolError::validation("expected another divisor than 0").at("b"))
/// }
/// let registry = Registry::builder().tool(Divide).build()?;
/// let dispatcher = Dispatcher::new(Arc::new(registry));
/// let calls = [
///     Call::new("c1", "divide", r#"{"a":7,"b":2}"#),
///     Call::new("c2", "divide", r#"{"a":7,"b":0}"#),
///     Call::new("c3", "devide", "{}"),
/// ];
/// let turn = block_on(dispatcher.run(&calls[..], &Turn::default()));
/// assert_eq!(turn.answers[0].text, "3");
/// assert_eq!(turn.answers[1].text, "b: expected another divisor than 0");
/// assert_eq!(turn.answers[2].outcome(), Outcome::Invalid);
/// assert!(turn.ended.is_none(), "the model may try again");
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
#[derive(Clone)]
pub struct Dispatcher {
    /// The tools.
    pub registry: Arc<Registry>,
    /// Policies that are evaluated right before a call runs, with the calls that succeeded before
    /// it. The registry's own policies were evaluated when the call was hydrated.
    pub policies: Vec<Arc<dyn Policy>>,
    /// The hooks that run before each call.
    pub hooks: Hooks,
    /// Options for hydrating calls in [`run`](Self::run), and when a hook replaces arguments.
    pub hydration: HydrateOptions,
    /// Options for running calls.
    pub options: DispatchOptions,
    /// Limits on concurrent handlers, shared by all dispatchers that have the same limits.
    pub limits: Option<Arc<DispatchLimits>>,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<&str> = self.policies.iter().map(|policy| policy.name()).collect();
        f.debug_struct("Dispatcher")
            .field("registry", &self.registry)
            .field("policies", &policies)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Creates a dispatcher for a registry's tools, without further policies or hooks.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            policies: Vec::new(),
            hooks: Hooks::new(),
            hydration: HydrateOptions::default(),
            options: DispatchOptions::default(),
            limits: None,
        }
    }

    /// Hydrates the calls and dispatches them.
    pub async fn run(&self, calls: impl IntoCalls, turn: &Turn) -> Dispatched {
        let hydrated = hydrate_with(calls, &self.registry, &self.hydration);
        self.dispatch(hydrated, turn).await
    }

    /// Runs the calls of one turn, and answers each.
    ///
    /// Never fails as a whole. Dropping the future drops the running handler and restores the state
    /// before its call, but no call is answered: cancel the turn's token instead.
    pub async fn dispatch(&self, calls: Vec<Hydrated>, turn: &Turn) -> Dispatched {
        let (holds, holder) = match turn.hold().await {
            Ok(holds) => (Some(holds), None),
            Err(holder) => (None, Some(holder)),
        };
        let turn = Arc::new(turn.running(holds.as_ref()));
        run::Run::new(self, &turn, holder).all(calls).await
    }
}
