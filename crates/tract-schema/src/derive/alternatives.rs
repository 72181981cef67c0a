//! Merges objects that are written in several parts (flattened structs and enums, variants with a
//! named struct) into closed alternatives. A part that is closed by itself would reject the
//! properties of the others, and draft-07 ignores members next to a reference.

use super::DeriveError;
use super::normal::Definitions;
use crate::tree::{Members, Node, get, set, take};

/// Maximum number of alternatives for one object.
const MOST: usize = 64;

/// Maximum nesting depth of parts.
const MOST_LEVELS: usize = 16;

/// Merges an object with several parts. Other schemas are returned unchanged.
pub(super) fn merge(
    definitions: &Definitions,
    mut members: Members,
) -> Result<Members, DeriveError> {
    if !in_parts(&members) {
        if let Some(open @ Node::Scalar(_)) = take(&mut members, "unevaluatedProperties") {
            set(&mut members, "additionalProperties", open);
        }
        return Ok(members);
    }
    let is_outer = |key: &str| matches!(key, "description" | "default" | "examples");
    let (mut outer, inner): (Members, Members) =
        members.iter().cloned().partition(|(key, _)| is_outer(key));
    let Some(mut found) = expand(definitions, inner, 0)? else {
        return Ok(members);
    };
    if found.len() == 1
        && let Some(only) = found.pop()
    {
        for (key, value) in only {
            if get(&outer, &key).is_none() {
                outer.push((key, value));
            }
        }
        return Ok(outer);
    }
    set(&mut outer, "type", Node::text("object"));
    set(&mut outer, "anyOf", Node::Array(found.into_iter().map(Node::Object).collect()));
    Ok(outer)
}

fn in_parts(members: &[(String, Node)]) -> bool {
    let has = |key| get(members, key).is_some();
    let own = has("properties") || has("required") || has("unevaluatedProperties");
    has("allOf") || (own && (has("oneOf") || has("anyOf") || has("$ref")))
}

/// Returns the alternatives, or `None` if a part is not an object.
fn expand(
    definitions: &Definitions,
    mut members: Members,
    depth: usize,
) -> Result<Option<Vec<Members>>, DeriveError> {
    if depth > MOST_LEVELS {
        return Err(DeriveError::Depth { most: MOST_LEVELS });
    }
    let mut parts: Vec<Vec<Node>> = Vec::new();
    if let Some(reference) = take(&mut members, "$ref").as_ref().and_then(Node::as_text) {
        parts.push(vec![definitions.resolve(&reference)?.clone()]);
    }
    if let Some(Node::Array(all)) = take(&mut members, "allOf") {
        parts.extend(all.into_iter().map(|part| vec![part]));
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(Node::Array(branches)) = take(&mut members, key) {
            parts.push(branches);
        }
    }
    if let Some(rest) = take(&mut members, "unevaluatedProperties").filter(|rest| !rest.is("false"))
    {
        set(&mut members, "additionalProperties", rest);
    }
    for key in ["title", "$schema", "$defs"] {
        take(&mut members, key);
    }
    let object = match get(&members, "type") {
        Some(kind) => kind.as_text().as_deref() == Some("object"),
        None => get(&members, "enum").is_none() && get(&members, "const").is_none(),
    };
    if !object {
        return Ok(None);
    }
    let mut found = vec![members];
    for branches in parts {
        let mut options = Vec::new();
        for branch in branches {
            let Node::Object(branch) = branch else { return Ok(None) };
            let Some(expanded) = expand(definitions, branch, depth + 1)? else { return Ok(None) };
            options.extend(expanded);
        }
        if found.len() * options.len() > MOST {
            return Err(DeriveError::Alternatives { most: MOST });
        }
        found = found
            .iter()
            .flat_map(|have| options.iter().map(move |more| joined(have, more)))
            .collect();
    }
    Ok(Some(found))
}

fn joined(have: &Members, more: &Members) -> Members {
    let mut out = have.clone();
    for (key, value) in more {
        match (out.iter_mut().find(|(name, _)| name == key), value) {
            (None, _) => out.push((key.clone(), value.clone())),
            (Some((_, Node::Object(old))), Node::Object(new))
                if matches!(key.as_str(), "properties" | "patternProperties") =>
            {
                for (name, part) in new {
                    if get(old, name).is_none() {
                        old.push((name.clone(), part.clone()));
                    }
                }
            }
            (Some((_, Node::Array(old))), Node::Array(new)) if key == "required" => {
                for name in new {
                    if !old.contains(name) {
                        old.push(name.clone());
                    }
                }
            }
            // If one part is open, the merged object is open too.
            (Some((_, old)), new) if key == "additionalProperties" => {
                if old.is("false") {
                    *old = new.clone();
                }
            }
            (Some(_), _) => {}
        }
    }
    out
}
