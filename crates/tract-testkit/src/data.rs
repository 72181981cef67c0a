//! Recorded conversations.

use std::path::{Path, PathBuf};

use tract_core::json;

const BUNDLED: &str = include_str!("../../../tests/data/trajectories/conversations.jsonl");

/// One recorded conversation: each message and each tool as the JSON text that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedConversation {
    /// Its name in the recording.
    pub id: String,
    /// Its messages, in order.
    pub messages: Vec<String>,
    /// The schemas of its tools, in order.
    pub tools: Vec<String>,
}

/// Returns the conversations that are compiled into this crate: the same ones on every machine.
pub fn conversations() -> Vec<RecordedConversation> {
    BUNDLED.lines().map(parse).collect()
}

/// Reads the recorded conversations that tests of this workspace run on: those in the folder
/// `TRACT_DATA` (by default `../shared/data` next to the repository), or [`conversations`] when
/// there is no such folder.
///
/// # Panics
/// When there is no such folder and the variable `CI` is set, or when a recording cannot be read.
pub fn recorded() -> Vec<RecordedConversation> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("TRACT_DATA").map_or_else(default, PathBuf::from);
    let Ok(files) = std::fs::read_dir(folder.join("trajectories")) else {
        assert!(std::env::var_os("CI").is_none(), "no recordings in {}", folder.display());
        return conversations();
    };
    let mut paths: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("recordings are text");
    paths.iter().map(read).flat_map(|text| text.lines().map(parse).collect::<Vec<_>>()).collect()
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
