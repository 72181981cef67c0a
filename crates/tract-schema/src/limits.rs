//! Limits against hostile schemas: bounds the work that a schema can cause before it is run.
//!
//! A schema is a graph: `$ref` can point anywhere, and a few lines can require more work than a
//! machine can do. Five things are measured: the size; the depth; the number of subschemas applied
//! to the same value (a chain of doublings such as
//! `{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]}` is 2ⁿ); references that reach themselves
//! without stepping into the value; and the growth of the work with each level of the arguments.

mod graph;

#[cfg(feature = "validate")]
use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use self::graph::Graph;

/// Limits on a schema and on validating arguments against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaLimits {
    /// Bytes of the schema; 1 MiB by default.
    pub bytes: usize,
    /// Levels of the schema's own text; 64 by default.
    pub depth: usize,
    /// JSON values in the schema; 100,000 by default.
    pub nodes: usize,
    /// Length of the longest path from subschema to subschema, including references; 500 by
    /// default.
    pub chain: usize,
    /// Subschemas applied to one value of the arguments, summed over any one path down to it;
    /// 100,000 by default.
    pub work: u64,
    /// Bytes of all patterns together, as written; 32 KiB by default.
    pub pattern_text: usize,
    /// Bytes of all compiled patterns together; 1 MiB by default.
    pub pattern_bytes: usize,
    /// Steps for validating the arguments of one call. Each value that a keyword reads is one step.
    /// Matching a text against patterns costs one step for each byte of text and eight states of
    /// the schema's largest pattern. 20,000,000 by default, which takes about a second.
    pub steps: u64,
    /// Bytes of the errors that are collected if arguments do not fit, before the first few are
    /// described; 16 MiB by default.
    pub error_bytes: u64,
    /// Time limit for validating the arguments of one call; 10 seconds by default.
    pub time: Duration,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        Self {
            bytes: 1 << 20,
            depth: 64,
            nodes: 100_000,
            chain: 500,
            work: 100_000,
            pattern_text: 32 << 10,
            pattern_bytes: 1 << 20,
            steps: 20_000_000,
            error_bytes: 16 << 20,
            time: Duration::from_secs(10),
        }
    }
}

/// The reason that a schema is rejected before it is run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// It is too large or too deep.
    #[error("the schema has {found} {what}, expected at most {limit}")]
    TooLarge {
        /// The quantity that exceeds its limit.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The value found.
        found: usize,
    },
    /// It applies more subschemas to one value than allowed.
    #[error("the schema needs more than {limit} checks of one value")]
    TooMuchWork {
        /// The limit.
        limit: u64,
    },
    /// A reference refers to itself without stepping into the value.
    #[error("the reference {reference:?} refers to itself")]
    Cycle {
        /// The reference.
        reference: String,
    },
    /// A reference points outside of the schema.
    #[error(
        "the reference {reference:?} points outside of the schema: expected one that begins with #"
    )]
    NotLocal {
        /// The reference.
        reference: String,
    },
}

impl LimitError {
    pub(crate) fn too_large(what: &'static str, limit: usize, found: usize) -> Self {
        Self::TooLarge { what, limit, found }
    }

    /// Returns hints on how to fix the error.
    pub fn notes(&self) -> Vec<String> {
        vec![
            match self {
                Self::TooLarge { .. } => "split the tool, or describe less of its arguments",
                Self::TooMuchWork { .. } => "name each subschema once, not in nested lists",
                Self::Cycle { .. } => "a recursive schema recurses through properties or items",
                Self::NotLocal { .. } => {
                    "nothing is fetched: copy what is meant under $defs and refer to that"
                }
            }
            .to_owned(),
        ]
    }
}

/// The measurements of a schema within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaMeasure {
    /// JSON values in the schema.
    pub nodes: usize,
    /// Maximum depth of the arguments, including scalars, at which checking stays within
    /// [`SchemaLimits::work`]; `None` if the depth does not matter.
    pub arguments_depth: Option<usize>,
}

/// Measures a schema.
///
/// # Errors
/// [`LimitError`] if it exceeds a limit, or cannot be measured.
///
/// # Complexity
/// O(size) for schemas that do not recurse, else O(size × 128).
pub fn measure(schema: &Value, limits: &SchemaLimits) -> Result<SchemaMeasure, LimitError> {
    measured_graph(schema, limits).map(|(_, measure)| measure)
}

/// Measures a schema. Also returns a copy in which a validator reads the value whenever it enters a
/// subschema that applies several others to the same value.
///
/// Such subschemas, for example an `allOf` of two references, can double the work without reading
/// the value, so a validator that counts reads would not notice. The copy accepts the same values:
/// the added `type` lists all types, so checking it reads the value and rejects nothing, and
/// validators check `type` first.
#[cfg(feature = "validate")]
pub(crate) fn measure_counting_branches(
    schema: &Value,
    limits: &SchemaLimits,
) -> Result<(SchemaMeasure, Value), LimitError> {
    let (graph, measure) = measured_graph(schema, limits)?;
    Ok((measure, with_types(schema, &graph.uncounted_branches())))
}

/// Copies a schema and adds a `type` with all types to the given subschemas.
#[cfg(feature = "validate")]
fn with_types(value: &Value, branches: &HashSet<*const Value>) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| with_types(item, branches)).collect(),
        Value::Object(members) => {
            let copied =
                |(key, member): (&String, &Value)| (key.clone(), with_types(member, branches));
            let mut members: serde_json::Map<_, _> = members.iter().map(copied).collect();
            if branches.contains(&std::ptr::from_ref(value)) {
                let types = ["array", "boolean", "null", "number", "object", "string"];
                members.insert("type".to_owned(), types.into_iter().collect());
            }
            Value::Object(members)
        }
        scalar => scalar.clone(),
    }
}

fn measured_graph<'a>(
    schema: &'a Value,
    limits: &SchemaLimits,
) -> Result<(Graph<'a>, SchemaMeasure), LimitError> {
    let graph = Graph::of(schema, limits)?;
    let order = graph.in_place_order()?;
    let chain = graph.longest_path();
    if chain > limits.chain {
        let what = "steps from subschema to subschema";
        return Err(LimitError::too_large(what, limits.chain, chain));
    }
    graph.check_compiled(limits.nodes)?;
    let arguments_depth = graph.growth(&order, limits.work)?;
    let measure = SchemaMeasure { nodes: graph.len(), arguments_depth };
    Ok((graph, measure))
}

/// Returns the depth of a value: the number of levels below it. Scalars count, because schemas are
/// applied to them too.
#[cfg(feature = "validate")]
pub(crate) fn depth(value: &Value) -> usize {
    let below = |inner: &Value| 1 + depth(inner);
    match value {
        Value::Array(items) => items.iter().map(below).max().unwrap_or(0),
        Value::Object(members) => members.values().map(below).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(schema: &Value) -> Result<SchemaMeasure, LimitError> {
        measure(schema, &SchemaLimits::default())
    }

    /// Definitions that each refer to the next one through the schema that `link` returns.
    fn chain(count: usize, link: fn(Value) -> Value) -> Value {
        let next = |n: usize| json!({"$ref": format!("#/$defs/d{n}")});
        let defs = (0..count).map(|n| (format!("d{n}"), link(next(n + 1))));
        let defs = defs.chain([(format!("d{count}"), json!({}))]);
        json!({"$defs": defs.collect::<serde_json::Map<_, _>>(), "$ref": "#/$defs/d0"})
    }

    #[test]
    fn plain_and_recursive_schemas_pass() {
        let plain = json!({"type":"object","properties":{"a":{"type":"string"}}});
        assert_eq!(measured(&plain).unwrap().arguments_depth, None);
        let tree = json!({"$defs":{"node":{"properties":{"left":{"$ref":"#/$defs/node"},
            "right":{"$ref":"#/$defs/node"}}}},"$ref":"#/$defs/node"});
        assert_eq!(measured(&tree).unwrap().arguments_depth, None);
        let any = json!({"$defs":{"json":{"anyOf":[{"type":"string"},
            {"type":"object","additionalProperties":{"$ref":"#/$defs/json"}},
            {"type":"array","items":{"$ref":"#/$defs/json"}}]}},"$ref":"#/$defs/json"});
        assert_eq!(measured(&any).unwrap().arguments_depth, None);
    }

    #[test]
    fn doublings_are_refused() {
        let schema = chain(40, |next| json!({"allOf":[next, next]}));
        assert!(matches!(measured(&schema), Err(LimitError::TooMuchWork { .. })));
    }

    #[test]
    fn doublings_to_compile_are_refused_where_only_inner_values_reach_them() {
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            for link in ["allOf", "anyOf", "oneOf"] {
                let mut schema = chain(40, |next| json!({"anyOf": [next, next]}));
                let text = schema.to_string().replace("anyOf", link);
                schema = serde_json::from_str(&text).unwrap();
                let first = json!({"$ref": "#/$defs/d0", keyword: false});
                let defs = schema["$defs"].take();
                let below = json!({"$defs": defs, "properties": {"x": first}});
                let refused = measured(&below);
                assert!(
                    matches!(refused, Err(LimitError::TooLarge { .. })),
                    "{below}: {refused:?}"
                );
            }
        }
    }

    #[test]
    fn nested_objects_that_allow_no_other_properties_pass() {
        let mut schema = json!({"type": "object", "unevaluatedProperties": false});
        for _ in 0..25 {
            schema = json!({"properties": {"x": schema}, "unevaluatedProperties": false,
                "$defs": {"base": {"properties": {"id": {}}}}});
        }
        assert_eq!(measured(&schema).unwrap().arguments_depth, None);
        let tree = json!({"$defs":{"node":{"properties":{"left":{"$ref":"#/$defs/node"},
            "right":{"$ref":"#/$defs/node"}},"unevaluatedProperties":false}},
            "allOf":[{"$ref":"#/$defs/node"}],"unevaluatedProperties":false});
        assert_eq!(measured(&tree).unwrap().arguments_depth, None);
    }

    #[test]
    fn doublings_through_the_arguments_limit_their_depth() {
        let again = json!({"properties":{"x":{"$ref":"#"}}});
        let schema = json!({"allOf":[again, again]});
        let depth = measured(&schema).unwrap().arguments_depth;
        assert!(depth.is_some_and(|depth| (10..20).contains(&depth)), "{depth:?}");
    }

    #[test]
    fn references_that_go_round_are_refused() {
        for schema in [
            json!({"$ref":"#"}),
            json!({"allOf":[{"$ref":"#"}]}),
            json!({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},
                "$ref":"#/$defs/a"}),
            json!({"$id":"http://x.test/a","$ref":"a"}),
            json!({"$defs":{"a":{"$anchor":"me","$ref":"#me"}},"$ref":"#me"}),
        ] {
            assert!(matches!(measured(&schema), Err(LimitError::Cycle { .. })), "{schema}");
        }
    }

    #[test]
    fn references_to_elsewhere_are_refused() {
        for reference in ["file:///etc/passwd", "http://localhost:1/x.json", "other.json#/a"] {
            let schema = json!({"properties":{"a":{"$ref":reference}}});
            assert!(matches!(measured(&schema), Err(LimitError::NotLocal { .. })), "{schema}");
        }
    }

    #[test]
    fn long_chains_are_refused() {
        let schema = chain(5000, |next| json!({"properties":{"x":next}}));
        assert!(matches!(measured(&schema), Err(LimitError::TooLarge { .. })));
    }
}
