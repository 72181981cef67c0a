//! Every recorded conversation passes through the lines of a stream unchanged.
//!
//! `TRACT_DATA` names the folder of full recordings (default `../shared/data` next to the
//! repository); where it is missing the part that the repository bundles is used.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{
    Body, Content, Part, StreamOp, StreamOpFields, StreamOpKind, ToolAnswer, ToolCall, ToolSchema,
};

#[derive(Deserialize)]
struct Conversation {
    #[serde(default)]
    tools: Option<Vec<Box<RawValue>>>,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Box<RawValue>>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
    tool_call_id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let full = std::env::var_os("TRACT_DATA")
        .map_or_else(|| root.join("../shared/data"), PathBuf::from)
        .join("trajectories");
    if full.is_dir() {
        return full;
    }
    assert!(std::env::var_os("CI").is_none(), "{} is no folder; set TRACT_DATA", full.display());
    println!("running on the bundled recordings; TRACT_DATA names the folder of all");
    root.join("tests/data/trajectories")
}

fn content(message: Message) -> Content {
    let text = message
        .content
        .map(|raw| match serde_json::from_str::<Option<String>>(raw.get()) {
            Ok(text) => text.unwrap_or_default(),
            Err(_) => raw.get().to_owned(), // parts: kept as their JSON, which is awkward text
        })
        .unwrap_or_default();
    let calls = message.tool_calls.unwrap_or_default().into_iter().map(|call| {
        let Function { name, arguments } = call.function;
        Part::ToolCall(ToolCall { id: call.id, name, arguments })
    });
    let mut parts = vec![Part::text(text)];
    parts.extend(calls);
    match message.role.as_str() {
        "system" => Content::System(Body { parts, name: message.name }),
        "user" => Content::User(Body { parts, name: message.name }),
        "assistant" => Content::Assistant(Body { parts, name: message.name }),
        _ => Content::ToolResult(ToolAnswer {
            call_id: message.tool_call_id.unwrap_or_default(),
            name: message.name,
            is_error: false,
            parts,
        }),
    }
}

/// Writes a step, reads it, and expects the same one.
#[track_caller]
fn passes(step: StreamOp) -> StreamOp {
    let line = step.to_line().expect("the step has a line");
    assert!(!line.contains('\n'));
    let read = StreamOp::parse(&line).expect("the line reads back");
    assert_eq!(read, step, "{line}");
    read
}

#[test]
fn recorded_conversations_pass_through_a_stream_unchanged() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let (mut conversations, mut messages, mut tools, mut calls) = (0, 0, 0, 0);
    for file in files {
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let conversation: Conversation = serde_json::from_str(line).unwrap();
            conversations += 1;
            let schemas: Vec<ToolSchema> = conversation
                .tools
                .iter()
                .flatten()
                .map(|raw| ToolSchema::parse(raw.get()).unwrap())
                .collect();
            tools += schemas.len();
            let set = passes(StreamOpKind::SetTools { tools: schemas.clone() }.into());
            assert_eq!(set.op, StreamOpKind::SetTools { tools: schemas.clone() });
            for (n, message) in conversation.messages.into_iter().enumerate() {
                let content = content(message);
                messages += 1;
                calls += content.calls().count();
                let mut fields = StreamOpFields::default();
                fields.at = Some(1_700_000_000_000_000 + messages);
                fields.tools = (n == 0).then(|| schemas.clone());
                let step =
                    StreamOp::from(StreamOpKind::adding(content.clone(), None)).fields(fields);
                let draft = passes(step).to_draft().unwrap();
                assert_eq!(draft.content, content);
                assert_eq!(draft.created_at, Some(1_700_000_000_000_000 + messages));
                assert_eq!(draft.tools.is_some(), n == 0);
            }
        }
    }
    println!("{conversations} conversations, {messages} messages, {calls} calls, {tools} tools");
    assert!(conversations > 0 && messages > conversations && calls > 0 && tools > 0);
}
