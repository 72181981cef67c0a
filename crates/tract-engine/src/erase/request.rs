//! What is asked of an erasure.

use tract_core::{BlobId, CommitId};
use tract_secrets::Scanner;

use crate::error::{Error, Result};

/// The most bytes that a reason may have.
const REASON_BYTES: usize = 500;

/// Something to erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EraseTarget {
    /// What a commit says: its content, and the provider's bytes of it.
    Commit(CommitId),
    /// These stored bytes.
    Blob(BlobId),
}

/// Which bytes [`erase`](super::erase) deletes, and why.
#[derive(Clone, Debug)]
pub struct EraseRequest {
    pub(super) what: EraseWhat,
    pub(super) reason: String,
    pub(super) dry_run: bool,
}

#[derive(Clone, Debug)]
pub(super) enum EraseWhat {
    Targets(Vec<EraseTarget>),
    Secrets(Box<Scanner>),
}

impl EraseRequest {
    /// Asks for what commits say, or stored bytes, to be erased. What quotes a whole text of them
    /// goes as well, and the text becomes `[erased: REASON]`.
    pub fn targets(targets: Vec<EraseTarget>, reason: impl Into<String>) -> Self {
        Self { what: EraseWhat::Targets(targets), reason: reason.into(), dry_run: false }
    }

    /// Asks for everything that a scanner finds to be redacted: the text stays, with a mark in the
    /// place of each secret.
    pub fn secrets(scanner: Scanner) -> Self {
        let what = EraseWhat::Secrets(Box::new(scanner));
        Self { what, reason: "redacted".to_owned(), dry_run: false }
    }

    /// Sets the reason that the erasure records.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Sets whether it only says what it would do.
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
