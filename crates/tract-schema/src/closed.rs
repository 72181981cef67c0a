//! Closes the objects of a schema to other properties.

use crate::tree::Node;

/// Returns a schema in which every object has `additionalProperties: false`, as Anthropic requires
/// for the schema of an answer. Returns `None` if all have it already, or if the text is not JSON.
///
/// ```
/// use tract_schema::closed;
/// let schema = r#"{"type":"object","properties":{"a":{"type":"string"}}}"#;
/// let expected = r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#;
/// assert_eq!(closed(schema).as_deref(), Some(expected));
/// assert_eq!(closed(expected), None);
/// ```
pub fn closed(schema: &str) -> Option<String> {
    let mut node = Node::parse(schema).ok()?;
    let mut is_changed = false;
    close(&mut node, &mut is_changed);
    is_changed.then(|| node.write())
}

fn close(schema: &mut Node, is_changed: &mut bool) {
    let Node::Object(members) = schema else { return };
    let is_object = members.iter().any(|(key, value)| {
        (key == "type" && names_object(value)) || (key == "properties" && is_map(value))
    });
    let is_closed =
        members.iter().any(|(key, value)| key == "additionalProperties" && value.is("false"));
    if is_object && !is_closed {
        members.retain(|(key, _)| key != "additionalProperties");
        members.push(("additionalProperties".to_owned(), Node::Scalar("false".to_owned())));
        *is_changed = true;
    }
    for (key, value) in members {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions" | "patternProperties", Node::Object(inner)) => {
                inner.iter_mut().for_each(|(_, schema)| close(schema, is_changed));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Node::Array(inner)) => {
                inner.iter_mut().for_each(|schema| close(schema, is_changed));
            }
            ("items" | "not" | "if" | "then" | "else" | "contains", schema) => {
                close(schema, is_changed);
            }
            _ => {}
        }
    }
}

fn is_map(value: &Node) -> bool {
    matches!(value, Node::Object(_))
}

fn names_object(kind: &Node) -> bool {
    match kind {
        Node::Array(kinds) => kinds.iter().any(names_object),
        kind => kind.as_text().as_deref() == Some("object"),
    }
}
