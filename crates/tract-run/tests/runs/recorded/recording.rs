//! What was recorded, in the least words, and which of it can be driven.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tract_core::{Content, JsonText, Message, ToolCall};
use tract_testkit::data::{RecordedConversation, recorded};

/// One message: role, text, calls or the call answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedMessage {
    pub(crate) role: String,
    /// Null, absent and empty are one.
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    /// Of a result: the call's id, and the tool's name where it is said.
    pub(crate) answers: Option<(String, Option<String>)>,
}

pub(crate) fn canonical(text: &str) -> String {
    JsonText::new(text).map_or_else(|_| text.to_owned(), |json| json.to_string())
}

impl RecordedMessage {
    /// Reads a message in the form of OpenAI's Chat.
    pub(crate) fn of_chat(message: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let role = text(&message["role"]);
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        let calls = calls.iter().map(|call| {
            let function = &call["function"];
            ToolCall {
                id: text(&call["id"]),
                name: text(&function["name"]),
                arguments: text(&function["arguments"]),
            }
        });
        let answers = (role == "tool")
            .then(|| (text(&message["tool_call_id"]), message["name"].as_str().map(str::to_owned)));
        Self { text: text(&message["content"]), calls: calls.collect(), role, answers }
    }

    /// Takes a message of a branch.
    pub(crate) fn of_message(message: &Message) -> Self {
        let answers = match &message.content {
            Content::ToolResult(answer) => Some((answer.call_id.clone(), answer.name.clone())),
            _ => None,
        };
        let role = message.role.as_str().to_owned();
        let calls = message.content.calls().cloned().collect();
        Self { role, text: message.content.text(), calls, answers }
    }

    /// Whether it says what was recorded. A recording need not name the tool of a result.
    pub(crate) fn says(&self, recorded: &Self) -> bool {
        fn key(call: &ToolCall) -> (&str, &str, String) {
            (&call.id, &call.name, canonical(&call.arguments))
        }
        self.role == recorded.role
            && self.text == recorded.text
            && self.calls.iter().map(key).eq(recorded.calls.iter().map(key))
            && match (&self.answers, &recorded.answers) {
                (Some((id, name)), Some((wanted, named))) => {
                    id == wanted && named.as_ref().is_none_or(|named| Some(named) == name.as_ref())
                }
                (None, None) => true,
                _ => false,
            }
    }
}

/// A recorded conversation.
pub(crate) struct Recording {
    pub(crate) id: String,
    pub(crate) messages: Vec<RecordedMessage>,
    pub(crate) conversation: RecordedConversation,
}

impl Recording {
    pub(crate) fn of(conversation: RecordedConversation) -> Self {
        let messages = conversation.messages.iter().map(|message| {
            let message: Value = serde_json::from_str(message).unwrap();
            RecordedMessage::of_chat(&message)
        });
        Self { id: conversation.id.clone(), messages: messages.collect(), conversation }
    }

    /// What the model says, each with its place.
    pub(crate) fn spoken(&self) -> impl Iterator<Item = (usize, &RecordedMessage)> {
        self.messages.iter().enumerate().filter(|(_, entry)| entry.role == "assistant")
    }

    /// What the model says when it has said that much.
    pub(crate) fn reply(&self, before: usize) -> Option<&RecordedMessage> {
        self.spoken().nth(before).map(|(_, entry)| entry)
    }

    /// How often the model speaks.
    pub(crate) fn replies(&self) -> usize {
        self.spoken().count()
    }

    /// What comes before the model speaks again, when it has spoken that often.
    pub(crate) fn until(&self, spoken: usize) -> &[RecordedMessage] {
        let end = self.spoken().nth(spoken).map_or(self.messages.len(), |(place, _)| place);
        &self.messages[..end]
    }

    /// The result of a call of the n-th reply, from 1; ids are used again in later ones.
    pub(crate) fn result(&self, reply: usize, call_id: &str) -> Option<&RecordedMessage> {
        let from = self.until(reply.checked_sub(1)?).len() + 1;
        let results = self.messages[from..].iter().take_while(|entry| entry.role == "tool");
        let answers =
            |entry: &&RecordedMessage| entry.answers.as_ref().is_some_and(|(id, _)| id == call_id);
        results.into_iter().find(answers)
    }

    /// Says why it cannot be driven, where it cannot: an agent and persons take turns, each call is
    /// answered right after it was asked for, in order, and has an id of its own in its turn.
    fn why_not(&self) -> Option<String> {
        let mut open: Vec<&str> = Vec::new();
        let mut before = "";
        for (place, entry) in self.messages.iter().enumerate() {
            let refused = |why: &str| Some(format!("message {}: {why}", place + 1));
            match (entry.role.as_str(), open.is_empty()) {
                ("tool", false) => {
                    let next = open.remove(0);
                    if entry.answers.as_ref().is_none_or(|(id, _)| id != next) {
                        return refused("a result that is not of the next open call");
                    }
                }
                (_, false) => return refused("something else before all calls are answered"),
                ("assistant", true) if before == "user" || before == "tool" => {
                    let mut ids = BTreeSet::new();
                    open = entry.calls.iter().map(|call| call.id.as_str()).collect();
                    if !open.iter().all(|id| ids.insert(*id)) {
                        return refused("two calls of one id in one turn");
                    }
                }
                ("user", true) if before != "user" => {}
                ("system", true) if before.is_empty() => {}
                (role, true) => return refused(&format!("{role} after {before:?}")),
            }
            before = &entry.role;
        }
        (!open.is_empty()).then(|| "its last calls have no answer".to_owned())
    }
}

/// How much more than by default is tried.
pub(crate) fn scale() -> usize {
    std::env::var("TRACT_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The recorded conversations with an airline that can be driven, in the order of the recording, at
/// most so many; those at a ferry's desk, which the repository contains, where there are no others.
pub(crate) fn airline(most: usize) -> Vec<Arc<Recording>> {
    let of_a_desk = |id: &str| id.starts_with("tau-airline") || id.starts_with("ferry-");
    let airline: Vec<Recording> = recorded()
        .into_iter()
        .filter(|conversation| of_a_desk(&conversation.id))
        .map(Recording::of)
        .collect();
    let recorded = airline.len();
    let mut drivable = Vec::new();
    for recording in airline {
        match recording.why_not() {
            Some(why) => println!("{} is left out: {why}", recording.id),
            None => drivable.push(Arc::new(recording)),
        }
    }
    let refused = recorded - drivable.len();
    println!("{recorded} conversations were recorded, {refused} cannot be driven");
    // The recordings have a hundred; a few are bundled.
    assert!(drivable.len() >= 4 && (recorded < 50 || drivable.len() >= 50), "{}", drivable.len());
    drivable.truncate(most);
    drivable
}
