//! The error type of the engine.

mod bundle;
pub(crate) mod gone;
mod line;
mod pending;
mod undo;

use tract_compile::{BadShape, CompileError};
use tract_core::json::JsonError;
use tract_core::store::Damage;
use tract_core::stream::StreamOpError;
use tract_core::text::count;
use tract_core::{
    BadName, CommitId, Conflict, ContentError, Expect, ObjectId, RecordError, RefName, RefTarget,
    StoreError, StoreErrorKind, TooLarge, ToolNameError,
};

use tract_hooks::{HookError, SummaryError};

pub use self::bundle::BundleError;
pub use self::line::LineError;
pub use self::pending::{DeferredOperation, Rejected};
pub use self::undo::UndoConflict;
use crate::plan::{MergeConflict, Refusal, ResolutionKind};
use crate::repo::erasure::Erasure;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of this crate. Unless a variant's documentation differs, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A planner refuses the request.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// A ref does not have the expected target, or kept moving during the retries of this write.
    #[error("{} moved: expected {}, found {}", .name.describe(), expected_text(.expected), found_text(.found.as_ref()))]
    Conflict {
        /// The ref.
        name: RefName,
        /// The expected target.
        expected: Expect,
        /// Its target.
        found: Option<RefTarget>,
    },
    /// A revision does not name anything.
    #[error("unknown revision {text:?}")]
    UnknownRevision {
        /// The revision as it was given.
        text: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// An id prefix matches several commits.
    #[error("ambiguous revision {text:?}: {} start with it", count(.ids.len(), "commit"))]
    Ambiguous {
        /// The revision as it was given.
        text: String,
        /// The commits, at most 20.
        ids: Vec<CommitId>,
    },
    /// A revision with bad syntax, or one that goes beyond the history.
    #[error("bad revision {text:?}: {what}")]
    BadRevision {
        /// The revision as it was given.
        text: String,
        /// The problem.
        what: String,
    },
    /// A pattern that is not a valid regular expression, or too large.
    #[error("bad pattern {text:?}: {what}")]
    BadPattern {
        /// The pattern as it was given.
        text: String,
        /// The problem.
        what: String,
    },
    /// A commit is not part of a history.
    #[error("commit {} is not in the history of {}", .commit.short(), .head.short())]
    NotOnLine {
        /// The commit.
        commit: CommitId,
        /// The head of the history.
        head: CommitId,
    },
    /// The branch does not exist.
    #[error("unknown branch {name:?}")]
    UnknownBranch {
        /// The name.
        name: String,
        /// Similar branches.
        nearest: Vec<String>,
    },
    /// A branch or tag of this name already exists.
    #[error("{} already exists at {}", .name.describe(), found_text(Some(.at)))]
    Exists {
        /// The ref.
        name: RefName,
        /// Its target.
        at: RefTarget,
    },
    /// The tag does not exist.
    #[error("unknown tag {name:?}")]
    UnknownTag {
        /// The name.
        name: String,
        /// Similar tags.
        nearest: Vec<String>,
    },
    /// The branch cannot be renamed: pending approvals name it.
    #[error("branch {name:?} has pending approvals: {count}")]
    HasPending {
        /// The branch.
        name: String,
        /// The number of pending approvals.
        count: usize,
    },
    /// The branch cannot be deleted: `HEAD` points to it.
    #[error("branch {name:?} is checked out")]
    CheckedOut {
        /// The name.
        name: String,
    },
    /// The ref has no operation to undo or redo.
    #[error("nothing to {what} on {}", .name.branch_name().unwrap_or(.name.as_str()))]
    NothingToUndo {
        /// `undo` or `redo`.
        what: &'static str,
        /// The ref.
        name: RefName,
    },
    /// The remote does not exist; or no name was given, and there is not exactly one remote.
    #[error("{}", unknown_remote(.name.as_deref(), .known))]
    UnknownRemote {
        /// The name, if one was given.
        name: Option<String>,
        /// A similar remote.
        nearest: Option<String>,
        /// The existing remotes.
        known: Vec<String>,
    },
    /// A remote of this name already exists.
    #[error("remote {name:?} already exists")]
    RemoteExists {
        /// The name.
        name: String,
    },
    /// The file is not a bundle, or this bundle cannot be applied here.
    #[error("{0}")]
    Bundle(#[from] BundleError),
    /// An operation cannot be undone or redone, since a ref that it moved was moved since.
    #[error("{0}")]
    MovedSince(Box<UndoConflict>),
    /// A hook refuses, or asks for an action that is not possible here.
    #[error("{0}")]
    Hook(#[from] HookError),
    /// A handler rejected the operation. Only that decision was written.
    #[error("handler {:?} rejected {}: {}", .0.handler, .0.event, .0.reason)]
    Rejected(Box<Rejected>),
    /// A handler deferred the operation. It is a pending approval, and nothing was committed.
    #[error("pending approval {}: handler {:?} asks for a decision: {}", .0.id, .0.handler, .0.reason)]
    Deferred(Box<DeferredOperation>),
    /// The pending approval does not exist.
    #[error("no pending approval {id:?}")]
    UnknownPending {
        /// The given name.
        id: String,
        /// The names of the pending approvals.
        waiting: Vec<String>,
    },
    /// The operation was already decided.
    #[error("{id} was decided already: {action}")]
    AlreadyDecided {
        /// Its name.
        id: String,
        /// The decision.
        action: String,
        /// The time of the decision, in microseconds since 1970, UTC.
        at_us: i64,
    },
    /// The pending or decided operation is not a merge.
    #[error("{id} is not a merge")]
    NotMerge {
        /// Its name.
        id: String,
    },
    /// Another caller resolved a conflict of a kept merge in a different way during this decision.
    #[error("{id}: {conflict} was resolved meanwhile: {resolution}")]
    DecidedMeanwhile {
        /// The name of the merge.
        id: String,
        /// The conflict.
        conflict: Box<MergeConflict>,
        /// Its resolution.
        resolution: ResolutionKind,
    },
    /// The pending operation has no text that could be replaced.
    #[error("it has no text to replace")]
    NoText,
    /// The commit is neither a tool result nor a message with answered calls in this history.
    #[error("commit {} is not a tool result of this history", .commit.short())]
    NoToolResult {
        /// The commit.
        commit: CommitId,
    },
    /// No usable summary could be made.
    #[error("{0}")]
    Summary(#[from] SummaryError),
    /// Something exceeds a limit.
    #[error("{0}")]
    TooLarge(#[from] TooLarge),
    /// A tool has a name that models cannot use, or one that is taken.
    #[error("{0}")]
    ToolName(#[from] ToolNameError),
    /// A name breaks the naming rules.
    #[error("{0}")]
    BadName(#[from] BadName),
    /// A text cannot be the title of a branch.
    #[error("not a title: {why}")]
    BadTitle {
        /// The reason.
        why: String,
    },
    /// A record breaks a limit or a rule of the format.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// A commit changes something that its operation must not change.
    #[error("{0}")]
    Shape(#[from] BadShape),
    /// A content blob does not fit its kind.
    #[error("{0}")]
    Content(#[from] ContentError),
    /// A text is not JSON, or has no canonical form.
    #[error("{0}")]
    Json(#[from] JsonError),
    /// An object that the repository needs is not in the store.
    #[error("{0} is not stored")]
    Missing(ObjectId),
    /// An object that was named, or that the ref log names, is not stored. The store is healthy.
    #[error(
        "{} {} is not stored: it was deleted by gc, or never stored here",
        .object.kind(), .object.short()
    )]
    Collected {
        /// The object.
        object: ObjectId,
    },
    /// The object was erased.
    #[error("{0}")]
    Erased(Box<Erasure>),
    /// The erasure is not possible.
    #[error("cannot erase: {what}")]
    BadErase {
        /// The reason.
        what: String,
    },
    /// The object or document is damaged.
    #[error("{}{what}", damaged_text(.object))]
    Damaged {
        /// The object, if it is one.
        object: Option<ObjectId>,
        /// The damage.
        what: String,
    },
    /// Refs kept moving during all retries of a write.
    #[error("refs kept moving: the write lost {}", count(*.attempts, "race"))]
    KeptMoving {
        /// The number of tries.
        attempts: usize,
    },
    /// A line of a stream is not a stream operation.
    #[error("{0}")]
    Step(#[from] StreamOpError),
    /// A history could not be folded, or a context not compiled.
    #[error("{0}")]
    Compile(#[from] CompileError),
    /// A failure of the store.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The operating system cannot provide randomness.
    #[error("no randomness from the operating system: {0}")]
    Random(#[source] std::io::Error),
}

fn unknown_remote(name: Option<&str>, known: &[String]) -> String {
    match (name, known) {
        (Some(name), _) => format!("unknown remote {name:?}"),
        (None, []) => "this repository has no remote".to_owned(),
        (None, _) => format!("which remote: there are {}", known.join(", ")),
    }
}

fn damaged_text(object: &Option<ObjectId>) -> String {
    object.map_or_else(String::new, |object| format!("{object}: "))
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged { object: damage.object, what: damage.what }
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        let Conflict { name, expected, found } = conflict;
        Self::Conflict { name, expected, found }
    }
}

fn expected_text(expected: &Expect) -> String {
    match expected {
        Expect::Any => "anything".to_owned(),
        Expect::Absent => found_text(None),
        Expect::Is(target) => found_text(Some(target)),
    }
}

fn found_text(target: Option<&RefTarget>) -> String {
    match target {
        Some(RefTarget::Commit(id)) => id.short(),
        Some(RefTarget::Blob(id)) => id.short(),
        Some(RefTarget::Ref(name)) => name.describe(),
        None => "nothing".to_owned(),
    }
}

impl Error {
    /// Returns the stable code, which the command line prints as well.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Conflict { .. } => "conflict",
            Self::UnknownRevision { .. } => "unknown_revision",
            Self::Ambiguous { .. } => "ambiguous_revision",
            Self::BadRevision { .. } => "bad_revision",
            Self::BadPattern { .. } => "bad_pattern",
            Self::UnknownBranch { .. } => "unknown_branch",
            Self::NotOnLine { .. } => "not_on_line",
            Self::Exists { .. } => "exists",
            Self::CheckedOut { .. } => "checked_out",
            Self::UnknownTag { .. } => "unknown_tag",
            Self::HasPending { .. } => "has_pending",
            Self::UnknownRemote { .. } => "unknown_remote",
            Self::RemoteExists { .. } => "remote_exists",
            Self::Bundle(error) => error.code(),
            Self::NothingToUndo { .. } => "nothing_to_undo",
            Self::MovedSince(_) => "conflict",
            Self::Hook(error) => error.code(),
            Self::Rejected(_) => "rejected_by_hook",
            Self::Deferred(_) => "deferred",
            Self::UnknownPending { .. } => "unknown_pending",
            Self::AlreadyDecided { .. } => "already_decided",
            Self::NotMerge { .. } => "not_a_merge",
            Self::DecidedMeanwhile { .. } => "conflict",
            Self::NoText => "no_text",
            Self::NoToolResult { .. } => "no_tool_result",
            Self::Summary(error) => error.code(),
            Self::TooLarge(_) => "too_large",
            Self::ToolName(error) => error.code(),
            Self::BadName(_) | Self::BadTitle { .. } => "bad_name",
            Self::Record(_) => "bad_record",
            Self::Shape(_) => "bad_shape",
            Self::Content(_) => "bad_content",
            Self::Json(_) => "invalid_json",
            Self::Missing(_) => "missing_object",
            Self::Collected { .. } => "collected",
            Self::Erased(_) => "erased",
            Self::BadErase { .. } => "bad_erase",
            Self::Damaged { .. } => "corrupt",
            Self::KeptMoving { .. } => "conflict",
            Self::Step(error) => error.code(),
            Self::Compile(error) => error.code(),
            Self::Store(error) => error.kind.code(),
            Self::Random(_) => "no_randomness",
        }
    }

    /// Returns whether the store failed, rather than the request.
    pub fn is_store_failure(&self) -> bool {
        match self {
            Self::Missing(_) | Self::Shape(_) | Self::Damaged { .. } => true,
            Self::Store(error) | Self::Compile(CompileError::Store(error)) => !matches!(
                error.kind,
                StoreErrorKind::TooLarge
                    | StoreErrorKind::Invalid
                    | StoreErrorKind::Unsupported
                    | StoreErrorKind::Erased { .. }
            ),
            Self::Compile(_) => true,
            _ => false,
        }
    }

    /// Returns hints about what to do; empty if there are no hints.
    pub fn notes(&self) -> Vec<String> {
        let note: String = match self {
            Self::Refused(refusal) => return refusal.notes(),
            Self::Bundle(error) => return error.notes(),
            Self::Step(error) => return error.notes(),
            Self::Hook(error) => return error.notes(),
            Self::Summary(error) => return error.notes(),
            Self::Compile(CompileError::Store(error)) | Self::Store(error)
                if !matches!(error.kind, StoreErrorKind::Missing { .. }) =>
            {
                return error.notes();
            }
            Self::Conflict { .. } => {
                "compile again and answer the new head, or keep the answer on its own branch".into()
            }
            Self::UnknownBranch { nearest, .. } if nearest.is_empty() => {
                "`tract branch` lists the branches".into()
            }
            Self::UnknownTag { nearest, .. } if nearest.is_empty() => {
                "`tract tag` lists the tags".into()
            }
            Self::UnknownRevision { nearest, .. } if nearest.is_empty() => {
                "`tract branch`, `tract tag` and `tract log` list what a revision can name".into()
            }
            Self::UnknownRevision { nearest, .. }
            | Self::UnknownBranch { nearest, .. }
            | Self::UnknownTag { nearest, .. } => {
                return nearest.iter().map(|name| format!("did you mean {name:?}?")).collect();
            }
            Self::UnknownRemote { nearest: Some(name), .. } => format!("did you mean {name:?}?"),
            Self::UnknownRemote { known, .. } if known.is_empty() => {
                "`tract remote add NAME URL` adds one".into()
            }
            Self::UnknownRemote { .. } => "`tract remote list` lists them".into(),
            Self::RemoteExists { .. } => {
                "choose another name, or `tract remote remove` it first".into()
            }
            Self::Ambiguous { ids, .. } => {
                let ids: Vec<String> =
                    ids.iter().map(|id| id.to_hex().chars().take(12).collect()).collect();
                format!("use more digits: {}", ids.join(", "))
            }
            Self::BadRevision { .. } => {
                "a revision is a branch, a tag or an id of 4 digits or more; then ~n, #n, @{n} or \
                 @{time}"
                    .into()
            }
            Self::BadPattern { .. } => "`tract grep -F` searches for plain text".into(),
            Self::NotOnLine { .. } => "`tract log` lists the commits of a history".into(),
            Self::Exists { name, .. } => match name.tag_name() {
                Some(_) => "tags never move; choose another name".into(),
                None => "choose another name, or check that one out".into(),
            },
            Self::CheckedOut { .. } => "check out another branch first".into(),
            Self::HasPending { .. } => "`tract pending` lists them; decide them first".into(),
            Self::KeptMoving { .. } => "try again when fewer writers are active".into(),
            Self::Collected { .. } => {
                return vec![
                    "`tract gc --keep` sets how long commits that only the ref log names are kept"
                        .to_owned(),
                    "a copy, an export or a remote that has it brings it back".to_owned(),
                ];
            }
            Self::Erased(_) => {
                return vec![
                    "the bytes are gone; the branch's head shows what is left".to_owned(),
                    "`tract copy` moves a repository with what was erased in it".to_owned(),
                ];
            }
            Self::Damaged { .. } => {
                "`tract verify` lists all damage, and `tract verify --repair --from STORE` \
                 replaces it from a copy or a bundle"
                    .into()
            }
            Self::MovedSince(moved) => match moved.name.branch_name() {
                Some(branch) => format!(
                    "`tract log {branch}` shows the later commits; `tract revert` reverts single \
                     commits"
                ),
                None => "revert the later commits first".into(),
            },
            Self::Rejected(rejected) => {
                format!("the rejected content is kept: `tract pending show {}`", rejected.decision)
            }
            Self::Deferred(deferred) => {
                format!("`tract pending approve {}`, or reject, edit, summarize", deferred.id)
            }
            Self::UnknownPending { waiting, .. } if waiting.is_empty() => {
                "there are no pending approvals".into()
            }
            Self::UnknownPending { waiting, .. } => format!("pending: {}", waiting.join(", ")),
            Self::AlreadyDecided { id, .. } => {
                format!("`tract pending show {id}` shows who decided, and why")
            }
            Self::NotMerge { id } => format!("`tract pending show {id}` shows what it is"),
            Self::DecidedMeanwhile { id, .. } => {
                format!("`tract merge show {id}` shows the decisions")
            }
            Self::ToolName(error) => error.note().into(),
            Self::NoToolResult { .. } => "`tract turns` lists calls and results".into(),
            Self::NothingToUndo { .. } => {
                "to undo on another branch, first `tract checkout BRANCH`".into()
            }
            Self::Missing(_) | Self::Store(_) => {
                "`tract verify` lists what is missing or damaged".into()
            }
            Self::BadErase { .. } => {
                "`tract cat` lists the messages, and `tract erase --help` what can be erased".into()
            }
            Self::NoText
            | Self::TooLarge(_)
            | Self::BadName(_)
            | Self::BadTitle { .. }
            | Self::Record(_)
            | Self::Shape(_)
            | Self::Compile(_)
            | Self::Content(_)
            | Self::Json(_)
            | Self::Random(_) => return Vec::new(),
        };
        vec![note]
    }
}
