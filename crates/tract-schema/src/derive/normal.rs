//! The normal form.

use super::DeriveError;
use super::alternatives;
use super::definitions::{inline_scalars, name_root, used};
use super::node::{Members, Node, get, list, set, take};

/// How deep a schema may nest; JSON texts nest no deeper either.
const MOST_LEVELS: usize = 128;

/// The order in which members are written; others follow in the order they came in.
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

/// The formats that JSON Schema itself names.
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

/// The bounds that a format of an integer implies. Sizes count as 64 bits everywhere, so that
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

pub(super) fn normalize(root: Node) -> Result<Node, DeriveError> {
    let no_object = || DeriveError::NoObject { found: "a schema that is no object".to_owned() };
    let Node::Object(mut root) = root else { return Err(no_object()) };
    let mut defs = match take(&mut root, "$defs") {
        Some(Node::Object(defs)) => defs,
        _ => Vec::new(),
    };
    let title = get(&root, "title").and_then(Node::as_text).unwrap_or("Root").to_owned();
    let whole = Definitions { root: Node::Object(root.clone()), defs: defs.clone() };
    let mut root = whole.node(Node::Object(root), 0)?;
    for (_, def) in &mut defs {
        *def = whole.node(std::mem::replace(def, Node::Null), 0)?;
    }
    name_root(&mut root, &mut defs, title)?;
    defs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let root = inline_scalars(root, &defs)?;
    let scalars = defs.clone();
    for (_, def) in &mut defs {
        *def = inline_scalars(std::mem::replace(def, Node::Null), &scalars)?;
    }
    check_root(&root)?;
    let used = used(&root, &defs)?;
    defs.retain(|(name, _)| used.contains(name));
    let Node::Object(mut root) = root else { return Err(no_object()) };
    // The tool says what it does; what its arguments are, their own descriptions say.
    take(&mut root, "description");
    if !defs.is_empty() {
        root.push(("$defs".to_owned(), Node::Object(defs)));
    }
    Ok(Node::Object(root))
}

fn check_root(root: &Node) -> Result<(), DeriveError> {
    match root.get("type").and_then(Node::as_text) {
        Some("object") => Ok(()),
        Some(other) => Err(DeriveError::NoObject { found: format!("type {other:?}") }),
        None => Err(DeriveError::NoObject { found: "no single type".to_owned() }),
    }
}

/// What references are resolved in: the schema as it was given.
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

    fn node(&self, node: Node, depth: usize) -> Result<Node, DeriveError> {
        if depth > MOST_LEVELS {
            return Err(DeriveError::Depth { most: MOST_LEVELS });
        }
        let mut members = match node {
            // `true` and `{}` say the same; providers read only the second.
            Node::Bool(true) => return Ok(Node::Object(Vec::new())),
            Node::Bool(false) => {
                return Ok(Node::Object(vec![("not".to_owned(), Node::Object(Vec::new()))]));
            }
            Node::Object(members) => members,
            other => return Err(DeriveError::NoObject { found: other.to_json() }),
        };
        members.retain(|(key, _)| !matches!(key.as_str(), "title" | "$schema" | "$comment"));
        let mut members = alternatives::merge(self, members)?;
        if let Some(branches) = take(&mut members, "oneOf") {
            set(&mut members, "anyOf", branches);
        }
        if let Some(value) = take(&mut members, "const") {
            set(&mut members, "enum", Node::List(vec![value]));
        }
        bound(&mut members);
        unwrap_lines(&mut members);
        fold_constants(&mut members);
        close(&mut members);
        for (key, value) in &mut members {
            let old = std::mem::replace(value, Node::Null);
            if let ("$ref", Node::Text(reference)) = (key.as_str(), &old) {
                self.resolve(reference)?;
            }
            *value = parts(key, old, &mut |part| self.node(part, depth + 1))?;
        }
        order(&mut members);
        Ok(Node::Object(members))
    }
}

/// Rewrites the schemas under a keyword; what is not a schema (a property may be named
/// like a keyword, a default may look like a schema) stays as it is.
pub(super) fn parts(
    key: &str,
    value: Node,
    rewrite: &mut dyn FnMut(Node) -> Result<Node, DeriveError>,
) -> Result<Node, DeriveError> {
    match (key, value) {
        ("properties" | "patternProperties", Node::Object(members)) => {
            let parts = members.into_iter().map(|(name, part)| Ok((name, rewrite(part)?)));
            Ok(Node::Object(parts.collect::<Result<_, DeriveError>>()?))
        }
        ("anyOf" | "allOf" | "prefixItems", Node::List(list)) => {
            Ok(Node::List(list.into_iter().map(rewrite).collect::<Result<_, DeriveError>>()?))
        }
        ("items" | "not" | "contains" | "propertyNames", part) => rewrite(part),
        ("additionalProperties", part @ Node::Object(_)) => rewrite(part),
        (_, value) => Ok(value),
    }
}

pub(super) fn def_name(reference: &str) -> Option<String> {
    let name = reference.strip_prefix("#/$defs/")?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

/// Drops formats that no standard knows, and writes the bounds that they imply.
fn bound(members: &mut Members) {
    let Some(format) = get(members, "format").and_then(Node::as_text).map(str::to_owned) else {
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
                set(members, key, Node::Number((*bound).to_owned()));
            }
        }
    }
}

/// Bounds that are judged and not advertised: they are those of 64 bits, wider than what JSON carries
/// exactly, and some providers refuse schemas with such numbers.
const UNSAID: &[&str] = &["-9223372036854775808", "9223372036854775807", "18446744073709551615"];

/// A schema as it is advertised: without the bounds of 64 bits.
pub(super) fn advertised(node: Node) -> Result<Node, DeriveError> {
    let Node::Object(mut members) = node else { return Ok(node) };
    members.retain(|(key, value)| {
        let unsaid = matches!(value, Node::Number(raw) if UNSAID.contains(&raw.as_str()));
        !(unsaid && matches!(key.as_str(), "minimum" | "maximum"))
    });
    let rewritten = members.into_iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("$defs", Node::Object(named)) => {
                let defs = named.into_iter().map(|(name, def)| Ok((name, advertised(def)?)));
                Node::Object(defs.collect::<Result<_, DeriveError>>()?)
            }
            (key, value) => parts(key, value, &mut advertised)?,
        };
        Ok((key, value))
    });
    Ok(Node::Object(rewritten.collect::<Result<_, DeriveError>>()?))
}

/// Writes alternatives that are texts only as one `enum`, with what they say in the description.
fn fold_constants(members: &mut Members) {
    let branches = list(members, "anyOf");
    let mut values = Vec::new();
    let mut lines = Vec::new();
    for branch in branches {
        let is_constant =
            |key: &str| matches!(key, "type" | "const" | "enum" | "description" | "title");
        let words: Vec<&Node> = match (branch.get("const"), branch.get("enum")) {
            (Some(word), None) => vec![word],
            (None, Some(words)) => words.as_list().iter().collect(),
            _ => return,
        };
        let plain = branch.get("type").and_then(Node::as_text) == Some("string")
            && branch.members().iter().all(|(key, _)| is_constant(key));
        if !plain || words.is_empty() {
            return;
        }
        if let Some(text) = branch.get("description").and_then(Node::as_text) {
            let names: Vec<String> = words.iter().map(|word| word.to_json()).collect();
            lines.push(format!("- {}: {}", names.join(", "), one_line(text)));
        }
        values.extend(words.into_iter().cloned());
    }
    if values.is_empty() {
        return;
    }
    take(members, "anyOf");
    set(members, "type", Node::text("string"));
    set(members, "enum", Node::List(values));
    if !lines.is_empty() {
        let text =
            join_texts(get(members, "description").and_then(Node::as_text), &lines.join("\n"));
        set(members, "description", Node::Text(text));
    }
}

/// A line break within a paragraph of a doc comment is a space, as in Markdown.
fn unwrap_lines(members: &mut Members) {
    let Some(Node::Text(text)) = get(members, "description") else { return };
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
    set(members, "description", Node::Text(out));
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
    match get(members, "type") {
        Some(Node::Text(name)) => name == "object",
        Some(Node::List(names)) => names.iter().any(|name| name.as_text() == Some("object")),
        _ => get(members, "properties").is_some(),
    }
}

/// Closes an object with named properties. A map says of what its values are, and stays open.
fn close(members: &mut Members) {
    // Alternatives of an object are closed each by itself.
    if !is_object(members) || get(members, "anyOf").is_some() || get(members, "$ref").is_some() {
        return;
    }
    let rest = get(members, "additionalProperties");
    let (open, is_map) = (rest.is_some(), rest.is_some_and(|rest| *rest != Node::Bool(false)));
    let named = get(members, "properties").is_some() || get(members, "patternProperties").is_some();
    if !named && !is_map {
        set(members, "properties", Node::Object(Vec::new()));
    }
    if !open {
        set(members, "additionalProperties", Node::Bool(false));
    }
    if get(members, "required").is_some_and(|list| list.as_list().is_empty()) {
        take(members, "required");
    }
}

pub(super) fn order(members: &mut Members) {
    members
        .sort_by_key(|(key, _)| ORDER.iter().position(|name| name == key).unwrap_or(ORDER.len()));
}
