//! Values with checksums, and the encodings of their parts.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::keys::Repo;
use tract_core::batch::ToolRow;
use tract_core::id::{BatchId, BlobId, CommitId, OperationId};
use tract_core::refs::{LogEntry, LogNote, RefName, RefTarget};

/// Length of a checksum in bytes. It detects accidents; the hashes of objects detect tampering.
pub(super) const CHECKSUM: usize = 8;

/// Returns the checksum of a value, which also covers its key.
pub(super) fn checksum(key: &[u8], value: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = Sha256::new();
    // Includes the key, so that a value that damage moved to another key is detected, and the key's
    // length, so that no byte can move from the key to the value.
    hasher.update((key.len() as u64).to_be_bytes());
    hasher.update(key);
    hasher.update(value);
    let sum: [u8; 32] = hasher.finalize().into();
    *sum.first_chunk().expect("a hash is longer than a checksum")
}

/// Appends the checksum.
pub(super) fn seal(key: &[u8], mut value: Vec<u8>) -> Bytes {
    let sum = checksum(key, &value);
    value.extend_from_slice(&sum);
    value.into()
}

/// Verifies and removes the checksum; `None` if it is wrong.
pub(super) fn open<'a>(key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (value, sum) = sealed.split_last_chunk::<CHECKSUM>()?;
    (checksum(key, value) == *sum).then_some(value)
}

/// Opens a value that consists of one number.
pub(super) fn open_number(key: &[u8], sealed: &[u8]) -> Option<u32> {
    open(key, sealed)?.try_into().ok().map(u32::from_be_bytes)
}

pub(super) fn put_integer(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_integer(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a flag for whether there is a value, then the value.
pub(super) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: fn(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// Returns the encoded length of `length` bytes written by `put_bytes`.
pub(super) fn bytes_len(length: usize) -> usize {
    let bits = (u64::BITS - (length as u64).leading_zeros()).max(1);
    bits.div_ceil(7) as usize + length
}

/// Reads values from the front of a byte slice; `None` if it ends early.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn integer(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                // Only the shortest form is valid, so that equal values have equal bytes: no zero
                // byte at the end, and no bits above 64.
                let is_shortest = shift == 0 || byte != 0;
                let fits = shift < 63 || byte <= 1;
                return (is_shortest && fits).then_some(value);
            }
        }
        None
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.integer()?).ok()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Returns `Some` if all bytes were read.
    pub(super) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The counters of a repository. Every write changes them, so requiring them unchanged detects any
/// concurrent write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Grows with every write.
    pub(super) generation: u64,
    /// The segment opened next.
    pub(super) next_segment: u32,
    /// The segment of blobs that are not the content of a commit; 0 if there is none yet.
    pub(super) loose_segment: u32,
    /// The next position in that segment.
    pub(super) loose_position: u32,
    /// The number of the next log entry.
    pub(super) next_seq: u64,
}

impl State {
    pub(super) const NEW: Self =
        Self { generation: 0, next_segment: 1, loose_segment: 0, loose_position: 0, next_seq: 1 };

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(28 + CHECKSUM);
        out.extend_from_slice(&self.generation.to_be_bytes());
        out.extend_from_slice(&self.next_segment.to_be_bytes());
        out.extend_from_slice(&self.loose_segment.to_be_bytes());
        out.extend_from_slice(&self.loose_position.to_be_bytes());
        out.extend_from_slice(&self.next_seq.to_be_bytes());
        out
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader(value);
        let state = Self {
            generation: reader.array().map(u64::from_be_bytes)?,
            next_segment: reader.array().map(u32::from_be_bytes)?,
            loose_segment: reader.array().map(u32::from_be_bytes)?,
            loose_position: reader.array().map(u32::from_be_bytes)?,
            next_seq: reader.array().map(u64::from_be_bytes)?,
        };
        reader.end().map(|()| state)
    }
}

/// Further counters of a repository, for garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteCounts {
    /// Number of writes that stored objects but moved no ref.
    pub(super) unlogged: u64,
    /// Number of sweeps. Places cached before the last one may be empty now.
    pub(super) sweeps: u64,
}

impl WriteCounts {
    pub(super) fn encode(&self) -> Vec<u8> {
        [self.unlogged.to_be_bytes(), self.sweeps.to_be_bytes()].concat()
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader(value);
        let unlogged = reader.array().map(u64::from_be_bytes)?;
        let sweeps = reader.array().map(u64::from_be_bytes)?;
        reader.end().map(|()| Self { unlogged, sweeps })
    }
}

/// A run of commits, each the first child of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The last position taken.
    pub(super) tip: u32,
    /// The place of the first parent of its first commit.
    pub(super) parent: Option<u64>,
}

impl Segment {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.tip.to_be_bytes().to_vec();
        if let Some(parent) = self.parent {
            out.extend_from_slice(&parent.to_be_bytes());
        }
        out
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader(value);
        let tip = reader.array().map(u32::from_be_bytes)?;
        let parent =
            if reader.0.is_empty() { None } else { Some(reader.array().map(u64::from_be_bytes)?) };
        reader.end().map(|()| Self { tip, parent })
    }
}

pub(super) fn put_target(out: &mut Vec<u8>, target: Option<&RefTarget>) {
    match target {
        None => out.push(0),
        Some(RefTarget::Commit(id)) => {
            out.push(1);
            out.extend_from_slice(id.as_bytes());
        }
        Some(RefTarget::Blob(id)) => {
            out.push(2);
            out.extend_from_slice(id.as_bytes());
        }
        Some(RefTarget::Ref(name)) => {
            out.push(3);
            put_bytes(out, name.as_str().as_bytes());
        }
    }
}

pub(super) fn target(reader: &mut Reader<'_>) -> Option<Option<RefTarget>> {
    Some(match reader.byte()? {
        0 => None,
        1 => Some(RefTarget::Commit(CommitId::from_bytes(reader.array()?))),
        2 => Some(RefTarget::Blob(BlobId::from_bytes(reader.array()?))),
        3 => Some(RefTarget::Ref(RefName::new(reader.text()?).ok()?)),
        _ => return None,
    })
}

/// Encodes a log entry without its number, which is part of the key.
pub(super) fn encode_move(entry: &LogEntry) -> Vec<u8> {
    let LogEntry { name, before, after, batch, note, .. } = entry;
    let mut out = Vec::with_capacity(192);
    put_bytes(&mut out, name.as_str().as_bytes());
    put_target(&mut out, before.as_ref());
    put_target(&mut out, after.as_ref());
    out.extend_from_slice(batch.as_bytes());
    out.extend_from_slice(note.operation.as_bytes());
    put_bytes(&mut out, note.what.as_bytes());
    put_bytes(&mut out, note.who.as_bytes());
    put_option(&mut out, note.why.as_deref().map(str::as_bytes), put_bytes);
    put_option(&mut out, note.undoes, put_integer);
    out.extend_from_slice(&note.at.to_be_bytes());
    out
}

/// Decodes the output of [`encode_move`].
pub(super) fn decode_move(seq: u64, value: &[u8]) -> Option<LogEntry> {
    let mut reader = Reader(value);
    let name = RefName::new(reader.text()?).ok()?;
    let before = target(&mut reader)?;
    let after = target(&mut reader)?;
    let batch = BatchId::from_bytes(reader.array()?);
    let operation = OperationId::from_bytes(reader.array()?);
    let what = reader.text()?.to_owned();
    let who = reader.text()?.to_owned();
    let why = reader.option(|reader| reader.text().map(str::to_owned))?;
    let undoes = reader.option(Reader::integer)?;
    let at = i64::from_be_bytes(reader.array()?);
    let note = LogNote { operation, what, who, why, undoes, at };
    reader.end().map(|()| LogEntry { seq, name, before, after, batch, note })
}

/// Encodes a row of the tool index without its ids, which are part of the key.
pub(super) fn encode_tool(row: &ToolRow) -> Vec<u8> {
    let mut out = Vec::with_capacity(40 + row.name.len() + CHECKSUM);
    out.extend_from_slice(&row.created_at.to_be_bytes());
    out.extend_from_slice(row.commit.as_bytes());
    out.extend_from_slice(row.name.as_bytes());
    out
}

/// Decodes a row of the tool index; `None` if it is damaged.
pub(super) fn open_tool(key: &[u8], sealed: &[u8]) -> Option<ToolRow> {
    let (id, schema) = Repo::tool_parts(key)?;
    let mut reader = Reader(open(key, sealed)?);
    let created_at = i64::from_be_bytes(reader.array()?);
    let commit = CommitId::from_bytes(reader.array()?);
    let name = std::str::from_utf8(reader.0).ok()?.to_owned();
    Some(ToolRow { id, name, schema, commit, created_at })
}

/// Encodes a commit's value: the place of its content, then its record. Most contents have the
/// commit's own place.
pub(super) fn commit_value(place: u64, content: Option<u64>, record: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(record.len() + 9);
    match content {
        None => out.push(0),
        Some(content) if content == place => out.push(1),
        Some(content) => {
            out.push(2);
            out.extend_from_slice(&content.to_be_bytes());
        }
    }
    out.extend_from_slice(record);
    out.into()
}

/// Splits a commit's value into the place of its content and the record.
pub(super) fn split_commit(place: u64, value: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let mut reader = Reader(value);
    let content = match reader.byte()? {
        0 => None,
        1 => Some(place),
        2 => Some(u64::from_be_bytes(reader.array()?)),
        _ => return None,
    };
    Some((content, reader.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_covers_key_and_value() {
        let sealed = seal(b"key", b"value".to_vec());
        assert_eq!(open(b"key", &sealed), Some(b"value".as_slice()));
        assert_eq!(open(b"kez", &sealed), None);
        for flipped in 0..sealed.len() {
            let mut damaged = sealed.to_vec();
            damaged[flipped] ^= 1;
            assert_eq!(open(b"key", &damaged), None, "byte {flipped}");
        }
        assert_ne!(checksum(b"ab", b"c"), checksum(b"a", b"bc"));
    }

    #[test]
    fn lengths_are_as_written() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 3_000_000] {
            let mut out = Vec::new();
            put_bytes(&mut out, &vec![7; length]);
            assert_eq!(out.len(), bytes_len(length));
            assert_eq!(Reader(&out).bytes().map(<[u8]>::len), Some(length));
        }
    }
}
