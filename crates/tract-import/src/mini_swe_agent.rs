//! Trajectories of mini-swe-agent: one document with the model's messages.

use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::document::{Conversation, Document};
use crate::facts::RunTotals;
use crate::object::Object;
use crate::report::TokenTotals;
use crate::values::{Metadata, canonical, model_config, recorded, shown};

/// Returns whether an object is a trajectory.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let info = members.object("info").unwrap_or_default();
    let format = members.text("trajectory_format").unwrap_or_default();
    members.has("messages") && (info.has("mini_version") || format.starts_with("mini-swe-agent"))
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let raw: &RawValue = serde_json::from_slice(bytes)?;
    let members = Object::of(Some(raw)).unwrap_or_default();
    let info = members.object("info").unwrap_or_default();
    let config = info.object("config").unwrap_or_default();
    let model = config.object("model").and_then(|model| model.filled("model_name"));
    let mut conversation = Conversation::default();
    conversation.facts.session = members.text("instance_id");
    conversation.facts.version = info.text("mini_version");
    let environment = config.object("environment");
    conversation.facts.cwd = environment.and_then(|environment| environment.filled("cwd"));
    let messages = members.list("messages");
    conversation.recording.report.lines = messages.len();
    let mut reader = Reader { conversation, model, has_usage: false };
    for (n, raw) in messages.into_iter().enumerate() {
        reader.message(n + 1, raw);
    }
    let Reader { mut conversation, model, has_usage } = reader;
    if let Some(stats) = info.object("model_stats") {
        let (cost, requests) = (stats.number("instance_cost"), stats.count("api_calls"));
        let run = RunTotals { model, requests, cost, by_answer: has_usage };
        conversation.facts.run = Some(run);
    }
    Ok(conversation.into())
}

struct Reader {
    conversation: Conversation,
    model: Option<String>,
    has_usage: bool,
}

impl Reader {
    fn message(&mut self, line: usize, raw: &RawValue) {
        let Some(message) = Object::of(Some(raw)) else {
            return self.conversation.recording.unreadable(line, "a message that is not an object");
        };
        let extra = message.object("extra").unwrap_or_default();
        let at = extra.time("timestamp").or_else(|| message.time("timestamp"));
        let content = message.raw("content");
        // Requests in the format of the Responses API have an answer's items in `output`.
        if message.text("object").as_deref() == Some("response") {
            return self.response(line, &message, &extra, at);
        }
        let kind = message.text("type").unwrap_or_default();
        if kind == "function_call_output" {
            let text = message.raw("output").map_or_else(String::new, shown);
            let draft = Draft::tool_result(message.text("call_id").unwrap_or_default(), text);
            return self.conversation.say(None, line, recorded(draft, None, at));
        }
        let recording = &mut self.conversation.recording;
        let mut body = || Body { parts: recording.message_content(line, content), name: None };
        let draft = match message.text("role").unwrap_or_default().as_str() {
            "system" | "developer" => Draft::new(Content::System(body())),
            "user" => Draft::new(Content::User(body())),
            "tool" => Draft::new(Content::ToolResult(ToolAnswer {
                call_id: message.text("tool_call_id").unwrap_or_default(),
                name: message.text("name"),
                is_error: false,
                parts: body().parts,
            })),
            "assistant" => self.answer(line, &message, &extra),
            // The end of the run, which the model does not see.
            "exit" => return self.conversation.recording.skip("exit"),
            role => {
                let what = format!("a message of the unknown role {role:?}");
                return self.conversation.recording.unreadable(line, what);
            }
        };
        self.conversation.say(None, line, recorded(draft, None, at));
    }

    fn answer(&mut self, line: usize, message: &Object<'_>, extra: &Object<'_>) -> Draft {
        let mut draft = Draft::assistant("");
        let reasoning = message.filled("reasoning_content");
        if let Some(text) = reasoning {
            draft = draft.part(Part::Reasoning { text, signature: None, encrypted: None });
        }
        let parts = self.conversation.recording.content(line, message.raw("content"));
        draft = parts.into_iter().fold(draft, Draft::part);
        for raw in message.list("tool_calls") {
            let call = Object::of(Some(raw)).unwrap_or_default();
            let function = call.object("function").unwrap_or_default();
            let arguments = function.text("arguments");
            let arguments = arguments.or_else(|| function.raw("arguments").map(canonical));
            let name = function.text("name").unwrap_or_default();
            let id = call.text("id").unwrap_or_default();
            draft = draft.call(id, name, arguments.unwrap_or_else(|| "{}".to_owned()));
        }
        self.count(draft, &extra.object("response").unwrap_or_default(), extra)
    }

    fn response(&mut self, line: usize, message: &Object<'_>, extra: &Object<'_>, at: Option<i64>) {
        let mut draft = Draft::assistant("");
        for raw in message.list("output") {
            let mut unread = Vec::new();
            let item = crate::responses::draft(raw, &mut unread);
            let recording = &mut self.conversation.recording;
            unread.into_iter().for_each(|what| recording.unreadable(line, what));
            match item {
                Ok(item) => {
                    let parts = item.content.parts().to_vec();
                    draft = parts.into_iter().fold(draft, Draft::part);
                }
                Err(what) => self.conversation.recording.unreadable(line, what),
            }
        }
        let draft = self.count(draft, message, extra);
        self.conversation.say(None, line, recorded(draft, None, at));
    }

    /// Adds the model, the tokens and the cost of an answer from the provider's response.
    fn count(&mut self, mut draft: Draft, response: &Object<'_>, extra: &Object<'_>) -> Draft {
        let model = response.text("model").or_else(|| self.model.clone());
        let usage = response.object("usage").map(|usage| tokens(&usage));
        self.has_usage |= usage.is_some();
        let recording = &mut self.conversation.recording;
        recording.end_answer(&self.conversation.cursor);
        recording.answer(model.as_deref(), usage.as_ref());
        let mut metadata = Metadata::default();
        metadata.set_some("message_id", response.text("id"));
        metadata.set_some("cost", extra.number("cost"));
        if let Some(usage) = &usage {
            metadata.usage(usage);
        }
        draft.metadata = metadata.json();
        draft.generation_config = model_config(model.as_deref());
        draft
    }
}

/// Returns the tokens of an answer of Chat Completions or of the Responses API.
fn tokens(usage: &Object<'_>) -> TokenTotals {
    let input = usage.count("prompt_tokens").or_else(|| usage.count("input_tokens"));
    let output = usage.count("completion_tokens").or_else(|| usage.count("output_tokens"));
    let details = usage.object("prompt_tokens_details");
    let details = details.or_else(|| usage.object("input_tokens_details")).unwrap_or_default();
    TokenTotals::of_answer(input, details.count("cached_tokens"), output)
}
