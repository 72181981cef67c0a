//! The events of a run, and the reasons why it stops.

use tract_core::{CommitId, ReplyDelta};
use tract_tools::budget::BudgetExceeded;

use crate::turn::AnsweredCall;

/// The reason why a run stopped. The branch can always be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model's answer is complete.
    Answered,
    /// Calls wait for a decision; run again after it.
    Waiting,
    /// The maximum number of requests to the model is reached.
    Steps(u32),
    /// The budget is exceeded.
    Budget(BudgetExceeded),
    /// It was cancelled.
    Cancelled,
    /// A condition set by the caller was met.
    Condition(String),
    /// The model's last reply was truncated by the token limit.
    Truncated,
    /// The model, or a filter of its provider, refused.
    Refused,
    /// A call ended it.
    Ended {
        /// The stable code.
        code: &'static str,
        /// The error.
        message: String,
        /// Hints for continuing.
        notes: Vec<String>,
    },
}

impl Stop {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Waiting => "waiting",
            Self::Steps(_) => "max_steps",
            Self::Budget(_) => "budget_exceeded",
            Self::Cancelled => "cancelled",
            Self::Condition(_) => "condition",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::Ended { code, .. } => code,
        }
    }
}

/// An event of a run. The callback must return quickly, because the run waits for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A request is sent to the model.
    Asking {
        /// The number of the request in this run, from 1.
        step: u32,
        /// The commit that it sees.
        head: CommitId,
    },
    /// A part of its answer has arrived.
    Piece(&'a ReplyDelta),
    /// Its answer is committed.
    Replied {
        /// The commit.
        commit: CommitId,
        /// Number of calls that it requests.
        calls: usize,
    },
    /// A tool reported progress.
    Tool {
        /// The call.
        call_id: &'a str,
        /// The text of the report.
        line: &'a str,
    },
    /// A call was answered, and the answer is committed.
    Answered(&'a AnsweredCall),
    /// A call waits for a decision.
    Waiting {
        /// The name of the pending approval.
        pending: &'a str,
        /// The call.
        call_id: &'a str,
        /// The reason.
        reason: &'a str,
    },
    /// Another run works on the open calls, and this one waits for it.
    Held {
        /// The other run.
        by: &'a str,
        /// The ref of the branch that it works on.
        branch: &'a str,
    },
    /// The run ends.
    Stopped(&'a Stop),
}
