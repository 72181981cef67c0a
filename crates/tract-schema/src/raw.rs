//! JSON editing that preserves the text of all other values.

use tract_core::json::JsonError;

use crate::tree::Node;

/// A JSON document in which single values can be replaced. All other numbers and strings keep their
/// spelling.
///
/// ```
/// use tract_schema::RawJson;
/// let mut json = RawJson::parse(r#"{"price":1.50,"n":"7"}"#)?;
/// assert_eq!(json.get("/n").as_deref(), Some(r#""7""#));
/// assert!(json.replace("/n", "7")?);
/// assert_eq!(json.to_text(), r#"{"price":1.50,"n":7}"#);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawJson(Node);

impl RawJson {
    /// Parses a text.
    ///
    /// # Errors
    /// [`JsonError`] if it is not JSON.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Node::parse(text).map(Self)
    }

    /// Returns the value at a JSON pointer, as text.
    pub fn get(&self, pointer: &str) -> Option<String> {
        self.0.at(pointer).map(Node::write)
    }

    /// Replaces the value at a JSON pointer. Returns whether the pointer has a value.
    ///
    /// # Errors
    /// [`JsonError`] if the new value is not JSON.
    pub fn replace(&mut self, pointer: &str, other: &str) -> Result<bool, JsonError> {
        let other = Node::parse(other)?;
        Ok(self.0.at_mut(pointer).map(|place| *place = other).is_some())
    }

    /// Returns the text, without white space between values.
    pub fn to_text(&self) -> String {
        self.0.write()
    }
}
