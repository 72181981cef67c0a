//! Canonical JSON: one text for all spellings of the same document.
//!
//! The canonical text is the result of CPython's `json.dumps(json.loads(text), sort_keys=True,
//! separators=(",", ":"))`, computed from the text itself:
//!
//! - keys are sorted by code point; of equal keys (after unescaping) the last one wins;
//! - integers of any size are kept as they are, except that `-0` becomes `0`;
//! - numbers with a fraction or an exponent become the nearest double, written as Python's `repr`:
//!   `1.0`, `1e+22`, `1e-07`, `-0.0`;
//! - strings are escaped by one of the two rules in [`Escapes`].
//!
//! `serde_json::Value` is not used, so that a feature enabled by another crate cannot change a
//! hash.
//!
//! A text without a canonical form is rejected with a [`JsonError`], wherever in the document the
//! cause is, even under a key that a later one replaces: invalid JSON (including `NaN`, `Infinity`
//! and byte order marks), lone surrogates, numbers beyond the range of a double, nesting deeper
//! than [`MAX_DEPTH`], and texts longer than [`MAX_BYTES`].
//!
//! ```
//! use tract_core::json::{Escapes, canonical};
//!
//! let text = r#" {"b": 1e3, "a": [-0, "caf\u00e9"], "b": 1E22} "#;
//! assert_eq!(canonical(text, Escapes::Raw)?, r#"{"a":[0,"café"],"b":1e+22}"#);
//! assert_eq!(canonical(text, Escapes::Ascii)?, r#"{"a":[0,"caf\u00e9"],"b":1e+22}"#);
//! # Ok::<(), tract_core::json::JsonError>(())
//! ```

mod decode;
mod equal;
mod error;
mod number;
mod repeated;
mod scan;
mod string;
mod write;

pub use decode::{
    DecodedText, ReplacedText, TextDamage, decode, join_surrogates, mark_surrogates,
    split_open_surrogate,
};
pub use error::JsonError;
pub use number::write_f64;
pub use repeated::{repeated_keys, without_repeated_keys};
pub(crate) use string::needs_escapes;
pub(crate) use string::quote;
pub use string::{read_string, string_len, write_string};

use scan::Scanner;
use write::Writer;

/// Maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// Maximum length of a text in bytes: 512 MiB.
pub const MAX_BYTES: usize = 512 << 20;

/// The rule that determines which characters of a string are escaped.
///
/// Both rules write `\"`, `\\`, `\n`, `\r`, `\t`, `\f` and `\b`, write other characters below the
/// space as `\u` with four lower-case hex digits, and do not escape `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// Rule `pyjson-ascii-1`: every character outside of `' '..='~'` is escaped, those beyond
    /// U+FFFF as a surrogate pair. Tool schemas are hashed in this form.
    Ascii,
    /// Rule `pyjson-raw-1`: characters from DEL (U+007F) on are not escaped.
    Raw,
}

impl Escapes {
    /// Returns the permanent name of the rule.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Ascii => "pyjson-ascii-1",
            Self::Raw => "pyjson-raw-1",
        }
    }
}

/// Returns the canonical form of a JSON text.
///
/// # Errors
/// A [`JsonError`] for the texts listed in the [module's documentation](self).
///
/// # Complexity
/// One pass, and a sort of the members of each object whose keys are not in order. Memory in
/// addition to the result: up to the size of the largest such object without its longest member.
pub fn canonical(text: &str, escapes: Escapes) -> Result<String, JsonError> {
    let mut scan = Scanner::new(text)?;
    let mut writer = Writer::new(escapes, text.len());
    writer.value(&mut scan)?;
    scan.finish()?;
    Ok(writer.out)
}

/// Returns the canonical form of a JSON text that may not be UTF-8.
///
/// # Errors
/// [`JsonError::InvalidUtf8`], or else those of [`canonical`].
pub fn canonical_bytes(text: &[u8], escapes: Escapes) -> Result<String, JsonError> {
    match std::str::from_utf8(text) {
        Ok(text) => canonical(text, escapes),
        Err(error) => Err(JsonError::InvalidUtf8 { offset: error.valid_up_to() }),
    }
}

/// Returns whether a text is valid JSON in canonical form.
///
/// ```
/// # use tract_core::json::{Escapes, is_canonical};
/// assert!(is_canonical(r#"{"a":1}"#, Escapes::Raw));
/// assert!(!is_canonical(r#"{"a": 1}"#, Escapes::Raw));
/// ```
pub fn is_canonical(text: &str, escapes: Escapes) -> bool {
    canonical(text, escapes).is_ok_and(|canonical| canonical == text)
}

/// Returns whether two texts have the same canonical form.
///
/// Numbers are equal if their canonical forms are: `1` and `1.0` differ, `1.0` and `1e0` do not.
///
/// ```
/// # use tract_core::json::equal;
/// assert!(equal(r#"{"a":1,"b":"\/"}"#, r#"{"b":"/", "a":1}"#)?);
/// assert!(!equal("1", "1.0")?);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// Those of [`canonical`], for the first invalid text.
///
/// # Complexity
/// A few passes. Needs no memory for a large string in one of the outer levels, such as the text of
/// a message; otherwise up to the size of both texts.
pub fn equal(a: &str, b: &str) -> Result<bool, JsonError> {
    equal::equal(a, b)
}

/// Checks that a text has a canonical form, without creating it.
///
/// # Errors
/// Those of [`canonical`].
pub fn check(text: &str) -> Result<(), JsonError> {
    let mut scan = Scanner::new(text)?;
    scan.skip()?;
    scan.finish()
}

/// Returns the members of an object: keys unescaped, values as written.
///
/// They are in the order of the text; a repeated key is returned each time. The whole text is
/// checked by the rules of [`canonical`].
///
/// ```
/// # use tract_core::json::split_object;
/// let members = split_object(r#"{"b": [1, 2.50], "\u0061": {}}"#)?;
/// assert_eq!(members, [("b".to_owned(), "[1, 2.50]"), ("a".to_owned(), "{}")]);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError::Syntax`] if the text is not an object, or else those of [`canonical`].
pub fn split_object(text: &str) -> Result<Vec<(String, &str)>, JsonError> {
    members(Scanner::new(text)?)
}

/// As [`split_object`], for an object that wraps other texts. Each of them may have the full depth
/// on its own, so the whole may be one level deeper.
///
/// # Errors
/// Those of [`split_object`].
pub(crate) fn split_envelope(text: &str) -> Result<Vec<(String, &str)>, JsonError> {
    members(Scanner::new(text)?.deeper(1))
}

fn members(mut scan: Scanner<'_>) -> Result<Vec<(String, &str)>, JsonError> {
    scan.open(b'{', "an object")?;
    let mut members = Vec::new();
    scan.members(|scan, key| {
        members.push((key.text(), scan.raw()?));
        Ok(())
    })?;
    scan.finish()?;
    Ok(members)
}

/// Returns the nesting depth of a text that is known to be JSON.
pub(crate) fn nesting(text: &str) -> usize {
    let (mut depth, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Returns the elements of an array as written, lazily. Unlike [`split_array`] it does not need
/// memory for each element.
///
/// # Errors
/// Those of [`split_array`], for any part of the text, before the first element is returned.
pub fn elements(text: &str) -> Result<impl Iterator<Item = &str>, JsonError> {
    check(text)?;
    let mut scan = Scanner::new(text)?;
    scan.open(b'[', "an array")?;
    let mut is_first = true;
    // The whole text was checked above, so nothing but white space follows the array.
    Ok(std::iter::from_fn(move || {
        let more = scan.next_element(std::mem::take(&mut is_first)).ok()?;
        if more { scan.raw().ok() } else { None }
    })
    .fuse())
}

/// Returns the elements of an array as written.
///
/// The whole text is checked by the rules of [`canonical`].
///
/// ```
/// # use tract_core::json::split_array;
/// assert_eq!(split_array(r#" [1.50, {"a": 1}] "#)?, ["1.50", r#"{"a": 1}"#]);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError::Syntax`] if the text is not an array, or else those of [`canonical`].
pub fn split_array(text: &str) -> Result<Vec<&str>, JsonError> {
    let mut scan = Scanner::new(text)?;
    scan.open(b'[', "an array")?;
    let mut elements = Vec::new();
    scan.elements(|scan| {
        elements.push(scan.raw()?);
        Ok(())
    })?;
    scan.finish()?;
    Ok(elements)
}
