//! The session, files and budget that a running call reaches through its [`ToolContext`].

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_core::{ChatModel, ToolContext, ToolError, Usage};

use super::journal::CallKey;
use super::turn::{ReplySource, RunningTurn};
use crate::budget::BudgetTracker;
use crate::event::{Event, EventType, SessionState};
use crate::fs::{CallFs, Filesystem};
use crate::panics::guarded;
use crate::prompt::{Prompt, RenderedPrompt};
use crate::resource::CallResources;
use crate::session::Session;

/// The state of one attempt of a call, which tools use through [`CallContext`].
pub struct CallScope {
    outbox: Mutex<Outbox>,
    /// Whether the attempt still runs. After that, its session and files refuse.
    alive: Arc<AtomicBool>,
    read_only: bool,
    resources: CallResources,
    turn: Arc<RunningTurn>,
    key: Option<CallKey>,
    attempt: u32,
}

#[derive(Default)]
struct Outbox {
    /// Receives events at once. If `None`, events wait until the call is settled.
    session: Option<Arc<dyn SessionState>>,
    events: Vec<Event>,
    /// The error of the first event that was not accepted.
    failed: Option<String>,
}

impl fmt::Debug for CallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallScope").field("key", &self.key).finish_non_exhaustive()
    }
}

impl CallScope {
    pub(super) fn new(
        turn: &Arc<RunningTurn>,
        key: Option<CallKey>,
        attempt: u32,
        read_only: bool,
        live: bool,
    ) -> Self {
        let session = turn.session.clone().filter(|_| live);
        Self {
            outbox: Mutex::new(Outbox { session, ..Outbox::default() }),
            alive: Arc::new(AtomicBool::new(true)),
            read_only,
            resources: CallResources::new(turn.resources.clone()),
            turn: Arc::clone(turn),
            key,
            attempt,
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the attempt: its session and files refuse from here on. Returns its events, and the
    /// reason if one was not accepted.
    pub(super) fn end(&self) -> (Vec<Event>, Option<String>) {
        self.alive.store(false, Ordering::Release);
        let mut outbox = self.outbox();
        outbox.session = None;
        (std::mem::take(&mut outbox.events), outbox.failed.take())
    }

    /// Closes the resources that were made for this call alone. Returns the errors.
    pub(super) fn close(&self) -> Vec<String> {
        self.resources.close().iter().map(ToString::to_string).collect()
    }

    fn publish(&self, event: Event) -> Result<(), ToolError> {
        let mut outbox = self.outbox();
        // Checked under the lock that `end` takes: an event is either returned by `end` or refused.
        if !self.alive.load(Ordering::Acquire) {
            return Err(ToolError::other("the call has ended and can no longer publish"));
        }
        if let Some(session) = &outbox.session {
            let taken = guarded(|| session.publish(&event));
            if let Err(error) = taken {
                let text = format!("event {}: {error}", event.kind());
                outbox.failed.get_or_insert_with(|| text.clone());
                return Err(
                    ToolError::other("the session did not accept the tool's event").operator(text)
                );
            }
        }
        outbox.events.push(event);
        Ok(())
    }
}

/// Methods of a [`ToolContext`] for tools that are run by dispatch.
///
/// ```
/// use tract_tools::dispatch::CallContext;
/// use tract_tools::{ToolContext, ToolError, ToolResult, tool};
/// use tract_tools::fs::FsPath;
///
/// /// Counts the lines of a file.
/// #[tool(read_only)]
/// async fn count_lines(path: String, context: &ToolContext) -> Result<usize, ToolError> {
///     let bytes = context.filesystem()?.read(&FsPath::parse(&path)?)?;
///     Ok(bytes.split(|byte| *byte == b'\n').count())
/// }
/// ```
pub trait CallContext {
    /// Publishes an event to the session, as part of the call. If the call fails, only the
    /// session's log keeps it.
    ///
    /// # Errors
    /// [`ToolError::Other`] if the session does not accept it; the call then fails regardless of
    /// its own result. Also outside of dispatch, and after the call has ended.
    fn publish<T: EventType>(&self, event: T) -> Result<(), ToolError>;

    /// Returns the resources.
    ///
    /// # Errors
    /// [`ToolError::Other`] outside of dispatch.
    fn resources(&self) -> Result<&CallResources, ToolError>;

    /// Returns the filesystem that is bound as `dyn Filesystem`. Read-only tools cannot write
    /// through it, and it refuses after the call has ended.
    ///
    /// # Errors
    /// [`ToolError::Other`] if none is bound or it cannot be created, and outside of dispatch.
    fn filesystem(&self) -> Result<Arc<dyn Filesystem>, ToolError>;

    /// Returns the session of the conversation, if the turn has one.
    fn session(&self) -> Option<&Session>;

    /// Returns the model that answered with the call, if the turn has one. Report the cost of
    /// asking it with [`spend`](Self::spend).
    fn model(&self) -> Option<&dyn ChatModel>;

    /// Returns the agent's prompt, if it has one.
    fn prompt(&self) -> Option<&Prompt>;

    /// Returns the prompt as the model read it, with the visible sections.
    fn rendered_prompt(&self) -> Option<&RenderedPrompt>;

    /// Returns the budget of the evaluation.
    fn budget(&self) -> Option<&Arc<BudgetTracker>>;

    /// Charges the budget for a model that the tool called.
    fn spend(&self, usage: Usage);

    /// Returns the provider and model that answered with the call.
    fn served(&self) -> Option<&ReplySource>;

    /// Returns the key of the call's effect: the same for each attempt, another for each call.
    fn idempotency_key(&self) -> Option<CallKey>;

    /// Returns the number of this attempt, from 1.
    fn attempt(&self) -> u32;
}

fn scope(context: &ToolContext) -> Result<&CallScope, ToolError> {
    context.optional_resource::<CallScope>().ok_or_else(|| {
        ToolError::other("the tool cannot run here: something that it needs is not available")
            .operator("the tool was not run by a dispatcher")
    })
}

impl CallContext for ToolContext {
    fn publish<T: EventType>(&self, event: T) -> Result<(), ToolError> {
        scope(self)?.publish(Event::new(event))
    }

    fn resources(&self) -> Result<&CallResources, ToolError> {
        scope(self).map(|scope| &scope.resources)
    }

    fn filesystem(&self) -> Result<Arc<dyn Filesystem>, ToolError> {
        let scope = scope(self)?;
        let shared = scope.resources.get::<dyn Filesystem>()?;
        // Only writes to a shared filesystem need a view that can be rolled back: one that was made
        // for the call ends with it, and a read-only tool writes nothing.
        let is_viewed = !scope.read_only && scope.resources.is_singleton::<dyn Filesystem>();
        let inner = if is_viewed {
            scope.turn.files.of(shared).map_err(|error| {
                ToolError::other("the files cannot be used now").operator(error.to_string())
            })?
        } else {
            shared
        };
        Ok(Arc::new(CallFs::new(inner, Arc::clone(&scope.alive), scope.read_only)))
    }

    fn session(&self) -> Option<&Session> {
        self.optional_resource()
    }

    fn model(&self) -> Option<&dyn ChatModel> {
        self.optional_resource()
    }

    fn prompt(&self) -> Option<&Prompt> {
        self.optional_resource()
    }

    fn rendered_prompt(&self) -> Option<&RenderedPrompt> {
        self.optional_resource()
    }

    fn budget(&self) -> Option<&Arc<BudgetTracker>> {
        scope(self).ok()?.turn.budget.as_ref()
    }

    fn spend(&self, usage: Usage) {
        if let (Ok(scope), Some(budget)) = (scope(self), self.budget()) {
            budget.usage(&scope.turn.evaluation, usage);
        }
    }

    fn served(&self) -> Option<&ReplySource> {
        scope(self).ok()?.turn.served.as_ref()
    }

    fn idempotency_key(&self) -> Option<CallKey> {
        scope(self).ok()?.key
    }

    fn attempt(&self) -> u32 {
        scope(self).map_or(1, |scope| scope.attempt)
    }
}
