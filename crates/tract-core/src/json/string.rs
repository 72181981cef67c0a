//! String literals: scanning, unescaping and escaping.

use std::cmp::Ordering;

use super::Escapes;

/// A valid string literal.
pub(super) struct Literal<'a> {
    /// As written, with its quotes.
    pub(super) raw: &'a str,
    /// It has unescaped characters beyond `~`, including DEL.
    pub(super) wide: bool,
    /// It has escapes that are not canonical: `\/` or `\u`.
    pub(super) respelt: bool,
}

impl Literal<'_> {
    /// Returns the text that the literal represents.
    pub(super) fn text(&self) -> String {
        if self.raw.contains('\\') {
            Unescaped::of(self.raw).collect()
        } else {
            self.raw.trim_matches('"').to_owned()
        }
    }

    pub(super) fn write(&self, out: &mut String, escapes: Escapes) {
        let wide = match escapes {
            Escapes::Ascii => self.wide,
            Escapes::Raw => false,
        };
        if wide || self.respelt {
            out.push('"');
            for character in Unescaped::of(self.raw) {
                write_char(out, character, escapes);
            }
            out.push('"');
        } else {
            out.push_str(self.raw);
        }
    }
}

/// A run of unescaped characters in a literal.
pub(super) struct PlainRun {
    pub(super) len: usize,
    /// Some of them are beyond `~`.
    pub(super) wide: bool,
}

/// Measures the bytes before the first quote, backslash or control character. It checks 32 bytes at
/// a time, which compilers vectorize, and near the end of the run 8 bytes at a time.
pub(super) fn run(bytes: &[u8]) -> PlainRun {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    // Sets the high bit of each byte below `limit`. Only the lowest such bit is reliable, because a
    // subtraction borrows from the byte above.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGHS;
    // Adding one does not overflow any byte of UTF-8: 0x7f becomes 0x80, and the others have that
    // bit.
    let beyond = |word: u64| (word | word.wrapping_add(ONES)) & HIGHS;

    let mut wide = 0;
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk::<32>() {
        let (mut ends, mut beyond) = (false, false);
        for byte in chunk {
            ends |= *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            beyond |= *byte > b'~';
        }
        if ends {
            break;
        }
        wide |= u64::from(beyond);
        rest = tail;
    }
    while let Some((chunk, tail)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let stop = below(word, 0x20)
            | below(word ^ (ONES * u64::from(b'"')), 1)
            | below(word ^ (ONES * u64::from(b'\\')), 1);
        if stop != 0 {
            let before = stop.trailing_zeros() & !7;
            wide |= beyond(word & !(u64::MAX << before));
            let len = bytes.len() - rest.len() + before as usize / 8;
            return PlainRun { len, wide: wide != 0 };
        }
        wide |= beyond(word);
        rest = tail;
    }
    let is_plain = |byte: &u8| !matches!(byte, ..0x20 | b'"' | b'\\');
    let tail = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
    let wide = wide != 0 || rest.iter().take(tail).any(|byte| *byte > b'~');
    PlainRun { len: bytes.len() - rest.len() + tail, wide }
}

/// An invalid escape.
pub(super) enum Fault {
    /// An unknown escape; `at` is the offset after the backslash.
    Unknown {
        at: usize,
    },
    LoneSurrogate,
}

/// Parses the escape whose backslash precedes `bytes`. Returns its character, and its length
/// without the backslash.
pub(super) fn unescape(bytes: &[u8]) -> Result<(char, usize), Fault> {
    let character = match bytes.first() {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unescape_unit(bytes),
        _ => return Err(Fault::Unknown { at: 0 }),
    };
    Ok((character, 1))
}

fn unescape_unit(bytes: &[u8]) -> Result<(char, usize), Fault> {
    let unit = hex(bytes, 1)?;
    if let Some(character) = char::from_u32(unit) {
        return Ok((character, 5));
    }
    let pair = bytes.get(5..7) == Some(br"\u");
    let low = if unit < 0xdc00 && pair { hex(bytes, 7)? } else { 0 };
    if !(0xdc00..0xe000).contains(&low) {
        return Err(Fault::LoneSurrogate);
    }
    let character = char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
    character.map(|character| (character, 11)).ok_or(Fault::LoneSurrogate)
}

fn hex(bytes: &[u8], from: usize) -> Result<u32, Fault> {
    let mut unit = 0;
    for at in from..from + 4 {
        let digit = bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        unit = unit * 16 + digit.ok_or(Fault::Unknown { at })?;
    }
    Ok(unit)
}

/// Parses a JSON string, quotes included, with a single allocation; `None` if it is not one.
///
/// ```
/// # use tract_core::json::read_string;
/// assert_eq!(read_string(r#""tab\t, caf\u00e9""#).as_deref(), Some("tab\t, café"));
/// assert_eq!(read_string("12"), None);
/// ```
pub fn read_string(literal: &str) -> Option<String> {
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::with_capacity(rest.len());
    loop {
        let (plain, special) = rest.split_at(run(rest.as_bytes()).len);
        out.push_str(plain);
        let Some(escape) = special.strip_prefix('\\') else {
            rest = special;
            break;
        };
        let (character, len) = unescape(escape.as_bytes()).ok()?;
        out.push(character);
        rest = escape.get(len..)?;
    }
    if out.capacity() > out.len() + out.len() / 8 {
        out.shrink_to_fit();
    }
    rest.is_empty().then_some(out)
}

/// Iterates over the characters of a valid literal up to its closing quote. Text after the quote is
/// ignored.
struct Unescaped<'a> {
    rest: &'a str,
}

impl<'a> Unescaped<'a> {
    fn of(literal: &'a str) -> Self {
        Self { rest: literal.strip_prefix('"').unwrap_or(literal) }
    }
}

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let (character, rest) = match chars.next()? {
            '"' => return None,
            '\\' => {
                let (character, len) = unescape(chars.as_str().as_bytes()).ok()?;
                (character, chars.as_str().get(len..)?)
            }
            character => (character, chars.as_str()),
        };
        self.rest = rest;
        Some(character)
    }
}

/// Orders two literals by the code points of their texts. Both may be followed by other text.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let inside = |literal| str::as_bytes(literal).iter().skip(1);
    for (&x, &y) in inside(a).zip(inside(b)) {
        if x == b'\\' || y == b'\\' {
            return Unescaped::of(a).cmp(Unescaped::of(b));
        }
        if x != y {
            // UTF-8 sorts in the order of code points. The closing quote ranks lowest, as the end
            // of a string: bytes below the space cannot occur in a literal.
            let rank = |byte| if byte == b'"' { 0 } else { byte };
            return rank(x).cmp(&rank(y));
        }
        if x == b'"' {
            break;
        }
    }
    Ordering::Equal
}

/// Returns whether rule `pyjson-raw-1` escapes a character of the text.
pub(crate) fn needs_escapes(text: &str) -> bool {
    run(text.as_bytes()).len < text.len()
}

/// Returns the number of bytes that [`write_string`] writes for a text with [`Escapes::Raw`].
///
/// ```
/// # use tract_core::json::string_len;
/// assert_eq!(string_len("tab\t, café"), r#""tab\t, café""#.len());
/// ```
pub fn string_len(text: &str) -> usize {
    let mut len = text.len() + 2;
    let mut rest = text.as_bytes();
    while let Some((special, after)) = rest.get(run(rest).len..).and_then(<[u8]>::split_first) {
        len += escape_len(*special) - 1;
        rest = after;
    }
    len
}

/// Returns the length of an escape in bytes.
fn escape_len(special: u8) -> usize {
    match special {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0xc | 0x8 => 2,
        _ => 6,
    }
}

/// Converts a text to a JSON string with [`Escapes::Raw`], between two other texts. It works in the
/// memory of the text, so that a large text is not copied.
pub(crate) fn quote(before: &str, text: String, after: &str) -> String {
    let total = before.len() + string_len(&text) + after.len();
    let mut bytes = text.into_bytes();
    let (mut read, mut write) = (bytes.len(), total - after.len() - 1);
    bytes.reserve_exact(total - read);
    bytes.resize(total, 0);
    // Work backwards, because every byte moves towards the end.
    let is_special = |byte: &u8| matches!(byte, ..0x20 | b'"' | b'\\');
    let mut escape = String::new();
    loop {
        let special = bytes[..read].iter().rposition(is_special);
        let start = special.map_or(0, |at| at + 1);
        bytes.copy_within(start..read, write - (read - start));
        write -= read - start;
        let Some(at) = special else { break };
        escape.clear();
        write_char(&mut escape, char::from(bytes[at]), Escapes::Raw);
        bytes[write - escape.len()..write].copy_from_slice(escape.as_bytes());
        write -= escape.len();
        read = at;
    }
    bytes[..before.len()].copy_from_slice(before.as_bytes());
    bytes[before.len()] = b'"';
    bytes[total - after.len() - 1] = b'"';
    bytes[total - after.len()..].copy_from_slice(after.as_bytes());
    String::from_utf8(bytes).expect("whole characters were moved")
}

/// Appends a text as a JSON string, quotes included.
///
/// ```
/// # use tract_core::json::{Escapes, write_string};
/// let mut out = String::new();
/// write_string(&mut out, "tab\t, quote\", café", Escapes::Raw);
/// write_string(&mut out, "é😀", Escapes::Ascii);
/// assert_eq!(out, r#""tab\t, quote\", café""\u00e9\ud83d\ude00""#);
/// ```
pub fn write_string(out: &mut String, text: &str, escapes: Escapes) {
    out.push('"');
    let mut rest = text;
    loop {
        let run = run(rest.as_bytes());
        // A run ends before an ASCII character or at the end of the text.
        let (plain, special) = rest.split_at(run.len);
        if run.wide && escapes == Escapes::Ascii {
            for character in plain.chars() {
                write_char(out, character, escapes);
            }
        } else {
            out.push_str(plain);
        }
        let mut chars = special.chars();
        let Some(character) = chars.next() else { break };
        write_char(out, character, escapes);
        rest = chars.as_str();
    }
    out.push('"');
}

fn write_char(out: &mut String, character: char, escapes: Escapes) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{c}' => out.push_str("\\f"),
        '\u{8}' => out.push_str("\\b"),
        ' '..='~' => out.push(character),
        '\u{7f}'.. if escapes == Escapes::Raw => out.push(character),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str("\\u");
                let digits = [12, 8, 4, 0].map(|shift| u32::from(*unit >> shift) & 0xf);
                out.extend(digits.into_iter().filter_map(|digit| char::from_digit(digit, 16)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_quoted_in_its_place_as_it_is_written() {
        let texts =
            ["", "a", "\"", "\\\"\n\u{1}", "café \u{8} 日本\t", "\u{1f}x\u{1f}", "no escape"];
        for text in texts {
            for (before, after) in [("", ""), ("{\"k\":", "}"), ("", ",\"name\":\"f\"}")] {
                let mut written = before.to_owned();
                write_string(&mut written, text, Escapes::Raw);
                assert_eq!(string_len(text), written.len() - before.len());
                written.push_str(after);
                assert_eq!(quote(before, text.to_owned(), after), written);
            }
        }
    }
}
