//! Resources and events of a running call, beyond its [`ToolContext`].

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_core::{ChatModel, ToolContext, ToolError, Usage};

use super::journal::CallKey;
use super::turn::{ReplySource, Turn};
use crate::budget::BudgetTracker;
use crate::event::{Event, EventType, SessionState};
use crate::fs::{CallFs, Filesystem};
use crate::panics::guarded;
use crate::prompt::{Prompt, RenderedPrompt};
use crate::resource::CallResources;
use crate::session::Session;

/// The resources of one attempt of a call, behind the methods of [`CallContext`].
pub struct CallScope {
    outbox: Mutex<Outbox>,
    /// Whether the attempt still runs; what it was lent refuses afterwards.
    alive: Arc<AtomicBool>,
    read_only: bool,
    resources: CallResources,
    turn: Turn,
    key: Option<CallKey>,
    attempt: u32,
}

#[derive(Default)]
struct Outbox {
    /// The receiver of immediate events; without it, events wait until the call is settled.
    session: Option<Arc<dyn SessionState>>,
    events: Vec<Event>,
    /// The first that was not taken in.
    failed: Option<String>,
}

impl fmt::Debug for CallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallScope").field("key", &self.key).finish_non_exhaustive()
    }
}

impl CallScope {
    pub(super) fn new(
        turn: &Turn,
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
            turn: turn.clone(),
            key,
            attempt,
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the attempt: what it was lent cannot be used from here on. Returns its events, and why
    /// they were not accepted.
    pub(super) fn end(&self) -> (Vec<Event>, Option<String>) {
        self.alive.store(false, Ordering::Release);
        let mut outbox = self.outbox();
        outbox.session = None;
        (std::mem::take(&mut outbox.events), outbox.failed.take())
    }

    /// Closes what was made for the call alone.
    pub(super) fn close(&self) -> Vec<String> {
        self.resources.close().iter().map(ToString::to_string).collect()
    }

    fn publish(&self, event: Event) -> Result<(), ToolError> {
        let mut outbox = self.outbox();
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

/// Methods of a [`ToolContext`] inside of dispatch.
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
    /// Tells the session something, as part of the call: of a call that fails only the session's
    /// log keeps it.
    ///
    /// # Errors
    /// [`ToolError::Other`] when it was not accepted; the call fails then, regardless of its own
    /// result. Also outside of dispatch, and after the call is over.
    fn publish<T: EventType>(&self, event: T) -> Result<(), ToolError>;

    /// Returns the resources.
    ///
    /// # Errors
    /// [`ToolError::Other`] outside of dispatch.
    fn resources(&self) -> Result<&CallResources, ToolError>;

    /// Returns the filesystem that is bound as `dyn Filesystem`. Tools that promise to read only
    /// cannot write with it, and after the call it refuses.
    ///
    /// # Errors
    /// [`ToolError::Other`] when none is bound, or it could not be made.
    fn filesystem(&self) -> Result<Arc<dyn Filesystem>, ToolError>;

    /// Returns what the tools of the conversation remember, where a turn has it.
    fn session(&self) -> Option<&Session>;

    /// Returns the model that answered with the call, where a turn has it. What asking it costs is
    /// counted by [`spend`](Self::spend).
    fn model(&self) -> Option<&dyn ChatModel>;

    /// Returns the prompt that the agent works by, where it has one.
    fn prompt(&self) -> Option<&Prompt>;

    /// Returns the prompt as the model read it, with the sections that are shown.
    fn rendered_prompt(&self) -> Option<&RenderedPrompt>;

    /// Returns what the evaluation is counted against.
    fn budget(&self) -> Option<&Arc<BudgetTracker>>;

    /// Counts what a model cost that the tool has asked.
    fn spend(&self, usage: Usage);

    /// Returns who answered with the call.
    fn served(&self) -> Option<&ReplySource>;

    /// Returns what names the effect of the call: the same for each attempt, another for each call.
    fn idempotency_key(&self) -> Option<CallKey>;

    /// Returns which attempt this is, from 1.
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
        // One that was made for the call alone ends with it, and a reader changes nothing.
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
        scope(self).ok()?.turn.served.as_deref()
    }

    fn idempotency_key(&self) -> Option<CallKey> {
        scope(self).ok()?.key
    }

    fn attempt(&self) -> u32 {
        scope(self).map_or(1, |scope| scope.attempt)
    }
}
