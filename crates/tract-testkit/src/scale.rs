//! How much a test does: one variable for all of them.

/// How often to do what is done `full` times at full size: the part of it that the environment
/// variable `TRACT_SCALE` says, `part` of it where nobody says, and at least `least` times.
///
/// ```
/// let images = tract_testkit::scaled(1000, 0.2, 20);
/// assert!(images >= 20);
/// ```
pub fn scaled(full: usize, part: f64, least: usize) -> usize {
    let asked = std::env::var("TRACT_SCALE").ok().and_then(|scale| scale.parse::<f64>().ok());
    ((full as f64 * asked.unwrap_or(part)) as usize).max(least)
}
