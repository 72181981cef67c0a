//! The compact bytes of a record, as stores keep them.
//!
//! One version byte, then the fields in a fixed order; what is present is told by a set of flags.
//! Integers are LEB128, times zigzag, ids raw. Every record has exactly one encoding: reading
//! encodes again and compares.

use super::{
    By, CallRef, Change, Changes, CommitRecord, MAX_INLINE_CHANGES, MAX_PARENTS, Op, Origin,
    RECORD_VERSION, RowFields, This, canonical,
};
use crate::content::{Kind, Priority, Role};
use crate::id::{BatchId, BlobId, CommitId, ToolsetId};
use crate::json::JsonError;
use crate::text::JsonText;

/// A record that cannot be written, or bytes that are no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The record was written by a later version.
    #[error("record version {found} is newer than {RECORD_VERSION}, the newest that is known here")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The bytes end too early, or go on too long, or hold an unknown word.
    #[error("malformed commit record: {what}")]
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// The bytes are a record, but not the one that was asked for.
    #[error("commit {expected} reads as {found}")]
    OtherId {
        /// The id asked for.
        expected: CommitId,
        /// The id of what was read.
        found: CommitId,
    },
    /// A limit of the format is exceeded.
    #[error("{found} {what} in one commit; {limit} are the most")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// Something in it has no canonical form.
    #[error("malformed commit record: {0}")]
    Json(#[from] JsonError),
}

/// Checks what the format demands of any record.
pub(super) fn check(record: &CommitRecord) -> Result<(), RecordError> {
    if record.parents.len() > MAX_PARENTS {
        return Err(RecordError::TooMany {
            what: "parents",
            limit: MAX_PARENTS,
            found: record.parents.len(),
        });
    }
    for (n, parent) in record.parents.iter().enumerate() {
        if record.parents.iter().skip(n + 1).any(|other| other == parent) {
            return Err(RecordError::Malformed { what: format!("parent {parent} twice") });
        }
    }
    if let Changes::List(list) = &record.changes
        && list.len() > MAX_INLINE_CHANGES
    {
        return Err(RecordError::TooMany {
            what: "inline changes",
            limit: MAX_INLINE_CHANGES,
            found: list.len(),
        });
    }
    if record.active.is_some() && record.active == record.toolset {
        return Err(RecordError::Malformed {
            what: "active stated although it equals toolset".to_owned(),
        });
    }
    if let Op::Unknown { name, asked } = &record.op {
        let known = matches!(
            name.as_str(),
            "append" | "edit" | "annotate" | "compress" | "revert" | "merge" | "tools" | "note"
        );
        let object = asked.as_str().starts_with('{');
        if known
            || !object
            || crate::json::split_object(asked.as_str())?.iter().any(|(key, _)| key == "name")
        {
            return Err(RecordError::Malformed { what: format!("operation {name:?}") });
        }
    }
    Ok(())
}

const CHANGES: u32 = 1;
const CHANGES_BLOB: u32 = 1 << 1;
const CONTENT: u32 = 1 << 2;
const VERBATIM: u32 = 1 << 3;
const FORM: u32 = 1 << 4;
const JOINS: u32 = 1 << 5;
const KIND: u32 = 1 << 6;
const ROLE: u32 = 1 << 7;
const MESSAGE: u32 = 1 << 8;
const METADATA: u32 = 1 << 9;
const CONFIG: u32 = 1 << 10;
const TOOLSET: u32 = 1 << 11;
const ACTIVE: u32 = 1 << 12;
const KEEPS: u32 = 1 << 13;
const CREATED_AT: u32 = 1 << 14;
const BATCH: u32 = 1 << 15;
const ORIGIN: u32 = 1 << 16;

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn integer(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.integer(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn this(&mut self, this: This) {
        match this {
            This::This => self.byte(0),
            This::Id(id) => {
                self.byte(1);
                self.bytes(id.as_bytes());
            }
        }
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    fn ids(&mut self, ids: &[CommitId]) {
        self.integer(ids.len() as u64);
        for id in ids {
            self.bytes(id.as_bytes());
        }
    }

    fn call(&mut self, call: CallRef) {
        self.bytes(call.slot.as_bytes());
        self.integer(u64::from(call.index));
    }

    fn row(&mut self, row: &RowFields) {
        self.integer(row.key);
        self.this(row.version);
        self.option(row.mark, Self::this);
        self.option(row.answers, Self::call);
    }
}

pub(super) fn encode(record: &CommitRecord) -> Vec<u8> {
    let mut w = Writer(Vec::with_capacity(192));
    let plain = Origin::from(record.origin.by) == record.origin;
    let mut flags = 0;
    let mut flag = |set: bool, bit: u32| flags |= if set { bit } else { 0 };
    flag(matches!(&record.changes, Changes::List(list) if !list.is_empty()), CHANGES);
    flag(matches!(record.changes, Changes::Blob(_)), CHANGES_BLOB);
    flag(record.content.is_some(), CONTENT);
    flag(record.verbatim.is_some(), VERBATIM);
    flag(record.form.is_some(), FORM);
    flag(record.joins.is_some(), JOINS);
    flag(record.kind.is_some(), KIND);
    flag(record.role.is_some(), ROLE);
    flag(record.message.is_some(), MESSAGE);
    flag(record.metadata.is_some(), METADATA);
    flag(record.generation_config.is_some(), CONFIG);
    flag(record.toolset.is_some(), TOOLSET);
    flag(record.active.is_some(), ACTIVE);
    flag(!record.keeps.is_empty(), KEEPS);
    flag(record.created_at.is_some(), CREATED_AT);
    flag(record.batch.is_some(), BATCH);
    flag(!plain, ORIGIN);

    w.byte(RECORD_VERSION);
    w.integer(u64::from(flags));
    w.ids(&record.parents);
    encode_op(&mut w, &record.op);
    match &record.changes {
        Changes::List(list) if list.is_empty() => {}
        Changes::List(list) => {
            w.integer(list.len() as u64);
            list.iter().for_each(|change| encode_change(&mut w, change));
        }
        Changes::Blob(id) => w.bytes(id.as_bytes()),
    }
    for id in [record.content, record.verbatim].into_iter().flatten() {
        w.bytes(id.as_bytes());
    }
    if let Some(form) = &record.form {
        w.text(form);
    }
    if let Some(joins) = record.joins {
        w.bytes(joins.as_bytes());
    }
    if let Some(kind) = &record.kind {
        encode_kind(&mut w, kind);
    }
    if let Some(role) = &record.role {
        w.text(role.as_str());
    }
    if let Some(message) = &record.message {
        w.text(message);
    }
    for json in [&record.metadata, &record.generation_config].into_iter().flatten() {
        w.text(json.as_str());
    }
    for id in [record.toolset, record.active].into_iter().flatten() {
        w.bytes(id.as_bytes());
    }
    w.byte(match record.origin.by {
        By::User => 0,
        By::Model => 1,
        By::Tool => 2,
        By::Hook => 3,
        By::Import => 4,
    });
    if !plain {
        w.option(record.origin.id.as_deref(), Writer::text);
        w.option(record.origin.triggered_by.as_deref(), Writer::text);
        w.option(record.origin.picked_from, |w, id| w.bytes(id.as_bytes()));
        w.option(record.origin.detail.as_ref(), |w, json| w.text(json.as_str()));
    }
    if !record.keeps.is_empty() {
        w.integer(record.keeps.len() as u64);
        record.keeps.iter().for_each(|id| w.bytes(id.as_bytes()));
    }
    if let Some(at) = record.created_at {
        w.integer(((at << 1) ^ (at >> 63)) as u64);
    }
    if let Some(batch) = record.batch {
        w.bytes(batch.as_bytes());
    }
    w.0
}

fn encode_kind(w: &mut Writer, kind: &Kind) {
    let number = match kind {
        Kind::System => 1,
        Kind::User => 2,
        Kind::Assistant => 3,
        Kind::ToolResult => 4,
        Kind::Reasoning => 5,
        Kind::Artifact => 6,
        Kind::Note => 7,
        Kind::Custom(name) => {
            w.byte(0);
            return w.text(name);
        }
    };
    w.byte(number);
}

fn encode_op(w: &mut Writer, op: &Op) {
    match op {
        Op::Append { slot, answers, priority, retention } => {
            // The plain append is the common case: one byte.
            if (slot, answers, priority, retention) == (&None, &None, &None, &None) {
                return w.byte(0);
            }
            w.byte(1);
            w.option(*slot, |w, id| w.bytes(id.as_bytes()));
            w.option(*answers, Writer::call);
            w.option(*priority, encode_priority);
            w.option(retention.as_ref(), |w, json| w.text(json.as_str()));
        }
        Op::Edit { target } => {
            w.byte(2);
            w.bytes(target.as_bytes());
        }
        Op::Annotate { targets, priority, reason, retention } => {
            w.byte(3);
            w.ids(targets);
            encode_priority(w, *priority);
            w.option(reason.as_deref(), Writer::text);
            w.option(retention.as_ref(), |w, json| w.text(json.as_str()));
        }
        Op::Compress { targets } => {
            w.byte(4);
            w.ids(targets);
        }
        Op::Revert { targets, cascade } => {
            w.byte(5);
            w.ids(targets);
            w.byte(u8::from(*cascade));
        }
        Op::Merge { sources } => {
            w.byte(6);
            w.ids(sources);
        }
        Op::Tools => w.byte(7),
        Op::Note => w.byte(8),
        Op::Unknown { .. } => {
            w.byte(255);
            w.text(&canonical::op_text(op));
        }
    }
}

fn encode_priority(w: &mut Writer, priority: Priority) {
    w.byte(match priority {
        Priority::Skip => 0,
        Priority::Normal => 1,
        Priority::Important => 2,
        Priority::Pinned => 3,
    });
}

fn encode_change(w: &mut Writer, change: &Change) {
    match change {
        Change::Add { slot, row } => {
            w.byte(0);
            w.this(*slot);
            w.row(row);
        }
        Change::Remove { slot, row } => {
            w.byte(1);
            w.this(*slot);
            w.row(row);
        }
        Change::Version { slot, from, to } => {
            w.byte(2);
            w.this(*slot);
            w.this(*from);
            w.this(*to);
        }
        Change::Mark { slot, from, to } => {
            w.byte(3);
            w.this(*slot);
            w.option(*from, Writer::this);
            w.option(*to, Writer::this);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (head, rest) = self.0.split_at_checked(count).ok_or_else(ends_early)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(ends_early)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn integer(&mut self) -> Result<u64, RecordError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("an integer of more than 64 bits"))
    }

    /// Reads a count of things that take at least one byte each.
    fn count(&mut self) -> Result<usize, RecordError> {
        let count = self.integer()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.0.len() => Ok(count),
            _ => Err(ends_early()),
        }
    }

    fn text(&mut self) -> Result<String, RecordError> {
        let length = self.count()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| malformed("a text that is not UTF-8"))
    }

    fn json(&mut self) -> Result<JsonText, RecordError> {
        let text = self.text()?;
        JsonText::from_canonical(&text)
            .ok_or_else(|| malformed("a JSON text that is not canonical"))
    }

    fn id(&mut self) -> Result<CommitId, RecordError> {
        self.array().map(CommitId::from_bytes)
    }

    fn ids(&mut self) -> Result<Vec<CommitId>, RecordError> {
        let count = self.count()?;
        (0..count).map(|_| self.id()).collect()
    }

    fn this(&mut self) -> Result<This, RecordError> {
        match self.byte()? {
            0 => Ok(This::This),
            1 => self.id().map(This::Id),
            _ => Err(malformed("an unknown mark before an id")),
        }
    }

    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, RecordError>,
    ) -> Result<Option<T>, RecordError> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(malformed("an unknown mark before an optional field")),
        }
    }

    fn call(&mut self) -> Result<CallRef, RecordError> {
        let slot = self.id()?;
        let index =
            u32::try_from(self.integer()?).map_err(|_| malformed("a call index over 32 bits"))?;
        Ok(CallRef { slot, index })
    }

    fn row(&mut self) -> Result<RowFields, RecordError> {
        Ok(RowFields {
            key: self.integer()?,
            version: self.this()?,
            mark: self.option(Self::this)?,
            answers: self.option(Self::call)?,
        })
    }
}

fn ends_early() -> RecordError {
    malformed("it ends too early")
}

fn malformed(what: &str) -> RecordError {
    RecordError::Malformed { what: what.to_owned() }
}

pub(super) fn decode(bytes: &[u8]) -> Result<CommitRecord, RecordError> {
    let mut r = Reader(bytes);
    let version = r.byte()?;
    if version != RECORD_VERSION {
        return Err(RecordError::Version { found: version });
    }
    let flags = r.integer()?;
    let has = |bit: u32| flags & u64::from(bit) != 0;
    let parents = r.ids()?;
    let op = decode_op(&mut r)?;
    let changes = if has(CHANGES) {
        let count = r.count()?;
        Changes::List((0..count).map(|_| decode_change(&mut r)).collect::<Result<_, _>>()?)
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
    let by = match r.byte()? {
        0 => By::User,
        1 => By::Model,
        2 => By::Tool,
        3 => By::Hook,
        4 => By::Import,
        _ => return Err(malformed("an unknown origin")),
    };
    let mut origin = Origin::from(by);
    if has(ORIGIN) {
        origin.id = r.option(Reader::text)?;
        origin.triggered_by = r.option(Reader::text)?;
        origin.picked_from = r.option(Reader::id)?;
        origin.detail = r.option(Reader::json)?;
    }
    let keeps = match has(KEEPS) {
        true => {
            let count = r.count()?;
            (0..count).map(|_| r.array().map(BlobId::from_bytes)).collect::<Result<_, _>>()?
        }
        false => Vec::new(),
    };
    let created_at = has(CREATED_AT)
        .then(|| r.integer())
        .transpose()?
        .map(|value| (value >> 1) as i64 ^ -((value & 1) as i64));
    let batch = has(BATCH).then(|| r.array().map(BatchId::from_bytes)).transpose()?;
    if !r.0.is_empty() {
        return Err(malformed("it goes on after its end"));
    }
    let record = CommitRecord {
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
    };
    check(&record)?;
    match encode(&record) == bytes {
        true => Ok(record),
        false => Err(malformed("bytes that this version would not write")),
    }
}

fn decode_kind(r: &mut Reader<'_>) -> Result<Kind, RecordError> {
    Ok(match r.byte()? {
        0 => Kind::parse(&r.text()?),
        1 => Kind::System,
        2 => Kind::User,
        3 => Kind::Assistant,
        4 => Kind::ToolResult,
        5 => Kind::Reasoning,
        6 => Kind::Artifact,
        7 => Kind::Note,
        _ => return Err(malformed("an unknown kind")),
    })
}

fn decode_op(r: &mut Reader<'_>) -> Result<Op, RecordError> {
    Ok(match r.byte()? {
        0 => Op::append(),
        1 => Op::Append {
            slot: r.option(Reader::id)?,
            answers: r.option(Reader::call)?,
            priority: r.option(decode_priority)?,
            retention: r.option(Reader::json)?,
        },
        2 => Op::Edit { target: r.id()? },
        3 => Op::Annotate {
            targets: r.ids()?,
            priority: decode_priority(r)?,
            reason: r.option(Reader::text)?,
            retention: r.option(Reader::json)?,
        },
        4 => Op::Compress { targets: r.ids()? },
        5 => Op::Revert { targets: r.ids()?, cascade: r.byte()? == 1 },
        6 => Op::Merge { sources: r.ids()? },
        7 => Op::Tools,
        8 => Op::Note,
        255 => canonical::parse_op(&r.text()?)?,
        _ => return Err(malformed("an unknown operation")),
    })
}

fn decode_priority(r: &mut Reader<'_>) -> Result<Priority, RecordError> {
    Ok(match r.byte()? {
        0 => Priority::Skip,
        1 => Priority::Normal,
        2 => Priority::Important,
        3 => Priority::Pinned,
        _ => return Err(malformed("an unknown priority")),
    })
}

fn decode_change(r: &mut Reader<'_>) -> Result<Change, RecordError> {
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
