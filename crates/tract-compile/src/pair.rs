//! Pairing: every call gets one answer, and every answer is where the provider accepts it.
//!
//! The history is kept as it happened, and a recording may be broken; a request must not be. So
//! pairing runs on every compiled context. It decides the order in which the rows are sent and
//! which placeholders replace missing results.

mod repair;
mod rules;

#[cfg(test)]
mod tests;

use std::fmt;

use tract_core::{CallRef, CommitId, Message};

use crate::compiled::Compiled;

pub use rules::{Rules, Speaker, speaker};

/// The handling of calls and results that are not in the order a provider requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairing {
    /// Send the rows as they are.
    Keep,
    /// Repair the order and list each repair.
    #[default]
    Repair,
    /// Fail if a repair is needed.
    Strict,
}

impl Pairing {
    /// Returns the word used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Repair => "repair",
            Self::Strict => "strict",
        }
    }

    /// Returns the mode with this name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Keep, Self::Repair, Self::Strict].into_iter().find(|mode| mode.as_str() == word)
    }
}

/// One entry of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A message, as recorded.
    Message(&'a Message),
    /// A placeholder for a missing or skipped answer.
    StandIn(PlaceholderResult),
}

/// A placeholder answer, which was never committed in this form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceholderResult {
    /// The call that it answers.
    pub answers: CallRef,
    /// The provider's id of that call.
    pub call_id: String,
    /// The name of the called tool.
    pub name: String,
    /// The slot of the skipped result that it replaces; `None` if there is no result.
    pub skipped: Option<CommitId>,
}

impl PlaceholderResult {
    /// Returns the text sent to the model: `no result is recorded`, or `[skipped]`. It does not
    /// claim that the call did not run, since the recording may merely lack its result.
    pub fn text(&self) -> &'static str {
        match self.skipped {
            Some(_) => "[skipped]",
            None => "no result is recorded",
        }
    }

    /// Returns whether it is sent as an error, as for a call without a result.
    pub fn is_error(&self) -> bool {
        self.skipped.is_none()
    }
}

/// The kind of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RepairKind {
    /// A call without a result is answered "no result is recorded".
    NotExecuted,
    /// A skipped result is sent as `"[skipped]"`.
    SkippedResult,
    /// A result was moved right after its call.
    Moved,
    /// A result without a shown call is left out.
    Orphan,
    /// A second result of the same call is left out.
    SecondResult,
    /// The call is skipped, so its result or reasoning is left out.
    CallSkipped,
    /// A call id was replaced.
    CallId,
    /// A tool's name was replaced.
    ToolName,
    /// Arguments that the provider does not accept were replaced.
    Arguments,
    /// A tool that only another provider supports is left out.
    ToolLeftOut,
    /// The provider does not enforce the tool's schema although strict mode was requested.
    NotStrict,
    /// A part that the provider's format cannot express is left out.
    PartLeftOut,
    /// Content that the provider would misread was rewritten.
    Changed,
    /// A message without content is left out.
    EmptyMessage,
    /// Instructions within the conversation were moved to its start.
    SystemMoved,
    /// Parts of a turn were put in the order that the provider requires.
    Reordered,
    /// A final message was added.
    Closed,
    /// A parameter could not be set.
    NotSet,
}

impl RepairKind {
    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotExecuted => "not_executed",
            Self::SkippedResult => "skipped_result",
            Self::Moved => "moved",
            Self::Orphan => "orphan",
            Self::SecondResult => "second_result",
            Self::CallSkipped => "call_skipped",
            Self::CallId => "call_id",
            Self::ToolName => "tool_name",
            Self::Arguments => "arguments",
            Self::ToolLeftOut => "tool_left_out",
            Self::NotStrict => "not_strict",
            Self::PartLeftOut => "part_left_out",
            Self::Changed => "changed",
            Self::EmptyMessage => "empty_message",
            Self::SystemMoved => "system_moved",
            Self::Reordered => "reordered",
            Self::Closed => "closed",
            Self::NotSet => "not_set",
        }
    }
}

/// One difference between the request and the recorded messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The kind of repair.
    pub kind: RepairKind,
    /// The message concerned, if it concerns one.
    pub slot: Option<CommitId>,
    /// A description for people: the problem found, and the content sent instead.
    pub text: String,
}

impl Repair {
    /// Creates a repair that concerns a message, or the request as a whole.
    pub fn new(kind: RepairKind, slot: Option<CommitId>, text: impl Into<String>) -> Self {
        Self { kind, slot, text: text.into() }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The entries to send, in order, and their differences from the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairedMessages<'a> {
    /// Messages and placeholders, in sending order.
    pub items: Vec<Item<'a>>,
    /// The repairs made; empty if the items are the unchanged messages.
    pub repairs: Vec<Repair>,
}

/// Rows that need repair, in strict mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("calls and results do not pair: {}", first(.repairs))]
pub struct Unpaired {
    /// The repairs that would be made; at least one.
    pub repairs: Vec<Repair>,
}

fn first(repairs: &[Repair]) -> String {
    match repairs {
        [] => String::new(),
        [only] => only.text.clone(),
        [first, rest @ ..] => format!("{} (and {} more)", first.text, rest.len()),
    }
}

/// Pairs calls and results by a provider's rules.
///
/// # Behavior
/// - `Keep` returns the messages as they are; `Repair` repairs them and lists the repairs; `Strict`
///   fails if a repair is needed.
/// - Rows that satisfy the rules are not moved, and no repair is listed for them.
/// - A result directly follows its call, in call order. Rows recorded in the target's own format
///   that already satisfy its rules keep their order.
/// - A shown call without a result is answered "no result is recorded"; a skipped result keeps its
///   position as `"[skipped]"`.
/// - Results and reasoning of a skipped call, results without a call, and second results are left
///   out.
///
/// # Errors
/// [`Unpaired`] in strict mode, listing every repair that is needed.
pub fn pair<'a>(
    compiled: &'a Compiled,
    pairing: Pairing,
    rules: &Rules,
) -> Result<PairedMessages<'a>, Unpaired> {
    match pairing {
        Pairing::Keep => Ok(PairedMessages {
            items: compiled.messages().map(Item::Message).collect(),
            repairs: Vec::new(),
        }),
        Pairing::Repair => Ok(repair::repair(compiled, rules)),
        Pairing::Strict => {
            let paired = repair::repair(compiled, rules);
            if paired.repairs.is_empty() {
                Ok(paired)
            } else {
                Err(Unpaired { repairs: paired.repairs })
            }
        }
    }
}
