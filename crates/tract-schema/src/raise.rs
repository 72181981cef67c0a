//! Arguments of a strict call, brought back to what the schema as given means.

use tract_core::json::JsonError;

use crate::strict::takes_null;
use crate::tree::Node;

/// Arguments as the schema as given means them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Raised {
    /// The arguments.
    pub arguments: String,
    /// Where null stood for what was left out, as `/edits/0/line`.
    pub left_out: Vec<String>,
}

/// Brings arguments of a strict call back to the schema as given: null where a property is optional
/// and takes no null means that it was left out. All else stays as written.
///
/// The work is bounded by the sizes of both texts together, whatever the schema refers to.
///
/// # Errors
/// [`JsonError`] when one of the texts is no JSON.
pub fn raise(parameters: &str, arguments: &str) -> Result<Raised, JsonError> {
    let root = Node::parse(parameters)?;
    let mut value = Node::parse(arguments)?;
    let mut work = Work { root: &root, left_out: Vec::new() };
    work.value(&root, &mut value, &mut Vec::new(), "");
    let arguments = match work.left_out.is_empty() {
        true => arguments.to_owned(),
        false => value.write(),
    };
    Ok(Raised { arguments, left_out: work.left_out })
}

struct Work<'a> {
    root: &'a Node,
    left_out: Vec<String>,
}

impl<'a> Work<'a> {
    /// Holds a value against a schema; `seen` are the schemas that it was held against already, for
    /// references may go round.
    fn value(
        &mut self,
        schema: &'a Node,
        value: &mut Node,
        seen: &mut Vec<*const Node>,
        path: &str,
    ) {
        if seen.len() > MOST_AT_ONE_PLACE || seen.contains(&std::ptr::from_ref(schema)) {
            return;
        }
        seen.push(schema);
        if let Some(target) = schema
            .get("$ref")
            .and_then(Node::as_text)
            .and_then(|reference| self.root.resolve(&reference))
        {
            self.value(target, value, seen, path);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            for branch in schema.get(key).map(Node::items).unwrap_or_default() {
                self.value(branch, value, seen, path);
            }
        }
        match value {
            Node::Object(members) => self.members(schema, members, path),
            Node::Array(items) => {
                if let Some(schema) = schema.get("items") {
                    for (n, item) in items.iter_mut().enumerate() {
                        self.value(schema, item, &mut Vec::new(), &format!("{path}/{n}"));
                    }
                }
            }
            Node::Scalar(_) => {}
        }
    }

    fn members(&mut self, schema: &'a Node, members: &mut Vec<(String, Node)>, path: &str) {
        let Some(properties) = schema.get("properties") else { return };
        let required = schema.get("required").map(Node::items).unwrap_or_default();
        let here = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        members.retain(|(name, value)| {
            let Some(property) = properties.get(name).filter(|_| value.is_null()) else {
                return true;
            };
            let is_required = required.iter().any(|item| item.as_text().as_ref() == Some(name));
            let means_absent = !is_required && refuses_null(self.meant(property));
            if means_absent {
                self.left_out.push(here(name));
            }
            !means_absent
        });
        for (name, value) in members {
            if let Some(property) = properties.get(name) {
                self.value(property, value, &mut Vec::new(), &here(name));
            }
        }
    }

    /// What a chain of references ends at.
    fn meant(&self, mut schema: &'a Node) -> &'a Node {
        for _ in 0..LONGEST_CHAIN {
            let reference = schema.get("$ref").and_then(Node::as_text);
            match reference.and_then(|reference| self.root.resolve(&reference)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

/// How many schemas one value is held against at most.
const MOST_AT_ONE_PLACE: usize = 256;
/// How many references in a row are followed.
const LONGEST_CHAIN: usize = 32;

/// Whether a schema says what it takes, and null is none of it.
fn refuses_null(schema: &Node) -> bool {
    let says = ["type", "enum", "anyOf", "oneOf"].iter().any(|key| schema.get(key).is_some());
    let only = schema.get("const").is_some_and(|only| !only.is_null());
    only || says && !takes_null(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, arguments: &str, expected: &str, left_out: &[&str]) {
        let raised = raise(schema, arguments).unwrap();
        assert_eq!(raised.arguments, expected);
        assert_eq!(raised.left_out, left_out);
    }

    #[test]
    fn null_stays_where_the_schema_takes_it() {
        let given = r#"{"properties":{"a":{"type":["string","null"]},"b":{}}}"#;
        let arguments = r#"{"a":null, "b":null,"c":null}"#;
        check(given, arguments, arguments, &[]);
    }

    #[test]
    fn null_that_means_absent_is_left_out_at_every_depth() {
        let given = r##"{"properties":{"list":{"items":{"$ref":"#/$defs/item"}},"a/b":{"type":"string"},
            "k":{"const":1}},"$defs":{"item":{"$ref":"#/$defs/real"},"real":{"properties":
            {"next":{"$ref":"#/$defs/item"},"n":{"type":"integer"}},"type":"object","required":["n"]}}}"##;
        check(
            given,
            r#"{"list":[{"n":1,"next":{"n":2,"next":null}},{"n":null,"next":null}],"a/b":null,"k":null}"#,
            r#"{"list":[{"n":1,"next":{"n":2}},{"n":null}]}"#,
            &["/a~1b", "/k", "/list/0/next/next", "/list/1/next"],
        );
    }

    #[test]
    fn references_that_go_round_and_double_cost_nothing() {
        let given = r##"{"properties":{"x":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[
            {"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"},{"$ref":"#/$defs/y"}]},"y":{"allOf":[{"$ref":"#/$defs/x"},
            {"$ref":"#/$defs/y"}],"properties":{"n":{"type":"integer"}}}}}"##;
        check(given, r#"{"x":{"n":null}}"#, r#"{"x":{}}"#, &["/x/n"]);
    }
}
