//! Arguments of calls. They distinguish conversations that have the same beginning and the same
//! call ids.
//!
//! Prefix hashes leave arguments out, because clients send calls back with defaults added or with
//! arguments that a person edited. Servers that number their calls (`call_0`) use the same ids in
//! every run, so the recorded arguments of such an id must match the sent ones.

use std::collections::HashMap;

use serde_json::Value;
use tract_core::{Content, Part};

/// Minimum length of a run of letters and digits in a generated id.
const GENERATED_LENGTH: usize = 12;

/// The calls of a conversation up to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CallsId(Option<usize>);

/// A call: its id, and its arguments as they were written.
type Call = (String, String);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    before: CallsId,
    calls: Vec<Call>,
}

/// The calls of all conversations, as a tree: conversations with the same calls share nodes.
#[derive(Debug, Default)]
pub(crate) struct RecordedCalls {
    nodes: Vec<Node>,
    known: HashMap<Node, usize>,
}

fn calls_of(content: &Content) -> Vec<Call> {
    let calls = content.parts().iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some((call.id.clone(), call.arguments.clone())),
        _ => None,
    });
    calls.collect()
}

impl RecordedCalls {
    /// Returns the calls after one more message.
    pub(crate) fn after(&mut self, before: CallsId, content: &Content) -> CallsId {
        let calls = calls_of(content);
        if calls.is_empty() {
            return before;
        }
        let node = Node { before, calls };
        let number = match self.known.get(&node) {
            Some(number) => *number,
            None => {
                self.nodes.push(node.clone());
                self.known.insert(node, self.nodes.len() - 1);
                self.nodes.len() - 1
            }
        };
        CallsId(Some(number))
    }

    /// Returns the calls and all before them, the last first.
    pub(crate) fn ancestors(&self, calls: CallsId) -> impl Iterator<Item = CallsId> {
        let before = move |calls: &CallsId| Some(self.nodes.get(calls.0?)?.before);
        std::iter::successors(Some(calls), before)
    }

    /// Compares the sent calls with the recorded ones: `None` if they differ, else whether they are
    /// equal byte for byte.
    pub(crate) fn agree(
        &self,
        recorded: CallsId,
        sent: &SentCalls<'_>,
        count: usize,
    ) -> Option<bool> {
        let mut sent = sent.of_first(count).rev();
        let mut same = true;
        for calls in self.ancestors(recorded) {
            let Some(node) = calls.0.and_then(|number| self.nodes.get(number)) else { break };
            for (id, arguments) in node.calls.iter().rev() {
                let (sent_id, sent_arguments) = sent.next()?;
                if sent_id != id {
                    return None;
                }
                same &= sent_arguments == arguments;
                if sent_arguments != arguments
                    && !is_generated(id)
                    && !is_extended(arguments, sent_arguments)
                {
                    return None;
                }
            }
        }
        sent.next().is_none().then_some(same)
    }
}

/// The calls of a request.
#[derive(Debug, Default)]
pub(crate) struct SentCalls<'a> {
    calls: Vec<(&'a str, &'a str)>,
    /// The number of calls before each message.
    counts: Vec<usize>,
}

impl<'a> SentCalls<'a> {
    pub(crate) fn of(messages: impl Iterator<Item = &'a Content>) -> Self {
        let mut sent = Self { calls: Vec::new(), counts: vec![0] };
        for content in messages {
            sent.calls.extend(content.parts().iter().filter_map(|part| match part {
                Part::ToolCall(call) => Some((call.id.as_str(), call.arguments.as_str())),
                _ => None,
            }));
            sent.counts.push(sent.calls.len());
        }
        sent
    }

    fn of_first(&self, messages: usize) -> std::slice::Iter<'_, (&'a str, &'a str)> {
        let count = self.counts.get(messages).copied().unwrap_or_default();
        self.calls.get(..count).unwrap_or_default().iter()
    }
}

/// Returns whether an id was generated rather than counted, so that it belongs to one call only.
fn is_generated(id: &str) -> bool {
    id.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
        part.len() >= GENERATED_LENGTH
            && part.bytes().any(|byte| byte.is_ascii_digit())
            && part.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

/// Returns whether the sent arguments contain all recorded members with equal values. Arguments
/// that are not objects must be equal.
fn is_extended(recorded: &str, sent: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (read(recorded), read(sent)) {
        (Some(Value::Object(recorded)), Some(Value::Object(sent))) => {
            recorded.iter().all(|(name, value)| sent.get(name) == Some(value))
        }
        (Some(recorded), Some(sent)) => recorded == sent,
        _ => recorded.trim() == sent.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(id: &str, arguments: &str) -> Content {
        Content::Assistant(tract_core::Body {
            parts: vec![Part::call(id, "f", arguments)],
            name: None,
        })
    }

    #[test]
    fn arguments_decide_where_ids_are_counted() {
        let mut recorded = RecordedCalls::default();
        let mut agree = |id: &str, recorded_arguments: &str, sent_arguments: &str| {
            let calls = recorded.after(CallsId::default(), &asks(id, recorded_arguments));
            let sent = [asks(id, sent_arguments)];
            recorded.agree(calls, &SentCalls::of(sent.iter()), 1)
        };
        assert_eq!(agree("call_0", r#"{"a":1}"#, r#"{"a":1}"#), Some(true));
        assert_eq!(agree("call_0", r#"{"a":1}"#, r#"{ "a": 1, "b": null }"#), Some(false));
        assert_eq!(agree("call_0", r#"{"a":1}"#, r#"{"a":2}"#), None);
        assert_eq!(agree("functions.f:0", r#"{"a":1}"#, r#"{"a":2}"#), None);
        assert_eq!(agree("toolu_01A09q90qw90lq917835lq9", r#"{"a":1}"#, r#"{"a":2}"#), Some(false));
    }

    #[test]
    fn equal_calls_are_known_once() {
        let mut recorded = RecordedCalls::default();
        let first = recorded.after(CallsId::default(), &asks("a", "{}"));
        assert_eq!(recorded.after(CallsId::default(), &asks("a", "{}")), first);
        let second = recorded.after(first, &asks("b", "{}"));
        assert_eq!(recorded.after(second, &Content::user("x")), second);
        assert_eq!(recorded.ancestors(second).count(), 3);
    }
}
