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
    pub(super) what: EraseWhat,
    pub(super) reason: String,
    pub(super) dry_run: bool,
    pub(super) everywhere: bool,
    pub(super) ban: bool,
}

#[derive(Clone, Debug)]
pub(super) enum EraseWhat {
    Targets(Vec<EraseTarget>),
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

    /// Sets whether the text is erased in every message that contains or quotes it, instead of only
    /// in the named ones. A request for secrets always applies everywhere.
    #[must_use]
    pub fn everywhere(mut self, everywhere: bool) -> Self {
        self.everywhere = everywhere || matches!(self.what, EraseWhat::Secrets(_));
        self
    }

    /// Sets whether storing the erased bytes again is refused, until
    /// [`lift_erasure`](super::lift_erasure) is called.
    #[must_use]
    pub fn ban(mut self, ban: bool) -> Self {
        self.ban = ban;
        self
    }

    /// Sets the reason to record.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Sets whether the locations are only reported, and nothing is erased.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
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
