//! Exports of Claude.ai: `conversations.json`, a list of conversations, or a single conversation.

use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::document::{Conversation, Document, conversations};
use crate::nodes::{Node, say_tree};
use crate::object::Object;
use crate::recording::Recording;
use crate::values::{Metadata, canonical, model_config, recorded};

/// The parent of the first message, in exports with parents.
const NO_PARENT: &str = "00000000-0000-4000-8000-000000000000";

/// Returns whether an object is a conversation of an export.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    members.has_all(&["uuid", "chat_messages"])
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    conversations(
        bytes,
        "a conversation without the members \"uuid\" and \"chat_messages\"",
        |conversation, members| {
            let is_known = is_one(members);
            if is_known {
                say(conversation, members);
            }
            is_known
        },
    )
}

fn say(conversation: &mut Conversation, members: &Object<'_>) {
    conversation.facts.session = members.text("uuid");
    conversation.facts.title = members.filled("name");
    let model = members.text("model");
    let messages = members.list("chat_messages");
    conversation.recording.report.lines = messages.len();
    let mut nodes: Vec<Node> = Vec::with_capacity(messages.len());
    let mut calls = 0;
    for (n, raw) in messages.into_iter().enumerate() {
        let line = n + 1;
        let Some(message) = Object::of(Some(raw)) else {
            conversation.recording.unreadable(line, "a message that is not an object");
            continue;
        };
        let id = message.text("uuid").unwrap_or_else(|| format!("message-{line}"));
        // Exports without parents are lists.
        let parent = match message.text("parent_message_uuid") {
            Some(parent) => Some(parent).filter(|parent| parent != NO_PARENT),
            None => nodes.last().map(|node| node.id.clone()),
        };
        let at = message.time("created_at");
        let recording = &mut conversation.recording;
        let model = message.text("model").or_else(|| model.clone());
        let mut reader =
            MessageReader { id: &id, line, at, model: model.as_deref(), calls: &mut calls };
        let drafts = reader.drafts(recording, &message);
        nodes.push(Node { id, parent, line, drafts, continues: false });
    }
    let current = members.text("current_leaf_message_uuid");
    say_tree(conversation, nodes, current.as_deref());
}

/// Converts a message to drafts.
struct MessageReader<'a> {
    id: &'a str,
    line: usize,
    at: Option<i64>,
    model: Option<&'a str>,
    /// Number of calls so far, for exports without ids.
    calls: &'a mut usize,
}

impl MessageReader<'_> {
    fn drafts(&mut self, recording: &mut Recording, message: &Object<'_>) -> Vec<Draft> {
        let mut parts = Vec::new();
        let mut drafts = Vec::new();
        let is_user = match message.text("sender").as_deref() {
            Some("human") => true,
            Some("assistant") => false,
            other => {
                let what = format!("a message of the unknown sender {:?}", other.unwrap_or(""));
                recording.unreadable(self.line, what);
                true
            }
        };
        let mut open: Vec<String> = Vec::new();
        for raw in message.list("content") {
            let Some(block) = Object::of(Some(raw)) else {
                recording.unreadable(self.line, "a block that is not an object");
                continue;
            };
            match block.text("type").unwrap_or_default().as_str() {
                "text" | "voice_note" => {
                    let text = block.filled("text").or_else(|| block.filled("transcript"));
                    parts.extend(text.map(Part::text));
                }
                "thinking" => parts.push(Part::Reasoning {
                    text: block.text("thinking").unwrap_or_default(),
                    signature: block.text("signature"),
                    encrypted: None,
                }),
                "redacted_thinking" => parts.push(Part::Reasoning {
                    text: String::new(),
                    signature: None,
                    encrypted: block.text("data"),
                }),
                "tool_use" => {
                    *self.calls += 1;
                    let id = block.filled("id").unwrap_or_else(|| format!("call-{}", self.calls));
                    let name = block.text("name").unwrap_or_default();
                    let input = block.raw("input").map_or_else(|| "{}".to_owned(), canonical);
                    open.push(id.clone());
                    parts.push(Part::call(id, name, input));
                }
                "tool_result" => {
                    self.end(recording, &mut parts, &mut drafts);
                    let id = block.filled("tool_use_id");
                    let place = match &id {
                        Some(id) => open.iter().position(|open| open == id),
                        None => (!open.is_empty()).then_some(0),
                    };
                    let call_id = place.map(|place| open.remove(place)).or(id);
                    let answer = ToolAnswer {
                        call_id: call_id.unwrap_or_else(|| format!("call-{}", self.calls)),
                        name: block.text("name"),
                        is_error: block.is_true("is_error"),
                        parts: recording.message_content(self.line, block.raw("content")),
                    };
                    let draft = Draft::new(Content::ToolResult(answer));
                    drafts.push(recorded(draft, Some(self.id), self.at));
                }
                "token_budget" | "flag" => recording.skip("token_budget"),
                kind => {
                    let what = format!("a block of the unknown type {kind:?}, kept as its JSON");
                    recording.unreadable(self.line, what);
                    parts.push(Part::text(canonical(raw)));
                }
            }
        }
        if parts.is_empty() && drafts.is_empty() {
            parts.extend(message.filled("text").map(Part::text));
        }
        self.attachments(recording, message, &mut parts);
        if is_user {
            if !parts.is_empty() {
                let draft = Draft::new(Content::User(Body { parts, name: None }));
                drafts.push(recorded(draft, Some(self.id), self.at));
            }
        } else {
            self.end(recording, &mut parts, &mut drafts);
        }
        if drafts.is_empty() {
            recording.skip("empty message");
        }
        drafts
    }

    /// Ends an answer of the model. Text after a result belongs to a new answer.
    fn end(&self, recording: &mut Recording, parts: &mut Vec<Part>, drafts: &mut Vec<Draft>) {
        if parts.is_empty() {
            return;
        }
        let mut draft = parts.drain(..).fold(Draft::assistant(""), Draft::part);
        draft.generation_config = model_config(self.model);
        let mut metadata = Metadata::default();
        metadata.set("message_id", format!("{}#{}", self.id, drafts.len()));
        draft.metadata = metadata.json();
        recording.answer(self.model, None);
        drafts.push(recorded(draft, Some(self.id), self.at));
    }

    /// Adds the text of attached files. Exports do not contain the bytes of other files.
    fn attachments(&self, recording: &mut Recording, message: &Object<'_>, parts: &mut Vec<Part>) {
        for raw in message.list("attachments") {
            let Some(file) = Object::of(Some(raw)) else { continue };
            let name = file.text("file_name").unwrap_or_default();
            match file.filled("extracted_content") {
                Some(text) => parts.push(Part::text(format!("{name}\n{text}"))),
                None => {
                    let what = format!("the attachment {name:?} is not in the export");
                    recording.unreadable(self.line, what);
                }
            }
        }
        for raw in message.list("files").into_iter().chain(message.list("files_v2")) {
            let name = Object::of(Some(raw)).and_then(|file| file.text("file_name"));
            let what = format!("the file {:?} is not in the export", name.unwrap_or_default());
            recording.unreadable(self.line, what);
        }
    }
}
