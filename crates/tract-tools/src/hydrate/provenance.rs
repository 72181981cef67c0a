//! The origin of arguments and the changes to them, for the commit's metadata.

use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tract_core::{JsonText, ToolId};

use super::call::CallSource;
use super::tolerant::cut;

/// JSON text that serializes unchanged. It is valid JSON, because it was parsed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    pub(crate) fn parsed(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// The resolution of a call's name to a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NameMapping {
    /// The name in the provider's reply.
    pub received: String,
    /// The tool's own name.
    pub name: String,
    /// The registry's id of the tool.
    pub tool_id: Arc<str>,
    /// The definition in the request, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<ToolId>,
}

/// The validator that checked the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValidatorUsed {
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// The time at which the schema was compiled, in RFC 3339.
    pub compiled_at: Arc<str>,
    /// Whether it was compiled before the first call.
    pub eager: bool,
    /// Corrections of the schema that it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A change that a named profile made to the received arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The profile: `tolerant`, `coercion`, or `strict` for nulls by which a request in strict mode
    /// expressed absent arguments.
    pub profile: &'static str,
    /// The kind of change, such as `single_quotes`.
    pub kind: &'static str,
    /// The byte offset in the received text, for an edit of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// The path in the arguments, for a change of a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The text before.
    pub before: String,
    /// The text after.
    pub after: String,
}

impl Edit {
    /// Creates a change. Only the beginnings of both texts are stored.
    pub(super) fn new(
        profile: &'static str,
        kind: &'static str,
        before: &str,
        after: &str,
    ) -> Self {
        Self { profile, kind, offset: None, path: None, before: cut(before), after: cut(after) }
    }
}

/// The only repair of a call, if there was one. Its result is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The name of the repair function.
    pub by: String,
    /// SHA-256 of the arguments before, as a blob's id.
    pub before: String,
    /// SHA-256 of the arguments after, as a blob's id; `None` if it returned none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The text that it returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The errors before.
    pub errors: Vec<super::StageError>,
    /// The reason why the repair failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The full history of a call's arguments. It serializes as the metadata of the commit with the
/// call's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// The reply that contained the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<CallSource>>,
    /// The provider's id of the call.
    pub call_id: String,
    /// The resolution of its name; `None` if the name refers to no tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_mapping: Option<NameMapping>,
    /// The hash of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<ToolId>,
    /// The arguments exactly as received.
    pub raw_arguments: Arc<str>,
    /// The arguments as parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parsed: Option<Json>,
    /// The arguments that fit the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validated: Option<Json>,
    /// The validator; `None` if the arguments were not validated.
    pub validator: Option<ValidatorUsed>,
    /// The changes of named profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Whether a repair made the arguments.
    pub repaired: bool,
    /// The repair, including one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repaired>,
    /// The changes to the model's arguments before a person approved the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<JsonText>,
    /// Duration of hydration in microseconds.
    pub duration_us: u64,
}

impl Provenance {
    /// Returns it as JSON for metadata.
    ///
    /// # Errors
    /// If the arguments contain a number without a canonical form.
    pub fn to_json(&self) -> Result<JsonText, serde_json::Error> {
        JsonText::of(self)
    }
}
