//! An agent of three calls, and what is left of its run.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tract::core::{ManualClock, ModelRequest};
use tract::hooks::{BeforeDispatch, DispatchAction, Hooks};
use tract::run::Agent;
use tract::tools::dispatch::{DispatchOptions, ToolInvoked};
use tract::tools::policy::{Decision, PolicyRequest};
use tract::tools::resource::{Binding, Resources};
use tract::tools::session::SliceOp;
use tract::tools::snapshot::{BoxError, SavedState, Snapshot};
use tract::tools::{
    CallContext as _, DynTool, EventType, Registry, RenderedValue, Session, SessionItem,
    ToolContext, ToolError, ToolResult, ToolSpec, ToolTraits,
};
use tract::{CancellationToken, ChatModel, Content, Draft, ModelError, Reply, Tract, block_on};

use super::trap::{Stage, spring};

/// What a tool tells: the id of its call.
#[derive(Clone, Debug)]
pub(super) struct CallIdEvent(String);

impl Serialize for CallIdEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        spring(Stage::Note, &self.0).map_err(S::Error::custom)?;
        serializer.serialize_str(&self.0)
    }
}

impl EventType for CallIdEvent {
    const KIND: &'static str = "noted";
}

/// What a tool gives: the id of its call.
#[derive(Clone, Debug, Serialize)]
struct CallIdOutput(String);

impl<'de> Deserialize<'de> for CallIdOutput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        spring(Stage::Deliver, &id).map_err(D::Error::custom)?;
        Ok(Self(id))
    }
}

impl SessionItem for CallIdOutput {
    const NAME: &'static str = "delivered";
}

/// How calls ended, as far as the session took it in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ended(String);

impl SessionItem for Ended {
    const NAME: &'static str = "ended";
}

/// What the tools have changed: put back when a call fails.
#[derive(Debug, Default)]
pub(super) struct SideEffects(Mutex<Vec<String>>);

impl Snapshot for SideEffects {
    fn name(&self) -> &str {
        "world"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        spring(Stage::Snapshot, "")?;
        Ok(SavedState::new(self.0.lock().unwrap().clone()))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        *self.0.lock().unwrap() = saved.take()?;
        Ok(())
    }
}

/// Made for the second call.
struct Lock;

/// A tool that changes the world, tells of it, and gives the id of its call.
struct EffectTool {
    name: &'static str,
    traits: ToolTraits,
    /// Where it leaves a trace that no one puts back.
    traces: Option<PathBuf>,
}

#[async_trait::async_trait]
impl DynTool for EffectTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            traits: self.traits,
            ..ToolSpec::new(self.name, "Does it.", r#"{"type":"object"}"#)
        }
    }

    async fn run(
        &self,
        _: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        let id = context.call_id();
        if let Some(path) = &self.traces {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{id}")?;
        }
        context.resources()?.get::<SideEffects>()?.0.lock().unwrap().push(id.to_owned());
        context.publish(CallIdEvent(id.to_owned()))?;
        if id == "c2" {
            context.resources()?.get::<Lock>()?;
        }
        let broke = |error: BoxError| ToolError::other("it broke").caused_by(error);
        spring(Stage::Handler, id).map_err(broke)?;
        Ok(ToolResult { message: format!("done {id}"), ..ToolResult::ok(RenderedValue::of(id)?) })
    }
}

/// A model that asks for the three calls once, and says that it is done when they are answered.
struct CallingModel(&'static str);

#[async_trait::async_trait]
impl ChatModel for CallingModel {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let last = request.messages.last().map(|message| &message.content);
        let draft = match last {
            Some(Content::ToolResult(_)) => Draft::assistant("done"),
            _ => Draft::assistant("")
                .call("c1", self.0, "{}")
                .call("c2", "act", "{}")
                .call("c3", "act", "{}"),
        };
        Ok(Reply::new(draft.content))
    }
}

/// Everything that a run uses.
pub(super) struct Fixture {
    pub(super) agent: Agent,
    pub(super) clock: ManualClock,
    pub(super) token: CancellationToken,
    pub(super) world: Arc<SideEffects>,
}

impl Fixture {
    /// Makes an agent on a handle's branch.
    pub(super) fn new(tract: &Tract, stage: Stage, traces: Option<PathBuf>) -> Self {
        let (clock, token) = (ManualClock::at_us(1_000_000), CancellationToken::new());
        let world = Arc::new(SideEffects::default());
        let session = Session::new();
        session.log::<Ended>().unwrap();
        for tool in ["put", "act"] {
            session.route::<CallIdOutput>(tool).unwrap();
        }
        session
            .on(|_: &[Ended], invoked: &ToolInvoked| {
                // A reducer says what becomes of its slice, and cannot fail but by a panic.
                let sprung = spring(Stage::Invoked, &invoked.call_id);
                sprung.unwrap_or_else(|error| panic!("{error}"));
                SliceOp::Append(Ended(format!("{} {}", invoked.call_id, invoked.outcome)))
            })
            .unwrap();
        let value = Arc::clone(&world);
        let world_binding = Binding::value(value)
            .snapshots(|world: &Arc<SideEffects>| Arc::clone(world) as Arc<dyn Snapshot>);
        let lock = Binding::per_call(|_| {
            spring(Stage::Provider, "c2")?;
            Ok::<_, BoxError>(Arc::new(Lock))
        });
        let lock = lock.close(|_| spring(Stage::CleanUp, "c2"));
        let resources = Resources::builder().bind(world_binding).bind(lock).build().unwrap();
        let does = |name, traits| EffectTool { name, traits, traces: traces.clone() };
        let registry = Registry::builder()
            .tool(does("put", ToolTraits { idempotent: true, ..ToolTraits::default() }))
            .tool(does("act", ToolTraits::default()))
            .build()
            .unwrap();
        let hooks = Hooks::new().time_limit(None).on_try("trap", |event: &BeforeDispatch| {
            let sprung = spring(Stage::Hook, &event.call.id);
            sprung.map(|()| DispatchAction::Pass).map_err(|error| error.to_string())
        });
        let context = ToolContext::new("")
            .with_clock(Arc::new(clock.clone()))
            .with_deadline_us(3_000_000_000);
        let agent = tract
            .with_hooks(hooks)
            .agent(Arc::new(CallingModel(stage.first_tool())), registry)
            .session(&session)
            .context(context)
            .cancellation(token.clone())
            .resources(Arc::new(resources))
            .dispatch_options(DispatchOptions {
                grace: Duration::ZERO,
                ..DispatchOptions::default()
            })
            .policy(|call: &PolicyRequest<'_>| match spring(Stage::Policy, call.call_id) {
                Ok(()) => Decision::Allow,
                Err(_) => Decision::deny("not this one"),
            });
        Self { agent, clock, token, world }
    }

    /// What was changed and not put back.
    pub(super) fn changed(&self) -> Vec<String> {
        self.world.0.lock().unwrap().clone()
    }
}

/// An answer on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliveredAnswer {
    pub(super) call: String,
    pub(super) is_error: bool,
    pub(super) text: String,
}

/// What a branch contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BranchContents {
    /// Who spoke, in order.
    pub(super) roles: Vec<String>,
    pub(super) answers: Vec<DeliveredAnswer>,
    /// What the session remembers, by slice.
    pub(super) noted: Vec<String>,
    pub(super) delivered: Vec<String>,
    pub(super) ended: Vec<String>,
}

impl BranchContents {
    pub(super) fn of(tract: &Tract) -> Self {
        let mut left = Self::default();
        let Some(head) = block_on(tract.head()).unwrap() else { return left };
        for message in block_on(tract.compile()).unwrap().messages() {
            left.roles.push(message.role.as_str().to_owned());
            if let Content::ToolResult(answer) = &message.content {
                left.answers.push(DeliveredAnswer {
                    call: answer.call_id.clone(),
                    is_error: answer.is_error,
                    text: message.content.text(),
                });
            }
        }
        let slices = block_on(tract::run::stored_slices(tract.repo(), Some(head))).unwrap();
        [left.noted, left.delivered, left.ended] = ["noted", "delivered", "ended"].map(|name| {
            let text = slices.get(name).map_or("[]", |items| items.as_str());
            serde_json::from_str(text).unwrap()
        });
        left
    }

    /// The calls that succeeded, by what the model reads.
    pub(super) fn succeeded(&self) -> Vec<String> {
        let answers = self.answers.iter().filter(|answer| !answer.is_error);
        answers.map(|answer| answer.call.clone()).collect()
    }
}
