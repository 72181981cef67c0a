//! Numbers and frames of the rows of the search index.

use tract_core::CommitId;

/// The version of the format, and of what is a word: rows of another one are built again.
const VERSION: u8 = 1;

/// Writes a number, seven bits a byte.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a text or bytes with their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Makes a small number of a difference.
pub(super) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Returns the difference that [`zigzag`] made small.
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Reads what the functions above wrote; every method is `None` at the end or where it does not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.take(count)
    }

    pub(super) fn id(&mut self) -> Option<CommitId> {
        self.take(32)?.try_into().ok().map(CommitId::from_bytes)
    }

    /// Reads how many items follow, each of at least one byte.
    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())
    }
}

/// What a row of the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A commit is in the segment whose description is kept with another commit.
    Mark = 1,
    /// The description of a segment.
    Segment = 2,
    /// Words of a segment.
    Terms = 3,
}

/// Puts a row together: version, sort, the segment's number, the bytes and a checksum.
pub(super) fn frame(sort: Frame, at: CommitId, segment: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 14);
    out.extend([VERSION, sort as u8]);
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(body);
    let sum = checksum(at, &out);
    out.extend_from_slice(&sum);
    out
}

/// Takes a row apart; `None` when it is damaged, empty, of another version or of another commit.
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

/// Appends to a list of (position, count of occurrences), positions ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Postings {
    pub(super) count: u64,
    /// One more than the last position.
    end: u32,
    bytes: Vec<u8>,
}

impl Postings {
    pub(super) fn push(&mut self, position: u32, occurrences: u32) {
        let gap = u64::from(position.saturating_sub(self.end));
        put(&mut self.bytes, gap << 1 | u64::from(occurrences > 1));
        if occurrences > 1 {
            put(&mut self.bytes, u64::from(occurrences - 2));
        }
        self.count += 1;
        self.end = position.saturating_add(1);
    }

    /// Appends an encoded list, moved by `offset`; `None` when it is damaged.
    pub(super) fn append(&mut self, encoded: &[u8], offset: u32) -> Option<()> {
        let mut input = Input(encoded);
        let (count, end) = (input.number()?, input.small()?);
        let gap = input.number()?;
        let first = u32::try_from(gap >> 1).ok()?.checked_add(offset)?;
        put(&mut self.bytes, u64::from(first.checked_sub(self.end)?) << 1 | gap & 1);
        self.bytes.extend_from_slice(input.0);
        self.count += count;
        self.end = end.checked_add(offset)?;
        Some(())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 6);
        put(&mut out, self.count);
        put(&mut out, u64::from(self.end));
        out.extend_from_slice(&self.bytes);
        out
    }

    /// Returns how many bytes it takes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// Reads an encoded list; `None` when it is damaged.
pub(super) fn postings(encoded: &[u8]) -> Option<Vec<(u32, u32)>> {
    let mut input = Input(encoded);
    let count = usize::try_from(input.number()?).ok()?;
    input.small()?;
    let mut found = Vec::with_capacity(count.min(input.0.len()));
    let mut next: u32 = 0;
    while !input.0.is_empty() {
        let gap = input.number()?;
        let occurrences = if gap & 1 == 1 { input.small()?.checked_add(2)? } else { 1 };
        let position = next.checked_add(u32::try_from(gap >> 1).ok()?)?;
        found.push((position, occurrences));
        next = position.checked_add(1)?;
    }
    (found.len() == count).then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_come_back_and_can_be_joined(
            first in prop::collection::btree_map(0u32..5000, 1u32..9, 1..40),
            second in prop::collection::btree_map(0u32..5000, 1u32..9, 1..40),
        ) {
            let list = |items: &std::collections::BTreeMap<u32, u32>| {
                let mut list = Postings::default();
                items.iter().for_each(|(at, times)| list.push(*at, *times));
                list.encode()
            };
            prop_assert_eq!(postings(&list(&first)), Some(first.clone().into_iter().collect()));
            let mut joined = Postings::default();
            joined.append(&list(&first), 7).unwrap();
            joined.append(&list(&second), 5007).unwrap();
            let expected = first.iter().map(|(at, times)| (at + 7, *times));
            let expected = expected.chain(second.iter().map(|(at, times)| (at + 5007, *times)));
            prop_assert_eq!(postings(&joined.encode()), Some(expected.collect()));
        }

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
            // Nothing that is read makes it panic.
            let _ = postings(&body);
        }
    }
}
