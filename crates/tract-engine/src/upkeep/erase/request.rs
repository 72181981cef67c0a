//! Erase requests.

use tract_core::{BlobId, CommitId};
use tract_secrets::Scanner;

use crate::repo::error::{Error, Result};

/// Maximum length of a reason in bytes.
const REASON_BYTES: usize = 500;

/// A target of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EraseTarget {
    /// The message that a commit adds or edits: all its versions, their originals, and the
    /// provider's bytes.
    Commit(CommitId),
    /// A stored blob.
    Blob(BlobId),
}

/// The bytes to [`erase`](super::erase), and the reason.
#[derive(Clone, Debug)]
pub struct EraseRequest {
    /// The bytes.
    pub what: EraseWhat,
    /// The reason to record, at most 500 bytes.
    pub reason: String,
    /// Only reports the locations, and erases nothing.
    pub dry_run: bool,
    /// Erases the text in every message that contains or quotes it, instead of only in the named
    /// ones. A request for secrets always applies everywhere.
    pub everywhere: bool,
    /// Refuses to store the erased bytes again, until [`lift_erasure`](super::lift_erasure) is
    /// called.
    pub ban: bool,
}

/// The bytes that an [`EraseRequest`] selects.
#[derive(Clone, Debug)]
pub enum EraseWhat {
    /// Messages, with all their versions, or blobs.
    Targets(Vec<EraseTarget>),
    /// Everything that a scanner finds.
    Secrets(Box<Scanner>),
}

impl EraseRequest {
    /// Creates a request to erase messages, with all their versions, or blobs. A summary that
    /// quotes a whole text of a message gets `[erased: REASON]` in place of that text.
    ///
    /// Bytes that other messages share stay, and the report lists those messages;
    /// [`everywhere`](Self::everywhere) erases them as well.
    pub fn targets(targets: Vec<EraseTarget>, reason: impl Into<String>) -> Self {
        let what = EraseWhat::Targets(targets);
        Self { what, reason: reason.into(), dry_run: false, everywhere: false, ban: false }
    }

    /// Creates a request to redact everything that a scanner finds: the text stays, with a mark in
    /// place of each secret.
    pub fn secrets(scanner: Scanner) -> Self {
        let what = EraseWhat::Secrets(Box::new(scanner));
        let reason = "redacted".to_owned();
        Self { what, reason, dry_run: false, everywhere: true, ban: false }
    }

    pub(super) fn applies_everywhere(&self) -> bool {
        self.everywhere || matches!(self.what, EraseWhat::Secrets(_))
    }

    pub(super) fn verb(&self) -> &'static str {
        match self.what {
            EraseWhat::Targets(_) => "erase",
            EraseWhat::Secrets(_) => "redact",
        }
    }

    /// Returns the named commits.
    pub(super) fn commits(&self) -> Vec<CommitId> {
        let EraseWhat::Targets(targets) = &self.what else { return Vec::new() };
        let commit = |target: &EraseTarget| match target {
            EraseTarget::Commit(id) => Some(*id),
            EraseTarget::Blob(_) => None,
        };
        targets.iter().filter_map(commit).collect()
    }

    pub(super) fn mark(&self) -> String {
        format!("[erased: {}]", self.reason)
    }

    pub(super) fn check(&self) -> Result<()> {
        let bad = |what: &str| Err(Error::BadErase { what: what.to_owned() });
        if self.reason.trim().is_empty() {
            return bad("expected a reason, found none");
        }
        if self.reason.len() > REASON_BYTES {
            let found = self.reason.len();
            return bad(&format!("the reason is too long: {found} bytes (limit {REASON_BYTES})"));
        }
        if !Scanner::builtin().find(&self.reason).is_empty() {
            return bad("the reason has a secret in it, and it would be kept");
        }
        match &self.what {
            EraseWhat::Targets(targets) if targets.is_empty() => bad("expected something to erase"),
            EraseWhat::Secrets(scanner) if !scanner.find(&self.reason).is_empty() => {
                bad("the reason matches the pattern, and it would be kept")
            }
            EraseWhat::Targets(_) | EraseWhat::Secrets(_) => Ok(()),
        }
    }
}
