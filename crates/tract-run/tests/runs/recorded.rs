use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use tract_core::{
    Blob, ChatModel, Content, Draft, DynTool, JsonText, Message, ModelError, ModelRequest, RefName,
    RenderedValue, Reply, Store, ToolContext, ToolError, ToolResult, ToolSpec, ToolTraits,
    block_on,
};
use tract_run::{Agent, OnResume, Stop, replay};
use tract_testkit::data::{Conversation, conversations};
use tract_tools::{NoSchema, Registry};

use crate::support::{killed_after, main_branch, memory, messages, repo_on};

/// What the recording says, in the least words: role, text, calls or the call answered.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    role: String,
    /// Null, absent and empty are one.
    text: String,
    calls: Vec<(String, String, String)>,
    answers: Option<(String, Option<String>)>,
}

fn canonical(text: &str) -> String {
    JsonText::new(text).map_or_else(|_| text.to_owned(), |json| json.to_string())
}

fn recorded(message: &str) -> Said {
    let message: Value = serde_json::from_str(message).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
    let role = text(&message["role"]);
    let answers = (role == "tool")
        .then(|| (text(&message["tool_call_id"]), message["name"].as_str().map(str::to_owned)));
    Said {
        text: text(&message["content"]),
        calls: calls
            .iter()
            .map(|call| {
                let function = &call["function"];
                (text(&call["id"]), text(&function["name"]), text(&function["arguments"]))
            })
            .collect(),
        role,
        answers,
    }
}

fn compiled(message: &Message) -> Said {
    let calls = message.content.calls();
    let calls =
        calls.map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone())).collect();
    let answers = match &message.content {
        Content::ToolResult(answer) => Some((answer.call_id.clone(), answer.name.clone())),
        _ => None,
    };
    let (role, text) = (message.role.as_str().to_owned(), message.content.text());
    Said { role, text, calls, answers }
}

fn same(found: &Said, wanted: &Said) -> bool {
    let args = |said: &Said| -> Vec<(String, String, String)> {
        let calls = said.calls.iter();
        calls.map(|(id, name, text)| (id.clone(), name.clone(), canonical(text))).collect()
    };
    found.role == wanted.role
        && found.text == wanted.text
        && args(found) == args(wanted)
        && match (&found.answers, &wanted.answers) {
            (Some((id, name)), Some((wanted, named))) => {
                id == wanted && named.as_ref().is_none_or(|named| Some(named) == name.as_ref())
            }
            (None, None) => true,
            _ => false,
        }
}

/// A recorded conversation that every call is answered in, in call order.
struct Recording {
    id: String,
    said: Vec<Said>,
    tools: Vec<String>,
}

impl Recording {
    fn of(conversation: Conversation) -> Self {
        let said = conversation.messages.iter().map(|message| recorded(message)).collect();
        Self { id: conversation.id, said, tools: conversation.tools }
    }
}

/// Says the n-th recorded reply when n are in the context: so it goes on after a restart.
struct Model(Arc<Recording>);

#[async_trait]
impl ChatModel for Model {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let spoken = |role: &str| role == "assistant";
        let before = request.messages.iter().filter(|message| spoken(message.role.as_str()));
        let next = self.0.said.iter().filter(|said| spoken(&said.role)).nth(before.count());
        let said = next.ok_or_else(|| ModelError::other("the recording is at its end"))?;
        let mut draft = Draft::assistant(&said.text);
        for (id, name, arguments) in &said.calls {
            draft = draft.call(id, name, arguments);
        }
        Ok(Reply::new(draft.content))
    }
}

/// Whether a tool of the airline merely looks.
fn looks(name: &str) -> bool {
    ["get_", "list_", "search_", "calculate", "think"].iter().any(|word| name.starts_with(word))
}

/// Gives the recorded result of a call.
struct Simulated {
    name: String,
    traits: ToolTraits,
    recording: Arc<Recording>,
    /// The calls that were run, by id.
    ran: Arc<Mutex<HashMap<String, usize>>>,
}

#[async_trait]
impl DynTool for Simulated {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(&self.name, "Simulated.", r#"{"type":"object"}"#).traits(self.traits)
    }

    async fn run(
        &self,
        _: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        let id = context.call_id();
        // A tool that takes its time gives whoever kills the process one more place to do so.
        let mut waited = false;
        std::future::poll_fn(|task| {
            task.waker().wake_by_ref();
            match std::mem::replace(&mut waited, true) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        *self.ran.lock().unwrap().entry(id.to_owned()).or_default() += 1;
        let answers = |said: &&Said| said.answers.as_ref().is_some_and(|(call, _)| call == id);
        let found = self.recording.said.iter().find(answers);
        let found = found.ok_or_else(|| ToolError::other("nothing was recorded"))?;
        Ok(ToolResult::done(&found.text))
    }
}

type Ran = Arc<Mutex<HashMap<String, usize>>>;

fn registry(recording: &Arc<Recording>, traits: ToolTraits, ran: &Ran) -> Registry {
    let simulated = |name: &str| -> Arc<dyn DynTool> {
        Arc::new(Simulated {
            name: name.to_owned(),
            traits: if looks(name) { ToolTraits::new().read_only() } else { traits },
            recording: Arc::clone(recording),
            ran: Arc::clone(ran),
        })
    };
    let mut builder = Registry::builder();
    let mut known = BTreeSet::new();
    for tool in &recording.tools {
        let schema = tract_core::ToolSchema::parse(tool).unwrap();
        known.insert(schema.name().to_owned());
        builder = builder.definition_with(tool, simulated(schema.name())).no_schema(NoSchema::Full);
    }
    let called = recording.said.iter().flat_map(|said| &said.calls);
    for (_, name, _) in called {
        if known.insert(name.clone()) {
            builder = builder.dyn_tool(simulated(name));
        }
    }
    builder.build().unwrap()
}

/// An agent as a fresh process has it.
async fn fresh(
    store: &Arc<dyn Store>,
    recording: &Arc<Recording>,
    traits: ToolTraits,
    ran: &Ran,
) -> Agent {
    let model = Arc::new(Model(Arc::clone(recording)));
    let registry = registry(recording, traits, ran);
    Agent::new(repo_on(store).await, main_branch(), model, registry).on_resume(OnResume::Run)
}

/// Says what persons said, where it is not on the branch yet, and lets the agent run in between.
async fn drive(agent: &Agent, recording: &Recording) -> Result<(), tract_run::RunError> {
    let persons = |role: &str| matches!(role, "user" | "system");
    let there = messages(agent.repo()).await;
    let said = there.iter().filter(|message| persons(message.role.as_str())).count();
    let mut left = recording.said.iter().filter(|said| persons(&said.role)).skip(said).peekable();
    // Nobody answers the last word of a person.
    let ended = |report: Result<tract_run::Report, tract_run::RunError>, last: bool| match report {
        Ok(report) => {
            assert_eq!(report.stop, Stop::Answered);
            Ok(())
        }
        Err(error) if last && error.code() == "model_error" => Ok(()),
        Err(error) => Err(error),
    };
    if there.iter().any(|message| message.role.as_str() == "user") {
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

/// The recorded airline conversations, else those that are bundled; all that have a turn of tools.
fn recordings() -> Vec<Arc<Recording>> {
    let scale: usize =
        std::env::var("TRACT_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let all: Vec<Conversation> = conversations();
    let airline = |conversation: &Conversation| conversation.id.starts_with("tau-airline");
    let any = all.iter().any(airline);
    let mut chosen: Vec<Conversation> =
        all.into_iter().filter(|conversation| !any || airline(conversation)).collect();
    chosen.truncate(50 * scale);
    let mut recordings: Vec<Recording> = chosen.into_iter().map(Recording::of).collect();
    recordings.retain(drivable);
    assert!(!recordings.is_empty());
    recordings.into_iter().map(Arc::new).collect()
}

/// Whether persons and model take turns in it as agents and persons do: results right after their
/// calls and in their order, ids used once.
fn drivable(recording: &Recording) -> bool {
    let mut ids = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for said in &recording.said {
        match (said.role.as_str(), open.is_empty()) {
            ("tool", false) => {
                let (id, _) = said.answers.as_ref().unwrap();
                if open.remove(0) != id {
                    return false;
                }
            }
            ("assistant", true) if before == "user" || before == "tool" => {
                open = said.calls.iter().map(|(id, ..)| id.as_str()).collect();
                if !open.iter().all(|id| ids.insert(*id)) {
                    return false;
                }
            }
            ("user", true) if before != "user" => {}
            ("system", true) if before.is_empty() => {}
            _ => return false,
        }
        before = &said.role;
    }
    open.is_empty()
}

fn check(recording: &Recording, messages: &[Message]) {
    for (place, wanted) in recording.said.iter().enumerate() {
        let found = messages.get(place).map(compiled);
        assert!(
            found.as_ref().is_some_and(|found| same(found, wanted)),
            "{} message {}: expected {wanted:?}, found {found:?}",
            recording.id,
            place + 1
        );
    }
    assert_eq!(messages.len(), recording.said.len(), "{}", recording.id);
}

#[test]
fn recorded_conversations_run_to_what_was_recorded_and_replay() {
    let recordings = recordings();
    println!("{} conversations", recordings.len());
    for recording in recordings {
        block_on(async {
            let (store, ran) = (memory(), Ran::default());
            let agent = fresh(&store, &recording, ToolTraits::new(), &ran).await;
            drive(&agent, &recording).await.unwrap();
            check(&recording, &messages(agent.repo()).await);
            assert!(ran.lock().unwrap().values().all(|times| *times == 1));
            let head = agent.repo().head_of(&main_branch()).await.unwrap().unwrap();
            let replayed = replay(agent.repo(), head).await.unwrap();
            assert_eq!(replayed.difference, None, "{}", recording.id);
            assert_eq!(replayed.messages, recording.said.len());
            let results = recording.said.iter().filter(|said| said.role == "tool");
            assert_eq!(replayed.calls, results.count());
        });
    }
}

/// Waits until a write that was begun has happened: after a process is dead, none happens.
async fn settled(store: &Arc<dyn Store>) {
    static WRITES: AtomicUsize = AtomicUsize::new(0);
    let count = WRITES.fetch_add(1, Ordering::SeqCst).to_string();
    let name = RefName::new("config/test").unwrap();
    let repo = repo_on(store).await;
    repo.set_documents("settle", vec![(name, Blob::seal(count))]).await.unwrap();
}

/// Where a process is killed: a number of waits, drawn anew for each life.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        // A linear congruential generator is random enough to choose a place.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % most
    }
}

#[test]
fn killed_and_resumed_they_still_do() {
    let mut draws = Draws(20_251_122);
    let mut lives = 0;
    for recording in recordings().iter().take(20) {
        block_on(async {
            let (store, ran) = (memory(), Ran::default());
            // What changes nothing may run again.
            let traits = ToolTraits::new().idempotent();
            loop {
                lives += 1;
                let agent = fresh(&store, recording, traits, &ran).await;
                let waits = draws.below(12);
                match killed_after(waits, drive(&agent, recording)).await {
                    Some(done) => break done.unwrap(),
                    None => settled(&store).await,
                }
            }
            check(recording, &messages(&repo_on(&store).await).await);
        });
    }
    println!("{lives} lives");
    assert!(lives > recordings().len().min(20), "they are killed at all");
}

#[test]
fn killed_with_effects_every_call_has_one_answer_and_no_effect_is_repeated() {
    let mut draws = Draws(7);
    let (mut interrupted, mut not_executed) = (0, 0);
    for recording in recordings().iter().take(20) {
        block_on(async {
            let (store, ran) = (memory(), Ran::default());
            loop {
                let agent = fresh(&store, recording, ToolTraits::new(), &ran).await;
                let agent = agent.on_resume(OnResume::Answer);
                match killed_after(draws.below(12), drive(&agent, recording)).await {
                    Some(done) => break done.unwrap(),
                    None => settled(&store).await,
                }
            }
            let all = messages(&repo_on(&store).await).await;
            assert_eq!(all.len(), recording.said.len(), "{}", recording.id);
            let ran = ran.lock().unwrap();
            for (found, wanted) in all.iter().map(compiled).zip(&recording.said) {
                let Some((id, name)) = &wanted.answers else {
                    assert!(same(&found, wanted), "{}: {found:?}", recording.id);
                    continue;
                };
                assert_eq!(found.answers.as_ref().map(|(id, _)| id), Some(id));
                let times = ran.get(id).copied().unwrap_or(0);
                if found.text.starts_with("interrupted, outcome unknown") {
                    interrupted += 1;
                    assert!(times <= 1);
                    assert!(!name.as_deref().is_some_and(looks), "looking has no effect");
                } else if found.text.starts_with("not executed") {
                    not_executed += 1;
                    // What merely looked may have run, and its answer be lost.
                    assert!(times == 0 || name.as_deref().is_some_and(looks));
                } else {
                    assert!(same(&found, wanted), "{}: {found:?}", recording.id);
                    assert!(times == 1 || (times > 1 && name.as_deref().is_some_and(looks)));
                }
            }
        });
    }
    println!("{interrupted} interrupted, {not_executed} not executed");
    assert!(interrupted + not_executed > 0, "they are killed at all");
}

#[test]
fn a_replay_names_the_first_difference() {
    block_on(async {
        let store = memory();
        let repo = repo_on(&store).await;
        let tool = r#"{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}"#;
        let tool = tract_core::ToolSchema::parse(tool).unwrap();
        repo.set_tools(&main_branch(), vec![tool]).await.unwrap();
        let calls =
            Draft::assistant("").call("c1", "add", r#"{"a":1}"#).call("c2", "add", r#"{"a":"1"}"#);
        let drafts = [
            Draft::user("add"),
            calls,
            Draft::tool_result("c1", "1").tool_name("add"),
            // What took this call did not hold it against its schema.
            Draft::tool_result("c2", "1").tool_name("add"),
            Draft::assistant("2"),
        ];
        let made = repo.append_all(&main_branch(), drafts).await.unwrap();
        let replayed = replay(&repo, made[4].id()).await.unwrap();
        assert_eq!((replayed.messages, replayed.calls), (5, 2));
        let difference = replayed.difference.unwrap();
        assert_eq!((difference.message, difference.what), (4, "text"));
        assert_eq!(difference.commit, Some(made[3].id()));
        assert!(difference.found.contains("integer"), "{}", difference.found);
        // What came before is as it was.
        assert_eq!(replay(&repo, made[2].id()).await.unwrap().difference, None);
    });
}
