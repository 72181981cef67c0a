//! Errors of folding and compiling a head.

use tract_core::json::JsonError;
use tract_core::{BlobId, CommitId, ContentError, ObjectId, RecordError, StoreError, ToolId};

use crate::fold::InvalidChange;

/// The result of this crate's calls that read a store.
pub type Result<T, E = CompileError> = std::result::Result<T, E>;

/// A head that cannot be folded or compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A commit changes a row that its parent's view does not have in that form.
    #[error(transparent)]
    Change(#[from] InvalidChange),
    /// A list of changes that is stored as a blob cannot be read.
    #[error("changes of commit {commit}: {source}")]
    Changes {
        /// The commit.
        commit: CommitId,
        /// The decoding error.
        source: RecordError,
    },
    /// An object that a commit links to is not stored.
    #[error("{object} is not stored, but commit {commit} needs it")]
    Missing {
        /// The missing object.
        object: ObjectId,
        /// The commit that links to it.
        commit: CommitId,
    },
    /// A tool set or one of its schemas is not stored.
    #[error("{object} is not stored, but it is part of the tools in force")]
    MissingTool {
        /// The missing object.
        object: ObjectId,
    },
    /// A row shows a commit without content or without a kind.
    #[error("message {slot} shows commit {version}, which has no content to show")]
    NoContent {
        /// The message.
        slot: CommitId,
        /// The commit that it shows.
        version: CommitId,
    },
    /// A content blob does not match its kind.
    #[error("content {blob} of commit {commit}: {source}")]
    Content {
        /// The commit.
        commit: CommitId,
        /// The blob.
        blob: BlobId,
        /// The parsing error.
        source: ContentError,
    },
    /// A tool schema is not a JSON object.
    #[error("schema of tool {tool}: {source}")]
    Schema {
        /// The tool.
        tool: ToolId,
        /// The parsing error.
        source: JsonError,
    },
    /// A commit does not continue the given history.
    #[error(
        "commit {commit} does not continue the line: expected parent {expected}, found {found}"
    )]
    NotNext {
        /// The commit.
        commit: CommitId,
        /// The head of the line, or `none`.
        expected: String,
        /// The commit's first parent, or `none`.
        found: String,
    },
}

impl CompileError {
    /// Returns the error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind.code(),
            Self::Change(_) => "invalid_change",
            Self::Changes { .. } => "invalid_record",
            Self::Missing { .. } | Self::MissingTool { .. } => "missing_object",
            Self::NoContent { .. } => "no_content",
            Self::Content { .. } => "invalid_content",
            Self::Schema { .. } => "invalid_schema",
            Self::NotNext { .. } => "not_next",
        }
    }

    /// Returns hints on how to fix the error, if there are any.
    pub fn notes(&self) -> Vec<String> {
        let note = match self {
            Self::Store(error) => return error.notes(),
            Self::Change(InvalidChange { commit, .. }) | Self::Changes { commit, .. } => {
                format!("the commits before {} are sound: branch from its parent", commit.short())
            }
            Self::Missing { .. } | Self::MissingTool { .. } => {
                "`tract verify` lists all missing objects, and `tract verify --repair --from STORE` \
                 brings them from a copy or a bundle"
                    .to_owned()
            }
            Self::NoContent { slot, .. } => {
                format!("set message {} to skip, or revert what shows it", slot.short())
            }
            Self::Content { commit, .. } => {
                format!("set the message of commit {} to skip, or edit it", commit.short())
            }
            Self::Schema { .. } => "set the tools again".to_owned(),
            Self::NotNext { .. } => "read the line of the commit's own parent".to_owned(),
        };
        vec![note]
    }
}
