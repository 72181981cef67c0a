//! The compact bytes of a record, as stores keep them.
//!
//! One version byte, then the fields in a fixed order; a set of flags says which are present.
//! Integers are LEB128, times zigzag, ids raw. Every record has exactly one encoding: where bytes
//! read might be spelt otherwise, reading encodes again and compares.

mod decode;
mod encode;

pub(super) use self::decode::decode;
pub(super) use self::encode::encode;
use super::{Changes, CommitRecord, MAX_INLINE_CHANGES, MAX_PARENTS, Op, RECORD_VERSION};
use crate::id::CommitId;
use crate::json::{JsonError, MAX_DEPTH, nesting};
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
    /// The bytes end too early, continue after the end, or contain an unknown word.
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
    #[error("too many {what} in one commit: {found} (limit {limit})")]
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

/// Checks that a record as a whole can be read from its canonical text, as an export has it. Only
/// what is sealed is held to it: a store may have deeper ones from before.
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
        // Each level takes two characters: what is short need not be looked at.
        if text.len() > 2 * limit {
            at_most(limit, "levels of nesting", nesting(text))?;
        }
    }
    Ok(())
}

fn at_most(limit: usize, what: &'static str, found: usize) -> Result<(), RecordError> {
    if found > limit { Err(RecordError::TooMany { what, limit, found }) } else { Ok(()) }
}

/// Checks what the format demands of any record.
pub(super) fn check(record: &CommitRecord) -> Result<(), RecordError> {
    at_most(MAX_PARENTS, "parents", record.parents.len())?;
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

/// What is present in a record: one bit each.
mod flags {
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
