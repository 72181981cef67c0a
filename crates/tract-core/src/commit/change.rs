//! The changes of a commit to the view.

use std::fmt;
use std::str::FromStr;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{BlobId, CommitId, ParseIdError};

/// A reference to a commit inside of a record: another commit, or the record's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitRef {
    /// The commit itself, written `.`: its id is not known until the record is hashed.
    This,
    /// Another commit.
    Id(CommitId),
}

impl CommitRef {
    /// Returns the id. `this` is the id of the commit that contains the reference.
    pub fn resolve(self, this: CommitId) -> CommitId {
        match self {
            Self::This => this,
            Self::Id(id) => id,
        }
    }
}

impl From<CommitId> for CommitRef {
    fn from(id: CommitId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for CommitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::This => f.write_str("."),
            Self::Id(id) => id.fmt(f),
        }
    }
}

impl FromStr for CommitRef {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        match text {
            "." => Ok(Self::This),
            id => id.parse().map(Self::Id),
        }
    }
}

impl Serialize for CommitRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CommitRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::id::parsed(deserializer)
    }
}

/// A tool call: the message that contains it and its position among that message's calls, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(CommitId, u32)", into = "(CommitId, u32)")]
pub struct CallRef {
    /// The slot of the message.
    pub slot: CommitId,
    /// The index of the call among the message's calls.
    pub index: u32,
}

impl From<(CommitId, u32)> for CallRef {
    fn from((slot, index): (CommitId, u32)) -> Self {
        Self { slot, index }
    }
}

impl From<CallRef> for (CommitId, u32) {
    fn from(call: CallRef) -> Self {
        (call.slot, call.index)
    }
}

/// The fields of a row other than its slot, as written in records: `[key, version, mark, answers]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    from = "(u64, CommitRef, Option<CommitRef>, Option<CallRef>)",
    into = "(u64, CommitRef, Option<CommitRef>, Option<CallRef>)"
)]
pub struct RowFields {
    /// The row's position in the view.
    pub key: u64,
    /// The commit with the current content.
    pub version: CommitRef,
    /// The commit that set the current priority.
    pub mark: Option<CommitRef>,
    /// The tool call that the message answers.
    pub answers: Option<CallRef>,
}

type RowTuple = (u64, CommitRef, Option<CommitRef>, Option<CallRef>);

impl From<RowTuple> for RowFields {
    fn from((key, version, mark, answers): RowTuple) -> Self {
        Self { key, version, mark, answers }
    }
}

impl From<RowFields> for RowTuple {
    fn from(row: RowFields) -> Self {
        (row.key, row.version, row.mark, row.answers)
    }
}

/// One change of the view. The fold needs no other information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Adds a row: `["row", slot, null, row]`.
    Add {
        /// The slot of the message.
        slot: CommitRef,
        /// The row.
        row: RowFields,
    },
    /// Removes a row: `["row", slot, row, null]`.
    Remove {
        /// The slot of the message.
        slot: CommitRef,
        /// The row, which must match.
        row: RowFields,
    },
    /// Replaces the version: `["version", slot, from, to]`.
    Version {
        /// The slot of the message.
        slot: CommitRef,
        /// The old version, which must match.
        from: CommitRef,
        /// The new version.
        to: CommitRef,
    },
    /// Replaces the mark: `["mark", slot, from, to]`.
    Mark {
        /// The slot of the message.
        slot: CommitRef,
        /// The old mark, which must match.
        from: Option<CommitRef>,
        /// The new mark.
        to: Option<CommitRef>,
    },
}

impl Change {
    /// Returns the slot that is changed.
    pub fn slot(&self) -> CommitRef {
        match self {
            Self::Add { slot, .. }
            | Self::Remove { slot, .. }
            | Self::Version { slot, .. }
            | Self::Mark { slot, .. } => *slot,
        }
    }
}

/// The old or new value of a change: a row, written as a list, or a commit.
enum Field {
    Row(RowFields),
    Id(CommitRef),
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RowOrId;
        impl<'de> Visitor<'de> for RowOrId {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row or a commit id")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Field, E> {
                text.parse().map(Field::Id).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, row: A) -> Result<Field, A::Error> {
                RowFields::deserialize(SeqAccessDeserializer::new(row)).map(Field::Row)
            }
        }
        deserializer.deserialize_any(RowOrId)
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Add { slot, row } => ("row", slot, None::<RowFields>, row).serialize(serializer),
            Self::Remove { slot, row } => {
                ("row", slot, row, None::<RowFields>).serialize(serializer)
            }
            Self::Version { slot, from, to } => ("version", slot, from, to).serialize(serializer),
            Self::Mark { slot, from, to } => ("mark", slot, from, to).serialize(serializer),
        }
    }
}

/// The first word of a change: the part of the view that it concerns.
enum Word {
    Row,
    Version,
    Mark,
}

impl FromStr for Word {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "row" => Ok(Self::Row),
            "version" => Ok(Self::Version),
            "mark" => Ok(Self::Mark),
            other => Err(format!("unknown change {other:?}")),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::id::parsed(deserializer)
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        type Raw = (Word, CommitRef, Option<Field>, Option<Field>);
        let (word, slot, from, to): Raw = Deserialize::deserialize(deserializer)?;
        let id = |field: Option<Field>| match field {
            None => Ok(None),
            Some(Field::Id(id)) => Ok(Some(id)),
            Some(Field::Row(_)) => Err(D::Error::custom("expected a commit id, found a row")),
        };
        match word {
            Word::Row => match (from, to) {
                (None, Some(Field::Row(row))) => Ok(Self::Add { slot, row }),
                (Some(Field::Row(row)), None) => Ok(Self::Remove { slot, row }),
                _ => Err(D::Error::custom("a row change adds or removes one row")),
            },
            Word::Version => match (id(from)?, id(to)?) {
                (Some(from), Some(to)) => Ok(Self::Version { slot, from, to }),
                _ => Err(D::Error::custom("a version change names two versions")),
            },
            Word::Mark => Ok(Self::Mark { slot, from: id(from)?, to: id(to)? }),
        }
    }
}

/// The changes of a commit: inline, or in a blob if there are many.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Changes {
    /// Up to [`MAX_INLINE_CHANGES`](super::MAX_INLINE_CHANGES) changes.
    List(Vec<Change>),
    /// The blob with the changes: a canonical JSON list.
    Blob(BlobId),
}

impl Default for Changes {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Changes {
    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::List(list) if list.is_empty())
    }

    /// Returns the canonical text of a changes blob.
    pub fn to_blob(changes: &[Change]) -> String {
        let mut out = Vec::with_capacity(changes.len() * 200 + 2);
        super::canonical::changes(&mut out, changes);
        String::from_utf8(out).expect("words, digits and brackets are ASCII")
    }

    /// Parses a changes blob. Its text must be canonical, with at most
    /// [`MAX_CHANGES`](super::MAX_CHANGES) changes.
    ///
    /// # Errors
    /// [`RecordError`](super::RecordError) if the blob is not such a list.
    pub fn from_blob(blob: &[u8]) -> Result<Vec<Change>, super::RecordError> {
        let refused = |what: String| super::RecordError::Malformed { what };
        let list: Vec<Change> = serde_json::from_slice(blob)
            .map_err(|error| refused(format!("the list of changes: {error}")))?;
        if list.len() > super::MAX_CHANGES {
            return Err(refused(format!(
                "too many changes: {} (limit {})",
                list.len(),
                super::MAX_CHANGES
            )));
        }
        if Self::to_blob(&list).as_bytes() == blob {
            Ok(list)
        } else {
            Err(refused("a list of changes that is not canonical".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Change>, String> {
        Changes::from_blob(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_kind_of_change_is_read_as_it_was_written() {
        let id = CommitRef::Id(CommitId::from_bytes([0xab; 32]));
        let answers = Some(CallRef { slot: CommitId::from_bytes([7; 32]), index: 3 });
        let plain = RowFields { key: 0, version: CommitRef::This, mark: None, answers: None };
        let full = RowFields { key: u64::MAX, version: id, mark: Some(id), answers };
        let changes = [
            Change::Add { slot: CommitRef::This, row: plain },
            Change::Remove { slot: id, row: full },
            Change::Version { slot: id, from: id, to: CommitRef::This },
            Change::Mark { slot: id, from: None, to: Some(id) },
            Change::Mark { slot: id, from: Some(CommitRef::This), to: None },
        ];
        assert_eq!(read(&Changes::to_blob(&changes)).as_deref(), Ok(&changes[..]));
    }

    #[test]
    fn an_invalid_change_is_refused() {
        let row = r#"[0,".",null,null]"#;
        let id = "ab".repeat(32);
        for (change, why) in [
            (format!(r#"["rows",".",null,{row}]"#), "unknown change"),
            (format!(r#"[{{"row":null}},".",null,{row}]"#), "expected a string"),
            (r#"["row",".",null,null]"#.to_owned(), "adds or removes one row"),
            (format!(r#"["row",".",{row},{row}]"#), "adds or removes one row"),
            (format!(r#"["row",".",null,"{id}"]"#), "adds or removes one row"),
            (r#"["row",".",null,[0,".",null,null,null]]"#.to_owned(), "trailing"),
            (r#"["row",".",null,[0,".",null]]"#.to_owned(), "invalid length"),
            (format!(r#"["row","{}",null,{row}]"#, id.to_uppercase()), "hex digits"),
            (format!(r#"["version",".",{row},"{id}"]"#), "found a row"),
            (format!(r#"["version",".","{id}",null]"#), "names two versions"),
            (format!(r#"["mark",".",null,{row}]"#), "found a row"),
            (r#"["mark",".",null,7]"#.to_owned(), "a row or a commit id"),
            (format!(r#"["mark",".",null,"{id}",null]"#), "trailing"),
            (format!(r#"["mark",".",null, "{id}"]"#), "not canonical"),
        ] {
            let refused = read(&format!("[{change}]")).expect_err(&change);
            assert!(refused.contains(why), "{change}: {refused}");
        }
    }
}
