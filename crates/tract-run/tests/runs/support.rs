use std::collections::VecDeque;
use std::future::{poll_fn, ready};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use tract_core::{
    Blob, ChatModel, CommitId, Content, Draft, DynTool, Message, ModelError, ModelRequest, RefName,
    Reply, StopReason, Store, ToolContext, ToolError, ToolResult, ToolSpec, Usage, block_on,
};
use tract_engine::{Repo, RepoOptions};
use tract_run::{Agent, IntoMessage, Progress, Report};
use tract_store_sqlite::SqliteOptions;
use tract_tools::typed::ClosureTool;
use tract_tools::{Registry, tool};

/// A model that says what it was given, one after the other, and keeps what it was asked.
#[derive(Default)]
pub(crate) struct Script {
    says: Mutex<VecDeque<Draft>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Script {
    pub(crate) fn new(says: impl IntoIterator<Item = Draft>) -> Arc<Self> {
        Arc::new(Self { says: Mutex::new(says.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn left(&self) -> usize {
        self.says.lock().unwrap().len()
    }

    /// The names of the tools of a request.
    pub(crate) fn offered(&self, place: usize) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests[place].tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// The text of a message of a request.
    pub(crate) fn read(&self, place: usize, message: usize) -> String {
        self.requests.lock().unwrap()[place].messages[message].content.text()
    }
}

#[async_trait]
impl ChatModel for Script {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        let next = self.says.lock().unwrap().pop_front();
        let draft = next.ok_or_else(|| ModelError::other("the script is at its end"))?;
        let mut reply = Reply {
            usage: Some(Usage::new(10, 5)),
            model: Some("scripted-1".to_owned()),
            ..Reply::new(draft.content)
        };
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

/// Makes a tool of a function that waits for nothing.
pub(crate) fn tool_of(
    spec: ToolSpec,
    run: impl Fn(&str, &ToolContext) -> Result<String, ToolError> + Send + Sync + 'static,
) -> Arc<dyn DynTool> {
    Arc::new(ClosureTool::new(spec, move |arguments, context| {
        ready(run(&arguments.to_string(), &context).map(ToolResult::<()>::done))
    }))
}

/// Looks.
#[tool(read_only)]
pub(crate) async fn look() -> &'static str {
    "seen"
}

pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(tract_kv::memory())
}

pub(crate) async fn repo_on(store: &Arc<dyn Store>) -> Repo {
    let repo = Repo::new(
        Arc::clone(store),
        RepoOptions { who: "tester".to_owned(), ..RepoOptions::default() },
    );
    repo.init().await.unwrap();
    repo
}

pub(crate) fn opened(store: &Arc<dyn Store>) -> Repo {
    block_on(repo_on(store))
}

/// An empty repository.
pub(crate) fn fresh() -> Repo {
    opened(&memory())
}

/// The same repository as another process has it.
pub(crate) fn reopened(repo: &Repo) -> Repo {
    opened(repo.store())
}

/// An agent on `main` whose model says these, one after the other.
pub(crate) fn agent_on(
    repo: &Repo,
    says: impl IntoIterator<Item = Draft>,
    tools: Registry,
) -> Agent {
    Agent::new(repo.clone(), main_branch(), Script::new(says), tools)
}

/// Runs an agent that has no reason to fail.
#[track_caller]
pub(crate) fn run(agent: &Agent, message: impl IntoMessage) -> Report {
    block_on(agent.run(message)).unwrap()
}

/// An agent that notes whom it waits for.
pub(crate) fn noting_holders(agent: Agent) -> (Agent, Arc<Mutex<Vec<String>>>) {
    let holders: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&holders);
    let agent = agent.on_progress(move |progress| {
        if let Progress::Held { by, .. } = progress {
            sink.lock().unwrap().push((*by).to_owned());
        }
    });
    (agent, holders)
}

pub(crate) fn head(repo: &Repo) -> CommitId {
    block_on(repo.head_of(&main_branch())).unwrap().unwrap()
}

/// An agent's message with one call.
pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Draft {
    Draft::assistant("").call(id, name, arguments)
}

/// Lets others run, so many times.
pub(crate) async fn pause(times: usize) {
    let mut polls = 0;
    poll_fn(|task| {
        polls += 1;
        task.waker().wake_by_ref();
        if polls > times { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Polls a run until its tool has begun; it may not end before.
pub(crate) async fn poll_until(mut run: Pin<&mut impl Future>, has_begun: impl Fn() -> bool) {
    poll_fn(|task| {
        assert!(run.as_mut().poll(task).is_pending());
        if has_begun() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Runs all at the same time, to their ends.
pub(crate) async fn run_all<F: Future<Output = ()>>(runs: impl IntoIterator<Item = F>) {
    let mut runs: Vec<_> = runs.into_iter().map(Box::pin).collect();
    poll_fn(|task| {
        runs.retain_mut(|run| run.as_mut().poll(task).is_pending());
        if runs.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Makes the run that works on a message look like one of another machine; one that is `silent`
/// has not renewed its lease.
pub(crate) fn move_to_another_machine(repo: &Repo, silent: bool) {
    for (name, blob) in block_on(repo.documents("effects/")).unwrap() {
        if !name.as_str().ends_with("/turn") {
            continue;
        }
        let mut doc: serde_json::Value = serde_json::from_slice(blob.bytes()).unwrap();
        doc["holder"]["process"] = "another".into();
        doc["holder"]["machine"] = "elsewhere".into();
        if silent {
            doc["until_us"] = 0.into();
        }
        let blob = Blob::seal(doc.to_string());
        block_on(repo.set_documents("test", vec![(name, blob)])).unwrap();
    }
}

/// A store in a file. A process that aborts loses nothing that the operating system has.
pub(crate) fn sqlite(folder: &Path) -> Arc<dyn Store> {
    let options =
        SqliteOptions { create: true, unsafe_lose_on_power_loss: true, ..SqliteOptions::default() };
    Arc::new(tract_store_sqlite::open(folder.join("tract.db"), &options).unwrap())
}

pub(crate) fn main_branch() -> RefName {
    RefName::branch("main").unwrap()
}

pub(crate) async fn messages(repo: &Repo) -> Vec<Message> {
    let head = repo.head_of(&main_branch()).await.unwrap();
    repo.compile(head).await.unwrap().messages().cloned().collect()
}

/// What is said on a branch, with the answers of tools.
pub(crate) fn texts_on(repo: &Repo, branch: &RefName) -> Vec<String> {
    let head = block_on(repo.head_of(branch)).unwrap();
    block_on(repo.compile(head)).unwrap().messages().map(line).collect()
}

/// What is said on `main`: each message as `role: text`, with its calls and, for a result, the
/// tool's name and id.
pub(crate) fn texts(repo: &Repo) -> Vec<String> {
    texts_on(repo, &main_branch())
}

/// The commit of a message on `main`.
pub(crate) fn commit_at(repo: &Repo, place: usize) -> CommitId {
    block_on(messages(repo))[place].commit
}

fn line(message: &Message) -> String {
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
