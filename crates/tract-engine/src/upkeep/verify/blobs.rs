//! The set of checked blobs, in a few bytes per blob, for millions of blobs.

use std::collections::{HashMap, HashSet};

use hashbrown::HashTable;
use tract_core::{BlobId, Kind};

/// Flag in a kind number: the content is a single text.
const ONE_TEXT: u32 = 1 << 31;
/// Kind number of a blob that was read, but not as content.
const NO_KIND: u32 = ONE_TEXT - 1;

/// The blobs that were read, each with the kind that it was first read as content of.
///
/// Blobs are told apart by half of their id. It takes 2^64 hashes to construct two with the same
/// half, and then the second one is only hashed by the store's own check.
#[derive(Debug, Default)]
pub(super) struct CheckedBlobs {
    places: HashTable<u32>,
    heads: Vec<[u8; 16]>,
    kinds: Vec<u32>,
    /// The blobs that were read again as content of another kind.
    read_again: HashSet<(u32, u32)>,
    /// The number of each kind.
    numbers: HashMap<Kind, u32>,
    forgotten: usize,
}

fn head(id: BlobId) -> [u8; 16] {
    id.as_bytes().first_chunk().copied().unwrap_or_default()
}

fn hash(head: &[u8; 16]) -> u64 {
    head.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

impl CheckedBlobs {
    /// Returns the number of different blobs.
    pub(super) fn count(&self) -> usize {
        self.forgotten + self.heads.len()
    }

    fn find(&self, head: &[u8; 16]) -> Option<u32> {
        let is_it = |place: &u32| self.heads.get(*place as usize) == Some(head);
        self.places.find(hash(head), is_it).copied()
    }

    /// Records that a blob is read, as content of a kind or on its own. Returns whether it was not
    /// read as that before.
    pub(super) fn is_new(&mut self, id: BlobId, kind: Option<&Kind>) -> bool {
        let number = kind.map(|kind| self.number(kind));
        let head = head(id);
        let Some(place) = self.find(&head) else {
            // Beyond 2^32 blobs, each is read every time it is linked to.
            let Ok(place) = u32::try_from(self.heads.len()) else { return true };
            self.heads.push(head);
            self.kinds.push(number.unwrap_or(NO_KIND));
            let heads = &self.heads;
            let rehash = |place: &u32| heads.get(*place as usize).map_or(0, hash);
            self.places.insert_unique(hash(&head), place, rehash);
            return true;
        };
        let Some(slot) = self.kinds.get_mut(place as usize) else { return true };
        match (*slot & !ONE_TEXT, number) {
            (_, None) => false,
            (NO_KIND, Some(number)) => {
                *slot = number | *slot & ONE_TEXT;
                true
            }
            (first, Some(number)) => first != number && self.read_again.insert((place, number)),
        }
    }

    fn number(&mut self, kind: &Kind) -> u32 {
        if let Some(number) = self.numbers.get(kind) {
            return *number;
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(NO_KIND).min(NO_KIND - 1);
        self.numbers.insert(kind.clone(), number);
        number
    }

    pub(super) fn set_one_text(&mut self, id: BlobId) {
        let place = self.find(&head(id));
        if let Some(slot) = place.and_then(|place| self.kinds.get_mut(place as usize)) {
            *slot |= ONE_TEXT;
        }
    }

    pub(super) fn is_one_text(&self, id: BlobId) -> bool {
        let place = self.find(&head(id));
        let kind = place.and_then(|place| self.kinds.get(place as usize));
        kind.is_some_and(|kind| kind & ONE_TEXT != 0)
    }

    /// Drops the blobs but keeps their number.
    pub(super) fn forget(&mut self) {
        *self = Self { forgotten: self.count(), ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_read_once_for_each_kind_that_it_is_content_of() {
        let (mut blobs, id) = (CheckedBlobs::default(), BlobId::from_bytes([7; 32]));
        assert!(blobs.is_new(id, None));
        assert!(!blobs.is_new(id, None));
        assert!(blobs.is_new(id, Some(&Kind::User)));
        assert!(!blobs.is_new(id, Some(&Kind::User)));
        assert!(blobs.is_new(id, Some(&Kind::Assistant)));
        assert!(!blobs.is_new(id, Some(&Kind::Assistant)));
        assert!(!blobs.is_one_text(id));
        blobs.set_one_text(id);
        assert!(blobs.is_one_text(id) && !blobs.is_new(id, Some(&Kind::User)));
        assert_eq!(blobs.count(), 1);
        blobs.forget();
        assert_eq!(blobs.count(), 1);
    }
}
