//! State and settings that the calls of one turn share.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tract_core::{ChatModel, CommitId, ToolContext, ToolsetId, ViewId};

use super::journal::{Approvals, Journal};
use crate::budget::BudgetTracker;
use crate::event::SessionState;
use crate::fs::Views;
use crate::policy::PastCalls;
use crate::resource::Resources;
use crate::session::Session;
use crate::snapshot::Snapshot;

/// The provider and model that answered with the calls, by their own names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplySource {
    /// The provider, such as `anthropic`.
    pub provider: String,
    /// The model, as the provider names it.
    pub model: String,
}

impl ReplySource {
    /// Creates a source from the names of provider and model.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

/// The state that the calls of one turn may change, and their limits. By default there is neither.
#[derive(Clone)]
pub struct Turn {
    /// The base of each call's context: cancellation, deadline, clock, progress, and all other
    /// resources that the host lends to tools by type. Each call gets its own copy.
    pub context: ToolContext,
    /// The session, which receives the events of tools and is restored when a call fails. A
    /// [`Session`] is also lent to each call.
    pub session: Option<Arc<dyn SessionState>>,
    /// The model that answered. It is lent to each call, so that tools may ask it too.
    pub model: Option<Arc<dyn ChatModel>>,
    /// Further state that is restored when a call fails.
    pub state: Vec<Arc<dyn Snapshot>>,
    /// The resources. Those with snapshots are restored when a call fails.
    pub resources: Option<Arc<Resources>>,
    /// The budget that calls are charged to.
    pub budget: Option<Arc<BudgetTracker>>,
    /// The name of the evaluation that calls are counted for; `main` by default.
    pub evaluation: Arc<str>,
    /// The journal, which records the calls that have started.
    pub journal: Option<Arc<dyn Journal>>,
    /// The approvals given by people.
    pub approvals: Approvals,
    /// The names of the available tools, such as those of the enabled sections of a prompt. Calls
    /// of other tools are answered as not available. If `None`, all tools are available.
    pub available: Option<BTreeSet<String>>,
    /// The provider and model that answered with the calls.
    pub served: Option<ReplySource>,
    /// The commit that contains the calls, for hooks and telemetry.
    pub commit: Option<CommitId>,
    /// The view that the model was asked with, for telemetry.
    pub view: Option<ViewId>,
    /// The toolset that the model was asked with, for telemetry.
    pub toolset: Option<ToolsetId>,
    /// The calls that succeeded before, for policies. Calls that succeed now are added. Shared by
    /// the turns of a conversation.
    pub past: Arc<Mutex<PastCalls>>,
    /// Time limit of the wait for other turns that work on the same session, resources or state.
    /// After it the calls are answered as not executed. If `None`, the turn waits for as long as it
    /// may take.
    pub wait_for_others: Option<Duration>,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            context: ToolContext::new(""),
            session: None,
            model: None,
            state: Vec::new(),
            resources: None,
            budget: None,
            evaluation: "main".into(),
            journal: None,
            approvals: Approvals::default(),
            available: None,
            served: None,
            commit: None,
            view: None,
            toolset: None,
            past: Arc::default(),
            wait_for_others: None,
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("context", &self.context)
            .field("evaluation", &self.evaluation)
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

impl Turn {
    /// Returns the session, if it is a [`Session`].
    pub(super) fn own_session(&self) -> Option<&Session> {
        let any: &dyn Any = self.session.as_deref()?;
        any.downcast_ref()
    }
}

/// A turn while its calls run.
pub(super) struct RunningTurn {
    pub(super) turn: Turn,
    /// The session that is lent to each call.
    pub(super) lent_session: Option<Session>,
    pub(super) files: Arc<Views>,
}

impl Deref for RunningTurn {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        &self.turn
    }
}

impl RunningTurn {
    /// Returns the context of a call, with the session and the model.
    pub(super) fn context_of(&self, call_id: &str) -> ToolContext {
        let mut context = self.context.for_call(call_id);
        if let Some(session) = &self.lent_session {
            context = context.with_resource(session.clone());
        }
        if let Some(model) = &self.model {
            context = context.with_shared_resource(Arc::clone(model));
        }
        context
    }
}
