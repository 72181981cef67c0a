//! Messages and parameters in the form of the OpenTelemetry conventions.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::content::{Content, ImageSource, Part};
use crate::message::{ActiveTool, Message};
use crate::ports::ModelRequest;

/// The request parameters that have attributes.
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) model: Option<String>,
    pub(super) max_tokens: Option<u64>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
}

impl Parameters {
    /// Reads the parameters. One of an unexpected type counts as absent.
    pub(super) fn of(request: &ModelRequest) -> Self {
        let Some(parameters) = &request.parameters else { return Self::default() };
        let members = crate::json::split_object(parameters.as_str()).unwrap_or_default();
        let mut found = Self::default();
        for (key, raw) in &members {
            match key.as_str() {
                "model" => found.model = read(raw),
                "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                    found.max_tokens = read(raw);
                }
                "temperature" => found.temperature = read(raw),
                "top_p" => found.top_p = read(raw),
                _ => {}
            }
        }
        found
    }
}

fn read<'a, T: Deserialize<'a>>(raw: &'a str) -> Option<T> {
    serde_json::from_str(raw).ok()
}

#[derive(Serialize)]
struct MessageJson<'a> {
    role: &'a str,
    parts: Vec<PartJson<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartJson<'a> {
    Text {
        content: &'a str,
    },
    Reasoning {
        content: &'a str,
    },
    ToolCall {
        id: &'a str,
        name: &'a str,
        arguments: Arguments<'a>,
    },
    ToolCallResponse {
        id: &'a str,
        response: String,
    },
    Uri {
        modality: &'a str,
        uri: &'a str,
    },
    Blob {
        modality: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<&'a str>,
        content: &'a str,
    },
    File {
        modality: &'a str,
        file_id: &'a str,
    },
    /// A provider's own part. Its bytes are in the commit.
    Opaque {
        dialect: &'a str,
    },
}

/// The arguments as JSON if they are valid JSON, or else as text.
#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

/// Splits a context into the instructions at its start and the other messages.
pub(super) fn split_instructions(messages: &[Message]) -> (&[Message], &[Message]) {
    let is_instruction = |message: &Message| matches!(message.content, Content::System(_));
    let place = messages.iter().position(|message| !is_instruction(message));
    messages.split_at(place.unwrap_or(messages.len()))
}

/// Serializes instructions: a list of parts.
pub(super) fn instructions(messages: &[Message]) -> String {
    json(&messages.iter().flat_map(|message| parts(&message.content)).collect::<Vec<_>>())
}

/// Serializes messages: a list of roles with parts.
pub(super) fn messages(messages: &[Message]) -> String {
    let shaped = messages
        .iter()
        .map(|message| MessageJson { role: message.role.as_str(), parts: parts(&message.content) });
    json(&shaped.collect::<Vec<_>>())
}

/// Serializes an answer: a list with one message.
pub(super) fn answer(content: &Content) -> String {
    json(&[MessageJson { role: "assistant", parts: parts(content) }])
}

/// Serializes tool definitions, each as given.
pub(super) fn definitions(tools: &[ActiveTool]) -> String {
    let schemas = tools.iter().filter_map(|tool| serde_json::from_str(&tool.schema).ok());
    json(&schemas.collect::<Vec<&RawValue>>())
}

fn parts(content: &Content) -> Vec<PartJson<'_>> {
    match content {
        Content::ToolResult(answer) => {
            vec![PartJson::ToolCallResponse { id: &answer.call_id, response: content.text() }]
        }
        Content::Artifact(artifact) => vec![PartJson::Text { content: &artifact.text }],
        Content::Note(note) => vec![PartJson::Text { content: note.as_str() }],
        Content::System(_)
        | Content::User(_)
        | Content::Assistant(_)
        | Content::Reasoning(_)
        | Content::Custom { .. } => content.parts().iter().map(part).collect(),
    }
}

fn part(part: &Part) -> PartJson<'_> {
    match part {
        Part::Text { text } => PartJson::Text { content: text },
        Part::Reasoning { text, .. } => PartJson::Reasoning { content: text },
        Part::ToolCall(call) => PartJson::ToolCall {
            id: &call.id,
            name: &call.name,
            arguments: match serde_json::from_str(&call.arguments) {
                Ok(raw) => Arguments::Json(raw),
                Err(_) => Arguments::Text(&call.arguments),
            },
        },
        Part::Image { media_type, source } => match source {
            ImageSource::Url(uri) => PartJson::Uri { modality: "image", uri },
            ImageSource::Base64(content) => {
                PartJson::Blob { modality: "image", mime_type: media_type.as_deref(), content }
            }
            ImageSource::File(file_id) => PartJson::File { modality: "image", file_id },
        },
        Part::Opaque { dialect, .. } => PartJson::Opaque { dialect },
    }
}

/// Serialization of these types does not fail; if it did, the attribute would only be empty.
fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
