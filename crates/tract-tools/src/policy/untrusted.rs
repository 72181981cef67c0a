//! Calls with untrusted arguments.

use std::collections::BTreeSet;

use super::{Decision, Policy, PolicyRequest};

/// Allows calls with untrusted arguments to run without approval. Arguments are untrusted if a
/// repair made them or the tool has no schema. Other policies may still deny the call.
///
/// ```
/// use tract_tools::policy::AllowUntrusted;
/// use tract_tools::{Call, Decision, NoSchema, Registry, hydrate};
/// let registry = Registry::builder()
///     .definition(r#"{"name":"search"}"#)
///     .no_schema(NoSchema::Full)
///     .policy(AllowUntrusted::of_tools(["search"]))
///     .build()?;
/// let call = hydrate(Call::new("c1", "search", r#"{"for":"x"}"#), &registry).remove(0);
/// assert_eq!(call.decision, Decision::Allow);
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowUntrusted {
    /// The tools whose calls are allowed.
    pub names: BTreeSet<String>,
    /// Allows such calls of all tools.
    pub all: bool,
}

impl AllowUntrusted {
    /// Allows such calls of these tools.
    pub fn of_tools<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), all: false }
    }

    /// Allows such calls of all tools.
    pub fn all() -> Self {
        Self { all: true, ..Self::default() }
    }
}

impl Policy for AllowUntrusted {
    fn name(&self) -> &str {
        "allow_untrusted"
    }

    fn decide(&self, _: &PolicyRequest<'_>) -> Decision {
        Decision::Allow
    }

    fn vouches_for(&self, call: &PolicyRequest<'_>) -> bool {
        self.all || self.names.contains(call.name)
    }
}
