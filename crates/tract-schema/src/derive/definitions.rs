//! Definitions: finds the used ones, inlines scalars, and names the root if it is referenced.

use std::collections::BTreeSet;

use super::DeriveError;
use super::normal::{def_name, join_texts, order, parts};
use crate::tree::{Members, Node, get};

/// Adds the root to the definitions if it is referenced, and rewrites the references. `#` would no
/// longer mean this schema once it is embedded in a request.
pub(super) fn name_root(root: &mut Node, defs: &mut Members, title: String) {
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
        found |= refer(node, &reference);
    }
    if found {
        defs.push((name, root.clone()));
    }
}

/// Rewrites references to the root. Returns whether there are any.
fn refer(node: &mut Node, to: &str) -> bool {
    let refers = node.get("$ref").and_then(Node::as_text).is_some_and(|own| own == "#");
    if refers {
        node.set("$ref", Node::text(to));
    }
    parts(node).into_iter().fold(refers, |found, part| refer(part, to) || found)
}

/// Returns the name of the definition that a node refers to.
fn referred(node: &Node) -> Option<String> {
    def_name(&node.get("$ref")?.as_text()?)
}

/// Inlines definitions of scalars: some providers and models do not follow a reference to a list of
/// values.
pub(super) fn inline_scalars(node: &mut Node, defs: &Members) {
    let scalar = referred(node).and_then(|name| get(defs, &name)).filter(|def| is_scalar(def));
    let Some(def) = scalar else {
        return parts(node).into_iter().for_each(|part| inline_scalars(part, defs));
    };
    node.remove("$ref");
    for (key, value) in def.members() {
        let own = node.get(key).filter(|_| key == "description").and_then(Node::as_text);
        let both = own.map(|own| join_texts(Some(&own), &value.as_text().unwrap_or_default()));
        node.set(key, both.map_or_else(|| value.clone(), |both| Node::text(&both)));
    }
    order(node);
}

fn is_scalar(def: &Node) -> bool {
    let scalar = |name| matches!(name, "string" | "integer" | "number" | "boolean" | "null");
    let types = def.types();
    !types.is_empty() && types.iter().all(|name| scalar(name))
}

/// Returns the names of the definitions that the root reaches.
pub(super) fn used(root: &Node, defs: &Members) -> Result<BTreeSet<String>, DeriveError> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.clone()];
    while let Some(mut node) = open.pop() {
        if let Some(name) = referred(&node)
            && found.insert(name.clone())
        {
            let def = get(defs, &name).cloned();
            open.push(def.ok_or(DeriveError::Reference { reference: name })?);
        }
        let none = || Node::Array(Vec::new());
        open.extend(parts(&mut node).into_iter().map(|part| std::mem::replace(part, none())));
    }
    Ok(found)
}
