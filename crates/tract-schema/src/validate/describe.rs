//! Describes violations in words that a model can act on.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;
use tract_core::nearest;

use super::{Invalid, SchemaError};
use crate::definition::kind as kind_of;
use crate::derive::article;

/// Maximum number of characters of a value in a message.
const SHOWN: usize = 60;

/// Maximum number of choices in a message.
const LISTED: usize = 12;

/// Maximum number of violations described per value.
const MOST: usize = 32;

/// Maximum number of names compared to find the one that was meant.
const COMPARED: usize = 200;

pub(super) fn schema(error: &ValidationError<'_>) -> SchemaError {
    let path = path_of(error);
    let instance: &Value = error.instance();
    let message = match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => {
            format!("expected a regex that runs in linear time, found {}", shown(instance))
        }
        ValidationErrorKind::Referencing(referencing) => capped(referencing),
        _ => {
            let mut described = FailureText::new(&Value::Null, &Value::Null);
            described.add_of(error, instance);
            described.out.first().map_or_else(|| capped(error), Invalid::to_string)
        }
    };
    SchemaError::Schema { path, message }
}

/// Returns the size in bytes of the longest part of a schema that an error may copy.
pub(super) fn longest_text(schema: &Value) -> u64 {
    fn walk(value: &Value, longest: &mut usize) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(|item| 16 + walk(item, longest)).sum(),
            Value::Object(members) => {
                let mut sum = 0;
                for (key, member) in members {
                    let size = walk(member, longest);
                    match (key.as_str(), member) {
                        ("not" | "pattern" | "format", _) => *longest = size.max(*longest),
                        ("required", Value::Array(names)) => {
                            let names = names.iter().filter_map(Value::as_str).map(str::len);
                            *longest = names.max().unwrap_or(0).max(*longest);
                        }
                        _ => {}
                    }
                    sum += 48 + key.len() + size;
                }
                sum
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }
    let mut longest = 0;
    walk(schema, &mut longest);
    u64::try_from(longest).unwrap_or(u64::MAX)
}

/// Returns the length in bytes of the longest path to a value.
pub(super) fn longest_path(value: &Value) -> u64 {
    let length = |key: &str| u64::try_from(key.len()).unwrap_or(u64::MAX);
    match value {
        Value::Array(items) => items.iter().map(|item| 8 + longest_path(item)).max().unwrap_or(0),
        Value::Object(members) => {
            let below = members.iter().map(|(key, value)| 1 + length(key) + longest_path(value));
            below.max().unwrap_or(0)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Describes the violations of arguments one by one, up to the limit.
pub(super) struct FailureText<'a> {
    arguments: &'a Value,
    schema: &'a Value,
    pub(super) out: Vec<Invalid>,
}

fn path_of(error: &ValidationError<'_>) -> String {
    match error.instance_path().as_str() {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

impl<'a> FailureText<'a> {
    pub(super) fn new(arguments: &'a Value, schema: &'a Value) -> Self {
        Self { arguments, schema, out: Vec::new() }
    }

    /// Adds the description of an error; for `anyOf` and `oneOf`, those of the closest branch.
    pub(super) fn add(&mut self, error: &ValidationError<'_>) {
        // Errors do not contain the value, only its path.
        let found = self.arguments.pointer(error.instance_path().as_str());
        self.add_of(error, found.unwrap_or(&Value::Null));
    }

    fn add_of(&mut self, error: &ValidationError<'_>, instance: &Value) {
        if self.out.len() >= MOST {
            return;
        }
        let path = path_of(error);
        let kind = error.kind();
        let mut nearest_name = None;
        // Defaults to the value itself.
        let mut found = None;
        let mut sized = |bound: &str, limit: &dyn fmt::Display, of: &str| {
            found = Some(size(instance));
            format!("{bound} {limit} {of}")
        };
        let expected = match kind {
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => {
                if let Some(branch) = best(context, error.instance_path().as_str()) {
                    let before = self.out.len();
                    for inner in branch {
                        self.add(inner);
                    }
                    if self.out.len() > before {
                        return;
                    }
                }
                "one of several forms".to_owned() + &branch_types(context)
            }
            ValidationErrorKind::Type { kind } => type_names(kind),
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let keys = keys(instance);
                found = Some(match nearest(name, keys.iter().copied().take(COMPARED)) {
                    // The model has to rename the similar key.
                    Some(near) => format!("{near:?}, which is no name for it"),
                    None if keys.is_empty() => "no properties".to_owned(),
                    None => format!("only {}", quoted(&keys)),
                });
                format!("the property {:?}", capped(&name))
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let known = known_properties(error, self.schema);
                if let [only] = unexpected.as_slice() {
                    nearest_name =
                        nearest(only, known.iter().copied().take(COMPARED)).map(str::to_owned);
                }
                found = Some(quoted(unexpected));
                if known.is_empty() {
                    "no other properties".to_owned()
                } else {
                    format!("only {}", quoted(&known))
                }
            }
            ValidationErrorKind::Enum { options } => {
                let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
                if let Some(text) = instance.as_str() {
                    let texts = options.iter().filter_map(Value::as_str).take(COMPARED);
                    nearest_name = nearest(text, texts).map(str::to_owned);
                }
                format!("one of {}", listed(options.iter().map(plain)))
            }
            ValidationErrorKind::Constant { expected_value } => plain(expected_value),
            ValidationErrorKind::Maximum { limit } => format!("at most {limit}"),
            ValidationErrorKind::Minimum { limit } => format!("at least {limit}"),
            ValidationErrorKind::ExclusiveMaximum { limit } => format!("less than {limit}"),
            ValidationErrorKind::ExclusiveMinimum { limit } => format!("more than {limit}"),
            ValidationErrorKind::MultipleOf { multiple_of } => {
                format!("a multiple of {multiple_of}")
            }
            ValidationErrorKind::MaxItems { limit } => sized("at most", limit, "items"),
            ValidationErrorKind::MinItems { limit } => sized("at least", limit, "items"),
            ValidationErrorKind::MaxLength { limit } => sized("at most", limit, "characters"),
            ValidationErrorKind::MinLength { limit } => sized("at least", limit, "characters"),
            ValidationErrorKind::MaxProperties { limit } => sized("at most", limit, "properties"),
            ValidationErrorKind::MinProperties { limit } => sized("at least", limit, "properties"),
            ValidationErrorKind::Pattern { pattern } => {
                format!("a string that matches {}", capped(pattern))
            }
            ValidationErrorKind::Format { format } => {
                format!("a string in the format {:?}", capped(format))
            }
            ValidationErrorKind::UniqueItems => "items that differ".to_owned(),
            ValidationErrorKind::AdditionalItems { limit } => sized("at most", limit, "items"),
            ValidationErrorKind::UnevaluatedItems { unexpected } => {
                found = Some(listed(unexpected.iter().map(|item| capped(item))));
                "no more items".to_owned()
            }
            ValidationErrorKind::Contains => "an item that fits".to_owned(),
            ValidationErrorKind::FalseSchema => "nothing here".to_owned(),
            ValidationErrorKind::OneOfMultipleValid { .. } => {
                found = Some(format!("{}, which is more than one", shown(instance)));
                "exactly one of several forms".to_owned()
            }
            ValidationErrorKind::Not { schema } => {
                format!("something else than {}", capped(schema))
            }
            ValidationErrorKind::PropertyNames { error } => {
                format!("other names of properties ({})", capped(error))
            }
            other => format!("a value that fits {:?}", other.keyword()),
        };
        let found = found.unwrap_or_else(|| shown(instance));
        let mut invalid = Invalid::new(kind.keyword(), path, expected, found);
        if let ValidationErrorKind::Type { kind } = kind {
            invalid.types = types(kind);
        }
        invalid.nearest = nearest_name;
        self.out.push(invalid);
    }
}

/// Returns the closest branch. Branches that accept the type of the value come first, then those
/// that accept its constants, then those with the fewest errors.
fn best<'c>(
    branches: &'c [Vec<ValidationError<'static>>],
    path: &str,
) -> Option<&'c [ValidationError<'static>]> {
    let rank = |branch: &&Vec<ValidationError<'static>>| {
        let here = |error: &&ValidationError<'static>| error.instance_path().as_str() == path;
        let wrong_type = branch
            .iter()
            .filter(here)
            .filter(|error| matches!(error.kind(), ValidationErrorKind::Type { .. }))
            .count();
        let wrong_value = branch.iter().filter(|error| {
            matches!(
                error.kind(),
                ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. }
            )
        });
        (wrong_type, wrong_value.count(), branch.len())
    };
    let ranked: Vec<_> = branches.iter().map(|branch| rank(&branch)).collect();
    let all_of_wrong_type = ranked.iter().all(|(wrong_type, _, _)| *wrong_type > 0);
    if branches.len() > 1 && all_of_wrong_type {
        return None; // said in one line: the types that would do
    }
    branches.iter().min_by_key(rank).map(Vec::as_slice)
}

fn branch_types(branches: &[Vec<ValidationError<'static>>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for error in branches.iter().flatten() {
        if let ValidationErrorKind::Type { kind } = error.kind() {
            let name = type_names(kind);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(" or ")) }
}

/// Returns the property names of the schema whose keyword is violated.
fn known_properties<'s>(error: &ValidationError<'_>, schema: &'s Value) -> Vec<&'s str> {
    let place = error.schema_path().as_str();
    let parent = place.rsplit_once('/').and_then(|(parent, _)| schema.pointer(parent));
    parent.and_then(|parent| parent.get("properties")).map(keys).unwrap_or_default()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

fn types(kind: &TypeKind) -> Vec<&'static str> {
    match kind {
        TypeKind::Single(kind) => vec![kind.as_str()],
        TypeKind::Multiple(kinds) => kinds.iter().map(JsonType::as_str).collect(),
    }
}

fn type_names(kind: &TypeKind) -> String {
    types(kind).into_iter().map(article).collect::<Vec<_>>().join(" or ")
}

fn shown(value: &Value) -> String {
    match kind_of(value).split_once(' ') {
        Some((_, kind)) => format!("the {kind} {}", plain(value)),
        None => "null".to_owned(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        // Cut a long text before formatting it.
        Value::String(text) => format!("{:?}", capped(text)),
        value => capped(value),
    }
}

/// Formats the start of a value, up to the limit. The rest is never produced.
fn capped(value: &dyn fmt::Display) -> String {
    struct Cap(String, usize);
    impl fmt::Write for Cap {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for c in text.chars() {
                if self.1 == SHOWN {
                    self.0.push('…');
                    return Err(fmt::Error);
                }
                self.0.push(c);
                self.1 += 1;
            }
            Ok(())
        }
    }
    let mut cap = Cap(String::new(), 0);
    // Fails if the text was cut, which is not an error.
    let _ = fmt::Write::write_fmt(&mut cap, format_args!("{value}"));
    cap.0
}

fn size(value: &Value) -> String {
    match value {
        Value::Array(items) => items.len().to_string(),
        Value::Object(members) => members.len().to_string(),
        Value::String(text) => text.chars().count().to_string(),
        value => shown(value),
    }
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    listed(names.iter().map(|name| format!("{:?}", capped(&name.as_ref()))))
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let count = names.len();
    let mut out = names.take(LISTED).collect::<Vec<_>>().join(", ");
    if count > LISTED {
        out.push_str(&format!(" and {} more", count - LISTED));
    }
    out
}
