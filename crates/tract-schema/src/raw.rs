//! JSON in which single values are replaced, and all else stays as it was written.

use tract_core::json::JsonError;

use crate::tree::Node;

/// JSON in which single values are replaced: every other number and string keeps its spelling.
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
    /// Reads a text.
    ///
    /// # Errors
    /// [`JsonError`] when it is no JSON.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Node::parse(text).map(Self)
    }

    /// Returns the value at a JSON pointer, as text.
    pub fn get(&self, pointer: &str) -> Option<String> {
        self.0.at(pointer).map(Node::write)
    }

    /// Replaces the value at a JSON pointer with another, and returns whether there is one.
    ///
    /// # Errors
    /// [`JsonError`] when the other is no JSON.
    pub fn replace(&mut self, pointer: &str, other: &str) -> Result<bool, JsonError> {
        let other = Node::parse(other)?;
        Ok(self.0.at_mut(pointer).map(|place| *place = other).is_some())
    }

    /// Returns the text, without white space between values.
    pub fn to_text(&self) -> String {
        self.0.write()
    }
}
