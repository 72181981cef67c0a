//! Reports of imports.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tract_core::Usage;
use tract_engine::ImportStatus;

use crate::tree::BranchStart;

/// An anomaly of a recording. All readable data is imported regardless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnomalyKind {
    /// The file ends in the middle of a line.
    TornLine,
    /// A line is not a JSON object of the expected format.
    UnreadableLine,
    /// Characters of a line that cannot be stored, such as half an emoji or bytes that are not UTF-8,
    /// were replaced.
    ReplacedText,
    /// A line is not one record; the intact records in it are read.
    DamagedLine,
    /// A line is longer than any message may be.
    LineTooLong,
    /// A message has content in an unknown format.
    UnreadableMessage,
    /// A line names a parent that does not precede it in the file; it continues its session.
    MissingParent,
    /// A message after the first one has no parent; it starts a branch.
    SecondRoot,
    /// A message occurs twice under one parent with the same time; the first one counts.
    Replayed,
    /// A result names a call that does not precede it.
    NoCall,
    /// A result names a call that already has one.
    SecondResult,
    /// A call has no result.
    Unanswered,
    /// A line without a readable time.
    NoTime,
    /// A summary hides no message; it is imported as a message.
    EmptyCompaction,
    /// A message breaks a limit; it is left out.
    TooLarge,
    /// The call of a subagent is not in the session.
    UnknownCaller,
    /// A branch of this name has other commits; the recording gets a branch next to it.
    Diverged,
}

impl AnomalyKind {
    /// Returns the stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TornLine => "torn_line",
            Self::UnreadableLine => "unreadable_line",
            Self::ReplacedText => "replaced_text",
            Self::DamagedLine => "damaged_line",
            Self::LineTooLong => "line_too_long",
            Self::UnreadableMessage => "unreadable_message",
            Self::MissingParent => "missing_parent",
            Self::SecondRoot => "second_root",
            Self::Replayed => "replayed",
            Self::NoCall => "no_call",
            Self::SecondResult => "second_result",
            Self::Unanswered => "unanswered",
            Self::NoTime => "no_time",
            Self::EmptyCompaction => "empty_compaction",
            Self::TooLarge => "too_large",
            Self::UnknownCaller => "unknown_caller",
            Self::Diverged => "diverged",
        }
    }

    /// Parses the stable code.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        use serde::de::IntoDeserializer as _;
        use serde::de::value::{Error, StrDeserializer};

        let word: StrDeserializer<'_, Error> = word.into_deserializer();
        Self::deserialize(word).ok()
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One anomaly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordingAnomaly {
    /// The line of the file, from 1.
    pub line: usize,
    /// Its kind.
    pub kind: AnomalyKind,
    /// A description that never quotes a message.
    pub what: String,
}

/// Maximum number of anomalies of a file that are listed; the others are counted.
const LISTED: usize = 200;

/// The anomalies of a file: all are counted, and the first ones listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// The number of each kind.
    pub counts: BTreeMap<AnomalyKind, usize>,
    /// The first ones.
    pub listed: Vec<RecordingAnomaly>,
}

impl Anomalies {
    pub(crate) fn add(&mut self, line: usize, kind: AnomalyKind, what: impl Into<String>) {
        *self.counts.entry(kind).or_default() += 1;
        if self.listed.len() < LISTED {
            self.listed.push(RecordingAnomaly { line, kind, what: what.into() });
        }
    }

    /// Returns the number of anomalies.
    pub fn count(&self) -> usize {
        self.counts.values().sum()
    }
}

/// Tokens of a model's messages, each message counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenTotals {
    /// Tokens of requests that were not read from a cache.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
    /// Tokens read from a prompt cache.
    pub cache_read: u64,
    /// Tokens written to a prompt cache.
    pub cache_write: u64,
    /// Tokens of `cache_write` that were written for an hour; the others are for five minutes.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TokenTotals {
    /// Returns the tokens of an answer whose request tokens include those read from a cache.
    pub(crate) fn of_answer(
        request: Option<u64>,
        cached: Option<u64>,
        output: Option<u64>,
    ) -> Self {
        let request = request.unwrap_or_default();
        let cache_read = cached.unwrap_or_default().min(request);
        let (input, output) = (request - cache_read, output.unwrap_or_default());
        Self { input, output, cache_read, ..Self::default() }
    }

    /// Returns the tokens of a provider's answer.
    pub(crate) fn of_usage(usage: Usage) -> Self {
        let all = Self::of_answer(usage.input_tokens, usage.cached_tokens, usage.output_tokens);
        let cache_write = usage.cache_write_tokens.unwrap_or_default().min(all.input);
        Self {
            input: all.input - cache_write,
            cache_write,
            cache_write_1h: usage.cache_write_1h_tokens.unwrap_or_default().min(cache_write),
            ..all
        }
    }

    /// Adds other totals.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
    }
}

/// The result for one branch of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedBranch {
    /// Its name.
    pub branch: String,
    /// The outcome of the import.
    pub status: ImportStatus,
    /// Commits that lead to its head.
    pub commits: usize,
    /// Number of these commits that are new to the store.
    pub new: usize,
    /// The start of the branch.
    pub start: BranchStart,
    /// The branch that keeps the messages it moved away from.
    pub moved_from: Option<String>,
}

/// The contents of one file, and the result of its import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// The session's name in the recording.
    pub session: String,
    /// The title that the tool gave it.
    pub title: Option<String>,
    /// Lines of the file that are not blank.
    pub lines: usize,
    /// Messages: texts, calls and results; each is a commit.
    pub messages: usize,
    /// Results that answer a call of the file.
    pub pairs: usize,
    /// Summaries that replaced messages.
    pub compactions: usize,
    /// Messages that these summaries hide.
    pub hidden: usize,
    /// Messages that were edited later.
    pub edited: usize,
    /// Messages that the tool removed. They are skipped, and stay in the log.
    pub removed: usize,
    /// Lines that no model saw, by type.
    pub skipped: BTreeMap<String, usize>,
    /// Lines that an earlier line repeats under the same id.
    pub repeated: usize,
    /// Secrets that were replaced, by kind.
    pub redacted: BTreeMap<&'static str, usize>,
    /// Answers of each model, each counted once.
    pub models: BTreeMap<String, usize>,
    /// Tokens, each answer counted once.
    pub tokens: TokenTotals,
    /// Its anomalies.
    pub anomalies: Anomalies,
    /// The channels of a LangGraph thread without messages.
    pub channels: Vec<String>,
    /// Its branches, the conversation first. Empty without messages.
    pub branches: Vec<RecordedBranch>,
}

impl SessionReport {
    /// Adds the writer's counts.
    pub(crate) fn absorb(&mut self, written: Self) {
        self.messages += written.messages;
        self.compactions += written.compactions;
        self.hidden += written.hidden;
        for (kind, count) in written.redacted {
            *self.redacted.entry(kind).or_default() += count;
        }
        for anomaly in written.anomalies.listed {
            self.anomalies.add(anomaly.line, anomaly.kind, anomaly.what);
        }
    }
}
