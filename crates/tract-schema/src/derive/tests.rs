//! The normal form, keyword by keyword, and what it admits.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(given: Value, expected: Value) {
    let derived = Derived::new(&given.to_string()).unwrap();
    let found: Value = serde_json::from_str(derived.text()).unwrap();
    assert_eq!(found, expected, "\n{}\n{expected}", derived.text());
    // The normal form of the normal form is itself.
    assert_eq!(Derived::new(derived.text()).unwrap().text(), derived.text());
}

/// A root with one property `x`.
fn with(part: Value) -> Value {
    json!({"type": "object", "properties": {"x": part}, "required": ["x"], "additionalProperties": false})
}

#[test]
fn titles_and_foreign_formats_go_and_bounds_come() {
    let root = json!({"$schema": "s", "title": "T", "description": "D", "type": "object",
        "properties": {"title": {"title": "t", "type": "string", "format": "uuid"}}});
    check(
        root,
        json!({"type": "object", "properties": {"title": {"type": "string", "format": "uuid"}}, "additionalProperties": false}),
    );
    check(
        with(json!({"type": "integer", "format": "uint32", "minimum": 1})),
        with(json!({"type": "integer", "minimum": 1, "maximum": 4294967295_u32})),
    );
    check(with(json!({"type": "integer", "format": "int64"})), with(json!({"type": "integer"})));
    check(with(json!({"type": "number", "format": "double"})), with(json!({"type": "number"})));
    check(with(json!(true)), with(json!({})));
}

#[test]
fn objects_are_closed_and_maps_stay_open() {
    let inner = json!({"type": "object", "properties": {"default": {"type": "object"}}});
    check(
        with(json!({"type": "array", "items": inner})),
        with(json!({"type": "array", "items": {"type": "object", "properties": {"default":
            {"type": "object", "properties": {}, "additionalProperties": false}},
            "additionalProperties": false}})),
    );
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    check(with(map.clone()), with(map));
    let any = json!({"type": "object", "additionalProperties": true});
    check(with(any.clone()), with(any));
}

#[test]
fn documented_enums_are_enums() {
    check(
        with(json!({"description": "How.", "oneOf": [
            {"type": "string", "enum": ["a", "b"]},
            {"type": "string", "const": "c", "description": "the\nthird"},
        ]})),
        with(
            json!({"type": "string", "description": "How.\n- \"c\": the third", "enum": ["a", "b", "c"]}),
        ),
    );
}

#[test]
fn of_a_keyword_that_is_there_twice_the_last_one_is_replaced() {
    let text = r#"{"type":"object","properties":{"x":{"enum":[2],"const":1,"enum":[3]}}}"#;
    let derived = Derived::new(text).unwrap();
    assert_eq!(derived.admit(&mut json!({"x": 1})), Ok(()));
    assert!(derived.admit(&mut json!({"x": 3})).is_err());
    let advertised: Value = serde_json::from_str(derived.text()).unwrap();
    assert_eq!(advertised["properties"]["x"]["enum"], json!([1]), "as readers of JSON take it");
}

#[test]
fn parts_are_merged_into_closed_alternatives() {
    let root = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
        "oneOf": [
            {"type": "object", "properties": {"kind": {"type": "string", "const": "a"}}, "$ref": "#/$defs/A", "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"type": "string", "const": "b"}}, "required": ["kind"]},
        ],
        "unevaluatedProperties": false,
        "$defs": {"A": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    });
    let id = json!({"type": "string"});
    check(
        root,
        json!({"type": "object", "anyOf": [
            {"type": "object", "properties": {"id": id, "kind": {"type": "string", "enum": ["a"]}, "n": {"type": "integer"}},
             "required": ["id", "kind", "n"], "additionalProperties": false},
            {"type": "object", "properties": {"id": id, "kind": {"type": "string", "enum": ["b"]}},
             "required": ["id", "kind"], "additionalProperties": false},
        ]}),
    );
}

#[test]
fn definitions_are_kept_when_used_and_scalars_are_written_out() {
    let root = json!({
        "type": "object",
        "properties": {"x": {"description": "Own.", "$ref": "#/$defs/Word"}, "t": {"$ref": "#/$defs/Tree"}},
        "$defs": {
            "Word": {"type": "string", "description": "A word.", "enum": ["a"]},
            "Unused": {"type": "object"},
            "Tree": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}}},
        },
    });
    check(
        root,
        json!({
            "type": "object",
            "properties": {"x": {"type": "string", "description": "Own.\n\nA word.", "enum": ["a"]}, "t": {"$ref": "#/$defs/Tree"}},
            "additionalProperties": false,
            "$defs": {"Tree": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}}, "additionalProperties": false}},
        }),
    );
}

#[test]
fn a_root_that_is_referred_to_gets_a_name() {
    let tree = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree_"}}, "additionalProperties": false});
    let mut expected = tree.clone();
    expected["properties"]["word"] = json!({"$ref": "#/$defs/Tree"});
    let word = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let mut root = expected.clone();
    root["$defs"] = json!({"Tree": word, "Tree_": expected});
    check(
        json!({
            "title": "Tree", "type": "object",
            "properties": {"next": {"$ref": "#"}, "word": {"$ref": "#/$defs/Tree"}},
            "$defs": {"Tree": {"type": "object"}},
        }),
        root,
    );
}

#[test]
fn a_type_without_a_schema_is_an_error() {
    let error = |value: Value| Derived::new(&value.to_string()).unwrap_err().to_string();
    assert_eq!(
        error(json!({"type": "string"})),
        "expected the schema of an object, found type \"string\""
    );
    assert!(error(json!(true)).contains("no object"));
    assert!(error(with(json!({"$ref": "https://example.com/s.json"}))).contains("own `$defs`"));
    assert!(error(with(json!({"$ref": "#/$defs/None"}))).contains("own `$defs`"));
    assert!(Derived::new("{").is_err());
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "array", "items": {"type": "array", "items": deep}});
    }
    // JSON itself ends at 128 levels: a typed refusal, whichever limit is met first.
    let _ = Derived::new(&with(deep).to_string());
    let flat: Vec<Value> =
        (0..9).map(|n| json!({"type": "object", "properties": {format!("p{n}"): {}}})).collect();
    let many =
        json!({"type": "object", "properties": {}, "allOf": [{"anyOf": flat}, {"anyOf": flat}]});
    assert!(error(many).contains("at most 64 alternatives"));
    let endless = json!({"type": "object", "properties": {}, "$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "$ref": "#/$defs/A"}}});
    assert!(error(endless).contains("levels"));
}

#[track_caller]
fn faults(schema: Value, arguments: Value) -> Vec<String> {
    let derived = Derived::new(&schema.to_string()).unwrap();
    let mut arguments = arguments;
    match derived.admit(&mut arguments) {
        Ok(()) => Vec::new(),
        Err(faults) => faults.iter().map(Mismatch::to_string).collect(),
    }
}

#[test]
fn faults_name_path_expected_and_found() {
    let part = json!({"type": "object", "properties": {
        "line": {"type": "integer", "format": "uint8"},
        "mode": {"type": "string", "enum": ["add", "drop"]},
        "tags": {"type": ["array", "null"], "uniqueItems": true, "items": {"type": "string"}},
    }, "required": ["line"]});
    let schema = with(json!({"type": "array", "items": part, "minItems": 1}));
    assert_eq!(
        faults(
            schema.clone(),
            json!({"x": [{"line": "1"}, {"mode": "ad", "tags": ["a", "a"]}, []], "y": 1})
        ),
        [
            "x[0].line: expected an integer, found \"1\"",
            "x[1]: expected a property `line`, found none",
            "x[1].mode: expected one of \"add\", \"drop\", found \"ad\"; did you mean \"add\"?",
            "x[1].tags: expected items that all differ, found \"a\" twice",
            "x[2]: expected an object, found an array of 0",
            "expected one of `x`, found `y`",
        ]
    );
    assert_eq!(faults(schema.clone(), json!({"x": []})), ["x: expected at least 1 items, found 0"]);
    assert_eq!(faults(schema, json!({"x": [{"line": 3.0, "tags": null}]})), [""; 0]);
}

#[test]
fn of_alternatives_the_one_that_was_meant_is_reported() {
    let tagged = with(json!({"oneOf": [
        {"type": "object", "properties": {"op": {"type": "string", "const": "move"}, "to": {"type": "string"}}, "required": ["op", "to"]},
        {"type": "object", "properties": {"op": {"type": "string", "const": "stop"}}, "required": ["op"]},
    ]}));
    assert_eq!(
        faults(tagged.clone(), json!({"x": {"op": "move", "to": 1}})),
        ["x.to: expected a string, found 1"]
    );
    assert_eq!(
        faults(tagged, json!({"x": {"op": "jump"}})),
        [
            "x: expected an object with `op` \"move\" or an object with `op` \"stop\", found an object with `op`"
        ]
    );
    let optional = with(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}));
    assert_eq!(
        faults(optional, json!({"x": "1"})),
        ["x: expected an integer or null, found \"1\""]
    );
}

#[test]
fn integers_are_spelled_as_such_and_numbers_stay() {
    let schema = json!({"type": "object", "properties": {"i": {"type": "integer"}, "n": {"type": "number"}, "a": {}}});
    let derived = Derived::new(&schema.to_string()).unwrap();
    let mut value = json!({"i": 1e2, "n": 2.0, "a": 3.0});
    derived.admit(&mut value).unwrap();
    assert_eq!(value.to_string(), json!({"i": 100, "n": 2.0, "a": 3.0}).to_string());
    let mut half = json!({"i": 1.5});
    assert!(derived.admit(&mut half).is_err());
}
