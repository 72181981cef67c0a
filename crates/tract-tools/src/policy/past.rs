//! The calls that succeeded before.

use std::collections::BTreeSet;
use std::sync::Arc;

/// A call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCall {
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments: JSON text.
    pub arguments: Arc<str>,
}

/// The calls of a conversation that succeeded, in order.
///
/// A program that resumes a conversation fills it from the commits.
///
/// ```
/// use tract_tools::policy::PastCalls;
/// let mut past = PastCalls::new();
/// past.push("fs_read", r#"{"path":"a"}"#);
/// assert!(past.has("fs_read") && !past.has("fs_write"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastCalls {
    calls: Vec<PastCall>,
    names: BTreeSet<Arc<str>>,
}

pub(super) static NONE: PastCalls = PastCalls::new();

impl PastCalls {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self { calls: Vec::new(), names: BTreeSet::new() }
    }

    /// Adds a call that succeeded.
    pub fn push(&mut self, name: &str, arguments: impl Into<Arc<str>>) {
        let name = self.names.get(name).cloned().unwrap_or_else(|| name.into());
        self.names.insert(Arc::clone(&name));
        self.calls.push(PastCall { name, arguments: arguments.into() });
    }

    /// Returns whether a call of this tool succeeded.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Iterates over the calls in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PastCall> {
        self.calls.iter()
    }
}
