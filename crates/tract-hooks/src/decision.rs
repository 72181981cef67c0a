//! The decision of a chain of handlers, and the handlers that failed.

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

/// A handler that failed, and so did not decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("handler {handler:?} {kind}")]
pub struct HandlerFailure {
    /// The handler's name.
    pub handler: String,
    /// The kind of failure.
    pub kind: HandlerFailureKind,
}

impl HandlerFailure {
    /// Creates the failure of a handler whose answer cannot be carried out.
    pub fn invalid(handler: impl Into<String>, why: impl Into<String>) -> Self {
        Self { handler: handler.into(), kind: HandlerFailureKind::Invalid(why.into()) }
    }
}

/// The kind of failure of a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerFailureKind {
    /// It panicked with this message.
    #[error("panicked: {0}")]
    Panicked(String),
    /// It did not answer within this time limit.
    #[error("did not answer within {0:?}")]
    TimedOut(Duration),
    /// It returned this error.
    #[error("failed: {0}")]
    Failed(String),
    /// It gave an answer that cannot be carried out.
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

    /// Returns the name of the event.
    pub fn event(&self) -> &'static str {
        self.event
    }

    /// Returns the handlers that failed before the decision.
    pub fn failures(&self) -> &[HandlerFailure] {
        &self.failures
    }

    /// Returns the answer. It is a pass, which approves, if no handler decided.
    pub fn action(&self) -> &A {
        &self.action
    }

    /// Returns the answer by value.
    pub fn into_action(self) -> A {
        self.action
    }

    /// Returns the name of the handler that decided.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Checks whether the operation may continue, for callers that cannot carry out changes.
    ///
    /// # Errors
    /// [`HookError::Rejected`] if the answer is not to continue; [`HookError::Unsupported`] if the
    /// answer is a change that has to be carried out first: see the [crate's
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

/// Error of an operation that a handler stopped. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// A handler rejected the event.
    #[error("handler {handler:?} rejected {event}: {reason}")]
    Rejected {
        /// The event.
        event: &'static str,
        /// The handler's name.
        handler: String,
        /// The reason that the handler gave.
        reason: String,
    },
    /// A handler requested a change that is not supported here.
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
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "rejected_by_hook",
            Self::Unsupported { .. } => "hook_action_unsupported",
        }
    }

    /// Returns advice on how to fix the error, if there is any.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Rejected { .. } => Vec::new(),
            Self::Unsupported { .. } => {
                vec!["answer with pass, approve or run, or reject or refuse".to_owned()]
            }
        }
    }
}
