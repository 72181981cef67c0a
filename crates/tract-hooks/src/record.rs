//! What is written down of a decision: why a message reads as it does.

use serde::{Deserialize, Serialize};
use tract_core::{BlobId, JsonText};

/// A decision, as it is kept with the commit that it brought about, or by itself when it brought
/// about none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// The event that was decided on.
    pub event: String,
    /// The decision: `pass`, `approve`, `edit`, `summarize`, `reject`, `defer`.
    pub action: String,
    /// The handler or rule that decided; of a deferred operation the person or program that decided
    /// it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The patterns that a summary must keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The model that wrote a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The content as it came, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The content that was committed instead, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Tokens of the text as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// Tokens of what was committed instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
    /// Diagnostics, such as why a summary was not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Handlers that failed before the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The deferred operation that this decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
    /// The author of the original, as records name it: `tool`, `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time in microseconds since 1970, UTC.
    pub at_us: i64,
    /// Decisions on the same message before this one, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<DecisionRecord>,
}

impl DecisionRecord {
    /// Starts a record.
    pub fn new(event: &str, action: &str, at_us: i64) -> Self {
        Self { event: event.to_owned(), action: action.to_owned(), at_us, ..Self::default() }
    }

    /// Returns it as a commit's origin keeps it.
    pub fn to_json(&self) -> Option<JsonText> {
        // Strings, numbers and lists of strings always serialize; a lone surrogate cannot occur.
        JsonText::of(self).ok()
    }

    /// Reads what a commit's origin keeps; `None` when that is something else.
    pub fn from_json(json: &JsonText) -> Option<Self> {
        serde_json::from_str(json.as_str()).ok()
    }

    /// Puts it behind what is written down already: the decisions there become the earlier ones.
    /// What is not a record gives way.
    ///
    /// ```
    /// use tract_hooks::DecisionRecord;
    /// let edited = DecisionRecord::new("tool_result_received", "edit", 1);
    /// let approved = DecisionRecord::new("before_commit", "approve", 2);
    /// let both = approved.after(edited.to_json().as_ref());
    /// assert_eq!((both.action.as_str(), both.earlier[0].action.as_str()), ("approve", "edit"));
    /// ```
    #[must_use]
    pub fn after(mut self, written: Option<&JsonText>) -> Self {
        if let Some(mut before) = written.and_then(Self::from_json) {
            self.earlier = std::mem::take(&mut before.earlier);
            self.earlier.push(before);
        }
        self
    }

    /// Returns the decisions on the message, the last one first.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.earlier.iter().rev())
    }

    /// Returns the content as it came, before any of the decisions.
    pub fn original(&self) -> Option<BlobId> {
        let first = self.earlier.iter().chain([self]).find_map(|record| record.before.as_deref());
        first?.parse().ok()
    }
}
