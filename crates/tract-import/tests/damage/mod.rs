//! Recordings that were damaged at random.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Cut(usize),
    Flip(usize, u8),
    Swap(usize, usize),
    Repeat(usize),
    Remove(usize),
}

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<proptest::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        place.clone().prop_map(Damage::Cut),
        (place.clone(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (place.clone(), place.clone()).prop_map(|(a, b)| Damage::Swap(a, b)),
        place.clone().prop_map(Damage::Repeat),
        place.prop_map(Damage::Remove),
    ]
}

pub(crate) fn damaged(bytes: &[u8], damage: &Damage) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let count = lines.len().max(1);
    match damage {
        Damage::Cut(at) => return bytes[..at % (bytes.len() + 1)].to_vec(),
        Damage::Flip(at, bit) => {
            let mut bytes = bytes.to_vec();
            let at = at % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            return bytes;
        }
        Damage::Swap(a, b) if !lines.is_empty() => lines.swap(a % count, b % count),
        Damage::Repeat(at) if !lines.is_empty() => lines.insert(at % count, lines[at % count]),
        Damage::Remove(at) if !lines.is_empty() => drop(lines.remove(at % count)),
        _ => {}
    }
    lines.concat()
}
