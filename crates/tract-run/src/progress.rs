//! The events of a run, and the reasons why it stops.

use tract_core::{CommitId, ReplyDelta};
use tract_tools::budget::BudgetExceeded;

use crate::turn::AnsweredCall;

/// The reason why a run stopped. The branch can always be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model has said all.
    Answered,
    /// Calls wait for a decision; run again after it.
    Waiting,
    /// The model was asked as often as it may be.
    Steps(u32),
    /// More was spent than may be.
    Budget(BudgetExceeded),
    /// It was cancelled.
    Cancelled,
    /// A condition of the caller's holds.
    Condition(String),
    /// The model's last reply was cut off by the limit of tokens.
    Truncated,
    /// The model, or a filter of its provider, refused.
    Refused,
    /// A call ended it.
    Ended {
        /// The stable word.
        code: &'static str,
        /// The error.
        message: String,
        /// Ways out.
        notes: Vec<String>,
    },
}

impl Stop {
    /// Returns the stable word.
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

/// Something that happened. The callback must return soon: the run waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The model is asked.
    Asking {
        /// The number of the request in this run, from 1.
        step: u32,
        /// The commit that it sees.
        head: CommitId,
    },
    /// A piece of its answer has come.
    Piece(&'a ReplyDelta),
    /// Its answer is committed.
    Replied {
        /// The commit.
        commit: CommitId,
        /// How many calls it asks for.
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
        /// Why.
        reason: &'a str,
    },
    /// Another run works on the calls that are open: this one waits for it.
    Held {
        /// The other run.
        by: &'a str,
        /// The ref of the branch that it works on.
        branch: &'a str,
    },
    /// The run ends.
    Stopped(&'a Stop),
}
