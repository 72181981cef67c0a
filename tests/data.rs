//! The recordings as the whole walks take them: all of them, or what the repository bundles.

use tract_testkit::data::{files, find, lines};

/// The lines of all trajectory files: one conversation each.
pub(crate) fn trajectories() -> Vec<String> {
    lines(&find("trajectories").0)
}

/// The exchanges of a provider: file stem and text.
pub(crate) fn cassettes(provider: &str) -> Vec<(String, String)> {
    let folder = find("cassettes").0.join(provider);
    files(&folder, "json")
        .iter()
        .map(|file| {
            let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
            (stem, std::fs::read_to_string(file).unwrap())
        })
        .collect()
}
