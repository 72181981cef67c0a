//! Members that an object has twice.

use std::collections::HashSet;

use super::JsonError;
use super::scan::{Item, Scanner};

/// Calls `each` with the place and the key of every member that its object has already: the last
/// one counts in all that this module does. Places are written like `messages[3].content`; that of
/// the outermost object is empty.
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
/// As [`check`](super::check).
///
/// # Complexity
/// One pass; memory for the keys of the objects around a place, none for values.
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
