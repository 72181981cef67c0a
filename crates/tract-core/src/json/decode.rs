//! Bytes of other tools, as text that can be read.

use std::borrow::Cow;

/// Places of one text that are listed; the others are counted.
const LISTED: usize = 20;
/// Bytes of a place at most.
const MAX_PLACE_BYTES: usize = 200;

/// A kind of damage that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TextDamage {
    /// A `\u` escape of half a surrogate pair; U+FFFD replaces it.
    UnpairedSurrogate,
    /// Bytes that are not UTF-8; U+FFFD replaces them, between values a space.
    InvalidBytes,
    /// A control character as itself; its escape replaces it, between values a space.
    ControlCharacter,
}

impl TextDamage {
    /// Returns what was replaced, in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnpairedSurrogate => "an unpaired surrogate",
            Self::InvalidBytes => "invalid UTF-8",
            Self::ControlCharacter => "a control character",
        }
    }
}

/// A place where a text was damaged; neighboring damage of one kind is one place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplacedText {
    /// The member, such as `message.content[0].text`; empty outside of all members.
    pub member: String,
    /// The byte of the input, from 0.
    pub offset: usize,
    /// What was replaced.
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

/// A text in which nothing keeps it from being read as JSON that is not about its syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedText<'a> {
    /// The text; borrowed where nothing was replaced.
    pub text: Cow<'a, str>,
    /// The first places that were replaced.
    pub replaced: Vec<ReplacedText>,
    /// How many places were replaced.
    pub count: usize,
}

/// Decodes bytes of JSON that another tool wrote. Canonical JSON refuses some texts that tools write
/// nevertheless, such as half an emoji, which JavaScript writes as an unpaired surrogate when it cuts a
/// text. This is the one place where such a text is replaced: the rest of it is kept.
///
/// A byte order mark is left out. A text without damage is borrowed as it is.
///
/// ```
/// # use tract_core::json::decode;
/// let decoded = decode(br#"{"a":["tree \ud83c","\ud83c\udf33"]}"#);
/// assert_eq!(decoded.text, "{\"a\":[\"tree \u{fffd}\",\"\\ud83c\\udf33\"]}");
/// assert_eq!(decoded.replaced[0].to_string(), "a[0]: an unpaired surrogate was replaced");
/// ```
///
/// # Complexity
/// Two passes for a text without damage, no memory.
pub fn decode(bytes: &[u8]) -> DecodedText<'_> {
    let start = if bytes.starts_with("\u{feff}".as_bytes()) { '\u{feff}'.len_utf8() } else { 0 };
    let bytes = bytes.get(start..).unwrap_or_default();
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    let has_control =
        bytes.chunks(256).any(|chunk| chunk.iter().filter(|b| is_control(b)).count() > 0);
    if !has_control
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

/// Whether a text has an escape of half a surrogate pair.
fn has_unpaired(text: &str) -> bool {
    let mut rest = text;
    let mut before = "";
    while let Some(at) = rest.find(r"\u") {
        let (skipped, escape) = rest.split_at(at);
        let tail = if skipped.is_empty() { before } else { skipped };
        let backslashes = tail.bytes().rev().take_while(|byte| *byte == b'\\').count();
        let len = match surrogate(escape.as_bytes()) {
            // The backslash is the second half of an escaped one.
            _ if backslashes % 2 == 1 => 2,
            Some(Surrogate::Pair) => 12,
            Some(Surrogate::Unpaired(_)) => return true,
            None => 2,
        };
        (before, rest) = escape.split_at_checked(len).unwrap_or((escape, ""));
    }
    false
}

/// The surrogates that an escape names.
enum Surrogate {
    Pair,
    Unpaired(u16),
}

/// Reads the escape at the beginning of a text, when it names a surrogate.
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

/// Reads the unit of a `\u` escape at the beginning of a text.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(br"\u")?.get(..4)?;
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
    digits.iter().try_fold(0_u16, |unit, byte| Some((unit << 4) | digit(byte)?))
}

/// A container around the place that is read.
enum Container {
    Object { key: String, is_key: bool },
    Array(usize),
}

/// Follows the structure of a text, which need not be right, and replaces what is damaged.
#[derive(Default)]
struct Decoder {
    out: String,
    offset: usize,
    containers: Vec<Container>,
    /// Where the string that is read begins in `out`.
    string: Option<usize>,
    replaced: Vec<ReplacedText>,
    count: usize,
    /// Where the last replacement ends, and what it was: more of it is the same place.
    run: Option<(usize, TextDamage)>,
}

impl Decoder {
    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let len = match (first, self.string) {
                ('\\', Some(_)) => self.escape(rest),
                (control, _) if control < ' ' && !matches!(control, '\t' | '\n' | '\r') => {
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

    /// Takes an escape, and returns its length.
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

// The deltas of a stream may cut an emoji in two. Each delta is read with a mark in the place of its
// half; when the pieces are joined, neighboring marks become the emoji. A mark is this character and
// four hexadecimal digits. All of them are noncharacters, which no text for others contains.
const MARK: char = '\u{fdef}';
/// The digit 0 of a mark.
const DIGITS: u32 = 0xfdd0;
const MARK_DIGITS: usize = 4;

/// Marks the unpaired surrogates of a text of JSON, so that the strings in it can be joined with
/// others by [`join_surrogates`]; returns `None` where it has none.
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

/// Reads the mark at the beginning of a text.
fn read_mark(text: &str) -> Option<(u16, &str)> {
    let mut chars = text.strip_prefix(MARK)?.chars();
    let mut unit = 0_u16;
    for _ in 0..MARK_DIGITS {
        let digit = u32::from(chars.next()?).checked_sub(DIGITS).filter(|digit| *digit < 16)?;
        unit = (unit << 4) | u16::try_from(digit).ok()?;
    }
    Some((unit, chars.as_str()))
}

/// Pairs the marked surrogates of a text, and replaces those without a pair by U+FFFD; returns how many
/// those are.
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

/// Splits a text before a marked high surrogate at its end, whose other half may come next.
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
