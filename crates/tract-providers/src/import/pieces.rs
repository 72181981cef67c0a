//! The pieces of a stream that a recording contains as a list.

use tract_core::json;

use crate::batch::ANSWERS;
use crate::raw::Node;

const ESCAPE_BYTES: usize = 6;

/// Joins surrogate pairs that are split over two pieces of a recorded stream, in a line whose
/// answer is a list of pieces; `None` if it has none. Other unpaired surrogates are unchanged.
///
/// ```
/// use tract_providers::with_joined_pieces;
/// let line = r#"{"response":[{"text":"a\ud83c"},{"text":"\udf0db"}]}"#;
/// let joined = r#"{"response":[{"text":"a\ud83c\udf0d"},{"text":"b"}]}"#;
/// assert_eq!(with_joined_pieces(line).as_deref(), Some(joined));
/// assert_eq!(with_joined_pieces(r#"{"messages":["a\ud83c","\udf0db"]}"#), None);
/// ```
pub fn with_joined_pieces(line: &str) -> Option<String> {
    let unpaired = unpaired_surrogates(line);
    if unpaired.len() < 2 {
        return None;
    }
    // A text of the same length that can be parsed.
    let mut valid = String::with_capacity(line.len());
    for (at, _) in &unpaired {
        valid.push_str(line.get(valid.len()..*at)?);
        valid.push_str("\\ufffd");
    }
    valid.push_str(line.get(valid.len()..)?);
    let fields = Node::root(&valid).object().ok()?;
    let lists = ANSWERS.iter().filter_map(|key| fields.some(key)).filter(Node::is_array);
    let lists: Vec<_> = lists
        .filter_map(|list| {
            let begin = list.raw.as_ptr().addr().checked_sub(valid.as_ptr().addr())?;
            Some(begin..begin + list.raw.len())
        })
        .collect();
    let (mut out, mut copied) = (String::with_capacity(line.len()), 0);
    for pair in unpaired.windows(2) {
        let &[(first, high), (second, low)] = pair else { continue };
        let end = first + ESCAPE_BYTES;
        let is_in_list = lists.iter().any(|list| list.contains(&first) && list.contains(&second));
        let is_split = line.get(end..)?.starts_with('"') && line.get(..second)?.ends_with('"');
        if is_in_list && is_high(high) && is_low(low) && is_split {
            out.push_str(line.get(copied..end)?);
            out.push_str(line.get(second..second + ESCAPE_BYTES)?);
            out.push_str(line.get(end..second)?);
            copied = second + ESCAPE_BYTES;
        }
    }
    out.push_str(line.get(copied..)?);
    (copied > 0).then_some(out)
}

/// Returns the unpaired surrogates among the escapes of a JSON text, with their offsets in bytes.
fn unpaired_surrogates(text: &str) -> Vec<(usize, u16)> {
    let mut found = Vec::new();
    // Most texts have none, which is known without reading each escape.
    if json::mark_surrogates(text).is_none() {
        return found;
    }
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += next;
        let escape = text.get(at..).unwrap_or_default();
        let low = || escape.get(ESCAPE_BYTES..).and_then(unit);
        at += match unit(escape) {
            Some(high) if is_high(high) && low().is_some_and(is_low) => 2 * ESCAPE_BYTES,
            Some(unit) if is_high(unit) || is_low(unit) => {
                found.push((at, unit));
                ESCAPE_BYTES
            }
            _ => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
    }
    found
}

/// Parses the escape of a UTF-16 unit at the start of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}
