//! Definitions: which are used, which are written out, and the name of a root that is one.

use std::collections::BTreeSet;

use super::DeriveError;
use super::node::{Members, Node, get, set, take};
use super::normal::{def_name, join_texts, order, parts};

/// Gives a root that is referred to a name among the definitions: `#` means another thing as soon
/// as the schema is part of a request.
pub(super) fn name_root(
    root: &mut Node,
    defs: &mut Members,
    title: String,
) -> Result<(), DeriveError> {
    let mut name: String = title
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
        .collect();
    while get(defs, &name).is_some() {
        name.push('_');
    }
    let reference = format!("#/$defs/{name}");
    let mut found = false;
    for node in std::iter::once(&mut *root).chain(defs.iter_mut().map(|(_, def)| def)) {
        *node = referred(std::mem::replace(node, Node::Null), &reference, &mut found)?;
    }
    if found {
        defs.push((name, root.clone()));
    }
    Ok(())
}

fn referred(node: Node, to: &str, found: &mut bool) -> Result<Node, DeriveError> {
    let Node::Object(mut members) = node else { return Ok(node) };
    for (key, value) in &mut members {
        let old = std::mem::replace(value, Node::Null);
        *value = match (key.as_str(), old.as_text()) {
            ("$ref", Some("#")) => {
                *found = true;
                Node::text(to)
            }
            _ => parts(key, old, &mut |part| referred(part, to, found))?,
        };
    }
    Ok(Node::Object(members))
}

/// Writes definitions without parts of their own where they are used: not every provider and
/// model follows a reference to a list of words.
pub(super) fn inline_scalars(node: Node, defs: &Members) -> Result<Node, DeriveError> {
    let Node::Object(mut members) = node else { return Ok(node) };
    let name = get(&members, "$ref").and_then(Node::as_text).and_then(def_name);
    let scalar = name.and_then(|name| get(defs, &name)).filter(|def| is_scalar(def));
    if let Some(def) = scalar {
        take(&mut members, "$ref");
        for (key, value) in def.members() {
            match (key.as_str(), get(&members, key).and_then(Node::as_text)) {
                ("description", Some(own)) => {
                    let both = join_texts(Some(own), value.as_text().unwrap_or_default());
                    set(&mut members, key, Node::Text(both));
                }
                _ => set(&mut members, key, value.clone()),
            }
        }
        order(&mut members);
        return Ok(Node::Object(members));
    }
    for (key, value) in &mut members {
        let old = std::mem::replace(value, Node::Null);
        *value = parts(key, old, &mut |part| inline_scalars(part, defs))?;
    }
    Ok(Node::Object(members))
}

fn is_scalar(def: &Node) -> bool {
    let scalar = |name: &str| matches!(name, "string" | "integer" | "number" | "boolean" | "null");
    match def.get("type") {
        Some(Node::Text(name)) => scalar(name),
        Some(Node::List(names)) => names.iter().all(|name| name.as_text().is_some_and(scalar)),
        _ => false,
    }
}

/// The names of the definitions that the root reaches.
pub(super) fn used(root: &Node, defs: &Members) -> Result<BTreeSet<String>, DeriveError> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.clone()];
    while let Some(node) = open.pop() {
        let Node::Object(members) = node else { continue };
        if let Some(name) = get(&members, "$ref").and_then(Node::as_text).and_then(def_name)
            && found.insert(name.clone())
        {
            let def = get(defs, &name).cloned();
            open.push(def.ok_or(DeriveError::Reference { reference: name })?);
        }
        for (key, value) in members {
            parts(&key, value, &mut |part| {
                open.push(part);
                Ok(Node::Null)
            })?;
        }
    }
    Ok(found)
}
