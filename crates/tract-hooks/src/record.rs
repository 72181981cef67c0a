//! The stored record of a decision. It explains why a message differs from its original.

use serde::{Deserialize, Serialize};
use tract_core::{BlobId, JsonText};

/// A decision, stored with the commit that it led to, or by itself if there was no commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRecord {
    /// The name of the event.
    pub event: String,
    /// The decision: `pass`, `approve`, `edit`, `summarize`, `reject`, `defer`.
    pub action: String,
    /// The handler or rule that decided. For a deferred operation, the person or program that
    /// decided it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The instructions that the summarizer got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The model that wrote a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The id of the original content, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The id of the content that was committed instead, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Number of tokens of the original text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// Number of tokens of the committed text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
    /// Diagnostics, such as why a summary was not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Handlers that failed before the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The id of the deferred operation that this record decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
    /// The author of the original, by its name in records: `tool`, `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time in microseconds since 1970, UTC.
    pub at_us: i64,
    /// Earlier decisions on the same message, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<DecisionRecord>,
}

impl DecisionRecord {
    /// Creates a record without optional fields.
    pub fn new(event: &str, action: &str, at_us: i64) -> Self {
        Self { event: event.to_owned(), action: action.to_owned(), at_us, ..Self::default() }
    }

    /// Returns the record as stored in a commit's origin.
    pub fn to_json(&self) -> Option<JsonText> {
        // Strings, numbers and lists of strings always serialize; a lone surrogate cannot occur.
        JsonText::of(self).ok()
    }

    /// Parses a record from a commit's origin; `None` if it contains something else.
    pub fn from_json(json: &JsonText) -> Option<Self> {
        serde_json::from_str(json.as_str()).ok()
    }

    /// Appends this record to the one already stored, whose decisions become the earlier ones.
    /// Anything stored that is not a record is dropped.
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

    /// Returns all decisions on the message, latest first.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.earlier.iter().rev())
    }

    /// Returns the content before the first decision that replaced it.
    pub fn original(&self) -> Option<BlobId> {
        let first = self.earlier.iter().chain([self]).find_map(|record| record.before.as_deref());
        first?.parse().ok()
    }
}
