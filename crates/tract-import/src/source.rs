//! The files of supported tools: where they are, and which ones to read.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use tract_core::json;

use crate::lines::open_text;
use crate::readers::Source;

/// Number of bytes to read in search of the folder a session ran in.
const HEAD_BYTES: u64 = 64 << 10;
/// Maximum depth of searched folders.
pub(crate) const MAX_DEPTH: usize = 12;

/// A file that may contain conversations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionFile {
    source: Source,
    path: PathBuf,
    database: Option<DatabaseUrl>,
    channels: Vec<String>,
}

/// The url of a database. It may contain a password, so it is not shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DatabaseUrl(pub(crate) String);

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

impl SessionFile {
    /// Creates a reference to a file of a tool.
    pub fn new(source: Source, path: impl Into<PathBuf>) -> Self {
        Self { source, path: path.into(), database: None, channels: Vec::new() }
    }

    /// Creates a reference to a database on a PostgreSQL server, by its url. Only LangGraph's
    /// checkpoints can be read from one (feature `langgraph-postgres`); for other tools the import
    /// reports an error. `name` is its path in reports: the url without a password.
    pub fn database(source: Source, url: impl Into<String>, name: impl Into<PathBuf>) -> Self {
        let database = Some(DatabaseUrl(url.into()));
        Self { source, path: name.into(), database, channels: Vec::new() }
    }

    /// Sets the channels of LangGraph to read instead of a list of messages, each as `NAME` or
    /// `NAME:ROLE`, with `user` (the default), `assistant` or `system`. A message is added whenever
    /// the value of its channel changes.
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

    /// Returns whether its name is that of a Claude Code subagent's file.
    pub fn is_agent(&self) -> bool {
        self.source == Source::ClaudeCode
            && self
                .path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
    }

    /// Returns the id of the session of a Claude Code file, from its first lines; `None` if they
    /// lack it, and for files of other tools. The file of a subagent names the session that started
    /// it.
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

    /// Returns whether the file is a SQLite database.
    pub(crate) fn is_database(&self) -> io::Result<bool> {
        is_database(&self.path)
    }

    /// Returns the default name of a conversation.
    pub(crate) fn stem(&self) -> String {
        self.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }
}

/// Selects sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only those modified at this time or later.
    pub since: Option<SystemTime>,
    /// Only those of this working directory: its path, or the name of its last folder.
    pub project: Option<String>,
}

impl SessionFilter {
    /// Selects all sessions.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn takes(&self, path: &Path) -> io::Result<bool> {
        if let Some(since) = self.since
            && fs::metadata(path)?.modified()? < since
        {
            return Ok(false);
        }
        let Some(project) = &self.project else { return Ok(true) };
        match working_directory(path) {
            Ok(cwd) => Ok(cwd.is_some_and(|cwd| is_project(&cwd, project))),
            // It may belong to the project: the import reports that it cannot be read.
            Err(_) => Ok(true),
        }
    }
}

/// Returns whether a working directory is the project, or within it.
fn is_project(cwd: &str, project: &str) -> bool {
    let (cwd, project) = (Path::new(cwd), Path::new(project));
    if project.components().count() > 1 || project.is_absolute() {
        let whole = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
        return cwd.starts_with(whole);
    }
    cwd.file_name() == Some(project.as_os_str())
}

/// Reads the first bytes of a file, decompressed if necessary, as text in which damage is replaced.
pub(crate) fn head(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_text(path)?.take(HEAD_BYTES).read_to_end(&mut bytes)?;
    // Decode line by line, so that damage to one line does not affect the next.
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| json::decode(line.trim_ascii()).text);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns whether a file is a SQLite database.
pub(crate) fn is_database(path: &Path) -> io::Result<bool> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(16).read_to_end(&mut bytes)?;
    Ok(bytes.starts_with(b"SQLite format 3\0"))
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
