//! Strict modes: converts a copy of a schema to the subset that a provider supports, and reports
//! the losses.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tract_core::json::JsonError;

use crate::allowance::StrictCost;
use crate::dialect::{Dialect, StrictMode};
use crate::loss::{Loss, LossKind};
use crate::tree::{Node, escaped};

/// OpenAI's limits for strict mode.
const MOST_PROPERTIES: usize = 5000;
const MOST_LEVELS: usize = 10;
const MOST_ENUM_VALUES: usize = 1000;
const MOST_CHARACTERS: usize = 120_000;

/// Keywords that no strict mode supports and that only narrow or describe: they are left out.
const DROPPED: &[&str] = &[
    "$schema",
    "$id",
    "examples",
    "minLength",
    "maxLength",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "nullable",
    "dependentRequired",
    "contentEncoding",
    "contentMediaType",
];

/// Keywords that only OpenAI, or only Anthropic, does not support.
const DROPPED_OPENAI: &[&str] = &["default", "title"];
const DROPPED_ANTHROPIC: &[&str] =
    &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems"];

/// Keywords that cannot be removed without changing the meaning. A schema with one of them cannot
/// be strict.
const FATAL: &[&str] = &[
    "patternProperties",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "prefixItems",
    "additionalItems",
    "$dynamicRef",
    "$recursiveRef",
];

/// The result of converting a schema to strict mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strict {
    /// It can be sent with `strict: true`.
    Schema {
        /// The converted schema.
        parameters: String,
        /// Its differences from the original.
        losses: Vec<Loss>,
        /// Its share of the request's allowance.
        cost: StrictCost,
    },
    /// It has to be sent with `strict: false`.
    NotExpressible {
        /// The reasons.
        reasons: Vec<Loss>,
    },
}

/// Converts a schema to the subset that a provider's strict mode supports. Objects are closed. For
/// OpenAI, every property is required, and optional ones become nullable. Anthropic supports
/// optional properties, but neither numeric limits nor recursion. Ollama has no strict mode.
///
/// ```
/// use tract_schema::{Dialect, Strict, raise, to_strict};
/// let given = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}"#;
/// let Strict::Schema { parameters, .. } = to_strict(given, Dialect::OpenAi)? else { unreachable!() };
/// assert_eq!(
///     parameters,
///     r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["integer","null"]}},"required":["a","b"],"additionalProperties":false}"#,
/// );
/// // What the model leaves out comes back as null: it means what it meant before.
/// assert_eq!(raise(given, r#"{"a":"x","b":null}"#)?.arguments, r#"{"a":"x"}"#);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] if the text is not JSON.
pub fn to_strict(parameters: &str, dialect: Dialect) -> Result<Strict, JsonError> {
    let mut root = Node::parse(parameters)?;
    let mode = dialect.tools().strict;
    let anthropic = mode == Some(StrictMode::Anthropic);
    let mut work = StrictState {
        null_for_absent: !anthropic,
        dropped: if anthropic { DROPPED_ANTHROPIC } else { DROPPED_OPENAI },
        ..StrictState::default()
    };
    if mode.is_none() {
        work.fatal("/", &format!("{dialect} has no strict mode"));
    }
    if !root.is_object() {
        work.fatal("/", "the root is no object");
    }
    for key in ["anyOf", "oneOf", "$ref", "enum"] {
        if root.get(key).is_some() {
            work.fatal(key, "not known at the root");
        }
    }
    if root.get("type").is_none() && root.is_object() {
        root.set("type", Node::text("object"));
        work.changed("/", "type: object was added");
    }
    if anthropic && is_recursive(&root) {
        work.fatal("/", "a schema that refers to itself");
    }
    work.schema(&mut root, "", 0);
    let limits = [
        ("properties", MOST_PROPERTIES, work.properties),
        ("levels", MOST_LEVELS, work.levels),
        ("enum values", MOST_ENUM_VALUES, work.enum_values),
        ("characters of names and values", MOST_CHARACTERS, work.characters),
    ];
    for (what, limit, found) in limits {
        if !anthropic && found > limit {
            work.fatal("/", &format!("expected at most {limit} {what}, found {found}"));
        }
    }
    let cost = StrictCost { optional: work.optional, unions: work.unions };
    Ok(if work.reasons.is_empty() {
        Strict::Schema { parameters: root.write(), losses: work.losses, cost }
    } else {
        Strict::NotExpressible { reasons: work.reasons }
    })
}

/// Keywords that contain subschemas in strict mode: one, a list of them, or an object of them.
const SUBSCHEMAS: &[&str] = &["items", "anyOf", "properties", "$defs", "definitions"];

/// Finds the places for which a provider rejects a tool with `strict: true`: open objects, keywords
/// that no strict mode supports and, for OpenAI, optional properties. Returns paths with reasons;
/// empty if the provider has no strict mode.
pub(crate) fn violations(parameters: &Node, dialect: Dialect) -> Vec<(String, String)> {
    let mut all = Vec::new();
    if let Some(mode) = dialect.tools().strict {
        collect_violations(parameters, mode, "", &mut all);
    }
    all
}

fn collect_violations(
    schema: &Node,
    mode: StrictMode,
    path: &str,
    all: &mut Vec<(String, String)>,
) {
    let here = |key: &str| format!("{path}/{key}");
    let properties = schema.get("properties");
    if schema.types().iter().any(|name| name == "object") || properties.is_some() {
        if !schema.get("additionalProperties").is_some_and(|rest| rest.is("false")) {
            let why = "strict mode requires \"additionalProperties\":false in every object";
            all.push((here("additionalProperties"), why.to_owned()));
        }
        let required = schema.texts("required");
        let properties = properties.map(Node::members).unwrap_or_default();
        let optional = properties.iter().find(|(name, _)| !required.contains(name));
        if let Some((name, _)) = optional
            && mode == StrictMode::OpenAi
        {
            let why = format!("strict mode requires every property, {name:?} is optional");
            all.push((here("required"), why));
        }
    }
    for key in FATAL.iter().filter(|key| schema.get(key).is_some()) {
        all.push((here(key), format!("strict mode does not support {key:?}")));
    }
    for key in SUBSCHEMAS {
        match schema.get(key) {
            Some(Node::Array(branches)) => {
                for (n, branch) in branches.iter().enumerate() {
                    collect_violations(branch, mode, &format!("{path}/{key}/{n}"), all);
                }
            }
            Some(Node::Object(named)) if *key != "items" => {
                for (name, schema) in named {
                    let place = format!("{path}/{key}/{}", escaped(name));
                    collect_violations(schema, mode, &place, all);
                }
            }
            Some(one) if *key == "items" => collect_violations(one, mode, &here(key), all),
            Some(_) | None => {}
        }
    }
}

/// Maximum number of nested references to follow. Schemas beyond it are treated as recursive.
const LONGEST_CHAIN: usize = 64;

/// Returns whether references form a cycle.
fn is_recursive(root: &Node) -> bool {
    /// In `seen`, `false` means that the reference is being followed, `true` that it leads to no
    /// cycle.
    fn has_cycle(
        root: &Node,
        node: &Node,
        seen: &mut BTreeMap<String, bool>,
        chain: usize,
    ) -> bool {
        let reference = node.get("$ref").and_then(Node::as_text).map(Cow::into_owned);
        if let Some(reference) = reference {
            match seen.get(&reference) {
                Some(false) => return true,
                Some(true) => {}
                None => {
                    seen.insert(reference.clone(), false);
                    if reference == "#" || chain > LONGEST_CHAIN {
                        return true;
                    }
                    if let Some(target) = root.resolve(&reference)
                        && has_cycle(root, target, seen, chain + 1)
                    {
                        return true;
                    }
                    seen.insert(reference, true);
                }
            }
        }
        let inner = node.members().iter().filter(|(key, _)| key != "$defs" && key != "definitions");
        inner
            .map(|(_, inner)| inner)
            .chain(node.items())
            .any(|inner| has_cycle(root, inner, seen, chain))
    }
    has_cycle(root, root, &mut BTreeMap::new(), 0)
}

#[derive(Default)]
struct StrictState {
    /// Whether optional properties are sent as nullable ones.
    null_for_absent: bool,
    dropped: &'static [&'static str],
    losses: Vec<Loss>,
    reasons: Vec<Loss>,
    properties: usize,
    levels: usize,
    enum_values: usize,
    characters: usize,
    optional: usize,
    unions: usize,
}

impl StrictState {
    fn fatal(&mut self, path: &str, why: &str) {
        let path = if path.is_empty() { "/" } else { path };
        self.reasons.push(Loss::new(LossKind::NotExpressible, path, why));
    }

    fn changed(&mut self, path: &str, what: &str) {
        self.losses.push(Loss::new(LossKind::Changed, path, what));
    }

    fn schema(&mut self, node: &mut Node, path: &str, level: usize) {
        let here = |key: &str| format!("{path}/{key}");
        if !node.is_object() {
            return self.fatal(path, "a schema that takes anything");
        }
        for key in FATAL {
            if node.get(key).is_some() {
                self.fatal(&here(key), "not known");
            }
        }
        let few = |node: &Node| node.is("0") || node.is("1");
        let many = !self.null_for_absent && node.get("minItems").is_some_and(|n| !few(n));
        for key in DROPPED.iter().chain(self.dropped).chain(many.then_some(&"minItems")) {
            if node.remove(key).is_some() {
                let place = here(key);
                self.losses.push(Loss::new(LossKind::LeftOut, &place, "not known"));
            }
        }
        if self.null_for_absent {
            if let Some(only) = node.remove("const") {
                node.set("enum", Node::Array(vec![only]));
                self.changed(&here("const"), "written as an enum of one");
            }
            self.typed(node, path);
        }
        if let Some(branches) = node.remove("oneOf") {
            if node.get("anyOf").is_some() {
                self.fatal(&here("oneOf"), "next to anyOf");
            }
            node.set("anyOf", branches);
            self.changed(&here("oneOf"), "written as anyOf");
        }
        if let Some(reference) = node.get("$ref").cloned() {
            let siblings: Vec<String> = node.members().iter().map(|(key, _)| key.clone()).collect();
            let kept = ["$ref", "$defs", "definitions", "description"];
            for key in siblings.iter().filter(|key| !kept.contains(&key.as_str())) {
                node.remove(key);
                self.losses.push(Loss::new(LossKind::LeftOut, here(key), "is next to $ref"));
            }
            if node.describe_reference() {
                self.changed(&here("$ref"), "written within anyOf, next to its description");
            }
            if !reference.as_text().is_some_and(|text| text.starts_with('#')) {
                self.fatal(&here("$ref"), "leads out of the schema");
            }
        }
        let several = matches!(node.get("type"), Some(Node::Array(_)));
        self.unions += usize::from(several || node.get("anyOf").is_some());
        self.enum_values += node.list("enum").len();
        self.object(node, path, level);
        let Node::Object(members) = node else { return };
        for (key, value) in members {
            match (key.as_str(), value) {
                ("items", Node::Array(_)) => self.fatal(&here("items"), "a list of schemas"),
                ("items", value) => self.schema(value, &here("items"), level + 1),
                ("anyOf", Node::Array(branches)) => {
                    for (n, branch) in branches.iter_mut().enumerate() {
                        self.schema(branch, &format!("{path}/anyOf/{n}"), level);
                    }
                }
                ("$defs" | "definitions", Node::Object(named)) => {
                    for (name, schema) in named {
                        self.schema(schema, &format!("{path}/{key}/{name}"), level);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the type that a schema implies. OpenAI's strict mode requires a type for every value.
    fn typed(&mut self, node: &mut Node, path: &str) {
        let says = ["type", "anyOf", "oneOf", "$ref"];
        if says.iter().any(|key| node.get(key).is_some()) {
            return;
        }
        let implied = match node.get("enum") {
            Some(words) => types_of(words.items()),
            None if node.get("properties").is_some() => vec!["object"],
            None if node.get("items").is_some() => vec!["array"],
            None => Vec::new(),
        };
        let kind = match implied[..] {
            [] => return self.fatal(path, "a schema that takes anything"),
            [only] => Node::text(only),
            [..] => Node::Array(implied.into_iter().map(Node::text).collect()),
        };
        node.set("type", kind);
        self.changed(&format!("{path}/type"), "added");
    }

    fn object(&mut self, node: &mut Node, path: &str, level: usize) {
        let here = |key: &str| format!("{path}/{key}");
        if !node.types().iter().any(|name| name == "object") && node.get("properties").is_none() {
            return;
        }
        self.levels = self.levels.max(level + 1);
        match node.get("additionalProperties") {
            Some(rest) if rest.is("false") => {}
            None if node.get("properties").is_some() => {
                self.changed(&here("additionalProperties"), "closed");
            }
            _ => self.fatal(&here("additionalProperties"), "properties of any name"),
        }
        let required = node.texts("required");
        let mut all = Vec::new();
        if let Some(Node::Object(properties)) = node.get_mut("properties") {
            for (name, schema) in properties {
                let place = format!("{path}/properties/{name}");
                self.properties += 1;
                self.characters += name.chars().count();
                self.schema(schema, &place, level + 1);
                self.optional += usize::from(!required.contains(name));
                if self.null_for_absent && !required.contains(name) && !accepts_null(schema) {
                    make_nullable(schema);
                    self.changed(&place, "optional: required, and null when it is left out");
                }
                all.push(Node::text(name));
            }
        }
        if self.null_for_absent {
            node.set("required", Node::Array(all));
        }
        node.set("additionalProperties", Node::Scalar("false".to_owned()));
    }
}

fn accepts_null(schema: &Node) -> bool {
    if let Some(list) = schema.get("enum") {
        return list.items().iter().any(|word| word.is("null"));
    }
    if let Some(branches) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
        return branches.items().iter().any(accepts_null);
    }
    schema.types().iter().any(|name| name == "null")
}

/// Returns the distinct types of values; empty if strict mode has no type for one of them.
fn types_of(words: &[Node]) -> Vec<&'static str> {
    let mut types = Vec::new();
    for word in words {
        let Node::Scalar(raw) = word else { return Vec::new() };
        let kind = match raw.as_bytes().first() {
            Some(b'"') => "string",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            _ if raw.contains(['.', 'e', 'E']) => "number",
            _ => "integer",
        };
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    if types.contains(&"number") {
        types.retain(|kind| *kind != "integer");
    }
    types
}

fn make_nullable(schema: &mut Node) {
    let null = || Node::Object(vec![("type".to_owned(), Node::text("null"))]);
    if let Some(Node::Array(branches)) = schema.get_mut("anyOf") {
        return branches.push(null());
    }
    if schema.get("$ref").is_some() || schema.get("type").is_none() {
        let inner = std::mem::replace(schema, Node::Object(Vec::new()));
        schema.set("anyOf", Node::Array(vec![inner, null()]));
        return;
    }
    let mut types: Vec<Node> = schema.types().iter().map(|name| Node::text(name)).collect();
    types.push(Node::text("null"));
    schema.set("type", Node::Array(types));
    if let Some(Node::Array(values)) = schema.get_mut("enum") {
        values.push(Node::Scalar("null".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raise;

    #[track_caller]
    fn strict(given: &str, dialect: Dialect) -> (String, Vec<Loss>) {
        match to_strict(given, dialect).unwrap() {
            Strict::Schema { parameters, losses, .. } => (parameters, losses),
            refused => panic!("{given}: {refused:?}"),
        }
    }

    #[track_caller]
    fn check_not_strict(given: &str, dialect: Dialect) {
        let strict = to_strict(given, dialect).unwrap();
        assert!(matches!(strict, Strict::NotExpressible { .. }), "{given}");
    }

    #[test]
    fn keywords_unknown_to_strict_mode_are_reported() {
        let given = r##"{"type":"object","properties":{
            "s":{"type":"string","minLength":1,"default":"x"},
            "k":{"const":1.50},"e":{"type":"string","enum":["a"]},
            "r":{"$ref":"#/$defs/r","description":"R."},
            "o":{"oneOf":[{"type":"string"},{"type":"integer"}]}},
            "required":["k"],"$defs":{"r":{"type":"object","properties":{"n":{"type":"integer"}}}}}"##;
        let (parameters, losses) = strict(given, Dialect::OpenAi);
        let expected = r##"{"type":"object","properties":{"s":{"type":["string","null"]},"k":{"enum":[1.50],"type":"number"},"e":{"type":["string","null"],"enum":["a",null]},"r":{"anyOf":[{"$ref":"#/$defs/r"},{"type":"null"}],"description":"R."},"o":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}},"required":["s","k","e","r","o"],"$defs":{"r":{"type":"object","properties":{"n":{"type":["integer","null"]}},"required":["n"],"additionalProperties":false}},"additionalProperties":false}"##;
        assert_eq!(parameters, expected);
        let paths: Vec<&str> = losses.iter().map(|loss| loss.path.as_str()).collect();
        for path in [
            "/properties/s/default",
            "/properties/s/minLength",
            "/properties/r/$ref",
            "/properties/o/oneOf",
            "/properties/e",
            "/additionalProperties",
        ] {
            assert!(paths.contains(&path), "{path} in {paths:?}");
        }
        let raised = raise(given, r#"{"s":null,"k":1.50,"e":null,"r":{"n":null},"o":2}"#).unwrap();
        assert_eq!(raised.arguments, r#"{"k":1.50,"r":{},"o":2}"#);
        assert_eq!(raised.left_out, ["/s", "/e", "/r/n"]);
    }

    #[test]
    fn an_enum_without_a_type_gets_the_type_of_its_values() {
        let given = r#"{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"const":true},
            "c":{"enum":[1,2.5]},"d":{"enum":["x",3,null]},"o":{"properties":{}},"l":{"items":{"type":"string"}}},
            "required":["a","b","c","d","o","l"]}"#;
        let (parameters, _) = strict(given, Dialect::OpenAi);
        let expected = r#"{"type":"object","properties":{"a":{"enum":["x","y"],"type":"string"},"b":{"enum":[true],"type":"boolean"},"c":{"enum":[1,2.5],"type":"number"},"d":{"enum":["x",3,null],"type":["string","integer","null"]},"o":{"properties":{},"type":"object","additionalProperties":false,"required":[]},"l":{"items":{"type":"string"},"type":"array"}},"required":["a","b","c","d","o","l"],"additionalProperties":false}"#;
        let sorted = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(sorted(&parameters), sorted(expected));
        // Optional ones take null like any other.
        let optional = r#"{"type":"object","properties":{"a":{"enum":["x"]}}}"#;
        let (parameters, _) = strict(optional, Dialect::OpenAi);
        let a = &sorted(&parameters)["properties"]["a"];
        assert_eq!(*a, serde_json::json!({"type": ["string", "null"], "enum": ["x", null]}));
    }

    #[test]
    fn a_schema_that_would_change_its_meaning_is_not_strict() {
        for given in [
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            r#"{"type":"object","properties":{"a":{"type":"object"}}}"#,
            r#"{"type":"object","properties":{"a":true}}"#,
            r#"{"type":"object","properties":{"a":{"description":"Anything."}}}"#,
            r#"{"type":"object","properties":{"a":{"enum":[{"b":1}]}}}"#,
            r#"{"anyOf":[{"type":"object"}]}"#,
            r#"{"type":"object","properties":{},"allOf":[{}]}"#,
        ] {
            check_not_strict(given, Dialect::OpenAi);
        }
    }

    #[test]
    fn anthropics_strict_mode_takes_what_may_be_absent_and_no_limits() {
        let given = r#"{"type":"object","properties":{"a":{"type":"integer","minimum":1,"default":2},
            "b":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3}},"required":["b"]}"#;
        let (parameters, losses) = strict(given, Dialect::Anthropic);
        let expected = r#"{"type":"object","properties":{"a":{"type":"integer","default":2},"b":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["b"],"additionalProperties":false}"#;
        assert_eq!(parameters, expected);
        let paths: Vec<&str> = losses.iter().map(|loss| loss.path.as_str()).collect();
        assert_eq!(
            paths,
            ["/additionalProperties", "/properties/a/minimum", "/properties/b/maxItems"]
        );
        for round in [
            r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##,
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"items":{"$ref":"#/$defs/a"}}}}"##,
        ] {
            check_not_strict(round, Dialect::Anthropic);
        }
        let shared = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}"##;
        strict(shared, Dialect::Anthropic);
        check_not_strict(shared, Dialect::Ollama);
    }
}
