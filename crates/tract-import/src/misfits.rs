//! Values that no reader understood: members of an unexpected type.
//!
//! A reader asks for a member in the types that it knows, one after the other, and treats the member
//! as absent if none of them fits. All these requests are made with [`lenient`], which notes here the
//! values that did not fit. After a line or a document was read, the values that fitted no request
//! are reported with their paths. So no reader has to report them itself, and a member of another
//! type is never left out without a report.
//!
//! Values are identified by their addresses in the text that is being read. A file is read on one
//! thread, so the values are noted per thread: passing them along would need another parameter for
//! each function of each reader.
//!
//! [`lenient`]: crate::values::lenient

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

/// Maximum number of values of a line or a document that are listed; more are counted.
const LISTED: usize = 20;

#[derive(Default)]
struct Misfits {
    /// The number of texts that are being read: a text may contain another one.
    depth: usize,
    places: HashSet<usize>,
}

thread_local! {
    static MISFITS: RefCell<Misfits> = RefCell::default();
}

fn place_of(text: &str) -> usize {
    text.as_ptr().addr()
}

/// Notes that a value did not fit a request. Null is the same as an absent member.
pub(crate) fn note(raw: &RawValue) {
    MISFITS.with_borrow_mut(|misfits| {
        if misfits.depth > 0 && raw.get() != "null" {
            misfits.places.insert(place_of(raw.get()));
        }
    });
}

/// Notes that a value was read.
pub(crate) fn clear(raw: &RawValue) {
    MISFITS.with_borrow_mut(|misfits| {
        if !misfits.places.is_empty() {
            misfits.places.remove(&place_of(raw.get()));
        }
    });
}

/// Notes that a value was kept as its JSON, with all values in it.
pub(crate) fn keep(raw: &RawValue) {
    MISFITS.with_borrow_mut(|misfits| {
        if !misfits.places.is_empty() {
            let start = place_of(raw.get());
            let span = start..start + raw.get().len();
            misfits.places.retain(|place| !span.contains(place));
        }
    });
}

/// Runs a reader on a text. Also returns a description of each value that it did not understand, with
/// its line in the text, from 1.
pub(crate) fn watch<T>(text: &str, read: impl FnOnce() -> T) -> (T, Vec<(usize, String)>) {
    watch_within("", text, read)
}

/// As [`watch`], for a text that is the value at a path.
pub(crate) fn watch_within<T>(
    path: &str,
    text: &str,
    read: impl FnOnce() -> T,
) -> (T, Vec<(usize, String)>) {
    let start = place_of(text);
    let is_own = |place: &usize| (start..start + text.len()).contains(place);
    MISFITS.with_borrow_mut(|misfits| {
        misfits.depth += 1;
        // Another text may have been at this address.
        misfits.places.retain(|place| !is_own(place));
    });
    let value = read();
    let places = MISFITS.with_borrow_mut(|misfits| {
        misfits.depth -= 1;
        let mut places: Vec<usize> = misfits.places.extract_if(is_own).collect();
        places.sort_unstable();
        if misfits.depth == 0 {
            misfits.places.clear();
        }
        places
    });
    if places.is_empty() { (value, Vec::new()) } else { (value, described(path, text, &places)) }
}

/// Describes a value that is not read.
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
pub(crate) fn unread(path: &str, value: &serde_json::Value) -> String {
    let kind = match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "boolean",
        serde_json::Value::Number(_) => "number",
        serde_json::Value::String(_) => "text",
        serde_json::Value::Array(_) => "list",
        serde_json::Value::Object(_) => "object",
    };
    format!("{path:?} is not read: unexpected type ({kind})")
}

/// Describes the values at these addresses of a text.
fn described(path: &str, text: &str, places: &[usize]) -> Vec<(usize, String)> {
    let listed = places.get(..LISTED).unwrap_or(places);
    let mut found = Vec::new();
    let mut begin = 0;
    if let Ok(document) = serde_json::from_str::<&RawValue>(text) {
        find(document, &mut path.to_owned(), listed, &mut found);
    } else {
        for line in text.split_inclusive('\n') {
            if let Ok(value) = serde_json::from_str::<&RawValue>(line) {
                find(value, &mut String::new(), listed, &mut found);
            }
        }
    }
    found.sort_unstable_by_key(|(place, _)| *place);
    let (mut all, mut line) = (Vec::with_capacity(found.len()), 1);
    for (place, what) in found {
        let end = place.saturating_sub(place_of(text));
        let passed = text.as_bytes().get(begin..end).unwrap_or_default();
        line += passed.iter().filter(|byte| **byte == b'\n').count();
        begin = end;
        all.push((line, what));
    }
    if let Some(more @ 1..) = places.len().checked_sub(all.len()) {
        all.push((line, format!("{more} more values are not read: unexpected types")));
    }
    all
}

/// Finds the values at these addresses, in order, within a value.
fn find(value: &RawValue, path: &mut String, places: &[usize], found: &mut Vec<(usize, String)>) {
    let start = place_of(value.get());
    let from = places.partition_point(|place| *place < start);
    let to = places.partition_point(|place| *place < start + value.get().len());
    let Some(places) = places.get(from..to).filter(|places| !places.is_empty()) else { return };
    if places.contains(&start) {
        let kind = match value.get().as_bytes().first() {
            Some(b'"') => "text",
            Some(b'{') => "object",
            Some(b'[') => "list",
            Some(b't' | b'f') => "boolean",
            _ => "number",
        };
        let what = match path.is_empty() {
            true => format!("the value is not read: unexpected type ({kind})"),
            false => format!("{path:?} is not read: unexpected type ({kind})"),
        };
        found.push((start, what));
    }
    let length = path.len();
    if let Ok(members) = serde_json::from_str::<HashMap<String, &RawValue>>(value.get()) {
        for (name, member) in members {
            if length > 0 {
                path.push('.');
            }
            path.push_str(&name);
            find(member, path, places, found);
            path.truncate(length);
        }
    } else if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        for (n, element) in elements.into_iter().enumerate() {
            path.push_str(&format!("[{n}]"));
            find(element, path, places, found);
            path.truncate(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::values::lenient;

    #[test]
    fn a_value_that_fits_no_request_is_named_with_its_line() {
        let text = "{\"a\":\"x\",\n \"b\":[{\"c\":7,\"d\":null},\n \"e\"]}";
        let (count, misfits) = watch(text, || {
            let members = Object::parse(text).unwrap_or_default();
            // The second request fits.
            assert_eq!(members.count("a"), None);
            assert_eq!(members.text("a").as_deref(), Some("x"));
            let list = members.list("b");
            let elements: Vec<Object<'_>> =
                list.iter().map(|raw| Object::of(Some(raw)).unwrap_or_default()).collect();
            assert_eq!(elements[0].text("c").or_else(|| elements[0].text("d")), None);
            list.len()
        });
        assert_eq!(count, 2);
        let expected = [
            (2, "\"b[0].c\" is not read: unexpected type (number)".to_owned()),
            (3, "\"b[1]\" is not read: unexpected type (text)".to_owned()),
        ];
        assert_eq!(misfits, expected);
        assert_eq!(lenient::<String>(serde_json::from_str("7").ok()), None);
        assert_eq!(watch(text, || ()).1, []);
    }

    #[test]
    fn values_of_lines_and_of_texts_within_texts_are_named() {
        let (outer, inner) = ("{\"a\":1}\n{\"a\":[2]}", "{\"b\":{}}");
        let ((), misfits) = watch(outer, || {
            for line in outer.lines() {
                let members = Object::parse(line).unwrap_or_default();
                let (_, misfits) = watch(inner, || {
                    assert_eq!(members.text("a"), None);
                    Object::parse(inner).unwrap_or_default().text("b")
                });
                assert_eq!(misfits[0].1, "\"b\" is not read: unexpected type (object)");
            }
        });
        let expected = [
            (1, "\"a\" is not read: unexpected type (number)".to_owned()),
            (2, "\"a\" is not read: unexpected type (list)".to_owned()),
        ];
        assert_eq!(misfits, expected);
    }

    #[test]
    fn many_values_are_counted() {
        let text = format!("[{}]", vec!["7"; 50].join(","));
        let ((), misfits) = watch(&text, || {
            for raw in serde_json::from_str::<Vec<&RawValue>>(&text).unwrap() {
                note(raw);
            }
        });
        assert_eq!(misfits.len(), LISTED + 1);
        assert_eq!(misfits[LISTED].1, "30 more values are not read: unexpected types");
    }
}
