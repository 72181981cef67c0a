//! The tools whose files are read: where they keep them, and which are meant.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use serde::Deserialize;

use tract_core::json;

use crate::detect;
use crate::lines::open_text;
use crate::opencode;

/// Bytes that are looked at to find out which folder a session ran in.
const HEAD_BYTES: u64 = 64 << 10;
/// Folders within folders that are searched.
pub(crate) const MAX_DEPTH: usize = 12;

/// A tool that records conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Claude Code: JSONL files, one per session and subagent.
    ClaudeCode,
    /// Codex CLI: JSONL files, one per thread.
    Codex,
    /// Gemini CLI: JSONL files, and JSON documents before them.
    GeminiCli,
    /// OpenAI's Agents SDK: tables of sessions in SQLite.
    OpenAiAgents,
    /// LangGraph: checkpoints in SQLite or PostgreSQL.
    LangGraph,
    /// Vercel AI SDK: messages as applications store them, in JSON.
    AiSdk,
    /// ATIF, the trajectory format of Harbor: JSON.
    Atif,
    /// SWE-agent: a JSON document per run.
    SweAgent,
    /// OpenHands: events in JSON.
    OpenHands,
    /// Inspect: a zip per run.
    Inspect,
    /// ChatGPT: an export, `conversations.json`.
    ChatGpt,
    /// Claude.ai: an export, `conversations.json`.
    ClaudeAi,
    /// pydantic-ai: lists of messages in JSON.
    PydanticAi,
    /// LangChain: messages in JSON, and runs of LangSmith.
    LangChain,
    /// Datasets of conversations, such as ShareGPT and xLAM: JSON.
    Dataset,
    /// OpenCode: a database, or a file for each session, message and part.
    OpenCode,
    /// mini-swe-agent: a JSON document per run.
    MiniSweAgent,
    /// Aider: a file of Markdown with the chats of a folder.
    Aider,
    /// GitHub Copilot CLI: JSONL files of events, one per session.
    CopilotCli,
    /// The chat of VS Code: JSON documents, and JSONL files of changes.
    VsCodeChat,
    /// Goose: a database, and JSONL files before it.
    Goose,
    /// Qwen Code: JSONL files, one per session.
    QwenCode,
    /// Cursor: a database of keys and values.
    Cursor,
}

impl Source {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::ClaudeCode,
        Self::Codex,
        Self::GeminiCli,
        Self::OpenAiAgents,
        Self::LangGraph,
        Self::AiSdk,
        Self::Atif,
        Self::SweAgent,
        Self::OpenHands,
        Self::Inspect,
        Self::ChatGpt,
        Self::ClaudeAi,
        Self::PydanticAi,
        Self::LangChain,
        Self::Dataset,
        Self::OpenCode,
        Self::MiniSweAgent,
        Self::Aider,
        Self::CopilotCli,
        Self::VsCodeChat,
        Self::Goose,
        Self::QwenCode,
        Self::Cursor,
    ];

    /// Returns the word for it, which branches begin with.
    pub const fn as_str(self) -> &'static str {
        self.words().0
    }

    /// Returns the name that people know it by.
    pub const fn title(self) -> &'static str {
        self.words().1
    }

    /// The word for it, and its name.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::ClaudeCode => ("claude-code", "Claude Code"),
            Self::Codex => ("codex", "Codex CLI"),
            Self::GeminiCli => ("gemini-cli", "Gemini CLI"),
            Self::OpenAiAgents => ("openai-agents", "the OpenAI Agents SDK"),
            Self::LangGraph => ("langgraph", "LangGraph"),
            Self::AiSdk => ("ai-sdk", "the Vercel AI SDK"),
            Self::Atif => ("atif", "ATIF"),
            Self::SweAgent => ("swe-agent", "SWE-agent"),
            Self::OpenHands => ("openhands", "OpenHands"),
            Self::Inspect => ("inspect", "Inspect"),
            Self::ChatGpt => ("chatgpt", "ChatGPT"),
            Self::ClaudeAi => ("claude-ai", "Claude.ai"),
            Self::PydanticAi => ("pydantic-ai", "pydantic-ai"),
            Self::LangChain => ("langchain", "LangChain"),
            Self::Dataset => ("dataset", "datasets of conversations"),
            Self::OpenCode => ("opencode", "OpenCode"),
            Self::MiniSweAgent => ("mini-swe-agent", "mini-swe-agent"),
            Self::Aider => ("aider", "Aider"),
            Self::CopilotCli => ("copilot-cli", "GitHub Copilot CLI"),
            Self::VsCodeChat => ("vscode-chat", "the chat of VS Code"),
            Self::Goose => ("goose", "Goose"),
            Self::QwenCode => ("qwen-code", "Qwen Code"),
            Self::Cursor => ("cursor", "Cursor"),
        }
    }

    /// Returns the folders that the tool keeps its files in, by its own rules; none for a format
    /// that has no place of its own. They need not be there.
    pub fn folders(self) -> Vec<PathBuf> {
        match self {
            Self::ClaudeCode => {
                let base = folder("CLAUDE_CONFIG_DIR", ".claude");
                base.map(|base| base.join("projects")).into_iter().collect()
            }
            Self::Codex => {
                let base = folder("CODEX_HOME", ".codex");
                let of = |base: PathBuf| ["sessions", "archived_sessions"].map(|f| base.join(f));
                base.map(of).into_iter().flatten().collect()
            }
            Self::GeminiCli => {
                let set = std::env::var_os("GEMINI_CLI_HOME").filter(|folder| !folder.is_empty());
                let base = set.map(PathBuf::from).or_else(std::env::home_dir);
                base.map(|base| base.join(".gemini").join("tmp")).into_iter().collect()
            }
            Self::OpenCode => data_folder("opencode"),
            Self::Goose => data_folder("goose").into_iter().map(|f| f.join("sessions")).collect(),
            Self::CopilotCli => {
                home(".copilot").map(|f| f.join("session-state")).into_iter().collect()
            }
            Self::QwenCode => home(".qwen").map(|f| f.join("projects")).into_iter().collect(),
            Self::VsCodeChat => {
                user_folder("Code").map(|f| f.join("workspaceStorage")).into_iter().collect()
            }
            Self::Cursor => {
                user_folder("Cursor").map(|f| f.join("globalStorage")).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns where people find its folder, in words; `None` for a format without a place.
    pub const fn place(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("~/.claude/projects, or below CLAUDE_CONFIG_DIR"),
            Self::Codex => Some("~/.codex/sessions, or below CODEX_HOME"),
            Self::GeminiCli => Some("~/.gemini/tmp, or .gemini/tmp below GEMINI_CLI_HOME"),
            Self::OpenCode => Some("~/.local/share/opencode, or opencode below XDG_DATA_HOME"),
            Self::Goose => Some("~/.local/share/goose/sessions, or below XDG_DATA_HOME"),
            Self::CopilotCli => Some("~/.copilot/session-state"),
            Self::QwenCode => Some("~/.qwen/projects"),
            Self::VsCodeChat => Some("Code/User/workspaceStorage in the folder for settings"),
            Self::Cursor => Some("Cursor/User/globalStorage in the folder for settings"),
            _ => None,
        }
    }

    /// Whether a file in a folder may be one of the tool's.
    fn takes(self, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { return false };
        match self {
            Self::ClaudeCode => name.ends_with(".jsonl"),
            Self::Codex => {
                (name.ends_with(".jsonl") || name.ends_with(".jsonl.zst"))
                    && name != "history.jsonl"
            }
            Self::GeminiCli => {
                let is_chat =
                    path.ancestors().any(|folder| folder.file_name() == Some("chats".as_ref()));
                is_chat && (name.ends_with(".jsonl") || name.ends_with(".json"))
            }
            Self::OpenAiAgents | Self::LangGraph => is_database(name),
            Self::AiSdk | Self::Atif | Self::PydanticAi | Self::ChatGpt | Self::ClaudeAi => {
                name.ends_with(".json")
            }
            Self::LangChain | Self::Dataset => name.ends_with(".json") || name.ends_with(".jsonl"),
            Self::SweAgent => name.ends_with(".traj"),
            Self::OpenHands => {
                (name.ends_with(".json") || name.ends_with(".jsonl")) && name != "base_state.json"
            }
            Self::Inspect => name.ends_with(".eval"),
            Self::OpenCode => {
                is_database(name) && name != "auth.db" || opencode::tree::is_session_file(path)
            }
            Self::MiniSweAgent => name.ends_with(".traj.json"),
            Self::Aider => name == ".aider.chat.history.md" || name == "aider.chat.history.md",
            Self::CopilotCli | Self::QwenCode => name.ends_with(".jsonl"),
            Self::VsCodeChat => {
                let is_chat = path.parent().is_some_and(|folder| {
                    ["chatSessions", "emptyWindowChatSessions"]
                        .iter()
                        .any(|name| folder.file_name() == Some(OsStr::new(name)))
                });
                is_chat && (name.ends_with(".json") || name.ends_with(".jsonl"))
            }
            Self::Goose => is_database(name) || name.ends_with(".jsonl"),
            Self::Cursor => name.ends_with(".vscdb"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown source {0:?}")]
pub struct UnknownSource(pub String);

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(word: &str) -> Result<Self, UnknownSource> {
        let found = Self::ALL.iter().find(|source| source.as_str() == word);
        found.copied().ok_or_else(|| UnknownSource(word.to_owned()))
    }
}

fn is_database(name: &str) -> bool {
    [".db", ".sqlite", ".sqlite3"].iter().any(|end| name.ends_with(end))
}

fn home(name: &str) -> Option<PathBuf> {
    Some(std::env::home_dir()?.join(name))
}

/// The folder of a program below the one for data of the user.
fn data_folder(name: &str) -> Vec<PathBuf> {
    let set = std::env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty());
    let base = set.map(PathBuf::from).or_else(|| home(".local/share"));
    base.map(|base| base.join(name)).into_iter().collect()
}

/// The folder of a user of VS Code or a program made of it.
fn user_folder(program: &str) -> Option<PathBuf> {
    let base = match std::env::consts::OS {
        "macos" => home("Library/Application Support"),
        "windows" => std::env::var_os("APPDATA").map(PathBuf::from),
        _ => folder("XDG_CONFIG_HOME", ".config"),
    };
    base.map(|base| base.join(program).join("User"))
}

fn folder(variable: &str, name: &str) -> Option<PathBuf> {
    let set = std::env::var_os(variable).filter(|folder| !folder.is_empty());
    set.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(name)))
}

/// A file that may have conversations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionFile {
    source: Source,
    path: PathBuf,
    database: Option<DatabaseUrl>,
    channels: Vec<String>,
}

/// The url of a database. It may have a password, so it is not shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DatabaseUrl(pub(crate) String);

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

impl SessionFile {
    /// Names a file of a tool.
    pub fn new(source: Source, path: impl Into<PathBuf>) -> Self {
        Self { source, path: path.into(), database: None, channels: Vec::new() }
    }

    /// Names a database on a server, by the url of a PostgreSQL server. LangGraph's checkpoints are
    /// read from one (feature `langgraph-postgres`); for other tools the import reports that they
    /// are not. `name` is its path in reports: the url without a password.
    pub fn database(source: Source, url: impl Into<String>, name: impl Into<PathBuf>) -> Self {
        let database = Some(DatabaseUrl(url.into()));
        Self { source, path: name.into(), database, channels: Vec::new() }
    }

    /// Sets the channels of LangGraph that are read in the place of a list of messages, each as `NAME`
    /// or `NAME:ROLE`, with `user` (the default), `assistant` or `system`. A message is said when the value of its channel
    /// changes.
    #[must_use]
    pub fn with_channels(mut self, channels: &[String]) -> Self {
        self.channels = channels.to_vec();
        self
    }

    /// Returns the channels that are read as texts.
    pub(crate) fn channels(&self) -> &[String] {
        &self.channels
    }

    /// Returns the tool that wrote it.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the url of a database on a server.
    pub(crate) fn url(&self) -> Option<&str> {
        self.database.as_ref().map(|url| url.0.as_str())
    }

    /// Whether it is named as the files of subagents of Claude Code are.
    pub fn is_agent(&self) -> bool {
        self.source == Source::ClaudeCode
            && self
                .path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
    }

    /// Returns the id of the session that a file of Claude Code is of, as its first lines state it;
    /// `None` where they do not, and for files of other tools. The file of a subagent names the
    /// session that started it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn session_id(&self) -> io::Result<Option<String>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Line {
            session_id: Option<String>,
        }
        if self.source != Source::ClaudeCode {
            return Ok(None);
        }
        let stated = |line: &str| serde_json::from_str::<Line>(line).ok()?.session_id;
        Ok(head(&self.path)?.lines().find_map(stated))
    }

    /// The name of a conversation that has none of its own.
    pub(crate) fn stem(&self) -> String {
        self.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }
}

/// Which sessions are meant.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionFilter {
    /// Only those that were written to at this time or later.
    pub since: Option<SystemTime>,
    /// Only those of this working directory: its path, or the name of its last folder.
    pub project: Option<String>,
}

impl SessionFilter {
    /// Means all sessions.
    pub fn new() -> Self {
        Self::default()
    }

    fn takes(&self, path: &Path) -> io::Result<bool> {
        if let Some(since) = self.since
            && fs::metadata(path)?.modified()? < since
        {
            return Ok(false);
        }
        let Some(project) = &self.project else { return Ok(true) };
        match working_directory(path) {
            Ok(cwd) => Ok(cwd.is_some_and(|cwd| is_project(&cwd, project))),
            // It may be one of the project: the import reports that it cannot be read.
            Err(_) => Ok(true),
        }
    }
}

/// Whether a working directory is the one that is meant, or within it.
fn is_project(cwd: &str, project: &str) -> bool {
    let (cwd, project) = (Path::new(cwd), Path::new(project));
    if project.components().count() > 1 || project.is_absolute() {
        let whole = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
        return cwd.starts_with(whole);
    }
    cwd.file_name() == Some(project.as_os_str())
}

/// Lists the files of a tool that paths name: files as they are, folders with all files in them that
/// are named as the tool's or show by their bytes that they are. Empty files are none, and so are
/// databases of other programs. Links to folders are not followed.
///
/// # Errors
/// When a path is not there or a folder cannot be listed, with the path.
pub fn session_files(
    source: Source,
    paths: &[PathBuf],
    filter: &SessionFilter,
) -> Result<Vec<SessionFile>, (PathBuf, io::Error)> {
    let mut files = Vec::new();
    for path in paths {
        let error = |error| (path.clone(), error);
        if fs::metadata(path).map_err(error)?.is_dir() {
            if source == Source::OpenHands && detect::is_event_folder(path) {
                files.push(path.clone());
                continue;
            }
            let is_own = source.folders().contains(path);
            list(source, path, is_own, MAX_DEPTH, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    let all: HashSet<PathBuf> = files.iter().cloned().collect();
    files.retain(|path| match path.extension().and_then(OsStr::to_str) {
        // Of a file and its compressed form, the plain one is the newer.
        Some("zst") => !all.contains(&path.with_extension("")),
        // A document that was taken over into lines.
        Some("json") if source == Source::GeminiCli => !all.contains(&path.with_extension("jsonl")),
        _ => true,
    });
    // The events of a conversation, one a file, are one recording.
    if source == Source::OpenHands {
        for path in &mut files {
            if detect::is_event_file(path)
                && let Some(folder) = path.parent()
            {
                *path = folder.to_owned();
            }
        }
        files.dedup();
    }
    let mut meant = Vec::with_capacity(files.len());
    for path in files {
        match filter.takes(&path) {
            Ok(true) => meant.push(SessionFile::new(source, path)),
            Ok(false) => {}
            Err(error) => return Err((path, error)),
        }
    }
    Ok(meant)
}

/// Lists the files of a folder. In the tool's own folder, names tell which are its files.
fn list(
    source: Source,
    folder: &Path,
    is_own: bool,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), (PathBuf, io::Error)> {
    let error = |error| (folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(error)?);
        if kind.is_dir() && depth > 0 {
            list(source, &path, is_own, depth - 1, files)?;
        } else if !kind.is_dir() && is_of(source, &path, is_own) {
            let is_empty = entry.metadata().is_ok_and(|file| file.len() == 0);
            if !is_empty {
                files.push(path);
            }
        }
    }
    Ok(())
}

/// Whether a file in a folder is one of a tool.
fn is_of(source: Source, path: &Path, is_own: bool) -> bool {
    match source.takes(path) {
        true => is_own || !detect::is_other_database(path, source),
        false => {
            !is_own
                && path.is_file()
                && matches!(detect::detect(path), Ok(Some(found)) if found == source)
        }
    }
}

/// The first bytes of a file, unpacked where it is compressed, as text in which damage is replaced.
pub(crate) fn head(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_text(path)?.take(HEAD_BYTES).read_to_end(&mut bytes)?;
    // Line by line: damage to one of them says nothing of the next.
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| json::decode(line.trim_ascii()).text);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn working_directory(path: &Path) -> io::Result<Option<String>> {
    #[derive(Deserialize)]
    struct Head {
        cwd: Option<String>,
        payload: Option<Payload>,
    }
    #[derive(Deserialize)]
    struct Payload {
        cwd: Option<String>,
    }
    let of = |line: &str| {
        let head: Head = serde_json::from_str(line).ok()?;
        head.cwd.or_else(|| head.payload?.cwd)
    };
    if path.is_dir() {
        return Ok(None);
    }
    if let Some(folder) = head(path)?.lines().find_map(of) {
        return Ok(Some(folder));
    }
    // Gemini CLI writes the folder next to the chats.
    let marks = path.ancestors().skip(1).take(4).map(|folder| folder.join(".project_root"));
    let mut marks = marks.filter_map(|mark| fs::read_to_string(mark).ok());
    Ok(marks.next().map(|text| text.trim().to_owned()))
}
