//! The interface to scorers, which say how well a tool fits.

use std::sync::Arc;

use tract_core::Clock;

use super::entry::CatalogEntry;

/// Until when a selection may continue.
#[derive(Clone)]
pub struct SelectionDeadline {
    clock: Arc<dyn Clock>,
    deadline_us: Option<i64>,
}

/// The time of a selection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the selection ran out of time")]
pub struct OutOfTime;

impl SelectionDeadline {
    /// Makes a limit: microseconds since 1970 by this clock, or none.
    pub fn new(clock: Arc<dyn Clock>, deadline_us: Option<i64>) -> Self {
        Self { clock, deadline_us }
    }

    /// Checks that time is left; a scorer asks now and then.
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
    /// The word as the scorer compares it.
    pub word: String,
    /// Its contribution, in the unit of the scorer.
    pub weight: f64,
}

impl WordMatch {
    /// Says that a word was found.
    pub fn new(word: impl Into<String>, weight: f64) -> Self {
        Self { word: word.into(), weight }
    }
}

/// The score of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// From 0, not at all, to 1.
    pub value: f64,
    /// The matches, by descending weight.
    pub matches: Vec<WordMatch>,
}

impl Score {
    /// Makes a score; what lies outside of 0 to 1, or is not a number, is brought inside.
    pub fn new(value: f64, mut matches: Vec<WordMatch>) -> Self {
        let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
        matches.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.word.cmp(&b.word)));
        Self { value, matches }
    }
}

/// Tells how well tools fit what was said.
///
/// # Behavior
/// - Gives one score for each tool, in their order.
/// - The same input and tools give the same scores.
/// - Asks [`SelectionDeadline::check`] now and then, and ends when time is over. One that does not ask is
///   judged when it is done.
pub trait Scorer: Send + Sync {
    /// Returns the name in the provenance of its scores.
    fn name(&self) -> &str;

    /// Scores tools.
    ///
    /// # Errors
    /// [`OutOfTime`] when time was over before all were scored.
    fn score(
        &self,
        input: &str,
        tools: &[&CatalogEntry],
        until: &SelectionDeadline,
    ) -> Result<Vec<Score>, OutOfTime>;
}
