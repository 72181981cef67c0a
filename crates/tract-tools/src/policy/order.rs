//! Requires tools to run in order.

use std::collections::BTreeMap;

use super::{Decision, Policy, PolicyRequest};

/// Allows a tool to run only after others have succeeded in this conversation.
///
/// ```
/// use tract_core::ToolSchema;
/// use tract_tools::policy::{Decision, PastCalls, Policy, PolicyRequest, Sequential};
/// let policy = Sequential::new().after("deploy", ["build", "test"]);
/// let tool = ToolSchema::parse(r#"{"name":"deploy","parameters":{"type":"object"}}"#)?.id();
/// let mut past = PastCalls::new();
/// past.push("build", "{}");
/// let call = PolicyRequest { past: &past, ..PolicyRequest::new("c1", "deploy", tool, "{}") };
/// assert_eq!(policy.decide(&call), Decision::deny(r#"expected "test" to have succeeded before "deploy""#));
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequential(BTreeMap<String, Vec<String>>);

impl Sequential {
    /// Creates a policy that allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires that other tools have succeeded before a tool.
    #[must_use]
    pub fn after<S: Into<String>>(
        mut self,
        tool: impl Into<String>,
        needs: impl IntoIterator<Item = S>,
    ) -> Self {
        self.0.entry(tool.into()).or_default().extend(needs.into_iter().map(Into::into));
        self
    }
}

impl Policy for Sequential {
    fn name(&self) -> &str {
        "sequential"
    }

    fn decide(&self, call: &PolicyRequest<'_>) -> Decision {
        let needs = self.0.get(call.name).map(Vec::as_slice).unwrap_or_default();
        match needs.iter().find(|needed| !call.past.has(needed)) {
            Some(missing) => Decision::deny(format!(
                "expected {missing:?} to have succeeded before {:?}",
                call.name
            )),
            None => Decision::Allow,
        }
    }
}
