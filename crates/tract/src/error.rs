//! The error type of this crate.

use std::fmt;

use tract_core::json::JsonError;
use tract_core::{BadName, Expect, RefName, RefTarget, StoreError, StoreErrorKind, TooLarge};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of this crate. `Display` is one line; `Debug` adds the notes and the causes, so
/// that `fn main() -> tract::Result<()>` prints a useful report.
///
/// ```
/// let error = tract::block_on(tract::store::open("mysql:agent")).unwrap_err();
/// assert_eq!(error.code(), "no_such_store");
/// assert_eq!(error.to_string(), r#"this build cannot open "mysql:agent""#);
/// assert!(!error.notes().is_empty());
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This build lacks the store engine of a URL.
    #[error("this build cannot open {url:?}")]
    NoSuchStore {
        /// The URL.
        url: String,
        /// The engines of this build, and how to add others.
        note: String,
    },
    /// The store does not contain a repository of this name.
    #[error("no repository {name:?} in this store")]
    NoRepo {
        /// The name.
        name: String,
    },
    /// A ref does not point where the caller expected; nothing was written.
    #[error("{} moved from {} to {}", plain(.name), expected_text(.expected), found_text(.found.as_ref()))]
    Conflict {
        /// The ref.
        name: RefName,
        /// The expected target.
        expected: Expect,
        /// The actual target.
        found: Option<RefTarget>,
    },
    /// A revision does not name a commit.
    #[error("unknown revision {text:?}")]
    UnknownRevision {
        /// The revision as given.
        text: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// A revision starts at a branch that has no commits yet.
    #[error("branch {branch:?} has no commits yet")]
    NoCommits {
        /// The branch.
        branch: String,
        /// The branches that have commits, newest first.
        others: Vec<String>,
    },
    /// Stored data is damaged.
    #[error(transparent)]
    Damaged(StoreError),
    /// The store cannot be used, permanently or at the moment.
    #[error(transparent)]
    Unavailable(StoreError),
    /// The store rejects the call.
    #[error(transparent)]
    Store(StoreError),
    /// The engine rejects the request.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Engine(Box<tract_engine::Error>),
    /// A context cannot be compiled.
    #[cfg(feature = "compile")]
    #[error(transparent)]
    Compile(tract_compile::CompileError),
    /// A context cannot be translated into a provider's form.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Form(#[from] tract_providers::FormError),
    /// A reply cannot be read.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Reply(#[from] tract_providers::ReplyError),
    /// The model did not answer.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Model(Box<tract_core::ModelError>),
    /// An answer broke off. The part that arrived is in the log, but not in the context.
    #[cfg(feature = "engine")]
    #[error("{error}")]
    BrokenOff {
        /// The cause, with the part that arrived.
        #[source]
        error: Box<tract_core::ModelError>,
        /// The note with the part; `None` if it could not be written.
        recorded: Option<tract_core::CommitId>,
    },
    /// The branch moved while the model answered. The answer is not recorded.
    #[cfg(feature = "engine")]
    #[error("the answer came too late: {conflict}")]
    Late {
        /// The answer.
        reply: Box<tract_core::Reply>,
        /// The conflict, with the expected and the actual head.
        conflict: Box<Error>,
    },
    /// A run cannot continue.
    #[cfg(feature = "run")]
    #[error(transparent)]
    Run(Box<tract_run::RunError>),
    /// A file to import does not match its format.
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Import(#[from] tract_providers::ImportError),
    /// An import of another tool's recordings failed as a whole.
    #[cfg(feature = "import")]
    #[error(transparent)]
    Recording(tract_import::Error),
    /// A line of a stream is rejected.
    #[cfg(feature = "engine")]
    #[error("line {line}: {error}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The reason.
        #[source]
        error: Box<tract_engine::LineError>,
    },
    /// A line of a stream is not an operation.
    #[error(transparent)]
    Step(#[from] tract_core::stream::StreamOpError),
    /// A text is not JSON, or JSON without a canonical form.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A value cannot be serialized to JSON.
    #[error(transparent)]
    Serialize(#[from] serde_json::Error),
    /// The content of a commit does not match its kind.
    #[error(transparent)]
    Content(#[from] tract_core::ContentError),
    /// A name is invalid.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// Something exceeds a limit; nothing of it was stored.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The arguments contradict each other.
    #[error("{message}")]
    Invalid {
        /// The expectation and the value that contradicts it.
        message: String,
        /// The advice.
        note: Option<String>,
    },
}

/// Returns the next command for a branch without commits: one that records something, or one that
/// switches to a branch with commits.
fn no_commits_notes(others: &[String]) -> Vec<String> {
    const LISTED: usize = 5;
    if others.is_empty() {
        return vec!["`tract commit user \"Hello\"`, or `tract import FILE`".to_owned()];
    }
    let mut list = others.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = others.len().checked_sub(LISTED) {
        list = format!("{list} and {more} more (`tract branch`)");
    }
    vec![
        format!("branches with commits: {list}"),
        "`tract checkout BRANCH` switches to one".to_owned(),
    ]
}

/// Formats branches and tags by their short names.
fn plain(name: &RefName) -> &str {
    name.branch_name().or_else(|| name.tag_name()).unwrap_or(name.as_str())
}

fn expected_text(expected: &Expect) -> String {
    match expected {
        Expect::Any => "anything".to_owned(),
        Expect::Absent => "nothing".to_owned(),
        Expect::Is(target) => found_text(Some(target)),
    }
}

fn found_text(target: Option<&RefTarget>) -> String {
    match target {
        Some(RefTarget::Commit(id)) => id.short(),
        Some(RefTarget::Blob(id)) => id.short(),
        Some(RefTarget::Ref(name)) => plain(name).to_owned(),
        None => "nothing".to_owned(),
    }
}

impl Error {
    /// Returns the stable code, which the command line prints too.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchStore { .. } => "no_such_store",
            Self::NoRepo { .. } => "no_repo",
            Self::Conflict { .. } => "conflict",
            Self::UnknownRevision { .. } => "unknown_revision",
            Self::NoCommits { .. } => "no_commits",
            Self::Damaged(error) | Self::Unavailable(error) | Self::Store(error) => {
                error.kind.code()
            }
            #[cfg(feature = "engine")]
            Self::Engine(error) => error.code(),
            #[cfg(feature = "compile")]
            Self::Compile(error) => error.code(),
            #[cfg(feature = "engine")]
            Self::Form(error) => match error {
                tract_providers::FormError::UnknownForm { .. } => "unknown_form",
                tract_providers::FormError::Unpaired(_) => "unpaired",
                _ => "damaged",
            },
            #[cfg(feature = "engine")]
            Self::Reply(_) => "bad_reply",
            #[cfg(feature = "engine")]
            Self::Model(error) | Self::BrokenOff { error, .. } => error.code(),
            #[cfg(feature = "engine")]
            Self::Late { .. } => "conflict",
            #[cfg(feature = "run")]
            Self::Run(error) => error.code(),
            #[cfg(feature = "engine")]
            Self::Import(error) => match error {
                tract_providers::ImportError::Json { .. } => "invalid_json",
                tract_providers::ImportError::Unknown { .. } => "unknown_format",
                tract_providers::ImportError::OtherFormat { .. } => "other_format",
                tract_providers::ImportError::NoMessages => "no_messages",
                tract_providers::ImportError::NoAnswer { .. } => "no_answer",
                _ => "bad_recording",
            },
            #[cfg(feature = "import")]
            Self::Recording(error) => error.code(),
            #[cfg(feature = "engine")]
            Self::Line { error, .. } => error.code(),
            Self::Step(error) => error.code(),
            Self::Json(_) => "invalid_json",
            Self::Serialize(_) => "bad_value",
            Self::Content(_) => "bad_content",
            Self::BadName(_) => "bad_name",
            Self::TooLarge(_) => "too_large",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// Returns hints about what to do; empty when there are none.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::NoSuchStore { note, .. } => vec![note.clone()],
            Self::NoRepo { name } => {
                vec![format!(
                    "`tract --repo {name} init` makes it, and so does opening with create(true)"
                )]
            }
            Self::Conflict { expected: Expect::Is(RefTarget::Commit(expected)), .. } => {
                vec![format!(
                    "compile again, or keep the reply: fork(\"late\", \"{}\")",
                    expected.short()
                )]
            }
            Self::Conflict { .. } => vec!["look at what is there now, then try again".to_owned()],
            Self::UnknownRevision { nearest, .. } if nearest.is_empty() => {
                vec![
                    "`tract branch`, `tract tag` and `tract log` list what a revision can name"
                        .to_owned(),
                ]
            }
            Self::UnknownRevision { nearest, .. } => {
                nearest.iter().map(|name| format!("did you mean {name:?}?")).collect()
            }
            Self::NoCommits { others, .. } => no_commits_notes(others),
            Self::Damaged(error) | Self::Unavailable(error) | Self::Store(error) => error.notes(),
            #[cfg(feature = "engine")]
            Self::Engine(error) => error.notes(),
            #[cfg(feature = "compile")]
            Self::Compile(error) => error.notes(),
            #[cfg(feature = "engine")]
            Self::Form(error) => error.notes(),
            #[cfg(feature = "engine")]
            Self::Reply(_) => Vec::new(),
            #[cfg(feature = "engine")]
            Self::Model(error) => error.notes(),
            #[cfg(feature = "engine")]
            Self::BrokenOff { error, recorded } => {
                let came = match recorded {
                    Some(id) => format!("what came is in the log: tract show {}", id.short()),
                    None => "what came could not be recorded".to_owned(),
                };
                let again = "the question is kept; `generate` asks again".to_owned();
                error.notes().into_iter().chain([came, again]).collect()
            }
            #[cfg(feature = "engine")]
            Self::Late { conflict, .. } => conflict.notes(),
            #[cfg(feature = "run")]
            Self::Run(error) => error.notes(),
            #[cfg(feature = "engine")]
            Self::Import(error) => error.notes(),
            #[cfg(feature = "import")]
            Self::Recording(error) => error.notes(),
            Self::Invalid { note, .. } => note.iter().cloned().collect(),
            #[cfg(feature = "engine")]
            Self::Line { error, .. } => error.notes(),
            Self::Step(error) => error.notes(),
            Self::TooLarge(_) => {
                vec!["record a part or a reference; a program may raise its `Limits`".to_owned()]
            }
            Self::Json(_) | Self::Serialize(_) | Self::Content(_) | Self::BadName(_) => Vec::new(),
        }
    }

    /// Returns whether the store failed, rather than the request.
    pub fn is_store_failure(&self) -> bool {
        match self {
            Self::NoSuchStore { .. }
            | Self::NoRepo { .. }
            | Self::Damaged(_)
            | Self::Unavailable(_) => true,
            #[cfg(feature = "engine")]
            Self::Engine(error) => error.is_store_failure(),
            #[cfg(feature = "compile")]
            Self::Compile(_) => true,
            _ => false,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {self}", self.code())?;
        for note in self.notes() {
            write!(f, "\n  note: {note}")?;
        }
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            write!(f, "\n  cause: {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match &error.kind {
            StoreErrorKind::Corrupt { .. } | StoreErrorKind::Missing { .. } => Self::Damaged(error),
            StoreErrorKind::TooLarge
            | StoreErrorKind::Invalid
            | StoreErrorKind::Unsupported
            | StoreErrorKind::Erased { .. } => Self::Store(error),
            _ => Self::Unavailable(error),
        }
    }
}

#[cfg(feature = "compile")]
impl From<tract_compile::CompileError> for Error {
    fn from(error: tract_compile::CompileError) -> Self {
        match error {
            tract_compile::CompileError::Store(error) => error.into(),
            other => Self::Compile(other),
        }
    }
}

#[cfg(feature = "engine")]
impl From<tract_core::ModelError> for Error {
    fn from(error: tract_core::ModelError) -> Self {
        Self::Model(Box::new(error))
    }
}

#[cfg(feature = "engine")]
impl From<tract_engine::Error> for Error {
    fn from(error: tract_engine::Error) -> Self {
        match error {
            tract_engine::Error::Conflict { name, expected, found } => {
                Self::Conflict { name, expected, found }
            }
            tract_engine::Error::UnknownRevision { text, nearest } => {
                Self::UnknownRevision { text, nearest }
            }
            tract_engine::Error::Store(error) => error.into(),
            tract_engine::Error::Compile(error) => error.into(),
            tract_engine::Error::Step(error) => Self::Step(error),
            tract_engine::Error::Json(error) => Self::Json(error),
            tract_engine::Error::Content(error) => Self::Content(error),
            tract_engine::Error::BadName(error) => Self::BadName(error),
            tract_engine::Error::TooLarge(error) => Self::TooLarge(error),
            other => Self::Engine(Box::new(other)),
        }
    }
}

#[cfg(feature = "engine")]
impl From<tract_engine::ChatError> for Error {
    fn from(error: tract_engine::ChatError) -> Self {
        use tract_engine::ChatError;
        match error {
            ChatError::Engine(error) => error.into(),
            ChatError::Serialize(error) => error.into(),
            ChatError::Model(error) => Self::Model(error),
            ChatError::BrokenOff { error, recorded } => Self::BrokenOff { error, recorded },
            ChatError::Late { reply, conflict } => {
                Self::Late { reply, conflict: Box::new((*conflict).into()) }
            }
            error => Self::Invalid {
                message: error.to_string(),
                note: Some("record a message, or ask with `chat`".to_owned()),
            },
        }
    }
}

#[cfg(feature = "tools")]
impl From<tract_tools::pin::PinDocumentError> for Error {
    fn from(error: tract_tools::pin::PinDocumentError) -> Self {
        Self::Invalid { message: error.to_string(), note: Some(error.note().to_owned()) }
    }
}

#[cfg(feature = "import")]
impl From<tract_import::Error> for Error {
    fn from(error: tract_import::Error) -> Self {
        match error {
            tract_import::Error::Engine(error) => error.into(),
            other => Self::Recording(other),
        }
    }
}

#[cfg(feature = "run")]
impl From<tract_run::RunError> for Error {
    fn from(error: tract_run::RunError) -> Self {
        use tract_core::ModelError;
        match error {
            tract_run::RunError::Engine(error) => error.into(),
            tract_run::RunError::Model {
                error: error @ ModelError::BrokenOff { .. },
                recorded,
            } => Self::BrokenOff { error: Box::new(error), recorded },
            tract_run::RunError::Model { error, .. } => error.into(),
            other => Self::Run(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_reads_like_a_report() {
        let cause = std::io::Error::other("disk I/O error");
        let error: Error = StoreError::new(StoreErrorKind::Busy, "sqlite", "apply", "locked")
            .with_source(cause)
            .into();
        assert_eq!(
            format!("{error:?}"),
            "[busy] sqlite: apply: locked\n  note: another process is writing; try again when it \
             is done\n  cause: disk I/O error"
        );
        assert!(error.is_store_failure());
    }

    #[test]
    fn a_conflict_names_the_branch_and_both_commits() {
        let [old, new] = [1, 2].map(|n| tract_core::CommitId::from_bytes([n; 32]));
        let error = Error::Conflict {
            name: RefName::branch("main").expect("a good name"),
            expected: Expect::Is(RefTarget::Commit(old)),
            found: Some(RefTarget::Commit(new)),
        };
        assert_eq!(error.to_string(), "main moved from 01010101 to 02020202");
        assert!(error.notes()[0].contains("fork(\"late\", \"01010101\")"));
    }
}
