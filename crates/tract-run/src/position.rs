//! The next step of a branch.

use std::collections::BTreeSet;

use tract_compile::Compiled;
use tract_core::{CallRef, CommitId, Message, Role, ToolCall};

/// The next step of a branch.
#[derive(Debug)]
pub(crate) enum Position {
    /// A first message is needed.
    Nothing,
    /// The model answers.
    Model,
    /// Calls have to be answered.
    Calls(Open),
    /// A person continues, because the model's answer is complete.
    Person,
}

/// Unanswered calls.
#[derive(Debug)]
pub(crate) struct Open {
    /// The version of the message that requests them.
    pub(crate) commit: CommitId,
    /// The slot of that message.
    pub(crate) slot: CommitId,
    /// The calls with their positions in the message, in order.
    pub(crate) calls: Vec<(u32, ToolCall)>,
}

impl Position {
    /// Determines the next step. Unanswered calls of earlier messages are ignored.
    pub(crate) fn of(compiled: &Compiled) -> Self {
        let caller =
            compiled.messages().rev().find(|message| message.content.calls().next().is_some());
        if let Some(open) = caller.and_then(|message| open_calls(compiled, message)) {
            return Self::Calls(open);
        }
        match Self::last(compiled).map(|message| &message.role) {
            None => Self::Nothing,
            Some(Role::Assistant) => Self::Person,
            Some(_) => Self::Model,
        }
    }

    /// Returns the last message that is not an instruction.
    pub(crate) fn last(compiled: &Compiled) -> Option<&Message> {
        let mut newest_first = compiled.messages().rev();
        newest_first.find(|message| !matches!(message.role, Role::System | Role::Developer))
    }
}

fn open_calls(compiled: &Compiled, message: &Message) -> Option<Open> {
    // Rows, not messages: a skipped answer answers its call, too.
    let answered: BTreeSet<CallRef> = compiled.rows().filter_map(|(row, _)| row.answers).collect();
    let open = |(index, call): (usize, &ToolCall)| {
        let index = u32::try_from(index).ok()?;
        let call_ref = CallRef { slot: message.slot, index };
        (!answered.contains(&call_ref)).then(|| (index, call.clone()))
    };
    let calls: Vec<(u32, ToolCall)> =
        message.content.calls().enumerate().filter_map(open).collect();
    (!calls.is_empty()).then_some(Open { commit: message.commit, slot: message.slot, calls })
}
