//! Dispatch: from hydrated calls to one answer for each, also when calls fail on the way.
//!
//! A call is a transaction. Before its handler runs, state is snapshotted; if it fails for any
//! reason, the snapshot is restored; only logs keep a trace of it. A failing tool never ends a
//! turn: the model reads the error. A turn ends early for few reasons ([`TurnError`]), and even
//! then all of its calls are answered.

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

/// Options of running calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchOptions {
    /// How many read-only calls of a turn run in parallel; 8 by default, 1 is one after the
    /// other. Calls that may change something always run alone in their turn. How many run at a
    /// time over all turns, [`DispatchLimits`] say.
    pub concurrent: usize,
    /// How many of them may be of one tool; 4 by default.
    pub concurrent_of_one_tool: usize,
    /// Maximum attempts of an idempotent tool whose error is marked as retryable; 3 by default, the
    /// first included. Others run once.
    pub attempts: u32,
    /// How long it waits before the second attempt; twice as long before each further one. 100 ms
    /// by default.
    pub backoff: Duration,
    /// How long a call may take whose tool does not say; as long as the turn by default.
    pub timeout: Option<Duration>,
    /// How long a cancelled handler has to end by itself before it is dropped; 200 ms by default.
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

impl DispatchOptions {
    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many read-only calls run in parallel, and how many of them of one tool.
    #[must_use]
    pub fn concurrent(mut self, all: usize, of_one_tool: usize) -> Self {
        self.concurrent = all;
        self.concurrent_of_one_tool = of_one_tool;
        self
    }

    /// Sets how often an idempotent tool is run at most, and the wait before the second time.
    #[must_use]
    pub fn attempts(mut self, attempts: u32, backoff: Duration) -> Self {
        self.attempts = attempts;
        self.backoff = backoff;
        self
    }

    /// Sets how long a call may take whose tool does not say.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long a cancelled handler has to end by itself.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// Runs the calls of turns. Cheap to clone, shared between conversations: what is of one
/// conversation comes with each [`Turn`].
///
/// # Behavior
/// - One answer for each call, in their order.
/// - Each call passes, in this order: time, cancellation and budget of the turn; what hydration
///   found; whether the tool is available now; policies, of which the first denial wins; hooks
///   ([`BeforeDispatch`](tract_hooks::BeforeDispatch)), which may replace the arguments: they are
///   then hydrated and checked again; the approval that a policy requires; time again; an answer
///   recorded earlier; the claim on its effect; a snapshot; the handler.
/// - What a person approved runs exactly as it was shown: hooks may still refuse it, and can neither
///   replace its arguments nor defer it again.
/// - The handler runs within its time and until cancelled; a panic is a failure. A handler that
///   blocks its thread is not interrupted; [`blocking`](crate::blocking) is for such work.
/// - On every failure the session and all snapshotable resources go back to what they were. Events
///   that it published are rolled back with the state and kept by the log.
/// - Neighboring read-only calls run in parallel; they are judged and settled one
///   after the other, so that the answers are those that they would give alone.
/// - An error that ends the evaluation rolls back, answers its call, and the calls behind it as
///   not executed.
/// - One turn at a time works on a [`Session`](crate::Session), on resources with snapshots and on
///   other state that is put back: another one waits, as long as it [may](Turn::wait_for_others)
///   and until it is cancelled. A tool that runs calls of its own gives their turn its context and
///   the session that it was lent, else they wait for the turn that they are part of.
/// - Causes of errors and what panics say go to `tracing` and the operator's text, never to the
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
/// let turn = block_on(dispatcher.run(&calls[..], &Turn::new()));
/// assert_eq!(turn.answers[0].text, "3");
/// assert_eq!(turn.answers[1].text, "b: expected another divisor than 0");
/// assert_eq!(turn.answers[2].outcome(), Outcome::Invalid);
/// assert!(turn.ended.is_none(), "the model may try again");
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
#[derive(Clone)]
pub struct Dispatcher {
    registry: Arc<Registry>,
    policies: Vec<Arc<dyn Policy>>,
    hooks: Hooks,
    hydration: HydrateOptions,
    options: DispatchOptions,
    limits: Option<Arc<DispatchLimits>>,
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
    /// Makes a dispatcher of a registry's tools, without policies and hooks of its own.
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

    /// Puts another registry in the place of the one that there is; all else stays.
    #[must_use]
    pub fn with_registry(mut self, registry: Arc<Registry>) -> Self {
        self.registry = registry;
        self
    }

    /// Adds a policy, asked right before a call runs, with the calls that succeeded before. Those
    /// of the registry were asked when the call was hydrated.
    #[must_use]
    pub fn policy(self, policy: impl Policy + 'static) -> Self {
        self.shared_policy(Arc::new(policy))
    }

    /// Adds a shared policy.
    #[must_use]
    pub fn shared_policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policies.push(policy);
        self
    }

    /// Sets the hooks that are asked before a call runs.
    #[must_use]
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Sets how calls are hydrated: by [`run`](Self::run), and again when a hook replaces
    /// arguments.
    #[must_use]
    pub fn hydration(mut self, options: HydrateOptions) -> Self {
        self.hydration = options;
        self
    }

    /// Sets how calls are run.
    #[must_use]
    pub fn options(mut self, options: DispatchOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets how many handlers run at a time, over all that share these limits.
    #[must_use]
    pub fn limits(mut self, limits: Arc<DispatchLimits>) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Returns the registry.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Hydrates the calls and dispatches them.
    pub async fn run(&self, calls: impl IntoCalls, turn: &Turn) -> Dispatched {
        let hydrated = hydrate_with(calls, &self.registry, &self.hydration);
        self.dispatch(hydrated, turn).await
    }

    /// Runs the calls of one turn, and answers each.
    ///
    /// Nothing fails as a whole. Dropping the future drops the handler that runs; what it changed
    /// is then not put back: cancel the turn's token instead.
    pub async fn dispatch(&self, calls: Vec<Hydrated>, turn: &Turn) -> Dispatched {
        match turn.hold().await {
            Ok(holds) => run::Run::new(self, &turn.within(&holds), None).all(calls).await,
            Err(holder) => run::Run::new(self, turn, Some(holder)).all(calls).await,
        }
    }
}
