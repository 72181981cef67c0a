use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tract_core::{
    ChatModel, Content, Draft, Message, ModelError, ModelRequest, RefName, Reply, StopReason,
    Store, Usage,
};
use tract_engine::{Repo, RepoOptions};

/// A model that says what it was given, one after the other, and keeps what it was asked.
#[derive(Default)]
pub(crate) struct Script {
    says: Mutex<VecDeque<Draft>>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
}

impl Script {
    pub(crate) fn new(says: impl IntoIterator<Item = Draft>) -> Arc<Self> {
        Arc::new(Self { says: Mutex::new(says.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn left(&self) -> usize {
        self.says.lock().unwrap().len()
    }
}

#[async_trait]
impl ChatModel for Script {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        let next = self.says.lock().unwrap().pop_front();
        let draft = next.ok_or_else(|| ModelError::other("the script is at its end"))?;
        let mut reply = Reply::new(draft.content).usage(Usage::new(10, 5)).model("scripted-1");
        reply.stop_reason = draft.metadata.as_ref().and_then(|metadata| {
            let metadata: serde_json::Value = serde_json::from_str(metadata.as_str()).unwrap();
            Some(match metadata["stop_reason"].as_str()? {
                "max_tokens" => StopReason::MaxTokens,
                "refusal" => StopReason::Refusal,
                "end_turn" => StopReason::EndTurn,
                other => StopReason::Other(other.to_owned()),
            })
        });
        Ok(reply)
    }
}

pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(tract_kv::memory())
}

pub(crate) async fn repo_on(store: &Arc<dyn Store>) -> Repo {
    let repo = Repo::new(Arc::clone(store), RepoOptions::new().who("tester"));
    if repo.ref_target(&RefName::head()).await.unwrap().is_none() {
        repo.init().await.unwrap();
    }
    repo
}

pub(crate) fn main_branch() -> RefName {
    RefName::branch("main").unwrap()
}

pub(crate) async fn messages(repo: &Repo) -> Vec<Message> {
    let head = repo.head_of(&main_branch()).await.unwrap();
    repo.compile(head).await.unwrap().messages().cloned().collect()
}

/// Each message as `role: text`, with its calls and, for a result, the tool's name and id.
pub(crate) fn said(messages: &[Message]) -> Vec<String> {
    messages.iter().map(line).collect()
}

pub(crate) fn line(message: &Message) -> String {
    let mut line = format!("{}: {}", message.role.as_str(), message.content.text());
    for call in message.content.calls() {
        line.push_str(&format!(" [{} {}({})]", call.id, call.name, call.arguments));
    }
    if let Content::ToolResult(answer) = &message.content {
        let failed = if answer.is_error { "!" } else { "" };
        line.push_str(&format!(
            " <{}{failed} {}>",
            answer.call_id,
            answer.name.as_deref().unwrap_or("?")
        ));
    }
    line
}
