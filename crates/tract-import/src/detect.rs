//! What a file is, by its bytes.

mod unknown;

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use tract_core::json;

pub use self::unknown::UnknownFile;
use crate::damage::{recover, reject_utf16};
use crate::document::MAX_DOCUMENT_BYTES;
use crate::object::Object;
use crate::source::{Source, head};
use crate::values::{Raw, lenient};
use crate::{
    aider, chatgpt, claude_ai, claude_code, copilot_cli, dataset, goose, langchain, mini_swe_agent,
    opencode, pydantic_ai, qwen_code, vscode_chat,
};

/// Lines that are looked at.
const LINES: usize = 20;

/// The kind of a file, as far as its bytes show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A file that this tool wrote.
    Source(Source),
    /// Requests to providers, or lists of their messages: a document, or one on each line.
    Conversations,
    /// Neither.
    Unknown(UnknownFile),
}

/// Tells which tool wrote a file; `None` where its bytes do not show it, as those of provider
/// requests do not.
///
/// # Errors
/// When the file cannot be read.
pub fn detect(path: &Path) -> io::Result<Option<Source>> {
    match by_bytes(path)? {
        BytesKind::Source(source) => Ok(Some(source)),
        BytesKind::Text(_) | BytesKind::Unknown(_) => Ok(None),
    }
}

/// Tells what a file is, and describes one that no reader takes.
///
/// # Errors
/// When the file cannot be read.
pub fn recognize(path: &Path) -> io::Result<FileKind> {
    match by_bytes(path)? {
        BytesKind::Source(source) => Ok(FileKind::Source(source)),
        BytesKind::Text(head) => unknown::text(path, &head),
        BytesKind::Unknown(describe) => Ok(FileKind::Unknown(describe(path))),
    }
}

/// The kind of a file by its first bytes.
enum BytesKind {
    Source(Source),
    /// A text that no known tool wrote, by its beginning.
    Text(String),
    Unknown(fn(&Path) -> UnknownFile),
}

fn by_bytes(path: &Path) -> io::Result<BytesKind> {
    if path.is_dir() {
        return Ok(match is_event_folder(path) {
            true => BytesKind::Source(Source::OpenHands),
            false => BytesKind::Unknown(unknown::folder),
        });
    }
    let mut bytes = [0; 16];
    let count = File::open(path)?.read(&mut bytes)?;
    let start = bytes.get(..count).unwrap_or_default();
    if start.starts_with(b"SQLite format 3\0") {
        return Ok(
            of_database(path).map_or(BytesKind::Unknown(unknown::database), BytesKind::Source)
        );
    }
    if start.starts_with(b"PK\x03\x04") {
        let is_log = path.extension().is_some_and(|end| end == "eval");
        return Ok(match is_log {
            true => BytesKind::Source(Source::Inspect),
            false => BytesKind::Unknown(|_| unknown::packed("a zip file")),
        });
    }
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(BytesKind::Unknown(|_| unknown::packed("a gzip file")));
    }
    reject_utf16(start)?;
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(BytesKind::Source(Source::Codex));
    }
    let head = head(path)?;
    let lines = || head.lines().take(LINES);
    let damaged = |line| recover(line, true, |_| true).records.into_iter().find_map(of_line);
    if let Some(source) = lines().find_map(of_line).or_else(|| lines().find_map(damaged)) {
        return Ok(BytesKind::Source(source));
    }
    if aider::is_one(&head) {
        return Ok(BytesKind::Source(Source::Aider));
    }
    // A document says what it is anywhere in it; a name that is usual for lines is none.
    let is_lines = path.extension().is_some_and(|end| end == "jsonl");
    if is_lines || !head.trim_start().starts_with(['{', '[']) {
        return Ok(BytesKind::Text(head));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes)?;
    let source = of_document(json::decode(&bytes).text.as_bytes());
    Ok(source.map_or(BytesKind::Text(head), BytesKind::Source))
}

/// Whether a file is one of SQLite.
pub(crate) fn is_database(path: &Path) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(16).read_to_end(&mut bytes)?;
    Ok(bytes.starts_with(b"SQLite format 3\0"))
}

/// Whether a file is a database that can be read and that a tool did not write.
pub(crate) fn is_other_database(path: &Path, source: Source) -> bool {
    is_database(path).unwrap_or_default()
        && unknown::has_tables(path)
        && of_database(path) != Some(source)
}

/// What recognizes a database of a tool.
#[cfg(feature = "databases")]
type KnownDatabase = (fn(&Path) -> bool, Source);

/// What recognizes an object of a tool.
type KnownObject = (fn(&Object<'_>) -> bool, Source);

#[cfg(feature = "databases")]
fn of_database(path: &Path) -> Option<Source> {
    if crate::openai_agents::is_one(path) {
        return Some(Source::OpenAiAgents);
    }
    let known: [KnownDatabase; 4] = [
        (crate::langgraph::sqlite::is_one, Source::LangGraph),
        (opencode::sqlite::is_one, Source::OpenCode),
        (goose::sqlite::is_one, Source::Goose),
        (crate::cursor::is_one, Source::Cursor),
    ];
    known.into_iter().find(|(is_one, _)| is_one(path)).map(|(_, source)| source)
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
    let members = Object::parse(line)?;
    let known: [KnownObject; 6] = [
        (qwen_code::is_one, Source::QwenCode),
        (goose::is_one, Source::Goose),
        (copilot_cli::is_one, Source::CopilotCli),
        (vscode_chat::is_one, Source::VsCodeChat),
        (dataset::is_one, Source::Dataset),
        (langchain::is_run, Source::LangChain),
    ];
    if let Some((_, source)) = known.into_iter().find(|(is_one, _)| is_one(&members)) {
        return Some(source);
    }
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
    #[serde(borrow)]
    parts: Raw<'a>,
    #[serde(rename = "toolInvocations")]
    tool_invocations: Option<IgnoredAny>,
    #[serde(borrow)]
    content: Raw<'a>,
}

fn of_document(bytes: &[u8]) -> Option<Source> {
    if let Ok(list) = serde_json::from_slice::<Vec<&RawValue>>(bytes) {
        let first = list.first().and_then(|raw| Object::of(Some(raw)));
        return first.and_then(|members| of_element(&members)).or_else(|| of_list(&list));
    }
    let raw: &RawValue = serde_json::from_slice(bytes).ok()?;
    let members = Object::of(Some(raw))?;
    let inner = members.list("messages");
    let inner = inner.first().and_then(|raw| Object::of(Some(raw)));
    let is_dump = inner.is_some_and(|message| pydantic_ai::is_one(&message));
    if is_dump {
        return Some(Source::PydanticAi);
    }
    if langchain::is_one(raw) {
        return Some(Source::LangChain);
    }
    if let Some(source) = of_element(&members) {
        return Some(source);
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

/// Whether the parts of a message are those of the AI SDK, which have types.
fn typed(parts: &RawValue) -> bool {
    let parts: Vec<&RawValue> = lenient(Some(parts)).unwrap_or_default();
    parts.into_iter().all(|raw| Object::of(Some(raw)).is_some_and(|part| part.has("type")))
}

/// The tool that wrote an object, which is a document or the first element of one.
fn of_element(members: &Object<'_>) -> Option<Source> {
    let known: [KnownObject; 9] = [
        (mini_swe_agent::is_one, Source::MiniSweAgent),
        (opencode::is_one, Source::OpenCode),
        (opencode::tree::is_one, Source::OpenCode),
        (vscode_chat::is_one, Source::VsCodeChat),
        (chatgpt::is_one, Source::ChatGpt),
        (claude_ai::is_one, Source::ClaudeAi),
        (pydantic_ai::is_one, Source::PydanticAi),
        (langchain::is_message, Source::LangChain),
        (dataset::is_one, Source::Dataset),
    ];
    known.into_iter().find(|(is_one, _)| is_one(members)).map(|(_, source)| source)
}

fn of_list(list: &[&RawValue]) -> Option<Source> {
    for raw in list {
        let Some(entry) = lenient::<EntryHead<'_>>(Some(raw)) else { continue };
        if entry.source.is_some() && (entry.action.is_some() || entry.observation.is_some()) {
            return Some(Source::OpenHands);
        }
        let is_chat =
            matches!(entry.role.as_deref(), Some("system" | "user" | "assistant" | "tool"));
        if is_chat && (entry.tool_invocations.is_some() || entry.parts.is_some_and(typed)) {
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
    let state = fs::read(base.join("base_state.json")).ok();
    let state = state.and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
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
