//! The state of tools as commits: a slice of state is a note that is edited in place, and each
//! event of a log is a separate note. So state forks and is reverted with its conversation.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tract_compile::History;
use tract_core::{
    AuthorKind, Change, Commit, CommitId, CommitRef, Content, Draft, JsonText, Kind, Op, Origin,
    Priority, RefName,
};
use tract_engine::Repo;
use tract_engine::plan::{Details, NewContent, Request};
use tract_tools::Session;
use tract_tools::session::SlicePolicy;

use crate::error::{Result, RunError};

/// Prefix of the origin of a slice's notes, before its name.
const SLICE: &str = "session/";

/// A slice that is not stored, because the answers of calls already contain their outcomes.
pub(crate) const ELSEWHERE: &str = "tool_invoked";

#[derive(Serialize, Deserialize)]
struct SliceNote {
    slice: String,
    items: Vec<JsonText>,
}

#[derive(Serialize, Deserialize)]
struct EventNote {
    event: String,
    item: JsonText,
}

/// The part of a session that a branch stores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    /// State by name: its row and its JSON.
    state: BTreeMap<String, (CommitId, JsonText)>,
    /// Number of stored events, by the name of the log.
    logs: BTreeMap<String, usize>,
}

/// The pending writes of a session, and the stored part after them.
#[derive(Default)]
pub(crate) struct SessionWrites {
    pub(crate) requests: Vec<Request>,
    states: Vec<(usize, String, JsonText)>,
    logs: Vec<(String, usize)>,
}

fn origin(name: &str) -> Origin {
    Origin { id: Some(format!("{SLICE}{name}")), ..AuthorKind::Tool.into() }
}

/// Parses the content of a note. Numbers keep all their digits.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    content: &Content,
    expected: &'static str,
    commit: CommitId,
) -> Result<T> {
    let unreadable = RunError::Unreadable { expected, commit };
    match content {
        Content::Note(json) => serde_json::from_str(json.as_str()).map_err(|_| unreadable),
        _ => Err(unreadable),
    }
}

impl Stored {
    /// Returns the changes of a session since it was last written.
    pub(crate) async fn unwritten(
        &self,
        repo: &Repo,
        branch: &RefName,
        session: &Session,
    ) -> Result<SessionWrites> {
        let from = |name: &str| self.logs.get(name).copied().unwrap_or(0);
        let mut unwritten = SessionWrites::default();
        for document in session.documents(from)? {
            let name = document.name;
            if name == ELSEWHERE {
                continue;
            }
            let details = |message: String| {
                let (message, origin) = (Some(message), origin(&name));
                Details { message, origin, ..Details::default() }
            };
            match document.policy {
                SlicePolicy::Log => {
                    for item in document.items {
                        let note = EventNote { event: name.clone(), item };
                        let details = details(format!("event {name}"));
                        let content = Some(JsonText::of(&note)?);
                        unwritten.requests.push(Request::Note { content, details });
                    }
                    unwritten.logs.push((name, document.length));
                }
                _ => {
                    let known = self.state.get(&name);
                    if known.is_none() && document.items.is_empty() {
                        continue;
                    }
                    let note = SliceNote { slice: name.clone(), items: document.items };
                    let text = JsonText::of(&note)?;
                    if known.is_some_and(|(_, known)| *known == text) {
                        continue;
                    }
                    let row = match known {
                        // The note was compressed or reverted, so the slice starts again with a new
                        // row.
                        Some((row, _)) => {
                            let history = repo.fold(repo.head_of(branch).await?).await?;
                            Some(*row).filter(|row| history.view().contains(*row))
                        }
                        None => None,
                    };
                    let content = Content::Note(text.clone());
                    let message = format!("state of {name}");
                    unwritten.states.push((unwritten.requests.len(), name.clone(), text));
                    unwritten.requests.push(match row {
                        Some(target) => Request::Edit {
                            target,
                            content: NewContent::Content(content),
                            details: details(message),
                        },
                        None => Request::Append(
                            Draft::new(content)
                                .message(message)
                                .priority(Priority::Skip)
                                .origin(origin(&name)),
                        ),
                    });
                }
            }
        }
        Ok(unwritten)
    }

    /// Records finished writes. The commits are those of the requests, in order.
    pub(crate) fn written(&mut self, unwritten: SessionWrites, commits: &[Commit]) {
        for (place, name, text) in unwritten.states {
            let Some(commit) = commits.get(place) else { continue };
            let row = match (&commit.op, self.state.get(&name)) {
                (Op::Edit { .. }, Some((row, _))) => *row,
                _ => commit.id(),
            };
            self.state.insert(name, (row, text));
        }
        self.logs.extend(unwritten.logs);
    }

    /// Reads the state that is stored at a head.
    pub(crate) async fn at(
        repo: &Repo,
        head: Option<CommitId>,
    ) -> Result<(Self, BTreeMap<String, JsonText>)> {
        let (mut stored, mut slices) = (Self::default(), BTreeMap::new());
        let Some(head) = head else { return Ok((stored, slices)) };
        let history = repo.fold(Some(head)).await?;
        let rows = slice_rows(repo, &history).await?;
        let session_commits = SessionCommits::of(repo, head).await?;
        for (row, note) in rows.into_iter().chain(session_commits.summarized(repo, &history).await?)
        {
            if slices.contains_key(&note.slice) {
                continue;
            }
            slices.insert(note.slice.clone(), JsonText::of(&note.items)?);
            stored.state.insert(note.slice.clone(), (row, JsonText::of(&note)?));
        }
        let mut logs: BTreeMap<String, Vec<JsonText>> = BTreeMap::new();
        for event in session_commits.events(repo).await? {
            logs.entry(event.event).or_default().push(event.item);
        }
        for (name, items) in logs {
            stored.logs.insert(name.clone(), items.len());
            slices.insert(name, JsonText::of(&items)?);
        }
        Ok((stored, slices))
    }
}

/// Returns the rows that contain slices of state.
async fn slice_rows(repo: &Repo, history: &History) -> Result<Vec<(CommitId, SliceNote)>> {
    let maybe: Vec<(CommitId, CommitId)> = history
        .view()
        .rows()
        .filter(|row| {
            let kind = history.fact(row.slot).and_then(|fact| fact.kind.as_ref());
            kind.is_none_or(|kind| *kind == Kind::Note)
        })
        .map(|row| (row.slot, row.version))
        .collect();
    let versions: Vec<CommitId> = maybe.iter().map(|(_, version)| *version).collect();
    let commits = repo.compiler().commits(&versions).await.map_err(tract_engine::Error::from)?;
    let mut rows = Vec::new();
    for ((slot, version), commit) in maybe.into_iter().zip(commits) {
        if commit.kind == Some(Kind::Note) && is_of_session(&commit) {
            rows.push((slot, slice_note(repo, version).await?));
        }
    }
    Ok(rows)
}

async fn slice_note(repo: &Repo, version: CommitId) -> Result<SliceNote> {
    read(&repo.content_of(version).await?, "a slice of a session", version)
}

fn is_of_session(commit: &Commit) -> bool {
    commit.origin.by == AuthorKind::Tool
        && commit.origin.id.as_deref().is_some_and(|id| id.starts_with(SLICE))
}

/// The state of a session, read from the commits of a history.
#[derive(Default)]
struct SessionCommits {
    /// Events of logs, newest first.
    events: Vec<CommitId>,
    /// Slices of state, by their original rows.
    rows: BTreeSet<CommitId>,
    /// Summaries that were made after a slice began, newest first.
    summaries: Vec<Commit>,
}

impl SessionCommits {
    async fn of(repo: &Repo, head: CommitId) -> Result<Self> {
        let mut session_commits = Self::default();
        let mut history = repo.history(head);
        while let Some(commit) = history.next().await? {
            match &commit.op {
                Op::Note if is_of_session(&commit) => session_commits.events.push(commit.id()),
                // A tool's answer also has the tool's name as its origin, which may equal that of a
                // slice.
                Op::Append { .. } if commit.kind == Some(Kind::Note) && is_of_session(&commit) => {
                    session_commits.rows.insert(commit.id());
                }
                Op::Compress { .. } => session_commits.summaries.push(commit),
                _ => {}
            }
        }
        Ok(session_commits)
    }

    /// Returns the events, oldest first.
    async fn events(&self, repo: &Repo) -> Result<Vec<EventNote>> {
        let mut events = Vec::with_capacity(self.events.len());
        for id in self.events.iter().rev() {
            let content = repo.content_of(*id).await?;
            events.push(read(&content, "an event of a session", *id)?);
        }
        Ok(events)
    }

    /// Returns the slices whose rows are under a summary: a summary shortens messages, but the
    /// state of tools is kept. Reverted slices are left out.
    async fn summarized(
        &self,
        repo: &Repo,
        history: &History,
    ) -> Result<Vec<(CommitId, SliceNote)>> {
        let lost = |slot: &CommitId| self.rows.contains(slot) && !history.view().contains(*slot);
        let mut found = Vec::new();
        for summary in &self.summaries {
            if self.rows.iter().all(|slot| !lost(slot)) {
                break;
            }
            for change in repo.changes(summary).await? {
                if let Change::Remove { slot: CommitRef::Id(slot), row } = change
                    && lost(&slot)
                    && let CommitRef::Id(version) = row.version
                {
                    found.push((slot, slice_note(repo, version).await?));
                }
            }
        }
        Ok(found)
    }
}

/// Reads the stored state of tools at a head: the items of each slice, by name.
///
/// # Errors
/// If the store fails, or a note does not have the form that runs write.
pub async fn stored_slices(
    repo: &Repo,
    head: Option<CommitId>,
) -> Result<BTreeMap<String, JsonText>> {
    Ok(Stored::at(repo, head).await?.1)
}

/// Sets a session to the state of the tools at a head.
///
/// # Errors
/// As [`stored_slices`], and if a slice cannot be read as its type.
pub async fn load_session(repo: &Repo, head: Option<CommitId>, session: &Session) -> Result<()> {
    let slices = stored_slices(repo, head).await?;
    Ok(session.from_json(&slices)?)
}
