//! Where the recordings are.
//!
//! `TRACT_DATA` names the folder of full recordings (default `../shared/data` next to the
//! repository). Where it is missing, a test runs on the part that the repository bundles and says
//! so; in continuous integration that is a failure.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder of full recordings, when it is there.
pub(crate) fn full() -> Option<PathBuf> {
    let folder =
        std::env::var_os("TRACT_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from);
    if folder.join("trajectories").is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{} holds no recordings; set TRACT_DATA to the folder that does",
        folder.display()
    );
    println!(
        "left out: the full recordings; TRACT_DATA names their folder. Running on the bundled part"
    );
    None
}

/// The recordings that the repository bundles.
pub(crate) fn bundled() -> PathBuf {
    root().join("tests/data")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// The lines of all trajectory files: one conversation each.
pub(crate) fn trajectories() -> Vec<String> {
    let folder = full().unwrap_or_else(bundled).join("trajectories");
    files(&folder, "jsonl")
        .iter()
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// The exchanges of a provider: file stem and text.
pub(crate) fn cassettes(provider: &str) -> Vec<(String, String)> {
    let folder = full().unwrap_or_else(bundled).join("cassettes").join(provider);
    files(&folder, "json")
        .iter()
        .map(|file| {
            let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
            (stem, std::fs::read_to_string(file).unwrap())
        })
        .collect()
}
