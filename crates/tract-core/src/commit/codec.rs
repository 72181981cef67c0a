//! The compact encoding of a record, as stored.
//!
//! A version byte, then flags for the optional fields, then the fields in a fixed order. Integers
//! are LEB128, times are zigzag, ids are raw bytes.
//!
//! Every record has exactly one encoding, so that equal records have equal stored bytes. The
//! decoder tracks whether it read anything with more than one possible spelling; if so, it encodes
//! the record again and rejects bytes that differ.

mod decode;
mod encode;

pub(super) use self::decode::decode;
pub(super) use self::encode::encode;
use super::{Changes, CommitRecord, MAX_INLINE_CHANGES, MAX_PARENTS, Op, RecordError};
use crate::json::{MAX_DEPTH, nesting};
use crate::text::JsonText;

/// Checks that the canonical text of the whole record, as exported, stays within the nesting limit
/// of the JSON parser. Only new records are checked: stores may contain deeper ones from earlier
/// versions.
pub(super) fn check_nesting(record: &CommitRecord) -> Result<(), RecordError> {
    let members = [
        (1, record.metadata.as_ref()),
        (1, record.generation_config.as_ref()),
        (2, record.op.retention()),
        (2, record.origin.detail.as_ref()),
    ];
    for (around, json) in members {
        let Some(text) = json.map(JsonText::as_str) else { continue };
        let limit = MAX_DEPTH - around;
        // Each level takes two characters, so a short text cannot be too deep.
        if text.len() > 2 * limit {
            at_most(limit, "levels of nesting", nesting(text))?;
        }
    }
    Ok(())
}

fn at_most(limit: usize, what: &'static str, found: usize) -> Result<(), RecordError> {
    if found > limit { Err(RecordError::TooMany { what, limit, found }) } else { Ok(()) }
}

/// Checks the rules that every record must satisfy.
pub(super) fn check(record: &CommitRecord) -> Result<(), RecordError> {
    at_most(MAX_PARENTS, "parents", record.parents.len())?;
    // Quadratic, in at most `MAX_PARENTS` parents.
    for (n, parent) in record.parents.iter().enumerate() {
        if record.parents.iter().skip(n + 1).any(|other| other == parent) {
            return Err(RecordError::Malformed { what: format!("parent {parent} twice") });
        }
    }
    if let Changes::List(list) = &record.changes {
        at_most(MAX_INLINE_CHANGES, "inline changes", list.len())?;
    }
    if record.active.is_some() && record.active == record.toolset {
        return Err(RecordError::Malformed {
            what: "active stated although it equals toolset".to_owned(),
        });
    }
    if let Op::Unknown { name, fields } = &record.op {
        let object = fields.as_str().starts_with('{');
        if Op::NAMES.contains(&name.as_str())
            || !object
            || crate::json::split_object(fields.as_str())?.iter().any(|(key, _)| key == "name")
        {
            return Err(RecordError::Malformed { what: format!("operation {name:?}") });
        }
    }
    Ok(())
}

/// Flags of the fields that are present.
mod flags {
    // Stored with every commit: a bit must not be given to another field.
    pub(super) const CHANGES: u32 = 1;
    pub(super) const CHANGES_BLOB: u32 = 1 << 1;
    pub(super) const CONTENT: u32 = 1 << 2;
    pub(super) const VERBATIM: u32 = 1 << 3;
    pub(super) const FORM: u32 = 1 << 4;
    pub(super) const JOINS: u32 = 1 << 5;
    pub(super) const KIND: u32 = 1 << 6;
    pub(super) const ROLE: u32 = 1 << 7;
    pub(super) const MESSAGE: u32 = 1 << 8;
    pub(super) const METADATA: u32 = 1 << 9;
    pub(super) const CONFIG: u32 = 1 << 10;
    pub(super) const TOOLSET: u32 = 1 << 11;
    pub(super) const ACTIVE: u32 = 1 << 12;
    pub(super) const KEEPS: u32 = 1 << 13;
    pub(super) const CREATED_AT: u32 = 1 << 14;
    pub(super) const BATCH: u32 = 1 << 15;
    pub(super) const ORIGIN: u32 = 1 << 16;
}
