//! The coercion profile: converts values of a wrong type if nothing is lost.

use std::collections::BTreeSet;

use serde_json::Value;
use tract_schema::{Invalid, RawJson};

use super::provenance::Edit;

/// Maximum number of times that arguments are converted and validated again. One pass is not
/// enough: a single value becomes a list before the item of that list is validated.
const MOST_PASSES: usize = 16;

/// Maximum number of changes to the arguments of one call.
const MOST_EDITS: usize = 1000;

/// The changes to the arguments of one call.
#[derive(Default)]
pub(super) struct Coercion {
    passes: usize,
    edits: usize,
    /// The conversions so far, by path and type: two keywords with different types must not
    /// alternate forever.
    read: BTreeSet<(String, &'static str)>,
}

impl Coercion {
    /// Converts the invalid values that can be converted, and returns the new text with the
    /// changes; `None` if there are none. Everything else stays as it was written.
    ///
    /// Text that spells a number, a boolean or null becomes one; numbers and booleans become text;
    /// a single value becomes a list of one. A fraction never becomes an integer, nor an object
    /// text, nor a boolean a number.
    pub(super) fn pass(&mut self, text: &str, invalid: &[Invalid]) -> Option<(String, Vec<Edit>)> {
        self.passes += 1;
        if self.passes > MOST_PASSES {
            return None;
        }
        let mut json = RawJson::parse(text).ok()?;
        let mut edits = Vec::new();
        for wrong in invalid.iter().filter(|wrong| !wrong.types.is_empty()) {
            if self.edits == MOST_EDITS {
                break;
            }
            let pointer = if wrong.path == "/" { "" } else { &wrong.path };
            let Some(before) = json.get(pointer) else { continue };
            let better = |kind: &&'static str| Some((*kind, read_as(&before, kind)?));
            let Some((kind, after)) = wrong.types.iter().find_map(better) else { continue };
            if !self.read.insert((wrong.path.clone(), kind)) {
                continue;
            }
            if !json.replace(pointer, &after).is_ok_and(|replaced| replaced) {
                continue;
            }
            self.edits += 1;
            let edit = Edit::new("coercion", "type", &before, &after);
            edits.push(Edit { path: Some(wrong.path.clone()), ..edit });
        }
        (!edits.is_empty()).then(|| (json.to_text(), edits))
    }
}

/// Returns a value converted to another type, both as JSON text.
fn read_as(raw: &str, kind: &str) -> Option<String> {
    let text = || serde_json::from_str::<String>(raw).ok();
    let is_scalar = !raw.starts_with(['{', '[']) && raw != "null";
    match kind {
        "integer" | "number" => {
            let text = text()?;
            let number: Value = serde_json::from_str(text.trim()).ok()?;
            let whole = number.is_i64() || number.is_u64();
            let reads = number.is_number() && (whole || kind == "number");
            reads.then(|| text.trim().to_owned())
        }
        "boolean" => match text()?.trim().to_ascii_lowercase().as_str() {
            "true" => Some("true".to_owned()),
            "false" => Some("false".to_owned()),
            _ => None,
        },
        "null" => matches!(text()?.trim(), "" | "null" | "None").then(|| "null".to_owned()),
        "string" if is_scalar && !raw.starts_with('"') => Some(Value::from(raw).to_string()),
        "array" if is_scalar => Some(format!("[{raw}]")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_loses_nothing_is_read_as_another_type() {
        for (value, kind, expected) in [
            (r#""7""#, "integer", Some("7")),
            (r#"" 7.50 ""#, "number", Some("7.50")),
            (r#""7.5""#, "integer", None),
            ("1.9", "integer", None),
            (r#""yes""#, "boolean", None),
            (r#""False""#, "boolean", Some("false")),
            ("true", "integer", None),
            ("1.50", "string", Some(r#""1.50""#)),
            (r#"{"a":1}"#, "string", None),
            ("null", "array", None),
            (r#""x""#, "array", Some(r#"["x"]"#)),
            (r#""""#, "null", Some("null")),
        ] {
            assert_eq!(read_as(value, kind).as_deref(), expected, "{value} as {kind}");
        }
    }

    #[test]
    fn two_keywords_that_want_different_types_do_not_take_turns() {
        let wants = |kind| {
            let mut invalid = Invalid::new("type", "/a", "another type", "this one");
            invalid.types = vec![kind];
            invalid
        };
        let mut coercion = Coercion::default();
        let (text, _) = coercion.pass(r#"{"a":1}"#, &[wants("string")]).unwrap();
        assert_eq!(text, r#"{"a":"1"}"#);
        let (text, _) = coercion.pass(&text, &[wants("integer")]).unwrap();
        assert_eq!(text, r#"{"a":1}"#);
        assert!(coercion.pass(&text, &[wants("string")]).is_none());
    }
}
