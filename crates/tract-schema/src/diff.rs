//! Compares two schemas member by member.

use std::fmt;

use tract_core::json::{self, Escapes, JsonError};
use tract_core::text::is_invisible;

use crate::shape::find;

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// Only the new schema has it.
    Added,
    /// Only the old schema has it.
    Removed,
    /// Both have it, with different values.
    Changed,
}

/// One difference between two schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of difference.
    pub kind: ChangeKind,
    /// The member's path: names joined by dots, without the `function` around OpenAI's shape.
    pub path: String,
    /// The old value in canonical form; `None` if added.
    pub from: Option<String>,
    /// The new value in canonical form; `None` if removed.
    pub to: Option<String>,
}

impl Change {
    fn new(kind: ChangeKind, path: &str, from: Option<&str>, to: Option<&str>) -> Self {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Self { kind, path: path.to_owned(), from: text(from), to: text(to) }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = Visible(&self.path);
        let from = Visible(self.from.as_deref().unwrap_or_default());
        let to = Visible(self.to.as_deref().unwrap_or_default());
        match self.kind {
            ChangeKind::Added => write!(f, "+ {path}  {to}"),
            ChangeKind::Removed => write!(f, "- {path}  {from}"),
            ChangeKind::Changed => write!(f, "~ {path}  {from} → {to}"),
        }
    }
}

/// JSON text with invisible characters escaped, so that different values look different.
struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if is_invisible(character) {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    write!(f, "\\u{unit:04x}")?;
                }
            } else {
                write!(f, "{character}")?
            }
        }
        Ok(())
    }
}

/// Compares two schemas structurally, ignoring key order, white space and the spelling of numbers.
/// Objects are compared member by member, other values as a whole.
///
/// ```
/// let old = r#"{"name":"a","parameters":{"properties":{}}}"#;
/// let new = r#"{"name":"a","parameters":{"properties":{"n":{"default":2,"type":"integer"}}}}"#;
/// let changes = tract_schema::diff(old, new)?;
/// assert_eq!(changes[0].to_string(), r#"+ parameters.properties.n  {"default":2,"type":"integer"}"#);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] if one of the texts is not JSON.
pub fn diff(old: &str, new: &str) -> Result<Vec<Change>, JsonError> {
    let old = json::canonical(old, Escapes::Raw)?;
    let new = json::canonical(new, Escapes::Raw)?;
    let mut changes = Vec::new();
    compare("", &old, &new, &mut changes)?;
    Ok(changes)
}

/// As [`diff`], with one line per change; empty if one of the texts is not JSON.
pub fn diff_lines(old: &str, new: &str) -> Vec<String> {
    let changes = diff(old, new).unwrap_or_default();
    changes.iter().map(ToString::to_string).collect()
}

fn compare(path: &str, old: &str, new: &str, changes: &mut Vec<Change>) -> Result<(), JsonError> {
    if old == new {
        return Ok(());
    }
    if !(old.starts_with('{') && new.starts_with('{')) {
        changes.push(Change::new(ChangeKind::Changed, path, Some(old), Some(new)));
        return Ok(());
    }
    let old = json::split_object(old)?;
    let new = json::split_object(new)?;
    let inner = |key: &str| match (path, key) {
        ("", "function") => String::new(),
        ("", key) => key.to_owned(),
        (path, key) => format!("{path}.{key}"),
    };
    for (key, from) in &old {
        match find(&new, key) {
            Some(to) => compare(&inner(key), from, to, changes)?,
            None => changes.push(Change::new(ChangeKind::Removed, &inner(key), Some(from), None)),
        }
    }
    for (key, to) in &new {
        if find(&old, key).is_none() {
            changes.push(Change::new(ChangeKind::Added, &inner(key), None, Some(to)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_name_their_place() {
        let old = r#"{"type":"function","function":{"name":"a","description":"A","parameters":{"required":["x"],"properties":{"x":{"type":"string"}}}}}"#;
        let new = r#"{"function":{"name":"a","parameters":{"properties":{"x":{"type":"integer"}},"required":["x","y"]}, "strict":true},"type":"function"}"#;
        let lines: Vec<String> = diff(old, new).unwrap().iter().map(Change::to_string).collect();
        assert_eq!(
            lines,
            [
                r#"- description  "A""#,
                r#"~ parameters.properties.x.type  "string" → "integer""#,
                r#"~ parameters.required  ["x"] → ["x","y"]"#,
                "+ strict  true",
            ]
        );
    }

    #[test]
    fn spelling_is_no_change() {
        assert!(diff(r#"{"a":1.0,"b":"é"}"#, r#"{ "b":"\u00e9", "a":1e0 }"#).unwrap().is_empty());
    }
}
