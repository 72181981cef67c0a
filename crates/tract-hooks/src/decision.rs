//! What the chain decided, and who did.

use std::sync::Arc;
use std::time::Duration;

use crate::action::{Action, ActionKind};

/// The decision of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision has no effect unless the caller carries it out"]
pub struct Decision<A> {
    event: &'static str,
    action: A,
    by: Option<Arc<str>>,
    failures: Vec<HandlerFailure>,
}

/// A handler that decided nothing because it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("handler {handler:?} {kind}")]
#[non_exhaustive]
pub struct HandlerFailure {
    /// Its name.
    pub handler: String,
    /// What happened.
    pub kind: HandlerFailureKind,
}

impl HandlerFailure {
    /// Says that a handler answered something that cannot be carried out.
    pub fn invalid(handler: impl Into<String>, why: impl Into<String>) -> Self {
        Self { handler: handler.into(), kind: HandlerFailureKind::Invalid(why.into()) }
    }
}

/// The kind of failure of a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerFailureKind {
    /// It panicked, saying this.
    #[error("panicked: {0}")]
    Panicked(String),
    /// It did not answer in time.
    #[error("did not answer within {0:?}")]
    TimedOut(Duration),
    /// It said why it cannot answer.
    #[error("failed: {0}")]
    Failed(String),
    /// It answered something that cannot be carried out.
    #[error("gave an invalid answer: {0}")]
    Invalid(String),
}

impl<A: Action> Decision<A> {
    pub(crate) fn new(
        event: &'static str,
        action: A,
        by: Option<&Arc<str>>,
        failures: Vec<HandlerFailure>,
    ) -> Self {
        Self { event, action, by: by.cloned(), failures }
    }

    /// Returns the word for the event.
    pub fn event(&self) -> &'static str {
        self.event
    }

    /// Returns the handlers that failed before the decision.
    pub fn failures(&self) -> &[HandlerFailure] {
        &self.failures
    }

    /// Returns the answer; passing when no handler decided, which approves.
    pub fn action(&self) -> &A {
        &self.action
    }

    /// Takes the answer out.
    pub fn into_action(self) -> A {
        self.action
    }

    /// Returns the name of the handler that decided.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Settles what every write path carries out: to continue or not.
    ///
    /// # Errors
    /// [`HookError::Rejected`] when the answer is not to continue, [`HookError::Unsupported`] when
    /// it asks for something that has to be carried out first: see the [crate's
    /// documentation](crate#what-is-carried-out).
    pub fn settle(&self) -> Result<(), HookError> {
        let handler = || self.by().unwrap_or_default().to_owned();
        match self.action.kind() {
            ActionKind::Pass | ActionKind::Go => Ok(()),
            ActionKind::Stop(reason) => Err(HookError::Rejected {
                event: self.event,
                handler: handler(),
                reason: reason.to_owned(),
            }),
            ActionKind::Change => Err(HookError::Unsupported {
                event: self.event,
                handler: handler(),
                action: self.action.name(),
            }),
        }
    }
}

/// Why an operation does not continue. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// A handler said no.
    #[error("handler {handler:?} rejected {event}: {reason}")]
    Rejected {
        /// The event.
        event: &'static str,
        /// The handler's name.
        handler: String,
        /// Why.
        reason: String,
    },
    /// A handler asked for something that this version does not carry out here.
    #[error("handler {handler:?} answered {event} with {action:?}, which is not supported here")]
    Unsupported {
        /// The event.
        event: &'static str,
        /// The handler's name.
        handler: String,
        /// The answer.
        action: &'static str,
    },
}

impl HookError {
    /// Returns the stable word for the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "rejected_by_hook",
            Self::Unsupported { .. } => "hook_action_unsupported",
        }
    }

    /// Returns what to do about it, where something helps.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Rejected { .. } => Vec::new(),
            Self::Unsupported { .. } => {
                vec!["answer with pass, approve or run, or reject or refuse".to_owned()]
            }
        }
    }
}
