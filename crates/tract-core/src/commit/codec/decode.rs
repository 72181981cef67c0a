//! Decodes the compact encoding of a record.

use std::sync::Arc;

use super::flags::*;
use super::{RecordError, check, encode};
use crate::commit::{
    AuthorKind, CallRef, Change, Changes, CommitRecord, CommitRef, MAX_INLINE_CHANGES, Op, Origin,
    RECORD_VERSION, RowFields, canonical,
};
use crate::content::{Kind, NAMED_KINDS, Priority, Role};
use crate::id::{BatchId, BlobId, CommitId, ToolsetId};
use crate::text::JsonText;

struct Reader<'a> {
    rest: &'a [u8],
    /// Whether the bytes read so far can only be the encoder's own spelling. If not, the record is
    /// encoded again and compared.
    as_written: bool,
}

/// Flags of fields with a single spelling: such a field is present exactly if its flag is set. The
/// other flags may also be set for a default value, which the encoder would leave out.
const ONE_SPELLING: u32 = CONTENT
    | VERBATIM
    | FORM
    | JOINS
    | KIND
    | ROLE
    | MESSAGE
    | METADATA
    | CONFIG
    | TOOLSET
    | ACTIVE
    | CREATED_AT
    | BATCH;

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn integer(&mut self) -> Result<u64, Fault> {
        match self.rest.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_integer(),
        }
    }

    fn long_integer(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for (n, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * n);
            if *byte < 0x80 {
                // The encoder writes no trailing zero byte and no bits beyond the 64th.
                self.as_written &= *byte != 0 && (n < 9 || *byte < 2);
                self.rest = self.rest.get(n + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        match self.rest.len() {
            ..10 => Err(ends_early()),
            _ => Err(malformed("an integer of more than 64 bits")),
        }
    }

    /// Reads the number of items, each of which takes at least one byte. A larger number than the
    /// remaining bytes is rejected here, so that damaged data cannot cause a huge allocation.
    fn count(&mut self) -> Result<usize, Fault> {
        let count = self.integer()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(ends_early()),
        }
    }

    fn text(&mut self) -> Result<String, Fault> {
        let length = self.count()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| malformed("a text that is not UTF-8"))
    }

    fn json(&mut self) -> Result<JsonText, Fault> {
        let text = self.text()?;
        JsonText::from_canonical(&text)
            .ok_or_else(|| malformed("a JSON text that is not canonical"))
    }

    fn id(&mut self) -> Result<CommitId, Fault> {
        self.array().map(CommitId::from_bytes)
    }

    fn ids(&mut self) -> Result<Vec<CommitId>, Fault> {
        self.list(Self::id)
    }

    /// Reads a list. It allocates exactly: most lists have one item, and `collect` would reserve
    /// four. The count is not trusted, so at most `MAX_INLINE_CHANGES` items are reserved in
    /// advance.
    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
        let count = self.count()?;
        let mut list = Vec::with_capacity(count.min(MAX_INLINE_CHANGES));
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    fn this(&mut self) -> Result<CommitRef, Fault> {
        match self.byte()? {
            0 => Ok(CommitRef::This),
            1 => self.id().map(CommitRef::Id),
            _ => Err(malformed("an unknown mark before an id")),
        }
    }

    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(malformed("an unknown mark before an optional field")),
        }
    }

    fn call(&mut self) -> Result<CallRef, Fault> {
        let slot = self.id()?;
        let index =
            u32::try_from(self.integer()?).map_err(|_| malformed("a call index over 32 bits"))?;
        Ok(CallRef { slot, index })
    }

    fn row(&mut self) -> Result<RowFields, Fault> {
        Ok(RowFields {
            key: self.integer()?,
            version: self.this()?,
            mark: self.option(Self::this)?,
            answers: self.option(Self::call)?,
        })
    }
}

/// A small error for the many steps of the decoder. `RecordError` would make every `Result` as
/// large as its largest variant.
enum Fault {
    Malformed(&'static str),
    Other(Box<RecordError>),
}

impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Self {
        Self::Other(Box::new(error))
    }
}

impl From<Fault> for RecordError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Malformed(what) => Self::Malformed { what: what.to_owned() },
            Fault::Other(error) => *error,
        }
    }
}

fn ends_early() -> Fault {
    malformed("it ends too early")
}

fn malformed(what: &'static str) -> Fault {
    Fault::Malformed(what)
}

pub(in crate::commit) fn decode(bytes: &[u8]) -> Result<Arc<CommitRecord>, RecordError> {
    Ok(read(bytes)?)
}

fn read(bytes: &[u8]) -> Result<Arc<CommitRecord>, Fault> {
    let mut r = Reader { rest: bytes, as_written: true };
    let version = r.byte()?;
    if version != RECORD_VERSION {
        return Err(RecordError::Version { found: version }.into());
    }
    let flags = r.integer()?;
    r.as_written &= flags & !u64::from(ONE_SPELLING) == 0;
    let has = |bit: u32| flags & u64::from(bit) != 0;
    // The order of the fields is part of the format: the same as in `encode`.
    let parents = r.ids()?;
    let op = decode_op(&mut r)?;
    let changes = if has(CHANGES) {
        Changes::List(r.list(decode_change)?)
    } else if has(CHANGES_BLOB) {
        Changes::Blob(BlobId::from_bytes(r.array()?))
    } else {
        Changes::default()
    };
    let content = has(CONTENT).then(|| r.array().map(BlobId::from_bytes)).transpose()?;
    let verbatim = has(VERBATIM).then(|| r.array().map(BlobId::from_bytes)).transpose()?;
    let form = has(FORM).then(|| r.text()).transpose()?;
    let joins = has(JOINS).then(|| r.id()).transpose()?;
    let kind = has(KIND).then(|| decode_kind(&mut r)).transpose()?;
    let role = has(ROLE).then(|| r.text()).transpose()?.map(|word| Role::parse(&word));
    let message = has(MESSAGE).then(|| r.text()).transpose()?;
    let metadata = has(METADATA).then(|| r.json()).transpose()?;
    let generation_config = has(CONFIG).then(|| r.json()).transpose()?;
    let toolset = has(TOOLSET).then(|| r.array().map(ToolsetId::from_bytes)).transpose()?;
    let active = has(ACTIVE).then(|| r.array().map(ToolsetId::from_bytes)).transpose()?;
    let by = AuthorKind::ALL.get(usize::from(r.byte()?));
    let mut origin = Origin::from(*by.ok_or_else(|| malformed("an unknown origin"))?);
    if has(ORIGIN) {
        origin.id = r.option(Reader::text)?;
        origin.triggered_by = r.option(Reader::text)?;
        origin.picked_from = r.option(Reader::id)?;
        origin.detail = r.option(Reader::json)?;
    }
    let keeps =
        if has(KEEPS) { r.list(|r| r.array().map(BlobId::from_bytes))? } else { Vec::new() };
    let created_at = has(CREATED_AT)
        .then(|| r.integer())
        .transpose()?
        .map(|value| (value >> 1) as i64 ^ -((value & 1) as i64));
    let batch = has(BATCH).then(|| r.array().map(BatchId::from_bytes)).transpose()?;
    if !r.rest.is_empty() {
        return Err(malformed("bytes follow its end"));
    }
    let record = Arc::new(CommitRecord {
        parents,
        op,
        changes,
        content,
        verbatim,
        form,
        joins,
        kind,
        role,
        message,
        metadata,
        generation_config,
        toolset,
        active,
        origin,
        keeps,
        created_at,
        batch,
    });
    check(&record)?;
    // Encoding again drops unknown flags and flags set for a default value: the bytes then differ
    // and are rejected.
    if r.as_written || encode(&record, bytes.len()) == bytes {
        Ok(record)
    } else {
        Err(malformed("bytes that this version would not write"))
    }
}

fn decode_kind(r: &mut Reader<'_>) -> Result<Kind, Fault> {
    let Some(place) = r.byte()?.checked_sub(1) else {
        // A custom kind may have the name of a predefined one, which the encoder writes as a
        // number.
        r.as_written = false;
        return Ok(Kind::parse(&r.text()?));
    };
    let named = NAMED_KINDS.get(usize::from(place)).cloned();
    named.ok_or_else(|| malformed("an unknown kind"))
}

fn decode_op(r: &mut Reader<'_>) -> Result<Op, Fault> {
    Ok(match r.byte()? {
        0 => Op::append(),
        1 => {
            let append = Op::Append {
                slot: r.option(Reader::id)?,
                answers: r.option(Reader::call)?,
                priority: r.option(decode_priority)?,
                retention: r.option(Reader::json)?,
            };
            r.as_written &= append != Op::append();
            append
        }
        2 => Op::Edit { target: r.id()? },
        3 => Op::Annotate {
            targets: r.ids()?,
            priority: decode_priority(r)?,
            reason: r.option(Reader::text)?,
            retention: r.option(Reader::json)?,
        },
        4 => Op::Compress { targets: r.ids()? },
        5 => {
            // Any byte other than 1 is read as `false`. Encoding again rejects all of them but 0.
            r.as_written = false;
            Op::Revert { targets: r.ids()?, cascade: r.byte()? == 1 }
        }
        6 => Op::Merge { sources: r.ids()? },
        7 => Op::Tools,
        8 => Op::Note,
        255 => {
            r.as_written = false;
            canonical::parse_op(&r.text()?)?
        }
        _ => return Err(malformed("an unknown operation")),
    })
}

fn decode_priority(r: &mut Reader<'_>) -> Result<Priority, Fault> {
    Priority::from_number(r.byte()?).ok_or_else(|| malformed("an unknown priority"))
}

fn decode_change(r: &mut Reader<'_>) -> Result<Change, Fault> {
    let tag = r.byte()?;
    let slot = r.this()?;
    Ok(match tag {
        0 => Change::Add { slot, row: r.row()? },
        1 => Change::Remove { slot, row: r.row()? },
        2 => Change::Version { slot, from: r.this()?, to: r.this()? },
        3 => Change::Mark { slot, from: r.option(Reader::this)?, to: r.option(Reader::this)? },
        _ => return Err(malformed("an unknown change")),
    })
}
