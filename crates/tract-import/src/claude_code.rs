//! Sessions of Claude Code: JSONL files, one per session, and one per subagent.
//!
//! The format is undocumented and changes often, so unknown line types are counted, never refused.
//! The files contain neither the system prompt nor tool definitions, and neither is made up: the
//! context of such a branch is the conversation, not the request that was sent.

mod boundary;
mod calls;
mod draft;
mod line;
mod place;
mod session;

use std::io::BufRead;
use std::path::Path;

use tract_core::RefName;

pub(crate) use self::line::is_session_line;
use self::session::SessionReader;
use crate::error::damaged;
use crate::facts::Caller;
use crate::import::{FileReader, ReadError};
use crate::lines::{Line, Lines};
use crate::readers::Source;
use crate::report::AnomalyKind;
use crate::tree::{BranchStart, TreeEvent};

/// Returns whether a line is the summary of a compaction.
pub(crate) fn is_compact_summary(text: &str) -> bool {
    serde_json::from_str::<line::Line<'_>>(text)
        .is_ok_and(|line| line.is_compact_summary == Some(true))
}

/// Reads a single line of a session. Returns its events.
pub(crate) fn line_events(text: &str) -> Vec<TreeEvent> {
    SessionReader::default().read(1, text.as_bytes(), true)
}

/// Reads a session and sends its events.
pub(crate) fn read_session(
    to: &mut FileReader,
    reader: impl BufRead,
    path: &Path,
) -> Result<(), ReadError> {
    let mut lines = Lines::new(reader);
    let mut session = SessionReader::default();
    let mut starts: Vec<BranchStart> = Vec::new();
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
            to.say(event)?;
        }
    }
    session.finish();
    let resumed = session.resumed();
    if let Some(branch) = resumed {
        starts.swap(0, branch);
        to.say(TreeEvent::Resumed { branch, suffix: session.first_suffix.clone() })?;
    }
    let resumed = resumed.unwrap_or_default();
    let stem =
        path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let facts = &mut session.facts;
    let id = facts.session.clone().unwrap_or(stem);
    let name = match &facts.agent {
        Some(agent) => format!("{id}.agent-{agent}"),
        None => id.clone(),
    };
    let source = Source::ClaudeCode.as_str();
    let branch = format!("{source}/{}", RefName::distinct(&name));
    facts.caller =
        facts.agent.as_ref().and_then(|agent| to.callers.ask((id.clone(), agent.clone())));
    let documents =
        facts.documents(source, &id, &starts, resumed, session.report.tokens).map_err(damaged)?;
    let has_messages = !starts.is_empty();
    if facts.agent.is_some() && has_messages && facts.caller.is_none() {
        let what = "no imported session has the call that started the subagent";
        session.report.anomalies.add(0, AnomalyKind::UnknownCaller, what);
    }
    for (agent, call) in &session.agents {
        let caller = Caller { id: call.clone(), branch: branch.clone() };
        to.callers.offer((id.clone(), agent.clone()), caller);
    }
    let mut whole = std::mem::take(&mut session.report);
    whole.session = name;
    to.end_conversation(path, branch, documents, whole)
}
