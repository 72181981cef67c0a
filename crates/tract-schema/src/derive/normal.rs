//! Converts a schema into normal form.

use std::borrow::Cow;

use super::DeriveError;
use super::alternatives;
use super::definitions::{inline_scalars, name_root, used};
use crate::tree::{Members, Node, get, set, take};

/// Maximum depth of a schema; the JSON parser has the same limit.
const MOST_LEVELS: usize = 128;

/// The order in which members are written. Other members follow in their original order.
const ORDER: &[&str] = &[
    "type",
    "description",
    "$ref",
    "enum",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "prefixItems",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "default",
    "examples",
];

/// The formats that JSON Schema defines.
const FORMATS: &[&str] = &[
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// The bounds that an integer format implies. `usize` and `isize` are 64 bits everywhere, so that
/// the schema is the same on every machine.
const BOUNDS: &[(&str, &str, &str)] = &[
    ("int8", "-128", "127"),
    ("int16", "-32768", "32767"),
    ("int32", "-2147483648", "2147483647"),
    ("int64", "-9223372036854775808", "9223372036854775807"),
    ("int", "-9223372036854775808", "9223372036854775807"),
    ("uint8", "0", "255"),
    ("uint16", "0", "65535"),
    ("uint32", "0", "4294967295"),
    ("uint64", "0", "18446744073709551615"),
    ("uint", "0", "18446744073709551615"),
];

pub(super) fn normalize(mut root: Node) -> Result<Node, DeriveError> {
    if !root.is_object() {
        return Err(DeriveError::NoObject { found: "a schema that is no object".to_owned() });
    }
    respell(&mut root);
    let mut defs = match root.remove("$defs") {
        Some(Node::Object(defs)) => defs,
        _ => Vec::new(),
    };
    let title = root.get("title").and_then(Node::as_text).unwrap_or("Root".into()).into_owned();
    let whole = Definitions { root: root.clone(), defs: defs.clone() };
    whole.node(&mut root, 0)?;
    for (_, def) in &mut defs {
        whole.node(def, 0)?;
    }
    name_root(&mut root, &mut defs, title);
    defs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let scalars = defs.clone();
    inline_scalars(&mut root, &scalars);
    defs.iter_mut().for_each(|(_, def)| inline_scalars(def, &scalars));
    check_root(&root)?;
    let used = used(&root, &defs)?;
    defs.retain(|(name, _)| used.contains(name));
    // The tool has its own description, and the arguments have theirs.
    root.remove("description");
    if !defs.is_empty() {
        root.set("$defs", Node::Object(defs));
    }
    Ok(root)
}

/// Rewrites every string in its canonical spelling.
fn respell(node: &mut Node) {
    match node {
        Node::Array(items) => items.iter_mut().for_each(respell),
        Node::Object(members) => members.iter_mut().for_each(|(_, part)| respell(part)),
        Node::Scalar(raw) if raw.contains('\\') => {
            let text = node.as_text().map(|text| Node::text(&text));
            text.into_iter().for_each(|text| *node = text);
        }
        Node::Scalar(_) => {}
    }
}

fn check_root(root: &Node) -> Result<(), DeriveError> {
    match root.get("type").and_then(Node::as_text).as_deref() {
        Some("object") => Ok(()),
        Some(other) => Err(DeriveError::NoObject { found: format!("type {other:?}") }),
        None => Err(DeriveError::NoObject { found: "no single type".to_owned() }),
    }
}

/// The original schema, in which references are resolved.
pub(super) struct Definitions {
    root: Node,
    defs: Members,
}

impl Definitions {
    pub(super) fn resolve(&self, reference: &str) -> Result<&Node, DeriveError> {
        let unknown = || DeriveError::Reference { reference: reference.to_owned() };
        match def_name(reference) {
            Some(name) => get(&self.defs, &name).ok_or_else(unknown),
            None if reference == "#" => Ok(&self.root),
            None => Err(unknown()),
        }
    }

    fn node(&self, node: &mut Node, depth: usize) -> Result<(), DeriveError> {
        if depth > MOST_LEVELS {
            return Err(DeriveError::Depth { most: MOST_LEVELS });
        }
        let members = match node {
            Node::Object(members) => members,
            // `true` and `{}` are equivalent, but providers accept only the second.
            node if node.is("true") || node.is("false") => {
                let not = node.is("false").then(|| ("not".to_owned(), Node::Object(Vec::new())));
                *node = Node::Object(not.into_iter().collect());
                return Ok(());
            }
            other => return Err(DeriveError::NoObject { found: other.write() }),
        };
        members.retain(|(key, _)| !matches!(key.as_str(), "title" | "$schema" | "$comment"));
        *members = alternatives::merge(self, std::mem::take(members))?;
        if let Some(branches) = take(members, "oneOf") {
            set(members, "anyOf", branches);
        }
        if let Some(value) = take(members, "const") {
            set(members, "enum", Node::Array(vec![value]));
        }
        bound(members);
        unwrap_lines(members);
        fold_constants(members);
        close(members);
        if let Some(reference) = node.get("$ref").and_then(Node::as_text) {
            self.resolve(&reference)?;
        }
        for part in parts(node) {
            self.node(part, depth + 1)?;
        }
        order(node);
        Ok(())
    }
}

/// Returns the direct subschemas of a schema. Members that are not schemas are excluded: a property
/// may be named like a keyword, and a default may look like a schema.
pub(super) fn parts(schema: &mut Node) -> Vec<&mut Node> {
    let Node::Object(members) = schema else { return Vec::new() };
    let mut parts = Vec::new();
    for (key, value) in members {
        match (key.as_str(), value) {
            ("properties" | "patternProperties", Node::Object(named)) => {
                parts.extend(named.iter_mut().map(|(_, part)| part));
            }
            ("anyOf" | "allOf" | "prefixItems", Node::Array(list)) => parts.extend(list),
            ("items" | "not" | "contains" | "propertyNames", part) => parts.push(part),
            ("additionalProperties", part @ Node::Object(_)) => parts.push(part),
            _ => {}
        }
    }
    parts
}

pub(super) fn def_name(reference: &str) -> Option<String> {
    let name = reference.strip_prefix("#/$defs/")?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

/// Removes non-standard formats and adds the bounds that they imply.
fn bound(members: &mut Members) {
    let Some(format) = get(members, "format").and_then(Node::as_text).map(Cow::into_owned) else {
        return;
    };
    if !FORMATS.contains(&format.as_str()) {
        take(members, "format");
    }
    if let Some((_, low, high)) = BOUNDS.iter().find(|(name, ..)| *name == format) {
        for (key, open, bound) in
            [("minimum", "exclusiveMinimum", low), ("maximum", "exclusiveMaximum", high)]
        {
            if get(members, key).is_none() && get(members, open).is_none() {
                set(members, key, Node::Scalar((*bound).to_owned()));
            }
        }
    }
}

/// Bounds that are enforced but not advertised. They are 64-bit numbers, which JSON does not
/// represent exactly, and some providers reject schemas with them.
const UNSAID: &[&str] = &["-9223372036854775808", "9223372036854775807", "18446744073709551615"];

/// Prepares a schema for advertising: removes 64-bit bounds, and moves references with a
/// description into an `anyOf`, where the description is not ignored.
pub(super) fn advertise(schema: &mut Node) {
    let Node::Object(members) = schema else { return };
    members.retain(|(key, value)| {
        let unsaid = UNSAID.iter().any(|bound| value.is(bound));
        !(unsaid && matches!(key.as_str(), "minimum" | "maximum"))
    });
    if let Some(Node::Object(defs)) = schema.get_mut("$defs") {
        defs.iter_mut().for_each(|(_, def)| advertise(def));
    }
    schema.describe_reference();
    parts(schema).into_iter().for_each(advertise);
}

/// Converts alternatives that are all string constants into one `enum`, with their texts in the
/// description.
fn fold_constants(members: &mut Members) {
    let branches = get(members, "anyOf").map(Node::items).unwrap_or_default();
    let mut values = Vec::new();
    let mut lines = Vec::new();
    for branch in branches {
        let is_constant =
            |key: &str| matches!(key, "type" | "const" | "enum" | "description" | "title");
        let words: Vec<&Node> = match (branch.get("const"), branch.get("enum")) {
            (Some(word), None) => vec![word],
            (None, Some(words)) => words.items().iter().collect(),
            _ => return,
        };
        let plain = branch.get("type").and_then(Node::as_text).as_deref() == Some("string")
            && branch.members().iter().all(|(key, _)| is_constant(key));
        if !plain || words.is_empty() {
            return;
        }
        if let Some(text) = branch.get("description").and_then(Node::as_text) {
            let names: Vec<String> = words.iter().map(|word| word.write()).collect();
            lines.push(format!("- {}: {}", names.join(", "), one_line(&text)));
        }
        values.extend(words.into_iter().cloned());
    }
    if values.is_empty() {
        return;
    }
    take(members, "anyOf");
    set(members, "type", Node::text("string"));
    set(members, "enum", Node::Array(values));
    if !lines.is_empty() {
        let own = get(members, "description").and_then(Node::as_text);
        let text = join_texts(own.as_deref(), &lines.join("\n"));
        set(members, "description", Node::text(&text));
    }
}

/// Joins the lines of each paragraph of a doc comment, as Markdown does.
fn unwrap_lines(members: &mut Members) {
    let Some(text) = get(members, "description").and_then(Node::as_text) else { return };
    if !text.contains('\n') || text.contains("```") {
        return;
    }
    let mut out = String::with_capacity(text.len());
    for line in text.lines().map(str::trim_end) {
        let continues =
            line.starts_with(|letter: char| letter.is_alphabetic() || "`(\"'".contains(letter));
        if !out.is_empty() {
            out.push(if continues && !out.ends_with('\n') { ' ' } else { '\n' });
        }
        out.push_str(line);
    }
    set(members, "description", Node::text(&out));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn join_texts(first: Option<&str>, second: &str) -> String {
    match first {
        Some(first) if !first.is_empty() && first != second => {
            let apart = if second.starts_with("- ") { "\n" } else { "\n\n" };
            format!("{first}{apart}{second}")
        }
        _ => second.to_owned(),
    }
}

fn is_object(members: &[(String, Node)]) -> bool {
    let Some(kind) = get(members, "type") else { return get(members, "properties").is_some() };
    let mut names = std::iter::once(kind).chain(kind.items()).filter_map(Node::as_text);
    names.any(|name| name == "object")
}

/// Closes an object with named properties. A map declares the type of its values and stays open.
fn close(members: &mut Members) {
    // The alternatives of an object are closed one by one.
    if !is_object(members) || get(members, "anyOf").is_some() || get(members, "$ref").is_some() {
        return;
    }
    let rest = get(members, "additionalProperties");
    let (open, is_map) = (rest.is_some(), rest.is_some_and(|rest| !rest.is("false")));
    let named = get(members, "properties").is_some() || get(members, "patternProperties").is_some();
    if !named && !is_map {
        set(members, "properties", Node::Object(Vec::new()));
    }
    if !open {
        set(members, "additionalProperties", Node::Scalar("false".to_owned()));
    }
    if get(members, "required").is_some_and(|list| list.items().is_empty()) {
        take(members, "required");
    }
}

pub(super) fn order(schema: &mut Node) {
    let Node::Object(members) = schema else { return };
    members
        .sort_by_key(|(key, _)| ORDER.iter().position(|name| name == key).unwrap_or(ORDER.len()));
}
