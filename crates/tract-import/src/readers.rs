//! The supported tools: one row for each.
//!
//! A row contains everything that depends on the tool: its words, the places of its files, how to
//! recognize a file, and the function that reads it. To support another tool, add a module with the
//! function and a row here; the command line, its help and the documentation read this table.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::value::RawValue;

use crate::import::{FileReader, ReadError};
#[cfg(feature = "inspect")]
use crate::inspect;
use crate::lines::open_text;
use crate::object::Object;
use crate::source::SessionFile;
use crate::{
    ai_sdk, aider, atif, chatgpt, claude_ai, claude_code, codex, copilot_cli, dataset, gemini_cli,
    goose, langchain, mini_swe_agent, open_hands, opencode, pydantic_ai, qwen_code, swe_agent,
    vscode_chat,
};
#[cfg(feature = "databases")]
use crate::{cursor, langgraph, openai_agents};

/// The row of a tool: how its recordings are found, recognized and read.
pub(crate) struct SessionReader {
    /// The word for the tool on a command line. Names of its branches begin with it.
    word: &'static str,
    /// The name that people know the tool by.
    title: &'static str,
    /// The folder of its files, in words; `None` for a format without a folder of its own.
    place: Option<&'static str>,
    /// The folders of its files, by the tool's own rules. They need not exist.
    folders: fn() -> Vec<PathBuf>,
    /// Returns whether a file in a folder may be the tool's, by its path and its name.
    pub(crate) takes: fn(&Path, &str) -> bool,
    /// Returns whether a binary file is the tool's, by its first bytes and its path.
    pub(crate) is_binary: fn(&[u8], &Path) -> bool,
    /// Returns whether a SQLite database is the tool's.
    pub(crate) is_database: fn(&Path) -> bool,
    /// Returns whether a line is the tool's.
    pub(crate) is_line: fn(&Object<'_>, &str) -> bool,
    /// Returns whether a text that is not JSON is the tool's, by its beginning.
    pub(crate) is_text: fn(&str) -> bool,
    /// Returns whether a document is the tool's.
    pub(crate) is_document: fn(&DocumentShape<'_>) -> bool,
    /// The order of this row's checks. The format of a fork (Qwen Code is one of Claude Code) has
    /// all members of the original and more, so it is compared first; a format that many programs
    /// write is compared last.
    pub(crate) precedence: Precedence,
    /// Returns the folder to read instead of a file, if the files of a folder are one recording.
    pub(crate) folder_of: fn(&Path) -> Option<PathBuf>,
    /// The extensions of an older and a newer form of one file: the older one is not read if both exist.
    pub(crate) replaced: Option<(&'static str, &'static str)>,
    /// Whether an unchanged file need not be read again. False if part of its content is in other
    /// files, such as a database's write-ahead log.
    pub(crate) is_whole: bool,
    /// Reads a file.
    pub(crate) read: fn(&mut FileReader, &SessionFile) -> Result<(), ReadError>,
}

/// The order in which rows are compared with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    Specific,
    Ordinary,
    General,
}

impl Precedence {
    /// All precedences, in order.
    const ALL: [Self; 3] = [Self::Specific, Self::Ordinary, Self::General];
}

/// The parts of a JSON document that identify its author.
pub(crate) struct DocumentShape<'a> {
    /// The document.
    pub(crate) raw: &'a RawValue,
    /// The document, or the first element of a list.
    pub(crate) first: Object<'a>,
    /// The elements of a list, else those of the member `messages`.
    pub(crate) entries: Vec<&'a RawValue>,
    /// Whether the document is a list.
    pub(crate) is_list: bool,
}

impl SessionReader {
    /// A row that recognizes nothing. The other rows override its fields.
    const NONE: Self = Self {
        word: "",
        title: "",
        place: None,
        folders: Vec::new,
        takes: |_, _| false,
        is_binary: |_, _| false,
        is_database: |_| false,
        is_line: |_, _| false,
        is_text: |_| false,
        is_document: |_| false,
        precedence: Precedence::Ordinary,
        folder_of: |_| None,
        replaced: None,
        is_whole: true,
        read: |_, file| Err(unsupported(file)),
    };
}

/// Returns the error of a build without the feature that reads a tool's files.
fn unsupported(file: &SessionFile) -> ReadError {
    let what = format!("this build does not read {}", file.source().title());
    ReadError::File(io::Error::new(io::ErrorKind::Unsupported, what))
}

/// Creates [`Source`] and its list from the rows.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$when:meta])* $field:ident: $value:expr),* $(,)? })*) => {
        /// A tool that records conversations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Source {
            $($(#[$doc])* $name,)*
        }

        impl Source {
            /// All tools.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            pub(crate) const fn reader(self) -> &'static SessionReader {
                match self {
                    $(Self::$name => {
                        const { &SessionReader { $($(#[$when])* $field: $value,)* ..SessionReader::NONE } }
                    })*
                }
            }
        }
    };
}

readers! {
    /// Claude Code: JSONL files, one per session and subagent.
    ClaudeCode {
        word: "claude-code",
        title: "Claude Code",
        place: Some("~/.claude/projects, or below CLAUDE_CONFIG_DIR"),
        folders: || {
            let base = folder("CLAUDE_CONFIG_DIR", ".claude");
            base.map(|base| base.join("projects")).into_iter().collect()
        },
        takes: |_, name| name.ends_with(".jsonl"),
        is_line: |_, line| claude_code::is_session_line(line),
        read: |reader, file| {
            claude_code::read_session(reader, open_text(file.path())?, file.path())
        },
    }
    /// Codex CLI: JSONL files, one per thread.
    Codex {
        word: "codex",
        title: "Codex CLI",
        place: Some("~/.codex/sessions, or below CODEX_HOME"),
        folders: || {
            let base = folder("CODEX_HOME", ".codex");
            let both = |base: PathBuf| ["sessions", "archived_sessions"].map(|f| base.join(f));
            base.map(both).into_iter().flatten().collect()
        },
        takes: |_, name| {
            (name.ends_with(".jsonl") || name.ends_with(".jsonl.zst")) && name != "history.jsonl"
        },
        is_line: |members, _| codex::is_one(members),
        read: |reader, file| {
            reader.lines(file, open_text(file.path())?, codex::CodexReader::default())
        },
    }
    /// Gemini CLI: JSONL files, and JSON documents before them.
    GeminiCli {
        word: "gemini-cli",
        title: "Gemini CLI",
        place: Some("~/.gemini/tmp, or .gemini/tmp below GEMINI_CLI_HOME"),
        folders: || {
            let set = std::env::var_os("GEMINI_CLI_HOME").filter(|folder| !folder.is_empty());
            let base = set.map(PathBuf::from).or_else(std::env::home_dir);
            base.map(|base| base.join(".gemini").join("tmp")).into_iter().collect()
        },
        takes: |path, name| is_below(path, &["chats"]) && is_json(name),
        is_line: |members, _| gemini_cli::is_one(members),
        is_document: |document| !document.is_list && gemini_cli::is_one(&document.first),
        replaced: Some(("json", "jsonl")),
        read: |reader, file| match file.path().extension().is_some_and(|end| end == "jsonl") {
            true => {
                let lines = open_text(file.path())?;
                reader.lines(file, lines, gemini_cli::GeminiReader::default())
            }
            false => reader.gemini_document(file),
        },
    }
    /// OpenAI's Agents SDK: tables of sessions in SQLite.
    OpenAiAgents {
        word: "openai-agents",
        title: "the OpenAI Agents SDK",
        takes: |_, name| is_database_name(name),
        #[cfg(feature = "databases")]
        is_database: openai_agents::is_one,
        is_whole: false,
        #[cfg(feature = "databases")]
        read: |reader, file| reader.conversations(file, openai_agents::read(file.path())?),
    }
    /// LangGraph: checkpoints in SQLite or PostgreSQL.
    LangGraph {
        word: "langgraph",
        title: "LangGraph",
        takes: |_, name| is_database_name(name),
        #[cfg(feature = "databases")]
        is_database: langgraph::sqlite::is_one,
        is_whole: false,
        #[cfg(feature = "databases")]
        read: |reader, file| {
            reader.conversations(file, langgraph::sqlite::read(file.path(), file.channels())?)
        },
    }
    /// Vercel AI SDK: messages as applications store them, in JSON.
    AiSdk {
        word: "ai-sdk",
        title: "the Vercel AI SDK",
        takes: |_, name| name.ends_with(".json"),
        is_document: |document| document.entries.iter().any(|raw| ai_sdk::is_one(raw)),
        read: |reader, file| reader.document(file, ai_sdk::read),
    }
    /// ATIF, the trajectory format of Harbor: JSON.
    Atif {
        word: "atif",
        title: "ATIF",
        takes: |_, name| name.ends_with(".json"),
        is_document: |document| !document.is_list && atif::is_one(&document.first),
        read: |reader, file| reader.document(file, atif::read),
    }
    /// SWE-agent: a JSON document per run.
    SweAgent {
        word: "swe-agent",
        title: "SWE-agent",
        takes: |_, name| name.ends_with(".traj"),
        is_document: |document| !document.is_list && swe_agent::is_one(&document.first),
        read: |reader, file| reader.document(file, swe_agent::read),
    }
    /// OpenHands: events in JSON.
    OpenHands {
        word: "openhands",
        title: "OpenHands",
        takes: |_, name| is_json(name) && name != "base_state.json",
        is_line: |members, _| open_hands::is_event(members),
        is_document: |document| document.entries.iter().any(|raw| open_hands::is_entry(raw)),
        folder_of: open_hands::event_folder_of,
        read: FileReader::open_hands,
    }
    /// Inspect: a zip per run.
    Inspect {
        word: "inspect",
        title: "Inspect",
        takes: |_, name| name.ends_with(".eval"),
        is_binary: |start, path| {
            start.starts_with(b"PK\x03\x04") && path.extension().is_some_and(|end| end == "eval")
        },
        #[cfg(feature = "inspect")]
        read: |reader, file| reader.conversations(file, inspect::read(file.path())?),
    }
    /// ChatGPT: an export, `conversations.json`.
    ChatGpt {
        word: "chatgpt",
        title: "ChatGPT",
        takes: |_, name| name.ends_with(".json"),
        is_document: |document| chatgpt::is_one(&document.first),
        precedence: Precedence::Specific,
        read: |reader, file| reader.document(file, chatgpt::read),
    }
    /// Claude.ai: an export, `conversations.json`.
    ClaudeAi {
        word: "claude-ai",
        title: "Claude.ai",
        takes: |_, name| name.ends_with(".json"),
        is_document: |document| claude_ai::is_one(&document.first),
        precedence: Precedence::Specific,
        read: |reader, file| reader.document(file, claude_ai::read),
    }
    /// pydantic-ai: lists of messages in JSON.
    PydanticAi {
        word: "pydantic-ai",
        title: "pydantic-ai",
        takes: |_, name| name.ends_with(".json"),
        is_document: |document| {
            let inner = document.entries.first().and_then(|raw| Object::of(Some(raw)));
            pydantic_ai::is_one(&document.first)
                || inner.is_some_and(|message| pydantic_ai::is_one(&message))
        },
        precedence: Precedence::Specific,
        read: |reader, file| reader.document(file, pydantic_ai::read),
    }
    /// LangChain: messages in JSON, and runs of LangSmith.
    LangChain {
        word: "langchain",
        title: "LangChain",
        takes: |_, name| is_json(name),
        is_line: |members, _| langchain::is_run(members),
        is_document: |document| langchain::is_one(document.raw),
        precedence: Precedence::Specific,
        read: |reader, file| reader.document(file, langchain::read),
    }
    /// Datasets of conversations, such as ShareGPT and xLAM: JSON.
    Dataset {
        word: "dataset",
        title: "datasets of conversations",
        takes: |_, name| is_json(name),
        is_line: |members, _| dataset::is_one(members),
        is_document: |document| dataset::is_one(&document.first),
        precedence: Precedence::General,
        read: |reader, file| {
            let stem = file.stem();
            reader.document(file, |bytes| dataset::read(bytes, &stem))
        },
    }
    /// OpenCode: a database, or a file for each session, message and part.
    OpenCode {
        word: "opencode",
        title: "OpenCode",
        place: Some("~/.local/share/opencode, or opencode below XDG_DATA_HOME"),
        folders: || data_folder("opencode"),
        takes: |path, name| {
            is_database_name(name) && name != "auth.db" || opencode::tree::is_session_file(path)
        },
        #[cfg(feature = "databases")]
        is_database: opencode::sqlite::is_one,
        is_document: |document| {
            opencode::is_one(&document.first) || opencode::tree::is_one(&document.first)
        },
        precedence: Precedence::Specific,
        // A session has its messages in other files.
        is_whole: false,
        read: |reader, file| match file.is_database()? {
            #[cfg(feature = "databases")]
            true => opencode::sqlite::read(file.path(), |one| reader.conversation(file, one)),
            #[cfg(not(feature = "databases"))]
            true => Err(unsupported(file)),
            false if opencode::tree::is_session_file(file.path()) => {
                reader.conversations(file, opencode::tree::read(file.path())?.into())
            }
            false => reader.document(file, opencode::read),
        },
    }
    /// mini-swe-agent: a JSON document per run.
    MiniSweAgent {
        word: "mini-swe-agent",
        title: "mini-swe-agent",
        takes: |_, name| name.ends_with(".traj.json"),
        is_document: |document| mini_swe_agent::is_one(&document.first),
        precedence: Precedence::Specific,
        read: |reader, file| reader.document(file, mini_swe_agent::read),
    }
    /// Aider: a file of Markdown with the chats of a folder.
    Aider {
        word: "aider",
        title: "Aider",
        takes: |_, name| name == ".aider.chat.history.md" || name == "aider.chat.history.md",
        is_text: aider::is_one,
        read: |reader, file| reader.text(file, aider::read),
    }
    /// GitHub Copilot CLI: JSONL files of events, one per session.
    CopilotCli {
        word: "copilot-cli",
        title: "GitHub Copilot CLI",
        place: Some("~/.copilot/session-state"),
        folders: || home(".copilot").map(|f| f.join("session-state")).into_iter().collect(),
        takes: |_, name| name.ends_with(".jsonl"),
        is_line: |members, _| copilot_cli::is_one(members),
        precedence: Precedence::Specific,
        read: |reader, file| {
            reader.lines(file, open_text(file.path())?, copilot_cli::CopilotReader::default())
        },
    }
    /// The chat of VS Code: JSON documents, and JSONL files of changes.
    VsCodeChat {
        word: "vscode-chat",
        title: "the chat of VS Code",
        place: Some("Code/User/workspaceStorage in the folder for settings"),
        folders: || user_folder("Code").map(|f| f.join("workspaceStorage")).into_iter().collect(),
        takes: |path, name| {
            let folder = path.parent().and_then(Path::file_name);
            let is_chat = folder == Some("chatSessions".as_ref())
                || folder == Some("emptyWindowChatSessions".as_ref());
            is_chat && is_json(name)
        },
        is_line: |members, _| vscode_chat::is_one(members),
        is_document: |document| vscode_chat::is_one(&document.first),
        precedence: Precedence::Specific,
        read: |reader, file| reader.document(file, vscode_chat::read),
    }
    /// Goose: a database, and JSONL files before it.
    Goose {
        word: "goose",
        title: "Goose",
        place: Some("~/.local/share/goose/sessions, or below XDG_DATA_HOME"),
        folders: || data_folder("goose").into_iter().map(|f| f.join("sessions")).collect(),
        takes: |_, name| is_database_name(name) || name.ends_with(".jsonl"),
        #[cfg(feature = "databases")]
        is_database: goose::sqlite::is_one,
        is_line: |members, _| goose::is_one(members),
        precedence: Precedence::Specific,
        is_whole: false,
        read: |reader, file| match file.is_database()? {
            #[cfg(feature = "databases")]
            true => goose::sqlite::read(file.path(), |one| reader.conversation(file, one)),
            #[cfg(not(feature = "databases"))]
            true => Err(unsupported(file)),
            false => reader.lines(file, open_text(file.path())?, goose::GooseReader::default()),
        },
    }
    /// Qwen Code: JSONL files, one per session.
    QwenCode {
        word: "qwen-code",
        title: "Qwen Code",
        place: Some("~/.qwen/projects"),
        folders: || home(".qwen").map(|f| f.join("projects")).into_iter().collect(),
        takes: |_, name| name.ends_with(".jsonl"),
        is_line: |members, _| qwen_code::is_one(members),
        precedence: Precedence::Specific,
        read: |reader, file| {
            reader.lines(file, open_text(file.path())?, qwen_code::QwenReader::default())
        },
    }
    /// Cursor: a database of keys and values.
    Cursor {
        word: "cursor",
        title: "Cursor",
        place: Some("Cursor/User/globalStorage in the folder for settings"),
        folders: || user_folder("Cursor").map(|f| f.join("globalStorage")).into_iter().collect(),
        takes: |_, name| name.ends_with(".vscdb"),
        #[cfg(feature = "databases")]
        is_database: cursor::is_one,
        is_whole: false,
        #[cfg(feature = "databases")]
        read: |reader, file| cursor::read(file.path(), |one| reader.conversation(file, one)),
    }
}

impl Source {
    /// Returns the word for the tool. Names of its branches begin with it.
    pub const fn as_str(self) -> &'static str {
        self.reader().word
    }

    /// Returns the name that people know the tool by.
    pub const fn title(self) -> &'static str {
        self.reader().title
    }

    /// Returns the folders of the tool's files, by its own rules; empty for a format without a
    /// folder of its own. They may not exist.
    pub fn folders(self) -> Vec<PathBuf> {
        (self.reader().folders)()
    }

    /// Returns the folder of the tool's files in words; `None` for a format without one.
    pub const fn place(self) -> Option<&'static str> {
        self.reader().place
    }

    /// Returns the first tool whose row passes a check, in the order of [`Precedence`].
    pub(crate) fn find(check: impl Fn(&SessionReader) -> bool) -> Option<Self> {
        Precedence::ALL.into_iter().find_map(|precedence| {
            let mut rows = Self::ALL.iter().copied();
            rows.find(|source| {
                let reader = source.reader();
                reader.precedence == precedence && check(reader)
            })
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a word that is not the name of a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown source {0:?}")]
pub struct UnknownSource(pub String);

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(word: &str) -> Result<Self, UnknownSource> {
        let source = Self::ALL.iter().find(|source| source.as_str() == word);
        source.copied().ok_or_else(|| UnknownSource(word.to_owned()))
    }
}

fn is_database_name(name: &str) -> bool {
    [".db", ".sqlite", ".sqlite3"].iter().any(|end| name.ends_with(end))
}

fn is_json(name: &str) -> bool {
    name.ends_with(".json") || name.ends_with(".jsonl")
}

/// Returns whether a file is below a folder with one of these names.
fn is_below(path: &Path, names: &[&str]) -> bool {
    let mut folders = path.ancestors().filter_map(Path::file_name);
    folders.any(|folder| names.iter().any(|name| folder == *name))
}

fn home(name: &str) -> Option<PathBuf> {
    Some(std::env::home_dir()?.join(name))
}

/// Returns the folder of a program in the user's data folder.
fn data_folder(name: &str) -> Vec<PathBuf> {
    let set = std::env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty());
    let base = set.map(PathBuf::from).or_else(|| home(".local/share"));
    base.map(|base| base.join(name)).into_iter().collect()
}

/// Returns the user's folder of VS Code, or of a program derived from it.
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
    set.map(PathBuf::from).or_else(|| home(name))
}
