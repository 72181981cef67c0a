//! What is written on the branch before calls take effect, and before somebody decides.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tract_core::store::Walk;
use tract_core::{By, Commit, CommitId, Content, JsonText, Op, Origin, RefName};
use tract_engine::plan::{Details, Request};
use tract_engine::{Repo, WriteOptions};
use tract_tools::dispatch::{CallKey, CallStart, Journal};
use tract_tools::snapshot::BoxError;

use crate::error::{Result, RunError};

/// The origin of notes that mark calls as started.
const STARTED: &str = "run/started";
/// The origin of notes that say which calls wait, by what names their effect.
const DEFERRED: &str = "run/deferred";

#[derive(Serialize, Deserialize)]
struct Marks {
    calls: Vec<Mark>,
}

#[derive(Serialize, Deserialize)]
struct Mark {
    call_id: String,
    tool: String,
    key: CallKey,
}

fn note(origin: &str, message: &str, calls: Vec<Mark>) -> serde_json::Result<Request> {
    let details = Details {
        message: Some(format!("{message} {}", names(&calls))),
        origin: Origin { id: Some(origin.to_owned()), ..By::Tool.into() },
        ..Details::default()
    };
    Ok(Request::Note { content: Some(JsonText::of(&Marks { calls })?), details })
}

fn names(calls: &[Mark]) -> String {
    let names: Vec<String> =
        calls.iter().map(|call| format!("{} ({})", call.tool, call.call_id)).collect();
    names.join(", ")
}

/// Makes the note that says which calls wait.
pub(crate) fn deferred(
    calls: impl IntoIterator<Item = (String, String, CallKey)>,
) -> serde_json::Result<Request> {
    let mark = |(call_id, tool, key)| Mark { call_id, tool, key };
    note(DEFERRED, "waiting for approval of", calls.into_iter().map(mark).collect())
}

/// Marks calls as started, by a note on the branch: one durable write for all of a turn.
pub(crate) struct BranchJournal {
    pub(crate) repo: Repo,
    pub(crate) branch: RefName,
}

#[async_trait]
impl Journal for BranchJournal {
    async fn started(&self, calls: &[CallStart]) -> Result<(), BoxError> {
        let mark = |start: &CallStart| Mark {
            call_id: start.call_id.clone(),
            tool: start.tool_name.clone(),
            key: start.key,
        };
        let request = note(STARTED, "start of", calls.iter().map(mark).collect())?;
        let options = WriteOptions::new().what("start");
        self.repo.write(&self.branch, &[request], &options).await?;
        Ok(())
    }
}

/// What is marked on a line since a message.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// Calls that have started.
    pub(crate) started: BTreeMap<String, CallKey>,
    /// Calls that wait, or waited, for somebody to decide.
    pub(crate) deferred: BTreeMap<String, CallKey>,
}

impl Marked {
    /// Reads the marks between a head and a message.
    pub(crate) async fn since(repo: &Repo, head: CommitId, message: CommitId) -> Result<Self> {
        let mut marked = Self::default();
        let mut next = Some(head);
        while let Some(from) = next {
            let walk = Walk { until: Some(message), ..Walk::from(from) };
            let page = repo.store().walk(repo.name(), walk).await;
            let page = page.map_err(tract_engine::Error::from)?;
            for step in &page.steps {
                marked.take(repo, &step.commit).await?;
            }
            next = page.next;
        }
        Ok(marked)
    }

    async fn take(&mut self, repo: &Repo, commit: &Commit) -> Result<()> {
        if commit.op != Op::Note || commit.origin.by != By::Tool {
            return Ok(());
        }
        let into = match commit.origin.id.as_deref() {
            Some(STARTED) => &mut self.started,
            Some(DEFERRED) => &mut self.deferred,
            _ => return Ok(()),
        };
        let unreadable =
            || RunError::Unreadable { expected: "marks of calls", commit: commit.id() };
        let Content::Note(json) = repo.content_of(commit.id()).await? else {
            return Err(unreadable());
        };
        let marks: Marks = serde_json::from_str(json.as_str()).map_err(|_| unreadable())?;
        for mark in marks.calls {
            // Newest first: what was said last counts.
            into.entry(mark.call_id).or_insert(mark.key);
        }
        Ok(())
    }
}
