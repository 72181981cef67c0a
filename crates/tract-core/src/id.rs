//! Ids of objects: 32-byte hashes, with one type per kind of object.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Error of parsing an id that is not lower-case hex of the expected length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} lower-case hex digits, found {found:?}")]
pub struct ParseIdError {
    /// The expected number of hex digits.
    pub expected: usize,
    /// The text, truncated to 80 characters.
    pub found: String,
}

/// Returns the two hex digits of every byte.
pub(crate) fn digits<const N: usize>(bytes: &[u8; N]) -> [[u8; 2]; N] {
    // Hashing records writes thousands of ids. Without tables and branches the compiler can
    // vectorize this.
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    let mut digits = [[0; 2]; N];
    for (pair, byte) in digits.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    digits
}

pub(crate) fn hex(bytes: &[u8], out: &mut String) {
    for chunk in bytes.chunks(32) {
        let mut padded = [0; 32];
        padded[..chunk.len()].copy_from_slice(chunk);
        let digits = digits(&padded);
        let digits = digits[..chunk.len()].as_flattened();
        out.push_str(std::str::from_utf8(digits).expect("hex digits are ASCII"));
    }
}

fn unhex<const N: usize>(text: &str) -> Result<[u8; N], ParseIdError> {
    // Branchless as in `digits`: invalid digits set the high bit, which is checked once at the end.
    let value = |digit: u8| {
        let (number, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
        let letter = if letter < 6 { letter + 10 } else { 0x80 };
        if number < 10 { number } else { letter }
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0u8; N];
    let mut seen = 0;
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let (high, low) = (value(*high), value(*low));
        seen |= high | low;
        *byte = high << 4 | low;
    }
    if pairs.len() == N && rest.is_empty() && seen < 0x80 {
        Ok(bytes)
    } else {
        Err(ParseIdError { expected: N * 2, found: text.chars().take(80).collect() })
    }
}

/// Deserializes a string with `FromStr`, without copying it.
pub(crate) fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    struct Text<T>(PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Text(PhantomData))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $size:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $size]);

        impl $name {
            /// Wraps raw bytes.
            pub const fn from_bytes(bytes: [u8; $size]) -> Self {
                Self(bytes)
            }

            /// Returns the raw bytes.
            pub const fn as_bytes(&self) -> &[u8; $size] {
                &self.0
            }

            /// Returns the id in hex.
            pub fn to_hex(&self) -> String {
                let mut out = String::with_capacity($size * 2);
                hex(&self.0, &mut out);
                out
            }

            /// Returns the first eight hex digits, the short form for people.
            pub fn short(&self) -> String {
                let mut out = String::with_capacity(8);
                hex(&self.0[..4], &mut out);
                out
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_hex())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.short())
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                unhex(text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                parsed(deserializer)
            }
        }
    };
}

id! {
    /// The id of a commit: SHA-256 of the tag `tract-commit-1` and its canonical record.
    ///
    /// The id of the commit that first added a message is also the permanent id of that message,
    /// its *slot*.
    ///
    /// ```
    /// use tract_core::CommitId;
    /// let id = CommitId::from_bytes([0xab; 32]);
    /// assert_eq!(id.short(), "abababab");
    /// assert_eq!(id.to_hex().parse::<CommitId>()?, id);
    /// # Ok::<(), tract_core::ParseIdError>(())
    /// ```
    CommitId, 32
}
id! {
    /// The id of a blob: SHA-256 of the tag `tract-blob-1` and its bytes.
    BlobId, 32
}
id! {
    /// The id of a tool definition: SHA-256 of its canonical schema, without a tag. It therefore
    /// equals `hashlib.sha256(json.dumps(schema, sort_keys=True, separators=(",", ":")))`.
    ToolId, 32
}
id! {
    /// The id of an ordered list of tools: SHA-256 of the tag `tract-toolset-1` and the list.
    ToolsetId, 32
}
id! {
    /// The id of a view: views with equal ids have equal messages and tools.
    ViewId, 32
}
id! {
    /// Sixteen bytes shared by everything in one write. A retry after an unknown outcome looks for
    /// them in the ref log. They are random, except for the first eight in later writes of a
    /// command: see [`OperationId::batch_prefix`].
    BatchId, 16
}
id! {
    /// Sixteen bytes shared by the ref moves of one command, so that one `undo` reverts all of
    /// them. If the command is a single write, they equal the id of its batch.
    OperationId, 16
}

impl BatchId {
    /// Creates a random id from the operating system's generator.
    ///
    /// # Errors
    /// If the operating system's generator fails.
    pub fn random() -> std::io::Result<Self> {
        random().map(Self)
    }

    /// Returns the id with its first 8 bytes replaced.
    #[must_use]
    pub fn with_prefix(mut self, prefix: [u8; 8]) -> Self {
        self.0[..8].copy_from_slice(&prefix);
        self
    }

    /// Returns the first 8 bytes.
    pub fn prefix(self) -> [u8; 8] {
        self.0.first_chunk().copied().unwrap_or_default()
    }
}

impl OperationId {
    /// Creates a random id from the operating system's generator.
    ///
    /// # Errors
    /// If the operating system's generator fails.
    pub fn random() -> std::io::Result<Self> {
        random().map(Self)
    }

    /// Returns the first 8 bytes of the batch ids on one page of this operation's writes. Page 0
    /// has the operation's own first bytes. A page is used only once the page before it has entries
    /// in the ref log, so reading pages up to the first empty one finds all writes.
    pub fn batch_prefix(self, page: u64) -> [u8; 8] {
        let first = |bytes: &[u8]| bytes.first_chunk().copied().unwrap_or_default();
        if page == 0 {
            return first(&self.0);
        }
        let digest = Sha256::new_with_prefix("tract-operation-page-1\0")
            .chain_update(self.0)
            .chain_update(page.to_be_bytes())
            .finalize();
        first(&digest)
    }
}

thread_local! {
    /// The state of the generator that replaces the operating system's, if set.
    static REPEATABLE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes the random ids of the current thread repeatable until it is dropped, for simulations that
/// replay a run exactly. Ids made on other threads stay random.
///
/// ```
/// use tract_core::{BatchId, RepeatableIds};
/// let first = { let _ids = RepeatableIds::seeded(7); BatchId::random()? };
/// let second = { let _ids = RepeatableIds::seeded(7); BatchId::random()? };
/// assert_eq!(first, second);
/// assert_ne!(first, BatchId::random()?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RepeatableIds(PhantomData<*const ()>);

impl RepeatableIds {
    /// Starts with this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        REPEATABLE.set(Some(seed));
        Self(PhantomData)
    }
}

impl Drop for RepeatableIds {
    fn drop(&mut self) {
        REPEATABLE.set(None);
    }
}

/// Returns the next output of the SplitMix64 generator, and its next state.
fn split_mix(state: u64) -> (u64, u64) {
    let next = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31), next)
}

fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0u8; 16];
    if let Some(state) = REPEATABLE.get() {
        let (high, state) = split_mix(state);
        let (low, state) = split_mix(state);
        REPEATABLE.set(Some(state));
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        return Ok(bytes);
    }
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

/// The name of a repository in a store: 1 to 200 bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RepoName(String);

impl RepoName {
    /// The name of the default repository.
    pub const DEFAULT: &'static str = "default";

    /// Validates a name.
    ///
    /// # Errors
    /// [`BadName`] if the name is empty, too long, or contains a control character.
    pub fn new(name: impl Into<String>) -> Result<Self, BadName> {
        let name = name.into();
        let why = if name.is_empty() {
            "it is empty"
        } else if name.len() > 200 {
            "it is longer than 200 bytes"
        } else if name.chars().any(char::is_control) {
            "it holds a control character"
        } else {
            return Ok(Self(name));
        };
        Err(BadName::new("repository name", &name, why))
    }

    /// Checks the additional rules for the name of a new repository. Older stores may contain
    /// others.
    ///
    /// # Errors
    /// [`BadName`] if it is `HEAD`, or contains a character that is invisible or changes the
    /// direction of text: two names that look alike could then be two repositories.
    pub fn check_visible(&self) -> Result<(), BadName> {
        let why = if self.0 == "HEAD" {
            "HEAD names the branch that is checked out"
        } else if self.0.chars().any(is_invisible) {
            "it holds an invisible character"
        } else {
            return Ok(());
        };
        Err(BadName::new("repository name", &self.0, why))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RepoName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error of a name that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad {what} {name:?}: {why}")]
pub struct BadName {
    /// The kind of name.
    pub what: &'static str,
    /// The name, truncated to 80 characters.
    pub name: String,
    /// The rule that it breaks.
    pub why: &'static str,
}

impl BadName {
    pub(crate) fn new(what: &'static str, name: &str, why: &'static str) -> Self {
        Self { what, name: name.chars().take(80).collect(), why }
    }
}

/// Returns whether a character has zero width, or changes the direction of the text after it.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_from_its_own_digits_and_from_nothing_else() {
        let id = CommitId::from_bytes(std::array::from_fn(|n| (n * 37) as u8 ^ 0x5a));
        let text = id.to_hex();
        assert_eq!(text.parse(), Ok(id));
        for at in 0..text.len() {
            for byte in 0..=127 {
                let mut other = text.clone().into_bytes();
                other[at] = byte;
                let other = String::from_utf8(other).unwrap();
                let is_digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                let read = other.parse::<CommitId>();
                assert_eq!(read.map(|id| id.to_hex()).ok(), is_digit.then_some(other));
            }
        }
        for wrong in ["", &text[1..], &format!("{text}0"), &format!("{text}00"), &"é".repeat(32)] {
            let refused = wrong.parse::<CommitId>().unwrap_err();
            assert_eq!((refused.expected, &*refused.found), (64, wrong));
        }
    }

    #[test]
    fn ids_in_json_are_strings_of_their_digits() {
        let id = CommitId::from_bytes([0xab; 32]);
        let json = format!("\"{}\"", id.to_hex());
        assert_eq!(serde_json::from_str::<CommitId>(&json).unwrap(), id);
        // A parser cannot lend an escaped string from its input; it has to be read too.
        let escaped = json.replace("ab", "\\u0061b");
        assert_eq!(serde_json::from_str::<CommitId>(&escaped).unwrap(), id);
        for wrong in ["7", "null", "[]", "\"abc\""] {
            serde_json::from_str::<CommitId>(wrong).unwrap_err();
        }
    }
}
