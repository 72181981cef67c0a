//! The document of an erasure, under `erasures/<blob>`.

use serde::{Deserialize, Serialize};
use tract_core::time::format_rfc3339;
use tract_core::{Blob, BlobId, CommitId};

/// The most messages that an erasure names.
pub(crate) const MAX_MESSAGES: usize = 1000;

/// The record of an erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The blob that was deleted.
    pub blob: BlobId,
    /// The reason.
    pub reason: String,
    /// The user who erased it; empty if unknown.
    pub who: String,
    /// The time in microseconds since 1970, UTC; 0 if unknown.
    pub at_us: i64,
    /// The size of the blob in bytes.
    pub bytes: u64,
    /// The verb that erased it: `erase` or `redact`; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// The messages with the blob, by their slots, sorted; the first 1,000. These lose it in a store
    /// that receives the erasure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<CommitId>,
    /// The messages that the command named, by their slots, sorted; the first 1,000. A store that
    /// receives the erasure erases all versions of them, and the passages that summaries quote from
    /// them. Empty for a redaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<CommitId>,
    /// The content, or the tool definition, that replaced it in those messages; `None` if nothing
    /// remained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<BlobId>,
    /// Whether storing the same bytes again is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ban: bool,
}

impl Erasure {
    pub(crate) fn to_blob(&self) -> Blob {
        let json = serde_json::to_string(self).expect("texts and numbers are JSON");
        Blob::seal(json)
    }

    /// Parses a document. An unreadable document still records that the blob is erased.
    pub(crate) fn read(blob: BlobId, document: &Blob) -> Self {
        serde_json::from_slice(document.bytes()).unwrap_or_else(|_| Self::unknown(blob))
    }

    pub(crate) fn unknown(blob: BlobId) -> Self {
        let (reason, who, verb) = Default::default();
        let (messages, named) = Default::default();
        Self {
            blob,
            reason,
            who,
            at_us: 0,
            bytes: 0,
            verb,
            messages,
            named,
            replaced_by: None,
            ban: false,
        }
    }
}

impl std::fmt::Display for Erasure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "blob {} was erased", self.blob.short())?;
        if let Some(at) = format_rfc3339(self.at_us).filter(|_| self.at_us != 0) {
            write!(f, " at {at}")?;
        }
        if !self.who.is_empty() {
            write!(f, " by {:?}", self.who)?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        if self.ban {
            write!(f, " (banned)")?;
        }
        Ok(())
    }
}
