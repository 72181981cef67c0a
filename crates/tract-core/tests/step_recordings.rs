//! Every recorded conversation passes through the lines of a stream unchanged.
//!
//! `TRACT_DATA` names the folder of full recordings (default `../shared/data` next to the
//! repository); where it is missing the part that the repository bundles is used.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tract_core::{
    Body, Content, Part, StreamOp, StreamOpFields, StreamOpKind, ToolAnswer, ToolSchema,
};

#[derive(Deserialize)]
struct Conversation {
    #[serde(default)]
    tools: Option<Vec<Box<RawValue>>>,
    messages: Vec<Value>,
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

fn content(message: &Value) -> Content {
    let word = |value: &Value| value.as_str().expect("text").to_owned();
    let mut parts = vec![Part::text(match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        parts => parts.to_string(), // kept as their JSON, which is awkward text
    })];
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let (id, function) = (&call["id"], &call["function"]);
        parts.push(Part::call(word(id), word(&function["name"]), word(&function["arguments"])));
    }
    let name = message["name"].as_str().map(str::to_owned);
    match word(&message["role"]).as_str() {
        "system" => Content::System(Body { parts, name }),
        "user" => Content::User(Body { parts, name }),
        "assistant" => Content::Assistant(Body { parts, name }),
        _ => {
            let call_id = message["tool_call_id"].as_str().unwrap_or_default().to_owned();
            Content::ToolResult(ToolAnswer { call_id, name, is_error: false, parts })
        }
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
    let (mut conversations, mut messages, mut tools, mut calls) = (0, 0, 0, 0);
    for file in std::fs::read_dir(folder()).unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
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
                let content = content(&message);
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
