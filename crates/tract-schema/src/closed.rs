//! Closes the objects of a schema to other properties.

use crate::tree::Node;

/// A schema whose objects are closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedSchema {
    /// The schema.
    pub schema: String,
    /// JSON pointers to the objects whose `additionalProperties` was a schema, which is lost.
    pub lost: Vec<String>,
}

/// Returns a schema in which every object has `additionalProperties: false`, as Anthropic requires
/// for the schema of an answer. Returns `None` if all have it already, or if the text is not JSON.
///
/// ```
/// use tract_schema::closed;
/// let schema = r#"{"type":"object","properties":{"a":{"type":"string"}}}"#;
/// let expected = r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#;
/// assert_eq!(closed(schema).map(|closed| closed.schema).as_deref(), Some(expected));
/// assert_eq!(closed(expected), None);
/// ```
pub fn closed(schema: &str) -> Option<ClosedSchema> {
    let mut node = Node::parse(schema).ok()?;
    let mut closing = Closing::default();
    closing.close(&mut node);
    closing.is_changed.then(|| ClosedSchema { schema: node.write(), lost: closing.lost })
}

#[derive(Default)]
struct Closing {
    is_changed: bool,
    lost: Vec<String>,
    path: Vec<String>,
}

impl Closing {
    fn close(&mut self, schema: &mut Node) {
        let Node::Object(members) = schema else { return };
        let is_object = members.iter().any(|(key, value)| {
            (key == "type" && names_object(value)) || (key == "properties" && is_map(value))
        });
        let others = members.iter().find(|(key, _)| key == "additionalProperties");
        let is_closed = others.is_some_and(|(_, value)| value.is("false"));
        if is_object && !is_closed {
            if others.is_some_and(|(_, value)| is_map(value)) {
                self.lost.push(self.pointer());
            }
            members.retain(|(key, _)| key != "additionalProperties");
            members.push(("additionalProperties".to_owned(), Node::Scalar("false".to_owned())));
            self.is_changed = true;
        }
        for (key, value) in members {
            self.path.push(key.clone());
            match (key.as_str(), value) {
                (
                    "properties" | "$defs" | "definitions" | "patternProperties",
                    Node::Object(inner),
                ) => {
                    for (name, schema) in inner {
                        self.path.push(name.clone());
                        self.close(schema);
                        self.path.pop();
                    }
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Node::Array(inner)) => {
                    for (place, schema) in inner.iter_mut().enumerate() {
                        self.path.push(place.to_string());
                        self.close(schema);
                        self.path.pop();
                    }
                }
                ("items" | "not" | "if" | "then" | "else" | "contains", schema) => {
                    self.close(schema);
                }
                _ => {}
            }
            self.path.pop();
        }
    }

    fn pointer(&self) -> String {
        let step = |step: &String| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
        match self.path.is_empty() {
            true => "/".to_owned(),
            false => self.path.iter().map(step).collect(),
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
