//! Sessions of Claude Code: JSONL files, one per session, and one per subagent.
//!
//! The format is not documented and changes often; unknown types of lines are counted, never
//! refused. The files have neither system prompt nor tool definitions, and neither is made up: what
//! is compiled of such a branch is the conversation, not the request that was sent.

mod draft;
mod folder;
mod line;
mod place;
mod session;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tract_core::{JsonText, RefName};
use tract_engine::{Error, Repo};

pub use self::folder::{SessionFile, SessionFilter, home, session_files};
use self::session::SessionReader;
use crate::lines::{Line, Lines};
use crate::report::{AnomalyKind, SessionReport, TokenTotals};
use crate::tree::{BranchStart, TreeEvent};
use crate::writer::TreeWriter;

/// Where the branches of sessions are.
const PREFIX: &str = "claude-code/";

/// Imports session files, each with its branches.
///
/// # Behavior
/// - A file is read line by line; memory holds one line, the ids of the session's lines, and the
///   messages of one durable write.
/// - What a commit says is in its line alone, so importing again writes nothing, and a file that has
///   grown continues its branches, wherever it was cut.
/// - A branch that has other commits is left alone; the session gets a branch next to it.
/// - A file that cannot be read is reported in its place; the others are imported.
///
/// # Errors
/// When the store fails, or other writers kept moving the branches.
pub async fn import(
    repo: &Repo,
    files: &[SessionFile],
    mut each: impl FnMut(&Path, Result<SessionReport, io::Error>),
) -> crate::Result<()> {
    let mut writer = TreeWriter::new(repo)?;
    let mut callers: HashMap<(String, String), Caller> = HashMap::new();
    let mut waiting: Vec<PathBuf> = Vec::new();
    // A subagent's document names the call in its session, so sessions come first.
    let (agents, sessions): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.is_agent());
    for file in sessions.into_iter().chain(agents) {
        let path = file.path();
        let done = match File::open(path) {
            Ok(open) => {
                let reader = BufReader::with_capacity(1 << 16, open);
                read_session(&mut writer, reader, path, &mut callers).await
            }
            Err(error) => Err(ReadError::File(error)),
        };
        match done {
            Ok(done) => {
                waiting.push(path.to_owned());
                report(&mut waiting, done, &mut each);
            }
            Err(ReadError::File(error)) => {
                writer.forget();
                each(path, Err(error));
            }
            Err(ReadError::Engine(error)) => return Err(error.into()),
        }
    }
    let done = writer.finish().await?;
    report(&mut waiting, done, &mut each);
    Ok(())
}

fn report(
    waiting: &mut Vec<PathBuf>,
    done: Vec<SessionReport>,
    each: &mut impl FnMut(&Path, Result<SessionReport, io::Error>),
) {
    let count = done.len();
    for (path, report) in waiting.drain(..count).zip(done) {
        each(&path, Ok(report));
    }
}

/// Whether a text begins as a session file does: a line of Claude Code among its first ones.
pub fn is_session(text: &str) -> bool {
    text.lines().take(20).any(folder::is_session_line)
}

/// Why a session was not read.
enum ReadError {
    File(io::Error),
    Engine(Error),
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// The call that started a subagent.
#[derive(Clone, Debug, Serialize)]
struct Caller {
    id: String,
    branch: String,
}

/// What belongs to a branch and to no commit of it.
#[derive(Serialize)]
struct BranchDocument<'a> {
    format: &'a str,
    start: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a Caller>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<TokenTotals>,
}

async fn read_session(
    writer: &mut TreeWriter<'_>,
    reader: impl BufRead,
    path: &Path,
    callers: &mut HashMap<(String, String), Caller>,
) -> Result<Vec<SessionReport>, ReadError> {
    let mut lines = Lines::new(reader);
    let mut session = SessionReader::default();
    let mut starts: Vec<BranchStart> = Vec::new();
    let mut report = SessionReport::default();
    let mut number = 0;
    while let Some(line) = lines.next().map_err(ReadError::File)? {
        number += 1;
        let events = match line {
            Line::Whole { bytes, ended } => session.read(number, bytes, ended),
            Line::TooLong => {
                session.too_long(number);
                continue;
            }
        };
        for event in events {
            if let TreeEvent::Branch { start, .. } = &event {
                starts.push(start.clone());
            }
            writer.add(event, &mut report).await?;
        }
    }
    session.finish();
    let stem =
        path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let facts = &session.facts;
    let id = facts.session.clone().unwrap_or(stem);
    let name = match &facts.agent {
        Some(agent) => format!("{id}.agent-{agent}"),
        None => id.clone(),
    };
    let branch = format!("{PREFIX}{}", RefName::distinct(&name));
    let caller = facts.agent.as_ref().and_then(|agent| callers.get(&(id.clone(), agent.clone())));
    let mut documents = Vec::with_capacity(starts.len());
    for (number, start) in starts.iter().enumerate() {
        let tokens = (number == 0).then_some(session.report.tokens);
        let document = BranchDocument {
            format: "claude-code",
            start: start.as_str(),
            session: &id,
            agent: facts.agent.as_deref(),
            caller,
            title: session.report.title.as_deref(),
            cwd: facts.cwd.as_deref(),
            git_branch: facts.git_branch.as_deref(),
            version: facts.version.as_deref(),
            tokens,
        };
        let text = JsonText::of(&document)
            .map_err(|error| Error::Damaged { object: None, what: error.to_string() })?;
        documents.push(text);
    }
    let has_messages = !starts.is_empty();
    if facts.agent.is_some() && has_messages && caller.is_none() {
        let what = "no imported session has the call that started the subagent";
        session.report.anomalies.add(0, AnomalyKind::UnknownCaller, what);
    }
    for (agent, call) in &session.agents {
        let caller = Caller { id: call.clone(), branch: branch.clone() };
        callers.entry((id.clone(), agent.clone())).or_insert(caller);
    }
    let mut whole = std::mem::take(&mut session.report);
    whole.session = name;
    whole.absorb(report);
    Ok(writer.end(branch, documents, whole).await?)
}
