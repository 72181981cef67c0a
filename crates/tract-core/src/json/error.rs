//! Errors of JSON texts.

/// Error of a text without a canonical form.
///
/// Offsets are in bytes from the start of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text is not JSON: a wrong character, an early end, or trailing text.
    #[error("invalid JSON at byte {offset}: expected {expected}, found {}", shown(*.found))]
    Syntax {
        /// The offset of the error.
        offset: usize,
        /// The valid tokens at this offset.
        expected: &'static str,
        /// The character at this offset; `None` at the end of the text.
        found: Option<char>,
    },
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8 at byte {offset}")]
    InvalidUtf8 {
        /// The first byte that is not part of a character.
        offset: usize,
    },
    /// A `\u` escape of half a surrogate pair, which is not a character.
    #[error("lone surrogate escape at byte {offset}")]
    LoneSurrogate {
        /// The offset of the backslash.
        offset: usize,
    },
    /// A number beyond the range of a double.
    #[error("number is not finite as a double{}", location(*.offset))]
    NotFinite {
        /// The offset of the number; `None` if it did not come from a text.
        offset: Option<usize>,
    },
    /// Arrays and objects are nested too deeply.
    #[error("nesting at byte {offset} is deeper than {limit}")]
    TooDeep {
        /// The offset of the first bracket beyond the limit.
        offset: usize,
        /// The maximum depth.
        limit: usize,
    },
    /// The text is too long.
    #[error("text has {size_bytes} bytes, expected at most {limit_bytes}")]
    TooLarge {
        /// The length of the text.
        size_bytes: usize,
        /// The maximum length.
        limit_bytes: usize,
    },
}

impl JsonError {
    /// Returns the byte offset of the error, if known.
    pub fn offset(&self) -> Option<usize> {
        match *self {
            Self::Syntax { offset, .. }
            | Self::InvalidUtf8 { offset }
            | Self::LoneSurrogate { offset }
            | Self::TooDeep { offset, .. } => Some(offset),
            Self::NotFinite { offset } => offset,
            Self::TooLarge { .. } => None,
        }
    }
}

fn shown(found: Option<char>) -> String {
    found.map_or_else(|| "the end".to_owned(), |found| format!("{found:?}"))
}

fn location(offset: Option<usize>) -> String {
    offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default()
}
