//! OpenAI's strict mode: a copy of a schema in the subset that it knows, with a report of what was
//! lost, and arguments brought back to what the schema as given means.

use tract_core::json::JsonError;

use crate::translate::{Loss, LossKind};
use crate::tree::Node;

/// What strict mode takes at most.
const MOST_PROPERTIES: usize = 5000;
const MOST_LEVELS: usize = 10;
const MOST_ENUM_VALUES: usize = 1000;
const MOST_CHARACTERS: usize = 120_000;

/// Keywords that strict mode does not know and that only narrow or describe: they are left out.
const DROPPED: &[&str] = &[
    "default",
    "$schema",
    "$id",
    "title",
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

/// Keywords without which the schema would mean something else: then it cannot be strict.
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

/// A schema for strict mode.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strict {
    /// It can be sent with `strict: true`.
    #[non_exhaustive]
    Schema {
        /// The copy.
        parameters: String,
        /// How it differs.
        losses: Vec<Loss>,
    },
    /// It has to be sent with `strict: false`.
    #[non_exhaustive]
    NotExpressible {
        /// Why.
        reasons: Vec<Loss>,
    },
}

/// Writes a schema in the subset that strict mode knows: closed objects, every property required,
/// those that were optional nullable.
///
/// ```
/// use tract_schema::{Strict, raise, to_strict};
/// let given = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}"#;
/// let Strict::Schema { parameters, .. } = to_strict(given)? else { unreachable!() };
/// assert_eq!(
///     parameters,
///     r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["integer","null"]}},"required":["a","b"],"additionalProperties":false}"#,
/// );
/// assert_eq!(raise(given, r#"{"a":"x","b":null}"#)?, r#"{"a":"x"}"#);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] when the text is no JSON.
pub fn to_strict(parameters: &str) -> Result<Strict, JsonError> {
    let mut root = Node::parse(parameters)?;
    let mut work = Work::default();
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
    work.schema(&mut root, "", 0);
    for (what, limit, found) in [
        ("properties", MOST_PROPERTIES, work.properties),
        ("levels", MOST_LEVELS, work.levels),
        ("enum values", MOST_ENUM_VALUES, work.enum_values),
        ("characters of names and values", MOST_CHARACTERS, work.characters),
    ] {
        if found > limit {
            work.fatal("/", &format!("expected at most {limit} {what}, found {found}"));
        }
    }
    Ok(match work.reasons.is_empty() {
        true => Strict::Schema { parameters: root.write(), losses: work.losses },
        false => Strict::NotExpressible { reasons: work.reasons },
    })
}

#[derive(Default)]
struct Work {
    losses: Vec<Loss>,
    reasons: Vec<Loss>,
    properties: usize,
    levels: usize,
    enum_values: usize,
    characters: usize,
}

impl Work {
    fn fatal(&mut self, path: &str, why: &str) {
        self.reasons.push(Loss::new(LossKind::NotExpressible, path, why));
    }

    fn changed(&mut self, path: &str, what: &str) {
        self.losses.push(Loss::new(LossKind::Changed, path, what));
    }

    fn schema(&mut self, node: &mut Node, path: &str, level: usize) {
        let here = |key: &str| format!("{path}/{key}");
        if !node.is_object() {
            self.fatal(if path.is_empty() { "/" } else { path }, "a schema that takes anything");
            return;
        }
        for key in FATAL {
            if node.get(key).is_some() {
                self.fatal(&here(key), "not known");
            }
        }
        for key in DROPPED {
            if node.remove(key).is_some() {
                let place = here(key);
                self.losses.push(Loss::new(LossKind::LeftOut, &place, "not known"));
            }
        }
        if let Some(only) = node.remove("const") {
            node.set("enum", Node::Array(vec![only]));
            self.changed(&here("const"), "written as an enum of one");
        }
        if let Some(branches) = node.remove("oneOf") {
            if node.get("anyOf").is_some() {
                self.fatal(&here("oneOf"), "beside anyOf");
            }
            node.set("anyOf", branches);
            self.changed(&here("oneOf"), "written as anyOf");
        }
        if let Some(reference) = node.get("$ref").cloned() {
            let beside: Vec<String> = node.members().iter().map(|(key, _)| key.clone()).collect();
            let kept = ["$ref", "$defs", "definitions"];
            for key in beside.iter().filter(|key| !kept.contains(&key.as_str())) {
                node.remove(key);
                self.losses.push(Loss::new(LossKind::LeftOut, here(key), "stands beside $ref"));
            }
            if !reference.as_text().is_some_and(|text| text.starts_with('#')) {
                self.fatal(&here("$ref"), "leads out of the schema");
            }
        }
        self.enum_values += node.get("enum").map_or(0, |list| list.items().len());
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

    fn object(&mut self, node: &mut Node, path: &str, level: usize) {
        let here = |key: &str| format!("{path}/{key}");
        let names = |node: &Node| type_names(node).iter().any(|name| name == "object");
        if !names(node) && node.get("properties").is_none() {
            return;
        }
        self.levels = self.levels.max(level + 1);
        match node.get("additionalProperties") {
            Some(Node::Scalar(raw)) if raw == "false" => {}
            None if node.get("properties").is_some() => {
                self.changed(&here("additionalProperties"), "closed");
            }
            _ => self.fatal(&here("additionalProperties"), "properties of any name"),
        }
        let required: Vec<String> = node
            .get("required")
            .map(|list| list.items().iter().filter_map(Node::as_text).collect())
            .unwrap_or_default();
        let mut all = Vec::new();
        if let Node::Object(members) = node
            && let Some((_, Node::Object(properties))) =
                members.iter_mut().find(|(key, _)| key == "properties")
        {
            for (name, schema) in properties {
                let place = format!("{path}/properties/{name}");
                self.properties += 1;
                self.characters += name.chars().count();
                self.schema(schema, &place, level + 1);
                if !required.contains(name) && !takes_null(schema) {
                    make_nullable(schema);
                    self.changed(&place, "optional: required, and null when it is left out");
                }
                all.push(Node::text(name));
            }
        }
        node.set("required", Node::Array(all));
        node.set("additionalProperties", Node::Scalar("false".to_owned()));
    }
}

fn type_names(node: &Node) -> Vec<String> {
    match node.get("type") {
        Some(Node::Array(names)) => names.iter().filter_map(Node::as_text).collect(),
        Some(name) => name.as_text().into_iter().collect(),
        None => Vec::new(),
    }
}

fn takes_null(schema: &Node) -> bool {
    if let Some(list) = schema.get("enum") {
        return list.items().iter().any(Node::is_null);
    }
    if let Some(branches) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
        return branches.items().iter().any(takes_null);
    }
    type_names(schema).iter().any(|name| name == "null")
}

fn make_nullable(schema: &mut Node) {
    let null = || Node::Object(vec![("type".to_owned(), Node::text("null"))]);
    if let Some(Node::Array(branches)) = schema.get("anyOf").cloned() {
        schema.set("anyOf", Node::Array(branches.into_iter().chain([null()]).collect()));
        return;
    }
    if schema.get("$ref").is_some() || schema.get("type").is_none() {
        let inner = std::mem::replace(schema, Node::Object(Vec::new()));
        schema.set("anyOf", Node::Array(vec![inner, null()]));
        return;
    }
    let names = type_names(schema).into_iter().chain(["null".to_owned()]);
    schema.set("type", Node::Array(names.map(|name| Node::text(&name)).collect()));
    if let Some(Node::Array(values)) = schema.get("enum").cloned() {
        let null = Node::Scalar("null".to_owned());
        schema.set("enum", Node::Array(values.into_iter().chain([null]).collect()));
    }
}

/// Brings arguments of a strict call back to the schema as given: null where a property is optional
/// and takes no null means that it was left out. All else stays as written.
///
/// # Errors
/// [`JsonError`] when one of the texts is no JSON.
pub fn raise(parameters: &str, arguments: &str) -> Result<String, JsonError> {
    let root = Node::parse(parameters)?;
    let mut value = Node::parse(arguments)?;
    raise_node(&root, &root, &mut value, 0);
    Ok(value.write())
}

fn raise_node(root: &Node, schema: &Node, value: &mut Node, depth: usize) {
    // References may go round; the value does not, so this bound is only met by those.
    if depth > 256 {
        return;
    }
    if let Some(target) = schema.get("$ref").and_then(Node::as_text).and_then(|r| root.resolve(&r))
    {
        return raise_node(root, target, value, depth + 1);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for branch in schema.get(key).map(Node::items).unwrap_or_default() {
            raise_node(root, branch, value, depth + 1);
        }
    }
    match value {
        Node::Object(members) => {
            let required: Vec<String> = schema
                .get("required")
                .map(|list| list.items().iter().filter_map(Node::as_text).collect())
                .unwrap_or_default();
            let properties = schema.get("properties");
            members.retain(|(name, value)| {
                let Some(property) = properties.and_then(|all| all.get(name)) else { return true };
                let reached = property.get("$ref").and_then(Node::as_text);
                let property = reached.and_then(|r| root.resolve(&r)).unwrap_or(property);
                let any = property.get("type").is_none()
                    && ["enum", "anyOf", "oneOf"].iter().all(|key| property.get(key).is_none());
                let means_absent = !takes_null(property) && !any;
                !(value.is_null() && !required.contains(name) && means_absent)
            });
            for (name, value) in members {
                if let Some(property) = properties.and_then(|all| all.get(name)) {
                    raise_node(root, property, value, depth + 1);
                }
            }
        }
        Node::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| raise_node(root, schema, item, depth + 1));
            }
        }
        Node::Scalar(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strict_mode_does_not_know_is_reported() {
        let given = r##"{"type":"object","properties":{
            "s":{"type":"string","minLength":1,"default":"x"},
            "k":{"const":1.50},"e":{"type":"string","enum":["a"]},
            "r":{"$ref":"#/$defs/r","description":"R."},
            "o":{"oneOf":[{"type":"string"},{"type":"integer"}]}},
            "required":["k"],"$defs":{"r":{"type":"object","properties":{"n":{"type":"integer"}}}}}"##;
        let Strict::Schema { parameters, losses } = to_strict(given).unwrap() else { panic!() };
        let expected = r##"{"type":"object","properties":{"s":{"type":["string","null"]},"k":{"enum":[1.50]},"e":{"type":["string","null"],"enum":["a",null]},"r":{"anyOf":[{"$ref":"#/$defs/r"},{"type":"null"}]},"o":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}},"required":["s","k","e","r","o"],"$defs":{"r":{"type":"object","properties":{"n":{"type":["integer","null"]}},"required":["n"],"additionalProperties":false}},"additionalProperties":false}"##;
        assert_eq!(parameters, expected);
        let paths: Vec<&str> = losses.iter().map(|loss| loss.path.as_str()).collect();
        for path in [
            "/properties/s/default",
            "/properties/s/minLength",
            "/properties/r/description",
            "/properties/o/oneOf",
            "/properties/e",
            "/additionalProperties",
        ] {
            assert!(paths.contains(&path), "{path} in {paths:?}");
        }
        assert_eq!(
            raise(given, r#"{"s":null,"k":1.50,"e":null,"r":{"n":null},"o":2}"#).unwrap(),
            r#"{"k":1.50,"r":{},"o":2}"#
        );
    }

    #[test]
    fn what_would_mean_something_else_is_not_strict() {
        for given in [
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            r#"{"type":"object","properties":{"a":{"type":"object"}}}"#,
            r#"{"type":"object","properties":{"a":true}}"#,
            r#"{"anyOf":[{"type":"object"}]}"#,
            r#"{"type":"object","properties":{},"allOf":[{}]}"#,
        ] {
            let strict = to_strict(given).unwrap();
            assert!(matches!(strict, Strict::NotExpressible { .. }), "{given}");
        }
    }

    #[test]
    fn null_stays_where_the_schema_takes_it() {
        let given = r#"{"properties":{"a":{"type":["string","null"]},"b":{}}}"#;
        let arguments = r#"{"a":null,"b":null,"c":null}"#;
        assert_eq!(raise(given, arguments).unwrap(), arguments);
    }
}
