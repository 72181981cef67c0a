//! Why a text is refused.

/// The reason why a text has no canonical form.
///
/// Offsets count bytes from the start of the text that was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text is not JSON: a wrong character, an early end, or something after the value.
    #[error("invalid JSON at byte {offset}: expected {expected}, found {}", shown(*.found))]
    Syntax {
        /// Where reading stopped.
        offset: usize,
        /// What would be valid there.
        expected: &'static str,
        /// What is there; `None` at the end of the text.
        found: Option<char>,
    },
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8 at byte {offset}")]
    InvalidUtf8 {
        /// The first byte that is not part of a character.
        offset: usize,
    },
    /// A `\u` escape names half of a surrogate pair, which is not a character.
    #[error("lone surrogate escape at byte {offset}")]
    LoneSurrogate {
        /// The escape's backslash.
        offset: usize,
    },
    /// A number that a double cannot hold.
    #[error("number is not finite as a double{}", location(*.offset))]
    NotFinite {
        /// Where the number begins; `None` when it did not come from a text.
        offset: Option<usize>,
    },
    /// Arrays and objects are nested too deeply.
    #[error("nesting at byte {offset} is deeper than {limit}")]
    TooDeep {
        /// The bracket that is one too many.
        offset: usize,
        /// The greatest depth that is accepted.
        limit: usize,
    },
    /// The text is too long.
    #[error("text has {size_bytes} bytes, expected at most {limit_bytes}")]
    TooLarge {
        /// The length of the text.
        size_bytes: usize,
        /// The greatest length that is accepted.
        limit_bytes: usize,
    },
}

impl JsonError {
    /// Returns the byte offset at which the text went wrong, where one is known.
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
