//! The events of a conversation, one a file, as one recording.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tract_core::json;

use crate::damage::utf8_of;
use crate::document::MAX_DOCUMENT_BYTES;

/// Returns the folder that is read in the place of a file: the folder of an event, or a folder with
/// events itself.
pub(crate) fn event_folder_of(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return is_event_folder(path).then(|| path.to_owned());
    }
    is_event_file(path).then(|| path.parent().map(Path::to_owned)).flatten()
}

/// Whether a file is one event of OpenHands' SDK.
fn is_event_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with("event-") && name.ends_with(".json"))
}

fn event_paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let inner = folder.join("events");
    let folder = if inner.is_dir() { inner } else { folder.to_owned() };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_event_file(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether a folder has events of OpenHands' SDK.
fn is_event_folder(folder: &Path) -> bool {
    event_paths(folder).is_ok_and(|paths| !paths.is_empty())
}

/// The events of a folder, one a line, and the conversation's own id.
pub(crate) fn event_files(
    folder: &Path,
) -> io::Result<(Option<String>, Option<String>, impl io::BufRead)> {
    #[derive(Deserialize)]
    struct State {
        id: Option<String>,
        agent: Option<Agent>,
    }
    #[derive(Deserialize)]
    struct Agent {
        llm: Option<Llm>,
    }
    #[derive(Deserialize)]
    struct Llm {
        model: Option<String>,
    }
    let is_inner = folder.file_name() == Some("events".as_ref());
    let base = folder.parent().filter(|_| is_inner).unwrap_or(folder);
    let state = fs::read(base.join("base_state.json")).ok().map(utf8_of);
    let state =
        state.and_then(|bytes| serde_json::from_str::<State>(&json::decode(&bytes).text).ok());
    let name = || base.file_name().map(|name| name.to_string_lossy().into_owned());
    let (id, agent) = state.map_or((None, None), |state| (state.id, state.agent));
    let model = agent.and_then(|agent| agent.llm?.model);
    let session = id.or_else(name);
    let files = EventFiles { paths: event_paths(folder)?.into_iter(), open: Cursor::default() };
    Ok((session, model, BufReader::new(files)))
}

/// The bytes of files, each as one line.
struct EventFiles {
    paths: std::vec::IntoIter<PathBuf>,
    open: Cursor<Vec<u8>>,
}

impl Read for EventFiles {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.open.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(path) = self.paths.next() else { return Ok(0) };
            let mut bytes = Vec::new();
            File::open(path)?.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes)?;
            let mut bytes = utf8_of(bytes);
            // Line ends within a document are between its values: as good as spaces.
            for byte in &mut bytes {
                if matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
            bytes.push(b'\n');
            self.open = Cursor::new(bytes);
        }
    }
}
