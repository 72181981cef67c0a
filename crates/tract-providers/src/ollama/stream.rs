//! Reads streams: one JSON object per line, the last one with `done`.

use tract_core::{PartialReply, ReplyDelta, ToolCall};

use super::reply::usage;
use crate::openai::provider_error;
use crate::raw::Node;
use crate::stream::event::{Accumulate, OnPiece, StreamError};
use crate::stream::tree::{Members, Tree};

/// A partially received chat answer.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The members of all lines; the last value of each counts.
    last: Members,
    message: Members,
    done: bool,
}

impl Accumulate for Stream {
    fn event(&mut self, _name: &str, data: &str, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        if self.done {
            return Ok(());
        }
        let fields = Node::root(data).object()?;
        if let Some(error) = fields.some("error") {
            return Err(provider_error(&error));
        }
        let mut line = Members::parse(&Node::root(data))?;
        if let Some(Tree::Object(delta)) = line.remove("message") {
            self.take(delta, on_piece);
        }
        for (key, value) in line.0 {
            match value {
                // Each line has those of its own tokens.
                Tree::List(tokens) if key == "logprobs" => {
                    tokens.into_iter().for_each(|token| self.last.push_element(&key, token));
                }
                value => self.last.set(&key, value),
            }
        }
        self.done = fields.raw("done") == Some("true");
        Ok(())
    }

    fn is_ended(&self) -> bool {
        self.done
    }

    fn body(&mut self) -> Result<String, StreamError> {
        if !self.done {
            return Err(StreamError::Cut);
        }
        let mut body = Members::default();
        for key in ["model", "created_at"] {
            if let Some(value) = self.last.get(key) {
                body.set(key, value.clone());
            }
        }
        body.set("message", Tree::Object(self.message.clone()));
        body.set_all(self.last.clone());
        Ok(body.to_json())
    }

    fn partial(&self) -> PartialReply {
        let text = |key: &str| self.message.text(key).unwrap_or_default().to_owned();
        let mut partial = PartialReply::new(text("content"));
        partial.reasoning = text("thinking");
        let calls = self.message.get("tool_calls").map(Tree::list).unwrap_or_default();
        for call in calls.iter().filter_map(Tree::members) {
            // A call is never split.
            let id = call.text("id").unwrap_or_default().to_owned();
            let (name, arguments) = function(call);
            partial = partial.call(ToolCall { id, name, arguments }, true);
        }
        partial.model = self.last.text("model").map(str::to_owned);
        let json = self.last.to_json();
        partial.usage = Node::root(&json).object().ok().and_then(|fields| usage(&fields));
        partial
    }
}

impl Stream {
    fn take(&mut self, delta: Members, on_piece: OnPiece<'_>) {
        for (key, value) in delta.0 {
            match value {
                Tree::Text(text) if matches!(key.as_str(), "content" | "thinking") => {
                    self.message.push_text(&key, &text);
                    if !text.is_empty() {
                        on_piece(match key.as_str() {
                            "content" => ReplyDelta::Text(text),
                            _ => ReplyDelta::Reasoning(text),
                        });
                    }
                }
                Tree::List(elements) => {
                    for element in elements {
                        if let (Some(call), "tool_calls") = (element.members(), key.as_str()) {
                            let index = self.message.get(&key).map_or(0, |all| all.list().len());
                            let (name, text) = function(call);
                            on_piece(ReplyDelta::Call { index, name });
                            on_piece(ReplyDelta::Arguments { index, text });
                        }
                        self.message.push_element(&key, element);
                    }
                }
                value => self.message.set(&key, value),
            }
        }
    }
}

/// Returns the name and arguments of a call.
fn function(call: &Members) -> (String, String) {
    let function = call.get("function").and_then(Tree::members);
    let name = function.and_then(|function| function.text("name")).unwrap_or_default();
    let arguments = match function.and_then(|function| function.get("arguments")) {
        Some(Tree::Text(text)) => text.clone(),
        arguments => arguments.map(Tree::to_json).unwrap_or_default(),
    };
    (name.to_owned(), arguments)
}
