//! Finds the recorded commit of a response or conversation that the provider keeps. Requests name
//! it instead of sending its messages again.

use std::collections::{HashMap, HashSet};

use tract_core::{Commit, CommitId, Content, JsonText, Kind, Op};
use tract_engine::{Branch, Repo, Result, log};

use crate::conversations::{PREFIX, is_damage};
use crate::read::RecordedTurn;

/// Number of commits per page when a branch is read.
const PAGE: usize = 256;

/// Prefix of the ids of responses that later requests may name.
const RESPONSE_ID: &str = "resp_";

/// Member of a note's content with the id of a response in progress.
const BACKGROUND: &str = "background_response";

/// The provider's id of stored state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ServerState {
    /// A response, by its id.
    Response(String),
    /// A conversation, which grows with each response.
    Conversation(String),
}

impl ServerState {
    /// Returns the response with this id; `None` if requests cannot name it.
    pub(crate) fn response(id: &str) -> Option<Self> {
        id.starts_with(RESPONSE_ID).then(|| Self::Response(id.to_owned()))
    }

    /// Returns the state that a request with these parameters continues.
    pub(crate) fn continued_by(parameters: &JsonText) -> Option<Self> {
        let id = |name| text_of(&member(parameters, name)?);
        id("previous_response_id").map(Self::Response).or_else(|| Self::conversation(parameters))
    }

    /// Returns the conversation that a request with these parameters belongs to.
    pub(crate) fn conversation(parameters: &JsonText) -> Option<Self> {
        let value = member(parameters, "conversation")?;
        let id = text_of(&value).or_else(|| text_of(value.get("id")?))?;
        Some(Self::Conversation(id))
    }
}

fn member(object: &JsonText, name: &str) -> Option<serde_json::Value> {
    let members = tract_core::json::split_object(object.as_str()).ok()?;
    let (_, raw) = members.into_iter().find(|(key, _)| key == name)?;
    serde_json::from_str(raw).ok()
}

fn text_of(value: &serde_json::Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A request whose answer is generated in the background and fetched later.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    pub(crate) parameters: JsonText,
    pub(crate) requested_at_us: i64,
}

impl PendingRequest {
    pub(crate) fn of(turn: &RecordedTurn) -> Self {
        let (parameters, requested_at_us) = (turn.parameters.clone(), turn.requested_at_us);
        Self { parameters, requested_at_us }
    }

    /// Returns the content of the note that is logged until the answer is fetched.
    pub(crate) fn note(&self, response: &str) -> serde_json::Value {
        let parameters: serde_json::Value =
            serde_json::from_str(self.parameters.as_str()).unwrap_or_default();
        serde_json::json!({ BACKGROUND: { "id": response, "parameters": parameters } })
    }

    fn from_note(content: &Content, requested_at_us: i64) -> Option<(String, Self)> {
        let text = content.text();
        let members = tract_core::json::split_object(&text).ok()?;
        let (_, raw) = members.into_iter().find(|(key, _)| key == BACKGROUND)?;
        let value: serde_json::Value = serde_json::from_str(raw).ok()?;
        let parameters = JsonText::of(value.get("parameters")?).ok()?;
        Some((text_of(value.get("id")?)?, Self { parameters, requested_at_us }))
    }
}

/// The recorded position of a provider's state.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) commit: CommitId,
    /// A branch that contains the commit: the one that ends with it, if there is one.
    pub(crate) branch: Branch,
    /// Set while the answer is not recorded.
    pub(crate) pending: Option<PendingRequest>,
}

#[derive(Debug)]
struct RecordedResponse {
    commit: CommitId,
    branch: String,
    at_us: i64,
    pending: Option<PendingRequest>,
}

/// The responses recorded in a store. Each commit is read once; a later search reads only newer
/// commits.
#[derive(Debug, Default)]
pub(crate) struct StoredResponses {
    read: HashSet<CommitId>,
    found: HashMap<ServerState, RecordedResponse>,
    /// The branch that ends with a message, by the message's commit.
    tips: HashMap<CommitId, String>,
    heads: HashMap<String, CommitId>,
}

impl StoredResponses {
    /// Finds the commit in which a state was recorded.
    pub(crate) async fn find(
        &mut self,
        repo: &Repo,
        state: &ServerState,
    ) -> Result<Option<Stored>> {
        let mut branches = repo.branches().await?;
        branches.retain(|branch| branch.name.starts_with(PREFIX));
        for branch in &branches {
            if self.heads.get(&branch.name) != Some(&branch.head) {
                match self.read_branch(repo, branch).await {
                    Err(error) if !is_damage(&error) => return Err(error),
                    // The commits after the damaged one are indexed.
                    Ok(()) | Err(_) => {}
                }
                self.heads.insert(branch.name.clone(), branch.head);
            }
        }
        let Some(found) = self.found.get(state) else { return Ok(None) };
        let name = self.tips.get(&found.commit).unwrap_or(&found.branch);
        let branch = branches.into_iter().find(|branch| branch.name == *name);
        Ok(branch.map(|branch| Stored {
            commit: found.commit,
            branch,
            pending: found.pending.clone(),
        }))
    }

    async fn read_branch(&mut self, repo: &Repo, branch: &Branch) -> Result<()> {
        let mut next = Some(branch.head);
        let mut is_at_tip = true;
        while let Some(head) = next {
            let page = log(repo, head, PAGE).await?;
            next = page.next;
            for commit in &page.commits {
                // Notes after the last message do not count: the message is still the last one.
                if is_at_tip {
                    self.tips.insert(commit.id(), branch.name.clone());
                    is_at_tip = commit.op == Op::Note;
                }
                if !self.read.insert(commit.id()) {
                    if !is_at_tip {
                        return Ok(());
                    }
                    continue;
                }
                self.read_commit(repo, branch, commit).await?;
            }
        }
        Ok(())
    }

    async fn read_commit(&mut self, repo: &Repo, branch: &Branch, commit: &Commit) -> Result<()> {
        let at_us = commit.created_at.unwrap_or_default();
        let mut add = |state: ServerState, pending: Option<PendingRequest>| {
            let found = RecordedResponse {
                commit: commit.id(),
                branch: branch.name.clone(),
                at_us,
                pending,
            };
            let is_newer = self.found.get(&state).is_none_or(|known| {
                // A complete answer replaces the note that it was in progress.
                (found.pending.is_none(), found.at_us) > (known.pending.is_none(), known.at_us)
            });
            if is_newer {
                self.found.insert(state, found);
            }
        };
        if commit.op == Op::Note {
            // A note in another format was not written by a recorder.
            let content = repo.content(commit).await.unwrap_or_default();
            let read = content.and_then(|content| PendingRequest::from_note(&content, at_us));
            if let Some((id, pending)) = read {
                add(ServerState::Response(id), Some(pending));
            }
            return Ok(());
        }
        if commit.kind != Some(Kind::Assistant) {
            return Ok(());
        }
        if let Some(state) = commit.origin.id.as_deref().and_then(ServerState::response) {
            add(state, None);
        }
        if let Some(state) = commit.generation_config.as_ref().and_then(ServerState::conversation) {
            add(state, None);
        }
        Ok(())
    }
}
