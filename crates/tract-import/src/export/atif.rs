//! Writes trajectories in ATIF: a step per message, with the results of an agent's calls in its
//! step.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tract_core::{CommitId, Content, ImageSource, Part, ToolAnswer};
use tract_engine::AnswerTokens;

use super::conversation::{Conversation, Entry, ExportedMessage, picture_url};
use super::facts::{SessionFacts, timestamp};
use super::{ExportedSession, counted};

/// The version of the written format.
const VERSION: &str = "ATIF-v1.7";

/// A step while it is written.
struct Step {
    members: Map<String, Value>,
    calls: Vec<String>,
    results: Vec<Value>,
}

pub(super) fn write(
    conversation: &Conversation,
    facts: &SessionFacts,
    head: CommitId,
) -> Result<ExportedSession, serde_json::Error> {
    let session = facts.session_or_made(head);
    let mut steps: Vec<Step> = Vec::new();
    let (mut messages, mut opaque, mut signatures) = (0, 0, 0);
    for entry in &conversation.entries {
        let Entry::Message(message) = entry else { continue };
        messages += 1;
        for part in message.content.parts() {
            match part {
                Part::Opaque { .. } | Part::Image { source: ImageSource::File(_), .. } => {
                    opaque += 1
                }
                Part::Reasoning { signature: Some(_), .. }
                | Part::Reasoning { encrypted: Some(_), .. } => signatures += 1,
                _ => {}
            }
        }
        if let Content::ToolResult(answer) = &message.content
            && let Some(step) = steps.iter_mut().rev().find(|step| step.has(&answer.call_id))
        {
            step.results.push(result(answer));
            continue;
        }
        let number = steps.len() + 1;
        steps.push(step(message, number));
    }
    let mut root = Map::new();
    root.insert("schema_version".to_owned(), json!(VERSION));
    root.insert("session_id".to_owned(), json!(session));
    let mut agent = Map::new();
    let name = facts.format.clone().unwrap_or_else(|| "tract".to_owned());
    agent.insert("name".to_owned(), json!(name));
    agent.insert("version".to_owned(), json!(facts.version.as_deref().unwrap_or("unknown")));
    let mut models = steps.iter().filter_map(|step| step.members.get("model_name"));
    if let Some(model) = models.next_back() {
        agent.insert("model_name".to_owned(), model.clone());
    }
    // Definitions are written as their original text, to keep numbers and the order of keys.
    let tools = conversation.tools.as_deref().map(serde_json::from_str::<&RawValue>).transpose()?;
    let count = steps.len();
    let steps: Vec<Value> = steps.into_iter().map(Step::end).collect();
    let document = Document {
        root: &root,
        agent: Agent { members: &agent, tool_definitions: tools },
        steps,
        notes: facts.title.as_deref(),
        final_metrics: json!({ "total_steps": count }),
    };
    let left_out =
        [("parts that only one provider knows", opaque), ("signatures of reasoning", signatures)];
    Ok(ExportedSession {
        lines: vec![to_raw_value(&document)?.get().to_owned()],
        file_name: format!("{session}.json"),
        session,
        messages,
        as_recorded: false,
        left_out: counted(left_out),
    })
}

#[derive(serde::Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    root: &'a Map<String, Value>,
    agent: Agent<'a>,
    steps: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<&'a str>,
    final_metrics: Value,
}

#[derive(serde::Serialize)]
struct Agent<'a> {
    #[serde(flatten)]
    members: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_definitions: Option<&'a RawValue>,
}

impl Step {
    fn has(&self, call: &str) -> bool {
        self.calls.iter().any(|id| id == call)
    }

    fn end(mut self) -> Value {
        if !self.results.is_empty() {
            self.members.insert("observation".to_owned(), json!({ "results": self.results }));
        }
        Value::Object(self.members)
    }
}

fn step(message: &ExportedMessage, number: usize) -> Step {
    let mut members = Map::new();
    members.insert("step_id".to_owned(), json!(number));
    if let Some(at) = timestamp(message.record.at) {
        members.insert("timestamp".to_owned(), json!(at));
    }
    let source = match &message.content {
        Content::System(_) => "system",
        Content::Assistant(_) | Content::Reasoning(_) => "agent",
        _ => "user",
    };
    members.insert("source".to_owned(), json!(source));
    members.insert("message".to_owned(), content(message.content.parts()));
    let mut calls = Vec::new();
    if source == "agent" {
        answer(message, &mut members, &mut calls);
    }
    if message.record.facts.is_copied_context {
        members.insert("is_copied_context".to_owned(), json!(true));
    }
    Step { members, calls, results: Vec::new() }
}

/// Adds the members that only an agent's step has.
fn answer(message: &ExportedMessage, members: &mut Map<String, Value>, calls: &mut Vec<String>) {
    let facts = &message.record.facts;
    if let Some(model) = &facts.model {
        members.insert("model_name".to_owned(), json!(model));
    }
    let reasoning: Vec<&str> = message
        .content
        .parts()
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !reasoning.is_empty() {
        members.insert("reasoning_content".to_owned(), json!(reasoning.join("\n\n")));
    }
    let listed: Vec<Value> = message
        .content
        .calls()
        .map(|call| {
            calls.push(call.id.clone());
            // Arguments are objects in this format, so any other text is wrapped in one.
            let arguments = serde_json::from_str::<Map<String, Value>>(&call.arguments)
                .unwrap_or_else(|_| Map::from_iter([("text".to_owned(), json!(call.arguments))]));
            json!({ "tool_call_id": call.id, "function_name": call.name, "arguments": arguments })
        })
        .collect();
    if !listed.is_empty() {
        members.insert("tool_calls".to_owned(), Value::Array(listed));
    }
    if let Some(usage) = facts.usage {
        members.insert("metrics".to_owned(), metrics(usage));
    }
}

fn metrics(usage: AnswerTokens) -> Value {
    let mut metrics = Map::new();
    let counts = [
        ("prompt_tokens", usage.input),
        ("completion_tokens", usage.output),
        ("cached_tokens", usage.cache_read),
    ];
    for (name, count) in counts {
        metrics.extend(count.map(|count| (name.to_owned(), json!(count))));
    }
    Value::Object(metrics)
}

fn result(answer: &ToolAnswer) -> Value {
    let mut result = Map::new();
    result.insert("source_call_id".to_owned(), json!(answer.call_id));
    result.insert("content".to_owned(), content(&answer.parts));
    if answer.is_error {
        result.insert("extra".to_owned(), json!({ "is_error": true }));
    }
    Value::Object(result)
}

/// Returns a content: a text, or parts if it contains images.
fn content(parts: &[Part]) -> Value {
    let has_picture = parts.iter().any(|part| matches!(part, Part::Image { .. }));
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    if !has_picture {
        return json!(texts.collect::<Vec<_>>().join("\n"));
    }
    let part = |part: &Part| match part {
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Image { media_type, source } => {
            let media_type = media_type.as_deref().unwrap_or("image/png");
            let path = picture_url(media_type, source)?;
            Some(json!({
                "type": "image",
                "source": { "media_type": media_type, "path": path },
            }))
        }
        Part::ToolCall(_) | Part::Reasoning { .. } | Part::Opaque { .. } => None,
    };
    Value::Array(parts.iter().filter_map(part).collect())
}
