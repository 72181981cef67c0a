//! Replays a recorded conversation with its recorded replies and results.

mod compare;
mod script;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use tract_core::{CallRef, CommitId, Content, Draft, Message, RefName};
use tract_engine::plan::Request;
use tract_engine::{Repo, RepoOptions};

use self::script::{Script, registry_of};
use crate::agent::Agent;
use crate::error::Result;
use crate::session::Stored;

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// The number of messages in the recording.
    pub messages: usize,
    /// The number of replayed model replies.
    pub replies: usize,
    /// The number of dispatched calls.
    pub calls: usize,
    /// The first difference between the replay and the recording.
    pub difference: Option<Difference>,
}

/// A place where two conversations differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The number of the message, from 1.
    pub message: usize,
    /// Its commit in the recording; `None` if there is none.
    pub commit: Option<CommitId>,
    /// The kind of difference: `message`, `role`, `text`, `calls`, `call`, `name`, `error`.
    pub what: &'static str,
    /// The recorded value.
    pub expected: String,
    /// The replayed value.
    pub found: String,
}

/// Replays the conversation at a head in a store of its own. Messages of people, instructions,
/// model replies and tool results are taken from the recording; this program parses the calls,
/// validates them against the tools in force, dispatches them and answers them. Returns the first
/// difference from the recording.
///
/// # Errors
/// If the recording cannot be read.
pub async fn replay(repo: &Repo, head: CommitId) -> Result<ReplayReport> {
    let recorded = repo.compiler().compile(Some(head)).await.map_err(tract_engine::Error::from)?;
    let scratch = Repo::new(Arc::new(tract_kv::memory()), RepoOptions::default());
    scratch.init().await?;
    let branch = RefName::branch("replay").map_err(tract_engine::Error::from)?;
    let mut replayed =
        ReplayReport { messages: recorded.message_count(), replies: 0, calls: 0, difference: None };
    let mut stored = Stored::default();
    let messages: Vec<&Message> = recorded.messages().collect();
    let mut answers: HashMap<CallRef, &Message> = HashMap::new();
    for message in &messages {
        if let Some(call) = message.answers {
            answers.entry(call).or_insert(message);
        }
    }
    // Messages whose calls were not all answered: the existing answers are copied unchanged.
    let mut unanswered = BTreeSet::new();
    for message in &messages {
        match &message.content {
            Content::ToolResult(_)
                if message.answers.is_some_and(|call| !unanswered.contains(&call.slot)) => {}
            content if content.calls().next().is_some() => {
                let Some(results) = results_of(&answers, message) else {
                    // A call without a recorded answer is not run, because there is nothing to
                    // answer it with.
                    unanswered.insert(message.slot);
                    scratch.append(&branch, draft_of(message)).await?;
                    continue;
                };
                let script = Arc::new(Script::new(message.content.clone(), &results));
                let tools = repo.tools_of(message.commit).await?;
                let registry = registry_of(&tools, &message.content, &script)?;
                let agent = Agent::new(scratch.clone(), branch.clone(), script, registry)
                    .keep_tools()
                    .keep_raw(false);
                let now = scratch.compile(scratch.head_of(&branch).await?).await?;
                let done = agent.ask(&mut stored, &now, 1).await?;
                replayed.replies += 1;
                replayed.calls += done.answers.len();
            }
            _ => {
                // Results without a call remain orphans.
                let request = match &message.content {
                    Content::ToolResult(_) if message.answers.is_none() => {
                        Request::Import(draft_of(message))
                    }
                    _ => Request::Append(draft_of(message)),
                };
                scratch.write_one(&branch, request).await?;
                replayed.replies += usize::from(matches!(message.content, Content::Assistant(_)));
            }
        }
    }
    let again = scratch.compile(scratch.head_of(&branch).await?).await?;
    replayed.difference = compare::first_difference(&messages, &again);
    Ok(replayed)
}

fn draft_of(message: &Message) -> Draft {
    let mut draft = Draft::new(message.content.clone()).priority(message.priority);
    draft.role = Some(message.role.clone());
    draft
}

/// Returns the result of each call, in call order, if all of them are shown.
fn results_of<'a>(
    answers: &HashMap<CallRef, &'a Message>,
    message: &Message,
) -> Option<Vec<&'a Message>> {
    let calls = (0u32..).zip(message.content.calls());
    calls.map(|(index, _)| answers.get(&CallRef { slot: message.slot, index }).copied()).collect()
}
