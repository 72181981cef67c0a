//! Cache entries as they are stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tract_core::{BlobId, CommitId};
use tract_engine::ImportStatus;
use tract_secrets::SecretKind;

use super::Stamp;
use crate::callers::FileCallers;
use crate::report::{
    Anomalies, AnomalyKind, RecordedBranch, RecordingAnomaly, SessionReport, TokenTotals,
};
use crate::tree::BranchStart;

/// The stored result of reading a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    pub(crate) source: String,
    /// Whether secrets were replaced.
    pub(crate) redact: bool,
    pub(crate) stamp: Stamp,
    /// The time it was read, in microseconds since 1970.
    pub(crate) read_at: u64,
    pub(crate) sessions: Vec<StoredSession>,
    /// The calls of subagents in it, and those it was read with.
    pub(crate) callers: FileCallers,
}

impl StoredFile {
    /// Returns the names of its branches before conflicts with other branches are resolved.
    pub(crate) fn branches(&self) -> impl Iterator<Item = &str> {
        let branches = self.sessions.iter().flat_map(|session| &session.branches);
        branches.map(|branch| branch.plain.as_str())
    }
}

/// A conversation of a file, and its branches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredSession {
    pub(crate) branches: Vec<StoredBranch>,
    report: StoredReport,
}

/// A branch and its placement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredBranch {
    /// Its name before conflicts with other branches are resolved.
    pub(crate) plain: String,
    pub(crate) head: CommitId,
    /// The number of its name, from 1.
    pub(crate) attempt: usize,
    /// Branches of other recordings whose names were tried before: numbers and heads.
    pub(crate) rejected: Vec<(usize, CommitId)>,
    /// Its document.
    pub(crate) document: Option<BlobId>,
    start: String,
    commits: usize,
}

impl StoredBranch {
    /// Returns its name for one of the attempts, from 1.
    pub(crate) fn name(&self, attempt: usize) -> String {
        name_of(&self.plain, attempt)
    }

    /// Returns the name that it was placed under.
    pub(crate) fn placed(&self) -> String {
        self.name(self.attempt)
    }
}

/// Returns the name of a branch for one of the attempts to place it, from 1.
pub(crate) fn name_of(plain: &str, attempt: usize) -> String {
    match attempt {
        0 | 1 => plain.to_owned(),
        n => format!("{plain}.{n}"),
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredReport {
    session: String,
    title: Option<String>,
    lines: usize,
    messages: usize,
    pairs: usize,
    compactions: usize,
    hidden: usize,
    edited: usize,
    removed: usize,
    skipped: BTreeMap<String, usize>,
    repeated: usize,
    redacted: BTreeMap<String, usize>,
    models: BTreeMap<String, usize>,
    tokens: [u64; 5],
    anomalies: BTreeMap<String, usize>,
    listed: Vec<(usize, String, String)>,
    channels: Vec<String>,
}

/// A branch that the writer placed.
#[derive(Debug)]
pub(crate) struct PlacedBranch {
    pub(crate) plain: String,
    pub(crate) head: CommitId,
    pub(crate) attempt: usize,
    pub(crate) rejected: Vec<(usize, CommitId)>,
    pub(crate) document: Option<BlobId>,
}

impl StoredSession {
    /// Creates the entry of a conversation; `None` if one of its branches was not placed.
    pub(crate) fn of(report: &SessionReport, placed: Vec<PlacedBranch>) -> Option<Self> {
        let is_placed = |branch: &RecordedBranch| branch.status != ImportStatus::Diverged;
        if placed.len() != report.branches.len() || !report.branches.iter().all(is_placed) {
            return None;
        }
        let branches = placed.into_iter().zip(&report.branches).map(|(placed, branch)| {
            let PlacedBranch { plain, head, attempt, rejected, document } = placed;
            let (start, commits) = (branch.start.as_str().to_owned(), branch.commits);
            StoredBranch { plain, head, attempt, rejected, document, start, commits }
        });
        let TokenTotals { input, output, cache_read, cache_write, cache_write_1h } = report.tokens;
        let Anomalies { counts, listed } = &report.anomalies;
        let listed = listed.iter().map(|RecordingAnomaly { line, kind, what }| {
            (*line, kind.as_str().to_owned(), what.clone())
        });
        let stored = StoredReport {
            session: report.session.clone(),
            title: report.title.clone(),
            lines: report.lines,
            messages: report.messages,
            pairs: report.pairs,
            compactions: report.compactions,
            hidden: report.hidden,
            edited: report.edited,
            removed: report.removed,
            skipped: report.skipped.clone(),
            repeated: report.repeated,
            redacted: report.redacted.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect(),
            models: report.models.clone(),
            tokens: [input, output, cache_read, cache_write, cache_write_1h],
            anomalies: counts.iter().map(|(kind, n)| (kind.as_str().to_owned(), *n)).collect(),
            listed: listed.collect(),
            channels: report.channels.clone(),
        };
        Some(Self { branches: branches.collect(), report: stored })
    }

    /// Returns the report of an import that finds everything unchanged; `None` if a stored word is
    /// unknown.
    pub(crate) fn report(&self) -> Option<SessionReport> {
        let stored = &self.report;
        let branch = |branch: &StoredBranch| {
            Some(RecordedBranch {
                branch: branch.placed(),
                status: ImportStatus::Unchanged,
                commits: branch.commits,
                new: 0,
                start: BranchStart::parse(&branch.start)?,
                moved_from: None,
            })
        };
        let [input, output, cache_read, cache_write, cache_write_1h] = stored.tokens;
        let redacted = stored.redacted.iter();
        let redacted = redacted.map(|(kind, n)| Some((SecretKind::parse(kind)?.as_str(), *n)));
        let counts = stored.anomalies.iter();
        let counts = counts.map(|(kind, n)| Some((AnomalyKind::parse(kind)?, *n)));
        let listed = stored.listed.iter().map(|(line, kind, what)| {
            let (line, kind, what) = (*line, AnomalyKind::parse(kind)?, what.clone());
            Some(RecordingAnomaly { line, kind, what })
        });
        Some(SessionReport {
            session: stored.session.clone(),
            title: stored.title.clone(),
            lines: stored.lines,
            messages: stored.messages,
            pairs: stored.pairs,
            compactions: stored.compactions,
            hidden: stored.hidden,
            edited: stored.edited,
            removed: stored.removed,
            skipped: stored.skipped.clone(),
            repeated: stored.repeated,
            redacted: redacted.collect::<Option<_>>()?,
            models: stored.models.clone(),
            tokens: TokenTotals { input, output, cache_read, cache_write, cache_write_1h },
            anomalies: Anomalies {
                counts: counts.collect::<Option<_>>()?,
                listed: listed.collect::<Option<_>>()?,
            },
            channels: stored.channels.clone(),
            branches: self.branches.iter().map(branch).collect::<Option<_>>()?,
        })
    }
}
