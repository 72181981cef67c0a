use std::path::{Path, PathBuf};

use serde_json::Value;

/// The recorded data, else what is bundled, which is then said.
pub(crate) fn data(file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("TRACT_DATA").map(PathBuf::from);
    let all = named.unwrap_or_else(|| root.join("../../../shared/data")).join(file);
    if all.exists() {
        return all;
    }
    assert!(std::env::var_os("CI").is_none(), "no {file} at {}: set TRACT_DATA", all.display());
    println!("no {file} at {}: the bundled one is used", all.display());
    own(file)
}

/// The data that the repository contains.
pub(crate) fn own(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(file)
}

pub(crate) fn lines(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(data(file)).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
