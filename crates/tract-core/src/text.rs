//! JSON kept as canonical text.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::{self, Escapes, JsonError};

/// A JSON value as its canonical text (rule `pyjson-raw-1`): equal values are equal texts, and
/// numbers keep every digit.
///
/// ```
/// use tract_core::JsonText;
/// let text = JsonText::new(r#"{ "b": 1e2, "a": 12345678901234567890 }"#)?;
/// assert_eq!(text.as_str(), r#"{"a":12345678901234567890,"b":100.0}"#);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Brings a JSON text into canonical form.
    ///
    /// # Errors
    /// [`JsonError`] when the text is no JSON, or JSON that has no canonical form.
    pub fn new(text: &str) -> Result<Self, JsonError> {
        json::canonical(text, Escapes::Raw).map(|text| Self(text.into()))
    }

    /// Takes a text that must be canonical already.
    ///
    /// Returns `None` when it is not.
    pub fn from_canonical(text: &str) -> Option<Self> {
        json::is_canonical(text, Escapes::Raw).then(|| Self(text.into()))
    }

    /// Serializes any value.
    ///
    /// # Errors
    /// When the value does not serialize, or has no canonical form.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        Self::new(&text).map_err(serde::ser::Error::custom)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as a `RawValue`, which serializes as it is.
    pub fn raw(&self) -> Box<RawValue> {
        RawValue::from_string(self.0.to_string()).expect("canonical text is JSON")
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(raw.get()).map_err(serde::de::Error::custom)
    }
}
