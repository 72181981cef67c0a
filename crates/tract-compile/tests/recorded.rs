//! Recorded conversations: what was said comes out as it went in, warm, cold and from a snapshot.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::{History, Snap, facts};
use serde_json::Value;
use tract_core::{Body, CallRef, Content, Op, Part, Priority};
use tract_testkit::data;

fn content(message: &Value) -> Content {
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        parts => parts.to_string(),
    };
    match message["role"].as_str().unwrap() {
        "system" | "developer" => Content::system(text),
        "user" => Content::user(text),
        "tool" => Content::tool_result(message["tool_call_id"].as_str().unwrap_or_default(), text),
        _ => {
            let mut body = if text.is_empty() { Body::default() } else { Body::text(text) };
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let function = &call["function"];
                let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (id, name) = (word(&call["id"]), word(&function["name"]));
                body.parts.push(Part::call(id, name, word(&function["arguments"])));
            }
            Content::Assistant(body)
        }
    }
}

#[test]
fn recorded_conversations_compile_as_they_were_said() {
    let mut conversations = 0;
    for line in data::lines(&data::find("trajectories").0) {
        let conversation: Value = serde_json::from_str(&line).unwrap();
        let mut history = History::new();
        let schemas: Vec<String> = conversation["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|tool| tool.to_string())
            .collect();
        history.tools(&schemas.iter().map(String::as_str).collect::<Vec<_>>());
        let mut recorded: Vec<Content> = Vec::new();
        let mut open: Vec<(String, CallRef)> = Vec::new();
        for message in conversation["messages"].as_array().unwrap() {
            let content = content(message);
            let answers = match &content {
                Content::ToolResult(answer) => {
                    let at = open.iter().rposition(|(id, _)| *id == answer.call_id);
                    at.map(|at| open.remove(at).1)
                }
                _ => None,
            };
            let slot = history.append_with(content.clone(), answers, None);
            for (index, call) in content.calls().enumerate() {
                open.push((call.id.clone(), CallRef { slot, index: index as u32 }));
            }
            recorded.push(content);
        }
        let compiled = history.compile();
        let contents: Vec<Content> =
            compiled.messages().map(|message| message.content.clone()).collect();
        assert_eq!(contents, recorded, "{}", conversation["id"]);
        let tools: Vec<&str> = compiled.tools().iter().map(|tool| &*tool.schema).collect();
        assert_eq!(tools, schemas);
        assert_eq!(facts(&history.cold(history.head)), facts(&compiled));

        // Half of it skipped, then a snapshot, then back again.
        let slots: Vec<_> = history.rows().iter().map(|row| row.slot).collect();
        let half: Vec<_> = slots.iter().copied().step_by(2).collect();
        let skip = history.annotate(&half, Priority::Skip);
        let record = history.record(Op::Note);
        history.write(record, &[], &[], Snap::Always);
        assert_eq!(history.cold(history.head).message_count(), slots.len() / 2);
        assert_eq!(facts(&history.cold(history.head)), facts(&history.compile()));
        if history.revert(skip).is_some() {
            assert_eq!(history.cold(history.head).view_id(), compiled.view_id());
        }
        conversations += 1;
    }
    assert!(conversations > 0, "some conversations are recorded");
    println!("{conversations} conversations");
}
