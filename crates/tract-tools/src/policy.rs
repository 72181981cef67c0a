//! Whether a call may run.
//!
//! A policy is a function of the facts about a call and of the calls that succeeded before it; it
//! keeps nothing itself, so one can serve many conversations, and a conversation that is taken up
//! again is judged as if it had never stopped.

mod approval;
mod files;
mod order;
mod past;
mod pinned;
mod untrusted;

use std::fmt;

use serde::Serialize;
use tract_core::{ToolId, ToolTraits};

pub use self::approval::ApprovalRequired;
pub use self::files::ReadBeforeWrite;
pub use self::order::Sequential;
pub use self::past::{PastCall, PastCalls};
pub use self::pinned::PinRequired;
pub use self::untrusted::AllowUntrusted;

/// The decision of a policy on a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    #[default]
    Allow,
    /// It must not run.
    Deny {
        /// Why; the model reads it.
        reason: String,
    },
    /// A person has to say so first.
    NeedsApproval,
}

impl Decision {
    /// Refuses, with a reason that the model reads.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }

    /// Returns the stricter of two decisions; of two denials the first.
    ///
    /// ```
    /// use tract_tools::Decision;
    /// assert_eq!(Decision::Allow.and(Decision::NeedsApproval), Decision::NeedsApproval);
    /// assert_eq!(Decision::deny("a").and(Decision::deny("b")), Decision::deny("a"));
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (denied @ Self::Deny { .. }, _) | (_, denied @ Self::Deny { .. }) => denied,
            (Self::NeedsApproval, _) | (_, Self::NeedsApproval) => Self::NeedsApproval,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allowed"),
            Self::Deny { reason } => write!(f, "denied: {reason}"),
            Self::NeedsApproval => f.write_str("needs approval"),
        }
    }
}

/// The facts about a call that a policy sees; never a handle.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// The provider's id of the call.
    pub call_id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The definition that the call was held against.
    pub tool: ToolId,
    /// The arguments: JSON text of an object.
    pub arguments: &'a str,
    /// The traits of the tool: the effects it may have.
    pub traits: ToolTraits,
    /// Whether a schema was there and the arguments fit it.
    pub validated: bool,
    /// Whether the arguments are what a repair made of those received.
    pub repaired: bool,
    /// The calls of the conversation that succeeded before. Only dispatch knows them: policies of a
    /// registry see none.
    pub past: &'a PastCalls,
}

impl<'a> PolicyRequest<'a> {
    /// States the facts about a call that fits its schema and was not repaired.
    pub fn new(call_id: &'a str, name: &'a str, tool: ToolId, arguments: &'a str) -> Self {
        Self {
            call_id,
            name,
            tool,
            arguments,
            traits: ToolTraits::new(),
            validated: true,
            repaired: false,
            past: &past::NONE,
        }
    }

    /// Sets the calls that succeeded before.
    #[must_use]
    pub fn past(mut self, past: &'a PastCalls) -> Self {
        self.past = past;
        self
    }

    /// Sets what the tool promises about its effects.
    #[must_use]
    pub fn traits(mut self, traits: ToolTraits) -> Self {
        self.traits = traits;
        self
    }
}

/// Decides whether calls may run. The first denial wins, then the first wish for approval.
///
/// A function is a policy:
///
/// ```
/// use tract_tools::{Decision, Policy, PolicyRequest};
/// let no_deleting = |call: &PolicyRequest<'_>| match call.traits.destructive {
///     true => Decision::deny("nothing is deleted here"),
///     false => Decision::Allow,
/// };
/// let _: &dyn Policy = &no_deleting;
/// ```
pub trait Policy: Send + Sync {
    /// Returns the name that operators read.
    fn name(&self) -> &str {
        "policy"
    }

    /// Decides on one call.
    fn decide(&self, call: &PolicyRequest<'_>) -> Decision;

    /// Returns whether a call may run without the approval of a person although its arguments are
    /// not trusted: a repair made them, or the tool lacks a schema. Only policies of a registry are
    /// asked. A decision to [allow](Decision::Allow) a call does not include this, so the default
    /// is `false`; [`AllowUntrusted`] returns `true`.
    fn vouches_for(&self, call: &PolicyRequest<'_>) -> bool {
        let _ = call;
        false
    }
}

impl<F: Fn(&PolicyRequest<'_>) -> Decision + Send + Sync> Policy for F {
    fn decide(&self, call: &PolicyRequest<'_>) -> Decision {
        self(call)
    }
}
