//! Test sizes and figures: one variable sets the amount of work of all tests, and all figures have
//! one format.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

/// Maximum duration of rounds if no size is set.
const CAP: Duration = Duration::from_secs(12);

fn requested_scale() -> Option<f64> {
    std::env::var("TRACT_SCALE").ok().and_then(|scale| scale.parse::<f64>().ok())
}

/// Returns the number of repetitions of a test with `full` repetitions at full size: `full` times
/// the environment variable `TRACT_SCALE`, or times `part` if it is not set, and at least `least`.
///
/// ```
/// let images = tract_testkit::scaled(1000, 0.2, 20);
/// assert!(images >= 20);
/// ```
pub fn scaled(full: usize, part: f64, least: usize) -> usize {
    ((full as f64 * requested_scale().unwrap_or(part)) as usize).max(least)
}

/// Counts the rounds of a test with `full` rounds at full size: as many as [`scaled`] returns for a
/// fifth. If `TRACT_SCALE` is not set, they also end after some seconds, once `least` are done.
///
/// ```
/// let mut rounds = tract_testkit::rounds(100, 5);
/// for round in rounds.by_ref() {
///     assert!(round < 100);
/// }
/// assert!(rounds.done() >= 5);
/// ```
pub fn rounds(full: usize, least: usize) -> Rounds {
    let until = requested_scale().is_none().then(|| Instant::now() + CAP);
    Rounds { wanted: scaled(full, 0.2, least), least, done: 0, until }
}

/// Rounds of a test, from [`rounds`].
#[derive(Clone, Debug)]
pub struct Rounds {
    wanted: usize,
    least: usize,
    done: usize,
    until: Option<Instant>,
}

impl Rounds {
    /// Returns the number of rounds so far.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Returns the maximum number of rounds.
    pub fn planned_rounds(&self) -> usize {
        self.wanted
    }
}

impl Iterator for Rounds {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let late = || self.until.is_some_and(|until| Instant::now() >= until);
        if self.done >= self.wanted || (self.done >= self.least && late()) {
            return None;
        }
        self.done += 1;
        Some(self.done - 1)
    }
}

/// Prints a result of a suite as one line for `cargo xtask soak`: `figure`, the suite, the store
/// and the result, separated by tabs.
///
/// ```
/// tract_testkit::figure("T5 damage", "sqlite", "1000 flipped bytes, 0 silent wrong reads");
/// ```
pub fn figure(suite: &str, store: &str, finding: impl Display) {
    // One write that starts with a line break: tests run in parallel, and their harness prints a
    // name without a line break before each.
    let line = format!("\nfigure\t{suite}\t{store}\t{finding}\n");
    let mut out = std::io::stdout().lock();
    // If stdout is closed, the figure is dropped.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}
