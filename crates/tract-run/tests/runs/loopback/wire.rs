//! What OpenAI's Chat and Anthropic's Messages are on the wire, as far as the recordings need it:
//! read and written here by hand, so that the clients are held against something else.

use serde_json::{Value, json};
use tract_core::ToolCall;

use crate::recorded::recording::RecordedMessage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    OpenAi,
    Anthropic,
}

/// What a request says.
pub(super) struct Request {
    pub(super) messages: Vec<RecordedMessage>,
    /// Name and schema of each tool.
    pub(super) tools: Vec<(String, Value)>,
    pub(super) streams: bool,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A text, or a list of parts that are texts.
fn texts(value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(|part| match (part["type"].as_str(), part["text"].as_str()) {
                (Some("text"), Some(text)) => Ok(text),
                _ => Err(format!("expected a text, found {part}")),
            })
            .collect(),
        other => Err(format!("expected text, found {other}")),
    }
}

fn list(value: &Value, what: &str) -> Result<Vec<Value>, String> {
    value.as_array().cloned().ok_or_else(|| format!("expected a list of {what}, found {value}"))
}

impl Wire {
    pub(crate) const ALL: [Self; 2] = [Self::OpenAi, Self::Anthropic];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// What the header with the key says.
    pub(super) fn key(self, key: &str) -> (&'static str, String) {
        match self {
            Self::OpenAi => ("authorization", format!("Bearer {key}")),
            Self::Anthropic => ("x-api-key", key.to_owned()),
        }
    }

    pub(super) fn read(self, body: &Value) -> Result<Request, String> {
        let messages = list(&body["messages"], "messages")?;
        let tools = match &body["tools"] {
            Value::Null => Vec::new(),
            tools => list(tools, "tools")?,
        };
        let streams = body["stream"].as_bool().unwrap_or(false);
        let (mut recorded, mut known) = (Vec::new(), Vec::new());
        match self {
            Self::OpenAi => {
                for message in &messages {
                    // A list of texts is one text.
                    let mut read = RecordedMessage::of_chat(message);
                    read.text = texts(&message["content"])?;
                    recorded.push(read);
                }
                let functions = tools.iter().map(|tool| &tool["function"]);
                known.extend(
                    functions.map(|tool| (text(&tool["name"]), tool["parameters"].clone())),
                );
            }
            Self::Anthropic => {
                if body["max_tokens"].as_u64().is_none_or(|most| most == 0) {
                    return Err("expected max_tokens".to_owned());
                }
                let system = texts(&body["system"])?;
                if !system.is_empty() {
                    recorded.push(one("system", system));
                }
                let mut before = "assistant".to_owned();
                for message in &messages {
                    let role = text(&message["role"]);
                    if role == before {
                        return Err(format!("two messages of the {role} after each other"));
                    }
                    recorded.extend(blocks(&role, &message["content"])?);
                    before = role;
                }
                let named = |tool: &Value| (text(&tool["name"]), tool["input_schema"].clone());
                known.extend(tools.iter().map(named));
            }
        }
        Ok(Request { messages: recorded, tools: known, streams })
    }

    /// An answer that comes whole.
    pub(super) fn whole(self, entry: &RecordedMessage) -> String {
        match self {
            Self::OpenAi => {
                let calls: Vec<Value> = entry.calls.iter().map(chat_call).collect();
                let text = Some(&entry.text).filter(|text| !text.is_empty());
                let mut message = json!({"role": "assistant", "content": text});
                if !calls.is_empty() {
                    message["tool_calls"] = json!(calls);
                }
                let choice =
                    json!({"index": 0, "message": message, "finish_reason": self.reason(entry)});
                json!({
                    "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000,
                    "model": "recorded-1", "choices": [choice],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
                })
                .to_string()
            }
            Self::Anthropic => {
                let mut content = Vec::new();
                if !entry.text.is_empty() {
                    content.push(json!({"type": "text", "text": entry.text}).to_string());
                }
                content.extend(entry.calls.iter().map(|call| use_block(call, &call.arguments)));
                format!(
                    r#"{{"id":"msg_1","type":"message","role":"assistant","model":"recorded-1","content":[{}],"stop_reason":"{}","stop_sequence":null,"usage":{{"input_tokens":10,"output_tokens":5}}}}"#,
                    content.join(","),
                    self.reason(entry),
                )
            }
        }
    }

    /// An answer that comes in events.
    pub(super) fn events(self, entry: &RecordedMessage) -> Vec<String> {
        match self {
            Self::OpenAi => self.chunks(entry),
            Self::Anthropic => self.block_events(entry),
        }
    }

    pub(super) fn refusal(self, message: &str) -> String {
        let error = json!({"type": "invalid_request_error", "message": message});
        match self {
            Self::OpenAi => json!({ "error": error }).to_string(),
            Self::Anthropic => json!({"type": "error", "error": error}).to_string(),
        }
    }

    fn reason(self, entry: &RecordedMessage) -> &'static str {
        match (self, entry.calls.is_empty()) {
            (Self::OpenAi, true) => "stop",
            (Self::OpenAi, false) => "tool_calls",
            (Self::Anthropic, true) => "end_turn",
            (Self::Anthropic, false) => "tool_use",
        }
    }

    fn chunks(self, entry: &RecordedMessage) -> Vec<String> {
        let chunk = |delta: Value, reason: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            let chunk = json!({
                "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
                "model": "recorded-1", "choices": [choice],
            });
            format!("data: {chunk}\n\n")
        };
        let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
        events.extend(pieces(&entry.text).map(|piece| chunk(json!({ "content": piece }), None)));
        for (index, call) in entry.calls.iter().enumerate() {
            let mut begun = chat_call(call);
            begun["index"] = json!(index);
            begun["function"]["arguments"] = json!("");
            events.push(chunk(json!({ "tool_calls": [begun] }), None));
            for piece in pieces(&call.arguments) {
                let more = json!({"index": index, "function": {"arguments": piece}});
                events.push(chunk(json!({ "tool_calls": [more] }), None));
            }
        }
        events.push(chunk(json!({}), Some(self.reason(entry))));
        events.push("data: [DONE]\n\n".to_owned());
        events
    }

    fn block_events(self, entry: &RecordedMessage) -> Vec<String> {
        let event = |data: &Value| {
            format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
        };
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "recorded-1",
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        });
        let mut events = vec![event(&json!({"type": "message_start", "message": message}))];
        let mut block = |index: usize, begun: Value, deltas: Vec<Value>| {
            let start =
                json!({"type": "content_block_start", "index": index, "content_block": begun});
            events.push(event(&start));
            for delta in deltas {
                let more = json!({"type": "content_block_delta", "index": index, "delta": delta});
                events.push(event(&more));
            }
            events.push(event(&json!({"type": "content_block_stop", "index": index})));
        };
        let mut index = 0;
        if !entry.text.is_empty() {
            let deltas =
                pieces(&entry.text).map(|piece| json!({"type": "text_delta", "text": piece}));
            block(index, json!({"type": "text", "text": ""}), deltas.collect());
            index += 1;
        }
        for call in &entry.calls {
            let begun = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
            let deltas = pieces(&call.arguments)
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
            block(index, begun, deltas.collect());
            index += 1;
        }
        let end = json!({
            "type": "message_delta", "delta": {"stop_reason": self.reason(entry), "stop_sequence": null},
            "usage": {"output_tokens": 5},
        });
        events.push(event(&end));
        events.push(event(&json!({"type": "message_stop"})));
        events
    }
}

fn one(role: &str, text: String) -> RecordedMessage {
    RecordedMessage { role: role.to_owned(), text, calls: Vec::new(), answers: None }
}

/// The blocks of one of Anthropic's messages as what was said: results apart, all else together.
fn blocks(role: &str, content: &Value) -> Result<Vec<RecordedMessage>, String> {
    let Value::Array(blocks) = content else { return Ok(vec![one(role, texts(content)?)]) };
    let mut messages: Vec<RecordedMessage> = Vec::new();
    for block in blocks {
        if (role, block["type"].as_str()) == ("user", Some("tool_result")) {
            let answers = Some((text(&block["tool_use_id"]), None));
            messages.push(RecordedMessage { answers, ..one("tool", texts(&block["content"])?) });
            continue;
        }
        if messages.last().is_none_or(|last| last.role != role) {
            messages.push(one(role, String::new()));
        }
        let Some(last) = messages.last_mut() else { continue };
        match (role, block["type"].as_str()) {
            (_, Some("text")) if last.calls.is_empty() => last.text.push_str(&text(&block["text"])),
            ("assistant", Some("tool_use")) => last.calls.push(ToolCall {
                id: text(&block["id"]),
                name: text(&block["name"]),
                arguments: block["input"].to_string(),
            }),
            _ => return Err(format!("expected no such block of the {role}: {block}")),
        }
    }
    Ok(messages)
}

fn chat_call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

fn use_block(call: &ToolCall, input: &str) -> String {
    let (id, name) = (json!(call.id), json!(call.name));
    format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}"#)
}

/// A text in pieces of a few characters.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(23).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}
