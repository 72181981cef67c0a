//! The stored row of a dictionary.

/// The row of a dictionary in a store, keyed by the dictionary's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryRow<'r> {
    /// Sequence number within the repository; the highest is the newest.
    pub number: u64,
    /// Set when content was erased after training, since the dictionary may contain parts of it. A
    /// stale dictionary is not used for new blobs, and is deleted when the store is wiped.
    pub is_stale: bool,
    /// The bytes returned by [`Dictionary::stored`](crate::Dictionary::stored).
    pub stored: &'r [u8],
}

impl<'r> DictionaryRow<'r> {
    /// Encodes the row.
    pub fn encode(&self) -> Vec<u8> {
        [&self.number.to_be_bytes(), [u8::from(self.is_stale)].as_slice(), self.stored].concat()
    }

    /// Decodes a row written by [`encode`](Self::encode). `None` if it is damaged.
    pub fn decode(row: &'r [u8]) -> Option<Self> {
        let (number, rest) = row.split_first_chunk::<8>()?;
        let (stale, stored) = rest.split_first()?;
        let is_stale = match stale {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self { number: u64::from_be_bytes(*number), is_stale, stored })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_as_written() {
        for is_stale in [false, true] {
            let row = DictionaryRow { number: 7, is_stale, stored: b"bytes" };
            assert_eq!(DictionaryRow::decode(&row.encode()), Some(row));
        }
        assert_eq!(DictionaryRow::decode(&[0; 8]), None);
        assert_eq!(DictionaryRow::decode(&[2; 9]), None);
    }
}
