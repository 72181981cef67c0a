//! The coercion profile: values of a wrong type that can be read as the right one without loss.

use serde_json::Value;
use tract_schema::Invalid;

use super::provenance::Edit;

/// Changes what can be changed at the places that are wrong, and lists what it did.
///
/// Text becomes a number, a boolean or null where it spells one; numbers and booleans become text;
/// a single value becomes a list of one. Never: a fraction to an integer, an object to text, a
/// boolean to a number.
pub(super) fn coerce(value: &mut Value, invalid: &[Invalid]) -> Vec<Edit> {
    let mut edits = Vec::new();
    for wrong in invalid.iter().filter(|wrong| !wrong.types.is_empty()) {
        let pointer = if wrong.path == "/" { "" } else { &wrong.path };
        let Some(place) = value.pointer_mut(pointer) else { continue };
        let Some(better) = wrong.types.iter().find_map(|kind| read_as(place, kind)) else {
            continue;
        };
        edits.push(Edit {
            profile: "coercion",
            kind: "type",
            offset: None,
            path: Some(wrong.path.clone()),
            before: super::tolerant::cut(&place.to_string()),
            after: super::tolerant::cut(&better.to_string()),
        });
        *place = better;
    }
    edits
}

fn read_as(value: &Value, kind: &str) -> Option<Value> {
    match (kind, value) {
        ("integer" | "number", Value::String(text)) => {
            let number: Value = serde_json::from_str(text.trim()).ok()?;
            let whole = number.is_i64() || number.is_u64();
            (number.is_number() && (whole || kind == "number")).then_some(number)
        }
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        ("null", Value::String(text)) => {
            matches!(text.trim(), "" | "null" | "None").then_some(Value::Null)
        }
        ("string", Value::Number(_) | Value::Bool(_)) => Some(Value::String(value.to_string())),
        ("array", Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            Some(Value::Array(vec![value.clone()]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_loses_nothing_is_read_as_another_type() {
        for (value, kind, expected) in [
            (json!("7"), "integer", Some(json!(7))),
            (json!("7.5"), "number", Some(json!(7.5))),
            (json!("7.5"), "integer", None),
            (json!(1.9), "integer", None),
            (json!("yes"), "boolean", None),
            (json!("False"), "boolean", Some(json!(false))),
            (json!(true), "integer", None),
            (json!(7), "string", Some(json!("7"))),
            (json!({"a": 1}), "string", None),
            (json!("x"), "array", Some(json!(["x"]))),
            (json!(""), "null", Some(Value::Null)),
        ] {
            assert_eq!(read_as(&value, kind), expected, "{value} as {kind}");
        }
    }
}
