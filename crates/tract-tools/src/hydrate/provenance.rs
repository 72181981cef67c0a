//! The origin of arguments and the changes to them, for the commit's metadata.

use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tract_core::{JsonText, ToolId};

use super::call::CallSource;
use super::tolerant::cut;

/// JSON text that serializes as it is. It was parsed before, so it is JSON.
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

/// The rule by which the name of a call was resolved to a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NameMapping {
    /// The name in the provider's reply.
    pub received: String,
    /// The tool's own name.
    pub name: String,
    /// The registry's id of the tool.
    pub tool_id: Arc<str>,
    /// The definition that the request had, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<ToolId>,
}

/// The validator of the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValidatorUsed {
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// When it was made of the schema, RFC 3339.
    pub compiled_at: Arc<str>,
    /// Whether that was before the first call.
    pub eager: bool,
    /// Corrections of the schema that it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A change that a named profile made to the received arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The profile: `tolerant` or `coercion`; `strict` where a request for strict mode had no other
    /// way to say it.
    pub profile: &'static str,
    /// The kind of change, such as `single_quotes`.
    pub kind: &'static str,
    /// The byte of the text as received, for an edit of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// The place in the arguments, for a coercion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The text before.
    pub before: String,
    /// The text after.
    pub after: String,
}

impl Edit {
    /// States a change, of which the beginnings of both texts are kept.
    pub(super) fn new(
        profile: &'static str,
        kind: &'static str,
        before: &str,
        after: &str,
    ) -> Self {
        Self { profile, kind, offset: None, path: None, before: cut(before), after: cut(after) }
    }
}

/// The one repair of a call, when there was one. What it gave is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The maker of the change.
    pub by: String,
    /// SHA-256 of the arguments before, as a blob's id.
    pub before: String,
    /// SHA-256 of the arguments after, as a blob's id; absent when it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The text that it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The errors before.
    pub errors: Vec<super::StageError>,
    /// Why it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The full history of a call's arguments. It serializes as the metadata of the commit with the
/// call's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// The reply that the call came in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<CallSource>>,
    /// The provider's id of the call.
    pub call_id: String,
    /// The rule that resolved its name; absent if none did.
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
    /// The validator; absent when none was asked.
    pub validator: Option<ValidatorUsed>,
    /// The changes of named profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Whether the arguments are what a repair gave.
    pub repaired: bool,
    /// The repair, also one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repaired>,
    /// The changes to the model's arguments before a person approved the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<JsonText>,
    /// How long all this took, in microseconds.
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
