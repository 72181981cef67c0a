//! Single values: types, equality and display.

use std::cmp::Ordering;

use serde_json::Value;

use crate::tree::Node;

/// Maximum number of characters of a value in a message.
const MOST_SHOWN: usize = 60;

pub(super) fn is_integer_key(name: &str) -> bool {
    let digits = name.strip_prefix('-').unwrap_or(name);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn refuses(not: &Node, value: &Value) -> bool {
    match (not.members(), not.get("const").or_else(|| not.get("enum"))) {
        ([], _) => true,
        (_, Some(Node::Array(words))) => words.iter().any(|word| equal(word, value)),
        (_, Some(word)) => equal(word, value),
        (_, None) => false,
    }
}

pub(crate) fn has_type(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => {
            number.is_i64()
                || number.is_u64()
                || number.as_f64().is_some_and(|value| value.fract() == 0.0)
        }
        _ => false,
    }
}

/// Rewrites a whole number as an integer if it fits into 64 bits.
pub(super) fn settle_integer(value: &mut Value) {
    let Value::Number(number) = value else { return };
    if number.is_i64() || number.is_u64() {
        return;
    }
    let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0) else { return };
    // The casts are exact within these bounds.
    if (0.0..18_446_744_073_709_551_616.0).contains(&float) {
        *value = Value::from(float as u64);
    } else if (-9_223_372_036_854_775_808.0..0.0).contains(&float) {
        *value = Value::from(float as i64);
    }
}

/// Compares two numbers by their texts; exact if both are integers.
pub(super) fn compare(a: &str, b: &str) -> Option<Ordering> {
    match (a.parse::<i128>(), b.parse::<i128>()) {
        (Ok(a), Ok(b)) => Some(a.cmp(&b)),
        _ => a.parse::<f64>().ok()?.partial_cmp(&b.parse::<f64>().ok()?),
    }
}

pub(super) fn equal(word: &Node, value: &Value) -> bool {
    match (word, value) {
        (Node::Scalar(_), Value::Null) => word.is("null"),
        (Node::Scalar(_), Value::Bool(b)) => word.is(if *b { "true" } else { "false" }),
        (Node::Scalar(_), Value::String(b)) => word.as_text().is_some_and(|a| a == *b),
        (Node::Scalar(a), Value::Number(b)) => compare(a, &b.to_string()) == Some(Ordering::Equal),
        (Node::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Node::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => false,
    }
}

/// Returns a text that is the same for equal values.
pub(crate) fn unique(value: &Value) -> String {
    match value {
        Value::Number(number) if !number.is_i64() && !number.is_u64() => {
            let mut settled = value.clone();
            settle_integer(&mut settled);
            settled.to_string()
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(unique).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => {
            let mut parts: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), unique(value)))
                .collect();
            parts.sort();
            format!("{{{}}}", parts.join(","))
        }
        other => other.to_string(),
    }
}

pub(crate) fn article(name: &str) -> String {
    match name {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {name}"),
        name => format!("a {name}"),
    }
}

pub(super) fn one_of(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    match &words[..] {
        [only] if only.starts_with('"') => only.clone(),
        words => format!("one of {}", words.join(", ")),
    }
}

pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::Array(items) => return format!("an array of {}", items.len()),
        Value::Object(members) => {
            return if members.is_empty() {
                "an empty object".to_owned()
            } else {
                let names: Vec<&str> = members.keys().take(4).map(String::as_str).collect();
                let more = if members.len() > names.len() { ", …" } else { "" };
                format!("an object with `{}`{more}", names.join("`, `"))
            };
        }
        // Cut a long text first, so that the rest of it is not escaped in vain.
        Value::String(text) => {
            let end = text.char_indices().nth(MOST_SHOWN).map_or(text.len(), |(at, _)| at);
            Value::from(&text[..end]).to_string()
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(MOST_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
