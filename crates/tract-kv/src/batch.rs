//! Atomic writes of keys as values, and their encoding for journals.

use bytes::Bytes;

use super::value::{self, Reader};
use super::{KvMap, KvOutcome, KvRead, Space};
use tract_core::store::{StoreError, StoreErrorKind, StoreResult};

/// A key with its required or new value; `None` means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEntry {
    /// The key's space.
    pub space: Space,
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Option<Bytes>,
}

/// An atomic write: the required values of keys, and the new ones.
///
/// ```
/// use tract_kv::{KvBatch, KvEntry, KvMap, KvOutcome, KvRead, Space};
/// let mut batch = KvBatch::default();
/// batch.requires.push(KvEntry { space: Space::Small, key: "n".into(), value: None });
/// batch.writes.push(KvEntry { space: Space::Small, key: "n".into(), value: Some("1".into()) });
///
/// let mut map = KvMap::default();
/// for batch in KvBatch::decode_all(&batch.encode())? {
///     assert_eq!(batch.check(&map)?, None);
///     batch.apply_to(&mut map);
/// }
/// assert_eq!(map.get(Space::Small, b"n")?, Some("1".into()));
/// assert!(matches!(batch.check(&map)?, Some(KvOutcome::Conflict { .. })));
/// # Ok::<(), tract_core::StoreError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvBatch {
    /// Required values. If a key has a different one, nothing is written.
    pub requires: Vec<KvEntry>,
    /// The new values of keys. Each key occurs once.
    pub writes: Vec<KvEntry>,
}

/// Bytes of an encoded batch before its body: the body's length, the checksum of the length, and
/// the checksum of the body. The length has its own checksum because a damaged length would
/// otherwise look like a torn tail, and acknowledged batches would be lost silently.
const HEADER: usize = 24;

impl KvBatch {
    /// Compares the required values with the stored ones. Returns the first conflict.
    ///
    /// # Errors
    /// The reader's.
    pub fn check(&self, read: &dyn KvRead) -> StoreResult<Option<KvOutcome>> {
        for required in &self.requires {
            if read.get(required.space, &required.key)? != required.value {
                let (space, key) = (required.space, required.key.clone());
                return Ok(Some(KvOutcome::Conflict { space, key }));
            }
        }
        Ok(None)
    }

    /// Applies the writes to keys in memory.
    pub fn apply_to(&self, map: &mut KvMap) {
        for KvEntry { space, key, value } in &self.writes {
            match value {
                Some(value) => map.put(*space, key.clone(), value.clone()),
                None => map.delete(*space, key),
            }
        }
    }

    /// Encodes the batch for a journal, starting with its length and checksums. Encoded batches can
    /// be concatenated. Required values are left out, because a journal only contains batches that
    /// were committed.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for KvEntry { space, key, value } in &self.writes {
            body.push(space.number());
            value::put_bytes(&mut body, key);
            value::put_option(&mut body, value.as_deref(), value::put_bytes);
        }
        let mut out = Vec::with_capacity(HEADER + body.len());
        let length = (body.len() as u64).to_be_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(&value::checksum(b"length", &length));
        out.extend_from_slice(&value::checksum(b"batch", &body));
        out.append(&mut body);
        out
    }

    /// Decodes a journal of concatenated batches. An incomplete last batch, left by a crash during
    /// a write, is dropped: it was never acknowledged. The engine must truncate its file there,
    /// after the sum of [`encoded_len`](Self::encoded_len) over the batches.
    ///
    /// # Errors
    /// `Corrupt` if a batch is damaged and others follow it.
    pub fn decode_all(journal: &[u8]) -> StoreResult<Vec<Self>> {
        let mut batches = Vec::new();
        let mut rest = journal;
        while let Some((header, after)) = rest.split_first_chunk::<HEADER>() {
            let mut header = Reader(header);
            let mut eight = || header.array().expect("a header is three times eight bytes");
            let [length, length_sum, sum]: [[u8; 8]; 3] = [eight(), eight(), eight()];
            if value::checksum(b"length", &length) != length_sum {
                // A file system may extend the file before it writes the data, so a crash can leave
                // a tail of zeros.
                if rest.iter().all(|byte| *byte == 0) {
                    break;
                }
                return Err(damaged(journal.len() - rest.len()));
            }
            let length = u64::from_be_bytes(length);
            let Some((body, after)) =
                usize::try_from(length).ok().and_then(|length| after.split_at_checked(length))
            else {
                break;
            };
            if value::checksum(b"batch", body) != sum {
                // A torn tail ends the journal; damage before acknowledged batches is not a tail.
                if after.iter().all(|byte| *byte == 0) {
                    break;
                }
                return Err(damaged(journal.len() - rest.len()));
            }
            // The checksum is right, so this is not a torn write.
            batches.push(decode(body).ok_or_else(|| damaged(journal.len() - rest.len()))?);
            rest = after;
        }
        Ok(batches)
    }

    /// Returns the length of the encoded batch in bytes. The sum over the batches of
    /// [`decode_all`](Self::decode_all) is the offset of a torn tail.
    pub fn encoded_len(&self) -> usize {
        let entry = |entry: &KvEntry| {
            let value = entry.value.as_ref().map_or(0, |value| value::bytes_len(value.len()));
            2 + value::bytes_len(entry.key.len()) + value
        };
        HEADER + self.writes.iter().map(entry).sum::<usize>()
    }
}

fn damaged(offset: usize) -> StoreError {
    StoreError::new(
        StoreErrorKind::Corrupt { object: None },
        "kv",
        "open",
        format!("the batch at byte {offset} of the journal is damaged, and others follow it"),
    )
}

fn decode(body: &[u8]) -> Option<KvBatch> {
    let mut reader = Reader(body);
    let mut batch = KvBatch::default();
    while !reader.0.is_empty() {
        let space = Space::from_number(reader.byte()?)?;
        let key = Bytes::copy_from_slice(reader.bytes()?);
        let value = reader.option(|reader| reader.bytes().map(Bytes::copy_from_slice))?;
        batch.writes.push(KvEntry { space, key, value });
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &'static str, value: Option<&'static str>) -> KvEntry {
        KvEntry { space: Space::Log, key: key.into(), value: value.map(Into::into) }
    }

    fn batch(writes: Vec<KvEntry>) -> KvBatch {
        KvBatch { requires: Vec::new(), writes }
    }

    #[test]
    fn a_torn_tail_is_dropped_wherever_it_is_cut() {
        let one = batch(vec![entry("a", Some("1")), entry("b", None)]);
        let two = batch(vec![entry("c", Some("a longer value"))]);
        assert_eq!(one.encoded_len(), one.encode().len());
        let journal = [one.encode(), two.encode()].concat();
        assert_eq!(KvBatch::decode_all(&journal).unwrap(), [one.clone(), two]);
        for cut in one.encoded_len()..journal.len() {
            assert_eq!(
                KvBatch::decode_all(&journal[..cut]).unwrap(),
                std::slice::from_ref(&one),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_flipped_byte_before_other_batches_is_an_error() {
        let one = batch(vec![entry("a", Some("1"))]);
        let journal = [one.encode(), one.encode()].concat();
        for flipped in 0..one.encoded_len() {
            let mut journal = journal.clone();
            journal[flipped] ^= 4;
            let error = KvBatch::decode_all(&journal).unwrap_err();
            assert!(matches!(error.kind, StoreErrorKind::Corrupt { .. }), "at {flipped}");
        }
    }
}
