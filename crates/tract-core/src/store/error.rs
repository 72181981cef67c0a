//! Errors of stores.

use crate::object::ObjectId;

/// The result of a store call.
pub type StoreResult<T, E = StoreError> = std::result::Result<T, E>;

/// The kind of failure, independent of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Stored bytes do not match their id or checksum.
    Corrupt {
        /// The object, if known.
        object: Option<ObjectId>,
    },
    /// A batch needs an object that is not stored. Nothing was written.
    Missing {
        /// The object.
        object: ObjectId,
    },
    /// A batch contains or needs an erased blob. Nothing was written.
    Erased {
        /// The blob.
        object: ObjectId,
    },
    /// The store does not exist.
    NoStore,
    /// The file or database is not a store of this engine.
    NotAStore,
    /// The store was written by a later version.
    TooNew {
        /// The format of the store.
        found: u32,
        /// The newest format that this build knows.
        known: u32,
    },
    /// Another process or connection kept the store locked for longer than the timeout.
    Busy,
    /// The store can be read but not written.
    ReadOnly,
    /// The disk is full, or the file must not grow further. An unacknowledged write may or may not
    /// be stored; a handle that cannot tell rejects further writes.
    Full,
    /// The engine cannot be reached, or refused the connection.
    Unavailable,
    /// The connection was lost during a write, whose outcome is unknown.
    Unknown,
    /// An earlier flush failed: nothing written through this handle is known to be durable.
    Poisoned,
    /// A value exceeds a limit of the engine.
    TooLarge,
    /// The call is invalid, such as a batch with two edits of one ref.
    Invalid,
    /// The engine does not support this call.
    Unsupported,
    /// Any other failure of the engine.
    Engine,
}

impl StoreErrorKind {
    /// Returns the stable name of the kind.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::Missing { .. } => "missing_object",
            Self::Erased { .. } => "erased",
            Self::NoStore => "no_store",
            Self::NotAStore => "not_a_store",
            Self::TooNew { .. } => "format_too_new",
            Self::Busy => "busy",
            Self::ReadOnly => "read_only",
            Self::Full => "disk_full",
            Self::Unavailable => "unavailable",
            Self::Unknown => "outcome_unknown",
            Self::Poisoned => "poisoned",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid_call",
            Self::Unsupported => "unsupported",
            Self::Engine => "engine",
        }
    }
}

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[error("{backend}: {op}: {message}")]
pub struct StoreError {
    /// The kind of failure.
    pub kind: StoreErrorKind,
    /// The engine, such as `sqlite`.
    pub backend: &'static str,
    /// The operation, such as `apply`.
    pub op: &'static str,
    /// A description of the failure.
    pub message: String,
    /// The engine's own error.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error without a cause.
    pub fn new(
        kind: StoreErrorKind,
        backend: &'static str,
        op: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, backend, op, message: message.into(), source: None }
    }

    /// Adds the engine's own error.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Creates the error of an object with damaged bytes.
    pub fn corrupt(backend: &'static str, op: &'static str, object: ObjectId) -> Self {
        let message = format!("stored bytes of {object} are damaged");
        Self::new(StoreErrorKind::Corrupt { object: Some(object) }, backend, op, message)
    }

    /// Creates the error of a batch that needs an object which is not stored.
    pub fn missing(backend: &'static str, op: &'static str, object: ObjectId) -> Self {
        let message = format!("{object} is not stored");
        Self::new(StoreErrorKind::Missing { object }, backend, op, message)
    }

    /// Returns advice on how to fix the error, if there is any.
    pub fn notes(&self) -> Vec<String> {
        // The user has no access to a server's files and their permissions.
        let is_server = self.backend == "postgres";
        let note = match &self.kind {
            StoreErrorKind::Busy if is_server => {
                "try again, or give it more time in the url: ?lock_timeout=SECONDS, \
                 ?statement_timeout=SECONDS"
            }
            StoreErrorKind::ReadOnly if is_server => {
                "the role needs USAGE on the schema and SELECT, INSERT, UPDATE and DELETE on its \
                 tables (CREATE on the database to make one); a standby takes no writes"
            }
            StoreErrorKind::Corrupt { object: Some(_) } => {
                "`tract verify` lists the damage, and `tract verify --repair --from STORE` replaces it \
                 from a copy or a bundle"
            }
            StoreErrorKind::Corrupt { object: None } => {
                "`tract verify` lists the damage; `tract copy` brings a copy, and `tract apply` an \
                 export, to a new store"
            }
            StoreErrorKind::Erased { .. } => {
                "it was erased: `tract erase --list` says when and why, and `tract erase --lift` lets \
                 banned bytes be stored again"
            }
            StoreErrorKind::NoStore => "`tract init` creates one",
            StoreErrorKind::NotAStore => "check the path; `tract init` creates a store",
            StoreErrorKind::TooNew { .. } => "open it with a newer tract",
            StoreErrorKind::Busy => "another process is writing; try again when it is done",
            StoreErrorKind::ReadOnly => {
                "check that the file is still there, its permissions and those of its folder"
            }
            StoreErrorKind::Full => "free some space; nothing acknowledged is lost",
            StoreErrorKind::Poisoned => "close the store and open it again",
            StoreErrorKind::Unknown => "apply the same batch again: it happens at most once",
            StoreErrorKind::Missing { .. }
            | StoreErrorKind::Unavailable
            | StoreErrorKind::TooLarge
            | StoreErrorKind::Invalid
            | StoreErrorKind::Unsupported
            | StoreErrorKind::Engine => return Vec::new(),
        };
        vec![note.to_owned()]
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::NotFound => StoreErrorKind::NoStore,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                StoreErrorKind::Full
            }
            _ => StoreErrorKind::Engine,
        };
        Self::new(kind, "file", "io", error.to_string()).with_source(error)
    }
}
