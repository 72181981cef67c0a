//! Pairing: every call gets one answer, and every answer is where a provider accepts it.
//!
//! History is kept as it happened, and a recording may be broken; a request may not. Pairing is
//! therefore a law of compiling: it looks at the rows of a context, and says in which order they
//! go out and what has to be said in place of what is missing.

mod repair;
mod rules;

#[cfg(test)]
mod tests;

use std::fmt;

use tract_core::{CallRef, CommitId, Message};

use crate::compiled::Compiled;

pub use rules::{Rules, Speaker, speaker};

/// What to do with calls and results that are not in the order a provider requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairing {
    /// Nothing: the rows as they are.
    Keep,
    /// Put right what can be, and say so.
    #[default]
    Repair,
    /// Refuse.
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

    /// Returns the mode that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Keep, Self::Repair, Self::Strict].into_iter().find(|mode| mode.as_str() == word)
    }
}

/// What goes out at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A message, as recorded.
    Message(&'a Message),
    /// A placeholder for an answer that is missing or skipped.
    StandIn(PlaceholderResult),
}

/// An answer that was never committed as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceholderResult {
    /// The call that it answers.
    pub answers: CallRef,
    /// That call's id, as the provider knows it.
    pub call_id: String,
    /// That call's tool.
    pub name: String,
    /// The slot of the skipped result that it replaces; none when there is no result.
    pub skipped: Option<CommitId>,
}

impl PlaceholderResult {
    /// Returns what the model reads: `no result is recorded`, or `[skipped]`. Whether the call ran is not
    /// known: a recording may lack its result.
    pub fn text(&self) -> &'static str {
        match self.skipped {
            Some(_) => "[skipped]",
            None => "no result is recorded",
        }
    }

    /// Returns whether it is an error: a call without a result is.
    pub fn is_error(&self) -> bool {
        self.skipped.is_none()
    }
}

/// What sort of step was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RepairKind {
    /// A call without a result is answered "no result is recorded".
    NotExecuted,
    /// A skipped result is sent as `"[skipped]"`.
    SkippedResult,
    /// A result was moved right after its call.
    Moved,
    /// A result that answers no call shown is left out.
    Orphan,
    /// A second result of one call is left out.
    SecondResult,
    /// The call is skipped, so what belongs to it is left out.
    CallSkipped,
    /// A call id was replaced.
    CallId,
    /// A tool's name was replaced.
    ToolName,
    /// Arguments that the provider does not accept were replaced.
    Arguments,
    /// A tool that only another provider knows is left out.
    ToolLeftOut,
    /// A tool's calls are not held to its schema by the provider, though that was asked for.
    NotStrict,
    /// A part that the provider has no word for is left out.
    PartLeftOut,
    /// What the provider would misread was written another way.
    Changed,
    /// A message with nothing to say is left out.
    EmptyMessage,
    /// Instructions within the conversation were moved to its beginning.
    SystemMoved,
    /// Parts of a turn were put in the order that the provider wants.
    Reordered,
    /// A closing message was added.
    Closed,
    /// A parameter could not be set.
    NotSet,
}

impl RepairKind {
    /// Returns the stable word.
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

/// One step by which what is sent differs from what is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What sort of step.
    pub kind: RepairKind,
    /// The message concerned, where it is one.
    pub slot: Option<CommitId>,
    /// The step, for people: what was found, and what is sent.
    pub text: String,
}

impl Repair {
    /// Makes a step that concerns a message, or none.
    pub fn new(kind: RepairKind, slot: Option<CommitId>, text: impl Into<String>) -> Self {
        Self { kind, slot, text: text.into() }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What goes out, in order, and how it differs from the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairedMessages<'a> {
    /// Messages and placeholders, in the order in which they go out.
    pub items: Vec<Item<'a>>,
    /// The steps taken; empty when the items are the messages as they are.
    pub repairs: Vec<Repair>,
}

/// Rows that would need repair, in strict mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("calls and results do not pair: {}", first(.repairs))]
pub struct Unpaired {
    /// The steps that repair would take; at least one.
    pub repairs: Vec<Repair>,
}

fn first(repairs: &[Repair]) -> String {
    match repairs {
        [] => String::new(),
        [only] => only.text.clone(),
        [first, rest @ ..] => format!("{} (and {} more)", first.text, rest.len()),
    }
}

/// Puts calls and results in order by a provider's rules.
///
/// # Behavior
/// - `Keep` gives the messages as they are; `Repair` puts right and lists; `Strict` refuses
///   what repair would change.
/// - Rows that satisfy the rules stay where they are: no repairs, same order.
/// - A result is right after its call, in call order; rows that came in the target's own form
///   and already satisfy it stay as they came.
/// - A call shown without a result is answered "no result is recorded"; a skipped result keeps its place
///   as `"[skipped]"`.
/// - Results and reasoning of a skipped call, results without a call, and second results are left
///   out.
///
/// # Errors
/// [`Unpaired`] in strict mode, naming every step that repair would take.
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
