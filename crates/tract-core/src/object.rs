//! Blobs and toolsets: bytes with the ids that are their hashes.

use std::fmt;

use bytes::Bytes;

use crate::hash;
use crate::id::{BlobId, CommitId, ToolId, ToolsetId};

/// Bytes with their id. Cheap to clone; can only be created by hashing.
///
/// ```
/// use tract_core::Blob;
/// let blob = Blob::seal("hello");
/// assert_eq!(Blob::check(blob.id(), blob.bytes().clone()), Some(blob));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    id: BlobId,
    bytes: Bytes,
}

impl Blob {
    /// Hashes bytes.
    pub fn seal(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { id: hash::blob(&bytes), bytes }
    }

    /// Checks that bytes hash to `id`; `None` if they do not.
    pub fn check(id: BlobId, bytes: impl Into<Bytes>) -> Option<Self> {
        let blob = Self::seal(bytes);
        (blob.id == id).then_some(blob)
    }

    /// Returns the id.
    pub fn id(&self) -> BlobId {
        self.id
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the bytes as text, if they are UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.id.short(), self.bytes.len())
    }
}

/// A tool of one commit: the id of the definition, and the exact bytes of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToolEntry {
    /// The id of the definition; equal for equal schemas.
    pub tool: ToolId,
    /// The blob of the schema as given.
    pub schema: BlobId,
}

/// An ordered list of tools. Repeats are kept. The empty list means "no tools now".
#[derive(Clone, PartialEq, Eq)]
pub struct Toolset {
    id: ToolsetId,
    entries: Vec<ToolEntry>,
}

impl Toolset {
    /// Hashes a list of tools.
    pub fn seal(entries: Vec<ToolEntry>) -> Self {
        Self { id: hash::toolset(&canonical(&entries)), entries }
    }

    /// Checks that a list hashes to `id`; `None` if it does not.
    pub fn check(id: ToolsetId, entries: Vec<ToolEntry>) -> Option<Self> {
        let toolset = Self::seal(entries);
        (toolset.id == id).then_some(toolset)
    }

    /// Encodes the list for storage, as 64 bytes per tool.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entries.len() * 64);
        for entry in &self.entries {
            out.extend_from_slice(entry.tool.as_bytes());
            out.extend_from_slice(entry.schema.as_bytes());
        }
        out
    }

    /// Decodes a list written by [`encode`](Self::encode) and checks that it hashes to `id`; `None`
    /// if it does not.
    pub fn decode(id: ToolsetId, bytes: &[u8]) -> Option<Self> {
        let (ids, rest) = bytes.as_chunks::<32>();
        let (pairs, odd) = ids.as_chunks::<2>();
        if !rest.is_empty() || !odd.is_empty() {
            return None;
        }
        let entries = pairs
            .iter()
            .map(|[tool, schema]| ToolEntry {
                tool: ToolId::from_bytes(*tool),
                schema: BlobId::from_bytes(*schema),
            })
            .collect();
        Self::check(id, entries)
    }

    /// Returns the id.
    pub fn id(&self) -> ToolsetId {
        self.id
    }

    /// Returns the tools, in order.
    pub fn entries(&self) -> &[ToolEntry] {
        &self.entries
    }

    /// Returns the canonical text that is hashed into the id: `[["<tool>","<schema>"],…]`.
    pub fn canonical(&self) -> String {
        canonical(&self.entries)
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Toolset({}, {} tools)", self.id.short(), self.entries.len())
    }
}

fn canonical(entries: &[ToolEntry]) -> String {
    let mut out = String::with_capacity(entries.len() * 135 + 2);
    out.push('[');
    for (n, entry) in entries.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        out.push_str("[\"");
        crate::id::hex(entry.tool.as_bytes(), &mut out);
        out.push_str("\",\"");
        crate::id::hex(entry.schema.as_bytes(), &mut out);
        out.push_str("\"]");
    }
    out.push(']');
    out
}

/// An entry of the derived tool index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDefinition {
    /// The id of the definition.
    pub id: ToolId,
    /// `function.name` of the schema, else `name`, else empty.
    pub name: String,
    /// The schema texts of this definition, in the order in which they were first seen.
    pub schemas: Vec<BlobId>,
    /// The first commit of the repository with this tool in force.
    pub first: CommitId,
    /// The time of that commit in microseconds since 1970, UTC.
    pub created_at: i64,
}

/// The id of an object of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// A commit.
    Commit(CommitId),
    /// A blob.
    Blob(BlobId),
    /// A toolset.
    Toolset(ToolsetId),
    /// A tool definition.
    Tool(ToolId),
}

impl ObjectId {
    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        match self {
            Self::Commit(id) => id.as_bytes(),
            Self::Blob(id) => id.as_bytes(),
            Self::Toolset(id) => id.as_bytes(),
            Self::Tool(id) => id.as_bytes(),
        }
    }

    /// Returns the name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Commit(_) => "commit",
            Self::Blob(_) => "blob",
            Self::Toolset(_) => "toolset",
            Self::Tool(_) => "tool",
        }
    }

    /// Returns the first eight hex digits, the short form for people.
    pub fn short(&self) -> String {
        let mut hex = String::with_capacity(64);
        crate::id::hex(self.as_bytes(), &mut hex);
        hex.truncate(8);
        hex
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = String::with_capacity(64);
        crate::id::hex(self.as_bytes(), &mut hex);
        write!(f, "{} {hex}", self.kind())
    }
}

/// The first 4 to 64 hex digits of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPrefix {
    digits: String,
}

impl IdPrefix {
    /// Parses 4 to 64 lower-case hex digits; `None` for anything else.
    pub fn new(digits: &str) -> Option<Self> {
        let hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (hex && (4..=64).contains(&digits.len())).then(|| Self { digits: digits.to_owned() })
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.digits
    }

    /// Returns whether an id starts with these digits.
    pub fn matches(&self, bytes: &[u8; 32]) -> bool {
        let mut hex = String::with_capacity(64);
        crate::id::hex(bytes, &mut hex);
        hex.starts_with(&self.digits)
    }

    /// Returns the lowest and the highest value that the first eight bytes of a matching id can
    /// have, as big-endian integers: the range to look up in an index of 64-bit prefixes.
    pub fn range(&self) -> (u64, u64) {
        let nibbles = self.digits.len().min(16);
        let value = self
            .digits
            .chars()
            .take(nibbles)
            .fold(0u64, |value, digit| value << 4 | u64::from(digit.to_digit(16).unwrap_or(0)));
        match 64 - nibbles * 4 {
            0 => (value, value),
            free => (value << free, value << free | ((1u64 << free) - 1)),
        }
    }
}
