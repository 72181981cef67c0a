//! Zigzag numbers and checksummed frames of index rows.

use tract_core::CommitId;

use crate::repo::wire::Input;

/// Version of the row format and of the rules for splitting words. Rows of another version are
/// rebuilt.
const VERSION: u8 = 7;

/// Maps a signed difference to a small unsigned number.
pub(super) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Reverses [`zigzag`].
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// The type of an index row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Refers to the commit that has the description of this commit's segment.
    Mark = 1,
    /// The description of a segment.
    Segment = 2,
    /// Words of a segment.
    Terms = 3,
}

/// Encodes a row: version, type, segment number, body and checksum.
pub(super) fn frame(sort: Frame, at: CommitId, segment: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 14);
    out.extend([VERSION, sort as u8]);
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(body);
    let sum = checksum(at, &out);
    out.extend_from_slice(&sum);
    out
}

/// Decodes a row; `None` when it is damaged, empty, of another version or of another commit.
pub(super) fn unframe(at: CommitId, bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (framed, sum) = bytes.split_last_chunk::<4>()?;
    if checksum(at, framed) != *sum {
        return None;
    }
    let mut input = Input(framed);
    let (version, sort) = (input.byte()?, input.byte()?);
    let segment = u64::from_le_bytes(input.take(8)?.try_into().ok()?);
    (version == VERSION).then_some((sort, segment, input.0))
}

fn checksum(at: CommitId, bytes: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(at.as_bytes());
    sum.update(bytes);
    sum.finalize().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_changed_byte_is_noticed(body in prop::collection::vec(any::<u8>(), 0..60), n: usize) {
            let at = CommitId::from_bytes([7; 32]);
            let mut bytes = frame(Frame::Terms, at, 9, &body);
            prop_assert_eq!(unframe(at, &bytes), Some((3, 9, body.as_slice())));
            prop_assert_eq!(unframe(CommitId::from_bytes([8; 32]), &bytes), None);
            let n = n % bytes.len();
            bytes[n] ^= 4;
            prop_assert_eq!(unframe(at, &bytes), None);
            prop_assert_eq!(unframe(at, &bytes[..n]), None);
        }
    }
}
