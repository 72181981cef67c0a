//! Finds repeated keys of objects.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::scan::{Item, Scanner};
use super::{Escapes, JsonError, split_array, split_object, write_string};

/// Calls `each` with the path of the object and the key, for every key that the object already has.
/// The other functions of this module use the last one. Paths have the form `messages[3].content`;
/// that of the outermost object is empty.
///
/// ```
/// # use tract_core::json::repeated_keys;
/// let mut found = Vec::new();
/// repeated_keys(r#"{"a":[{"b":1,"b":2}]}"#, |at, key| found.push(format!("{at} {key}")))?;
/// assert_eq!(found, ["a[0] b"]);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// Those of [`check`](super::check).
///
/// # Complexity
/// One pass. Memory for the keys of the objects around the current position, not for values.
pub fn repeated_keys(text: &str, mut each: impl FnMut(&str, &str)) -> Result<(), JsonError> {
    let mut scan = Scanner::new(text)?;
    value(&mut scan, &mut String::new(), &mut each)?;
    scan.finish()
}

/// Returns the text without repeated keys: the last value of a key, at the place of its first one.
/// `None` if no object has a repeated key, and for a text that is not JSON.
///
/// ```
/// # use tract_core::json::without_repeated_keys;
/// let text = r#"{"a":1,"b":[{"c":2,"c":3.0}],"a":4}"#;
/// assert_eq!(without_repeated_keys(text).unwrap(), r#"{"a":4,"b":[{"c":3.0}]}"#);
/// assert_eq!(without_repeated_keys(r#"{"a":1}"#), None);
/// ```
///
/// # Complexity
/// One fast pass over a text without repeated keys. Otherwise linear in its length times its depth.
pub fn without_repeated_keys(text: &str) -> Option<String> {
    let mut is_repeated = false;
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = RepeatCheck(&mut is_repeated).deserialize(&mut reader).and_then(|()| reader.end());
    // A number beyond the range of a double ends this check too early.
    if read.is_err() {
        is_repeated = false;
        repeated_keys(text, |_, _| is_repeated = true).ok()?;
    }
    if !is_repeated {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    write_last(text, &mut out)?;
    Some(out)
}

/// Writes a value with the last of equal keys.
fn write_last(text: &str, out: &mut String) -> Option<()> {
    let text = text.trim();
    match text.as_bytes().first()? {
        b'{' => {
            let mut members: Vec<(String, &str)> = Vec::new();
            let mut places: HashMap<String, usize> = HashMap::new();
            for (key, value) in split_object(text).ok()? {
                match places.get(&key).and_then(|place| members.get_mut(*place)) {
                    Some((_, earlier)) => *earlier = value,
                    None => {
                        places.insert(key.clone(), members.len());
                        members.push((key, value));
                    }
                }
            }
            out.push('{');
            for (n, (key, value)) in members.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_string(out, key, Escapes::Raw);
                out.push(':');
                write_last(value, out)?;
            }
            out.push('}');
        }
        b'[' => {
            out.push('[');
            for (n, element) in split_array(text).ok()?.into_iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_last(element, out)?;
            }
            out.push(']');
        }
        _ => out.push_str(text),
    }
    Some(())
}

/// Checks whether an object of a value has a repeated key.
struct RepeatCheck<'a>(&'a mut bool);

impl<'de> DeserializeSeed<'de> for RepeatCheck<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RepeatCheck<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(RepeatCheck(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        /// Number of keys up to which comparing them is faster than hashing them.
        const FEW: usize = 16;
        let mut few: Vec<Cow<'de, str>> = Vec::new();
        let mut many: HashSet<Cow<'de, str>> = HashSet::new();
        while let Some(key) = object.next_key_seed(Key)? {
            if few.len() < FEW {
                *self.0 |= few.contains(&key);
                few.push(key);
            } else {
                *self.0 |= few.contains(&key) || !many.insert(key);
            }
            object.next_value_seed(RepeatCheck(self.0))?;
        }
        Ok(())
    }
}

/// Reads a key, without copying it unless it has escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

fn value(
    scan: &mut Scanner<'_>,
    path: &mut String,
    each: &mut dyn FnMut(&str, &str),
) -> Result<(), JsonError> {
    let length = path.len();
    match scan.item()? {
        Item::Object => {
            let mut seen: HashSet<String> = HashSet::new();
            scan.members(|scan, key| {
                let key = key.text();
                if seen.contains(&key) {
                    each(path, &key);
                }
                if length > 0 {
                    path.push('.');
                }
                path.push_str(&key);
                value(scan, path, each)?;
                path.truncate(length);
                seen.insert(key);
                Ok(())
            })
        }
        Item::Array => {
            let mut place = 0_usize;
            scan.elements(|scan| {
                path.push_str(&format!("[{place}]"));
                value(scan, path, each)?;
                path.truncate(length);
                place += 1;
                Ok(())
            })
        }
        Item::String(_) | Item::Integer(_) | Item::Float(_) | Item::Word(_) => Ok(()),
    }
}
