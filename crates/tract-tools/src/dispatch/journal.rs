//! The journal of calls: a record before each effect, so that it happens at most once.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tract_core::json::{self, Escapes};
use tract_core::{BlobId, JsonText, ToolId, hash};

use crate::snapshot::BoxError;

/// The key of a call's effect: a hash of the tool's definition, the arguments in canonical form,
/// and the call's id. Shown in lower-case hex.
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallKey(BlobId);

impl CallKey {
    /// Returns the key of a call's effect.
    pub fn of(tool: ToolId, call_id: &str, arguments: &str) -> Self {
        // Arguments with a number without a canonical form are hashed as text.
        let canonical = json::canonical(arguments, Escapes::Raw);
        let arguments = canonical.as_deref().unwrap_or(arguments);
        // The tool's id has a fixed length and canonical JSON contains no line breaks, so different
        // calls never give the same text.
        Self(hash::blob(format!("{tool}\n{arguments}\n{call_id}").as_bytes()))
    }

    /// Returns the key of a call of a server's tool, as approvals use it. The approval does not
    /// extend to another server with an equal definition. Without a server it equals
    /// [`of`](Self::of).
    ///
    /// ```
    /// use tract_core::ToolSchema;
    /// use tract_tools::dispatch::CallKey;
    /// let tool = ToolSchema::parse(r#"{"name":"pay","inputSchema":{}}"#)?.id();
    /// let key = |server| CallKey::of_server(server, tool, "c1", "{}");
    /// assert_ne!(key(Some("sa")), key(Some("sb")));
    /// assert_eq!(key(None), CallKey::of(tool, "c1", "{}"));
    /// # Ok::<(), tract_core::json::JsonError>(())
    /// ```
    pub fn of_server(server: Option<&str>, tool: ToolId, call_id: &str, arguments: &str) -> Self {
        let key = Self::of(tool, call_id, arguments);
        match server {
            // Two lines, where `of` hashes three, so the two kinds of key never collide.
            Some(server) => Self(hash::blob(format!("{server:?}\n{key}").as_bytes())),
            None => key,
        }
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

/// A call that is about to have an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallStart {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// The key of its effect.
    pub key: CallKey,
    /// Position among the calls of the turn, from 0; needed because ids may repeat.
    pub place: usize,
    /// Whether a person approved it.
    pub approved: bool,
}

/// A journal's answer to whether a call may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The effect is claimed durably: the tool runs now.
    Begin,
    /// The call was answered earlier. This is the answer, and the tool does not run.
    Answered(Recorded),
    /// The call was started earlier and no answer is known. It is answered with this text as an
    /// error, and the tool does not run.
    Interrupted(String),
    /// The named run works on the call. Neither this call nor the calls after it are answered here.
    Held(String),
}

/// An answer that was recorded earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The text for the model.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The value.
    pub value: Option<JsonText>,
}

impl Recorded {
    /// Creates a recorded success without a value.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false, value: None }
    }
}

/// Records durably which calls have started and how they were answered.
///
/// # Behavior
/// - [`start`](Self::start) is called after all checks that may refuse the call, right before its
///   handler: for each call of a tool that is neither read-only nor idempotent, and for each
///   approved call of a tool that is not read-only. After a crash, a call without a claim was not
///   executed; one with a claim and no answer may have been.
/// - [`finish`](Self::finish) is called with the answer of each call that began, before the next
///   call starts; [`unanswered`](Self::unanswered) is called instead if the tool gave no answer.
/// - [`recorded`](Self::recorded) is called before the handler of each tool that is not read-only.
///   If it returns an answer, the effect is not repeated.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Claims the effect of a call with one durable write. Of several runs that claim it
    /// concurrently, only one may begin.
    ///
    /// # Errors
    /// If the claim cannot be written; the call does not run, and the turn ends.
    async fn start(&self, call: &CallStart) -> Result<Start, BoxError>;

    /// Records the answer of a call that began. The write may be deferred to the next one.
    ///
    /// # Errors
    /// If it cannot be recorded; the error is logged, and the turn continues.
    async fn finish(&self, call: &CallStart, answer: &Recorded) -> Result<(), BoxError> {
        let _ = (call, answer);
        Ok(())
    }

    /// Records that a call that began gave no answer: it may have run. The default leaves its claim
    /// unchanged, which means the same.
    ///
    /// # Errors
    /// If it cannot be recorded; the error is logged, and the turn continues.
    async fn unanswered(&self, call: &CallStart) -> Result<(), BoxError> {
        let _ = call;
        Ok(())
    }

    /// Returns the answer to an earlier call with this effect. The default is `None`.
    ///
    /// # Errors
    /// If it cannot be read; the call does not run, and the turn ends.
    async fn recorded(&self, key: &CallKey) -> Result<Option<Recorded>, BoxError> {
        let _ = key;
        Ok(None)
    }
}

/// A person's approval of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The key of the call: its tool's server and definition, its arguments and its id.
    pub key: CallKey,
    /// The person who approved.
    pub by: Option<String>,
    /// Expiry in microseconds since 1970 UTC; `None` if it does not expire.
    pub expires_at_us: Option<i64>,
}

impl Approval {
    /// Approves a call, without the person's name and without an expiry.
    pub fn new(key: CallKey) -> Self {
        Self { key, by: None, expires_at_us: None }
    }
}

/// A set of approvals. Each is bound to server, definition, arguments and call: if one of them
/// differs, it does not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals(BTreeMap<CallKey, Approval>);

impl Approvals {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an approval, replacing an earlier one of the same call.
    pub fn insert(&mut self, approval: Approval) {
        self.0.insert(approval.key, approval);
    }

    /// Returns the approval of a call, unless it has expired at `now_us`.
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
