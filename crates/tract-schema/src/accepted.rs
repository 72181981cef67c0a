//! Rewrites schemas of arguments that providers reject. OpenAI and Anthropic require one object at
//! the top, without references and alternatives, and OpenAI requires `items` in every array.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use crate::loss::{Loss, LossKind};
use crate::tree::{Members, Node, get, take};

/// Keywords that providers reject at the top of a schema of arguments.
pub(crate) const REJECTED_AT_ROOT: [&str; 7] =
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "enum", "not"];

/// Lists of schemas at the top that are merged.
const COMBINED: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Maximum number of JSON values that are copied from alternatives and references. References may
/// multiply them.
const MAX_COPIED: usize = 100_000;

/// Maximum number of nested references and lists that are merged.
const MAX_DEPTH: usize = 32;

/// Maximum number of alternatives of a property in which equal ones are removed.
const MAX_COMPARED: usize = 256;

/// A schema that all providers accept, and its differences from the given one.
pub(crate) struct Accepted {
    pub(crate) parameters: String,
    pub(crate) losses: Vec<Loss>,
}

/// Rewrites a schema of arguments, an object, to one that all providers accept: references and
/// alternatives at its top are merged into one object, arrays get `items`, and tuples get
/// `prefixItems`. Returns `None` if it needs no change.
///
/// The merged object has the properties of all alternatives. It requires what all of them require,
/// so that it accepts all arguments that the given schema accepts.
pub(crate) fn accepted(parameters: &str) -> Option<Accepted> {
    let may_need = REJECTED_AT_ROOT.iter().chain(&["array", "items", "patternProperties"]);
    if !may_need.clone().any(|word| parameters.contains(word)) {
        return None;
    }
    let mut root = Node::parse(parameters).ok().filter(Node::is_object)?;
    let mut losses = Vec::new();
    merge_root(&mut root, &mut losses);
    complete_arrays(&mut root, &mut losses);
    if root.get("properties").is_none() && is_object_type(&root) {
        root.set("properties", Node::Object(Vec::new()));
        losses.push(loss(LossKind::Added, "providers require \"properties\""));
    }
    (!losses.is_empty()).then(|| Accepted { parameters: root.write(), losses })
}

fn loss(kind: LossKind, message: impl Into<String>) -> Loss {
    Loss::new(kind, "parameters", message)
}

fn is_object_type(schema: &Node) -> bool {
    schema.types().iter().any(|name| name == "object")
}

/// Merges references and alternatives at the top into the object.
fn merge_root(root: &mut Node, losses: &mut Vec<Loss>) {
    let rejected: Vec<&str> =
        REJECTED_AT_ROOT.into_iter().filter(|key| root.get(key).is_some()).collect();
    if rejected.is_empty() {
        return;
    }
    let original = root.clone();
    let mut merging = Merging { root: &original, copied: 0, is_cut: false, unresolved: None };
    let merged = merging.object(&original, 0).unwrap_or_default();
    let Node::Object(members) = root else { return };
    for key in &rejected {
        while take(members, key).is_some() {}
    }
    merged.write_to(members);
    keep_targets(&original, members);
    for key in &rejected {
        let what = match *key {
            "$ref" | "$dynamicRef" => format!("the target of {key:?} is written in its place"),
            "allOf" | "anyOf" | "oneOf" => {
                format!("the schemas of {key:?} are merged into one object")
            }
            key => format!("{key:?} is left out"),
        };
        let why = format!("{what}: providers reject {key:?} at the top");
        losses.push(loss(LossKind::Changed, why));
    }
    if let Some(reference) = merging.unresolved {
        let why =
            format!("the reference {reference:?} is left out: its target is not in the schema");
        losses.push(loss(LossKind::LeftOut, why));
    }
    if merging.is_cut {
        let why = "some properties are left out: the references are nested too deeply";
        losses.push(loss(LossKind::LeftOut, why));
    }
}

/// Keeps the schemas of removed lists that references point into, under `$defs`.
fn keep_targets(original: &Node, members: &mut Members) {
    let mut moved = MovedSchemas::default();
    for (_, member) in members.iter_mut() {
        point_to_definitions(member, &mut moved);
    }
    let mut definitions = Vec::new();
    // The kept schemas may point to others.
    while let Some((key, place)) = moved.queue.pop() {
        let target = original.get(key).map(Node::items).and_then(|list| list.get(place));
        if let Some(mut target) = target.cloned() {
            point_to_definitions(&mut target, &mut moved);
            definitions.push((definition_name(key, place), target));
        }
    }
    if definitions.is_empty() {
        return;
    }
    match get_object(members, "$defs") {
        Some(all) => all.extend(definitions),
        None => members.push(("$defs".to_owned(), Node::Object(definitions))),
    }
}

/// Schemas of a list at the top that become definitions: the list, and the place in it.
#[derive(Default)]
struct MovedSchemas {
    known: BTreeSet<(&'static str, usize)>,
    queue: Vec<(&'static str, usize)>,
}

impl MovedSchemas {
    fn add(&mut self, key: &'static str, place: usize) {
        if self.known.insert((key, place)) {
            self.queue.push((key, place));
        }
    }
}

fn get_object<'a>(members: &'a mut Members, key: &str) -> Option<&'a mut Members> {
    members.iter_mut().rev().find(|(name, _)| name == key).and_then(|(_, value)| match value {
        Node::Object(inner) => Some(inner),
        Node::Scalar(_) | Node::Array(_) => None,
    })
}

fn definition_name(key: &str, place: usize) -> String {
    format!("{key}_{place}")
}

/// Replaces references into the lists at the top, such as `#/anyOf/0/properties/a`, by references to
/// definitions, and collects the schemas that they need.
fn point_to_definitions(node: &mut Node, moved: &mut MovedSchemas) {
    match node {
        Node::Object(members) => {
            for (name, member) in members {
                let target = (name == "$ref").then(|| member.as_text()).flatten();
                match target.as_deref().and_then(list_target) {
                    Some((key, place, tail)) => {
                        let name = definition_name(key, place);
                        moved.add(key, place);
                        *member = Node::text(&format!("#/$defs/{name}{tail}"));
                    }
                    None => point_to_definitions(member, moved),
                }
            }
        }
        Node::Array(items) => items.iter_mut().for_each(|item| point_to_definitions(item, moved)),
        Node::Scalar(_) => {}
    }
}

/// Splits a reference into a list at the top: the list, the place in it, and the pointer after it.
fn list_target(reference: &str) -> Option<(&'static str, usize, &str)> {
    let pointer = reference.strip_prefix("#/")?;
    let key = COMBINED.into_iter().find(|key| pointer.split('/').next() == Some(*key))?;
    let tail = pointer.get(key.len() + 1..)?;
    let end = tail.find('/').unwrap_or(tail.len());
    Some((key, tail.get(..end)?.parse().ok()?, tail.get(end..)?))
}

/// The properties and requirements of an object schema, with those of its references and
/// alternatives.
#[derive(Clone, Default)]
struct MergedObject {
    properties: Members,
    places: HashMap<String, usize>,
    required: Vec<String>,
    is_closed: bool,
}

impl MergedObject {
    /// Adds what another schema requires too.
    fn and(&mut self, other: Self) {
        for (name, schema) in other.properties {
            self.add(name, schema, intersect);
        }
        let known: BTreeSet<String> = self.required.iter().cloned().collect();
        self.required.extend(other.required.into_iter().filter(|name| !known.contains(name)));
        self.is_closed |= other.is_closed;
    }

    /// Merges alternatives.
    fn any_of(alternatives: Vec<Self>) -> Self {
        let mut merged = Self {
            is_closed: !alternatives.is_empty() && alternatives.iter().all(|one| one.is_closed),
            ..Self::default()
        };
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for name in alternatives.iter().flat_map(|one| one.required.iter().collect::<BTreeSet<_>>())
        {
            *counts.entry(name).or_default() += 1;
        }
        let first = alternatives.first().map(|one| one.required.as_slice()).unwrap_or_default();
        let is_common = |name: &&String| counts.get(name.as_str()) == Some(&alternatives.len());
        merged.required = first.iter().filter(is_common).cloned().collect();
        for (name, schema) in alternatives.into_iter().flat_map(|one| one.properties) {
            merged.add(name, schema, unite);
        }
        merged
    }

    fn add(&mut self, name: String, schema: Node, combine: fn(&mut Node, Node)) {
        let known = self.places.get(&name).and_then(|place| self.properties.get_mut(*place));
        match known {
            Some((_, known)) => combine(known, schema),
            None => {
                self.places.insert(name.clone(), self.properties.len());
                self.properties.push((name, schema));
            }
        }
    }

    /// Writes the properties and requirements into the members of an object.
    fn write_to(self, members: &mut Members) {
        let required = self.required.iter().map(|name| Node::text(name)).collect::<Vec<_>>();
        let values = [
            ("type", Some(Node::text("object"))),
            ("properties", Some(Node::Object(self.properties))),
            ("required", (!required.is_empty()).then_some(Node::Array(required))),
        ];
        for (key, value) in values {
            if let Some(value) = value {
                crate::tree::set(members, key, value);
            }
        }
        if self.is_closed && get(members, "additionalProperties").is_none() {
            members.push(("additionalProperties".to_owned(), Node::Scalar("false".to_owned())));
        }
    }
}

/// Combines two schemas of a property that must both hold. If their keywords differ, the first one
/// is kept, which accepts more.
fn intersect(known: &mut Node, other: Node) {
    const NOTES: [&str; 5] = ["description", "title", "default", "examples", "$comment"];
    const LINKED: [&str; 4] =
        ["$ref", "additionalProperties", "unevaluatedProperties", "additionalItems"];
    let (Node::Object(members), Node::Object(others)) = (&mut *known, other) else { return };
    let is_free = |key: &str| !LINKED.contains(&key);
    let fits = others.iter().all(|(key, value)| match get(members, key) {
        Some(known) => NOTES.contains(&key.as_str()) || known == value,
        None => is_free(key),
    });
    if fits && members.iter().all(|(key, _)| is_free(key)) {
        let new: Members =
            others.into_iter().filter(|(key, _)| get(members, key).is_none()).collect();
        members.extend(new);
    }
}

/// Combines two schemas of a property of which one must hold.
fn unite(known: &mut Node, other: Node) {
    if *known == other {
        return;
    }
    if let Node::Object(members) = known
        && let [(key, Node::Array(alternatives))] = members.as_mut_slice()
        && key == "anyOf"
    {
        // The comparison of many alternatives with each other would take too long.
        if alternatives.len() > MAX_COMPARED || !alternatives.contains(&other) {
            alternatives.push(other);
        }
        return;
    }
    let first = std::mem::replace(known, Node::Array(Vec::new()));
    *known = Node::Object(vec![("anyOf".to_owned(), Node::Array(vec![first, other]))]);
}

struct Merging<'a> {
    root: &'a Node,
    /// The number of JSON values that were copied.
    copied: usize,
    /// Whether a limit was reached.
    is_cut: bool,
    /// A reference whose target is not in the schema.
    unresolved: Option<String>,
}

impl<'a> Merging<'a> {
    /// Returns the properties and requirements of a schema; `None` if no object satisfies it.
    fn object(&mut self, schema: &'a Node, depth: usize) -> Option<MergedObject> {
        let mut merged = MergedObject::default();
        if schema.is("false") || schema.is("null") {
            return None;
        }
        let types = schema.types();
        if !types.is_empty() && !types.iter().any(|name| name == "object") {
            return None;
        }
        if depth > MAX_DEPTH || self.copied > MAX_COPIED {
            self.is_cut = true;
            return Some(merged);
        }
        self.copied += 1;
        merged.required = schema.texts("required");
        merged.is_closed = schema.get("additionalProperties").is_some_and(|node| node.is("false"));
        for (name, property) in schema.get("properties").map(Node::members).unwrap_or_default() {
            let copy = self.copy(property);
            merged.add(name.clone(), copy, intersect);
        }
        for key in ["$ref", "$dynamicRef"] {
            let Some(reference) = schema.get(key).and_then(Node::as_text) else { continue };
            match self.target(&reference).filter(|target| !std::ptr::eq(*target, schema)) {
                Some(target) => merged.and(self.object(target, depth + 1)?),
                None => self.unresolved = Some(reference.into_owned()),
            }
        }
        for inner in schema.list("allOf") {
            merged.and(self.object(inner, depth + 1)?);
        }
        for key in ["anyOf", "oneOf"] {
            let list = schema.list(key);
            let all: Vec<_> =
                list.iter().filter_map(|inner| self.object(inner, depth + 1)).collect();
            merged.and(MergedObject::any_of(all));
        }
        if depth > 0 {
            merged.and(self.conditional(schema, depth));
        }
        Some(merged)
    }

    /// Returns the properties of `then` and `else`. At the top the condition stays as it is.
    fn conditional(&mut self, schema: &'a Node, depth: usize) -> MergedObject {
        let branches = ["then", "else"].map(|key| schema.get(key));
        let is_always = branches.iter().all(Option::is_some);
        let read = branches.into_iter().flatten();
        let mut all: Vec<_> = read.filter_map(|inner| self.object(inner, depth + 1)).collect();
        if !is_always {
            all.push(MergedObject::default());
        }
        MergedObject::any_of(all)
    }

    fn target(&self, reference: &str) -> Option<&'a Node> {
        self.root.resolve(reference)
    }

    /// Copies a schema, unless too much was copied.
    fn copy(&mut self, schema: &Node) -> Node {
        self.copied = self.copied.saturating_add(count(schema));
        if self.copied > MAX_COPIED {
            self.is_cut = true;
            return Node::Object(Vec::new());
        }
        schema.clone()
    }
}

/// Returns the number of JSON values in a node.
fn count(node: &Node) -> usize {
    match node {
        Node::Scalar(_) => 1,
        Node::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Node::Object(members) => 1 + members.iter().map(|(_, value)| count(value)).sum::<usize>(),
    }
}

/// Adds `items` to arrays, and writes tuples of older drafts with `prefixItems`.
fn complete_arrays(root: &mut Node, losses: &mut Vec<Loss>) {
    let (mut added, mut tuples) = (0, 0);
    each_schema(root, &mut |members| {
        if matches!(get(members, "items"), Some(Node::Array(_)))
            && get(members, "prefixItems").is_none()
            && let Some((key, _)) = members.iter_mut().rev().find(|(key, _)| key == "items")
        {
            "prefixItems".clone_into(key);
            tuples += 1;
            if let Some(others) = take(members, "additionalItems") {
                members.push(("items".to_owned(), others));
            }
        }
        let is_array = match get(members, "type") {
            Some(Node::Array(names)) => names.iter().any(|name| is_text(name, "array")),
            Some(name) => is_text(name, "array"),
            None => get(members, "prefixItems").is_some(),
        };
        if is_array && get(members, "items").is_none() {
            members.push(("items".to_owned(), Node::Object(Vec::new())));
            added += 1;
        }
    });
    if tuples > 0 {
        let what = "lists in \"items\" are written as \"prefixItems\", as providers require";
        losses.push(loss(LossKind::Changed, format!("{what}: {tuples}")));
    }
    if added > 0 {
        let what = "providers require \"items\" in every array";
        losses.push(loss(LossKind::Added, format!("{what}: {added}")));
    }
}

fn is_text(node: &Node, text: &str) -> bool {
    node.as_text().is_some_and(|own: Cow<'_, str>| own == text)
}

/// Calls a function with the members of a schema and of each schema in it.
fn each_schema(schema: &mut Node, visit: &mut dyn FnMut(&mut Members)) {
    let Node::Object(members) = schema else { return };
    visit(members);
    for (key, value) in members {
        match (key.as_str(), value) {
            (
                "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Node::Object(named),
            ) => named.iter_mut().for_each(|(_, schema)| each_schema(schema, visit)),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Node::Array(all)) => {
                all.iter_mut().for_each(|schema| each_schema(schema, visit));
            }
            (
                "items"
                | "additionalProperties"
                | "additionalItems"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                schema,
            ) => each_schema(schema, visit),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expected: &str) {
        let written = accepted(given).map(|accepted| accepted.parameters);
        let written: serde_json::Value = serde_json::from_str(&written.unwrap()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(written, expected, "{given}");
        assert!(accepted(&written.to_string()).is_none(), "a second change of {written}");
    }

    #[test]
    fn alternatives_at_the_top_become_one_object() {
        check(
            r#"{"type":"object","oneOf":[
                {"properties":{"id":{"type":"integer"},"x":{"type":"string"}},"required":["id","x"]},
                {"properties":{"id":{"type":"integer"},"x":{"type":"null"}},"required":["id"]}]}"#,
            r#"{"type":"object","properties":{"id":{"type":"integer"},
                "x":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["id"]}"#,
        );
        check(
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},
                "anyOf":[{"required":["a"]},{"required":["b"]}],"required":["a"]}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},
                "required":["a"]}"#,
        );
        check(
            r#"{"type":"object","allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},
                {"properties":{"b":{"type":"string"},"a":{"minLength":1}},"required":["b"]}]}"#,
            r#"{"type":"object","properties":{"a":{"type":"string","minLength":1},
                "b":{"type":"string"}},"required":["a","b"]}"#,
        );
        // Arguments are an object, so other alternatives never apply.
        check(
            r#"{"type":"object","anyOf":[{"type":"null"},{"type":"object","properties":{"a":{}},
                "required":["a"],"additionalProperties":false}]}"#,
            r#"{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}"#,
        );
        check(
            r#"{"type":"object","properties":{"a":{}},"enum":[{"a":1}],"not":{"required":["b"]}}"#,
            r#"{"type":"object","properties":{"a":{}}}"#,
        );
    }

    #[test]
    fn conditions_among_the_alternatives_keep_their_properties() {
        check(
            r#"{"type":"object","properties":{"k":{"type":"string"}},"allOf":[
                {"if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"a":{}},"required":["a"]}}]}"#,
            r#"{"type":"object","properties":{"k":{"type":"string"},"a":{}}}"#,
        );
    }

    #[test]
    fn a_reference_at_the_top_is_written_in_its_place() {
        check(
            r##"{"type":"object","$ref":"#/$defs/A","$defs":{"A":{"type":"object",
                "properties":{"next":{"$ref":"#/$defs/A"}},"required":["next"]}}}"##,
            r##"{"type":"object","properties":{"next":{"$ref":"#/$defs/A"}},"required":["next"],
                "$defs":{"A":{"type":"object","properties":{"next":{"$ref":"#/$defs/A"}},"required":["next"]}}}"##,
        );
        for (reference, reported) in [("#", false), ("#/$defs/none", true), ("other.json", true)] {
            let given = format!(r#"{{"type":"object","$ref":{reference:?}}}"#);
            let accepted = accepted(&given).unwrap();
            assert_eq!(accepted.parameters, r#"{"type":"object","properties":{}}"#);
            let is_reported = accepted.losses.iter().any(|loss| loss.message.contains("not in"));
            assert!(is_reported || !reported, "{:?}", accepted.losses);
        }
    }

    #[test]
    fn references_into_the_alternatives_still_have_a_target() {
        check(
            r##"{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}},
                {"properties":{"b":{"$ref":"#/anyOf/0/properties/a"}}}]}"##,
            r##"{"type":"object","properties":{"a":{"type":"string"},
                "b":{"$ref":"#/$defs/anyOf_0/properties/a"}},
                "$defs":{"anyOf_0":{"properties":{"a":{"type":"string"}}}}}"##,
        );
    }

    #[test]
    fn every_array_has_items() {
        check(
            r#"{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]},
                "c":{"type":"array","items":{"type":"array"}},"items":{"type":"string"}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"array","items":{}},
                "b":{"type":["array","null"],"items":{}},
                "c":{"type":"array","items":{"type":"array","items":{}}},"items":{"type":"string"}}}"#,
        );
        check(
            r#"{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}],"additionalItems":false}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false}}}"#,
        );
        check(
            r#"{"type":"object","patternProperties":{"^x":{}}}"#,
            r#"{"type":"object","patternProperties":{"^x":{}},"properties":{}}"#,
        );
        assert!(accepted(r#"{"type":"object","properties":{"enum":{"type":"string"}}}"#).is_none());
    }

    #[test]
    fn references_that_multiply_are_cut() {
        let mut definitions = Vec::new();
        for n in 0..40 {
            let next = format!("{{\"$ref\":\"#/$defs/d{}\"}}", n + 1);
            definitions.push(format!(
                r#""d{n}":{{"properties":{{"p{n}":{{"type":"string"}}}},"allOf":[{next},{next}]}}"#
            ));
        }
        let given = format!(
            r##"{{"type":"object","$ref":"#/$defs/d0","$defs":{{{},"d40":{{}}}}}}"##,
            definitions.join(",")
        );
        let accepted = accepted(&given).unwrap();
        assert!(accepted.losses.iter().any(|loss| loss.message.contains("nested too deeply")));
    }
}
