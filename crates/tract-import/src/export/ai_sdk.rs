//! Writes UI messages of the Vercel AI SDK: calls have their results in the same part, and an
//! assistant's message has a step for each answer.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tract_core::{CommitId, Content, Part, ToolAnswer, ToolCall};

use super::conversation::{Conversation, Entry, ExportedMessage, Recorded, picture_url};
use super::facts::{SessionFacts, made_id, timestamp};
use super::{ExportedSession, counted};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: String,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    parts: Vec<UiPart>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum UiPart {
    Plain(Value),
    Call(CallPart),
}

/// A call and, once available, its result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallPart {
    #[serde(rename = "type")]
    part_type: String,
    tool_call_id: String,
    state: &'static str,
    input: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_text: Option<String>,
}

pub(super) fn write(
    conversation: &Conversation,
    facts: &SessionFacts,
    head: CommitId,
) -> Result<ExportedSession, serde_json::Error> {
    let session = facts.session_or_made(head);
    let mut written: Vec<Message> = Vec::new();
    // The recorded id of the current message. Another id starts another message.
    let mut open: Option<Option<String>> = None;
    let (mut messages, mut left_out, mut unpaired) = (0, 0, 0);
    for entry in &conversation.entries {
        let Entry::Message(message) = entry else { continue };
        messages += 1;
        match &message.content {
            Content::ToolResult(answer) => {
                let text = message.content.text();
                let is_answered = written.last_mut().is_some_and(|last| last.answer(answer, text));
                unpaired += usize::from(!is_answered);
            }
            Content::Assistant(_) | Content::Reasoning(_) => {
                if open.as_ref() != Some(&message.record.id) {
                    written.push(begin(message, "assistant"));
                    open = Some(message.record.id.clone());
                }
                let Some(last) = written.last_mut() else { continue };
                last.parts.push(UiPart::Plain(json!({ "type": "step-start" })));
                let begun = last.parts.len();
                left_out += last.add(message.content.parts())?;
                if last.parts.len() == begun {
                    // Drop a step without content.
                    last.parts.pop();
                    messages -= 1;
                }
            }
            content => {
                let is_system = matches!(content, Content::System(_));
                let mut next = begin(message, if is_system { "system" } else { "user" });
                left_out += next.add(content.parts())?;
                written.push(next);
                open = None;
            }
        }
    }
    let left_out = [
        ("parts that only one provider knows", left_out),
        ("results without a call before them", unpaired),
    ];
    Ok(ExportedSession {
        lines: vec![serde_json::to_string(&written)?],
        file_name: format!("{session}.json"),
        session,
        messages,
        as_recorded: false,
        left_out: counted(left_out),
    })
}

fn begin(message: &ExportedMessage, role: &'static str) -> Message {
    let Recorded { id, at, .. } = &message.record;
    let made = || message.commit.map_or_else(String::new, |commit| made_id(commit, "message"));
    Message {
        id: id.clone().unwrap_or_else(made),
        role,
        created_at: timestamp(*at),
        parts: Vec::new(),
    }
}

impl Message {
    /// Adds the parts that the format can represent. Returns the number of the others.
    fn add(&mut self, parts: &[Part]) -> Result<usize, serde_json::Error> {
        let before = self.parts.len();
        for part in parts {
            self.parts.extend(ui_part(part)?);
        }
        Ok(parts.len() - (self.parts.len() - before))
    }

    /// Adds a result to its call. Returns `false` if no open call of the message matches.
    fn answer(&mut self, answer: &ToolAnswer, text: String) -> bool {
        let waiting = self.parts.iter_mut().rev().find_map(|part| match part {
            UiPart::Call(call)
                if call.tool_call_id == answer.call_id && call.state == "input-available" =>
            {
                Some(call)
            }
            _ => None,
        });
        let Some(call) = waiting else { return false };
        if answer.is_error {
            call.state = "output-error";
            call.error_text = Some(text);
        } else {
            call.state = "output-available";
            call.output = Some(text);
        }
        true
    }
}

fn ui_part(part: &Part) -> Result<Option<UiPart>, serde_json::Error> {
    Ok(Some(match part {
        Part::Text { text } => UiPart::Plain(json!({ "type": "text", "text": text })),
        Part::Reasoning { text, signature, .. } => {
            let mut part = Map::new();
            part.insert("type".to_owned(), json!("reasoning"));
            part.insert("text".to_owned(), json!(text));
            if let Some(signature) = signature {
                let metadata = json!({ "anthropic": { "signature": signature } });
                part.insert("providerMetadata".to_owned(), metadata);
            }
            UiPart::Plain(Value::Object(part))
        }
        Part::ToolCall(call) => UiPart::Call(call_part(call)?),
        Part::Image { media_type, source } => {
            let media_type = media_type.as_deref().unwrap_or("image/png");
            let Some(url) = picture_url(media_type, source) else { return Ok(None) };
            UiPart::Plain(json!({ "type": "file", "mediaType": media_type, "url": url }))
        }
        Part::Opaque { .. } => return Ok(None),
    }))
}

fn call_part(call: &ToolCall) -> Result<CallPart, serde_json::Error> {
    let input = match RawValue::from_string(call.arguments.clone()) {
        Ok(input) => input,
        Err(_) => to_raw_value(&call.arguments)?,
    };
    Ok(CallPart {
        part_type: format!("tool-{}", call.name),
        tool_call_id: call.id.clone(),
        state: "input-available",
        input,
        output: None,
        error_text: None,
    })
}
