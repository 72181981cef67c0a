//! Chats of Cursor: a database of keys and values, some of which are the chats and their messages.
//!
//! The format is undocumented and changes. Messages and their calls are read; message parts that
//! are stored elsewhere are reported.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, Part, ToolAnswer, json};

use crate::damage::{decode_noting, read_object};
use crate::document::Conversation;
use crate::object::Object;
use crate::report::{AnomalyKind, TokenTotals};
use crate::sqlite::{failure, open_database, tables};
use crate::values::{Metadata, Raw, canonical, model_config, recorded};

/// The table of the keys.
const TABLE: &str = "cursorDiskKV";
/// The prefix of the keys of chats.
const CHAT: &str = "composerData:";

/// Returns whether a database has the table of Cursor.
pub(crate) fn is_one(path: &Path) -> bool {
    let Ok(database) = open_database(path) else { return false };
    tables(&database).is_ok_and(|tables| tables.iter().any(|(name, _)| name == TABLE))
}

/// Reads the chats one by one.
pub(crate) fn read<E: From<io::Error>>(
    path: &Path,
    mut each: impl FnMut(Conversation) -> Result<(), E>,
) -> Result<(), E> {
    let database = open_database(path)?;
    let found = tables(&database).map_err(failure)?;
    if !found.iter().any(|(name, _)| name == TABLE) {
        return Err(failure("no chats of Cursor").into());
    }
    let keys = keys(&database).map_err(failure)?;
    let mut count = 0;
    for key in &keys {
        let mut damage = Vec::new();
        let text = value(&database, key, &mut damage).map_err(failure)?;
        let Some(text) = text else { continue };
        let id = key.strip_prefix(CHAT).unwrap_or_default();
        if Object::parse(&text).is_none() {
            let mut conversation = Conversation::default();
            conversation.facts.session = Some(id.to_owned());
            conversation.recording.odds(0, damage);
            conversation.recording.unreadable(0, "a chat that is not an object in JSON");
            each(conversation)?;
            continue;
        }
        if let Some(mut conversation) = conversation(&database, id, &text).map_err(failure)? {
            conversation.recording.odds(0, damage);
            count += 1;
            each(conversation)?;
        }
    }
    if count == 0 {
        // A workspace's database only contains prompts and settings.
        let what = "it has no chats; those are in globalStorage/state.vscdb";
        return Err(failure(what).into());
    }
    Ok(())
}

fn keys(database: &Connection) -> rusqlite::Result<Vec<String>> {
    let query = format!("SELECT key FROM {TABLE} WHERE key >= ?1 AND key < ?2 ORDER BY key");
    let mut statement = database.prepare(&query)?;
    // The range of all keys with this prefix: `;` follows `:`.
    let rows = statement.query_map([CHAT, "composerData;"], |row| row.get(0))?;
    rows.collect()
}

fn value(
    database: &Connection,
    key: &str,
    damage: &mut Vec<(AnomalyKind, String)>,
) -> rusqlite::Result<Option<String>> {
    let query = format!("SELECT value FROM {TABLE} WHERE key = ?1");
    let mut statement = database.prepare_cached(&query)?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(match row.get_ref(0)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(decode_noting(bytes, damage)),
        _ => None,
    })
}

fn conversation(
    database: &Connection,
    id: &str,
    text: &str,
) -> rusqlite::Result<Option<Conversation>> {
    let (read, odds) = read_object("", text, |chat| conversation_of(database, id, chat));
    let mut read = read?;
    if read.is_none() && !odds.is_empty() {
        let mut conversation = Conversation::default();
        conversation.facts.session = Some(id.to_owned());
        read = Some(conversation);
    }
    if let Some(conversation) = &mut read {
        conversation.recording.odds(0, odds);
    }
    Ok(read)
}

fn conversation_of(
    database: &Connection,
    id: &str,
    chat: &Object<'_>,
) -> rusqlite::Result<Option<Conversation>> {
    let mut conversation = Conversation::default();
    conversation.facts.session = Some(id.to_owned());
    conversation.facts.title = chat.filled("name");
    let config = chat.object("modelConfig").unwrap_or_default();
    let mut reader = Reader {
        conversation,
        model: config.filled("modelName"),
        at: chat.time("createdAt"),
        line: 0,
    };
    // Older chats contain their messages.
    let inner = chat.list("conversation");
    let map = chat.object("conversationMap").unwrap_or_default();
    let headers = chat.list("fullConversationHeadersOnly");
    if inner.is_empty() && headers.is_empty() {
        if map.names().is_empty() {
            return Ok(None);
        }
        reader.map(chat.raw("conversationMap"));
        return Ok(Some(reader.conversation));
    }
    let mut read = HashSet::new();
    for raw in &inner {
        read.extend(Object::of(Some(raw)).and_then(|bubble| bubble.filled("bubbleId")));
        reader.bubble(raw);
    }
    for raw in headers {
        let header = Object::of(Some(raw)).unwrap_or_default();
        let bubble = header.text("bubbleId").unwrap_or_default();
        // A chat that has both lists repeats messages in the second one.
        if !bubble.is_empty() && !read.insert(bubble.clone()) && !inner.is_empty() {
            continue;
        }
        let mut damage = Vec::new();
        let text = value(database, &format!("bubbleId:{id}:{bubble}"), &mut damage)?;
        reader.conversation.recording.odds(reader.line + 1, damage);
        let is_there = text.is_some();
        let known = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        match (known, map.raw(&bubble)) {
            (Some(text), _) => {
                let text = format!(r#"{{"bubble":{text}}}"#);
                let read = |row: &Object<'_>| row.raw("bubble").map(|raw| reader.bubble(raw));
                let (_, odds) = read_object("", &text, read);
                reader.conversation.recording.odds(reader.line, odds);
            }
            (None, Some(raw)) => reader.bubble(raw),
            (None, None) => {
                reader.line += 1;
                let place = if is_there { "JSON" } else { "in the database" };
                let what = format!("the message {bubble:?} is not {place}");
                reader.conversation.recording.unreadable(reader.line, what);
            }
        }
    }
    let unlisted = map.names().into_iter().filter(|id| !read.contains(*id)).count();
    if unlisted > 0 {
        let what = format!("conversationMap: {}", not_read(unlisted, "message", "no list"));
        reader.conversation.recording.unreadable(reader.line, what);
    }
    Ok(Some(reader.conversation))
}

/// The lists of a user's message with content that was sent with it.
const ATTACHMENTS: [&str; 8] = [
    "attachedCodeChunks",
    "attachedFolders",
    "attachedFoldersNew",
    "codebaseContextChunks",
    "docsReferences",
    "externalLinks",
    "relevantFiles",
    "webReferences",
];

/// Returns the texts of an editor's document in JSON, or the text itself if it is not one.
fn rich_text(text: String) -> String {
    fn collect(node: &Value, texts: &mut String) {
        match node.get("type").and_then(Value::as_str) {
            Some("linebreak") => texts.push('\n'),
            Some("paragraph") if !texts.is_empty() => texts.push('\n'),
            _ => {}
        }
        texts.push_str(node.get("text").and_then(Value::as_str).unwrap_or_default());
        let children = node.get("children").and_then(Value::as_array);
        children.into_iter().flatten().for_each(|child| collect(child, texts));
    }
    let Ok(document) = serde_json::from_str::<Value>(&text) else { return text };
    let Some(root) = document.get("root") else { return text };
    let mut texts = String::new();
    collect(root, &mut texts);
    texts
}

/// Describes content that is not read, such as "2 pictures of the message are not read".
fn not_read(count: usize, noun: &str, owner: &str) -> String {
    match count {
        1 => format!("1 {noun} of {owner} is not read"),
        count => format!("{count} {noun}s of {owner} are not read"),
    }
}

struct Reader {
    conversation: Conversation,
    model: Option<String>,
    at: Option<i64>,
    line: usize,
}

impl Reader {
    /// Reads messages by their ids, which are in the order of their times if all have one.
    fn map(&mut self, raw: Raw<'_>) {
        let members = json::split_object(raw.map_or("", RawValue::get)).unwrap_or_default();
        let texts = members.iter().filter_map(|(_, text)| serde_json::from_str(text).ok());
        let mut bubbles: Vec<&RawValue> = texts.collect();
        let time = |raw: &&RawValue| Object::of(Some(raw)).and_then(|it| it.time("createdAt"));
        if bubbles.iter().all(|raw| time(raw).is_some()) {
            bubbles.sort_by_key(time);
        } else {
            let what = "conversationMap: messages without times, in the order of the file";
            self.conversation.recording.unreadable(0, what);
        }
        bubbles.into_iter().for_each(|raw| self.bubble(raw));
    }

    fn attachments(&mut self, bubble: &Object<'_>) {
        let context = bubble.object("context").unwrap_or_default();
        let lists = ATTACHMENTS.iter().map(|name| ((*name).to_owned(), bubble.list(name).len()));
        let names = context
            .names()
            .into_iter()
            .filter(|name| context.raw(name).is_some_and(|raw| raw.get().starts_with('[')));
        let inner = names.map(|name| (format!("context.{name}"), context.list(name).len()));
        for (name, count) in lists.chain(inner).filter(|(_, count)| *count > 0) {
            let what = format!("{name}: {}", not_read(count, "attachment", "the message"));
            self.conversation.recording.unreadable(self.line, what);
        }
    }

    fn bubble(&mut self, raw: &RawValue) {
        self.line += 1;
        self.conversation.recording.report.lines += 1;
        let Some(bubble) = Object::of(Some(raw)) else {
            let what = "a message that is not an object";
            return self.conversation.recording.unreadable(self.line, what);
        };
        let id = bubble.filled("bubbleId");
        self.at = bubble.time("createdAt").or(self.at);
        let text = bubble.filled("text");
        let images = bubble.list("images").len();
        if images > 0 {
            let what = not_read(images, "picture", "the message");
            self.conversation.recording.unreadable(self.line, what);
        }
        match bubble.count("type") {
            Some(1) => {
                self.attachments(&bubble);
                let text = text.or_else(|| bubble.filled("richText").map(rich_text));
                match text.filter(|text| !text.is_empty()) {
                    Some(text) => self.say(id.as_deref(), 0, Draft::user(text)),
                    None => self.conversation.recording.skip("empty message"),
                }
            }
            Some(2) => self.answer(id.as_deref(), text, &bubble),
            kind => {
                let what = format!("a message of the unknown type {}", kind.unwrap_or_default());
                self.conversation.recording.unreadable(self.line, what);
            }
        }
    }

    fn answer(&mut self, id: Option<&str>, text: Option<String>, bubble: &Object<'_>) {
        let mut draft = Draft::assistant("");
        if let Some(thinking) = bubble.object("thinking") {
            draft = draft.part(Part::Reasoning {
                text: thinking.text("text").unwrap_or_default(),
                signature: thinking.filled("signature"),
                encrypted: None,
            });
        }
        draft = text.into_iter().map(Part::text).fold(draft, Draft::part);
        let tool = bubble
            .object("toolFormerData")
            .filter(|tool| tool.has("name") || tool.has("toolCallId"));
        let mut result = None;
        if let Some(tool) = &tool {
            let call_id = tool.filled("toolCallId");
            let call_id = call_id.unwrap_or_else(|| id.unwrap_or("call").to_owned());
            let name = tool.text("name").unwrap_or_default();
            let arguments = ["rawArgs", "params"].iter().find_map(|name| {
                let text = tool.text(name).filter(|text| Object::parse(text).is_some());
                text.or_else(|| {
                    Object::of(tool.raw(name)).and_then(|_| tool.raw(name)).map(canonical)
                })
            });
            if arguments.is_none() {
                let what = format!("the call of {name:?} has no arguments that are read");
                self.conversation.recording.unreadable(self.line, what);
            }
            draft = draft.call(&call_id, &name, arguments.unwrap_or_else(|| "{}".to_owned()));
            let status = tool.text("status").unwrap_or_default();
            let is_error = matches!(status.as_str(), "error" | "cancelled" | "rejected");
            let output = tool.first(&["result", "error"]).map(crate::values::shown);
            let denied = (status == "rejected").then(|| "The user rejected the call.".to_owned());
            if let Some(text) = output.or(denied) {
                let (name, parts) = (Some(name), vec![Part::text(text)]);
                let answer = ToolAnswer { call_id, name, is_error, parts };
                result = Some(Draft::new(Content::ToolResult(answer)));
            }
        }
        if draft.content.parts().is_empty() {
            let blocks = bubble.list("codeBlocks").into_iter();
            let blocks = blocks.filter_map(|raw| Object::of(Some(raw))?.filled("content"));
            let code: Vec<String> = blocks.collect();
            if !code.is_empty() {
                draft = draft.part(Part::text(code.join("\n")));
            }
        }
        if draft.content.parts().is_empty() {
            return self.conversation.recording.skip("empty message");
        }
        let info = bubble.object("modelInfo").unwrap_or_default();
        let model = info.filled("modelName").or_else(|| self.model.clone());
        let usage = bubble.object("tokenCount").map(|tokens| {
            let count = |name: &str| tokens.count(name).unwrap_or_default();
            TokenTotals {
                input: count("inputTokens"),
                output: count("outputTokens"),
                ..TokenTotals::default()
            }
        });
        // Newer versions write zeros.
        let usage = usage.filter(|usage| *usage != TokenTotals::default());
        let mut metadata = Metadata::default();
        metadata.set_some("message_id", id);
        if let Some(usage) = &usage {
            metadata.usage(usage);
        }
        draft.metadata = metadata.json();
        draft.generation_config = model_config(model.as_deref());
        let recording = &mut self.conversation.recording;
        recording.end_answer(&self.conversation.cursor);
        recording.answer(model.as_deref(), usage.as_ref());
        self.say(id, 0, draft);
        result.into_iter().for_each(|draft| self.say(id, 1, draft));
    }

    fn say(&mut self, id: Option<&str>, n: usize, draft: Draft) {
        let own = id.map(|id| if n == 0 { id.to_owned() } else { format!("{id}#{n}") });
        let draft = recorded(draft, id, self.at);
        self.conversation.say(own.as_deref(), self.line, draft);
    }
}
