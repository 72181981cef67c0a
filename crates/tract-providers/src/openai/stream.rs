//! Reads streams: chunks of a chat completion. The first choice is delivered as it arrives, the
//! others are kept for the complete answer.

use std::collections::BTreeMap;

use tract_core::{PartialReply, ReplyDelta, ToolCall};

use crate::answers::{choice_index, kept_json, usage};
use crate::raw::{Fields, Node, is_received_object};
use crate::stream::event::{Accumulate, OnPiece, StreamError};
use crate::stream::tree::{Members, Tree, in_order, merge, merge_reporting};

/// Members of chunks that a complete answer does not have.
const OF_CHUNKS: [&str; 4] = ["choices", "object", "obfuscation", "p"];

/// A partially received chat completion.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    top: Members,
    first: Choice,
    /// The other choices, by index.
    others: BTreeMap<u64, Choice>,
    /// For each call of the first choice, what was delivered.
    delivered: Vec<Delivered>,
    begun: bool,
    done: bool,
}

/// The delivered part of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    is_named: bool,
    argument_bytes: usize,
}

/// A partially received choice.
#[derive(Debug, Default)]
struct Choice {
    /// Its members, without the message.
    members: Members,
    message: Members,
}

impl Accumulate for Stream {
    fn event(&mut self, name: &str, data: &str, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        if self.done {
            return Ok(());
        }
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let fields = Node::root(data).object()?;
        if let Some(error) = fields.some("error") {
            return Err(provider_error(&error));
        }
        if name == "error" {
            return Err(provider_error(&Node::root(data)));
        }
        self.take_top(&fields)?;
        let Some(choices) = fields.some("choices") else { return Ok(()) };
        for (place, node) in (0_u64..).zip(choices.array()?) {
            let choice = node.object()?;
            match choice.raw("index").map_or(place, choice_index) {
                0 => self.take_first(&choice, on_piece)?,
                index => self.others.entry(index).or_default().take(
                    &choice,
                    &mut |_| {},
                    &mut |_, _| {},
                )?,
            }
        }
        Ok(())
    }

    fn is_ended(&self) -> bool {
        self.done
    }

    fn body(&mut self) -> Result<String, StreamError> {
        if !self.begun
            && let Some((_, only)) = self.others.pop_first()
        {
            // Some servers do not count from 0.
            self.first = only;
            self.begun = true;
        }
        let finish = self.first.members.text("finish_reason").map(str::to_owned);
        // Some servers end without the marker, others never send a finish reason.
        if !self.begun || (finish.is_none() && !self.done) {
            return Err(StreamError::Cut);
        }
        // With any other reason the model has ended its calls. Invalid arguments are then its own
        // mistake, and the caller reports them to it.
        if finish.as_deref().is_none_or(|reason| reason == "length")
            && let Some(call) = self.calls().find(|call| !call.is_whole())
        {
            return Err(StreamError::Arguments { name: call.name.to_owned() });
        }
        let others = self.others.iter().map(|(index, choice)| choice.to_tree(*index));
        let choices = std::iter::once(self.first.to_tree(0)).chain(others).collect();
        let mut body = Members::default();
        for key in ["id", "object", "created", "model"] {
            if key == "object" {
                body.set(key, Tree::Text("chat.completion".to_owned()));
            } else if let Some(value) = self.top.get(key) {
                body.set(key, value.clone());
            }
        }
        body.set("choices", Tree::List(choices));
        body.set_all(self.top.clone());
        Ok(body.to_json())
    }

    fn partial(&self) -> PartialReply {
        let Choice { members, message } = &self.first;
        let whole = members.text("finish_reason").is_some();
        let text = |key: &str| message.text(key).unwrap_or_default().to_owned();
        let mut partial = PartialReply::new(text("content"));
        partial.reasoning = text("reasoning_content");
        if partial.reasoning.is_empty() {
            partial.reasoning = text("reasoning");
        }
        let calls = message.get("tool_calls").map(Tree::list).unwrap_or_default();
        let calls = in_order(calls, call_index).filter_map(Tree::members).map(CallProgress::of);
        for CallProgress { id, name, arguments } in calls {
            let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
            partial = partial.call(ToolCall { id, name, arguments }, whole);
        }
        partial.id = self.top.text("id").map(str::to_owned);
        partial.model = self.top.text("model").map(str::to_owned);
        partial.usage = self.top.read("usage", |counts| usage(counts, "prompt", "completion"));
        let others = self.others.iter().map(|(index, choice)| choice.to_tree(*index).to_json());
        partial.other_choices = others.map(|choice| kept_json(&choice)).collect();
        partial
    }
}

impl Stream {
    fn take_top(&mut self, fields: &Fields<'_>) -> Result<(), StreamError> {
        for (key, _) in &fields.members {
            if OF_CHUNKS.contains(&key.as_str()) {
                continue;
            }
            let Some(node) = fields.get(key) else { continue };
            let is_set = self.top.get(key).is_some_and(|value| !value.is_blank());
            // Every chunk repeats these members. Only the usage changes, and its last value is the
            // total.
            if !is_set || (key == "usage" && !node.is_null()) {
                self.top.set(key, Tree::parse(&node)?);
            }
        }
        Ok(())
    }

    fn take_first(
        &mut self,
        choice: &Fields<'_>,
        on_piece: OnPiece<'_>,
    ) -> Result<(), StreamError> {
        self.begun = true;
        let mut on_delta = |delta: &Members| {
            for (key, make) in TEXTS {
                if let Some(text) = delta.text(key).filter(|text| !text.is_empty()) {
                    on_piece(make(text.to_owned()));
                }
            }
        };
        let mut changed = Vec::new();
        let mut on_element = |key: &str, place: usize| {
            if key == "tool_calls" {
                changed.push(place);
            }
        };
        self.first.take(choice, &mut on_delta, &mut on_element)?;
        for place in changed {
            self.deliver(place, on_piece);
        }
        Ok(())
    }

    /// Delivers the new parts of a call.
    fn deliver(&mut self, index: usize, on_piece: OnPiece<'_>) {
        let calls = self.first.message.get("tool_calls").map(Tree::list).unwrap_or_default();
        let Some(call) = calls.get(index).and_then(Tree::members).map(CallProgress::of) else {
            return;
        };
        if self.delivered.len() <= index {
            self.delivered.resize(index + 1, Delivered::default());
        }
        let Some(delivered) = self.delivered.get_mut(index) else { return };
        if !call.name.is_empty() && !delivered.is_named {
            on_piece(ReplyDelta::Call { index, name: call.name.to_owned() });
            delivered.is_named = true;
        }
        let more = call.arguments.get(delivered.argument_bytes..).unwrap_or_default();
        if !more.is_empty() {
            on_piece(ReplyDelta::Arguments { index, text: more.to_owned() });
        }
        delivered.argument_bytes = call.arguments.len();
    }

    fn calls(&self) -> impl Iterator<Item = CallProgress<'_>> {
        let calls = self.first.message.get("tool_calls").map(Tree::list).unwrap_or_default();
        calls.iter().filter_map(Tree::members).map(CallProgress::of)
    }
}

impl Choice {
    /// Adds the members of a chunk. `on_delta` gets the delta, and `on_element` is called as by
    /// [`merge_reporting`].
    fn take(
        &mut self,
        choice: &Fields<'_>,
        on_delta: &mut dyn FnMut(&Members),
        on_element: &mut dyn FnMut(&str, usize),
    ) -> Result<(), StreamError> {
        let mut more = Members::default();
        for (key, _) in &choice.members {
            let Some(node) = choice.some(key) else { continue };
            match key.as_str() {
                "index" => {}
                "delta" => {
                    let delta = Members::parse(&node)?;
                    on_delta(&delta);
                    merge_reporting(&mut self.message, delta, on_element);
                }
                "finish_reason" => self.members.set(key, Tree::parse(&node)?),
                _ => more.set(key, Tree::parse(&node)?),
            }
        }
        merge(&mut self.members, more);
        Ok(())
    }

    /// Returns the choice as an unstreamed answer has it.
    fn to_tree(&self, index: u64) -> Tree {
        let mut message = self.message.clone();
        if message.get("role").is_none_or(Tree::is_blank) {
            message.set("role", Tree::Text("assistant".to_owned()));
        }
        if message.get("content").is_none() {
            message.set("content", Tree::null());
        }
        if let Some(Tree::List(calls)) = message.get_mut("tool_calls") {
            *calls = in_order(calls, call_index).cloned().collect();
            for call in calls {
                if let Tree::Object(call) = call {
                    call.remove("index");
                }
            }
        }
        let finish = self.members.text("finish_reason").map(str::to_owned);
        let mut choice = Members::default();
        choice.set("index", Tree::Raw(index.to_string()));
        choice.set("message", Tree::Object(message));
        choice.set("finish_reason", finish.map_or_else(Tree::null, Tree::Text));
        for (key, value) in &self.members.0 {
            if key != "finish_reason" {
                choice.set(key, value.clone());
            }
        }
        Tree::Object(choice)
    }
}

/// Returns the index that a server gives to a call.
fn call_index(call: &Tree) -> Option<u64> {
    match call.members()?.get("index")? {
        Tree::Raw(index) => index.parse().ok(),
        _ => None,
    }
}

type Make = fn(String) -> ReplyDelta;

/// The members of a delta that are delivered as text, in reading order.
const TEXTS: [(&str, Make); 4] = [
    ("reasoning_content", ReplyDelta::Reasoning),
    ("reasoning", ReplyDelta::Reasoning),
    ("content", ReplyDelta::Text),
    ("refusal", ReplyDelta::Text),
];

/// A partially received call.
struct CallProgress<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> CallProgress<'a> {
    fn of(call: &'a Members) -> Self {
        let inner = call.get("function").or_else(|| call.get("custom")).and_then(Tree::members);
        let text = |key: &str| inner.and_then(|inner| inner.text(key));
        Self {
            id: call.text("id").unwrap_or_default(),
            name: text("name").unwrap_or_default(),
            arguments: text("arguments").or_else(|| text("input")).unwrap_or_default(),
        }
    }

    fn is_whole(&self) -> bool {
        let arguments = self.arguments.trim();
        arguments.is_empty() || is_received_object(arguments)
    }
}

/// Reads an error that a provider reports within a stream.
pub(crate) fn provider_error(error: &Node<'_>) -> StreamError {
    let fields = error.object().ok();
    let word = |key: &str| fields.as_ref().and_then(|fields| fields.text(key));
    StreamError::Provider {
        kind: word("type").or_else(|| word("code")).or_else(|| word("status")),
        message: crate::answers::message_of(error),
    }
}
