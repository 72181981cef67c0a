//! A schema as a graph, with separate edges for subschemas applied to the same value and for those
//! applied to values inside of it.
//!
//! The graph over-approximates: where the target of a reference is ambiguous, it has an edge to
//! every candidate. A missing edge would let a hostile schema pass the limits.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{LimitError, SchemaLimits};

/// Maximum depth of arguments; the JSON parser rejects deeper texts.
const DEEPEST: usize = 128;

/// Reference prefixes that the validator resolves without fetching anything.
const KNOWN: [&str; 3] =
    ["http://json-schema.org/", "https://json-schema.org/", "http://www.json-schema.org/"];

/// The subschemas that a schema applies.
#[derive(Default)]
struct SubschemaLinks {
    /// Applied to the same value; references come last.
    in_place: Vec<usize>,
    /// The number of references at the end of `in_place`.
    references: usize,
    /// Whether the subschemas applied in place are evaluated twice.
    is_twice: bool,
    /// Applied to one named property each.
    properties: Vec<usize>,
    /// Applied to every property.
    any_property: Vec<usize>,
    /// Applied to one array index each.
    places: Vec<usize>,
    /// Applied to every array item.
    any_item: Vec<usize>,
}

impl SubschemaLinks {
    /// Returns the subschemas in this one that apply to the same value, and the targets of
    /// references.
    fn split_references(&self) -> (&[usize], &[usize]) {
        self.in_place.split_at(self.in_place.len() - self.references)
    }

    /// Returns the subschemas that apply to values inside of the value.
    fn to_inner_values(&self) -> impl Iterator<Item = &usize> {
        [&self.properties, &self.any_property, &self.places, &self.any_item].into_iter().flatten()
    }
}

/// A step of compiling a schema. The context tells apart the paths of references to a subschema.
enum CompileStep {
    Compile {
        node: usize,
        context: usize,
    },
    /// Find the properties and items that a subschema covers.
    Walk {
        node: usize,
        context: usize,
    },
    Leave {
        node: usize,
    },
}

pub(super) struct Graph<'a> {
    values: Vec<&'a Value>,
    links: Vec<SubschemaLinks>,
}

impl<'a> Graph<'a> {
    pub(super) fn of(root: &'a Value, limits: &SchemaLimits) -> Result<Self, LimitError> {
        let mut graph = Self { values: Vec::new(), links: Vec::new() };
        let mut index = HashMap::new();
        let mut identified = Vec::new();
        let mut anchors: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut stack = vec![(root, 0)];
        while let Some((value, depth)) = stack.pop() {
            if depth > limits.depth {
                return Err(LimitError::too_large("levels", limits.depth, depth));
            }
            if graph.values.len() == limits.nodes {
                return Err(LimitError::too_large("values", limits.nodes, limits.nodes + 1));
            }
            let node = graph.values.len();
            index.insert(std::ptr::from_ref(value), node);
            graph.values.push(value);
            match value {
                Value::Object(members) => {
                    if members.get("$id").is_some_and(Value::is_string) {
                        identified.push(node);
                    }
                    for key in ["$anchor", "$dynamicAnchor"] {
                        if let Some(anchor) = members.get(key).and_then(Value::as_str) {
                            anchors.entry(anchor).or_default().push(node);
                        }
                    }
                    stack.extend(members.values().map(|value| (value, depth + 1)));
                }
                Value::Array(items) => stack.extend(items.iter().map(|value| (value, depth + 1))),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let resolver = Resolver { root, index: &index, identified, anchors };
        // A reference can have a target in each subschema with an `$id`, so the number of
        // candidates can be quadratic in the size of the schema.
        let mut meant = 0;
        for node in 0..graph.values.len() {
            let mut links = SubschemaLinks::default();
            if let Some(Value::Object(members)) = graph.values.get(node) {
                meant += resolver.places_of_references(members);
                if meant > limits.nodes {
                    let what = "places that references may mean";
                    return Err(LimitError::too_large(what, limits.nodes, meant));
                }
                links = resolver.links(members, &graph.values)?;
            }
            graph.links.push(links);
        }
        Ok(graph)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the nodes in topological order: each comes after the nodes that it applies in place.
    pub(super) fn in_place_order(&self) -> Result<Vec<usize>, LimitError> {
        let mut waiting = vec![0_usize; self.len()];
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.len()];
        for (node, links) in self.links.iter().enumerate() {
            waiting[node] = links.in_place.len();
            for target in &links.in_place {
                users[*target].push(node);
            }
        }
        let mut order: Vec<usize> = (0..self.len()).filter(|node| waiting[*node] == 0).collect();
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for user in &users[node] {
                waiting[*user] -= 1;
                if waiting[*user] == 0 {
                    order.push(*user);
                }
            }
        }
        // A subschema that applies itself to the same value, perhaps through others, has no place
        // in the order. Checking it would not end.
        if order.len() == self.len() {
            return Ok(order);
        }
        let reference = (0..self.len())
            .filter(|node| waiting[*node] > 0)
            .find_map(|node| self.values[node].get("$ref")?.as_str())
            .unwrap_or("$dynamicRef");
        Err(LimitError::Cycle { reference: reference.to_owned() })
    }

    /// Returns the reachable subschemas that apply several others to one value and have no `type`.
    /// Unreachable objects, such as a map of properties, are not schemas and must not be changed.
    #[cfg(feature = "validate")]
    pub(super) fn uncounted_branches(&self) -> HashSet<*const Value> {
        let mut seen = vec![false; self.len()];
        let mut branches = HashSet::new();
        let mut stack = vec![0];
        while let Some(node) = stack.pop() {
            if std::mem::replace(&mut seen[node], true) {
                continue;
            }
            stack.extend(self.applied_by(node));
            let value = self.values[node];
            if self.links[node].in_place.len() > 1 && value.get("type").is_none() {
                branches.insert(std::ptr::from_ref(value));
            }
        }
        branches
    }

    /// Returns the subschemas that a node applies, to its own value or to values in it.
    fn applied_by(&self, node: usize) -> impl Iterator<Item = usize> {
        let links = &self.links[node];
        links.in_place.iter().chain(links.to_inner_values()).copied()
    }

    /// Returns the maximum depth of a depth-first walk that visits each subschema once.
    pub(super) fn longest_path(&self) -> usize {
        let next = |node: usize| self.applied_by(node);
        let mut seen = vec![false; self.len()];
        seen[0] = true;
        let mut stack = vec![next(0)];
        let mut deepest = 1;
        while let Some(steps) = stack.last_mut() {
            match steps.find(|target| !seen[*target]) {
                Some(target) => {
                    seen[target] = true;
                    stack.push(next(target));
                    deepest = deepest.max(stack.len());
                }
                None => {
                    stack.pop();
                }
            }
        }
        deepest
    }

    /// Checks the number of subschemas that a validator compiles, at most `limit`.
    ///
    /// A subschema is compiled once, and so is the target of a reference. But for
    /// `unevaluatedProperties` and `unevaluatedItems` the validator walks everything that is applied
    /// to the same value again, along every path, and compiles it once more behind each reference.
    /// A chain of doublings is 2ⁿ then, before any value is checked.
    pub(super) fn check_compiled(&self, limit: usize) -> Result<(), LimitError> {
        if !self.links.iter().any(|links| links.is_twice) {
            return Ok(());
        }
        let (mut steps, mut contexts) = (0, 0);
        // Nodes that are being walked: the validator does not enter them again.
        let mut entered = vec![false; self.len()];
        let mut compiled = HashSet::new();
        let mut resolved = vec![false; self.len()];
        let mut stack = vec![CompileStep::Compile { node: 0, context: 0 }];
        while let Some(step) = stack.pop() {
            steps += 1;
            if steps > limit {
                let what = "subschemas to compile for unevaluatedProperties or unevaluatedItems";
                return Err(LimitError::too_large(what, limit, steps));
            }
            match step {
                CompileStep::Compile { node, context } => {
                    if !compiled.insert((context, node)) {
                        continue;
                    }
                    let (applied, references) = self.links[node].split_references();
                    let inner = applied.iter().chain(self.links[node].to_inner_values());
                    stack.extend(inner.map(|node| CompileStep::Compile { node: *node, context }));
                    for target in references {
                        if !std::mem::replace(&mut resolved[*target], true) {
                            stack.push(CompileStep::Compile { node: *target, context: 0 });
                        }
                    }
                    if self.links[node].is_twice {
                        stack.push(CompileStep::Walk { node, context });
                    }
                }
                CompileStep::Walk { node, context } => {
                    if std::mem::replace(&mut entered[node], true) {
                        continue;
                    }
                    stack.push(CompileStep::Leave { node });
                    let links = &self.links[node];
                    let (applied, references) = links.split_references();
                    for node in applied.iter().copied() {
                        stack.push(CompileStep::Walk { node, context });
                        stack.push(CompileStep::Compile { node, context });
                    }
                    let inner = [&links.any_property, &links.places, &links.any_item];
                    let inner = inner.into_iter().flatten();
                    stack.extend(inner.map(|node| CompileStep::Compile { node: *node, context }));
                    for node in references.iter().copied() {
                        contexts += 1;
                        stack.push(CompileStep::Walk { node, context: contexts });
                    }
                }
                CompileStep::Leave { node } => entered[node] = false,
            }
        }
        Ok(())
    }

    /// Returns the maximum depth of arguments at which one path costs at most `work`; `None` if the
    /// depth does not matter.
    pub(super) fn growth(&self, order: &[usize], work: u64) -> Result<Option<usize>, LimitError> {
        // First, the cost of each node at the value itself.
        let mut cost = vec![1_u64; self.len()];
        for node in order {
            cost[*node] = self.in_place(*node, &cost).saturating_add(1);
        }
        if cost[0] > work {
            return Err(LimitError::TooMuchWork { limit: work });
        }
        // Then the cost at a value nested `depth` levels below.
        for depth in 1..=DEEPEST {
            // A value is either an object or an array, so the costs of the two are not added.
            let (mut object, mut array) = (vec![0_u64; self.len()], vec![0_u64; self.len()]);
            for node in order {
                let links = &self.links[*node];
                let step = |one: &[usize], any: &[usize], own: &[u64]| {
                    self.in_place(*node, own)
                        .saturating_add(self.most(one, &cost))
                        .saturating_add(self.sum(any, &cost))
                };
                object[*node] = step(&links.properties, &links.any_property, &object);
                array[*node] = step(&links.places, &links.any_item, &array);
            }
            let below: Vec<u64> = object.iter().zip(&array).map(|(o, a)| *o.max(a)).collect();
            if below[0] > work {
                return Ok(Some(depth - 1));
            }
            if below == cost || below.iter().all(|cost| *cost == 0) {
                return Ok(None);
            }
            cost = below;
        }
        Ok(None)
    }

    /// Returns the cost of the subschemas that a node applies in place.
    fn in_place(&self, node: usize, cost: &[u64]) -> u64 {
        let links = &self.links[node];
        self.sum(&links.in_place, cost).saturating_mul(1 + u64::from(links.is_twice))
    }

    fn sum(&self, nodes: &[usize], cost: &[u64]) -> u64 {
        nodes.iter().fold(0, |sum, node| sum.saturating_add(cost[*node]))
    }

    fn most(&self, nodes: &[usize], cost: &[u64]) -> u64 {
        nodes.iter().map(|node| cost[*node]).max().unwrap_or(0)
    }
}

struct Resolver<'a, 'i> {
    root: &'a Value,
    index: &'i HashMap<*const Value, usize>,
    /// Nodes with an `$id`.
    identified: Vec<usize>,
    anchors: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Resolver<'a, '_> {
    /// Returns an upper bound of the targets of a subschema's references.
    fn places_of_references(&self, members: &Map<String, Value>) -> usize {
        let references = ["$ref", "$dynamicRef", "$recursiveRef"];
        let count = references.iter().filter(|key| members.contains_key(**key)).count();
        let anchored = self.anchors.values().map(Vec::len).max().unwrap_or(0);
        count * (1 + self.identified.len().max(anchored))
    }

    fn links(
        &self,
        members: &'a Map<String, Value>,
        values: &[&'a Value],
    ) -> Result<SubschemaLinks, LimitError> {
        let mut links = SubschemaLinks::default();
        let node = |value: &Value| self.index[&std::ptr::from_ref(value)];
        let mut references = Vec::new();
        for (key, value) in members {
            let listed = || value.as_array().into_iter().flatten().map(node);
            let named = || value.as_object().into_iter().flat_map(Map::values).map(node);
            match key.as_str() {
                "allOf" | "anyOf" | "oneOf" => links.in_place.extend(listed()),
                "not" | "if" | "then" | "else" => links.in_place.push(node(value)),
                "dependentSchemas" | "dependencies" => links.in_place.extend(named()),
                "properties" => links.properties.extend(named()),
                "patternProperties" => links.any_property.extend(named()),
                "additionalProperties" | "propertyNames" => links.any_property.push(node(value)),
                "unevaluatedProperties" => {
                    links.any_property.push(node(value));
                    // The subschemas at the same value are evaluated once more, to find the
                    // properties that they cover.
                    links.is_twice = true;
                }
                "prefixItems" => links.places.extend(listed()),
                "items" if value.is_array() => links.places.extend(listed()),
                "items" | "additionalItems" | "contains" => links.any_item.push(node(value)),
                "unevaluatedItems" => {
                    links.any_item.push(node(value));
                    links.is_twice = true;
                }
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    if let Some(reference) = value.as_str() {
                        references.extend(self.targets(reference, values)?);
                    }
                }
                _ => {}
            }
        }
        links.references = references.len();
        links.in_place.append(&mut references);
        Ok(links)
    }

    /// Returns every possible target of a reference. The base URI in force is not computed, so
    /// every subschema with an `$id` is a candidate.
    fn targets(&self, reference: &str, values: &[&'a Value]) -> Result<Vec<usize>, LimitError> {
        if KNOWN.iter().any(|known| reference.starts_with(known)) {
            return Ok(Vec::new());
        }
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !base.is_empty() && self.identified.is_empty() {
            return Err(LimitError::NotLocal { reference: reference.to_owned() });
        }
        let roots = self.identified.iter().map(|node| values[*node]);
        // An embedded resource matches if its `$id` ends with the last segment of the reference.
        let tail = base.rsplit('/').next().unwrap_or(base);
        let ends = |value: &&Value| {
            let id = value.get("$id").and_then(Value::as_str).unwrap_or_default();
            base.is_empty() || id.trim_end_matches('#').ends_with(tail)
        };
        let roots: Vec<&Value> = if base.is_empty() {
            roots.chain([self.root]).collect()
        } else {
            roots.filter(ends).collect()
        };
        if roots.is_empty() {
            return Err(LimitError::NotLocal { reference: reference.to_owned() });
        }
        let fragment = decoded(fragment);
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return Ok(self.anchors.get(fragment.as_str()).cloned().unwrap_or_default());
        }
        let mut found: Vec<usize> = roots
            .into_iter()
            .filter_map(|root| root.pointer(&fragment))
            .filter_map(|value| self.index.get(&std::ptr::from_ref(value)).copied())
            .collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Decodes percent-encoding; invalid sequences are kept.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digits = match byte {
            b'%' => ahead.next().zip(ahead.next()),
            _ => None,
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        match digits.and_then(|(a, b)| Some((digit(a)?, digit(b)?))) {
            Some((high, low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(byte));
                rest = ahead;
            }
            None => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
