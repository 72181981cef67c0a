//! Trajectories in ATIF, the Agent Trajectory Interchange Format of Harbor: a JSON document.

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer, ToolSchema};

use crate::document::{Conversation, Document};
use crate::object::Object;
use crate::report::TokenTotals;
use crate::values::{self, Metadata, Raw, canonical, lenient, model_config, recorded};

/// Maximum nesting depth of subagent trajectories.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Deserialize)]
struct Trajectory<'a> {
    session_id: Option<String>,
    trajectory_id: Option<String>,
    #[serde(default, borrow, deserialize_with = "values::member")]
    agent: Option<Agent<'a>>,
    #[serde(borrow)]
    steps: Option<Vec<&'a RawValue>>,
    notes: Option<String>,
    #[serde(borrow)]
    subagent_trajectories: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Agent<'a> {
    version: Option<String>,
    model_name: Option<String>,
    #[serde(borrow)]
    tool_definitions: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Step<'a> {
    step_id: Option<u64>,
    source: Option<String>,
    #[serde(borrow)]
    message: Raw<'a>,
    timestamp: Option<String>,
    model_name: Option<String>,
    reasoning_content: Option<String>,
    #[serde(default, borrow, deserialize_with = "values::members")]
    tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(default, borrow, deserialize_with = "values::member")]
    observation: Option<Observation<'a>>,
    #[serde(default, deserialize_with = "values::member")]
    metrics: Option<Metrics>,
    is_copied_context: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct ToolCall<'a> {
    tool_call_id: Option<String>,
    function_name: Option<String>,
    #[serde(borrow)]
    arguments: Raw<'a>,
}

#[derive(Debug, Deserialize)]
struct Observation<'a> {
    #[serde(default, borrow, deserialize_with = "values::members")]
    results: Option<Vec<ObservedResult<'a>>>,
}

#[derive(Debug, Deserialize)]
struct ObservedResult<'a> {
    source_call_id: Option<String>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    extra: Raw<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Metrics {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    cached_tokens: Option<u64>,
}

/// Returns whether a document is a trajectory.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let version = members.text("schema_version").unwrap_or_default();
    version.starts_with("ATIF") && members.has("steps")
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let trajectory: Trajectory<'_> = values::read_record(bytes)?;
    let mut all = Vec::new();
    values::required(trajectory.steps.as_ref(), "steps")?;
    add(&trajectory, None, MAX_DEPTH, &mut all);
    Ok(all)
}

fn add(trajectory: &Trajectory<'_>, parent: Option<&str>, depth: usize, all: &mut Document) {
    let mut conversation = Conversation::default();
    let own = trajectory.session_id.clone().or_else(|| trajectory.trajectory_id.clone());
    conversation.facts.session = parent.map(str::to_owned).or_else(|| own.clone());
    conversation.facts.title.clone_from(&trajectory.notes);
    conversation.recording.is_agent = parent.is_some();
    if parent.is_some() {
        let name = trajectory.trajectory_id.clone().or_else(|| trajectory.session_id.clone());
        let name = name.unwrap_or_else(|| all.len().to_string());
        conversation.facts.agent = Some(format!("agent-{name}"));
    }
    let agent = trajectory.agent.as_ref();
    conversation.facts.version = agent.and_then(|agent| agent.version.clone());
    let definitions = agent.and_then(|agent| agent.tool_definitions.as_deref());
    let mut tools = definitions.map(values::tools);
    let model = agent.and_then(|agent| agent.model_name.as_deref());
    let steps = trajectory.steps.as_deref().unwrap_or_default();
    conversation.recording.report.lines = steps.len();
    for (n, raw) in steps.iter().enumerate() {
        let number = n + 1;
        let Some(step) = lenient::<Step<'_>>(Some(raw)) else {
            conversation.recording.unreadable(number, "a step in no known shape");
            continue;
        };
        say(&mut conversation, number, &step, model, &mut tools);
    }
    all.push(conversation);
    for raw in trajectory.subagent_trajectories.iter().flatten() {
        match lenient::<Trajectory<'_>>(Some(raw)).filter(|_| depth > 0) {
            Some(inner) => {
                add(&inner, own.as_deref().or(parent).or(Some("trajectory")), depth - 1, all)
            }
            None => {
                if let Some(last) = all.last_mut() {
                    last.recording.unreadable(0, "a subagent's trajectory in no known shape");
                }
            }
        }
    }
}

fn say(
    conversation: &mut Conversation,
    number: usize,
    step: &Step<'_>,
    model: Option<&str>,
    tools: &mut Option<Vec<ToolSchema>>,
) {
    let at = values::time(step.timestamp.as_deref());
    let id = step.step_id.map(|id| id.to_string());
    let mut metadata = Metadata::default();
    if step.is_copied_context.unwrap_or_default() {
        metadata.set("copied_context", true);
    }
    let parts = conversation.recording.content(number, step.message);
    let body = |parts: Vec<Part>| Body {
        parts: if parts.is_empty() { vec![Part::text("")] } else { parts },
        name: None,
    };
    let mut draft = match step.source.as_deref() {
        Some("system") => Draft::new(Content::System(body(parts))),
        Some("agent") => {
            let mut draft = Draft::assistant("");
            if let Some(text) = step.reasoning_content.clone().filter(|text| !text.is_empty()) {
                draft = draft.part(Part::Reasoning { text, signature: None, encrypted: None });
            }
            draft = parts.into_iter().fold(draft, Draft::part);
            for call in step.tool_calls.iter().flatten() {
                let arguments = call.arguments.map_or_else(|| "{}".to_owned(), canonical);
                let id = call.tool_call_id.clone().unwrap_or_default();
                draft = draft.call(id, call.function_name.clone().unwrap_or_default(), arguments);
            }
            let model = step.model_name.as_deref().or(model);
            draft.generation_config = model_config(model);
            let usage = step.metrics.as_ref().map(|metrics| {
                let Metrics { prompt_tokens, completion_tokens, cached_tokens } = *metrics;
                TokenTotals::of_answer(prompt_tokens, cached_tokens, completion_tokens)
            });
            if let Some(usage) = &usage {
                metadata.usage(usage);
            }
            conversation.recording.end_answer(&conversation.cursor);
            conversation.recording.answer(model, usage.as_ref());
            draft
        }
        _ => Draft::new(Content::User(body(parts))),
    };
    draft.metadata = metadata.json();
    draft.tools = tools.take();
    conversation.say(None, number, recorded(draft, id.as_deref(), at));
    let results = step.observation.as_ref().and_then(|observed| observed.results.as_ref());
    for result in results.into_iter().flatten() {
        #[derive(Default, Deserialize)]
        struct Extra {
            is_error: Option<bool>,
        }
        let parts = conversation.recording.message_content(number, result.content);
        let extra: Extra = lenient(values::given(result.extra)).unwrap_or_default();
        let draft = match &result.source_call_id {
            Some(call_id) => Draft::new(Content::ToolResult(ToolAnswer {
                call_id: call_id.clone(),
                name: None,
                is_error: extra.is_error.unwrap_or_default(),
                parts,
            })),
            None => {
                let mut metadata = Metadata::default();
                metadata.set("injected", "observation");
                let mut draft = Draft::new(Content::User(Body { parts, name: None }));
                draft.metadata = metadata.json();
                draft
            }
        };
        conversation.say(None, number, recorded(draft, id.as_deref(), at));
    }
}
