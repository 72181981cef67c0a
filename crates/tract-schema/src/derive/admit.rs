//! Whether arguments fit a schema in normal form.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::{Map, Number, Value};
use tract_core::nearest;

use super::node::{Node, get, list};
use super::normal::def_name;
use super::values::{
    article, compare, equal, has_type, is_integer_key, one_of, refuses, settle_integer, shown,
    unique,
};

/// The most faults that are reported.
const MOST_FAULTS: usize = 16;

/// How many references may follow each other without a step into the arguments.
const MOST_REFERENCES: u32 = 64;

/// Whether a comparison with a bound is as the bound wants it.
type BoundCheck = fn(std::cmp::Ordering) -> bool;

/// Something in the arguments that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// Where, such as `edits[0].line`; empty for the arguments as a whole.
    pub path: String,
    /// What the schema says.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// A way out.
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
    /// How many alternatives are being tried, one within the other: nothing is changed and nothing
    /// reported then.
    tries: u32,
    /// What came of tries, by schema and value: alternatives that nest would otherwise be tried
    /// again at every level, in twice the time for each.
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

    /// Judges a part of the arguments one step further in.
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

    /// Whether a value fits, without changing it.
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
        // Values stay where they are while they are judged.
        let key = (std::ptr::from_ref(schema).addr(), std::ptr::from_ref(&*value).addr());
        if let Some(fits) = self.tried.get(&key) {
            return *fits;
        }
        // Alternatives that lead back to themselves end here.
        self.tried.insert(key, false);
        let fits = self.judge_now(schema, value);
        self.tried.insert(key, fits);
        fits
    }

    fn judge_now(&mut self, schema: &'a Node, value: &mut Value) -> bool {
        let members = schema.members();
        if let Some(reference) = get(members, "$ref").and_then(Node::as_text) {
            return self.refer(reference, value);
        }
        if let Some(kind) = get(members, "type") {
            let names: Vec<&str> = match kind {
                Node::Text(name) => vec![name],
                other => other.as_list().iter().filter_map(Node::as_text).collect(),
            };
            if !names.iter().any(|name| has_type(name, value)) {
                let names: Vec<String> = names.iter().map(|name| article(name)).collect();
                return self.fault(names.join(" or "), shown(value));
            }
            if self.tries == 0 && !names.contains(&"number") {
                settle_integer(value);
            }
        }
        if let Some(words) = get(members, "enum") {
            let words = words.as_list();
            if !words.iter().any(|word| equal(word, value)) {
                return self.other_word(words, value);
            }
        }
        if get(members, "not").is_some_and(|not| refuses(not, value)) {
            return self.fault("another value", shown(value));
        }
        let mut fits = match value {
            Value::Number(number) => self.number(members, number),
            Value::String(text) => {
                let length = text.chars().count();
                self.size(members, ("minLength", "maxLength"), length, "characters")
            }
            Value::Array(items) => self.array(members, items),
            Value::Object(object) => self.object(members, object),
            Value::Null | Value::Bool(_) => true,
        };
        for part in list(members, "allOf") {
            fits &= self.judge(part, value);
        }
        match get(members, "anyOf") {
            Some(branches) => fits && self.any(branches.as_list(), value),
            None => fits,
        }
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
        // The branch that was meant says best what is wrong.
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
        reference.and_then(|reference| self.definition(reference)).unwrap_or(branch)
    }

    fn definition(&self, reference: &str) -> Option<&'a Node> {
        self.root.get("$defs")?.get(&def_name(reference)?)
    }

    /// Whether a value has a branch's tag, or is the only one of its kind.
    fn is_meant(&self, branch: &'a Node, value: &Value) -> bool {
        let branch = self.target(branch);
        let Some(object) = value.as_object() else {
            return branch
                .get("type")
                .and_then(Node::as_text)
                .is_some_and(|name| has_type(name, value));
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
                branch.get("type").and_then(Node::as_text) == Some("object")
                    && (required.is_empty()
                        || required
                            .iter()
                            .filter_map(Node::as_text)
                            .any(|name| object.contains_key(name)))
            }
        }
    }

    fn form(&self, branch: &'a Node) -> String {
        let branch = self.target(branch);
        if let Some(words) = branch.get("enum") {
            return one_of(words.as_list().iter().map(Node::to_json));
        }
        let required: Vec<&str> =
            branch.list("required").iter().filter_map(Node::as_text).collect();
        match branch.get("type") {
            Some(Node::Text(name)) if name == "object" && !required.is_empty() => {
                let tag = branch.get("properties").and_then(|parts| {
                    let word = parts.get(required[0])?.get("enum")?;
                    let [word] = word.as_list() else { return None };
                    Some(word.to_json())
                });
                match tag {
                    Some(word) => format!("an object with `{}` {word}", required[0]),
                    None => format!("an object with `{}`", required.join("`, `")),
                }
            }
            Some(Node::Text(name)) => article(name),
            _ => "another form".to_owned(),
        }
    }

    fn other_word(&mut self, words: &[Node], value: &Value) -> bool {
        let close =
            value.as_str().and_then(|text| nearest(text, words.iter().filter_map(Node::as_text)));
        let note = close.map(|word| format!("did you mean {word:?}?"));
        self.noted(one_of(words.iter().map(Node::to_json)), shown(value), note)
    }

    fn number(&mut self, members: &[(String, Node)], number: &Number) -> bool {
        let rules: [(&str, &str, BoundCheck); 4] = [
            ("minimum", "at least", std::cmp::Ordering::is_ge),
            ("maximum", "at most", std::cmp::Ordering::is_le),
            ("exclusiveMinimum", "more than", std::cmp::Ordering::is_gt),
            ("exclusiveMaximum", "less than", std::cmp::Ordering::is_lt),
        ];
        for (key, words, holds) in rules {
            if let Some(Node::Number(bound)) = get(members, key)
                && !compare(&number.to_string(), bound).is_some_and(holds)
            {
                return self.fault(format!("{words} {bound}"), number.to_string());
            }
        }
        if let Some(Node::Number(step)) = get(members, "multipleOf")
            && let (Some(value), Ok(step)) = (number.as_f64(), step.parse::<f64>())
            && (value / step).fract() != 0.0
        {
            return self.fault(format!("a multiple of {step}"), number.to_string());
        }
        true
    }

    fn size(
        &mut self,
        members: &[(String, Node)],
        keys: (&str, &str),
        size: usize,
        of: &str,
    ) -> bool {
        let bound = |key| match get(members, key) {
            Some(Node::Number(raw)) => raw.parse::<usize>().ok(),
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

    fn array(&mut self, members: &'a [(String, Node)], items: &mut [Value]) -> bool {
        let mut fits = self.size(members, ("minItems", "maxItems"), items.len(), "items");
        let first = list(members, "prefixItems");
        let rest = get(members, "items");
        for (at, item) in items.iter_mut().enumerate() {
            match (first.get(at), rest) {
                (Some(schema), _) | (None, Some(schema)) => {
                    fits &= self.within(&format!("[{at}]"), schema, item);
                }
                (None, None) => {}
            }
        }
        if fits && get(members, "uniqueItems") == Some(&Node::Bool(true)) {
            let mut seen = HashSet::new();
            for item in items.iter() {
                if !seen.insert(unique(item)) {
                    return self.fault("items that all differ", format!("{} twice", shown(item)));
                }
            }
        }
        fits
    }

    fn object(&mut self, members: &'a [(String, Node)], object: &mut Map<String, Value>) -> bool {
        let known = get(members, "properties").map(Node::members).unwrap_or_default();
        let size = object.len();
        let mut fits = self.size(members, ("minProperties", "maxProperties"), size, "properties");
        for name in list(members, "required") {
            if let Some(name) = name.as_text()
                && !object.contains_key(name)
            {
                fits = self.fault(format!("a property `{name}`"), "none");
            }
        }
        // Keys of maps with integer keys have a pattern; that they are numbers is the parser's.
        let pattern = get(members, "patternProperties")
            .and_then(|patterns| patterns.members().first())
            .map(|(_, schema)| schema);
        for (name, value) in object.iter_mut() {
            let schema = get(known, name)
                .or(pattern.filter(|_| is_integer_key(name)))
                .or_else(|| get(members, "additionalProperties"));
            match schema {
                Some(Node::Bool(false)) => {
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
