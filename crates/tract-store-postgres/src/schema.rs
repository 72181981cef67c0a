//! Constants, checksums and statement texts of format 1.

use sha2::{Digest, Sha256};
use tract_core::{BatchId, BlobId, LogNote, OperationId, RepoName, ToolId};

/// The format that this build writes, and the newest that it can read.
pub(crate) const FORMAT: i32 = 1;
/// The oldest supported server version.
pub(crate) const OLDEST_SERVER: i32 = 140_000;
/// Maximum size of a batch in bytes. A message to the server must be smaller than 1 GiB.
pub(crate) const MAX_BYTES: usize = 512 << 20;

/// The tables that are partitioned by repository. `WHOLE` lists the others.
pub(crate) const CUT: [&str; 5] = ["blobs", "commits", "segments", "derived", "ref_log"];
pub(crate) const WHOLE: [&str; 3] = ["refs", "toolsets", "tools"];

/// The partitioned tables that a sweep deletes from. `SWEPT_WHOLE` lists the others.
pub(crate) const SWEPT_CUT: [&str; 4] = ["blobs", "commits", "segments", "derived"];
pub(crate) const SWEPT_WHOLE: [&str; 2] = ["toolsets", "tools"];

/// The columns with contents. The server must not sample their values for its planner, because the
/// samples would outlive the rows.
pub(crate) const CONTENTS: [(&str, &str); 3] =
    [("blobs", "data"), ("commits", "rec"), ("derived", "data")];

/// Inserts the schema's name into a text.
pub(crate) fn in_schema(text: &str, schema: &str) -> String {
    text.replace("{s}", &format!("\"{schema}\""))
}

fn first_eight(digest: Sha256) -> i64 {
    let digest: [u8; 32] = digest.finalize().into();
    let (first, _) = digest.split_first_chunk::<8>().expect("a digest has 32 bytes");
    i64::from_be_bytes(*first)
}

/// Returns the index key of a tool's name, which may be long and contain any character.
pub(crate) fn name_key(name: &str) -> i64 {
    first_eight(Sha256::new_with_prefix(name))
}

/// Hashes a list of parts, so that different lists have different digests.
fn parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> i64 {
    let mut digest = Sha256::new();
    for part in parts {
        // The lengths distinguish `ab, c` from `a, bc`.
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    first_eight(digest)
}

/// Returns the checksum of a row of `refs`.
pub(crate) fn ref_sum(repo: &RepoName, name: &str, target: &[u8]) -> i64 {
    parts([repo.as_str().as_bytes(), name.as_bytes(), target])
}

/// Returns the part of the checksum of a row of `ref_log` that is known before it is written. The
/// server adds the other part: see [`log_sum_of_server`].
pub(crate) fn log_sum(
    repo: &RepoName,
    name: &str,
    after: Option<&[u8]>,
    batch: BatchId,
    note: &[u8],
) -> i64 {
    let is_deleted = [u8::from(after.is_none())];
    let after = after.unwrap_or_default();
    let (repo, name) = (repo.as_str().as_bytes(), name.as_bytes());
    parts([repo, name, &is_deleted, after, batch.as_bytes(), note])
}

/// Returns the checksum of a row of the tool index.
pub(crate) fn tool_sum(tool: ToolId, schema: BlobId, entry: &[u8]) -> i64 {
    parts([tool.as_bytes().as_slice(), schema.as_bytes(), entry])
}

/// Returns the server's part of the checksum, which the function `apply` combines by exclusive or:
/// the entry's number and a hash of the ref's old target.
pub(crate) fn log_sum_of_server(seq: i64, before: Option<&[u8]>) -> i64 {
    seq ^ before.map_or(0, log_sum_before)
}

/// Returns the hash of a ref's old target. The caller combines it by exclusive or if the ref
/// existed.
pub(crate) fn log_sum_before(before: &[u8]) -> i64 {
    first_eight(Sha256::new_with_prefix(before))
}

/// Encodes a note: fixed fields, then texts with length prefixes.
pub(crate) fn encode_note(note: &LogNote) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + note.what.len() + note.who.len());
    out.extend_from_slice(note.operation.as_bytes());
    out.extend_from_slice(&note.at.to_le_bytes());
    out.push(u8::from(note.undoes.is_some()) | u8::from(note.why.is_some()) << 1);
    out.extend_from_slice(&note.undoes.unwrap_or_default().to_le_bytes());
    for text in [Some(&note.what), Some(&note.who), note.why.as_ref()].into_iter().flatten() {
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// Decodes the output of [`encode_note`].
pub(crate) fn decode_note(bytes: &[u8]) -> Option<LogNote> {
    let (operation, rest) = bytes.split_first_chunk::<16>()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (flags, rest) = rest.split_first()?;
    let (undoes, mut rest) = rest.split_first_chunk::<8>()?;
    let mut text = || {
        let (length, after) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (text, after) = after.split_at_checked(length)?;
        rest = after;
        String::from_utf8(text.to_vec()).ok()
    };
    let (what, who) = (text()?, text()?);
    let why = if flags & 2 != 0 { Some(text()?) } else { None };
    rest.is_empty().then(|| LogNote {
        operation: OperationId::from_bytes(*operation),
        what,
        who,
        why,
        undoes: (flags & 1 != 0).then(|| u64::from_le_bytes(*undoes)),
        at: i64::from_le_bytes(*at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back() {
        for (why, undoes) in [(None, None), (Some("語\0".to_owned()), Some(u64::MAX))] {
            let operation = OperationId::from_bytes([7; 16]);
            let (what, who) = ("undo".to_owned(), String::new());
            let note = LogNote { operation, what, who, why, undoes, at: -5 };
            let bytes = encode_note(&note);
            assert_eq!(decode_note(&bytes), Some(note));
            assert_eq!(decode_note(&bytes[..bytes.len() - 1]), None);
            assert_eq!(decode_note(&[&bytes[..], b"x"].concat()), None);
        }
    }

    #[test]
    fn sums_tell_parts_apart() {
        assert_ne!(parts([b"ab".as_slice(), b"c"]), parts([b"a".as_slice(), b"bc"]));
    }
}
