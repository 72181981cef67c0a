//! Allows only approved definitions to run.

use std::collections::BTreeMap;

use super::{Decision, Policy, PolicyRequest};
use crate::pin::{PinPolicy, Pins};

/// Allows a tool to run only if its definition has the approved, pinned hash.
///
/// ```
/// use tract_core::ToolSchema;
/// use tract_tools::pin::{Pin, PinPolicy};
/// use tract_tools::policy::{Decision, PinRequired, Policy, PolicyRequest};
/// let approved = ToolSchema::parse(r#"{"name":"read","inputSchema":{"type":"object"}}"#)?;
/// let changed = ToolSchema::parse(r#"{"name":"read","inputSchema":{}}"#)?;
/// let pins = [Pin::of("files", &approved)].into_iter().collect();
/// let policy = PinRequired {
///     servers: [("read".to_owned(), "files".to_owned())].into(),
///     ..PinRequired::new(pins, PinPolicy::ApprovedOnly)
/// };
/// let call = PolicyRequest::new("c1", "read", approved.id(), "{}");
/// assert_eq!(policy.decide(&call), Decision::Allow);
/// let call = PolicyRequest::new("c1", "read", changed.id(), "{}");
/// assert!(matches!(policy.decide(&call), Decision::Deny { .. }));
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinRequired {
    /// The approved definitions.
    pub pins: Pins,
    /// The treatment of definitions that are not pinned or have changed.
    pub policy: PinPolicy,
    /// The servers of tools, by tool name. Approvals of other servers do not apply to a tool.
    pub servers: BTreeMap<String, String>,
}

impl PinRequired {
    /// Creates a policy from pins, for tools without a server.
    pub fn new(pins: Pins, policy: PinPolicy) -> Self {
        Self { pins, policy, servers: BTreeMap::new() }
    }
}

impl Policy for PinRequired {
    fn name(&self) -> &str {
        "pin_required"
    }

    fn decide(&self, call: &PolicyRequest<'_>) -> Decision {
        let server = self.servers.get(call.name).map_or("", String::as_str);
        let pinned = self.pins.get(server, call.name).map(|pin| pin.tool_id());
        match (pinned, self.policy) {
            (_, PinPolicy::TellOnly) | (None, PinPolicy::RefuseChanged) => Decision::Allow,
            (Some(pinned), _) if pinned == call.tool => Decision::Allow,
            (Some(_), _) => Decision::deny(format!(
                "the definition of {:?} is not the one that was approved",
                call.name
            )),
            (None, PinPolicy::ApprovedOnly) => {
                Decision::deny(format!("the tool {:?} is not approved yet", call.name))
            }
        }
    }
}
