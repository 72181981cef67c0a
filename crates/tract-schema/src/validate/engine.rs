//! The built-in validator, which wraps the `jsonschema` crate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions};
use serde_json::Value;

use super::describe::{self, FailureText};
use super::meter::{self, Allowance, Metered, MeteredJson, MeteredValue, Stop};
use super::pattern::{self, Patterns};
use super::{Invalid, SchemaCompiler, SchemaError, ValidateOptions, Validator};
use crate::limits::{self, LimitError, SchemaLimits};

/// Maximum size of one compiled pattern, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Maximum bytes of text that one error may contain. Beyond it, no errors are collected, because
/// every alternative in progress when the allowance runs out still creates one.
const MOST_HELD: u64 = 4 << 10;

/// Returns the violation that is reported if there is no more specific one.
fn unfit() -> Invalid {
    Invalid::new("schema", "/", "a value that fits", "one that does not")
}

/// Compiles schemas with the `jsonschema` crate. Patterns run in linear time, so look-around is not
/// supported. Nothing is fetched from the network or read from files. [`SchemaLimits`] bounds the
/// cost of the schema and of each check.
///
/// ```
/// use tract_schema::{JsonSchema, SchemaCompiler};
/// let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
/// let validator = JsonSchema.compile(schema, &Default::default())?;
/// let invalid = validator.validate(&serde_json::json!({"n": "7"})).unwrap_err();
/// assert_eq!(invalid[0].path, "/n");
/// assert_eq!(invalid[0].to_string(), r#"expected an integer, found the string "7""#);
/// # Ok::<(), tract_schema::SchemaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonSchema;

impl SchemaCompiler for JsonSchema {
    fn name(&self) -> &str {
        "jsonschema"
    }

    fn version(&self) -> &str {
        // The manifest pins this minor version; a test compares it with the lock file.
        "0.60"
    }

    fn compile(
        &self,
        schema: &str,
        options: &ValidateOptions,
    ) -> Result<Arc<dyn Validator>, SchemaError> {
        let limit = options.limits.bytes;
        if schema.len() > limit {
            return Err(LimitError::too_large("bytes", limit, schema.len()).into());
        }
        let mut value: Value = serde_json::from_str(schema)
            .map_err(|error| SchemaError::Json { message: error.to_string() })?;
        let (draft, notes) = draft(&mut value);
        let (measured, counted) = limits::measure_counting_branches(&value, &options.limits)?;
        let patterns = pattern::measure(&value, &options.limits)?;
        let engine = PatternOptions::regex()
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(patterns.cache_bytes());
        let build = jsonschema::options_for::<MeteredJson>()
            .with_draft(draft)
            .should_validate_formats(options.formats)
            .should_ignore_unknown_formats(true)
            .with_pattern_options(engine)
            .offline();
        // Schemas are untrusted: a bug in the crate must not take down the process.
        let built = catch_unwind(AssertUnwindSafe(|| build.build(&counted)));
        let inner = match built {
            Ok(Ok(inner)) => inner,
            Ok(Err(error)) => return Err(describe::schema(&error)),
            Err(_) => {
                let message = "the validator cannot run this schema".to_owned();
                return Err(SchemaError::Schema { path: "/".to_owned(), message });
            }
        };
        let texts = describe::longest_text(&value);
        let (schema, limits, depth) = (value, options.limits, measured.arguments_depth);
        Ok(Arc::new(Compiled { inner, schema, limits, patterns, texts, depth, notes }))
    }
}

/// Returns the draft. An unknown `$schema` is removed from the copy that is compiled.
fn draft(schema: &mut Value) -> (Draft, Vec<String>) {
    let Some(named) = schema.get("$schema").and_then(Value::as_str) else {
        return (Draft::Draft202012, Vec::new());
    };
    let bare = named.trim_end_matches('#').trim_start_matches("https://");
    let draft = match bare.trim_start_matches("http://") {
        "json-schema.org/draft-04/schema" => Draft::Draft4,
        "json-schema.org/draft-06/schema" => Draft::Draft6,
        "json-schema.org/draft-07/schema" => Draft::Draft7,
        "json-schema.org/draft/2019-09/schema" => Draft::Draft201909,
        "json-schema.org/draft/2020-12/schema" => Draft::Draft202012,
        _ => {
            let note = format!("unknown $schema {named:?}: read as Draft 2020-12");
            if let Some(members) = schema.as_object_mut() {
                members.remove("$schema");
            }
            return (Draft::Draft202012, vec![note]);
        }
    };
    (draft, Vec::new())
}

struct Compiled {
    inner: jsonschema::Validator<MeteredJson>,
    /// Needed to describe a violation by the keywords next to it.
    schema: Value,
    limits: SchemaLimits,
    patterns: Patterns,
    /// Size in bytes of the longest part of the schema that an error may copy.
    texts: u64,
    depth: Option<usize>,
    notes: Vec<String>,
}

impl Compiled {
    fn allowance(&self) -> Allowance {
        Allowance {
            steps: self.limits.steps,
            time: self.limits.time,
            pattern_states: self.patterns.states,
            errors: None,
        }
    }

    /// Checks a value. Returns the violations and the number of steps taken.
    fn check(&self, value: &Value) -> (Vec<Invalid>, u64) {
        let Metered { result: valid, stop, steps: taken } =
            meter::metered(self.allowance(), || self.inner.is_valid(MeteredValue::new(value)));
        match stop {
            None if valid == Some(true) => return (Vec::new(), taken),
            None => {}
            Some(stop) => return (vec![self.stopped(stop)], taken),
        }
        // An error contains the path to its value, which consists of the names on the way.
        let held = self.texts.saturating_add(describe::longest_path(value));
        if held > MOST_HELD {
            return (vec![unfit()], taken);
        }
        // Collecting errors evaluates each failing alternative a second time, also within other
        // alternatives, so it gets four times the steps.
        let steps = self.limits.steps.saturating_mul(4);
        let errors = Some((self.limits.error_bytes, held));
        let collecting = Allowance { steps, errors, ..self.allowance() };
        // Kept outside of the closure: the check may be aborted, and the errors found before are
        // valid.
        let mut errors = Vec::new();
        let collected = meter::metered(collecting, || {
            let found = self.inner.iter_errors(MeteredValue::new(value));
            // Drop errors created after the allowance ran out; they are meaningless.
            errors.extend(found.filter(meter::is_true));
        });
        let mut described = FailureText::new(value, &self.schema);
        errors.iter().for_each(|error| described.add(error));
        let mut invalid = described.out;
        if invalid.is_empty() {
            invalid.push(unfit());
        }
        (invalid, taken.saturating_add(collected.steps))
    }

    fn stopped(&self, stop: Stop) -> Invalid {
        let SchemaLimits { steps, time, .. } = self.limits;
        let (keyword, expected) = match stop {
            Stop::Steps | Stop::Bytes => {
                ("work", format!("arguments that take at most {steps} steps to check"))
            }
            Stop::Time => ("deadline", format!("arguments that are checked within {time:?}")),
        };
        Invalid::new(keyword, "/", expected, "some that take more with this schema")
    }
}

impl Validator for Compiled {
    fn validate(&self, value: &Value) -> Result<(), Vec<Invalid>> {
        self.validate_counting(value).0
    }

    fn validate_counting(&self, value: &Value) -> (Result<(), Vec<Invalid>>, u64) {
        if let Some(limit) = self.depth {
            let found = limits::depth(value);
            if found > limit {
                let expected = format!("at most {limit} levels, for this schema");
                return (Err(vec![Invalid::new("depth", "/", expected, format!("{found}"))]), 0);
            }
        }
        // As in `compile`. The crate documents patterns that make the regex engine panic.
        match catch_unwind(AssertUnwindSafe(|| self.check(value))) {
            Ok((invalid, steps)) if invalid.is_empty() => (Ok(()), steps),
            Ok((invalid, steps)) => (Err(invalid), steps),
            Err(_) => {
                let expected = "a value that the validator can check";
                (Err(vec![Invalid::new("validator", "/", expected, "one that it cannot")]), 0)
            }
        }
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../Cargo.lock");
        let (_, after) = lock.split_once("name = \"jsonschema\"\nversion = \"").unwrap();
        assert!(after.starts_with(&format!("{}.", JsonSchema.version())));
    }

    #[test]
    fn an_unknown_dialect_is_read_as_the_newest_and_said() {
        let schema = r#"{"$schema":"https://example.com/mine","type":"object","format":"email"}"#;
        let validator = JsonSchema.compile(schema, &ValidateOptions::default()).unwrap();
        assert!(validator.validate(&serde_json::json!({})).is_ok());
        assert!(validator.notes()[0].contains("https://example.com/mine"));
    }

    #[test]
    fn of_several_forms_the_nearest_is_what_is_said() {
        let schema = r#"{"anyOf":[{"type":"string"},{"type":"object","properties":{"kind":{"const":"a"},
            "n":{"type":"integer"}},"required":["kind","n"]},{"type":"object","properties":{"kind":{"const":"b"}}}]}"#;
        let validator = JsonSchema.compile(schema, &ValidateOptions::default()).unwrap();
        let message = |value: Value| {
            let invalid = validator.validate(&value).unwrap_err();
            invalid.iter().map(|i| format!("{} {i}", i.path)).collect::<Vec<_>>()
        };
        assert_eq!(
            message(serde_json::json!({"kind": "a", "n": "1"})),
            ["/n expected an integer, found the string \"1\""]
        );
        assert_eq!(
            message(serde_json::json!(7)),
            ["/ expected one of several forms (a string or an object), found the number 7"]
        );
    }
}
