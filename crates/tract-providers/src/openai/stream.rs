//! Reads streams: chunks of a chat completion. Only the first choice counts, as in a complete
//! answer.

use tract_core::{PartialReply, ReplyDelta, ToolCall};

use crate::answers::usage;
use crate::raw::{Fields, Node, is_received_object};
use crate::stream::event::{Accumulate, OnPiece, StreamError};
use crate::stream::tree::{Members, Tree, in_order, merge};

/// Members of chunks that a complete answer does not have.
const OF_CHUNKS: [&str; 4] = ["choices", "object", "obfuscation", "p"];

/// A partially received chat completion.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    top: Members,
    choice: Members,
    message: Members,
    /// Numbers of the calls whose names were delivered.
    named: Vec<usize>,
    begun: bool,
    done: bool,
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
        for node in choices.array()? {
            let choice = node.object()?;
            if choice.raw("index").is_none_or(|index| index == "0") {
                self.take_choice(&choice, on_piece)?;
            }
        }
        Ok(())
    }

    fn is_ended(&self) -> bool {
        self.done
    }

    fn body(&mut self) -> Result<String, StreamError> {
        let finish = self.choice.text("finish_reason").map(str::to_owned);
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
                    // Only the pieces of a stream have it.
                    call.remove("index");
                }
            }
        }
        let mut choice = Members::default();
        choice.set("index", Tree::Raw("0".to_owned()));
        choice.set("message", Tree::Object(message));
        choice.set("finish_reason", finish.map_or_else(Tree::null, Tree::Text));
        for (key, value) in &self.choice.0 {
            if key != "finish_reason" {
                choice.set(key, value.clone());
            }
        }
        let mut body = Members::default();
        for key in ["id", "object", "created", "model"] {
            if key == "object" {
                body.set(key, Tree::Text("chat.completion".to_owned()));
            } else if let Some(value) = self.top.get(key) {
                body.set(key, value.clone());
            }
        }
        body.set("choices", Tree::List(vec![Tree::Object(choice)]));
        body.set_all(self.top.clone());
        Ok(body.to_json())
    }

    fn partial(&self) -> PartialReply {
        let whole = self.choice.text("finish_reason").is_some();
        let text = |key: &str| self.message.text(key).unwrap_or_default().to_owned();
        let mut partial = PartialReply::new(text("content"));
        partial.reasoning = text("reasoning_content");
        if partial.reasoning.is_empty() {
            partial.reasoning = text("reasoning");
        }
        let calls = self.message.get("tool_calls").map(Tree::list).unwrap_or_default();
        let calls = in_order(calls, call_index).filter_map(Tree::members).map(CallProgress::of);
        for CallProgress { id, name, arguments } in calls {
            let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
            partial = partial.call(ToolCall { id, name, arguments }, whole);
        }
        partial.id = self.top.text("id").map(str::to_owned);
        partial.model = self.top.text("model").map(str::to_owned);
        partial.usage = self.top.read("usage", |counts| usage(counts, "prompt", "completion"));
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

    fn take_choice(
        &mut self,
        choice: &Fields<'_>,
        on_piece: OnPiece<'_>,
    ) -> Result<(), StreamError> {
        self.begun = true;
        let mut rest = Members::default();
        for (key, _) in &choice.members {
            let Some(node) = choice.some(key) else { continue };
            match key.as_str() {
                "index" => {}
                "delta" => {
                    let delta = Members::parse(&node)?;
                    let before: Vec<usize> =
                        self.calls().map(|call| call.arguments.len()).collect();
                    for (key, make) in TEXTS {
                        if let Some(text) = delta.text(key).filter(|text| !text.is_empty()) {
                            on_piece(make(text.to_owned()));
                        }
                    }
                    merge(&mut self.message, delta);
                    self.hand_over(&before, on_piece);
                }
                "finish_reason" => self.choice.set(key, Tree::parse(&node)?),
                _ => rest.set(key, Tree::parse(&node)?),
            }
        }
        merge(&mut self.choice, rest);
        Ok(())
    }

    /// Delivers the new parts of the calls; `before` contains the previous lengths of their
    /// arguments.
    fn hand_over(&mut self, before: &[usize], on_piece: OnPiece<'_>) {
        for index in 0..self.calls().count() {
            let Some(call) = self.calls().nth(index) else { continue };
            let from = before.get(index).copied().unwrap_or(0);
            let more = call.arguments.get(from..).unwrap_or_default().to_owned();
            if !call.name.is_empty() && !self.named.contains(&index) {
                on_piece(ReplyDelta::Call { index, name: call.name.to_owned() });
                self.named.push(index);
            }
            if !more.is_empty() {
                on_piece(ReplyDelta::Arguments { index, text: more });
            }
        }
    }

    fn calls(&self) -> impl Iterator<Item = CallProgress<'_>> {
        let calls = self.message.get("tool_calls").map(Tree::list).unwrap_or_default();
        calls.iter().filter_map(Tree::members).map(CallProgress::of)
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
