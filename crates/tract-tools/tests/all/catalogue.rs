use std::collections::BTreeSet;

use serde_json::Value;
use tract_schema::Definition;
use tract_tools::{Call, Hydrated, Registry, Stage, hydrate};

use crate::support::{json, lines};

fn registry() -> Registry {
    let mut builder = Registry::builder().shared_names();
    for line in lines("toolcatalog/tools.jsonl") {
        let id = json(&line)["tool_id"].as_str().unwrap().to_owned();
        builder = builder.import(Some(id), Definition::parse(&line).unwrap(), None);
    }
    let registry = builder.build().unwrap();
    registry.compile_all().unwrap();
    registry
}

/// Hydrates the call of a line, once with its arguments as text and once as an object.
fn hydrated(registry: &Registry, line: &str) -> Hydrated {
    let row = json(line);
    let text = |key: &str| row[key].as_str().unwrap().to_owned();
    let call = |arguments: String| Call {
        tool_id: Some(text("tool_id")),
        ..Call::new(text("id"), text("name"), arguments)
    };
    let mut calls = vec![call(text("arguments_json"))];
    if row["arguments"].is_object() {
        calls.push(call(row["arguments"].to_string()));
    }
    let mut found = hydrate(&calls[..], registry);
    let first = found.remove(0);
    for again in found {
        assert_eq!(again.errors, first.errors, "{line}");
    }
    first
}

/// `type:/place: …` as keyword and path.
fn recorded(row: &Value) -> BTreeSet<(String, String)> {
    let errors = row["jsonschema_errors"].as_array().unwrap().iter();
    let split = |error: &Value| {
        let text = error.as_str().unwrap().to_owned();
        let (keyword, rest) = text.split_once(':').unwrap();
        let (path, _) = rest.split_once(": ").unwrap();
        (keyword.to_owned(), path.to_owned())
    };
    errors.map(split).collect()
}

#[track_caller]
fn check(registry: &Registry, line: &str) {
    let row = json(line);
    let one = hydrated(registry, line);
    assert_eq!(one.provenance.raw_arguments.as_ref(), row["arguments_json"].as_str().unwrap());
    match row["jsonschema_valid"].as_bool() {
        None => {
            assert!(!one.success() && one.errors.iter().all(|e| e.stage == Stage::Parse), "{line}");
        }
        Some(valid) => {
            assert_eq!(one.success(), valid, "{line}\n{:?}", one.errors);
            if valid {
                assert_eq!(json(one.arguments.as_ref().unwrap().as_str()), row["arguments"]);
                assert!(one.is_trusted());
                return;
            }
            assert!(one.errors.iter().all(|e| e.stage == Stage::Validate), "{line}");
            let found: BTreeSet<(String, String)> =
                one.errors.iter().map(|e| (e.code.clone(), e.path.clone())).collect();
            assert_eq!(found, recorded(&row), "{line}");
        }
    }
}

#[test]
fn every_recorded_or_broken_call_gets_the_recorded_verdict_with_the_failing_path() {
    let registry = registry();
    for file in ["toolcatalog/hydration.jsonl", "toolcatalog/hydration_negative.jsonl"] {
        let recorded = lines(file);
        assert!(recorded.len() >= 10, "{file}");
        recorded.iter().for_each(|line| check(&registry, line));
    }
}

#[test]
fn the_tolerant_profile_repairs_broken_text_or_gives_a_reason() {
    let registry = registry();
    let options =
        tract_tools::HydrateOptions { tolerant: true, ..tract_tools::HydrateOptions::default() };
    let (mut mended, mut given_up) = (0, 0);
    for line in lines("toolcatalog/hydration_negative.jsonl") {
        let row = json(&line);
        if row["mutation"] != "malformed_json" {
            continue;
        }
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        let call = Call {
            tool_id: Some(text("tool_id")),
            ..Call::new("c", text("name"), text("arguments_json"))
        };
        let one = tract_tools::hydrate_with(call, &registry, &options).remove(0);
        if one.success() {
            mended += 1;
            assert!(!one.provenance.edits.is_empty(), "{line}");
        } else {
            given_up += 1
        }
    }
    println!("{mended} mended, {given_up} given up");
    assert!(mended > 0);
}

#[test]
fn tools_of_one_name_are_distinguished_by_id_only() {
    let registry = registry();
    let names: Vec<&str> = registry.iter().map(|tool| tool.name()).collect();
    let twice: &str =
        names.iter().find(|name| names.iter().filter(|n| n == name).count() > 1).unwrap();
    let ids: Vec<&str> =
        registry.iter().filter(|t| t.name() == twice).map(|tool| tool.id()).collect();
    let one = hydrate(Call::new("c", twice, "{}"), &registry).remove(0);
    let error = &one.errors[0];
    assert_eq!((error.stage, error.code.as_str()), (Stage::Lookup, "ambiguous_tool"));
    assert!(ids.iter().all(|id| error.message.contains(id)), "{error}");
}
