//! Policies, which decide whether a call may run.
//!
//! A policy is a function of the facts about a call and of the calls that succeeded before it. It
//! keeps no state, so one policy can serve many conversations, and a resumed conversation is judged
//! as if it had never stopped.

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
        /// The reason, for the model.
        reason: String,
    },
    /// Human approval is required.
    NeedsApproval,
}

impl Decision {
    /// Denies a call, with a reason for the model.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }

    /// Returns the stricter of two decisions; of two denials, the first.
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

/// The facts about a call that a policy decides on.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// The provider's id of the call.
    pub call_id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The hash of the tool's definition.
    pub tool: ToolId,
    /// The arguments: JSON text of an object.
    pub arguments: &'a str,
    /// The traits of the tool: the effects it may have.
    pub traits: ToolTraits,
    /// Whether the arguments were validated against a schema.
    pub validated: bool,
    /// Whether a repair made the arguments.
    pub repaired: bool,
    /// The calls of the conversation that succeeded before. Only dispatch provides them; for
    /// policies of a registry the list is empty.
    pub past: &'a PastCalls,
}

impl<'a> PolicyRequest<'a> {
    /// Creates the facts about a call that fits its schema and was not repaired.
    pub fn new(call_id: &'a str, name: &'a str, tool: ToolId, arguments: &'a str) -> Self {
        Self {
            call_id,
            name,
            tool,
            arguments,
            traits: ToolTraits::default(),
            validated: true,
            repaired: false,
            past: &past::NONE,
        }
    }
}

/// Decides whether calls may run. The first denial wins, then the first request for approval.
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
    /// Returns the name shown to operators.
    fn name(&self) -> &str {
        "policy"
    }

    /// Decides on one call.
    fn decide(&self, call: &PolicyRequest<'_>) -> Decision;

    /// Returns whether a call with untrusted arguments may run without human approval. Arguments
    /// are untrusted if a repair made them or the tool has no schema. Only policies of a registry
    /// are asked. To [allow](Decision::Allow) a call does not imply this, so the default is
    /// `false`; [`AllowUntrusted`] returns `true`.
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
