//! The recordings as the whole walks take them: all of them, or what the repository bundles.

use tract_testkit::data::{find, lines, texts};

/// The lines of all trajectory files: one conversation each.
pub(crate) fn trajectories() -> Vec<String> {
    lines(&find("trajectories").0)
}

/// The exchanges of a provider: file stem and text.
pub(crate) fn cassettes(provider: &str) -> Vec<(String, String)> {
    texts(&find("cassettes").0.join(provider), "json")
}
