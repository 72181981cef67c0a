//! The key layout. Every key starts with its repository number.
//!
//! | space | key after the repository | value |
//! | --- | --- | --- |
//! | commits | place | where the content is stored, record |
//! | blobs | place | bytes, which may be compressed |
//! | index | `c` or `b`, first 8 bytes of the hash, place | empty |
//! | index | `l`, first 8 bytes of a batch id, log number | empty |
//! | log | number | move |
//! | small | `s` | the repository's counters |
//! | small | `g`, segment | tip, parent's place |
//! | small | `r`, name | target of a ref |
//! | small | `t`, id | entries of a toolset |
//! | small | `i`, tool, blob of the schema | first commit, name |
//! | small | `n`, length, name, tool | empty |
//! | small | `d`, kind, place | derived row |
//! | small | `z`, id, copy | a dictionary that blobs are compressed with |
//! | small | `w` | number of writes without a ref, and of sweeps; absent while both are 0 |
//!
//! Repository 0 is the store itself: `f` is its format, `n` the number of the next repository, `r`
//! and a name the number of that repository. Values have a checksum unless a hash covers them, they
//! are empty, or their writer included one (derived rows).

use super::{Scan, Space};
use tract_compression::DictionaryId;
use tract_core::batch::DerivedKind;
use tract_core::id::{BlobId, RepoName, ToolId, ToolsetId};

/// Returns the place of a commit or blob: the segment number and the position in it.
pub(super) fn place(segment: u32, position: u32) -> u64 {
    u64::from(segment) << 32 | u64::from(position)
}

pub(super) fn segment_of(place: u64) -> u32 {
    (place >> 32) as u32
}

pub(super) fn position_of(place: u64) -> u32 {
    place as u32
}

/// An index, with its letter in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Indexed {
    Commit = b'c',
    Blob = b'b',
    Batch = b'l',
}

pub(super) const FORMAT: &[u8] = b"\0f";
pub(super) const NEXT_REPO: &[u8] = b"\0n";

pub(super) fn repo_number(name: &RepoName) -> Vec<u8> {
    [b"\0r", name.as_str().as_bytes()].concat()
}

pub(super) fn repos() -> Scan {
    Scan::prefix(Space::Small, b"\0r".to_vec())
}

/// The number of a repository, as the prefix of its keys. It takes one byte up to 127. No prefix is
/// a prefix of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Repo(pub(super) u32);

/// Returns the first eight bytes of an id or of half an id.
pub(super) fn head(bytes: &[u8]) -> [u8; 8] {
    *bytes.first_chunk().expect("ids are longer than eight bytes")
}

impl Repo {
    fn start(self, space_for: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(5 + space_for);
        // No prefix is the beginning of another one: a byte up to 127 is a whole number, and 255
        // begins a longer one.
        match u8::try_from(self.0) {
            Ok(small @ 0..=127) => key.push(small),
            _ => {
                key.push(255);
                key.extend_from_slice(&self.0.to_be_bytes());
            }
        }
        key
    }

    fn small(self, tag: u8, rest: &[&[u8]]) -> Vec<u8> {
        let mut key = self.start(1 + rest.iter().map(|part| part.len()).sum::<usize>());
        key.push(tag);
        rest.iter().for_each(|part| key.extend_from_slice(part));
        key
    }

    /// Returns the range of all keys of a space.
    pub(super) fn all(self, space: Space) -> Scan {
        Scan::prefix(space, self.start(0))
    }

    /// Returns the number at the end of a key: a place or a log number.
    pub(super) fn number(key: &[u8]) -> Option<u64> {
        key.last_chunk().map(|number| u64::from_be_bytes(*number))
    }

    /// Returns the key of a commit, a blob or a log entry.
    pub(super) fn numbered(self, number: u64) -> Vec<u8> {
        let mut key = self.start(8);
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// Returns the range of commits or blobs between two places, both inclusive.
    pub(super) fn places(self, space: Space, from: u64, to: u64) -> Scan {
        let end = match to.checked_add(1) {
            Some(end) => Some(self.numbered(end)),
            None => self.all(space).to,
        };
        Scan { space, from: self.numbered(from), to: end, reverse: false }
    }

    pub(super) fn index(self, kind: Indexed, head: [u8; 8], number: u64) -> Vec<u8> {
        self.small(kind as u8, &[&head, &number.to_be_bytes()])
    }

    /// Returns the range of index entries whose hash starts with `head`.
    pub(super) fn indexed(self, kind: Indexed, head: &[u8]) -> Scan {
        Scan::prefix(Space::Index, self.small(kind as u8, &[head]))
    }

    /// Returns the range of index entries between two prefixes, both inclusive.
    pub(super) fn index_range(self, kind: Indexed, from: u64, to: u64) -> Scan {
        let from = self.small(kind as u8, &[&from.to_be_bytes()]);
        let to = Scan::prefix(Space::Index, self.small(kind as u8, &[&to.to_be_bytes()])).to;
        Scan { space: Space::Index, from, to, reverse: false }
    }

    /// Splits an index key into the prefix and the number.
    pub(super) fn index_parts(key: &[u8]) -> Option<([u8; 8], u64)> {
        let (rest, number) = key.split_last_chunk::<8>()?;
        Some((*rest.last_chunk()?, u64::from_be_bytes(*number)))
    }

    pub(super) fn state(self) -> Vec<u8> {
        self.small(b's', &[])
    }

    pub(super) fn writes(self) -> Vec<u8> {
        self.small(b'w', &[])
    }

    pub(super) fn dictionary(self, id: DictionaryId, copy: u8) -> Vec<u8> {
        self.small(b'z', &[id.as_bytes(), &[copy]])
    }

    /// Returns the id in the key of a dictionary.
    pub(super) fn dictionary_id(key: &[u8]) -> Option<DictionaryId> {
        let (_, rest) = key.split_last()?;
        rest.last_chunk().map(|id| DictionaryId::from_bytes(*id))
    }

    pub(super) fn dictionaries(self) -> Scan {
        Scan::prefix(Space::Small, self.small(b'z', &[]))
    }

    pub(super) fn segment(self, segment: u32) -> Vec<u8> {
        self.small(b'g', &[&segment.to_be_bytes()])
    }

    pub(super) fn segments(self) -> Scan {
        Scan::prefix(Space::Small, self.small(b'g', &[]))
    }

    pub(super) fn ref_key(self, name: &str) -> Vec<u8> {
        self.small(b'r', &[name.as_bytes()])
    }

    pub(super) fn refs(self, prefix: &str) -> Scan {
        Scan::prefix(Space::Small, self.ref_key(prefix))
    }

    pub(super) fn toolset(self, id: ToolsetId) -> Vec<u8> {
        self.small(b't', &[id.as_bytes()])
    }

    /// Returns the range of toolsets whose id starts with these bytes.
    pub(super) fn toolsets(self, bytes: &[u8]) -> Scan {
        Scan::prefix(Space::Small, self.small(b't', &[bytes]))
    }

    pub(super) fn tool(self, tool: ToolId, schema: BlobId) -> Vec<u8> {
        self.small(b'i', &[tool.as_bytes(), schema.as_bytes()])
    }

    /// Returns the range of tool index entries whose tool id starts with these bytes.
    pub(super) fn tools(self, bytes: &[u8]) -> Scan {
        Scan::prefix(Space::Small, self.small(b'i', &[bytes]))
    }

    /// Returns the tool and schema ids in a key of the tool index.
    pub(super) fn tool_parts(key: &[u8]) -> Option<(ToolId, BlobId)> {
        let (rest, schema) = key.split_last_chunk::<32>()?;
        let tool = rest.last_chunk::<32>()?;
        Some((ToolId::from_bytes(*tool), BlobId::from_bytes(*schema)))
    }

    fn name_length(name: &str) -> [u8; 4] {
        (name.len() as u32).to_be_bytes()
    }

    pub(super) fn tool_name(self, name: &str, tool: ToolId) -> Vec<u8> {
        self.small(b'n', &[&Self::name_length(name), name.as_bytes(), tool.as_bytes()])
    }

    pub(super) fn tools_named(self, name: &str) -> Scan {
        let key = self.small(b'n', &[&Self::name_length(name), name.as_bytes()]);
        Scan::prefix(Space::Small, key)
    }

    pub(super) fn tool_names(self) -> Scan {
        Scan::prefix(Space::Small, self.small(b'n', &[]))
    }

    /// Returns the name and the tool id in a key of the name index.
    pub(super) fn tool_name_parts(self, key: &[u8]) -> Option<(&str, ToolId)> {
        let (length, after) = key.get(self.start(0).len() + 1..)?.split_first_chunk::<4>()?;
        let (name, tool) = after.split_last_chunk::<32>()?;
        if u32::from_be_bytes(*length) as usize != name.len() {
            return None;
        }
        Some((std::str::from_utf8(name).ok()?, ToolId::from_bytes(*tool)))
    }

    pub(super) fn derived(self, kind: DerivedKind, place: u64) -> Vec<u8> {
        self.small(b'd', &[&[kind.number()], &place.to_be_bytes()])
    }

    pub(super) fn derived_between(self, kind: DerivedKind, from: u64, to: u64) -> Scan {
        let end = Scan::prefix(Space::Small, self.derived(kind, to)).to;
        Scan { space: Space::Small, from: self.derived(kind, from), to: end, reverse: false }
    }

    pub(super) fn all_derived(self) -> Scan {
        Scan::prefix(Space::Small, self.small(b'd', &[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_repository_begins_like_another() {
        let numbers = [0, 1, 9, 127, 128, 255, 256, 65_536, u32::MAX];
        for one in numbers {
            for other in numbers.iter().filter(|other| **other != one) {
                assert!(!Repo(*other).start(0).starts_with(&Repo(one).start(0)));
            }
        }
    }

    #[test]
    fn the_highest_place_can_be_read() {
        for number in [1, 128, u32::MAX] {
            let scan = Repo(number).places(Space::Blobs, 0, u64::MAX);
            assert!(scan.contains(&Repo(number).numbered(u64::MAX)));
        }
        assert_eq!(position_of(place(7, u32::MAX)), u32::MAX);
        assert_eq!(segment_of(place(7, u32::MAX)), 7);
    }
}
