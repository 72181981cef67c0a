//! Trajectories of SWE-agent: one document with the model's `history`.

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::document::{Conversation, Document};
use crate::facts::RunTotals;
use crate::object::Object;
use crate::report::TokenTotals;
use crate::values::{self, Metadata, Raw, lenient, model_config, recorded};

#[derive(Debug, Deserialize)]
struct Trajectory<'a> {
    #[serde(borrow)]
    history: Option<Vec<&'a RawValue>>,
    environment: Option<String>,
    #[serde(borrow)]
    info: Raw<'a>,
    #[serde(borrow)]
    replay_config: Raw<'a>,
}

/// The totals of a run, and its model.
#[derive(Debug, Default, Deserialize)]
struct RunInfo {
    #[serde(default, deserialize_with = "values::member")]
    model_stats: Option<ModelStats>,
}

#[derive(Debug, Default, Deserialize)]
struct ModelStats {
    instance_cost: Option<f64>,
    tokens_sent: Option<u64>,
    tokens_received: Option<u64>,
    api_calls: Option<u64>,
}

/// Reads the model from the config of the run, which is JSON or a JSON text.
fn model_of(config: Raw<'_>) -> Option<String> {
    let text = values::text(config);
    let config: serde_json::Value =
        serde_json::from_str(text.as_deref().or(config.map(RawValue::get))?).ok()?;
    let agent = config.get("agent").unwrap_or(&config);
    // Runs with retries list several agents, all with the same model: use the first one's.
    let models = agent.get("agent_configs").and_then(serde_json::Value::as_array);
    let agent = models.and_then(|agents| agents.first()).unwrap_or(agent);
    Some(agent.get("model")?.get("name")?.as_str()?.to_owned())
}

#[derive(Debug, Deserialize)]
struct HistoryItem<'a> {
    role: Option<String>,
    #[serde(borrow)]
    content: Raw<'a>,
    agent: Option<String>,
    message_type: Option<String>,
    #[serde(default, deserialize_with = "values::members")]
    tool_calls: Option<Vec<FunctionCall>>,
    #[serde(default, deserialize_with = "values::members")]
    tool_call_ids: Option<Vec<String>>,
    #[serde(borrow)]
    thinking_blocks: Raw<'a>,
}

/// A call in OpenAI's format.
#[derive(Debug, Deserialize)]
struct FunctionCall {
    id: Option<String>,
    #[serde(default, deserialize_with = "values::member")]
    function: Option<Function>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Function {
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "values::shown_member")]
    pub(crate) arguments: Option<String>,
}

/// Thinking in Anthropic's format.
#[derive(Debug, Deserialize)]
pub(crate) struct ThinkingBlock {
    pub(crate) thinking: Option<String>,
    pub(crate) signature: Option<String>,
    pub(crate) data: Option<String>,
}

impl ThinkingBlock {
    pub(crate) fn part(self) -> Part {
        let text = self.thinking.unwrap_or_default();
        Part::Reasoning { text, signature: self.signature, encrypted: self.data }
    }
}

/// Returns whether a document is a trajectory.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let is_typed = |raw: &&RawValue| {
        Object::of(Some(raw)).is_some_and(|item| item.text("message_type").is_some())
    };
    lenient::<Vec<&RawValue>>(members.raw("history"))
        .is_some_and(|history| members.has("trajectory") || history.iter().any(is_typed))
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let trajectory: Trajectory<'_> = values::read_record(bytes)?;
    let history = values::required(trajectory.history, "history")?;
    let mut conversation = Conversation::default();
    conversation.recording.report.lines = history.len();
    conversation.facts.environment = trajectory.environment;
    let model = model_of(trajectory.replay_config);
    let stats = lenient::<RunInfo>(trajectory.info).and_then(|info| info.model_stats);
    if let Some(stats) = stats {
        conversation.recording.report.tokens = TokenTotals {
            input: stats.tokens_sent.unwrap_or_default(),
            output: stats.tokens_received.unwrap_or_default(),
            ..TokenTotals::default()
        };
        let (requests, cost) = (stats.api_calls, stats.instance_cost);
        let run = RunTotals { model: model.clone(), requests, cost, by_answer: false };
        conversation.facts.run = Some(run);
    }
    for (n, raw) in history.into_iter().enumerate() {
        let number = n + 1;
        let Some(item) = lenient::<HistoryItem<'_>>(Some(raw)) else {
            conversation.recording.unreadable(number, "an entry of the history in no known shape");
            continue;
        };
        let parts = conversation.recording.content(number, item.content);
        for draft in drafts(&item, parts) {
            let mut draft = recorded(draft, None, None);
            let mut metadata = Metadata::default();
            metadata.set_some("message_type", item.message_type.as_deref());
            metadata.set_some("agent", item.agent.as_deref());
            draft.metadata = metadata.json();
            if matches!(draft.content, Content::Assistant(_)) {
                draft.generation_config = model_config(model.as_deref());
            }
            conversation.say(None, number, draft);
        }
        if item.role.as_deref() == Some("assistant") {
            conversation.recording.answer(model.as_deref(), None);
        }
        conversation.recording.end_answer(&conversation.cursor);
    }
    Ok(conversation.into())
}

fn drafts(item: &HistoryItem<'_>, parts: Vec<Part>) -> Vec<Draft> {
    let body = |parts| Body { parts, name: None };
    let some = |parts: Vec<Part>| if parts.is_empty() { vec![Part::text("")] } else { parts };
    match item.role.as_deref() {
        Some("system") => vec![Draft::new(Content::System(body(some(parts))))],
        Some("assistant") => {
            let mut draft = Draft::assistant("");
            let blocks: Vec<ThinkingBlock> =
                values::elements(values::given(item.thinking_blocks)).unwrap_or_default();
            draft = blocks.into_iter().map(ThinkingBlock::part).fold(draft, Draft::part);
            draft = parts.into_iter().fold(draft, Draft::part);
            for call in item.tool_calls.iter().flatten() {
                let id = call.id.clone().unwrap_or_default();
                let Function { name, arguments } = call.function.clone().unwrap_or_default();
                draft = draft.call(id, name.unwrap_or_default(), arguments.unwrap_or_default());
            }
            vec![draft]
        }
        Some("tool") if item.tool_call_ids.iter().flatten().next().is_some() => {
            let parts = some(parts);
            let result = |call_id: &String| {
                let (call_id, parts) = (call_id.clone(), parts.clone());
                let answer = ToolAnswer { call_id, name: None, is_error: false, parts };
                Draft::new(Content::ToolResult(answer))
            };
            item.tool_call_ids.iter().flatten().map(result).collect()
        }
        _ => vec![Draft::new(Content::User(body(some(parts))))],
    }
}
