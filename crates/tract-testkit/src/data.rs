//! Recorded conversations, and other test files.

use std::path::{Path, PathBuf};

use tract_core::json;

const BUNDLED: &str = include_str!("../../../tests/data/trajectories/conversations.jsonl");

/// A recorded conversation: the recorded JSON text of each message and each tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedConversation {
    /// Its name in the recording.
    pub id: String,
    /// Its messages, in order.
    pub messages: Vec<String>,
    /// The schemas of its tools, in order.
    pub tools: Vec<String>,
}

/// Returns the conversations that are compiled into this crate, the same on every machine.
pub fn conversations() -> Vec<RecordedConversation> {
    BUNDLED.lines().map(parse).collect()
}

/// Returns a file or folder of the full recordings, in the folder `TRACT_DATA`, by default
/// `../shared/data` next to the repository. If it is missing, prints that and returns `None`; the
/// value `none` leaves the recordings out although they are there.
///
/// # Panics
/// If it is missing, the variable `CI` is set, and `TRACT_DATA` is not `none`.
pub fn full(name: &str) -> Option<PathBuf> {
    let chosen = std::env::var_os("TRACT_DATA");
    if chosen.as_deref().is_some_and(|folder| folder == "none") {
        println!("left out: {name} of the full recordings, since TRACT_DATA is `none`");
        return None;
    }
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = chosen.map_or_else(default, PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing: set TRACT_DATA", path.display());
    println!("left out: {}; TRACT_DATA names the folder of full recordings", path.display());
    None
}

/// Returns a file or folder of the recordings that the repository bundles.
pub fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

/// Returns a file or folder of the full recordings, else the [`bundled`] one, and whether it is the
/// full one.
///
/// # Panics
/// As [`full`].
pub fn find(name: &str) -> (PathBuf, bool) {
    full(name).map_or_else(|| (bundled(name), false), |path| (path, true))
}

/// Returns the files of a folder whose names end with an extension, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths
}

/// Returns the [`files`] of a folder as texts, each with its name without the extension.
///
/// # Panics
/// If a file cannot be read.
pub fn texts(folder: &Path, extension: &str) -> Vec<(String, String)> {
    let read = |path: &PathBuf| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).expect("recordings are text"))
    };
    files(folder, extension).iter().map(read).collect()
}

/// Returns the lines of the JSONL files of a folder.
///
/// # Panics
/// If they cannot be read.
pub fn lines(folder: &Path) -> Vec<String> {
    let texts = texts(folder, "jsonl");
    texts.iter().flat_map(|(_, text)| text.lines().map(str::to_owned)).collect()
}

/// Copies the content of a folder into another one, which is created.
///
/// # Errors
/// If a file cannot be copied.
pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Reads the recorded conversations that tests of this workspace use: the [`full`] ones, or
/// [`conversations`] if they are missing.
///
/// # Panics
/// As [`full`], and if a recording cannot be read.
pub fn recorded() -> Vec<RecordedConversation> {
    let Some(folder) = full("trajectories") else { return conversations() };
    lines(&folder).iter().map(|line| parse(line)).collect()
}

fn parse(line: &str) -> RecordedConversation {
    let fields = json::split_object(line).expect("a recording is a JSON object a line");
    let field = |name: &str| {
        fields.iter().find(|(key, _)| key == name).map(|(_, value)| *value).unwrap_or("null")
    };
    let list = |name: &str| match field(name) {
        "null" => Vec::new(),
        value => {
            let items = json::split_array(value).expect("messages and tools are lists");
            items.into_iter().map(str::to_owned).collect()
        }
    };
    let id = field("id").trim_matches('"').to_owned();
    RecordedConversation { id, messages: list("messages"), tools: list("tools") }
}
