//! Searches text through JSON escapes, up to six levels of JSON strings within JSON strings.

use std::ops::Range;

/// Maximum number of escape levels that are decoded.
pub const ESCAPE_LEVELS: usize = 6;

/// A text with one or more levels of escapes decoded, and the map back to the original offsets.
#[derive(Debug, Default)]
struct Unescaped {
    text: String,
    /// For each level, the offsets at which the distance to the escaped text changes, as pairs of
    /// the offset after decoding and before.
    maps: Vec<Vec<(usize, usize)>>,
}

/// Searches a text as written, and again after decoding each level of JSON escapes (`\/`, `\u0067`,
/// `\"` and the like). Calls `find` with the level, from 0 on, and the decoded text. Returns the
/// matches with their byte ranges in the original text. Escapes are decoded whether or not the text
/// is JSON.
///
/// Takes time linear in the text for each level, and memory proportional to the text.
///
/// ```
/// let text = r#"{"url":"http:\/\/\u0061.b"}"#;
/// let found = tract_secrets::find_through_escapes(text, |level, text| {
///     text.find("http://a.b").map(|at| (at..at + 10, level)).into_iter().collect()
/// });
/// assert_eq!(found, [(8..25, 1)]);
/// assert_eq!(&text[8..25], r"http:\/\/\u0061.b");
/// ```
pub fn find_through_escapes<T>(
    text: &str,
    mut find: impl FnMut(usize, &str) -> Vec<(Range<usize>, T)>,
) -> Vec<(Range<usize>, T)> {
    let mut found = find(0, text);
    let mut read = Unescaped::default();
    for level in 1..=ESCAPE_LEVELS {
        let now = if level == 1 { text } else { read.text.as_str() };
        let Some((unescaped, map)) = unescape(now) else { break };
        read.text = unescaped;
        read.maps.push(map);
        let matches = find(level, &read.text);
        found.extend(matches.into_iter().map(|(range, with)| (read.written(range), with)));
    }
    found
}

impl Unescaped {
    /// Returns the range in the original text.
    fn written(&self, range: Range<usize>) -> Range<usize> {
        self.maps
            .iter()
            .rev()
            .fold(range, |Range { start, end }, map| place(map, start)..place(map, end))
    }
}

fn place(map: &[(usize, usize)], at: usize) -> usize {
    let after = map.partition_point(|(here, _)| *here <= at);
    match after.checked_sub(1).and_then(|before| map.get(before)) {
        Some((here, there)) => there + (at - here),
        None => at,
    }
}

/// Decodes one level of escapes; `None` if there are none to decode.
fn unescape(text: &str) -> Option<(String, Vec<(usize, usize)>)> {
    let mut from = text.find('\\')?;
    let mut out = String::with_capacity(text.len());
    let mut map = Vec::new();
    let mut copied = 0;
    loop {
        let rest = text.get(from..).unwrap_or_default();
        if let Some((character, length)) = escape(rest) {
            out.push_str(text.get(copied..from).unwrap_or_default());
            // An escape gives two entries, so that a match that begins with it includes its
            // backslash, and a match that ends with it includes all of it.
            map.push((out.len(), from));
            out.push(character);
            copied = from + length;
            map.push((out.len(), copied));
            from = copied;
        } else {
            from += 1;
        }
        match text.get(from..).and_then(|rest| rest.find('\\')) {
            Some(next) => from += next,
            None => break,
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    (!map.is_empty()).then_some((out, map))
}

/// Decodes the escape at the start of a text. Returns the character, and the length of the escape
/// in bytes.
fn escape(text: &str) -> Option<(char, usize)> {
    let kind = *text.as_bytes().get(1)?;
    let character = match kind {
        b'"' | b'\\' | b'/' => char::from(kind),
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((character, 2))
}

fn unicode(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    };
    let first = unit(0)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = unit(6).filter(|second| (0xDC00..0xE000).contains(second));
    let pair = second
        .filter(|_| first < 0xDC00)
        .and_then(|second| char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)));
    Some(pair.map_or((char::REPLACEMENT_CHARACTER, 6), |character| (character, 12)))
}

/// Returns whether escapes in a text may hide ASCII letters or punctuation. The built-in patterns
/// match escaped white space and quotes themselves.
pub(crate) fn hides_letters(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = bytes.get(from..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        let rest = bytes.get(from + at + 1..).unwrap_or_default();
        match rest {
            [b'/', ..] | [b'u', b'0', b'0', b'2'..=b'7', ..] => return true,
            _ => from += at + 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str, searched: &str) -> Vec<(Range<usize>, usize)> {
        find_through_escapes(text, |level, text| {
            let found = text.match_indices(searched);
            found.map(|(at, found)| (at..at + found.len(), level)).collect()
        })
    }

    #[test]
    fn secrets_behind_escapes_are_named_as_they_are_written() {
        let mut text = "a key/\"x\" ü".to_owned();
        for level in 0..=ESCAPE_LEVELS {
            let found = places(&text, "key/\"x\" ü");
            let (range, at) = found.first().cloned().expect("it is found");
            assert_eq!(at, level, "{text}");
            assert!(text[range].starts_with("key"), "{text}");
            text = text.replace('\\', "\\\\").replace('"', "\\\"");
        }
        assert_eq!(places(&text, "key/\"x\" ü"), [], "no deeper");
    }

    #[test]
    fn pairs_and_halves_of_surrogates_are_read() {
        assert_eq!(places(r"\ud83d\ude00!", "😀!"), [(0..13, 1)]);
        assert_eq!(places(r"\ud83dx", "\u{FFFD}x"), [(0..7, 1)]);
        assert_eq!(places(r"\u12", "12"), [(2..4, 0)]);
        assert_eq!(places("\\", "\\"), [(0..1, 0)]);
    }

    #[test]
    fn letters_are_hidden_by_some_escapes_only() {
        assert!(hides_letters(r"https:\/\/a") && hides_letters(r"\\u0067hp_"));
        assert!(!hides_letters(r#"\n \t \" \u2019 \ "#));
    }
}
