//! Growing JSON: objects keep the order of members, numbers keep their digits, and strings can be
//! extended.

use std::collections::{HashMap, HashSet};

use tract_core::json::{self, Escapes};

use crate::error::ImportError;
use crate::raw::{Fields, Node, is_received_object};

/// A value that is assembled from pieces.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// A number, a boolean or null, as written.
    Raw(String),
    Text(String),
    List(Vec<Tree>),
    Object(Members),
}

/// The members of an object, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members(pub(crate) Vec<(String, Tree)>);

impl Tree {
    pub(crate) fn parse(node: &Node<'_>) -> Result<Self, ImportError> {
        if node.is_object() {
            return Members::parse(node).map(Self::Object);
        }
        if node.is_array() {
            return node.array()?.iter().map(Self::parse).collect::<Result<_, _>>().map(Self::List);
        }
        if node.is_string() {
            node.string().map(Self::Text)
        } else {
            Ok(Self::Raw(node.raw.to_owned()))
        }
    }

    pub(crate) fn null() -> Self {
        Self::Raw("null".to_owned())
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Raw(raw) if raw == "null")
    }

    /// Returns whether it is null or an empty string.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_null() || matches!(self, Self::Text(text) if text.is_empty())
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn members(&self) -> Option<&Members> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> &[Tree] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }

    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Raw(raw) => out.push_str(raw),
            Self::Text(text) => json::write_string(out, text, Escapes::Raw),
            Self::List(list) => {
                out.push('[');
                for (n, element) in list.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => members.write(out),
        }
    }
}

impl Members {
    pub(crate) fn parse(node: &Node<'_>) -> Result<Self, ImportError> {
        let fields = node.object()?;
        let mut members: Vec<(String, Tree)> = Vec::with_capacity(fields.members.len());
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(fields.members.len());
        for (key, value) in fields.nodes() {
            let value = Tree::parse(&value)?;
            let place = *places.entry(key).or_insert(members.len());
            match members.get_mut(place) {
                // The last of equal keys counts.
                Some((_, earlier)) => *earlier = value,
                None => members.push((key.to_owned(), value)),
            }
        }
        Ok(Self(members))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Tree> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Tree> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Tree::as_text)
    }

    /// Reads a member that is an object.
    pub(crate) fn read<T>(&self, key: &str, read: impl FnOnce(&Fields<'_>) -> T) -> Option<T> {
        let json = self.get(key)?.members()?.to_json();
        Node::root(&json).object().ok().map(|fields| read(&fields))
    }

    pub(crate) fn set(&mut self, key: &str, value: Tree) {
        match self.get_mut(key) {
            Some(old) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Sets all members of another object.
    pub(crate) fn set_all(&mut self, others: Members) {
        for (key, value) in others.0 {
            self.set(&key, value);
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Tree> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// Appends text to the member. A missing member, or another value, becomes a string.
    pub(crate) fn push_text(&mut self, key: &str, more: &str) {
        match self.get_mut(key) {
            Some(Tree::Text(text)) => text.push_str(more),
            _ => self.set(key, Tree::Text(more.to_owned())),
        }
    }

    /// Appends an element to the member. A missing member, or another value, becomes a list.
    pub(crate) fn push_element(&mut self, key: &str, element: Tree) {
        match self.get_mut(key) {
            Some(Tree::List(list)) => list.push(element),
            _ => self.set(key, Tree::List(vec![element])),
        }
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        for (n, (key, value)) in self.0.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            json::write_string(out, key, Escapes::Raw);
            out.push(':');
            value.write(out);
        }
        out.push('}');
    }

    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Merges a delta into the members so far: texts are appended, list elements are matched by
/// `index`, names and ids keep their first value, and null is ignored.
pub(crate) fn merge(into: &mut Members, delta: Members) {
    merge_reporting(into, delta, &mut |_, _| {});
}

/// Merges a delta as [`merge`] does, and reports each element of a list that a piece was merged
/// into: the member with the list, and the element's place.
pub(crate) fn merge_reporting(
    into: &mut Members,
    delta: Members,
    on_element: &mut dyn FnMut(&str, usize),
) {
    for (key, mut value) in delta.0 {
        let Some(old) = into.get_mut(&key) else {
            match &mut value {
                Tree::List(list) => {
                    let pieces = std::mem::take(list);
                    merge_list(list, pieces, &mut |place| on_element(&key, place));
                }
                Tree::Object(members) => {
                    let pieces = std::mem::take(members);
                    merge(members, pieces);
                }
                // A call without arguments. Requests require a text here, and reject null.
                value if value.is_null() && key == "arguments" => {
                    *value = Tree::Text(String::new());
                }
                _ => {}
            }
            into.set(&key, value);
            continue;
        };
        match (old, value) {
            (_, value) if value.is_null() => {}
            (old, value) if old.is_null() => *old = value,
            // The index of the call's first piece is kept.
            (_, _) if key == "index" => {}
            (Tree::Text(old), Tree::Text(more)) => match key.as_str() {
                "id" | "role" | "type" | "format" => {
                    if old.is_empty() {
                        *old = more;
                    }
                }
                // Some servers repeat the whole name in every piece.
                "name" if *old == more => {}
                _ => old.push_str(&more),
            },
            (Tree::List(old), Tree::List(more)) => {
                merge_list(old, more, &mut |place| on_element(&key, place));
            }
            (Tree::Object(old), Tree::Object(more)) => merge(old, more),
            (old, value) => *old = value,
        }
    }
}

fn merge_list(into: &mut Vec<Tree>, delta: Vec<Tree>, on_element: &mut dyn FnMut(usize)) {
    for element in delta {
        let Tree::Object(more) = element else {
            into.push(element);
            continue;
        };
        let place = place(into, &more);
        on_element(place.unwrap_or(into.len()));
        match place.and_then(|at| into.get_mut(at)) {
            Some(Tree::Object(old)) => merge(old, more),
            _ => {
                let mut first = Members::default();
                merge(&mut first, more);
                into.push(Tree::Object(first));
            }
        }
    }
}

/// Returns the elements sorted by number, if each has a different one; else in order of arrival.
pub(crate) fn in_order<T>(
    elements: &[T],
    number: impl Fn(&T) -> Option<u64>,
) -> impl Iterator<Item = &T> {
    let mut numbered: Vec<(Option<u64>, &T)> =
        elements.iter().map(|element| (number(element), element)).collect();
    let numbers: HashSet<u64> = numbered.iter().filter_map(|(number, _)| *number).collect();
    if numbers.len() == elements.len() {
        numbered.sort_by_key(|(number, _)| *number);
    }
    numbered.into_iter().map(|(_, element)| element)
}

/// Returns the texts of a partially received call: its id, name and arguments.
fn call_texts(call: &Members) -> [&str; 3] {
    let inner = call.get("function").or_else(|| call.get("custom")).and_then(Tree::members);
    let text = |key: &str| inner.and_then(|inner| inner.text(key));
    let arguments = text("arguments").or_else(|| text("input"));
    [call.text("id"), text("name"), arguments].map(Option::unwrap_or_default)
}

/// Returns whether a piece begins another call although its index is that of `old`, because some
/// servers give all calls the same index. It has another id, or a name although the old arguments
/// are complete.
fn begins_call(old: &Members, more: &Members) -> bool {
    let [old_id, old_name, old_arguments] = call_texts(old);
    let [id, name, arguments] = call_texts(more);
    if !id.is_empty() && !old_id.is_empty() && id != old_id {
        return true;
    }
    let is_repeated = name == old_name && (arguments.is_empty() || arguments == old_arguments);
    !name.is_empty()
        && !old_name.is_empty()
        && !is_repeated
        // Parsing the whole text for each of its pieces would take quadratic time.
        && old_arguments.trim_end().ends_with('}')
        && is_received_object(old_arguments.trim())
}

/// Maximum number of elements that are searched for the one that a piece continues, from the end.
/// Without it, the time for a list would grow with the square of its length.
const SEARCHED_ELEMENTS: usize = 1024;

/// Returns the position of the element that a piece continues: the one with the same `index`, else
/// the same `id`. A call with neither continues the last one. `None` if the piece begins an
/// element.
fn place(list: &[Tree], more: &Members) -> Option<usize> {
    fn raw<'m>(members: &'m Members, key: &str) -> Option<&'m str> {
        match members.get(key) {
            Some(Tree::Raw(raw)) if raw != "null" => Some(raw),
            Some(Tree::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }
    let with = |key: &str, value: &str| {
        let equal =
            |element: &Tree| element.members().and_then(|members| raw(members, key)) == Some(value);
        let recent = list.len().saturating_sub(SEARCHED_ELEMENTS);
        let found = list.get(recent..)?.iter().rposition(equal).map(|at| recent + at);
        // Servers number the elements by their position, from 0 or from 1.
        let number = || value.parse::<usize>().ok();
        let is_equal = |at: &usize| list.get(*at).is_some_and(equal);
        found
            .or_else(|| number().filter(is_equal))
            .or_else(|| number()?.checked_sub(1).filter(is_equal))
    };
    let last = || more.get("function").and(list.len().checked_sub(1));
    let is_named = call_texts(more).iter().take(2).any(|text| !text.is_empty());
    let at = match (raw(more, "index"), raw(more, "id")) {
        // Some servers number the pieces instead of the calls: a piece without a name continues the
        // last call.
        (Some(index), _) => with("index", index).or_else(|| last().filter(|_| !is_named)),
        (None, Some(id)) => with("id", id),
        (None, None) => last(),
    };
    at.filter(|at| !list.get(*at).and_then(Tree::members).is_some_and(|old| begins_call(old, more)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(deltas: &[&str], expected: &str) {
        let mut whole = Members::default();
        for delta in deltas {
            merge(&mut whole, Members::parse(&Node::root(delta)).expect("an object"));
        }
        assert_eq!(whole.to_json(), expected);
    }

    #[test]
    fn deltas_add_up() {
        check(
            &[
                r#"{"role":"assistant","content":null}"#,
                r#"{"content":"a\n"}"#,
                r#"{"content":"b"}"#,
            ],
            r#"{"role":"assistant","content":"a\nb"}"#,
        );
        check(
            &[
                r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"c2","function":{"name":"g","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":"}"}}]}"#,
            ],
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"c2","function":{"name":"g","arguments":"{}"}}]}"#,
        );
        check(
            &[
                r#"{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"\"n\":1.10"}}]}"#,
                r#"{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"id":"c2","function":{"name":"f","arguments":"{}"}}]}"#,
            ],
            r#"{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"n\":1.10}"}},{"id":"c2","function":{"name":"f","arguments":"{}"}}]}"#,
        );
        check(
            &[
                r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"c2","function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"g","arguments":"{}"}}]}"#,
            ],
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"c2","function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g","arguments":"{}"}}]}"#,
        );
        check(
            &[
                r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":1,"function":{"arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":2,"function":{"arguments":"}"}}]}"#,
            ],
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}"#,
        );
        // A piece continues a call however far back it is.
        let mut whole = Members::default();
        let count = 2 * SEARCHED_ELEMENTS;
        let begun = (0..count).map(|n| (n, r#""name":"f","arguments":"{""#));
        for (n, function) in begun.chain((0..count).map(|n| (n, r#""arguments":"}""#))) {
            let delta = format!(r#"{{"tool_calls":[{{"index":{n},"function":{{{function}}}}}]}}"#);
            merge(&mut whole, Members::parse(&Node::root(&delta)).expect("an object"));
        }
        let calls = whole.get("tool_calls").expect("the calls").list();
        assert_eq!(calls.len(), count);
        assert!(calls.iter().all(|call| call.to_json().contains("\"{}\"")), "{calls:?}");
        check(&[r#"{"n":1.10,"x":[1]}"#, r#"{"n":2.50,"x":[2]}"#], r#"{"n":2.50,"x":[1,2]}"#);
    }
}
