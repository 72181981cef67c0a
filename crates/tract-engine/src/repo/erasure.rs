//! The document under `erasures/<blob>`.

use serde::{Deserialize, Serialize};
use tract_core::time::format_rfc3339;
use tract_core::{Blob, BlobId, CommitId};

/// The record of an erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Erasure {
    /// The blob that was deleted.
    pub blob: BlobId,
    /// Why.
    pub reason: String,
    /// The user who erased it; empty when not known.
    pub who: String,
    /// When: microseconds since 1970, UTC; 0 when not known.
    pub at_us: i64,
    /// How many bytes it had.
    pub bytes: u64,
    /// The verb that erased it: `erase` or `redact`; empty when not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// The messages that had the blob, by their slots, sorted; the first 1,000. Only these lose
    /// it in a store that the erasure arrives in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<CommitId>,
    /// The content, or the tool definition, that replaced it in those messages; none where nothing
    /// of it was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<BlobId>,
    /// Whether the bytes are refused when they are stored again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ban: bool,
}

impl Erasure {
    pub(crate) fn to_blob(&self) -> Blob {
        let json = serde_json::to_string(self).expect("texts and numbers are JSON");
        Blob::seal(json)
    }

    /// Reads a document. An unreadable document still records that the blob is erased.
    pub(crate) fn read(blob: BlobId, document: &Blob) -> Self {
        serde_json::from_slice(document.bytes()).unwrap_or_else(|_| Self::unknown(blob))
    }

    pub(crate) fn unknown(blob: BlobId) -> Self {
        let (reason, who, verb) = Default::default();
        let messages = Vec::new();
        Self {
            blob,
            reason,
            who,
            at_us: 0,
            bytes: 0,
            verb,
            messages,
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
