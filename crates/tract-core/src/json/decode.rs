//! Repairs damaged JSON of other tools, so that it can be parsed.

use std::borrow::Cow;

/// Maximum number of replacements that are listed; all of them are counted.
const LISTED: usize = 20;
/// Maximum length of the path of a member, in bytes.
const MAX_PLACE_BYTES: usize = 200;

/// A kind of damage that can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextDamage {
    /// A `\u` escape of half a surrogate pair. It is replaced by U+FFFD.
    UnpairedSurrogate,
    /// Bytes that are not UTF-8. They are replaced by U+FFFD, or by a space outside of strings.
    InvalidBytes,
    /// An unescaped control character, in a string also a tab. It is replaced by its escape, or by a space outside of
    /// strings.
    ControlCharacter,
}

impl TextDamage {
    /// Returns a description of the damage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnpairedSurrogate => "an unpaired surrogate",
            Self::InvalidBytes => "invalid UTF-8",
            Self::ControlCharacter => "a control character",
        }
    }
}

/// A replacement. Adjacent damage of the same kind is one replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedText {
    /// The path of the member, such as `message.content[0].text`; empty outside of all members.
    pub member: String,
    /// The byte offset in the input, from 0.
    pub offset: usize,
    /// The kind of damage.
    pub damage: TextDamage,
}

impl std::fmt::Display for ReplacedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.member.as_str() {
            "" => write!(f, "{} was replaced", self.damage.as_str()),
            member => write!(f, "{member}: {} was replaced", self.damage.as_str()),
        }
    }
}

/// A text whose damage was replaced. It may still be syntactically invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedText<'a> {
    /// The text; borrowed if nothing was replaced.
    pub text: Cow<'a, str>,
    /// The first replacements.
    pub replaced: Vec<ReplacedText>,
    /// The number of all replacements.
    pub count: usize,
}

/// Decodes JSON bytes written by another tool, and replaces damage that JSON parsers reject. For
/// example, JavaScript writes half an emoji as an unpaired surrogate when it truncates a string.
/// This is the only place where such texts are repaired; everything else is kept.
///
/// A byte order mark is removed. A text without damage is borrowed.
///
/// ```
/// # use tract_core::json::decode;
/// let decoded = decode(br#"{"a":["tree \ud83c","\ud83c\udf33"]}"#);
/// assert_eq!(decoded.text, "{\"a\":[\"tree \u{fffd}\",\"\\ud83c\\udf33\"]}");
/// assert_eq!(decoded.replaced[0].to_string(), "a[0]: an unpaired surrogate was replaced");
/// ```
///
/// # Complexity
/// Two passes without allocation for a text without damage.
pub fn decode(bytes: &[u8]) -> DecodedText<'_> {
    let start = if bytes.starts_with("\u{feff}".as_bytes()) { '\u{feff}'.len_utf8() } else { 0 };
    let bytes = bytes.get(start..).unwrap_or_default();
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    let has_control =
        bytes.chunks(256).any(|chunk| chunk.iter().filter(|b| is_control(b)).count() > 0);
    if !has_control
        && !has_tab_in_string(bytes)
        && let Ok(text) = std::str::from_utf8(bytes)
        && !has_unpaired(text)
    {
        return DecodedText { text: Cow::Borrowed(text), replaced: Vec::new(), count: 0 };
    }
    let mut decoder = Decoder { offset: start, ..Decoder::default() };
    decoder.out.reserve(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoder.text(chunk.valid());
        if !chunk.invalid().is_empty() {
            let len = chunk.invalid().len();
            decoder.replace(TextDamage::InvalidBytes, len, "\u{fffd}");
            decoder.offset += len;
        }
    }
    let Decoder { out, replaced, count, .. } = decoder;
    DecodedText { text: Cow::Owned(out), replaced, count }
}

/// Returns whether a string of a JSON text contains a tab that is not escaped.
fn has_tab_in_string(bytes: &[u8]) -> bool {
    if !bytes.contains(&b'\t') {
        return false;
    }
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'\t' if in_string => return true,
            _ => {}
        }
    }
    false
}

/// Returns whether a text contains an escape of half a surrogate pair.
fn has_unpaired(text: &str) -> bool {
    let mut rest = text;
    let mut before = "";
    while let Some(at) = rest.find(r"\u") {
        let (skipped, escape) = rest.split_at(at);
        let tail = if skipped.is_empty() { before } else { skipped };
        let backslashes = tail.bytes().rev().take_while(|byte| *byte == b'\\').count();
        let len = match surrogate(escape.as_bytes()) {
            // The backslash itself is escaped, so `\u` is not an escape.
            _ if backslashes % 2 == 1 => 2,
            Some(Surrogate::Pair) => 12,
            Some(Surrogate::Unpaired(_)) => return true,
            None => 2,
        };
        (before, rest) = escape.split_at_checked(len).unwrap_or((escape, ""));
    }
    false
}

/// The meaning of a surrogate escape.
enum Surrogate {
    Pair,
    Unpaired(u16),
}

/// Parses the escape at the start of a text; `None` if it is not a surrogate.
fn surrogate(bytes: &[u8]) -> Option<Surrogate> {
    let high = unit(bytes)?;
    if !(0xd800..0xe000).contains(&high) {
        return None;
    }
    let low = bytes.get(6..).and_then(unit).filter(|low| (0xdc00..0xe000).contains(low));
    Some(match low {
        Some(_) if high < 0xdc00 => Surrogate::Pair,
        _ => Surrogate::Unpaired(high),
    })
}

/// Parses the UTF-16 unit of a `\u` escape at the start of a text.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(br"\u")?.get(..4)?;
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
    digits.iter().try_fold(0_u16, |unit, byte| Some((unit << 4) | digit(byte)?))
}

/// A container around the current position.
enum Container {
    Object { key: String, is_key: bool },
    Array(usize),
}

/// Tracks the structure of a text, which may be invalid, and replaces damage.
#[derive(Default)]
struct Decoder {
    out: String,
    offset: usize,
    containers: Vec<Container>,
    /// Offset in `out` of the current string, if inside of one.
    string: Option<usize>,
    replaced: Vec<ReplacedText>,
    count: usize,
    /// End and kind of the last replacement. Damage of this kind right after it belongs to it.
    run: Option<(usize, TextDamage)>,
}

impl Decoder {
    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let len = match (first, self.string) {
                ('\\', Some(_)) => self.escape(rest),
                // A line break may end a record that was cut within a string.
                (control, string)
                    if control < ' '
                        && !matches!((control, string), ('\t', None) | ('\n' | '\r', _)) =>
                {
                    let escape = format!("\\u{:04x}", u32::from(control));
                    self.replace(TextDamage::ControlCharacter, 1, &escape);
                    1
                }
                (first, Some(begin)) => {
                    self.out.push(first);
                    if first == '"' {
                        self.end_string(begin);
                    }
                    first.len_utf8()
                }
                (first, None) => {
                    self.structure(first);
                    self.out.push(first);
                    first.len_utf8()
                }
            };
            self.offset += len;
            rest = rest.get(len..).unwrap_or_default();
        }
    }

    /// Copies or replaces an escape and returns its length.
    fn escape(&mut self, text: &str) -> usize {
        let len = match surrogate(text.as_bytes()) {
            Some(Surrogate::Unpaired(_)) => {
                self.replace(TextDamage::UnpairedSurrogate, 6, "\u{fffd}");
                return 6;
            }
            Some(Surrogate::Pair) => 12,
            None => 1 + text.chars().nth(1).map_or(0, char::len_utf8),
        };
        self.out.push_str(text.get(..len).unwrap_or_default());
        len
    }

    fn structure(&mut self, character: char) {
        match (character, self.containers.last_mut()) {
            ('"', _) => self.string = Some(self.out.len() + 1),
            ('{', _) => {
                self.containers.push(Container::Object { key: String::new(), is_key: true })
            }
            ('[', _) => self.containers.push(Container::Array(0)),
            ('}' | ']', _) => drop(self.containers.pop()),
            (',', Some(Container::Array(place))) => *place += 1,
            (',', Some(Container::Object { key, is_key })) => {
                *is_key = true;
                key.clear();
            }
            (':', Some(Container::Object { is_key, .. })) => *is_key = false,
            _ => {}
        }
    }

    fn end_string(&mut self, begin: usize) {
        self.string = None;
        let text = self.out.get(begin..self.out.len() - 1).unwrap_or_default();
        if let Some(Container::Object { key, is_key: true }) = self.containers.last_mut() {
            text.clone_into(key);
        }
    }

    fn replace(&mut self, damage: TextDamage, len: usize, by: &str) {
        self.out.push_str(if self.string.is_some() { by } else { " " });
        let continues = self.run == Some((self.offset, damage));
        self.run = Some((self.offset + len, damage));
        if continues {
            return;
        }
        self.count += 1;
        if self.replaced.len() < LISTED {
            let member = self.member();
            self.replaced.push(ReplacedText { member, offset: self.offset, damage });
        }
    }

    fn member(&self) -> String {
        let mut member = String::new();
        for container in &self.containers {
            match container {
                Container::Object { key, .. } if key.is_empty() => {}
                Container::Object { key, .. } => {
                    if !member.is_empty() {
                        member.push('.');
                    }
                    member.push_str(key);
                }
                Container::Array(place) => member.push_str(&format!("[{place}]")),
            }
            if member.len() > MAX_PLACE_BYTES {
                let is_boundary = |end: &usize| member.is_char_boundary(*end);
                let end = (0..=MAX_PLACE_BYTES).rev().find(is_boundary).unwrap_or(0);
                member.truncate(end);
                member.push('…');
                break;
            }
        }
        member
    }
}

// The deltas of a stream may cut an emoji into halves, one per delta. Each half is replaced by a
// mark, and when the deltas are joined, two adjacent marks become the emoji again. A mark is this
// character and four hexadecimal digits. All of them are Unicode noncharacters, which do not occur
// in text meant for interchange.
const MARK: char = '\u{fdef}';
/// The digit 0 in a mark.
const DIGITS: u32 = 0xfdd0;
const MARK_DIGITS: usize = 4;

/// Replaces unpaired surrogates in a JSON text with marks, so that its strings can be joined with
/// others by [`join_surrogates`]. `None` if there are none to replace.
pub fn mark_surrogates(text: &str) -> Option<String> {
    if !has_unpaired(text) {
        return None;
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let len = match surrogate(escape.as_bytes()) {
            Some(Surrogate::Unpaired(unit)) => {
                push_mark(&mut out, unit);
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            Some(Surrogate::Pair) => 12,
            None => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (copied, after) = escape.split_at(len);
        out.push_str(copied);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

fn push_mark(out: &mut String, unit: u16) {
    out.push(MARK);
    for shift in [12, 8, 4, 0] {
        out.extend(char::from_u32(DIGITS + (u32::from(unit) >> shift & 0xf)));
    }
}

/// Parses the mark at the start of a text.
fn read_mark(text: &str) -> Option<(u16, &str)> {
    let mut chars = text.strip_prefix(MARK)?.chars();
    let mut unit = 0_u16;
    for _ in 0..MARK_DIGITS {
        let digit = u32::from(chars.next()?).checked_sub(DIGITS).filter(|digit| *digit < 16)?;
        unit = (unit << 4) | u16::try_from(digit).ok()?;
    }
    Some((unit, chars.as_str()))
}

/// Combines marked surrogates into characters, and replaces those without a partner by U+FFFD.
/// Returns the text and the number of replacements.
pub fn join_surrogates(text: &str) -> (Cow<'_, str>, usize) {
    if !text.contains(MARK) {
        return (Cow::Borrowed(text), 0);
    }
    let (mut out, mut unpaired) = (String::with_capacity(text.len()), 0);
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (plain, marked) = rest.split_at(at);
        out.push_str(plain);
        let Some((high, after)) = read_mark(marked) else {
            out.push(MARK);
            rest = marked.get(MARK.len_utf8()..).unwrap_or_default();
            continue;
        };
        let low = read_mark(after).filter(|_| high < 0xdc00);
        let pair = low.and_then(|(low, after)| {
            let pair = char::decode_utf16([high, low]).next()?.ok()?;
            Some((pair, after))
        });
        let (character, after) = pair.unwrap_or_else(|| {
            unpaired += 1;
            ('\u{fffd}', after)
        });
        out.push(character);
        rest = after;
    }
    out.push_str(rest);
    (Cow::Owned(out), unpaired)
}

/// Splits off a marked high surrogate at the end of a text: its other half may still arrive.
pub fn split_open_surrogate(text: &str) -> (&str, &str) {
    let open = text.rfind(MARK).filter(|at| {
        let mark = text.get(*at..).and_then(read_mark);
        mark.is_some_and(|(unit, after)| unit < 0xdc00 && after.is_empty())
    });
    text.split_at(open.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str, places: &[&str]) {
        let decoded = decode(bytes);
        assert_eq!(decoded.text, expected);
        let found: Vec<String> = decoded.replaced.iter().map(ToString::to_string).collect();
        assert_eq!(found, places);
        assert_eq!(decode(decoded.text.as_bytes()).count, 0, "it is right now");
    }

    #[test]
    fn a_tab_in_a_string_is_escaped() {
        let fixed = "{\t\"a\": \"x\\u0009y\\\\\"}";
        check(b"{\t\"a\": \"x\ty\\\\\"}", fixed, &["a: a control character was replaced"]);
    }

    #[test]
    fn whole_texts_are_borrowed_as_they_are() {
        let texts = [
            r#"{"a":"\ud83c\udf33 \\ud83c \\\\ud83c \u0000"}"#,
            "",
            "{\"a\":\n\t1}",
            r"\u",
            r#""\"#,
        ];
        for text in texts {
            assert!(
                matches!(decode(text.as_bytes()).text, Cow::Borrowed(same) if same == text),
                "{text}"
            );
        }
        assert_eq!(decode("\u{feff}{}".as_bytes()).text, "{}");
    }

    #[test]
    fn damage_is_replaced_and_placed() {
        let surrogate = |place: &str| format!("{place}: an unpaired surrogate was replaced");
        check(
            br#"{"m":[{"t":"x"},{"t":"a\uD83Cb","u":"\udf33"}],"k\ud83c":1}"#,
            "{\"m\":[{\"t\":\"x\"},{\"t\":\"a\u{fffd}b\",\"u\":\"\u{fffd}\"}],\"k\u{fffd}\":1}",
            &[&surrogate("m[1].t"), &surrogate("m[1].u"), "an unpaired surrogate was replaced"],
        );
        check(
            br#"["\ud83c\ud83c\udf33","\\\ud83c"]"#,
            "[\"\u{fffd}\\ud83c\\udf33\",\"\\\\\u{fffd}\"]",
            &[&surrogate("[0]"), &surrogate("[1]")],
        );
        check(
            b"\0\0{\"a\":\xff\"caf\xe9\0\"}",
            "  {\"a\": \"caf\u{fffd}\\u0000\"}",
            &[
                "a control character was replaced",
                "a: invalid UTF-8 was replaced",
                "a: invalid UTF-8 was replaced",
                "a: a control character was replaced",
            ],
        );
    }

    #[test]
    fn halves_of_an_emoji_are_joined() {
        let marked = |text: &str| mark_surrogates(text).expect("it has half a pair");
        let joined = format!("{}{}", marked(r"tree \ud83c"), marked(r"\udf33 \\ud83c \udf33"));
        assert_eq!(join_surrogates(&joined), ("tree 🌳 \\\\ud83c \u{fffd}".into(), 1));
        assert_eq!(mark_surrogates(r"\ud83c\udf33"), None);
        let text = marked(r"a\ud83c");
        assert_eq!(split_open_surrogate(&text).0, "a");
        assert_eq!(split_open_surrogate("a\u{fdef}"), ("a\u{fdef}", ""));
        assert_eq!(join_surrogates("a\u{fdef}b").0, "a\u{fdef}b");
    }
}
