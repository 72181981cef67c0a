//! What a file is, by its bytes.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::claude_code;
use crate::document::MAX_DOCUMENT_BYTES;
use crate::source::{Source, head};
use crate::values::{Raw, lenient};

/// Lines that are looked at.
const LINES: usize = 20;

/// Tells which tool wrote a file; `None` where its bytes do not show it, as those of provider
/// requests do not.
///
/// # Errors
/// When the file cannot be read.
pub fn detect(path: &Path) -> io::Result<Option<Source>> {
    if path.is_dir() {
        return Ok(is_event_folder(path).then_some(Source::OpenHands));
    }
    let mut bytes = [0; 16];
    let count = File::open(path)?.read(&mut bytes)?;
    let start = bytes.get(..count).unwrap_or_default();
    if start.starts_with(b"SQLite format 3\0") {
        return Ok(of_database(path));
    }
    if start.starts_with(b"PK\x03\x04") {
        return Ok(path.extension().is_some_and(|end| end == "eval").then_some(Source::Inspect));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(Some(Source::Codex));
    }
    let head = head(path)?;
    if let Some(source) = head.lines().take(LINES).find_map(of_line) {
        return Ok(Some(source));
    }
    // A document says what it is anywhere in it; a name that is usual for lines is none.
    let is_lines = path.extension().is_some_and(|end| end == "jsonl");
    if is_lines || !head.trim_start().starts_with(['{', '[']) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes)?;
    Ok(of_document(&bytes))
}

#[cfg(feature = "databases")]
fn of_database(path: &Path) -> Option<Source> {
    if crate::openai_agents::is_one(path) {
        return Some(Source::OpenAiAgents);
    }
    crate::langgraph::sqlite::is_one(path).then_some(Source::LangGraph)
}

#[cfg(not(feature = "databases"))]
fn of_database(_path: &Path) -> Option<Source> {
    None
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineHead {
    #[serde(rename = "type")]
    line_type: Option<String>,
    payload: Option<IgnoredAny>,
    session_id: Option<String>,
    project_hash: Option<String>,
    start_time: Option<String>,
    kind: Option<String>,
    id: Option<String>,
    source: Option<String>,
    timestamp: Option<String>,
    messages: Option<IgnoredAny>,
}

fn of_line(line: &str) -> Option<Source> {
    if claude_code::is_session_line(line) {
        return Some(Source::ClaudeCode);
    }
    let head: LineHead = serde_json::from_str(line).ok()?;
    let kinds = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];
    if head.payload.is_some() && head.line_type.is_some_and(|kind| kinds.contains(&kind.as_str())) {
        return Some(Source::Codex);
    }
    if head.session_id.is_some() && (head.project_hash.is_some() || head.start_time.is_some()) {
        return Some(Source::GeminiCli);
    }
    let is_event = head.kind.is_some_and(|kind| kind.ends_with("Event") || kind == "Condensation");
    let has_all = head.id.is_some() && head.source.is_some() && head.timestamp.is_some();
    (is_event && has_all && head.messages.is_none()).then_some(Source::OpenHands)
}

#[derive(Deserialize)]
struct DocumentHead<'a> {
    schema_version: Option<String>,
    steps: Option<IgnoredAny>,
    #[serde(rename = "sessionId")]
    session_id: Option<String>,
    #[serde(rename = "projectHash")]
    project_hash: Option<String>,
    #[serde(rename = "startTime")]
    start_time: Option<String>,
    trajectory: Option<IgnoredAny>,
    #[serde(borrow)]
    history: Raw<'a>,
    #[serde(borrow)]
    messages: Raw<'a>,
}

#[derive(Deserialize)]
struct EntryHead<'a> {
    action: Option<String>,
    observation: Option<String>,
    source: Option<String>,
    message_type: Option<String>,
    role: Option<String>,
    parts: Option<IgnoredAny>,
    #[serde(rename = "toolInvocations")]
    tool_invocations: Option<IgnoredAny>,
    #[serde(borrow)]
    content: Raw<'a>,
}

fn of_document(bytes: &[u8]) -> Option<Source> {
    if let Ok(list) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
        return of_list(&list);
    }
    let head: DocumentHead<'_> = serde_json::from_slice(bytes).ok()?;
    let is_atif = head.schema_version.is_some_and(|version| version.starts_with("ATIF"));
    if is_atif && head.steps.is_some() {
        return Some(Source::Atif);
    }
    if head.session_id.is_some() && (head.project_hash.is_some() || head.start_time.is_some()) {
        return Some(Source::GeminiCli);
    }
    if let Some(history) = lenient::<Vec<EntryHead<'_>>>(head.history) {
        let is_typed = history.iter().any(|entry| entry.message_type.is_some());
        return (head.trajectory.is_some() || is_typed).then_some(Source::SweAgent);
    }
    of_list(&lenient::<Vec<&RawValue>>(head.messages)?)
}

fn of_list(list: &[&RawValue]) -> Option<Source> {
    for raw in list {
        let Some(entry) = lenient::<EntryHead<'_>>(Some(raw)) else { continue };
        if entry.source.is_some() && (entry.action.is_some() || entry.observation.is_some()) {
            return Some(Source::OpenHands);
        }
        let is_chat =
            matches!(entry.role.as_deref(), Some("system" | "user" | "assistant" | "tool"));
        if is_chat && (entry.tool_invocations.is_some() || entry.parts.is_some()) {
            return Some(Source::AiSdk);
        }
        #[derive(Deserialize)]
        struct PartHead {
            #[serde(rename = "type")]
            part_type: Option<String>,
        }
        let parts: Vec<PartHead> = lenient(entry.content).unwrap_or_default();
        let own = ["tool-call", "tool-result"];
        let is_own = |part: &PartHead| part.part_type.as_deref().is_some_and(|k| own.contains(&k));
        if is_chat && parts.iter().any(is_own) {
            return Some(Source::AiSdk);
        }
    }
    None
}

/// Whether a file is a list of JSON.
pub(crate) fn is_list(path: &Path) -> io::Result<bool> {
    Ok(head(path)?.trim_start().starts_with('['))
}

/// Whether a file is one event of OpenHands' SDK.
pub(crate) fn is_event_file(path: &Path) -> bool {
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
pub(crate) fn is_event_folder(folder: &Path) -> bool {
    event_paths(folder).is_ok_and(|paths| !paths.is_empty())
}

/// The events of a folder, one a line, and the conversation's own id.
pub(crate) fn event_files(folder: &Path) -> io::Result<(Option<String>, impl io::BufRead)> {
    #[derive(Deserialize)]
    struct State {
        id: Option<String>,
    }
    let is_inner = folder.file_name() == Some("events".as_ref());
    let base = folder.parent().filter(|_| is_inner).unwrap_or(folder);
    let state = fs::read(base.join("base_state.json")).ok();
    let state = state.and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
    let name = || base.file_name().map(|name| name.to_string_lossy().into_owned());
    let session = state.and_then(|state| state.id).or_else(name);
    let files = EventFiles { paths: event_paths(folder)?.into_iter(), open: Cursor::default() };
    Ok((session, BufReader::new(files)))
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
