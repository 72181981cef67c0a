//! Reads streams: the events of a response. The last event contains the whole response.

use tract_core::{PartialReply, ReplyDelta, ToolCall};

use crate::answers::usage;
use crate::openai::provider_error;
use crate::raw::{Fields, Node};
use crate::stream::event::{Accumulate, OnPiece, StreamError};
use crate::stream::tree::{Members, Tree, in_order};

/// A partially received response.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The response from the last event that contained it.
    response: Option<Members>,
    /// The completed items, with their place.
    items: Vec<(Option<u64>, Tree)>,
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    done: bool,
}

#[derive(Debug)]
struct Call {
    output_index: String,
    call: ToolCall,
    whole: bool,
}

impl Accumulate for Stream {
    fn event(&mut self, name: &str, data: &str, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        if self.done || data.trim() == "[DONE]" {
            return Ok(());
        }
        let root = Node::root(data);
        let fields = root.object()?;
        let kind = fields.text("type").unwrap_or_else(|| name.to_owned());
        match kind.as_str() {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.response = Some(Members::parse(&fields.require("response")?)?);
            }
            "response.completed" | "response.incomplete" => {
                self.response = Some(Members::parse(&fields.require("response")?)?);
                self.done = true;
            }
            "response.failed" | "response.cancelled" => {
                let response = fields.require("response")?;
                let error = response.object()?.some("error");
                return Err(provider_error(&error.unwrap_or(response)));
            }
            "error" => return Err(provider_error(&fields.some("error").unwrap_or(root))),
            "response.output_text.delta" | "response.refusal.delta" => {
                let text = fields.require("delta")?.string()?;
                self.text.push_str(&text);
                on_piece(ReplyDelta::Text(text));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let text = fields.require("delta")?.string()?;
                self.reasoning.push_str(&text);
                on_piece(ReplyDelta::Reasoning(text));
            }
            "response.output_item.added" => self.added(&fields, on_piece)?,
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let text = fields.require("delta")?.string()?;
                if let Some((index, call)) = self.call(&fields) {
                    call.call.arguments.push_str(&text);
                    on_piece(ReplyDelta::Arguments { index, text });
                }
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.complete(&fields, &fields, on_piece);
            }
            "response.output_item.done" => {
                let item = fields.require("item")?;
                let place = fields.raw("output_index").and_then(|place| place.parse().ok());
                self.items.push((place, Tree::parse(&item)?));
                self.complete(&fields, &item.object()?, on_piece);
            }
            _ => {}
        }
        Ok(())
    }

    fn is_ended(&self) -> bool {
        self.done
    }

    fn body(&mut self) -> Result<String, StreamError> {
        let Some(response) = self.response.as_mut().filter(|_| self.done) else {
            return Err(StreamError::Cut);
        };
        // Some servers leave items out of the last event that they have sent before.
        if response.get("output").is_none_or(|output| output.list().is_empty()) {
            let items = in_order(&self.items, |(place, _)| *place);
            response.set("output", Tree::List(items.map(|(_, item)| item.clone()).collect()));
        }
        if response.text("status") == Some("incomplete") {
            let whole = |call: &&Call| crate::raw::is_received_object(call.call.arguments.trim());
            if let Some(call) = self.calls.iter().find(|call| !call.whole && !whole(call)) {
                return Err(StreamError::Arguments { name: call.call.name.clone() });
            }
        }
        Ok(response.to_json())
    }

    fn partial(&self) -> PartialReply {
        let mut partial = PartialReply::new(self.text.clone());
        partial.reasoning.clone_from(&self.reasoning);
        for call in &self.calls {
            partial = partial.call(call.call.clone(), call.whole);
        }
        if let Some(response) = &self.response {
            partial.id = response.text("id").map(str::to_owned);
            partial.model = response.text("model").map(str::to_owned);
            partial.usage = response.read("usage", |counts| usage(counts, "input", "output"));
        }
        partial
    }
}

impl Stream {
    /// Replaces the arguments of a call by those of the final event.
    fn complete(&mut self, fields: &Fields<'_>, end: &Fields<'_>, on_piece: OnPiece<'_>) {
        let Some((index, call)) = self.call(fields) else { return };
        let full_text = end.text("arguments").or_else(|| end.text("input"));
        if let Some(full_text) = full_text.filter(|_| !call.whole) {
            let more = full_text.strip_prefix(call.call.arguments.as_str()).unwrap_or_default();
            if !more.is_empty() {
                on_piece(ReplyDelta::Arguments { index, text: more.to_owned() });
            }
            // The full text counts, even if the pieces that were delivered differ.
            call.call.arguments = full_text;
        }
        call.whole = true;
    }

    fn added(&mut self, fields: &Fields<'_>, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        let item = fields.require("item")?.object()?;
        let kind = item.text("type");
        if !matches!(kind.as_deref(), Some("function_call" | "custom_tool_call")) {
            return Ok(());
        }
        let text = |key: &str| item.text(key).unwrap_or_default();
        let call = ToolCall { id: text("call_id"), name: text("name"), arguments: String::new() };
        on_piece(ReplyDelta::Call { index: self.calls.len(), name: call.name.clone() });
        let output_index = fields.require("output_index")?.raw.to_owned();
        self.calls.push(Call { output_index, call, whole: false });
        Ok(())
    }

    fn call(&mut self, fields: &Fields<'_>) -> Option<(usize, &mut Call)> {
        let output_index = fields.raw("output_index")?;
        // Some servers give all of them the same index; then the last one is meant.
        self.calls.iter_mut().enumerate().rfind(|(_, call)| call.output_index == output_index)
    }
}
