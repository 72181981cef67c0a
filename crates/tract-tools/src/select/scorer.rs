//! The interface to scorers, which rate how well tools fit an input.

use std::sync::Arc;

use tract_core::Clock;

use super::entry::CatalogEntry;

/// The time limit of a selection.
#[derive(Clone)]
pub struct SelectionDeadline {
    clock: Arc<dyn Clock>,
    deadline_us: Option<i64>,
}

/// The error of a selection that exceeds its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the selection ran out of time")]
pub struct OutOfTime;

impl SelectionDeadline {
    /// Creates a deadline in microseconds since 1970 UTC by this clock, or none.
    pub fn new(clock: Arc<dyn Clock>, deadline_us: Option<i64>) -> Self {
        Self { clock, deadline_us }
    }

    /// Checks that the deadline has not passed. Scorers call it from time to time.
    ///
    /// # Errors
    /// [`OutOfTime`].
    pub fn check(&self) -> Result<(), OutOfTime> {
        match self.deadline_us {
            Some(deadline) if self.clock.now_us() >= deadline => Err(OutOfTime),
            _ => Ok(()),
        }
    }
}

/// A match of one word of the input in a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct WordMatch {
    /// The word in the form that the scorer compares.
    pub word: String,
    /// Its contribution, in the unit of the scorer.
    pub weight: f64,
}

impl WordMatch {
    /// Creates a match of a word.
    pub fn new(word: impl Into<String>, weight: f64) -> Self {
        Self { word: word.into(), weight }
    }
}

/// The score of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// The score, from 0 (no match) to 1.
    pub value: f64,
    /// The matches, by descending weight.
    pub matches: Vec<WordMatch>,
}

impl Score {
    /// Creates a score. The value is clamped to 0 to 1, and NaN becomes 0.
    pub fn new(value: f64, mut matches: Vec<WordMatch>) -> Self {
        let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
        matches.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.word.cmp(&b.word)));
        Self { value, matches }
    }
}

/// Rates how well tools fit an input.
///
/// # Behavior
/// - Returns one score per tool, in the order of the tools.
/// - The same input and tools give the same scores.
/// - Calls [`SelectionDeadline::check`] from time to time, and returns when it fails. Otherwise the
///   deadline is checked only once the scorer is done.
pub trait Scorer: Send + Sync {
    /// Returns the name in the provenance of its scores.
    fn name(&self) -> &str;

    /// Scores tools.
    ///
    /// # Errors
    /// [`OutOfTime`] if the deadline passed before all tools were scored.
    fn score(
        &self,
        input: &str,
        tools: &[&CatalogEntry],
        until: &SelectionDeadline,
    ) -> Result<Vec<Score>, OutOfTime>;
}
