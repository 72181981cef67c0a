use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tract_core::{RequestMap, RequestTool, block_on};
use tract_schema::{
    Definition, Dialect, JsonSchema, SchemaCompiler, SchemaLimits, ValidateOptions,
};
use tract_tools::{
    Call, HydrateOptions, Registry, hydrate, hydrate_repairing, hydrate_with, sent_in,
};

use crate::support::Mend;

fn options() -> HydrateOptions {
    HydrateOptions { tolerant: true, coercion: true, ..HydrateOptions::default() }
}

fn registry(limits: SchemaLimits) -> Registry {
    Registry::builder()
        .options(ValidateOptions { limits, ..ValidateOptions::default() })
        .definition(
            r##"{"name":"f","parameters":{"type":"object","properties":{"s":{"type":"string","pattern":"^(a|a)*$"},
            "n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":["object","null"],"properties":{"n":{"$ref":"#/$defs/n"}}}}}}"##,
        )
        .build()
        .unwrap()
}

fn hydrate_text(text: String) -> tract_tools::Hydrated {
    let registry = registry(SchemaLimits::default());
    hydrate_with(Call::new("c", "f", text), &registry, &options()).remove(0)
}

#[test]
fn patterns_run_in_linear_time() {
    // 2³⁰⁰⁰⁰ steps for an engine that tries every way.
    let text = format!(r#"{{"s":"{}b"}}"#, "a".repeat(30_000));
    assert_eq!(hydrate_text(text).errors[0].code, "pattern");
}

#[test]
fn ten_thousand_levels_are_an_error() {
    for (open, close) in [("[", "]"), ("{\"n\":", "}")] {
        let text = open.repeat(10_000) + &close.repeat(10_000);
        assert_eq!(hydrate_text(text).errors[0].code, "too_deep");
        assert!(!hydrate_text(open.repeat(200_000)).success());
        let schema = format!(
            r#"{{"name":"a","parameters":{}1{}}}"#,
            open.repeat(10_000),
            close.repeat(10_000)
        );
        assert!(Definition::parse(&schema).is_err());
    }
}

/// A schema of references, each in the one before.
fn chain(n: usize) -> String {
    let next = |k: usize| json!({"$ref": format!("#/$defs/d{}", k + 1)});
    let one = |k: usize| (format!("d{k}"), json!({"properties": {"x": {"allOf": [next(k)]}}}));
    let mut defs: Map<String, Value> = (0..n).map(one).collect();
    defs.insert(format!("d{n}"), json!({}));
    json!({"type": "object", "$defs": defs, "$ref": "#/$defs/d0"}).to_string()
}

#[test]
fn deep_schemas_and_arguments_run_on_a_small_stack() {
    let work = move || {
        let (mut taken, mut refused) = (0, 0);
        for n in [10, 100, 150, 1000, 5000] {
            match JsonSchema.compile(&chain(n), &ValidateOptions::default()) {
                Ok(validator) => {
                    taken += 1;
                    let deep = r#"{"x":"#.repeat(100) + "1" + &"}".repeat(100);
                    assert!(validator.validate(&serde_json::from_str(&deep).unwrap()).is_ok());
                }
                Err(_) => refused += 1,
            }
        }
        assert!(taken >= 2 && refused >= 1, "{taken} {refused}");
    };
    // What a worker of an async runtime has.
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn a_hundred_megabytes_are_an_error() {
    let size = match std::env::var_os("TRACT_SCALE") {
        Some(_) => 100 << 20,
        None => {
            println!("TRACT_SCALE is not set: 20 MiB rather than 100");
            20 << 20
        }
    };
    let text = format!(r#"{{"s":"{}b"}}"#, "a".repeat(size));
    assert_eq!(hydrate_text(text.clone()).errors[0].code, "too_large");
    assert!(Definition::parse(&text).is_err());
    assert!(JsonSchema.compile(&text, &ValidateOptions::default()).is_err());
    // A host that allows that much gets an answer, too.
    let allowed = HydrateOptions { arguments_bytes: usize::MAX, ..options() };
    let limits = SchemaLimits { steps: 1 << 30, ..SchemaLimits::default() };
    let registry_of_more = registry(limits);
    let one = |text: String| {
        hydrate_with(Call::new("c", "f", text), &registry_of_more, &allowed).remove(0)
    };
    let held = one(text.clone());
    assert_eq!(held.errors[0].code, "pattern");
    assert!(held.errors[0].message.len() < 1000, "what is said is short");
    for nearly in ["[", "{'a':", "'", "```\n", "[1,]", "a "] {
        let one = one(nearly.repeat(size / nearly.len()));
        assert!(!one.success() && one.provenance.edits.len() <= 1000, "{nearly}");
    }
    // What a repair gives is held to the same limits.
    let call = Call::new("c", "f", "{");
    let flood = Mend::new(text);
    let registry = registry(SchemaLimits::default());
    let repaired = block_on(hydrate_repairing(call, &registry, &HydrateOptions::default(), &flood));
    let failed = &repaired[0];
    assert!(!failed.success() && !failed.provenance.repaired);
    assert!(failed.provenance.repair.as_ref().unwrap().failure.is_some());
}

#[test]
fn reading_null_as_absent_is_bounded_for_any_schema_and_arguments() {
    let registry = Registry::builder()
        .definition(
            r##"{"name":"f","parameters":{"type":"object","properties":{"x":{"$ref":"#/$defs/x"}},
            "$defs":{"x":{"type":"array","items":{"$ref":"#/$defs/y"}},"y":{"anyOf":[{"type":"object",
            "properties":{"n":{"type":"integer"},"x":{"$ref":"#/$defs/x"}}},{"type":"string"}]}}}}"##,
        )
        .build()
        .unwrap();
    let tool = registry.iter().next().unwrap().definition().id();
    let map: RequestMap =
        [RequestTool { strict: true, null_for_absent: true, ..RequestTool::new("f", "f", tool) }]
            .into_iter()
            .collect();
    let call = |text: String| sent_in(vec![Call::new("c", "f", text)], &map);
    let many = format!(r#"{{"x":[{}{{}}]}}"#, r#"{"n":null,"x":[]},"#.repeat(20_000));
    let one = hydrate(call(many), &registry).remove(0);
    assert!(one.success(), "{:?}", one.errors);
    assert!(!one.arguments.as_ref().unwrap().as_str().contains("null"));
    assert_eq!(one.provenance.edits.len(), 1001);
    assert_eq!(one.provenance.edits[1000].before, "19000 more");
    let deep = r#"{"x":["#.repeat(60) + r#"{"n":null}"# + &"]}".repeat(60);
    let one = hydrate(call(deep), &registry).remove(0);
    assert_eq!(one.provenance.edits.len(), 1, "{:?}", one.errors);
    // References that lead round, and chains of them, end.
    for schema in [
        r##"{"type":"object","properties":{"x":{"$ref":"#/properties/x"}}}"##.to_owned(),
        chain(5_000),
    ] {
        assert!(tract_schema::raise(&schema, r#"{"x":{"x":null}}"#).is_ok());
        for provider in [Dialect::OpenAi, Dialect::Anthropic] {
            assert!(tract_schema::to_strict(&schema, provider).is_ok());
        }
    }
}

/// Text that looks like arguments, or nearly.
fn nearly_json() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[{}\\[\\]:,'\"`\\\\ \n]{1,4}",
        Just("{'s': 'a'".to_owned()),
        Just("\"n\": {".to_owned()),
        Just("```json\n".to_owned()),
        Just("True".to_owned()),
        "[a-z0-9é€😀.+-]{0,6}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A schema of random keywords, references and doublings among them.
fn schema() -> impl Strategy<Value = Value> {
    let reference = prop_oneof![
        Just("#"),
        Just("#/$defs/a"),
        Just("#/$defs/b"),
        Just("#a"),
        Just("http://x.test/y"),
        Just("#/%24defs/a"),
        Just("b"),
    ];
    let leaf = prop_oneof![
        reference.prop_map(|r| json!({"$ref": r})),
        Just(json!(true)),
        Just(json!({"type": "string", "pattern": "^(a|a)*$"})),
        Just(json!({"type": ["integer", "null"], "minimum": 1})),
        any::<String>().prop_map(|text| json!({"pattern": text})),
        Just(json!({"$anchor": "a", "enum": []})),
        Just(json!(7)),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            (prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]), list)
                .prop_map(|(key, list)| json!({key: list})),
            (
                prop::sample::select(vec![
                    "not",
                    "items",
                    "additionalProperties",
                    "if",
                    "contains",
                    "unevaluatedProperties",
                    "propertyNames"
                ]),
                inner.clone()
            )
                .prop_map(|(key, one)| json!({key: one})),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"properties": {"s": a, "n": b}})),
            (inner.clone(), inner)
                .prop_map(|(a, b)| json!({"$id": "b", "$defs": {"a": a, "b": b}})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_parser_and_its_mending_take_any_text(text in nearly_json()) {
        let one = hydrate_text(text.clone());
        prop_assert_eq!(one.provenance.raw_arguments.as_ref(), text.as_str());
        if let Some(arguments) = &one.arguments {
            prop_assert!(serde_json::from_str::<Value>(arguments.as_str()).is_ok());
        } else {
            prop_assert!(!one.errors.is_empty());
        }
        prop_assert!(one.provenance.to_json().is_ok());
    }

    #[test]
    fn any_schema_is_imported_or_refused(
        schema in schema(),
        value in prop_oneof![
            Just(json!({"s": "aab", "n": {"n": {"n": null}}})),
            Just(json!([[1], {"s": 1}])),
        ],
    ) {
        let _ = Definition::of_json_schema("f", "", &schema.to_string());
        let checked = JsonSchema
            .compile(&schema.to_string(), &ValidateOptions::default())
            .map(|validator| validator.validate(&value));
        if let Ok(Err(invalid)) = checked {
            prop_assert!(!invalid.is_empty());
        }
    }

    #[test]
    fn any_text_is_a_definition_or_refused(text in nearly_json()) {
        if let Ok(definition) = Definition::parse(&text) {
            prop_assert_eq!(definition.schema().text(), text.trim());
        }
    }
}
