//! Exports of ChatGPT: `conversations.json`, a list of conversations, or a single conversation.
//! Each is a tree of messages, and `current_node` names the last message shown.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::document::{Conversation, Document, conversations};
use crate::nodes::{Node, say_tree};
use crate::object::Object;
use crate::recording::Recording;
use crate::values::{self, Metadata, canonical, model_config, recorded, shown};

/// Returns whether an object is a conversation of an export.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    members.object("mapping").is_some_and(|mapping| {
        let mut nodes = mapping.names().into_iter().filter_map(|name| mapping.object(name));
        nodes.all(|node| node.has_all(&["children"]) || node.has_all(&["parent"]))
    })
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    conversations(
        bytes,
        "a conversation without the member \"mapping\"",
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
    let id = members.id("conversation_id").or_else(|| members.id("id"));
    conversation.facts.session = id;
    conversation.facts.title = members.filled("title");
    let Some(mapping) = members.object("mapping") else { return };
    // The order of the members is arbitrary: sort messages by time.
    let mut entries: Vec<(Option<i64>, &str, Object<'_>)> = mapping
        .names()
        .into_iter()
        .filter_map(|name| {
            let node = mapping.object(name)?;
            let at = node.object("message").and_then(|message| message.time("create_time"));
            Some((at, name, node))
        })
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    let parents: HashMap<&str, Option<String>> =
        entries.iter().map(|(_, name, node)| (*name, node.text("parent"))).collect();
    conversation.recording.report.lines = entries.len();
    let model = members.text("default_model_slug");
    let mut reader = Reader { calls: HashMap::new(), parents: &parents, model };
    let mut nodes = Vec::with_capacity(entries.len());
    // A result is read after the call that it answers.
    for place in by_depth(&parents, &entries) {
        let Some((_, name, node)) = entries.get(place) else { continue };
        let mut read = Node {
            id: (*name).to_owned(),
            parent: node.text("parent"),
            line: place + 1,
            ..Node::default()
        };
        if let Some(message) = node.object("message") {
            reader.message(&mut conversation.recording, &mut read, &message);
        }
        nodes.push((place, read));
    }
    nodes.sort_by_key(|(place, _)| *place);
    let nodes = nodes.into_iter().map(|(_, node)| node).collect();
    say_tree(conversation, nodes, members.text("current_node").as_deref());
}

/// Returns the positions of messages, each after its parent.
fn by_depth(
    parents: &HashMap<&str, Option<String>>,
    entries: &[(Option<i64>, &str, Object<'_>)],
) -> Vec<usize> {
    let mut depths: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    for (_, name, _) in entries {
        let mut path = Vec::new();
        let mut next = Some(*name);
        let mut depth = 0;
        while let Some(at) = next {
            // A path ends at the first message with a known depth, so all paths together visit each
            // message once.
            if let Some(known) = depths.get(at) {
                depth = known + 1;
                break;
            }
            // In a cycle, any message can be the first one.
            depths.insert(at, 0);
            path.push(at);
            let parent = parents.get(at).and_then(|parent| parent.as_deref());
            next = parent.and_then(|parent| parents.get_key_value(parent)).map(|(key, _)| *key);
        }
        for at in path.into_iter().rev() {
            depths.insert(at, depth);
            depth += 1;
        }
    }
    let mut order: Vec<usize> = (0..entries.len()).collect();
    let depth = |place: &usize| {
        let name = entries.get(*place).map(|(_, name, _)| *name);
        name.and_then(|name| depths.get(name)).copied().unwrap_or_default()
    };
    order.sort_by_key(|place| (depth(place), *place));
    order
}

struct Reader<'a> {
    /// The tool of each call, by the message with the call, until its result is read.
    calls: HashMap<String, String>,
    parents: &'a HashMap<&'a str, Option<String>>,
    model: Option<String>,
}

/// Maximum number of messages from a result back to its call. Messages without text may be in
/// between.
const MAX_STEPS: usize = 8;

impl Reader<'_> {
    fn message(&mut self, recording: &mut Recording, node: &mut Node, message: &Object<'_>) {
        let author = message.object("author").unwrap_or_default();
        let role = author.text("role").unwrap_or_default();
        let content = message.object("content").unwrap_or_default();
        let kind = content.text("content_type").unwrap_or_else(|| "text".to_owned());
        let facts = message.object("metadata").unwrap_or_default();
        let at = message.time("create_time");
        let recipient = message.text("recipient").filter(|to| to != "all");
        let parts = parts(recording, node.line, &kind, &content);
        for raw in facts.list("attachments") {
            let file = Object::of(Some(raw)).unwrap_or_default();
            // Images are parts of the content.
            if !file.text("mime_type").is_some_and(|kind| kind.starts_with("image/")) {
                let name = file.text("name").unwrap_or_default();
                let what = format!("the attachment {name:?} is not in the export's JSON");
                recording.unreadable(node.line, what);
            }
        }
        if parts.is_empty() {
            return recording.skip(format!("{role}:{kind}"));
        }
        let body = |parts| Body { parts, name: None };
        let mut metadata = Metadata::default();
        let mut draft = match role.as_str() {
            "system" => Draft::new(Content::System(body(parts))),
            "user" => Draft::new(Content::User(body(parts))),
            "assistant" => {
                let mut draft = Draft::assistant("");
                match recipient {
                    // A call: the message as a whole is addressed to a tool.
                    Some(tool) => {
                        let text = joined(&parts);
                        draft = draft.call(&node.id, &tool, arguments(&text));
                        self.calls.insert(node.id.clone(), tool);
                    }
                    None => draft = parts.into_iter().fold(draft, Draft::part),
                }
                let model = facts.text("model_slug").or_else(|| self.model.clone());
                draft.generation_config = model_config(model.as_deref());
                recording.answer(model.as_deref(), None);
                metadata.set("message_id", node.id.as_str());
                node.continues = kind != "thoughts";
                draft
            }
            "tool" => {
                let name = author.text("name");
                match self.call_of(node.parent.as_deref(), name.as_deref()) {
                    Some(call_id) => Draft::new(Content::ToolResult(ToolAnswer {
                        call_id,
                        name,
                        is_error: kind == "system_error",
                        parts,
                    })),
                    // A tool may send several messages, and some tools are not called.
                    None => {
                        metadata.set("injected", name.as_deref().unwrap_or("tool"));
                        Draft::new(Content::User(body(parts)))
                    }
                }
            }
            other => {
                recording.unreadable(node.line, format!("a message of the unknown role {other:?}"));
                return;
            }
        };
        if kind == "user_editable_context" || kind == "model_editable_context" {
            metadata.set("injected", kind.as_str());
        }
        draft.metadata = metadata.json();
        node.drafts.push(recorded(draft, Some(&node.id), at));
    }

    /// Returns the call that a result after a message answers.
    fn call_of(&mut self, parent: Option<&str>, tool: Option<&str>) -> Option<String> {
        let mut next = parent?.to_owned();
        for _ in 0..MAX_STEPS {
            if let Some(called) = self.calls.get(&next) {
                // For example, the author of results of `browser.search` is `browser`.
                let is_its = tool.is_none_or(|tool| {
                    called == tool || called.split('.').next() == tool.split('.').next()
                });
                if !is_its {
                    return None;
                }
                self.calls.remove(&next);
                return Some(next);
            }
            next = self.parents.get(next.as_str())?.clone()?;
        }
        None
    }
}

/// Returns the arguments of a call, whose text is JSON or a program, as an object: providers
/// require one.
fn arguments(text: &str) -> String {
    match Object::parse(text) {
        Some(_) => text.to_owned(),
        None => serde_json::json!({ "input": text }).to_string(),
    }
}

fn joined(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Reads the parts of a content by its type.
fn parts(recording: &mut Recording, line: usize, kind: &str, content: &Object<'_>) -> Vec<Part> {
    let text = |text: Option<String>| -> Vec<Part> {
        text.filter(|text| !text.trim().is_empty()).map(Part::text).into_iter().collect()
    };
    match kind {
        "text" | "multimodal_text" => {
            let mut parts = Vec::new();
            for raw in content.list("parts") {
                parts.extend(part(recording, line, raw));
            }
            if parts.is_empty() { text(content.text("text")) } else { parts }
        }
        "code"
        | "execution_output"
        | "system_error"
        | "sonic_webpage"
        | "citable_code_output"
        | "computer_output" => text(content.text("text")),
        "tether_quote" | "tether_browsing_code" => {
            let members = ["title", "url", "text", "result"];
            let texts: Vec<String> =
                members.iter().filter_map(|name| content.filled(name)).collect();
            text(Some(texts.join("\n")))
        }
        "tether_browsing_display" => {
            text(content.text("result").or_else(|| content.text("summary")))
        }
        "thoughts" => {
            let thoughts = content.list("thoughts");
            let thoughts = thoughts.into_iter().filter_map(|raw| Object::of(Some(raw)));
            let reasoning = thoughts.filter_map(|thought| {
                let heading = thought.filled("summary").map(|summary| format!("**{summary}**"));
                let texts: Vec<String> =
                    [heading, thought.filled("content")].into_iter().flatten().collect();
                (!texts.is_empty()).then(|| texts.join("\n"))
            });
            let reasoning =
                reasoning.map(|text| Part::Reasoning { text, signature: None, encrypted: None });
            reasoning.collect()
        }
        // A notice of the user interface about the thinking time.
        "reasoning_recap" => Vec::new(),
        "user_editable_context" => {
            let members = ["user_profile", "user_instructions"];
            let texts: Vec<String> =
                members.iter().filter_map(|name| content.filled(name)).collect();
            text(Some(texts.join("\n\n")))
        }
        "model_editable_context" => text(content.text("model_set_context")),
        other => {
            let what = format!("a content of the unknown type {other:?}, kept as its JSON");
            recording.unreadable(line, what);
            let all: Vec<String> = content
                .names()
                .into_iter()
                .filter_map(|name| Some(format!("{name}: {}", shown(content.raw(name)?))))
                .collect();
            text(Some(all.join("\n")))
        }
    }
}

/// Reads an element of a content: a text, a transcript, or an image stored elsewhere in the export.
fn part(recording: &mut Recording, line: usize, raw: &RawValue) -> Option<Part> {
    if let Some(text) = values::text(Some(raw)) {
        return (!text.is_empty()).then(|| Part::text(text));
    }
    let element = Object::of(Some(raw))?;
    let kind = element.text("content_type").unwrap_or_default();
    if let Some(text) = element.filled("text") {
        return Some(Part::text(text));
    }
    if let Some(pointer) = element.text("asset_pointer") {
        let what = format!("{kind}: the file {pointer:?} is not in the export's JSON");
        recording.unreadable(line, what);
        return Some(Part::text(format!("[{kind}: {pointer}]")));
    }
    recording.unreadable(line, format!("a part of the unknown type {kind:?}, kept as its JSON"));
    Some(Part::text(canonical(raw)))
}
