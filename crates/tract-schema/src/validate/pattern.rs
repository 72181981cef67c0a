//! Measures the patterns of a schema before the validator compiles any of them.

use std::collections::HashSet;

use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use serde_json::Value;

use crate::limits::{LimitError, SchemaLimits};

/// Maximum number of escapes such as `\cA` in all patterns. The translation scans the pattern again
/// for each of them.
const MOST_CONTROL_ESCAPES: usize = 100;

/// Size in bytes of the matching caches of all patterns together.
const CACHE_BYTES: usize = 16 << 20;

/// The measurements of a schema's patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Patterns {
    /// Number of distinct patterns.
    pub(super) count: usize,
    /// Number of states of the largest pattern.
    pub(super) states: u64,
}

impl Patterns {
    /// Returns the cache size for each pattern, in bytes.
    pub(super) fn cache_bytes(&self) -> usize {
        CACHE_BYTES / self.count.max(8)
    }
}

/// Measures the patterns of a schema, each distinct text once.
///
/// # Errors
/// [`LimitError`] if their texts, or their compiled forms, exceed a limit. Invalid patterns only
/// count by their texts; the validator rejects them later.
pub(super) fn measure(schema: &Value, limits: &SchemaLimits) -> Result<Patterns, LimitError> {
    let mut texts = HashSet::new();
    collect(schema, &mut texts);
    let too_large = |what, limit, found| Err(LimitError::too_large(what, limit, found));
    let length = texts.iter().map(|text| text.len()).sum::<usize>();
    if length > limits.pattern_text {
        return too_large("bytes of patterns", limits.pattern_text, length);
    }
    let escapes = texts.iter().map(|text| text.matches("\\c").count()).sum::<usize>();
    if escapes > MOST_CONTROL_ESCAPES {
        return too_large("control escapes in patterns", MOST_CONTROL_ESCAPES, escapes);
    }
    let mut left = limits.pattern_bytes;
    let mut states = 0;
    for text in &texts {
        let Ok(translated) = jsonschema_regex::to_rust_regex(text) else { continue };
        let config = thompson::Config::new()
            .nfa_size_limit(Some(left))
            .which_captures(WhichCaptures::Implicit);
        match NFA::compiler().configure(config).build(&translated) {
            Ok(nfa) => {
                left = left.saturating_sub(nfa.memory_usage());
                states = states.max(nfa.states().len());
            }
            Err(error) if error.size_limit().is_some() => {
                let limit = limits.pattern_bytes;
                return too_large("bytes of compiled patterns", limit, limit + 1);
            }
            Err(_) => {}
        }
    }
    Ok(Patterns { count: texts.len(), states: u64::try_from(states).unwrap_or(u64::MAX) })
}

/// Collects all texts that may be patterns. Includes those within examples, which costs little and
/// misses none.
fn collect<'a>(schema: &'a Value, texts: &mut HashSet<&'a str>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("pattern", Value::String(text)) => {
                        texts.insert(text);
                    }
                    ("patternProperties", Value::Object(named)) => {
                        texts.extend(named.keys().map(String::as_str));
                        named.values().for_each(|schema| collect(schema, texts));
                    }
                    (_, value) => collect(value, texts),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|schema| collect(schema, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_are_measured_wherever_they_are() {
        let schema = json!({"properties": {"a": {"pattern": "^a+$"}, "b": {"pattern": "^a+$"}},
            "patternProperties": {"^x-": {"items": {"pattern": "[0-9]{4}"}}}});
        let patterns = measure(&schema, &SchemaLimits::default()).unwrap();
        assert_eq!(patterns.count, 3);
        assert!((4..100).contains(&patterns.states), "{}", patterns.states);
    }

    #[test]
    fn compiled_patterns_are_bounded_in_total() {
        let many = |count: usize| {
            let patterns: Vec<_> =
                (0..count).map(|n| json!({"pattern": format!(".{{200}}{n}")})).collect();
            measure(&json!({"allOf": patterns}), &SchemaLimits::default())
        };
        assert!(many(2).is_ok());
        let refused = many(1_000).unwrap_err().to_string();
        assert!(refused.contains("bytes of compiled patterns"), "{refused}");
    }
}
