//! What is written down before a call takes effect, so that a restart knows what may have happened.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tract_core::json::{self, Escapes};
use tract_core::{BlobId, JsonText, ToolId, hash};

use crate::snapshot::BoxError;

/// What names the effect of one call: the hash of the tool's definition, the arguments in
/// canonical form, and the call's id. Lower-case hex.
///
/// ```
/// use tract_core::ToolSchema;
/// use tract_tools::dispatch::CallKey;
/// let tool = ToolSchema::parse(r#"{"name":"pay","parameters":{"type":"object"}}"#)?.id();
/// let key = CallKey::of(tool, "c1", r#"{"to":"a","sum":5}"#);
/// assert_eq!(key, CallKey::of(tool, "c1", r#"{ "sum": 5, "to": "a" }"#));
/// assert_ne!(key, CallKey::of(tool, "c2", r#"{"to":"a","sum":5}"#));
/// assert_eq!(key.to_string().parse::<CallKey>()?, key);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(BlobId);

impl CallKey {
    /// Names the effect of a call.
    pub fn of(tool: ToolId, call_id: &str, arguments: &str) -> Self {
        // Arguments with a number that has no canonical form are named by their text.
        let canonical = json::canonical(arguments, Escapes::Raw);
        let arguments = canonical.as_deref().unwrap_or(arguments);
        // The id of the tool has one length and canonical JSON no line breaks, so that no two
        // calls give one text.
        Self(hash::blob(format!("{tool}\n{arguments}\n{call_id}").as_bytes()))
    }
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallKey({})", self.0)
    }
}

impl FromStr for CallKey {
    type Err = tract_core::ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for CallKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CallKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BlobId::deserialize(deserializer).map(Self)
    }
}

/// A call that is about to have an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallStart {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// What names its effect.
    pub key: CallKey,
}

impl CallStart {
    pub(super) fn new(call_id: &str, tool_name: &str, key: CallKey) -> Self {
        Self { call_id: call_id.to_owned(), tool_name: tool_name.to_owned(), key }
    }
}

/// An answer that was recorded earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// What the model read.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The value.
    pub value: Option<JsonText>,
}

impl Recorded {
    /// Makes a recorded success without a value.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false, value: None }
    }

    /// Sets whether the call failed.
    #[must_use]
    pub fn is_error(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }

    /// Sets the value.
    #[must_use]
    pub fn value(mut self, value: Option<JsonText>) -> Self {
        self.value = value;
        self
    }
}

/// Keeps, durably, which calls have started and how they were answered.
///
/// # Behavior
/// - [`started`](Self::started) is called at most once for each turn, before the first handler runs
///   of a tool that is neither read-only nor idempotent, with all such calls of the turn that may
///   run. After a crash those without a mark were not executed; of those with one nobody knows.
/// - [`recorded`](Self::recorded) is asked before a handler runs whose tool is not read-only. What
///   it gives is the answer: the effect is not repeated.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Writes down that these calls start, as one durable write.
    ///
    /// # Errors
    /// When it cannot be written; nothing that would have been marked then runs, and the turn ends.
    async fn started(&self, calls: &[CallStart]) -> Result<(), BoxError>;

    /// Returns the answer that a call with this effect was given earlier; by default none is known.
    ///
    /// # Errors
    /// When it cannot be read; the call is then not run, and the turn ends.
    async fn recorded(&self, key: &CallKey) -> Result<Option<Recorded>, BoxError> {
        let _ = key;
        Ok(None)
    }
}

/// A person's word that one call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Approval {
    /// The call: its tool's definition, its arguments, its id.
    pub key: CallKey,
    /// Who said so.
    pub by: Option<String>,
    /// Until when it holds: microseconds since 1970, UTC.
    pub expires_at_us: Option<i64>,
}

impl Approval {
    /// Approves a call, by nobody in particular and for ever.
    pub fn new(key: CallKey) -> Self {
        Self { key, by: None, expires_at_us: None }
    }

    /// Says who approved.
    #[must_use]
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Says until when it holds: microseconds since 1970, UTC.
    #[must_use]
    pub fn expires_at_us(mut self, at_us: i64) -> Self {
        self.expires_at_us = Some(at_us);
        self
    }
}

/// What was approved. An approval is bound to definition, arguments and call: when one of them is
/// another, it approves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals(BTreeMap<CallKey, Approval>);

impl Approvals {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an approval; the last one for a call counts.
    pub fn insert(&mut self, approval: Approval) {
        self.0.insert(approval.key, approval);
    }

    /// Returns the approval of a call that holds at this time.
    pub fn get(&self, key: &CallKey, now_us: i64) -> Option<&Approval> {
        let holds = |found: &&Approval| found.expires_at_us.is_none_or(|end| now_us < end);
        self.0.get(key).filter(holds)
    }
}

impl FromIterator<Approval> for Approvals {
    fn from_iter<I: IntoIterator<Item = Approval>>(approvals: I) -> Self {
        Self(approvals.into_iter().map(|approval| (approval.key, approval)).collect())
    }
}
