//! What is reported during a run.

use tract_core::{CommitId, ReplyDelta};

use crate::run::Stop;
use crate::turn::AnsweredCall;

/// Something that happened. The callback must return soon: the run waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The model is asked.
    Asking {
        /// Which time in this run, from 1.
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
    /// A tool says how far it is.
    Tool {
        /// The call.
        call_id: &'a str,
        /// What it says.
        line: &'a str,
    },
    /// A call was answered, and the answer is committed.
    Answered(&'a AnsweredCall),
    /// A call waits for a decision.
    Waiting {
        /// What it waits under.
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
