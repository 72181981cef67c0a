//! Validates arguments against a schema in normal form.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::{Map, Number, Value};
use tract_core::nearest;

use super::normal::def_name;
use super::values::{
    article, compare, equal, has_type, is_integer_key, one_of, refuses, settle_integer, shown,
    unique,
};
use crate::tree::{Node, get};

/// Maximum number of reported mismatches.
const MOST_FAULTS: usize = 16;

/// Maximum number of consecutive references without a step into the arguments.
const MOST_REFERENCES: u32 = 64;

/// Returns whether the result of comparing a value with a bound is allowed.
type BoundCheck = fn(std::cmp::Ordering) -> bool;

/// A part of the arguments that does not fit the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The path, such as `edits[0].line`; empty for the arguments as a whole.
    pub path: String,
    /// A description of the expected value.
    pub expected: String,
    /// A description of the value found.
    pub found: String,
    /// A hint on how to fix it.
    pub note: Option<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)?;
        match &self.note {
            Some(note) => write!(f, "; {note}"),
            None => Ok(()),
        }
    }
}

pub(super) fn admit(root: &Node, arguments: &mut Value) -> Result<(), Vec<Mismatch>> {
    let mut judge = Checker {
        root,
        path: String::new(),
        references: 0,
        faults: Vec::new(),
        tries: 0,
        tried: HashMap::new(),
    };
    if judge.judge(root, arguments) { Ok(()) } else { Err(judge.faults) }
}

struct Checker<'a> {
    root: &'a Node,
    path: String,
    references: u32,
    faults: Vec<Mismatch>,
    /// Number of nested alternatives being tried. While it is not 0, nothing is changed and nothing
    /// is reported.
    tries: u32,
    /// Results of tries, by the addresses of schema and value. Without it, nested alternatives
    /// would be tried again at every level, and the time would double with each.
    tried: HashMap<(usize, usize), bool>,
}

impl<'a> Checker<'a> {
    fn fault(&mut self, expected: impl Into<String>, found: impl Into<String>) -> bool {
        self.noted(expected, found, None)
    }

    fn noted(
        &mut self,
        expected: impl Into<String>,
        found: impl Into<String>,
        note: Option<String>,
    ) -> bool {
        if self.tries == 0 && self.faults.len() < MOST_FAULTS {
            self.faults.push(Mismatch {
                path: self.path.clone(),
                expected: expected.into(),
                found: found.into(),
                note,
            });
        }
        false
    }

    /// Checks a part of the arguments, one step below the current path.
    fn within(&mut self, step: &str, schema: &'a Node, value: &mut Value) -> bool {
        let (length, references) = (self.path.len(), std::mem::take(&mut self.references));
        if !self.path.is_empty() && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let fits = self.judge(schema, value);
        self.path.truncate(length);
        self.references = references;
        fits
    }

    /// Returns whether a value fits, without changing it.
    fn try_out(&mut self, schema: &'a Node, value: &mut Value) -> bool {
        self.tries += 1;
        let fits = self.judge(schema, value);
        self.tries -= 1;
        fits
    }

    fn judge(&mut self, schema: &'a Node, value: &mut Value) -> bool {
        if self.tries == 0 || !matches!(value, Value::Array(_) | Value::Object(_)) {
            return self.judge_now(schema, value);
        }
        // The addresses are valid keys: values are not moved while they are checked.
        let key = (std::ptr::from_ref(schema).addr(), std::ptr::from_ref(&*value).addr());
        if let Some(fits) = self.tried.get(&key) {
            return *fits;
        }
        // Alternatives that refer back to themselves find this entry, so the recursion ends.
        self.tried.insert(key, false);
        let fits = self.judge_now(schema, value);
        self.tried.insert(key, fits);
        fits
    }

    fn judge_now(&mut self, schema: &'a Node, value: &mut Value) -> bool {
        if let Some(reference) = schema.get("$ref").and_then(Node::as_text) {
            return self.refer(&reference, value);
        }
        if schema.get("type").is_some() {
            let names = schema.types();
            if !names.iter().any(|name| has_type(name, value)) {
                let names: Vec<String> = names.iter().map(|name| article(name)).collect();
                return self.fault(names.join(" or "), shown(value));
            }
            if self.tries == 0 && !names.iter().any(|name| name == "number") {
                settle_integer(value);
            }
        }
        if let Some(words) = schema.get("enum").map(Node::items)
            && !words.iter().any(|word| equal(word, value))
        {
            return self.other_word(words, value);
        }
        if schema.get("not").is_some_and(|not| refuses(not, value)) {
            return self.fault("another value", shown(value));
        }
        let mut fits = match value {
            Value::Number(number) => self.number(schema, number),
            Value::String(text) => {
                let length = text.chars().count();
                self.size(schema, ("minLength", "maxLength"), length, "characters")
            }
            Value::Array(items) => self.array(schema, items),
            Value::Object(object) => self.object(schema, object),
            Value::Null | Value::Bool(_) => true,
        };
        for part in schema.list("allOf") {
            fits &= self.judge(part, value);
        }
        fits && schema.get("anyOf").is_none_or(|branches| self.any(branches.items(), value))
    }

    fn refer(&mut self, reference: &str, value: &mut Value) -> bool {
        self.references += 1;
        match self.definition(reference) {
            Some(target) if self.references < MOST_REFERENCES => {
                let fits = self.judge(target, value);
                self.references -= 1;
                fits
            }
            _ => self.fault("a type that ends", shown(value)),
        }
    }

    fn any(&mut self, branches: &'a [Node], value: &mut Value) -> bool {
        for branch in branches {
            if self.try_out(branch, value) {
                return self.tries > 0 || self.judge(branch, value);
            }
        }
        if self.tries > 0 {
            return false;
        }
        // Report the errors of the branch that was probably meant.
        let meant: Vec<&Node> =
            branches.iter().filter(|branch| self.is_meant(branch, value)).collect();
        if let [only] = meant[..] {
            return self.judge(only, value);
        }
        let forms: Vec<String> = branches.iter().map(|branch| self.form(branch)).collect();
        self.fault(forms.join(" or "), shown(value))
    }

    fn target(&self, branch: &'a Node) -> &'a Node {
        let reference = branch.get("$ref").and_then(Node::as_text);
        reference.and_then(|reference| self.definition(&reference)).unwrap_or(branch)
    }

    fn definition(&self, reference: &str) -> Option<&'a Node> {
        self.root.get("$defs")?.get(&def_name(reference)?)
    }

    /// Returns whether a value has the tag of a branch, or fits its type or one of its required
    /// properties.
    fn is_meant(&self, branch: &'a Node, value: &Value) -> bool {
        let branch = self.target(branch);
        let Some(object) = value.as_object() else {
            let name = branch.get("type").and_then(Node::as_text);
            return name.is_some_and(|name| has_type(&name, value));
        };
        let properties = branch.get("properties").map(Node::members).unwrap_or_default();
        let mut tags = properties.iter().filter_map(|(name, part)| match part.list("enum") {
            [word] => Some((name, word)),
            _ => None,
        });
        match tags.next() {
            Some((name, word)) => object.get(name).is_some_and(|found| equal(word, found)),
            None => {
                let required = branch.list("required");
                let mut names = required.iter().filter_map(Node::as_text);
                branch.get("type").and_then(Node::as_text).as_deref() == Some("object")
                    && (required.is_empty() || names.any(|name| object.contains_key(&*name)))
            }
        }
    }

    fn form(&self, branch: &'a Node) -> String {
        let branch = self.target(branch);
        if let Some(words) = branch.get("enum") {
            return one_of(words.items().iter().map(Node::write));
        }
        let required = branch.texts("required");
        match (branch.get("type").and_then(Node::as_text).as_deref(), required.first()) {
            (Some("object"), Some(first)) => {
                let tag = branch.get("properties").and_then(|parts| parts.get(first));
                match tag.map(|part| part.list("enum")) {
                    Some([word]) => format!("an object with `{first}` {}", word.write()),
                    _ => format!("an object with `{}`", required.join("`, `")),
                }
            }
            (Some(name), _) => article(name),
            (None, _) => "another form".to_owned(),
        }
    }

    fn other_word(&mut self, words: &[Node], value: &Value) -> bool {
        let texts: Vec<_> = words.iter().filter_map(Node::as_text).collect();
        let close = value.as_str().and_then(|text| nearest(text, texts.iter().map(|word| &**word)));
        let note = close.map(|word| format!("did you mean {word:?}?"));
        self.noted(one_of(words.iter().map(Node::write)), shown(value), note)
    }

    fn number(&mut self, schema: &Node, number: &Number) -> bool {
        let rules: [(&str, &str, BoundCheck); 4] = [
            ("minimum", "at least", std::cmp::Ordering::is_ge),
            ("maximum", "at most", std::cmp::Ordering::is_le),
            ("exclusiveMinimum", "more than", std::cmp::Ordering::is_gt),
            ("exclusiveMaximum", "less than", std::cmp::Ordering::is_lt),
        ];
        for (key, words, holds) in rules {
            if let Some(Node::Scalar(bound)) = schema.get(key)
                && compare(&number.to_string(), bound).is_some_and(|found| !holds(found))
            {
                return self.fault(format!("{words} {bound}"), number.to_string());
            }
        }
        if let Some(Node::Scalar(step)) = schema.get("multipleOf")
            && let (Some(value), Ok(step)) = (number.as_f64(), step.parse::<f64>())
            && (value / step).fract() != 0.0
        {
            return self.fault(format!("a multiple of {step}"), number.to_string());
        }
        true
    }

    fn size(&mut self, schema: &Node, keys: (&str, &str), size: usize, of: &str) -> bool {
        let bound = |key| match schema.get(key) {
            Some(Node::Scalar(raw)) => raw.parse::<usize>().ok(),
            _ => None,
        };
        match (bound(keys.0), bound(keys.1)) {
            (Some(least), _) if size < least => {
                self.fault(format!("at least {least} {of}"), size.to_string())
            }
            (_, Some(most)) if size > most => {
                self.fault(format!("at most {most} {of}"), size.to_string())
            }
            _ => true,
        }
    }

    fn array(&mut self, schema: &'a Node, items: &mut [Value]) -> bool {
        let mut fits = self.size(schema, ("minItems", "maxItems"), items.len(), "items");
        let first = schema.list("prefixItems");
        let rest = schema.get("items");
        for (at, item) in items.iter_mut().enumerate() {
            if let Some(schema) = first.get(at).or(rest) {
                fits &= self.within(&format!("[{at}]"), schema, item);
            }
        }
        if fits && schema.get("uniqueItems").is_some_and(|all| all.is("true")) {
            let mut seen = HashSet::new();
            if let Some(twice) = items.iter().find(|item| !seen.insert(unique(item))) {
                return self.fault("items that all differ", format!("{} twice", shown(twice)));
            }
        }
        fits
    }

    fn object(&mut self, schema: &'a Node, object: &mut Map<String, Value>) -> bool {
        let known = schema.get("properties").map(Node::members).unwrap_or_default();
        let size = object.len();
        let mut fits = self.size(schema, ("minProperties", "maxProperties"), size, "properties");
        for name in schema.list("required").iter().filter_map(Node::as_text) {
            if !object.contains_key(&*name) {
                fits = self.fault(format!("a property `{name}`"), "none");
            }
        }
        // Maps with integer keys have a pattern. Whether a key is in range is left to the parser.
        let pattern = schema
            .get("patternProperties")
            .and_then(|patterns| patterns.members().first())
            .map(|(_, schema)| schema);
        let others = schema.get("additionalProperties");
        for (name, value) in object.iter_mut() {
            match get(known, name).or(pattern.filter(|_| is_integer_key(name))).or(others) {
                Some(schema) if schema.is("false") => {
                    let names = known.iter().map(|(name, _)| name.as_str());
                    let note = nearest(name, names).map(|near| format!("did you mean `{near}`?"));
                    let expected = if known.is_empty() {
                        "no property".to_owned()
                    } else {
                        one_of(known.iter().map(|(name, _)| format!("`{name}`")))
                    };
                    fits = self.noted(expected, format!("`{name}`"), note);
                }
                Some(schema @ Node::Object(_)) => fits &= self.within(name, schema, value),
                _ => {}
            }
        }
        fits
    }
}
