//! Every recorded conversation passes through the lines of a stream unchanged.

use serde_json::Value;
use tract_core::{
    Body, Content, Part, StreamOp, StreamOpFields, StreamOpKind, ToolAnswer, ToolSchema,
};
use tract_testkit::data;

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
    let (mut messages, mut tools, mut calls) = (0, 0, 0);
    let conversations = data::recorded();
    for conversation in &conversations {
        let schemas = conversation.tools.iter().map(|text| ToolSchema::parse(text).unwrap());
        let schemas: Vec<ToolSchema> = schemas.collect();
        tools += schemas.len();
        let set = StreamOpKind::SetTools { tools: schemas.clone() };
        assert_eq!(passes(set.clone().into()).op, set);
        for (n, message) in conversation.messages.iter().enumerate() {
            let content = content(&serde_json::from_str(message).unwrap());
            messages += 1;
            calls += content.calls().count();
            let fields = StreamOpFields {
                at: Some(1_700_000_000_000_000 + messages),
                tools: (n == 0).then(|| schemas.clone()),
                ..StreamOpFields::default()
            };
            let step =
                StreamOp { fields, ..StreamOp::from(StreamOpKind::adding(content.clone(), None)) };
            let draft = passes(step).to_draft().unwrap();
            assert_eq!(draft.content, content);
            assert_eq!(draft.created_at, Some(1_700_000_000_000_000 + messages));
            assert_eq!(draft.tools.is_some(), n == 0);
        }
    }
    let count = conversations.len();
    println!("{count} conversations, {messages} messages, {calls} calls, {tools} tools");
    assert!(count > 0 && messages > count as i64 && calls > 0 && tools > 0);
}
