//! Posting lists: the positions of a word, and its number of occurrences at each.
//!
//! A list is a count and blocks of [`BLOCK`] positions. A block contains the gap before its first
//! position and the gaps of the others. If a word occurs more than once in some of the positions,
//! their indices in the block and the occurrences follow. Most words have one position only: such a
//! list is 0 and the position.

use super::numbers::{put_numbers, read_numbers};
use crate::repo::wire::{Input, put};

/// Number of positions that are encoded together; the gaps of a block have one width.
const BLOCK: usize = 512;
/// Flag of a block with positions where the word occurs more than once.
const REPEATED: u8 = 1;

/// A position, and the number of occurrences there.
pub(super) type Posting = (u32, u32);

/// Encodes a list. Positions must be ascending.
pub(super) fn encode(list: &[Posting]) -> Vec<u8> {
    let mut out = Vec::with_capacity(list.len() + 8);
    if let [(position, 1)] = list {
        return encode_single(*position);
    }
    put(&mut out, list.len() as u64);
    let mut next = 0;
    let mut numbers = Vec::with_capacity(BLOCK.min(list.len()));
    for block in list.chunks(BLOCK) {
        let mut first = None;
        numbers.clear();
        for (position, _) in block {
            let gap = position.saturating_sub(next);
            match first {
                None => first = Some(gap),
                Some(_) => numbers.push(gap),
            }
            next = position.saturating_add(1);
        }
        put(&mut out, u64::from(first.unwrap_or_default()));
        let repeated = block.iter().filter(|(_, occurrences)| *occurrences > 1).count();
        put_numbers(&mut out, u8::from(repeated > 0) * REPEATED, &numbers);
        if repeated > 0 {
            put(&mut out, repeated as u64);
            numbers.clear();
            let mut next = 0;
            for (place, _) in (0u32..).zip(block).filter(|(_, (_, occurrences))| *occurrences > 1) {
                numbers.push(place - next);
                next = place + 1;
            }
            put_numbers(&mut out, 0, &numbers);
            numbers.clear();
            numbers.extend(block.iter().filter_map(|(_, occurrences)| occurrences.checked_sub(2)));
            put_numbers(&mut out, 0, &numbers);
        }
    }
    out
}

/// Encodes the list of a word that occurs once.
pub(super) fn encode_single(position: u32) -> Vec<u8> {
    let mut out = vec![0];
    put(&mut out, u64::from(position));
    out
}

/// Returns the position of a word that occurs once.
pub(super) fn single(encoded: &[u8]) -> Option<u32> {
    Input(encoded.strip_prefix(&[0])?).small()
}

/// Decodes a list, adds `offset` to its positions and appends it to `found`; `None` when it is
/// damaged.
pub(super) fn decode(encoded: &[u8], offset: u32, found: &mut Vec<Posting>) -> Option<()> {
    let mut input = Input(encoded);
    let mut left = usize::try_from(input.number()?).ok()?;
    if left == 0 {
        found.push((input.small()?.checked_add(offset)?, 1));
        return input.0.is_empty().then_some(());
    }
    // A position takes at least a bit, so a damaged count cannot cause a large allocation.
    if left / 8 > encoded.len() {
        return None;
    }
    found.reserve(left);
    let mut next = u64::from(offset);
    let mut numbers = Vec::with_capacity(BLOCK.min(left));
    while left > 0 {
        let count = left.min(BLOCK);
        left -= count;
        let start = found.len();
        let first = next + input.number().filter(|gap| *gap <= u32::MAX.into())?;
        let flags = read_numbers(&mut input, count - 1, &mut numbers)?;
        let gaps: u64 = numbers.iter().map(|gap| u64::from(*gap) + 1).sum();
        next = first + gaps + 1;
        // If the highest position fits into 32 bits, all others do.
        let mut position = u32::try_from(first).ok()?;
        u32::try_from(next).ok()?;
        found.push((position, 1));
        found.extend(numbers.iter().map(|gap| {
            position += gap + 1;
            (position, 1)
        }));
        if flags & REPEATED != 0 {
            let repeated = input.small().filter(|repeated| *repeated as usize <= count)? as usize;
            read_numbers(&mut input, repeated, &mut numbers)?;
            let mut block = found.get_mut(start..)?;
            let mut places = std::mem::take(&mut numbers);
            read_numbers(&mut input, repeated, &mut numbers)?;
            for (place, more) in places.iter().zip(&numbers) {
                let (passed, rest) =
                    block.split_at_mut_checked((*place as usize).checked_add(1)?)?;
                passed.last_mut()?.1 = more.checked_add(2)?;
                block = rest;
            }
            places.clear();
        }
    }
    input.0.is_empty().then_some(())
}

/// A posting list under construction, in a compact form.
#[derive(Debug, Default)]
pub(super) struct Postings {
    /// The last position plus one.
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
        self.end = position.saturating_add(1);
    }

    /// Encodes the list. `scratch` is cleared and used as a buffer.
    pub(super) fn encode(&self, scratch: &mut Vec<Posting>) -> Vec<u8> {
        scratch.clear();
        let (mut input, mut next) = (Input(&self.bytes), 0);
        while let Some(gap) = input.number() {
            let occurrences = match gap & 1 {
                0 => 1,
                _ => input.small().unwrap_or_default().saturating_add(2),
            };
            let position = (gap >> 1) as u32 + next;
            scratch.push((position, occurrences));
            next = position + 1;
        }
        encode(scratch)
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Positions near and far, most with one occurrence.
    fn lists() -> impl Strategy<Value = Vec<Posting>> {
        let gap = prop_oneof![9 => 0u32..40, 1 => 0u32..1_000_000];
        let times = prop_oneof![9 => Just(1u32), 3 => 2u32..5, 1 => 1u32..100_000];
        prop::collection::vec((gap, times), 1..1600).prop_map(|gaps| {
            let mut next = 0;
            let mut list = Vec::new();
            for (gap, times) in gaps {
                list.push((next + gap, times));
                next += gap + 1;
            }
            list
        })
    }

    fn decoded(encoded: &[u8], offset: u32) -> Option<Vec<Posting>> {
        let mut found = Vec::new();
        decode(encoded, offset, &mut found).map(|()| found)
    }

    #[test]
    fn a_word_of_one_message_takes_its_position_alone() {
        assert_eq!(encode(&[(300, 1)]), encode_single(300));
        assert_eq!(encode_single(300).len(), 3);
        assert_eq!(single(&encode_single(300)), Some(300));
        assert_eq!(decoded(&encode_single(300), 7), Some(vec![(307, 1)]));
        assert_eq!(single(&encode(&[(300, 2)])), None);
        assert_eq!(single(&encode(&[(3, 1), (4, 1)])), None);
        assert_eq!(decoded(&encode_single(u32::MAX), 1), None);
    }

    #[test]
    fn a_common_word_takes_two_bits_a_message() {
        let list: Vec<Posting> = (0..10_000).filter(|n| n % 5 < 3).map(|n| (n, 1)).collect();
        assert!(encode(&list).len() < list.len() / 4, "{} bytes", encode(&list).len());
    }

    proptest! {
        #[test]
        fn lists_come_back_and_can_be_moved(list in lists(), offset in 0u32..1_000_000) {
            let encoded = encode(&list);
            prop_assert_eq!(decoded(&encoded, 0), Some(list.clone()));
            let moved: Vec<Posting> = list.iter().map(|(at, times)| (at + offset, *times)).collect();
            prop_assert_eq!(decoded(&encoded, offset), Some(moved));
            let mut built = Postings::default();
            list.iter().for_each(|(at, times)| built.push(*at, *times));
            prop_assert_eq!(built.encode(&mut vec![(1, 1)]), encoded);
        }

        #[test]
        fn damaged_lists_are_rejected_or_other_lists(
            list in lists(),
            noise in prop::collection::vec(any::<u8>(), 0..80),
            at: usize,
            bit in 0u32..8,
        ) {
            // Nothing that is read makes it panic.
            let _ = decoded(&noise, u32::MAX - 5);
            let mut encoded = encode(&list);
            let at = at % encoded.len();
            prop_assert_eq!(decoded(&encoded[..at], 0), None);
            encoded[at] ^= 1u8 << bit;
            if let Some(other) = decoded(&encoded, 0) {
                prop_assert!(other.is_sorted_by(|a, b| a.0 < b.0));
            }
            encoded[at] ^= 1u8 << bit;
            encoded.push(0);
            prop_assert_eq!(decoded(&encoded, 0), None);
        }
    }
}
