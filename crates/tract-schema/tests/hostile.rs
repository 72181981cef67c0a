//! Schemas that ask for more work than a machine can do: each check ends.

#![cfg(feature = "validate")]
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::time::Duration;

use serde_json::{Map, Value, json};
use tract_schema::{JsonSchema, SchemaCompiler, SchemaError, SchemaLimits, ValidateOptions};

/// A keyword that applies subschemas to the value itself, twice.
type Doubling = (&'static str, fn(Value) -> Value);

/// Every way in which a subschema can apply another one twice to the same value.
fn doublings() -> Vec<Doubling> {
    vec![
        ("allOf", |next| json!({"allOf": [next, next]})),
        ("anyOf", |next| json!({"anyOf": [next, next]})),
        ("oneOf", |next| json!({"oneOf": [next, next]})),
        ("if, then, else", |next| json!({"if": next, "then": next, "else": next})),
        ("if, then", |next| json!({"if": next, "then": next})),
        ("if, else", |next| json!({"if": next, "else": next})),
        ("a reference next to allOf", |next| with(&next, "allOf", json!([next]))),
        ("a reference next to anyOf", |next| with(&next, "anyOf", json!([next]))),
        ("a reference next to oneOf", |next| with(&next, "oneOf", json!([next]))),
        ("a reference next to then", |next| {
            with(&with(&next, "then", next.clone()), "if", json!({"not": {"const": "none"}}))
        }),
        ("a reference next to not", |next| with(&next, "not", json!({"not": next}))),
        ("a reference next to dependentSchemas", |next| {
            with(&next, "dependentSchemas", json!({"a": next}))
        }),
        ("$ref and $dynamicRef", both_references),
        ("anyOf and oneOf", |next| json!({"anyOf": [next], "oneOf": [next]})),
        ("not and $ref", |next| json!({"not": {"not": next}, "allOf": [next]})),
        (
            "dependentSchemas",
            |next| json!({"dependentSchemas": {"a": next, "b": next}, "anyOf": [next]}),
        ),
        ("dependencies", |next| json!({"dependencies": {"a": next, "b": next}})),
        ("anyOf within not", |next| json!({"not": {"anyOf": [{"not": next}, {"not": next}]}})),
        ("unevaluatedProperties", |next| json!({"allOf": [next], "unevaluatedProperties": next})),
        ("unevaluatedItems", |next| json!({"anyOf": [next], "unevaluatedItems": next})),
    ]
}

/// A schema with one more member.
fn with(schema: &Value, name: &str, value: Value) -> Value {
    let mut schema = schema.clone();
    schema.as_object_mut().unwrap().insert(name.to_owned(), value);
    schema
}

/// Refers to the next definition in both ways at once.
fn both_references(next: Value) -> Value {
    let target = next.as_object().unwrap().values().next().unwrap().as_str().unwrap();
    let number = target.trim_start_matches(|c: char| !c.is_ascii_digit());
    json!({"$ref": format!("#/$defs/d{number}"), "$dynamicRef": format!("#a{number}")})
}

/// Forty definitions, each of which applies the next one as `link` says.
fn chain(link: fn(Value) -> Value, refer: fn(usize) -> Value, leaf: &Value) -> Map<String, Value> {
    let anchored = |n: usize, mut schema: Value| {
        if let Some(members) = schema.as_object_mut() {
            members.insert("$dynamicAnchor".to_owned(), json!(format!("a{n}")));
        }
        (format!("d{n}"), schema)
    };
    let links = (0..40).map(|n| anchored(n, link(refer(n + 1))));
    links.chain([anchored(40, leaf.clone())]).collect()
}

fn by_reference(n: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{n}")})
}

fn by_dynamic_reference(n: usize) -> Value {
    json!({"$dynamicRef": format!("#a{n}")})
}

/// Checks arguments; returns the keyword of the refusal, if any, and the steps that the engine took.
fn checked(schema: &Value, arguments: &Value, limits: SchemaLimits) -> (Result<(), String>, u64) {
    let options = ValidateOptions { limits, ..ValidateOptions::default() };
    match JsonSchema.compile(&schema.to_string(), &options) {
        Ok(validator) => {
            let (result, steps) = validator.validate_counting(arguments);
            let keyword = |one: &tract_schema::Invalid| one.keyword.clone();
            (result.map_err(|all| all.first().map(keyword).unwrap_or_default()), steps)
        }
        Err(SchemaError::Limit(_)) => (Err("limit".to_owned()), 0),
        Err(error) => panic!("{error}"),
    }
}

fn outcome(schema: &Value, arguments: &Value, limits: SchemaLimits) -> Result<(), String> {
    checked(schema, arguments, limits).0
}

/// The most steps of one check: those of the limit to find out whether the value fits, four times as
/// many to say what is wrong, and each time the reads until a check that was stopped ends.
fn most_steps(limits: &SchemaLimits) -> u64 {
    const LATE: u64 = (1 << 14) + 1;
    5 * limits.steps + 2 * LATE
}

fn every_hostile_case(mut run: impl FnMut(&str, &Value, &Value)) {
    let leaves = [json!({"type": "string"}), json!({}), json!({"not": {}}), json!({"const": 7})];
    let refers: [fn(usize) -> Value; 2] = [by_reference, by_dynamic_reference];
    for (keyword, link) in doublings() {
        for leaf in &leaves {
            for refer in refers {
                let defs = chain(link, refer, leaf);
                let first = refer(0);
                let property = json!({"type": "object", "properties": {"x": first}, "$defs": defs});
                let items = json!({"type": "object", "properties": {"x": {"items": first}},
                    "$defs": defs});
                let any = json!({"type": "object", "additionalProperties": first, "$defs": defs});
                let names = json!({"type": "object", "propertyNames": first, "$defs": defs});
                let contained = json!({"type": "object", "properties": {"x": {"contains": first}},
                    "$defs": defs});
                for schema in [&property, &items, &any, &names, &contained] {
                    for arguments in
                        [json!({"x": 1}), json!({"x": {"a": 1, "b": 2}}), json!({"x": [1]})]
                    {
                        run(keyword, schema, &arguments);
                    }
                }
            }
        }
    }
}

/// Forty doublings are 10¹² applications: without a limit, none of these ends. What is not refused by
/// the estimate does little.
#[test]
fn a_doubling_schema_is_refused_before_it_runs() {
    let limits = SchemaLimits::default();
    let (mut refused, mut ran) = (0, 0);
    every_hostile_case(|keyword, schema, arguments| {
        let (outcome, steps) = checked(schema, arguments, limits);
        assert!(steps <= limits.work, "{steps} steps: {keyword} {arguments} {schema}");
        let is_stopped = outcome.as_ref().is_err_and(|code| matches!(&**code, "work" | "deadline"));
        assert!(!is_stopped, "{outcome:?}: {keyword} {arguments} {schema}");
        let is_refused = outcome.is_err_and(|code| matches!(&*code, "limit" | "depth"));
        if is_refused { refused += 1 } else { ran += 1 }
    });
    assert!(refused > ran, "{refused} refused, {ran} ran");
}

/// `unevaluatedProperties` and `unevaluatedItems` make the validator walk a schema while it compiles
/// it, so a chain of doublings must be refused before that, wherever it is applied.
#[test]
fn a_doubling_schema_is_refused_before_it_is_compiled() {
    let limits = SchemaLimits::default();
    let mut refused = 0;
    for (keyword, link) in doublings() {
        for refer in [by_reference as fn(usize) -> Value, by_dynamic_reference] {
            for covering in ["unevaluatedProperties", "unevaluatedItems"] {
                let mut defs = chain(link, refer, &json!({"type": "string"}));
                let first = with(&refer(0), covering, json!(false));
                let once = json!({"properties": {"x": first}, "$defs": defs});
                for schema in defs.values_mut() {
                    *schema = with(schema, covering, json!(false));
                }
                let each = json!({"properties": {"x": refer(0)}, "$defs": defs});
                for schema in [once, each] {
                    let (outcome, _) = checked(&schema, &json!({"x": 1}), limits);
                    let is_stopped =
                        outcome.as_ref().is_err_and(|code| matches!(&**code, "work" | "deadline"));
                    assert!(!is_stopped, "{outcome:?}: {keyword} {schema}");
                    refused += usize::from(outcome.is_err_and(|code| code == "limit"));
                }
            }
        }
    }
    assert!(refused > 50, "{refused} refused");
}

/// The estimate made before the run is not the only protection: the validator that runs stops too, after
/// as many steps as its limit allows.
#[test]
fn the_validator_stops_by_itself_where_no_estimate_does() {
    let limits = SchemaLimits {
        work: u64::MAX,
        steps: 20_000,
        // Steps alone stop it, on a machine of any speed.
        time: Duration::from_secs(3600),
        ..SchemaLimits::default()
    };
    let mut stopped = std::collections::BTreeMap::<String, usize>::new();
    every_hostile_case(|keyword, schema, arguments| {
        let (outcome, steps) = checked(schema, arguments, limits);
        let most = most_steps(&limits);
        assert!(steps <= most, "{steps} of {most} steps: {keyword} {arguments} {schema}");
        let count = stopped.entry(keyword.to_owned()).or_default();
        *count += usize::from(outcome.is_err_and(|code| code == "work"));
    });
    for (keyword, _) in doublings() {
        assert!(stopped[keyword] > 0, "{keyword} is stopped by its steps: {stopped:?}");
    }
}

#[test]
fn many_values_under_a_costly_schema_stop_by_steps_or_time() {
    // 2¹⁰ subschemas that read nothing are applied to each value.
    let leaf = json!({});
    let next = |n: usize| json!({"$ref": format!("#/$defs/d{n}")});
    let mut defs: Map<String, Value> =
        (0..10).map(|n| (format!("d{n}"), json!({"allOf": [next(n + 1), next(n + 1)]}))).collect();
    defs.insert("d10".to_owned(), leaf);
    let schema = json!({"type": "object", "properties": {"x": {"items": next(0)}}, "$defs": defs});
    let arguments = json!({"x": vec![1; 100_000]});
    let limits = SchemaLimits { time: Duration::from_secs(3), ..SchemaLimits::default() };
    let outcome = outcome(&schema, &arguments, limits);
    let stopped = outcome.as_ref().is_err_and(|code| matches!(code.as_str(), "work" | "deadline"));
    assert!(stopped, "{outcome:?}");
}

/// What is counted must not change what a schema accepts.
#[test]
fn counting_changes_no_result() {
    let schema = json!({
        "type": "object",
        "properties": {
            "anyOf": {"allOf": [{"minimum": 1}, {"maximum": 3}]},
            "type": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "const": {"const": {"allOf": [1, 2]}},
            "kind": {"enum": [{"anyOf": [1, 2]}, "plain"]},
            "size": {"if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"minimum": 0}}
        },
        "additionalProperties": false
    });
    let check = |arguments: Value| outcome(&schema, &arguments, SchemaLimits::default());
    for valid in [
        json!({"anyOf": 2, "type": null, "const": {"allOf": [1, 2]}, "kind": {"anyOf": [1, 2]}}),
        json!({"type": "a", "kind": "plain", "size": 20}),
        json!({"size": 3}),
    ] {
        assert_eq!(check(valid.clone()), Ok(()), "{valid}");
    }
    for invalid in [
        json!({"anyOf": 4}),
        json!({"type": 1}),
        json!({"const": {"allOf": [1, 2], "type": "x"}}),
        json!({"size": 11}),
        json!({"size": -1}),
        json!({"other": 1}),
    ] {
        assert!(check(invalid.clone()).is_err(), "{invalid}");
    }
}
