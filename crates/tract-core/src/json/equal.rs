//! Compares JSON texts by value, without canonical copies of large ones.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Escapes, JsonError, canonical, check, split_array, split_object, string};

/// Maximum size, in bytes, of texts that are compared by their canonical forms.
const SMALL_BYTES: usize = 64 << 10;

/// Number of nesting levels of a large text that are compared member by member. Each level is one
/// more pass, so deeper ones are compared by their canonical forms.
const LEVELS: usize = 8;

pub(super) fn equal(a: &str, b: &str) -> Result<bool, JsonError> {
    if a.len() <= SMALL_BYTES && b.len() <= SMALL_BYTES {
        return by_form(a, b);
    }
    check(a)?;
    check(b)?;
    same(a.trim_ascii(), b.trim_ascii(), LEVELS)
}

fn by_form(a: &str, b: &str) -> Result<bool, JsonError> {
    Ok(canonical(a, Escapes::Raw)? == canonical(b, Escapes::Raw)?)
}

/// Compares two values that are known to be valid.
fn same(a: &str, b: &str, levels: usize) -> Result<bool, JsonError> {
    if a == b {
        return Ok(true);
    }
    let is_large = a.len() > SMALL_BYTES && b.len() > SMALL_BYTES;
    match (a.as_bytes().first(), b.as_bytes().first()) {
        (Some(b'"'), Some(b'"')) => Ok(string::compare(a, b) == Ordering::Equal),
        (Some(b'{'), Some(b'{')) if is_large && levels > 0 => {
            // Of equal keys the last one wins.
            let a: BTreeMap<String, &str> = split_object(a)?.into_iter().collect();
            let b: BTreeMap<String, &str> = split_object(b)?.into_iter().collect();
            a.iter().zip(&b).try_fold(a.len() == b.len(), |equal, ((one, a), (other, b))| {
                Ok(equal && one == other && same(a, b, levels - 1)?)
            })
        }
        (Some(b'['), Some(b'[')) if is_large && levels > 0 => {
            let (a, b) = (split_array(a)?, split_array(b)?);
            a.iter()
                .zip(&b)
                .try_fold(a.len() == b.len(), |equal, (a, b)| Ok(equal && same(a, b, levels - 1)?))
        }
        // Values of different types differ: do not create the canonical form of a large one.
        (Some(one), Some(other)) if one != other && opens(one, other) => Ok(false),
        _ => by_form(a, b),
    }
}

/// Returns whether one of two values is a string, an array or an object.
fn opens(one: &u8, other: &u8) -> bool {
    [one, other].into_iter().any(|byte| matches!(byte, b'"' | b'[' | b'{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_texts_are_equal_when_their_canonical_forms_are() {
        let long = "x".repeat(SMALL_BYTES + 1);
        let values = [
            format!(r#"{{"b":"{long}","a":[1,{{"c":"\u0061"}}]}}"#),
            format!(r#" {{"a": [1, {{"c": "a"}}], "b": "{long}"}} "#),
            format!(r#"{{"b":0,"a":[1,{{"c":"a"}}],"b":"\u0078{}"}}"#, &long[1..]),
            format!(r#"{{"a":[1.0,{{"c":"a"}}],"b":"{long}"}}"#),
            format!(r#"{{"a":[1,{{"c":"a"}}],"b":"{long}","d":null}}"#),
            format!(r#"["{long}"]"#),
            format!(r#"["{long}",1]"#),
            format!(r#""{long}""#),
            "1".to_owned(),
        ];
        for a in &values {
            for b in &values {
                assert_eq!(equal(a, b), by_form(a, b), "{} {}", &a[..9.min(a.len())], b.len());
            }
        }
        assert!(equal(&values[0], &values[1]).unwrap() && equal(&values[0], &values[2]).unwrap());
        assert!(equal(&values[0], &format!("{}x", values[0])).is_err());
    }
}
