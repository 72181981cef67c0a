//! State and settings that the calls of one turn share.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
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

/// The state that the calls of one turn may change, and their limits.
///
/// Its [`ToolContext`] provides cancellation, deadline, clock, progress and all other resources
/// that the host lends to tools by type. Each call gets its own copy.
#[derive(Clone)]
pub struct Turn {
    pub(super) context: ToolContext,
    pub(super) session: Option<Arc<dyn SessionState>>,
    /// The session as tools receive it, if it is a [`Session`].
    pub(super) lent_session: Option<Session>,
    pub(super) model: Option<Arc<dyn ChatModel>>,
    pub(super) state: Vec<Arc<dyn Snapshot>>,
    pub(super) resources: Option<Arc<Resources>>,
    pub(super) files: Arc<Views>,
    pub(super) budget: Option<Arc<BudgetTracker>>,
    pub(super) evaluation: Arc<str>,
    pub(super) journal: Option<Arc<dyn Journal>>,
    pub(super) approvals: Arc<Approvals>,
    pub(super) available: Option<Arc<BTreeSet<String>>>,
    pub(super) served: Option<Arc<ReplySource>>,
    pub(super) commit: Option<CommitId>,
    pub(super) view: Option<ViewId>,
    pub(super) toolset: Option<ToolsetId>,
    pub(super) past: Arc<Mutex<PastCalls>>,
    pub(super) patience: Option<Duration>,
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
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
    /// Creates a turn without state, limits or resources.
    pub fn new() -> Self {
        Self {
            context: ToolContext::new(""),
            session: None,
            lent_session: None,
            model: None,
            state: Vec::new(),
            resources: None,
            files: Arc::default(),
            budget: None,
            evaluation: "main".into(),
            journal: None,
            approvals: Arc::default(),
            available: None,
            served: None,
            commit: None,
            view: None,
            toolset: None,
            past: Arc::default(),
            patience: None,
        }
    }

    /// Sets the base of each call's context: cancellation, deadline, clock, progress, and resources
    /// by type.
    #[must_use]
    pub fn context(mut self, context: ToolContext) -> Self {
        self.context = context;
        self
    }

    /// Sets the session, which receives the events of tools and is restored when a call fails. A
    /// [`Session`] is also lent to each call.
    #[must_use]
    pub fn session<S: SessionState + 'static>(mut self, session: Arc<S>) -> Self {
        let any: &dyn Any = &*session;
        self.lent_session = any.downcast_ref::<Session>().cloned();
        self.session = Some(session);
        self
    }

    /// Sets the model that answered. It is lent to each call, so that tools may ask it too.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.model = Some(model);
        self
    }

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

    /// Sets how long the turn waits for others that work on the same session, resources or state.
    /// By default it waits for as long as it may take. After that its calls are answered as not
    /// executed.
    #[must_use]
    pub fn wait_for_others(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Adds state that is restored when a call fails.
    #[must_use]
    pub fn state(mut self, state: Arc<dyn Snapshot>) -> Self {
        self.state.push(state);
        self
    }

    /// Sets the resources. Those with snapshots are restored when a call fails.
    #[must_use]
    pub fn resources(mut self, resources: Arc<Resources>) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Sets the budget that calls are charged to.
    #[must_use]
    pub fn budget(mut self, budget: Arc<BudgetTracker>) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets the name of the evaluation that calls are counted for; `main` by default.
    #[must_use]
    pub fn evaluation(mut self, evaluation: impl Into<Arc<str>>) -> Self {
        self.evaluation = evaluation.into();
        self
    }

    /// Sets the journal, which records the calls that have started. By default none are recorded.
    #[must_use]
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Sets the approvals given by people.
    #[must_use]
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = Arc::new(approvals);
        self
    }

    /// Limits the available tools to these names, such as those of the enabled sections of a
    /// prompt. Calls of other tools are answered as not available.
    #[must_use]
    pub fn available<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.available = Some(Arc::new(names.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets the provider and model that answered with the calls.
    #[must_use]
    pub fn served(mut self, served: ReplySource) -> Self {
        self.served = Some(Arc::new(served));
        self
    }

    /// Sets the commit that contains the calls, for hooks and telemetry.
    #[must_use]
    pub fn commit(mut self, commit: CommitId) -> Self {
        self.commit = Some(commit);
        self
    }

    /// Sets the view and toolset that the model was asked with, as far as known, for telemetry.
    #[must_use]
    pub fn asked_with(mut self, view: Option<ViewId>, toolset: Option<ToolsetId>) -> Self {
        (self.view, self.toolset) = (view, toolset);
        self
    }

    /// Sets the calls that succeeded before, for policies. Calls that succeed now are added. Shared
    /// by the turns of a conversation.
    #[must_use]
    pub fn past(mut self, past: Arc<Mutex<PastCalls>>) -> Self {
        self.past = past;
        self
    }
}
