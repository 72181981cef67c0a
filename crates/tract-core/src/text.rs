//! Text for people, and JSON kept as canonical text.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::{self, Escapes, JsonError};

/// Returns whether a character changes the display of other text, or is not displayed itself:
/// controls, bidirectional marks, zero-width spaces and fillers, tags.
///
/// Joiners and variation selectors are excluded, since emoji and many scripts need them.
pub fn is_format_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Escapes format controls, for example as `\\u{202e}`, so that the displayed text shows everything
/// that is stored. Characters accepted by `keep` are not escaped.
///
/// ```
/// use tract_core::text::escape_controls;
/// assert_eq!(escape_controls("a\u{1b}[2J\u{202e}b\n", |c| c == '\n'), "a\\x1b[2J\\u{202e}b\n");
/// ```
pub fn escape_controls(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let shown = |character: char| !is_format_control(character) || keep(character);
    if text.chars().all(shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if shown(character) {
            out.push(character);
            continue;
        }
        let _ = match character {
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(character)),
            _ => write!(out, "\\u{{{:x}}}", u32::from(character)),
        };
    }
    Cow::Owned(out)
}

/// Percent-encodes a text for a URL: every byte except ASCII letters, digits and the characters in
/// `kept`.
///
/// ```
/// assert_eq!(tract_core::text::percent_encoded("a b/é", "/"), "a%20b/%C3%A9");
/// ```
pub fn percent_encoded(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match char::from(byte) {
            mark if byte.is_ascii_alphanumeric() || kept.contains(mark) => out.push(mark),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Converts camel case to snake case.
///
/// ```
/// assert_eq!(tract_core::text::snake_case("functionCall"), "function_call");
/// ```
pub fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Returns the first `most` characters of a text, and the number of the others.
///
/// ```
/// assert_eq!(tract_core::text::beginning("äöü", 2), ("äö", 1));
/// assert_eq!(tract_core::text::beginning("äöü", 3), ("äöü", 0));
/// ```
pub fn beginning(text: &str, most: usize) -> (&str, usize) {
    match text.char_indices().nth(most) {
        None => (text, 0),
        Some((end, _)) => {
            let (kept, rest) = text.split_at(end);
            (kept, rest.chars().count())
        }
    }
}

/// Returns whether a character is invisible, or looks like a space but is another character. Two
/// texts that differ only in such characters look the same.
pub fn is_invisible(character: char) -> bool {
    is_format_control(character)
        || character != ' ' && character.is_whitespace()
        || matches!(
            character,
            '\u{180b}'..='\u{180f}'
                | '\u{200c}'..='\u{200d}'
                | '\u{2800}'
                | '\u{fe00}'..='\u{fe0f}'
        )
}

/// Formats a number with thousands separators: `2,423`.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with a noun, which is given in the singular.
///
/// ```
/// use tract_core::text::count;
/// assert_eq!(count(1, "branch"), "1 branch");
/// assert_eq!(count(2, "branch"), "2 branches");
/// assert_eq!(count(2_423, "commit"), "2,423 commits");
/// assert_eq!(count(0, "anomaly"), "0 anomalies");
/// ```
pub fn count(n: usize, thing: &str) -> String {
    let written = number(n as u64);
    match thing.strip_suffix('y') {
        _ if n == 1 => format!("1 {thing}"),
        Some(stem) if stem.ends_with(['l', 'r']) => format!("{written} {stem}ies"),
        _ if thing.ends_with(['s', 'h']) => format!("{written} {thing}es"),
        _ => format!("{written} {thing}s"),
    }
}

/// Formats a number in at most five characters.
///
/// ```
/// use tract_core::text::compact;
/// assert_eq!([compact(999), compact(1_250), compact(48_900)], ["999", "1.3k", "49k"]);
/// assert_eq!([compact(999_999), compact(2_000_000_000)], ["1.0M", "2.0G"]);
/// ```
pub fn compact(number: u64) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    let rounded = |unit: u64| number.saturating_add(unit / 2) / unit;
    for (size, unit) in [(1_000, "k"), (1_000_000, "M")] {
        let (tenths, whole) = (rounded(size / 10), rounded(size));
        match (tenths, whole) {
            (..100, _) => return format!("{}.{}{unit}", tenths / 10, tenths % 10),
            (_, ..1_000) => return format!("{whole}{unit}"),
            _ => {}
        }
    }
    match (rounded(100_000_000), rounded(1_000_000_000)) {
        (tenths @ ..100, _) => format!("{}.{}G", tenths / 10, tenths % 10),
        (_, whole) => format!("{whole}G"),
    }
}

/// Formats a duration in microseconds with its two largest units. A negative one counts as none.
///
/// ```
/// use tract_core::text::duration;
/// assert_eq!([duration(-1), duration(59_000_000), duration(61_000_000)], ["0 s", "59 s", "1 min"]);
/// assert_eq!([duration(4_800_000_000), duration(7_200_000_000)], ["1 h 20 min", "2 h"]);
/// assert_eq!(duration(277_200_000_000), "3 d 5 h");
/// ```
pub fn duration(us: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = us.max(0) / 1_000_000;
    let two = |large: i64, unit: &str, small: i64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {smaller}"),
    };
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "min"),
        _ => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
    }
}

/// Returns the last part of a path of any system.
///
/// ```
/// use tract_core::text::file_name;
/// assert_eq!([file_name("/home/ada/loom/"), file_name(r"C:\loom")], ["loom", "loom"]);
/// ```
pub fn file_name(path: &str) -> &str {
    let path = path.trim_end_matches(['/', '\\']);
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns a model's name without the company and the date of its version.
///
/// ```
/// use tract_core::text::model_name;
/// assert_eq!(model_name("anthropic/claude-sonnet-4-20250514"), "claude-sonnet-4");
/// assert_eq!(model_name("gpt-5.1"), "gpt-5.1");
/// ```
pub fn model_name(model: &str) -> &str {
    let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
    match name.rsplit_once('-') {
        Some((short, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => short,
        _ => name,
    }
}

/// A JSON value as its canonical text (rule `pyjson-raw-1`): equal values have equal texts, and
/// numbers keep every digit.
///
/// ```
/// use tract_core::JsonText;
/// let text = JsonText::new(r#"{ "b": 1e2, "a": 12345678901234567890 }"#)?;
/// assert_eq!(text.as_str(), r#"{"a":12345678901234567890,"b":100.0}"#);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Converts a JSON text to canonical form.
    ///
    /// # Errors
    /// [`JsonError`] if the text is not valid JSON, or cannot be written canonically.
    pub fn new(text: &str) -> Result<Self, JsonError> {
        json::canonical(text, Escapes::Raw).map(|text| Self(text.into()))
    }

    /// Wraps a text that is canonical already; `None` if it is not.
    pub fn from_canonical(text: &str) -> Option<Self> {
        json::is_canonical(text, Escapes::Raw).then(|| Self(text.into()))
    }

    /// Serializes any value.
    ///
    /// # Errors
    /// If the value does not serialize, or its JSON cannot be written canonically.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        Self::new(&text).map_err(serde::ser::Error::custom)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as a `RawValue`, which serializes unchanged.
    pub fn raw(&self) -> Box<RawValue> {
        RawValue::from_string(self.0.to_string()).expect("canonical text is JSON")
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(raw.get()).map_err(serde::de::Error::custom)
    }
}
