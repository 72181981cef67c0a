//! Errors that end a turn before the model is asked again.

use tract_core::ToolError;

use crate::budget::BudgetExceeded;

/// The cause that ended an evaluation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The time was over before a call could start, or while it ran.
    #[error("it ran out of time")]
    Deadline,
    /// It was cancelled.
    #[error("it was cancelled")]
    Cancelled,
    /// The budget is exceeded.
    #[error(transparent)]
    Budget(BudgetExceeded),
    /// A tool returned an error that ends the evaluation.
    #[error("the tool ended it")]
    Tool,
    /// The journal failed, or state could not be saved or restored.
    #[error("the journal or the saved state is broken")]
    Host,
}

/// The error of a turn that ended with one of its calls. That call has a failed answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// A tool asks for hidden sections of the prompt to be shown before it continues.
    #[error("call {call_id:?} asks for sections to be shown: {}", sections.join(", "))]
    VisibilityExpansion {
        /// The provider's id of the call.
        call_id: String,
        /// The keys of the sections.
        sections: Vec<String>,
        /// The tool's error.
        source: ToolError,
    },
    /// The evaluation cannot continue.
    #[error("the evaluation ended with call {call_id:?}: {cause}")]
    Evaluation {
        /// The provider's id of the call.
        call_id: String,
        /// The cause.
        cause: Cause,
        /// The underlying error.
        source: ToolError,
    },
}

impl TurnError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::VisibilityExpansion { .. } => "visibility_expansion",
            Self::Evaluation { cause, .. } => match cause {
                Cause::Deadline => "deadline_exceeded",
                Cause::Cancelled => "cancelled",
                Cause::Budget(_) => "budget_exceeded",
                Cause::Tool => "evaluation",
                Cause::Host => "host",
            },
        }
    }

    /// Returns the id of the call that ended the turn.
    pub fn call_id(&self) -> &str {
        match self {
            Self::VisibilityExpansion { call_id, .. } | Self::Evaluation { call_id, .. } => call_id,
        }
    }

    /// Returns the underlying error.
    pub fn failure(&self) -> &ToolError {
        match self {
            Self::VisibilityExpansion { source, .. } | Self::Evaluation { source, .. } => source,
        }
    }

    /// Returns hints for continuing.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.failure().notes().to_vec();
        let more = match self {
            Self::Evaluation { cause: Cause::Deadline, .. } => "give the turn more time",
            Self::Evaluation { cause: Cause::Budget(_), .. } => "continue with a larger budget",
            Self::VisibilityExpansion { .. } => "show the sections and ask the model again",
            Self::Evaluation { .. } => return notes,
        };
        notes.push(more.to_owned());
        notes
    }
}
