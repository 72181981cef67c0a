//! Messages of LangChain in JSON: the dumps of their classes, the output of `messages_to_dict`,
//! their members alone, and model runs exported by LangSmith.

pub(crate) mod message;

use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::document::{Conversation, Document, LineNames, Values};
use crate::object::Object;
use crate::values::lenient;

/// Returns whether an object is a message in one of the formats.
pub(crate) fn is_message(members: &Object<'_>) -> bool {
    const KINDS: [&str; 6] = ["human", "ai", "system", "tool", "function", "chat"];
    if members.has_all(&["lc", "kwargs"]) {
        return true;
    }
    let kind = members.text("type").unwrap_or_default();
    let is_kind = KINDS.contains(&kind.as_str()) || kind.ends_with("MessageChunk");
    let data = members.object("data");
    is_kind
        && (data.is_some_and(|data| data.has_all(&["content"]))
            || members.has_all(&["content", "additional_kwargs"]))
}

/// Returns whether an object is a model run exported by LangSmith.
pub(crate) fn is_run(members: &Object<'_>) -> bool {
    members.has_all(&["run_type", "inputs"]) && !run(members).is_empty()
}

/// Returns whether an object or a list contains such messages.
pub(crate) fn is_one(raw: &RawValue) -> bool {
    if let Some(members) = Object::of(Some(raw)) {
        return is_message(&members) || is_run(&members) || first_message(members.list("messages"));
    }
    let list: Vec<&RawValue> = lenient(Some(raw)).unwrap_or_default();
    let first = list.first().and_then(|first| lenient::<Vec<&RawValue>>(Some(first)));
    first_message(list) || first.is_some_and(first_message)
}

fn first_message(list: Vec<&RawValue>) -> bool {
    let first = list.first().and_then(|raw| Object::of(Some(raw)));
    first.is_some_and(|members| is_message(&members))
}

pub(crate) fn read(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let is_record =
        |members: &Object<'_>| is_message(members) || is_run(members) || members.has("messages");
    let Values { values, damage } = Values::read(bytes, is_record)?;
    let mut all = Document::new();
    let is_turn = |raw: &RawValue| Object::of(Some(raw)).is_some_and(|turn| is_message(&turn));
    // The values are the messages of one conversation, or one conversation each.
    if values.iter().any(|(_, raw)| is_turn(raw)) {
        let mut conversation = Conversation::default();
        say(&mut conversation, &values);
        all.push(conversation);
    } else {
        let count = values.len();
        let mut names = LineNames::default();
        for (line, raw) in values {
            let mut conversation = Conversation::default();
            let name = (count > 1).then(|| names.next("conversation", line));
            conversation.facts.session = name;
            let messages = match Object::of(Some(raw)) {
                Some(members) => {
                    if let Some(id) = members.id("id").or_else(|| members.id("session_id")) {
                        conversation.facts.session = Some(id);
                    }
                    conversation.facts.title = members.filled("name");
                    match members.list("messages") {
                        list if list.is_empty() => run(&members),
                        list => list,
                    }
                }
                None => lenient(Some(raw)).unwrap_or_default(),
            };
            if messages.is_empty() {
                conversation.recording.unreadable(line, "a value without messages");
            }
            let messages: Vec<(usize, &RawValue)> =
                messages.into_iter().map(|raw| (line, raw)).collect();
            say(&mut conversation, &messages);
            all.push(conversation);
        }
    }
    if let Some(first) = all.first_mut() {
        for (line, kind, what) in damage {
            first.recording.odd(line, kind, what);
        }
    }
    Ok(all)
}

/// Returns the messages of a run: its input and its answer.
fn run<'a>(members: &Object<'a>) -> Vec<&'a RawValue> {
    let inputs = members.object("inputs").unwrap_or_default();
    let mut messages = inputs.list("messages");
    // The input may be a list of requests, with a single one.
    if let Some(first) = messages.first().and_then(|raw| lenient::<Vec<&RawValue>>(Some(raw))) {
        messages = first;
    }
    if !first_message(messages.clone()) {
        return Vec::new();
    }
    let outputs = members.object("outputs").unwrap_or_default();
    let batches = outputs.list("generations").into_iter();
    for raw in batches.flat_map(|raw| lenient::<Vec<&RawValue>>(Some(raw)).unwrap_or_default()) {
        messages.extend(Object::of(Some(raw)).and_then(|answer| answer.raw("message")));
    }
    messages
}

fn say(conversation: &mut Conversation, messages: &[(usize, &RawValue)]) {
    conversation.recording.report.lines = messages.len();
    let mut seen = HashSet::new();
    for (line, raw) in messages {
        let read = message::messages(&[*raw], *line, None, &mut conversation.recording, &mut seen);
        conversation.recording.end_answer(&conversation.cursor);
        for message in read {
            conversation.recording.append(&mut conversation.cursor, message);
        }
    }
}
