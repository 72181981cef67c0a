//! The commit: an immutable record of a requested operation and its changes.

mod canonical;
mod change;
mod codec;
mod record;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

pub use self::change::{CallRef, Change, Changes, CommitRef, RowFields};
pub use self::record::{
    AuthorKind, CommitRecord, MAX_CHANGES, MAX_INLINE_CHANGES, MAX_PARENTS, Op, Origin,
    RECORD_VERSION, RecordError,
};
use crate::id::CommitId;

/// A sealed commit: a record with its id. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Commit {
    id: CommitId,
    record: Arc<CommitRecord>,
}

impl Commit {
    /// Seals a record: computes its id.
    ///
    /// ```
    /// use tract_core::{AuthorKind, Commit, CommitRecord, Op};
    /// let commit = Commit::seal(CommitRecord::new(Op::Note, AuthorKind::User))?;
    /// assert_eq!(Commit::decode(commit.id(), &commit.encode())?, commit);
    /// # Ok::<(), tract_core::RecordError>(())
    /// ```
    ///
    /// # Errors
    /// [`RecordError`] if the record exceeds a limit or breaks a rule of the format.
    pub fn seal(record: impl Into<Arc<CommitRecord>>) -> Result<Self, RecordError> {
        let record = record.into();
        codec::check(&record)?;
        codec::check_nesting(&record)?;
        let id = canonical::id(&record);
        Ok(Self { id, record })
    }

    /// Returns the compact stored form.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(&self.record, 256)
    }

    /// Decodes stored bytes and checks that they hash to `id`.
    ///
    /// # Errors
    /// [`RecordError`] if [`encode`](Self::encode) could not have written the bytes, or if they
    /// hash to another id.
    pub fn decode(id: CommitId, bytes: &[u8]) -> Result<Self, RecordError> {
        let record = codec::decode(bytes)?;
        let found = canonical::id(&record);
        if found == id {
            Ok(Self { id, record })
        } else {
            Err(RecordError::OtherId { expected: id, found })
        }
    }

    /// Decodes stored bytes of an unknown id.
    ///
    /// # Errors
    /// [`RecordError`] if [`encode`](Self::encode) could not have written the bytes.
    pub fn decode_any(bytes: &[u8]) -> Result<Self, RecordError> {
        let record = codec::decode(bytes)?;
        let id = canonical::id(&record);
        Ok(Self { id, record })
    }

    /// Parses the canonical text of a record, as `export` writes it.
    ///
    /// # Errors
    /// [`RecordError`] if the text is not a record of this version.
    pub fn from_canonical(text: &str) -> Result<Self, RecordError> {
        Self::seal(canonical::parse(text)?)
    }

    /// Returns the id.
    pub fn id(&self) -> CommitId {
        self.id
    }

    /// Returns the record.
    pub fn record(&self) -> &CommitRecord {
        &self.record
    }
}

impl Deref for Commit {
    type Target = CommitRecord;
    fn deref(&self) -> &CommitRecord {
        &self.record
    }
}

/// Writes one line: the short id, the operation, the kind of content, and the commit's own log line
/// if it has one.
///
/// ```
/// use tract_core::{AuthorKind, Commit, CommitRecord, Op};
/// let mut record = CommitRecord::new(Op::Note, AuthorKind::User);
/// record.message = Some("before the trip".to_owned());
/// let commit = Commit::seal(record)?;
/// assert_eq!(commit.to_string(), format!("{} note: before the trip", commit.id().short()));
/// # Ok::<(), tract_core::RecordError>(())
/// ```
impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id.short(), self.op.name())?;
        if let Some(kind) = &self.kind {
            write!(f, " {}", kind.as_str())?;
        }
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commit({} {})", self.id.short(), self.op.name())
    }
}
