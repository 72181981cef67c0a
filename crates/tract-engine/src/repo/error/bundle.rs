//! Errors of bundles.

use tract_core::CommitId;
use tract_core::text::count;

use super::LineError;

/// The reason why a file is not a bundle, or cannot be applied here. No ref was moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The first line is not that of a bundle.
    #[error("it is no bundle: {what}")]
    NotABundle {
        /// The first line as it was found.
        what: String,
    },
    /// A later version of tract wrote the bundle.
    #[error("the bundle has format {version}, and this version reads formats up to {newest}")]
    NewerFormat {
        /// The version of its format.
        version: u64,
        /// The newest format that this version reads.
        newest: u64,
    },
    /// The last line is missing.
    #[error("the bundle is cut: it ends after {} without its closing line", count(*.lines, "line"))]
    Cut {
        /// The number of lines.
        lines: usize,
    },
    /// The contents were modified.
    #[error("the bundle was changed: {what}")]
    Changed {
        /// The difference.
        what: String,
    },
    /// A line is not allowed in a bundle.
    #[error("line {line} of the bundle: {error}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The reason.
        #[source]
        error: Box<LineError>,
    },
    /// A line requests something instead of bringing it.
    #[error("line {line} of the bundle has the operation {op:?}, which no bundle has")]
    ForeignLine {
        /// Its number, from 1.
        line: usize,
        /// The operation.
        op: &'static str,
    },
    /// A commit links to one that is neither on an earlier line nor a prerequisite.
    #[error("line {line} of the bundle links to {}, which no line brings", .commit.short())]
    Incomplete {
        /// Its number, from 1.
        line: usize,
        /// The commit that is missing.
        commit: CommitId,
    },
    /// The repository lacks commits that the bundle continues.
    #[error("the bundle continues {} that are not here, such as {}", count(.missing.len(), "commit"), short(.missing))]
    MissingPrerequisites {
        /// The commits.
        missing: Vec<CommitId>,
    },
    /// The file cannot be read.
    #[error("the bundle cannot be read: {0}")]
    Read(#[source] std::io::Error),
}

fn short(ids: &[CommitId]) -> String {
    ids.first().map(CommitId::short).unwrap_or_default()
}

impl BundleError {
    /// Returns the stable code, which the command line prints as well.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotABundle { .. } => "not_a_bundle",
            Self::NewerFormat { .. } => "newer_format",
            Self::Cut { .. } => "bundle_cut",
            Self::Changed { .. } => "bundle_changed",
            Self::Line { error, .. } => error.code(),
            Self::ForeignLine { .. } | Self::Incomplete { .. } => "bad_bundle",
            Self::MissingPrerequisites { .. } => "missing_prerequisites",
            Self::Read(_) => "unreadable",
        }
    }

    /// Returns hints about what to do; empty if there are no hints.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::NotABundle { .. } => {
                vec!["`tract bundle create FILE` makes one; `tract apply` takes streams".to_owned()]
            }
            Self::NewerFormat { .. } => vec!["update tract, or create the bundle with this version".to_owned()],
            Self::Cut { .. } | Self::Changed { .. } => {
                vec!["nothing of it was taken; copy the file again, or create it again".to_owned()]
            }
            Self::Line { error, .. } => error.notes(),
            Self::ForeignLine { .. } | Self::Incomplete { .. } => {
                vec!["`tract bundle create` makes whole ones".to_owned()]
            }
            Self::MissingPrerequisites { .. } => vec![
                "apply the earlier bundles first, or create this one with an older --since, or without"
                    .to_owned(),
            ],
            Self::Read(_) => Vec::new(),
        }
    }
}
