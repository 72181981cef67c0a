//! An agent whose model and tools give what was recorded, and persons who say what was recorded.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tract_core::{
    CancellationToken, ChatModel, Draft, DynTool, ModelError, ModelRequest, Reply, ReplyDelta,
    Store, ToolContext, ToolError, ToolResult, ToolSchema, ToolSpec, ToolTraits,
};
use tract_run::{Agent, OnResume, Report, RunError, Stop};
use tract_testkit::WatchedStore;
use tract_tools::dispatch::CallContext;
use tract_tools::typed::ClosureTool;
use tract_tools::{NoSchema, Registry};

use super::points::{AtWrites, Death, Point, ProcessLife};
use super::recording::Recording;
use crate::support::{main_branch, messages, repo_on};

/// What the model's refusal says after the last recorded word.
pub(crate) const AT_ITS_END: &str = "the recording is at its end";

/// Says the n-th recorded reply when n are in the context: so it continues after a restart.
pub(crate) struct Model(pub(crate) Arc<Recording>);

#[async_trait]
impl ChatModel for Model {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let entry = self.0.reply(spoken(request)).ok_or_else(|| ModelError::other(AT_ITS_END))?;
        let mut draft = Draft::assistant(&entry.text);
        for call in &entry.calls {
            draft = draft.call(&call.id, &call.name, &call.arguments);
        }
        Ok(Reply::new(draft.content))
    }
}

fn spoken(request: &ModelRequest) -> usize {
    request.messages.iter().filter(|message| message.role.as_str() == "assistant").count()
}

/// A model with a point before, one within and one after each answer.
struct InterruptibleModel {
    model: Arc<dyn ChatModel>,
    life: Arc<ProcessLife>,
}

#[async_trait]
impl ChatModel for InterruptibleModel {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        self.stream(request, &CancellationToken::new(), &mut |_| {}).await
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        cancellation: &CancellationToken,
        on_piece: &mut (dyn FnMut(ReplyDelta) + Send),
    ) -> Result<Reply, ModelError> {
        self.life.reach(Point::Ask).await;
        let mut began = false;
        let mut hear = |piece| {
            if !std::mem::replace(&mut began, true) {
                self.life.pass(Point::Heard);
            }
            on_piece(piece);
        };
        let reply = self.model.stream(request, cancellation, &mut hear).await?;
        self.life.set_requests(spoken(request) + 1);
        self.life.reach(Point::Told).await;
        Ok(reply)
    }
}

/// What tools have done to the world; it outlives the process.
#[derive(Debug)]
pub(crate) enum SideEffects {
    Here(Mutex<Vec<String>>),
    File(PathBuf),
}

impl SideEffects {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::Here(Mutex::default()))
    }

    fn add(&self, line: String) {
        match self {
            Self::Here(lines) => lines.lock().unwrap().push(line),
            Self::File(path) => {
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
            }
        }
    }

    /// What was done, one line for each time: how often the model had spoken, and the call's id.
    pub(crate) fn done(&self) -> Vec<String> {
        match self {
            Self::Here(lines) => lines.lock().unwrap().clone(),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => text.lines().map(str::to_owned).collect(),
                Err(_) => Vec::new(),
            },
        }
    }

    /// How often a call of the n-th reply has had its effect.
    pub(crate) fn times(&self, reply: usize, call_id: &str) -> usize {
        let line = format!("{reply} {call_id} ");
        self.done().iter().filter(|done| done.starts_with(&line)).count()
    }
}

/// What tools promise that do not merely look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tools {
    /// Nothing: what they do is done each time.
    Effects,
    /// They do nothing twice: the key of the call tells them what they have done. So an open call
    /// is run again.
    Idempotent,
}

/// Whether a tool of the airline merely looks.
pub(crate) fn looks(name: &str) -> bool {
    ["get_", "list_", "search_", "calculate", "think"].iter().any(|word| name.starts_with(word))
}

/// What an agent of a recording is made of; each life makes a fresh one.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) tools: Tools,
    pub(crate) world: Arc<SideEffects>,
}

impl Setting {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        model: Arc<dyn ChatModel>,
        recording: &Arc<Recording>,
    ) -> Self {
        Self {
            store,
            model,
            recording: Arc::clone(recording),
            tools: Tools::Effects,
            world: SideEffects::new(),
        }
    }

    fn registry(&self, life: &Arc<ProcessLife>) -> Registry {
        let simulated = |name: &str| -> Arc<dyn DynTool> {
            let (setting, life, looks) = (self.clone(), Arc::clone(life), looks(name));
            let traits = match self.tools {
                _ if looks => ToolTraits::READ_ONLY,
                Tools::Idempotent => ToolTraits { idempotent: true, ..ToolTraits::default() },
                Tools::Effects => ToolTraits::default(),
            };
            let spec =
                ToolSpec { traits, ..ToolSpec::new(name, "Simulated.", r#"{"type":"object"}"#) };
            Arc::new(ClosureTool::new(spec, move |_, context| {
                let (setting, life) = (setting.clone(), Arc::clone(&life));
                async move { setting.result(&context, &life, looks).await }
            }))
        };
        let mut builder = Registry::builder();
        let mut known = BTreeSet::new();
        for tool in &self.recording.conversation.tools {
            let schema = ToolSchema::parse(tool).unwrap();
            known.insert(schema.name().to_owned());
            let tool = builder.definition_with(tool, simulated(schema.name()));
            builder = tool.no_schema(NoSchema::Full);
        }
        let called = self.recording.messages.iter().flat_map(|entry| &entry.calls);
        for call in called {
            if known.insert(call.name.clone()) {
                builder = builder.dyn_tool(simulated(&call.name));
            }
        }
        builder.build().unwrap()
    }

    /// Gives the recorded result of a call, once it has had its effect.
    async fn result(
        &self,
        context: &ToolContext,
        life: &ProcessLife,
        looks: bool,
    ) -> Result<ToolResult<()>, ToolError> {
        let (id, reply) = (context.call_id(), life.requests());
        life.reach(Point::Act).await;
        if !looks {
            let key = context.idempotency_key();
            let key = key.ok_or_else(|| ToolError::other("the effect has no name"))?.to_string();
            let known = self.world.done().iter().any(|line| line.ends_with(&key));
            if self.tools == Tools::Effects || !known {
                self.world.add(format!("{reply} {id} {key}"));
            }
        }
        life.reach(Point::Acted).await;
        let found = self.recording.result(reply, id);
        let found = found.ok_or_else(|| ToolError::other("nothing was recorded"))?;
        Ok(ToolResult::done(&found.text))
    }

    /// An agent as a fresh process has it.
    pub(crate) async fn agent(&self, life: &Arc<ProcessLife>) -> Agent {
        let (store, life) = (Arc::clone(&self.store), Arc::clone(life));
        // What is made once is not part of a life.
        repo_on(&store).await;
        let registry = self.registry(&life);
        let model = InterruptibleModel { model: Arc::clone(&self.model), life: Arc::clone(&life) };
        let watched: Arc<dyn Store> = Arc::new(WatchedStore::new(store, AtWrites(life)));
        let on_resume = match self.tools {
            Tools::Effects => OnResume::Answer,
            Tools::Idempotent => OnResume::Run,
        };
        Agent::new(repo_on(&watched).await, main_branch(), Arc::new(model), registry)
            .on_resume(on_resume)
    }

    /// One life, from the branch as it is. Nothing when it was killed.
    pub(crate) async fn live(&self, life: &Arc<ProcessLife>) -> Option<Result<(), RunError>> {
        let agent = self.agent(life).await;
        super::points::lived(life, drive(&agent, &self.recording, life)).await
    }

    /// One life to the end.
    pub(crate) async fn live_on(&self) -> Arc<ProcessLife> {
        let life = ProcessLife::new(None, Death::Stopped);
        self.live(&life).await.expect("it is not killed").unwrap();
        life
    }
}

/// Says what persons said, where it is not on the branch yet, and lets the agent run in between.
async fn drive(agent: &Agent, recording: &Recording, life: &ProcessLife) -> Result<(), RunError> {
    let persons = |role: &str| matches!(role, "user" | "system");
    let there = messages(agent.repo()).await;
    let count = |wanted: &dyn Fn(&str) -> bool| {
        there.iter().filter(|message| wanted(message.role.as_str())).count()
    };
    life.set_requests(count(&|role| role == "assistant"));
    let (already, users) = (count(&persons), count(&|role| role == "user"));
    let mut left =
        recording.messages.iter().filter(|entry| persons(&entry.role)).skip(already).peekable();
    // The last word of a person, or the last result, has no answer.
    let ended = |report: Result<Report, RunError>, last: bool| match report {
        Ok(report) => {
            assert_eq!(report.stop, Stop::Answered);
            Ok(())
        }
        Err(RunError::Model { error, .. })
            if last
                && life.requests() == recording.replies()
                && error.to_string().contains(AT_ITS_END) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    };
    if users > 0 {
        ended(agent.run(None).await, left.peek().is_none())?;
    }
    while let Some(next) = left.next() {
        match next.role.as_str() {
            "system" => {
                agent.repo().append(&main_branch(), Draft::system(&next.text)).await?;
            }
            _ => {
                let report = agent.run(Some(Draft::user(&next.text))).await;
                ended(report, left.peek().is_none())?;
            }
        }
    }
    Ok(())
}
