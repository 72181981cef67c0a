//! Requires human approval of some calls.

use std::collections::BTreeSet;

use super::{Decision, Policy, PolicyRequest};

/// Requires a person's approval of some calls.
///
/// ```
/// use tract_core::{ToolSchema, ToolTraits};
/// use tract_tools::policy::{ApprovalRequired, Decision, Policy, PolicyRequest};
/// let policy = ApprovalRequired::of_destructive().tool("send_mail");
/// let tool = ToolSchema::parse(r#"{"name":"rm","parameters":{"type":"object"}}"#)?.id();
/// let call = PolicyRequest::new("c1", "rm", tool, "{}");
/// assert_eq!(policy.decide(&call), Decision::Allow);
/// let call = PolicyRequest { traits: ToolTraits::new().destructive(), ..call };
/// assert_eq!(policy.decide(&call), Decision::NeedsApproval);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalRequired {
    names: BTreeSet<String>,
    destructive: bool,
    all_that_change: bool,
}

impl ApprovalRequired {
    /// Requires approval only of the tools that are added by [`tool`](Self::tool).
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires approval of destructive tools.
    pub fn of_destructive() -> Self {
        Self { destructive: true, ..Self::default() }
    }

    /// Requires approval of every tool that is not read-only.
    pub fn of_all_that_change() -> Self {
        Self { all_that_change: true, ..Self::default() }
    }

    /// Requires approval of a tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.names.insert(name.into());
        self
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
