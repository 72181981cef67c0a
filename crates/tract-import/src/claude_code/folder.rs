//! Where session files are, and which are meant.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

/// Bytes that are looked at to find out what a file is.
const HEAD_BYTES: u64 = 64 << 10;
/// Folders within folders that are searched.
const MAX_DEPTH: usize = 12;

/// A file that may be a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionFile {
    path: PathBuf,
}

impl SessionFile {
    /// Names a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is named as the files of subagents are.
    pub fn is_agent(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
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
        let cwd = working_directory(&head(path)?);
        Ok(cwd.is_some_and(|cwd| is_project(&cwd, project)))
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

/// Returns the folder that Claude Code keeps its sessions in: `projects` in the folder that
/// `CLAUDE_CONFIG_DIR` names, else in `.claude` of the home folder.
pub fn home() -> Option<PathBuf> {
    let set = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty());
    let base = set.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".claude")));
    Some(base?.join("projects"))
}

/// Lists the session files that paths name: files as they are, folders with all `.jsonl` files in
/// them. Empty files are none. Links to folders are not followed.
///
/// # Errors
/// When a path is not there or a folder cannot be listed, with the path.
pub fn session_files(
    paths: &[PathBuf],
    filter: &SessionFilter,
) -> Result<Vec<SessionFile>, (PathBuf, io::Error)> {
    let mut files = Vec::new();
    for path in paths {
        let error = |error| (path.clone(), error);
        if fs::metadata(path).map_err(error)?.is_dir() {
            list(path, MAX_DEPTH, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    let mut meant = Vec::with_capacity(files.len());
    for path in files {
        match filter.takes(&path) {
            Ok(true) => meant.push(SessionFile { path }),
            Ok(false) => {}
            Err(error) => return Err((path, error)),
        }
    }
    Ok(meant)
}

fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let error = |error| (folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(error)?);
        if kind.is_dir() && depth > 0 {
            list(&path, depth - 1, files)?;
        } else if path.extension() == Some(OsStr::new("jsonl")) && !kind.is_dir() {
            let is_empty = entry.metadata().is_ok_and(|file| file.len() == 0);
            if !is_empty {
                files.push(path);
            }
        }
    }
    Ok(())
}

fn head(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(rename = "type")]
    line_type: Option<String>,
    uuid: Option<String>,
    session_id: Option<String>,
    leaf_uuid: Option<String>,
    message_id: Option<String>,
    cwd: Option<String>,
}

fn working_directory(text: &str) -> Option<String> {
    text.lines().find_map(|line| serde_json::from_str::<Head>(line).ok()?.cwd)
}

/// Whether a line has what only Claude Code's lines have together.
pub(super) fn is_session_line(line: &str) -> bool {
    let Ok(head) = serde_json::from_str::<Head>(line) else { return false };
    match head.line_type.as_deref() {
        Some("user" | "assistant" | "system" | "progress" | "attachment") => {
            head.uuid.is_some() && head.session_id.is_some()
        }
        Some("summary") => head.leaf_uuid.is_some(),
        Some("file-history-snapshot") => head.message_id.is_some(),
        Some("queue-operation" | "permission-mode" | "last-prompt") => head.session_id.is_some(),
        _ => false,
    }
}
