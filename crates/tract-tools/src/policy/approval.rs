//! Requires human approval of some calls.

use std::collections::BTreeSet;

use super::{Decision, Policy, PolicyRequest};

/// Requires a person's approval of some calls.
///
/// ```
/// use tract_core::{ToolSchema, ToolTraits};
/// use tract_tools::policy::{ApprovalRequired, Decision, Policy, PolicyRequest};
/// let policy = ApprovalRequired::of_destructive();
/// let tool = ToolSchema::parse(r#"{"name":"rm","parameters":{"type":"object"}}"#)?.id();
/// let call = PolicyRequest::new("c1", "rm", tool, "{}");
/// assert_eq!(policy.decide(&call), Decision::Allow);
/// let call = PolicyRequest { traits: ToolTraits { destructive: true, ..ToolTraits::default() }, ..call };
/// assert_eq!(policy.decide(&call), Decision::NeedsApproval);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalRequired {
    /// The tools whose calls require approval.
    pub names: BTreeSet<String>,
    /// Requires approval of destructive tools.
    pub destructive: bool,
    /// Requires approval of every tool that is not read-only.
    pub all_that_change: bool,
}

impl ApprovalRequired {
    /// Requires approval of these tools.
    pub fn of_tools<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Requires approval of destructive tools.
    pub fn of_destructive() -> Self {
        Self { destructive: true, ..Self::default() }
    }

    /// Requires approval of every tool that is not read-only.
    pub fn of_all_that_change() -> Self {
        Self { all_that_change: true, ..Self::default() }
    }
}

impl Policy for ApprovalRequired {
    fn name(&self) -> &str {
        "approval_required"
    }

    fn decide(&self, call: &PolicyRequest<'_>) -> Decision {
        let wanted = self.names.contains(call.name)
            || (self.destructive && call.traits.destructive)
            || (self.all_that_change && !call.traits.read_only);
        if wanted { Decision::NeedsApproval } else { Decision::Allow }
    }
}
