//! Finds repeated keys of objects.

use std::collections::HashSet;

use super::JsonError;
use super::scan::{Item, Scanner};

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
