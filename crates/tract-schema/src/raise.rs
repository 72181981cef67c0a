//! Converts the arguments of a strict call back to those of the original schema.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tract_core::json::JsonError;

use crate::tree::{Node, escaped};

/// Arguments that follow the original schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaisedArguments {
    /// The arguments.
    pub arguments: String,
    /// Paths of the removed nulls, each for an absent property, such as `/edits/0/line`.
    pub left_out: Vec<String>,
}

/// Converts the arguments of a strict call to those of the original schema. A null for an optional
/// property that does not accept null means that the property is absent, so it is removed.
/// Everything else is unchanged.
///
/// # Behavior
/// - In `anyOf` and `oneOf`, only branches that the value can be an answer to are considered; the
///   strict form of each branch has all its properties. A null is kept if one of them accepts it.
/// - The work is bounded by the sizes of both texts, regardless of the schema's references. If the
///   bound is exceeded, the arguments are returned unchanged.
///
/// # Errors
/// [`JsonError`] if one of the texts is not JSON.
pub fn raise(parameters: &str, arguments: &str) -> Result<RaisedArguments, JsonError> {
    let root = Node::parse(parameters)?;
    let value = Node::parse(arguments)?;
    let mut work = RaiseState {
        root: &root,
        steps: MOST_STEPS,
        absent: HashMap::new(),
        accepts: HashMap::new(),
        rules: HashMap::new(),
    };
    let absent = work.absent(&root, &value);
    let mut left_out = Vec::new();
    if absent.is_empty() || work.steps == 0 {
        return Ok(RaisedArguments { arguments: arguments.to_owned(), left_out });
    }
    let better = without(&value, &absent, &mut String::new(), &mut left_out);
    Ok(RaisedArguments { arguments: better.write(), left_out })
}

/// Maximum number of visited pairs of schema and value, plus copied set entries.
const MOST_STEPS: usize = 4_000_000;

/// The addresses of the nulls that mean absent properties.
type Absent = Rc<HashSet<usize>>;

fn place(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

/// Returns a copy without the given nulls, and lists their paths. An object's own nulls come before
/// nested ones.
fn without(
    node: &Node,
    absent: &HashSet<usize>,
    path: &mut String,
    left_out: &mut Vec<String>,
) -> Node {
    let length = path.len();
    match node {
        Node::Scalar(raw) => Node::Scalar(raw.clone()),
        Node::Array(items) => {
            let mut copy = Vec::with_capacity(items.len());
            for (n, item) in items.iter().enumerate() {
                path.push_str(&format!("/{n}"));
                copy.push(without(item, absent, path, left_out));
                path.truncate(length);
            }
            Node::Array(copy)
        }
        Node::Object(members) => {
            let step = |name: &str| format!("/{}", escaped(name));
            let is_absent = |value: &Node| absent.contains(&place(value));
            let dropped = members.iter().filter(|(_, value)| is_absent(value));
            left_out.extend(dropped.map(|(name, _)| format!("{path}{}", step(name))));
            let mut copy = Vec::with_capacity(members.len());
            for (name, value) in members.iter().filter(|(_, value)| !is_absent(value)) {
                path.push_str(&step(name));
                copy.push((name.clone(), without(value, absent, path, left_out)));
                path.truncate(length);
            }
            Node::Object(copy)
        }
    }
}

/// The strictness of comparing a value with a branch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum View {
    /// As an answer in strict mode: an object has exactly the properties of the schema.
    Strict,
    /// As any value: properties may be missing.
    Loose,
}

/// The rules of a schema for objects.
struct Rules<'a> {
    properties: HashMap<&'a str, &'a Node>,
    required: HashSet<Cow<'a, str>>,
    others: Option<&'a Node>,
}

struct RaiseState<'a> {
    root: &'a Node,
    steps: usize,
    absent: HashMap<(usize, usize), Absent>,
    accepts: HashMap<(usize, usize, View), bool>,
    rules: HashMap<usize, Rc<Rules<'a>>>,
}

impl<'a> RaiseState<'a> {
    fn spend(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_sub(steps);
        self.steps > 0
    }

    fn target(&self, schema: &'a Node) -> Option<&'a Node> {
        let reference = schema.get("$ref").and_then(Node::as_text)?;
        self.root.resolve(&reference)
    }

    fn rules(&mut self, schema: &'a Node) -> Rc<Rules<'a>> {
        if let Some(known) = self.rules.get(&place(schema)) {
            return Rc::clone(known);
        }
        let listed = |key| schema.get(key).map(Node::members).unwrap_or_default();
        let rules = Rc::new(Rules {
            properties: listed("properties").iter().map(|(name, part)| (&**name, part)).collect(),
            required: schema.list("required").iter().filter_map(Node::as_text).collect(),
            others: schema.get("additionalProperties"),
        });
        self.steps = self.steps.saturating_sub(rules.properties.len());
        self.rules.insert(place(schema), Rc::clone(&rules));
        rules
    }

    /// Returns the nulls within a value that mean absent properties, according to a schema.
    fn absent(&mut self, schema: &'a Node, value: &Node) -> Absent {
        let key = (place(schema), place(value));
        if let Some(known) = self.absent.get(&key) {
            return Rc::clone(known);
        }
        let none = Absent::default();
        if matches!(value, Node::Scalar(_)) || !schema.is_object() || !self.spend(1) {
            return none;
        }
        // Recursive references find this entry, so the recursion ends.
        self.absent.insert(key, Rc::clone(&none));
        let mut all = HashSet::new();
        for part in self.target(schema).into_iter().chain(schema.list("allOf")) {
            all.extend(self.absent(part, value).iter());
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(branches) = schema.get(key) {
                all.extend(self.absent_of_any(branches.items(), value));
            }
        }
        match value {
            Node::Object(members) => self.absent_members(schema, members, &mut all),
            Node::Array(items) => {
                if let Some(schema) = schema.get("items") {
                    for item in items {
                        all.extend(self.absent(schema, item).iter());
                    }
                }
            }
            Node::Scalar(_) => {}
        }
        self.spend(all.len());
        let all = Rc::new(all);
        self.absent.insert(key, Rc::clone(&all));
        all
    }

    fn absent_members(
        &mut self,
        schema: &'a Node,
        members: &[(String, Node)],
        all: &mut HashSet<usize>,
    ) {
        let rules = self.rules(schema);
        for (name, value) in members {
            let Some(property) = rules.properties.get(name.as_str()) else { continue };
            if !value.is("null") {
                all.extend(self.absent(property, value).iter());
            } else if !rules.required.contains(name.as_str())
                && !self.accepts(property, value, View::Loose)
            {
                all.insert(place(value));
            }
        }
    }

    /// Returns the nulls that mean absent properties in every branch that the value can be an
    /// answer to.
    fn absent_of_any(&mut self, branches: &'a [Node], value: &Node) -> HashSet<usize> {
        for view in [View::Strict, View::Loose] {
            let mut common: Option<HashSet<usize>> = None;
            for branch in branches {
                if self.accepts(branch, value, view) && !self.leads_round(branch, value) {
                    let absent = self.absent(branch, value);
                    self.spend(absent.len());
                    common = Some(match common {
                        None => absent.iter().copied().collect(),
                        Some(common) => common.intersection(&absent).copied().collect(),
                    });
                }
            }
            if let Some(common) = common {
                return common;
            }
        }
        HashSet::new()
    }

    /// Returns whether a branch is a reference back to a schema that is being visited for this
    /// value.
    fn leads_round(&self, branch: &'a Node, value: &Node) -> bool {
        self.target(branch)
            .and_then(|target| self.absent.get(&(place(target), place(value))))
            .is_some_and(|known| known.is_empty() && Rc::strong_count(known) > 1)
    }

    /// Returns whether a value can be an answer to a schema. A pair that is still being checked
    /// counts as fitting, because references can be recursive.
    fn accepts(&mut self, schema: &'a Node, value: &Node, view: View) -> bool {
        if !schema.is_object() {
            return !schema.is("false");
        }
        let key = (place(schema), place(value), view);
        if let Some(known) = self.accepts.get(&key) {
            return *known;
        }
        if !self.spend(1) {
            return true;
        }
        // Recursive references find this entry, so the recursion ends.
        self.accepts.insert(key, true);
        let accepts = self.fits(schema, value, view);
        self.accepts.insert(key, accepts);
        accepts
    }

    fn fits(&mut self, schema: &'a Node, value: &Node, view: View) -> bool {
        let list = |key| schema.get(key).map(Node::items);
        let names = schema.types();
        if !names.is_empty() && !names.iter().any(|name| has_type(name, value)) {
            return false;
        }
        self.spend(schema.list("enum").len());
        if list("enum").is_some_and(|words| !words.iter().any(|word| same(word, value)))
            || schema.get("const").is_some_and(|only| !same(only, value))
        {
            return false;
        }
        if let Some(target) = self.target(schema)
            && !self.accepts(target, value, view)
        {
            return false;
        }
        if !schema.list("allOf").iter().all(|part| self.accepts(part, value, view)) {
            return false;
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(branches) = list(key)
                && !branches.iter().any(|branch| self.accepts(branch, value, view))
            {
                return false;
            }
        }
        match value {
            Node::Object(members) => self.fits_members(schema, members, view),
            Node::Array(items) => schema
                .get("items")
                .is_none_or(|schema| items.iter().all(|item| self.accepts(schema, item, view))),
            Node::Scalar(_) => true,
        }
    }

    fn fits_members(&mut self, schema: &'a Node, members: &[(String, Node)], view: View) -> bool {
        let rules = self.rules(schema);
        let closed = match rules.others {
            Some(others) => others.is("false"),
            None => view == View::Strict && !rules.properties.is_empty(),
        };
        let mut present = 0;
        for (name, value) in members {
            let fits = match rules.properties.get(name.as_str()) {
                Some(property) => {
                    present += 1;
                    value.is("null") && !rules.required.contains(name.as_str())
                        || self.accepts(property, value, view)
                }
                None => {
                    !closed && rules.others.is_none_or(|others| self.accepts(others, value, view))
                }
            };
            if !fits {
                return false;
            }
        }
        view == View::Loose || present == rules.properties.len()
    }
}

fn has_type(name: &str, value: &Node) -> bool {
    let raw = match value {
        Node::Object(_) => return name == "object",
        Node::Array(_) => return name == "array",
        Node::Scalar(raw) => raw.as_str(),
    };
    match raw.as_bytes().first() {
        Some(b'"') => name == "string",
        Some(b't' | b'f') => name == "boolean",
        Some(b'n') => name == "null",
        _ => name == "number" || name == "integer" && number(raw).is_some_and(|n| n.fract() == 0.0),
    }
}

fn number(raw: &str) -> Option<f64> {
    raw.parse().ok()
}

fn same(a: &Node, b: &Node) -> bool {
    match (a, b) {
        (Node::Scalar(x), Node::Scalar(y)) => {
            x == y
                || a.as_text().is_some_and(|text| b.as_text() == Some(text))
                || number(x).is_some_and(|number| self::number(y) == Some(number))
        }
        _ => a == b,
    }
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

    /// Two alternatives of an object with different tags: one accepts null, the other does not.
    const FORMS: &str = r##"{"properties":{"x":{"anyOf":[
        {"type":"object","properties":{"kind":{"const":"move"},"to":{"type":"string"}},"required":["kind"]},
        {"type":"object","properties":{"kind":{"const":"drop"},"to":{"type":["string","null"]}},"required":["kind","to"]}]}}}"##;

    #[test]
    fn null_stays_where_the_form_that_is_meant_takes_it() {
        let needed = r#"{"x":{"kind":"drop","to":null}}"#;
        check(FORMS, needed, needed, &[]);
        check(FORMS, r#"{"x":{"kind":"move","to":null}}"#, r#"{"x":{"kind":"move"}}"#, &["/x/to"]);
        // Forms without a tag are distinguished by their properties.
        let untagged = r##"{"properties":{"x":{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}},"$defs":{
            "a":{"properties":{"n":{"type":"integer"},"m":{"type":"number"}}},
            "b":{"properties":{"n":{"type":["integer","null"]}},"required":["n"]}}}"##;
        let needed = r#"{"x":{"n":null}}"#;
        check(untagged, needed, needed, &[]);
        check(untagged, r#"{"x":{"n":null,"m":1.50}}"#, r#"{"x":{"m":1.50}}"#, &["/x/n"]);
    }

    #[test]
    fn null_stays_where_only_a_reference_says_that_it_is_taken() {
        let given = r##"{"properties":{"x":{"anyOf":[{"$ref":"#/$defs/x"},{"type":"string"}]}},
            "$defs":{"x":{"type":["integer","null"]}}}"##;
        let arguments = r#"{"x":null}"#;
        check(given, arguments, arguments, &[]);
    }

    #[test]
    fn forms_within_forms_cost_their_product_and_no_power() {
        let deep = r##"{"$ref":"#/$defs/t","$defs":{"t":{"anyOf":[
            {"type":"object","properties":{"x":{"$ref":"#/$defs/t"}}},
            {"type":"object","properties":{"x":{"$ref":"#/$defs/t"},"n":{"type":"integer"}}}]}}}"##;
        let value = r#"{"x":"#.repeat(100) + r#"{"x":null,"n":null}"# + &"}".repeat(100);
        let raised = raise(deep, &value).unwrap();
        assert_eq!(raised.left_out.len(), 2);
    }

    #[test]
    fn references_that_go_round_and_double_cost_nothing() {
        let given = r##"{"properties":{"x":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[
            {"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"},{"$ref":"#/$defs/y"}]},"y":{"allOf":[{"$ref":"#/$defs/x"},
            {"$ref":"#/$defs/y"}],"properties":{"n":{"type":"integer"}}}}}"##;
        check(given, r#"{"x":{"n":null}}"#, r#"{"x":{}}"#, &["/x/n"]);
    }
}
