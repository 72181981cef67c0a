//! All hash functions of the format.

use sha2::{Digest, Sha256};

use crate::id::{BlobId, CommitId, ToolId, ToolsetId, ViewId};
use crate::json::{self, Escapes, JsonError};

/// The tag that precedes a record when it is hashed.
pub(crate) const COMMIT_TAG: &[u8] = b"tract-commit-1\0";

/// Hashes data after a tag. The tag ends with a zero byte.
fn tagged(tag: &[u8], data: &[u8]) -> [u8; 32] {
    Sha256::new_with_prefix(tag).chain_update(data).finalize().into()
}

/// Returns the id of a blob.
///
/// ```
/// let id = tract_core::hash::blob(b"hello");
/// assert_eq!(id.short(), "294124e8");
/// ```
pub fn blob(bytes: &[u8]) -> BlobId {
    BlobId::from_bytes(tagged(b"tract-blob-1\0", bytes))
}

/// Returns the id of a commit with this canonical record.
pub fn commit(canonical: &str) -> CommitId {
    CommitId::from_bytes(tagged(COMMIT_TAG, canonical.as_bytes()))
}

/// Returns the id of a commit. The slice contains the tag and the canonical record.
pub(crate) fn tagged_record(canonical: &[u8]) -> CommitId {
    CommitId::from_bytes(Sha256::digest(canonical).into())
}

/// Returns the id of a toolset with this canonical list.
pub fn toolset(canonical: &str) -> ToolsetId {
    ToolsetId::from_bytes(tagged(b"tract-toolset-1\0", canonical.as_bytes()))
}

/// Returns the id of a view with this canonical text.
pub fn view(canonical: &str) -> ViewId {
    ViewId::from_bytes(Sha256::digest(canonical.as_bytes()).into())
}

/// Returns the id of a tool schema. It does not depend on the order of keys, white space, or the
/// spelling of escapes.
///
/// ```
/// use tract_core::hash::tool_schema;
/// let one = tool_schema(r#"{"name": "get_weather", "input_schema": {"type": "object"}}"#)?;
/// let two = tool_schema(r#"{"input_schema":{"type":"object"},"name":"get_weather"}"#)?;
/// assert_eq!(one, two);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] if the text is not valid JSON, or cannot be written canonically.
pub fn tool_schema(schema: &str) -> Result<ToolId, JsonError> {
    let canonical = json::canonical(schema, Escapes::Ascii)?;
    Ok(ToolId::from_bytes(Sha256::digest(canonical.as_bytes()).into()))
}
