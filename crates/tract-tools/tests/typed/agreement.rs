//! What is advertised is what is parsed: random arguments get one verdict from the schema under
//! draft-07 and under 2020-12, from our own judge, and from the parser.
//!
//! Arguments are made from the schema itself and then bent, so that both verdicts are frequent.

use std::cell::Cell;

use jsonschema::{Draft, Validator};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tract_core::ToolParams;
use tract_tools::Args;
use tract_tools::typed::parse;

use crate::types;

fn validator(draft: Draft, schema: &Value) -> Validator {
    jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(false)
        .build(schema)
        .expect("a derived schema compiles")
}

/// Makes a value that fits a schema, with `choice` as the source of decisions.
fn fitting(root: &Value, schema: &Value, choice: &mut Choice) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").expect("references lead to $defs");
        return fitting(root, &root["$defs"][name], choice);
    }
    if let Some(branches) = schema["anyOf"].as_array() {
        // Deep recursion takes the last branch, which is null where there is one.
        let at = if choice.depth > 6 { branches.len() - 1 } else { choice.below(branches.len()) };
        return fitting(root, &branches[at], choice);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words[choice.below(words.len())].clone();
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            kinds[choice.below(kinds.len())].as_str().expect("types are texts").to_owned()
        }
        _ => return json!([1.5, {"x": null}]),
    };
    choice.depth += 1;
    let value = match kind.as_str() {
        "object" => {
            let mut object = Map::new();
            let required: Vec<&str> = schema["required"]
                .as_array()
                .map(|names| names.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            for (name, part) in schema["properties"].as_object().into_iter().flatten() {
                if required.contains(&name.as_str()) || (choice.depth < 6 && choice.below(2) == 0) {
                    object.insert(name.clone(), fitting(root, part, choice));
                }
            }
            if schema["additionalProperties"].is_object() && choice.below(2) == 0 {
                let part = &schema["additionalProperties"];
                object.insert("more".to_owned(), fitting(root, part, choice));
            }
            for part in schema["patternProperties"].as_object().into_iter().flatten() {
                object.insert("12".to_owned(), fitting(root, part.1, choice));
            }
            Value::Object(object)
        }
        "array" => {
            let first = schema["prefixItems"].as_array().cloned().unwrap_or_default();
            let mut items: Vec<Value> =
                first.iter().map(|part| fitting(root, part, choice)).collect();
            let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
            let more = if choice.depth > 6 { 0 } else { choice.below(3) };
            let most = schema["maxItems"].as_u64().map_or(usize::MAX, |most| most as usize);
            while items.len() < least.max(more).min(most) {
                items.push(fitting(root, &schema["items"], choice));
            }
            Value::Array(items)
        }
        "integer" => {
            let low = schema["minimum"].as_i64().unwrap_or(-5);
            match choice.below(4) {
                0 => schema["minimum"].clone(),
                1 => schema["maximum"].clone(),
                2 => json!((low.max(-5) + 7) as f64),
                _ => json!(low.max(-5) + choice.below(100) as i64),
            }
        }
        "number" => [json!(1), json!(-2.5), json!(1e300), json!(0.0)][choice.below(4)].clone(),
        "string" => json!(["é", "x", "0"][choice.below(3)]),
        "boolean" => json!(choice.below(2) == 0),
        "null" => Value::Null,
        other => panic!("a schema with type {other:?}"),
    };
    choice.depth -= 1;
    value
}

/// Bends a value at one place; what comes out may fit or not.
fn bend(value: &mut Value, choice: &mut Choice) {
    let inner = choice.below(4) > 0;
    match value {
        Value::Object(members) if inner && !members.is_empty() => {
            let at = choice.below(members.len());
            let part = members.values_mut().nth(at).expect("an index below the length");
            return bend(part, choice);
        }
        Value::Array(items) if inner && !items.is_empty() => {
            let at = choice.below(items.len());
            return bend(&mut items[at], choice);
        }
        _ => {}
    }
    let pool = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(300),
        json!(3.0),
        json!(2.5),
        json!(5_000_000_000_u64),
        json!(u64::MAX),
        json!(1.8446744073709552e19),
        json!(-9.3e18),
        json!("x"),
        json!("oldest_first"),
        json!("Unit"),
        json!({"Unit": null}),
        json!([]),
        json!([1, "x"]),
        json!([1, 1]),
        json!({}),
        json!({"x": 1.0}),
        json!({"op": "stop"}),
        json!({"op": "draw", "x": 1}),
    ];
    match (value, choice.below(5)) {
        (Value::Object(members), 0) => {
            members.insert("stray".to_owned(), json!(1));
        }
        (Value::Object(members), 1) if !members.is_empty() => {
            let at = choice.below(members.len());
            let key = members.keys().nth(at).expect("an index below the length").clone();
            members.remove(&key);
        }
        // A struct as a list of its fields: what parsers take and no schema says.
        (value @ Value::Object(_), 2) => {
            let members = value.as_object().expect("matched as an object");
            *value = Value::Array(members.values().cloned().collect());
        }
        (value, _) => *value = pool[choice.below(pool.len())].clone(),
    }
}

struct Choice {
    bytes: Vec<u8>,
    at: usize,
    depth: usize,
}

impl Choice {
    fn below(&mut self, end: usize) -> usize {
        self.at += 1;
        let byte = self.bytes[self.at % self.bytes.len()];
        (usize::from(byte) + self.at / self.bytes.len()) % end
    }
}

#[track_caller]
fn agree<T: DeserializeOwned + JsonSchema + Send + 'static>(same_in_drafts: bool) {
    let text = Args::<T>::schema();
    let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    let new = validator(Draft::Draft202012, &schema);
    let old = validator(Draft::Draft7, &schema);
    let (fits, refused) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new_with_rng(
        Config { failure_persistence: None, ..Config::with_cases(1500) },
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let strategy = (prop::collection::vec(any::<u8>(), 1..64), 0..3_usize);
    runner
        .run(&strategy, |(bytes, bends)| {
            let mut choice = Choice { bytes, at: 0, depth: 0 };
            let mut value = fitting(&schema, &schema, &mut choice);
            for _ in 0..bends {
                bend(&mut value, &mut choice);
            }
            let expected = new.is_valid(&value);
            let count = if expected { &fits } else { &refused };
            count.set(count.get() + 1);
            if same_in_drafts {
                prop_assert_eq!(old.is_valid(&value), expected, "draft-07: {}\n{}", value, &text);
            }
            let text_of_value = value.to_string();
            let parsed = parse::<T>(&text_of_value);
            // The bounds of 64 bits are judged and not said.
            if expected && parsed.is_err() && is_wide(&value) {
                return Ok(());
            }
            prop_assert_eq!(
                parsed.is_ok(),
                expected,
                "parsed: {} {:?}\n{}",
                value,
                parsed.err().map(|error| error.model_text()),
                &text
            );
            let through_serde = serde_json::from_str::<Args<T>>(&text_of_value);
            prop_assert_eq!(through_serde.is_ok(), expected, "serde: {}\n{}", value, &text);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{}: {error}", std::any::type_name::<T>()));
    let (fits, refused) = (fits.get(), refused.get());
    let name = std::any::type_name::<T>();
    assert!(fits > 100 && refused > 100, "{name}: {fits} fit, {refused} do not: too few of one");
}

/// Whether a value holds a number that 64 bits may not.
fn is_wide(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.as_f64().is_some_and(|number| number.abs() >= 2_f64.powi(63))
        }
        Value::Array(items) => items.iter().any(is_wide),
        Value::Object(members) => members.values().any(is_wide),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

#[test]
fn types_without_tuples_agree_in_both_drafts() {
    agree::<types::Numbers>(true);
    agree::<types::Nested>(true);
    agree::<types::Tree>(true);
    agree::<types::Forest>(true);
    agree::<types::Flat>(true);
    agree::<types::RestFields>(true);
}

#[test]
fn enums_of_every_kind() {
    // External has a variant that is a tuple.
    agree::<types::Enums>(false);
}

/// The one exception: draft-07 does not know `prefixItems`.
#[test]
fn tuples() {
    agree::<types::Tuples>(false);
    let schema: Value = serde_json::from_str(&Args::<types::Tuples>::schema()).expect("JSON");
    let swapped = json!({"pair": ["x", 1], "array": [1, 2]});
    assert!(validator(Draft::Draft7, &schema).is_valid(&swapped));
    assert!(!validator(Draft::Draft202012, &schema).is_valid(&swapped));
}

#[test]
fn types_of_our_own_derive() {
    agree::<types::Closed>(true);
    // The variant that fits is the one that is taken.
    let closed = parse::<types::Closed>(r#"{"inner":{"a":1,"b":2}}"#).expect("it fits");
    assert!(matches!(closed.inner, types::ClosedEnum::Two { a: 1, b: 2 }));
}
