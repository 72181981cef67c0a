//! Compact lists of small numbers: Golomb-Rice codes, so that a list of gaps takes little more than
//! its entropy.
//!
//! Each number is split. Its low bits have a fixed width; its high bits are written in unary, as
//! that many zeros and a one. All numbers of a list have the same width, the one that takes the
//! fewest bytes. The two parts are stored separately, so that neither has to be read bit by bit.

use crate::repo::wire::{Input, put};

/// Maximum width of the low bits.
const MOST_BITS: u8 = 30;
/// Special width: the numbers are stored as bytes of seven bits each, because some of them are much
/// larger than the others.
const BYTES: u8 = 31;
/// The bits of the first byte that contain the width.
const WIDTH: u8 = 31;

/// Writes numbers. The first byte has the three bits of `flags` above the width.
pub(super) fn put_numbers(out: &mut Vec<u8>, flags: u8, numbers: &[u32]) {
    let width = width_of(numbers);
    out.push(flags << 5 | width);
    if width == BYTES {
        numbers.iter().for_each(|number| put(out, u64::from(*number)));
        return;
    }
    let (mut held, mut bits) = (0u64, 0);
    let mask = low_mask(width);
    if width > 0 {
        for number in numbers {
            held |= u64::from(number & mask) << bits;
            bits += u32::from(width);
            if bits >= 32 {
                out.extend_from_slice(&(held as u32).to_le_bytes());
                held >>= 32;
                bits -= 32;
            }
        }
        out.extend(held.to_le_bytes().iter().take(bits.div_ceil(8) as usize));
    }
    (held, bits) = (0, 0);
    for number in numbers {
        // The zeros are skipped instead of written: the word starts at 0, and only the ones are
        // set.
        bits += number >> width;
        while bits >= 64 {
            out.extend_from_slice(&held.to_le_bytes());
            held = 0;
            bits -= 64;
        }
        held |= 1 << bits;
        bits += 1;
    }
    out.extend(held.to_le_bytes().iter().take(bits.div_ceil(8) as usize));
}

fn low_mask(width: u8) -> u32 {
    (1 << width.min(MOST_BITS)) - 1
}

/// Returns the width that takes the fewest bytes.
fn width_of(numbers: &[u32]) -> u8 {
    let count = numbers.len() as u64;
    let sum: u64 = numbers.iter().map(|number| u64::from(*number)).sum();
    let near = (sum / count.max(1)).checked_ilog2().unwrap_or_default() as u8;
    let bytes_of = |width: u8| {
        let above: u64 = numbers.iter().map(|number| u64::from(number >> width)).sum();
        (count * u64::from(width)).div_ceil(8) + (above + count).div_ceil(8)
    };
    // The best width is close to the logarithm of the mean, so only its neighbors are tried.
    let widths = near.saturating_sub(1)..=near.saturating_add(1).min(MOST_BITS);
    let best = widths.map(|width| (bytes_of(width), width)).min();
    let plain = numbers.iter().map(|number| 1 + u64::from(number.max(&1).ilog2() / 7)).sum();
    best.map_or(BYTES, |(bytes, width)| if bytes <= plain { width } else { BYTES })
}

/// Reads `count` numbers into `found`, which is cleared first, and returns the flags; `None` when
/// they are damaged.
pub(super) fn read_numbers(
    input: &mut Input<'_>,
    count: usize,
    found: &mut Vec<u32>,
) -> Option<u8> {
    found.clear();
    let head = input.byte()?;
    let width = head & WIDTH;
    if width == BYTES {
        for _ in 0..count {
            found.push(input.small()?);
        }
        return Some(head >> 5);
    }
    let mut low = LowBits {
        bytes: input.take(count.checked_mul(width.into())?.div_ceil(8))?,
        held: 0,
        bits: 0,
    };
    // A high part above `most` does not fit into 32 bits together with the low bits. No encoder
    // writes one.
    let (mask, most) = (low_mask(width), u64::from(u32::MAX >> width));
    // The number of bits before the current word, and the number of bits decoded.
    let (mut before, mut end) = (0u64, 0u64);
    let mut left = input.0;
    while found.len() < count {
        let mut word = match left.split_first_chunk::<8>() {
            Some((word, rest)) => {
                left = rest;
                u64::from_le_bytes(*word)
            }
            None if left.is_empty() => return None,
            None => {
                let rest = std::mem::take(&mut left);
                rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
            }
        };
        // The last word may also contain bits of the data after the list.
        while word != 0 && found.len() < count {
            let at = before + u64::from(word.trailing_zeros());
            let above = at - end;
            if above > most {
                return None;
            }
            end = at + 1;
            word &= word - 1;
            found.push((above as u32) << width | low.next(width, mask));
        }
        before += 64;
    }
    // The loop has read ahead in words of eight bytes. The list ends with the byte that has the
    // last one.
    input.take(usize::try_from(end.div_ceil(8)).ok()?)?;
    Some(head >> 5)
}

/// Reads low bits of a fixed width.
struct LowBits<'a> {
    bytes: &'a [u8],
    held: u64,
    bits: u32,
}

impl LowBits<'_> {
    fn next(&mut self, width: u8, mask: u32) -> u32 {
        let width = u32::from(width);
        if self.bits < width {
            let (next, rest) = match self.bytes.split_first_chunk::<4>() {
                Some((next, rest)) => (u32::from_le_bytes(*next), rest),
                None => {
                    let next = self.bytes.iter().rev();
                    (next.fold(0, |next, byte| next << 8 | u32::from(*byte)), &[][..])
                }
            };
            self.held |= u64::from(next) << self.bits;
            self.bits += 32;
            self.bytes = rest;
        }
        let low = self.held as u32 & mask;
        self.held >>= width;
        self.bits -= width;
        low
    }
}

/// Writes numbers, run-length encoded: two equal numbers are followed by the number of further
/// repetitions.
pub(super) fn put_repeated(out: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
    let mut numbers = numbers.peekable();
    let mut before = None;
    while let Some(number) = numbers.next() {
        put(out, number);
        if before.replace(number) == Some(number) {
            let mut more = 0;
            while numbers.next_if_eq(&number).is_some() {
                more += 1;
            }
            put(out, more);
            before = None;
        }
    }
}

/// Reads `count` numbers written by [`put_repeated`], and calls `found` with each number and its
/// repetitions; `None` when they are damaged.
pub(super) fn read_repeated(
    input: &mut Input<'_>,
    count: usize,
    mut found: impl FnMut(u64, usize) -> Option<()>,
) -> Option<()> {
    let (mut left, mut before) = (count, None);
    while left > 0 {
        let number = input.number()?;
        let mut times = 1;
        if before.replace(number) == Some(number) {
            times = usize::try_from(input.number()?).ok()?.checked_add(1)?;
            before = None;
        }
        left = left.checked_sub(times)?;
        found(number, times)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of one magnitude, with some of any.
    fn numbers() -> impl Strategy<Value = Vec<u32>> {
        (0u32..32).prop_flat_map(|bits| {
            let usual = 0..=u32::MAX >> (31 - bits.min(31));
            prop::collection::vec(prop_oneof![20 => usual, 1 => any::<u32>()], 0..300)
        })
    }

    #[track_caller]
    fn check(numbers: &[u32]) -> usize {
        let mut out = Vec::new();
        put_numbers(&mut out, 5, numbers);
        let size = out.len();
        out.extend([0xFF, 3]);
        let (mut input, mut found) = (Input(&out), vec![9]);
        assert_eq!(read_numbers(&mut input, numbers.len(), &mut found), Some(5));
        assert_eq!(found, numbers);
        assert_eq!(input.0, [0xFF, 3], "what follows is left");
        size
    }

    #[test]
    fn gaps_take_few_bits() {
        assert_eq!(check(&[]), 1);
        assert_eq!(check(&[u32::MAX]), 6);
        assert_eq!(check(&[0; 512]), 1 + 64);
        assert_eq!(check(&[u32::MAX; 3]), 15);
        let gaps: Vec<u32> = (0u32..512).map(|n| n * 7919 % 64).collect();
        assert!(check(&gaps) <= 512 * 7 / 8, "{} bytes", check(&gaps));
    }

    proptest! {
        #[test]
        fn numbers_come_back(numbers in numbers()) {
            let size = check(&numbers);
            let mut plain = Vec::new();
            numbers.iter().for_each(|number| put(&mut plain, u64::from(*number)));
            prop_assert!(size <= plain.len() + 1, "not more than a byte each seven bits");
        }

        #[test]
        fn damaged_numbers_are_rejected(
            numbers in numbers(),
            noise in prop::collection::vec(any::<u8>(), 0..80),
            cut: usize,
        ) {
            let mut found = Vec::new();
            for count in [0, 1, 7, 300, usize::MAX] {
                // No byte makes it panic, nor take much memory.
                let _ = read_numbers(&mut Input(&noise), count, &mut found);
                prop_assert!(found.len() <= noise.len() * 8);
            }
            let mut out = Vec::new();
            put_numbers(&mut out, 0, &numbers);
            let cut = cut % out.len();
            let read = read_numbers(&mut Input(&out[..cut]), numbers.len(), &mut found);
            prop_assert_eq!(read, None);
        }

        #[test]
        fn repeated_numbers_come_back(
            runs in prop::collection::vec((0u64..400, 1usize..5), 0..40),
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let numbers: Vec<u64> =
                runs.iter().flat_map(|(number, times)| vec![*number; *times]).collect();
            let mut out = Vec::new();
            put_repeated(&mut out, numbers.iter().copied());
            let (mut input, mut found) = (Input(&out), Vec::new());
            let read = read_repeated(&mut input, numbers.len(), |number, times| {
                found.extend(vec![number; times]);
                Some(())
            });
            prop_assert_eq!((read, found, input.0.len()), (Some(()), numbers, 0));
            let mut count = 0;
            let _ = read_repeated(&mut Input(&noise), 100, |_, times| {
                count += times;
                Some(())
            });
            prop_assert!(count <= 100, "not more than was asked for");
        }
    }
}
