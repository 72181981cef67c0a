//! Sessions of GitHub Copilot CLI: JSONL files of events.

use std::collections::{HashMap, HashSet};

use tract_core::{Body, Content, Draft, JsonText, Part, ToolAnswer};

use crate::facts::Facts;
use crate::line_reader::LineReader;
use crate::object::Object;
use crate::recording::{Cursor, RecordedMessage, RecordedNote, Recording};
use crate::report::TokenTotals;
use crate::values::{Metadata, canonical, has_members, model_config, recorded, shown};

/// Returns whether an object is an event.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let kind = members.text("type").unwrap_or_default();
    let is_first = kind == "session.start" || kind == "user.message";
    is_first && members.has_all(&["type", "data", "id", "timestamp", "parentId"])
}

#[derive(Default)]
pub(crate) struct CopilotReader {
    recording: Recording,
    cursor: Cursor,
    /// The context before each event, by its id, for rewinds.
    contexts: HashMap<String, Cursor>,
    has_rewinds: bool,
    /// The contexts of subagents, by the call that started each.
    agents: HashMap<String, Cursor>,
    /// The calls that a subagent made, with the call that started it.
    agent_calls: HashMap<String, String>,
    /// The calls of tools that the user ran.
    user_calls: HashSet<String>,
    facts: Facts,
    model: Option<String>,
    /// Output tokens of each model since the tool was started.
    outputs: HashMap<String, u64>,
}

impl LineReader for CopilotReader {
    fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let raw: &serde_json::value::RawValue = serde_json::from_slice(bytes)?;
        match Object::of(Some(raw)) {
            Some(event) => self.event(number, &event),
            None => self.recording.unreadable(number, "a line that is not an event"),
        }
        Ok(())
    }

    fn is_record(text: &str) -> bool {
        has_members(text, &["type", "data", "id", "timestamp"])
    }

    fn finish(&mut self) -> Facts {
        if self.has_rewinds {
            self.recording.resume_at(&self.cursor, None);
        }
        std::mem::take(&mut self.facts)
    }
}

impl CopilotReader {
    fn event(&mut self, number: usize, event: &Object<'_>) {
        let kind = event.text("type").unwrap_or_else(|| "untyped".to_owned());
        let data = event.object("data").unwrap_or_default();
        let at = event.time("timestamp");
        let id = event.text("id");
        self.contexts.extend(id.clone().map(|id| (id, self.cursor.clone())));
        let draft = match kind.as_str() {
            "session.snapshot_rewind" => {
                self.recording.skip(kind);
                return self.rewind(number, &data);
            }
            "session.start" | "session.resume" => {
                self.recording.skip(kind);
                return self.session(&data);
            }
            "session.model_change" => {
                self.model = data.text("newModel").or_else(|| self.model.take());
                return self.recording.skip(kind);
            }
            "user.message" => Draft::user(data.text("content").unwrap_or_default()),
            "system.message" => Draft::system(data.text("content").unwrap_or_default()),
            "assistant.message" => return self.answer(number, id.as_deref(), &data, at),
            "tool.user_requested" => {
                self.user_calls.extend(data.text("toolCallId"));
                let what = "data: a tool that the user ran, kept as its JSON";
                self.recording.unreadable(number, what);
                let text = event.raw("data").map(canonical);
                injected("user_requested", vec![Part::text(text.unwrap_or_default())])
            }
            "skill.invoked" if data.filled("content").is_some() => {
                let text = data.text("content").unwrap_or_default();
                injected("skill", vec![Part::text(text)])
            }
            "tool.execution_complete" => {
                let Some(answer) = result(&data) else {
                    return self.recording.unreadable(number, "a result without its call's id");
                };
                // Providers reject a result without a call of the model.
                match self.user_calls.contains(&answer.call_id) {
                    true => injected("user_requested", answer.parts),
                    false => Draft::new(Content::ToolResult(answer)),
                }
            }
            "session.shutdown" => return self.shutdown(number, &data, at),
            "session.compaction_complete" if data.has("summaryContent") => {
                self.recording.skip(kind);
                return self.compaction(number, id, &data, at);
            }
            // Events for the user interface, and repetitions of messages.
            _ => return self.recording.skip(kind),
        };
        let draft = recorded(draft, id.as_deref(), at);
        let agent = data.filled("parentToolCallId");
        self.append(agent.as_deref(), RecordedMessage { id, line: number, draft });
    }

    /// Adds a message to the context of a subagent, or to the conversation.
    fn append(&mut self, agent: Option<&str>, message: RecordedMessage) {
        for call in message.draft.content.calls() {
            let agent = agent.map(|agent| (call.id.clone(), agent.to_owned()));
            self.agent_calls.extend(agent);
        }
        let mut cursor = self.take_cursor(agent);
        self.recording.append(&mut cursor, message);
        self.put_cursor(agent, cursor);
    }

    /// Takes the cursor of a subagent, which is started if it is new, or of the conversation.
    fn take_cursor(&mut self, agent: Option<&str>) -> Cursor {
        let Some(agent) = agent else { return std::mem::take(&mut self.cursor) };
        if let Some(cursor) = self.agents.remove(agent) {
            return cursor;
        }
        let caller = self.agent_calls.get(agent).and_then(|caller| self.agents.get_mut(caller));
        let mut cursor = Cursor::default();
        self.recording.start_agent(&mut cursor, agent, caller.unwrap_or(&mut self.cursor));
        cursor
    }

    fn put_cursor(&mut self, agent: Option<&str>, cursor: Cursor) {
        match agent {
            Some(agent) => drop(self.agents.insert(agent.to_owned(), cursor)),
            None => self.cursor = cursor,
        }
    }

    /// Goes back to the context before an event: the event and all after it were removed. They stay
    /// on a branch.
    fn rewind(&mut self, number: usize, data: &Object<'_>) {
        let Some(id) = data.filled("upToEventId") else {
            let what = "a rewind without \"upToEventId\": the messages that it removed are kept";
            return self.recording.unreadable(number, what);
        };
        let Some(context) = self.contexts.get(&id) else {
            let what = format!("a rewind to {id:?}, an event that the file does not have");
            return self.recording.unreadable(number, what);
        };
        self.cursor = context.clone();
        if !self.recording.continues(&self.cursor) {
            self.recording.fork(&mut self.cursor, None);
            self.has_rewinds = true;
        }
    }

    fn session(&mut self, data: &Object<'_>) {
        let context = data.object("context").unwrap_or_default();
        let facts = &mut self.facts;
        facts.session = facts.session.take().or_else(|| data.filled("sessionId"));
        facts.version = data.filled("copilotVersion").or_else(|| facts.version.take());
        facts.cwd = context.filled("cwd").or_else(|| facts.cwd.take());
        facts.git_branch = context.filled("branch").or_else(|| facts.git_branch.take());
        self.model = data.filled("selectedModel").or_else(|| self.model.take());
    }

    fn answer(&mut self, number: usize, id: Option<&str>, data: &Object<'_>, at: Option<i64>) {
        let mut draft = Draft::assistant("");
        let text = data.filled("reasoningText");
        let encrypted = data.filled("reasoningOpaque");
        if text.is_some() || encrypted.is_some() {
            let text = text.unwrap_or_default();
            draft = draft.part(Part::Reasoning { text, signature: None, encrypted });
        }
        if let Some(text) = data.filled("content") {
            draft = draft.part(Part::text(text));
        }
        for raw in data.list("toolRequests") {
            let call = Object::of(Some(raw)).unwrap_or_default();
            let arguments = call.text("arguments");
            let arguments = arguments.or_else(|| call.raw("arguments").map(canonical));
            let (id, name) = (call.text("toolCallId"), call.text("name"));
            let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
            draft = draft.call(id.unwrap_or_default(), name.unwrap_or_default(), arguments);
        }
        if draft.content.parts().is_empty() {
            return self.recording.skip("assistant.message:empty");
        }
        let model = data.filled("model").or_else(|| self.model.clone());
        let output = data.count("outputTokens");
        let usage = output.map(|output| TokenTotals { output, ..TokenTotals::default() });
        if let (Some(model), Some(output)) = (&model, output) {
            let sum = self.outputs.entry(model.clone()).or_default();
            *sum = sum.saturating_add(output);
        }
        let mut metadata = Metadata::default();
        metadata.set_some("message_id", data.text("messageId"));
        if let Some(usage) = &usage {
            metadata.usage(usage);
        }
        draft.metadata = metadata.json();
        draft.generation_config = model_config(model.as_deref());
        let agent = data.filled("parentToolCallId");
        let cursor = self.take_cursor(agent.as_deref());
        self.recording.end_answer(&cursor);
        self.put_cursor(agent.as_deref(), cursor);
        self.recording.answer(model.as_deref(), usage.as_ref());
        let message = RecordedMessage {
            id: id.map(str::to_owned),
            line: number,
            draft: recorded(draft, id, at),
        };
        self.append(agent.as_deref(), message);
    }

    /// Records the tokens of a run of the tool, which are stated per model at its end. Messages
    /// contain those of the answers, so a note gets the difference.
    fn shutdown(&mut self, number: usize, data: &Object<'_>, at: Option<i64>) {
        self.recording.skip("session.shutdown");
        let metrics = data.object("modelMetrics").unwrap_or_default();
        let counted = std::mem::take(&mut self.outputs);
        for model in metrics.names() {
            let usage = metrics.object(model).and_then(|metrics| metrics.object("usage"));
            let Some(usage) = usage else { continue };
            let count = |name: &str| usage.count(name).unwrap_or_default();
            let (cache_read, cache_write) = (count("cacheReadTokens"), count("cacheWriteTokens"));
            let input = count("inputTokens");
            let output = count("outputTokens");
            let usage = TokenTotals {
                input: input.saturating_sub(cache_read).saturating_sub(cache_write),
                output: output.saturating_sub(counted.get(model).copied().unwrap_or_default()),
                cache_read,
                cache_write,
                ..TokenTotals::default()
            };
            if self.cursor.entries().is_empty() || usage == TokenTotals::default() {
                continue;
            }
            self.recording.report.tokens.add(&usage);
            let mut metadata = Metadata::default();
            metadata.usage(&usage);
            metadata.set("model", model);
            let Ok(content) = JsonText::new(r#"{"type":"session.shutdown"}"#) else { continue };
            let message = "Copilot CLI: tokens of the requests".to_owned();
            let note = RecordedNote { message, content, metadata: metadata.json(), at };
            self.recording.note(&mut self.cursor, number, note);
        }
    }

    fn compaction(
        &mut self,
        number: usize,
        id: Option<String>,
        data: &Object<'_>,
        at: Option<i64>,
    ) {
        let text = data.text("summaryContent").unwrap_or_default();
        let body = Body { parts: vec![Part::text(text)], name: None };
        let draft = recorded(Draft::new(Content::User(body)), id.as_deref(), at);
        let summary = RecordedMessage { id, line: number, draft };
        let agent = data.filled("parentToolCallId");
        let mut cursor = self.take_cursor(agent.as_deref());
        self.recording.summarize(&mut cursor, Vec::new(), summary);
        self.put_cursor(agent.as_deref(), cursor);
    }
}

/// Returns a user's message that the tool added to the context.
fn injected(by: &str, parts: Vec<Part>) -> Draft {
    let mut metadata = Metadata::default();
    metadata.set("injected", by);
    let mut draft = Draft::new(Content::User(Body { parts, name: None }));
    draft.metadata = metadata.json();
    draft
}

fn result(data: &Object<'_>) -> Option<ToolAnswer> {
    let call_id = data.filled("toolCallId")?;
    let is_error = data.has("success") && !data.is_true("success");
    let result = data.object("result").unwrap_or_default();
    let error = data.object("error").unwrap_or_default();
    let text = result.raw("content").map(shown);
    let text = text.or_else(|| data.raw("result").filter(|_| !result.has("content")).map(shown));
    let text = text.or_else(|| error.text("message")).or_else(|| data.raw("error").map(shown));
    let (name, parts) = (data.text("toolName"), vec![Part::text(text.unwrap_or_default())]);
    Some(ToolAnswer { call_id, name, is_error, parts })
}
