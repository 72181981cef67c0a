//! Reads streams: the events of a message, block by block.

use tract_core::{PartialReply, ReplyDelta, ToolCall};

use super::reply::usage;
use crate::error::ImportError;
use crate::openai::provider_error;
use crate::raw::{Fields, Node, is_received_object};
use crate::stream::event::{Accumulate, OnPiece, StreamError};
use crate::stream::tree::{Members, Tree, in_order};

/// A partially received message.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    message: Option<Members>,
    blocks: Vec<Block>,
    done: bool,
}

#[derive(Debug)]
struct Block {
    index: String,
    block: Members,
    /// The input of a call as text. It is JSON only after the end of the block.
    input: String,
    ended: bool,
}

impl Block {
    fn kind(&self) -> &str {
        self.block.text("type").unwrap_or_default()
    }

    /// Returns whether the block is a call that the caller has to answer.
    fn is_call(&self) -> bool {
        self.kind() == "tool_use"
    }

    /// Returns the streamed input, or the one in the start event if nothing was streamed.
    fn arguments(&self) -> String {
        if !self.input.trim().is_empty() {
            return self.input.clone();
        }
        self.block.get("input").map(Tree::to_json).unwrap_or_default()
    }
}

impl Accumulate for Stream {
    fn event(&mut self, name: &str, data: &str, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        if self.done {
            return Ok(());
        }
        let root = Node::root(data);
        let fields = root.object()?;
        let kind = fields.text("type").unwrap_or_else(|| name.to_owned());
        match kind.as_str() {
            "message_start" => {
                self.message = Some(Members::parse(&fields.require("message")?)?);
            }
            "content_block_start" => self.begin(&fields, on_piece)?,
            "content_block_delta" => self.grow(&fields, on_piece)?,
            "content_block_stop" => {
                let index = fields.require("index")?.raw;
                if let Some(block) = self.block(index) {
                    block.ended = true;
                }
            }
            "message_delta" => self.finish(&fields)?,
            "message_stop" => self.done = true,
            "error" => {
                return Err(provider_error(&fields.get("error").unwrap_or(root)));
            }
            // Pings, and events of later versions.
            _ => {}
        }
        Ok(())
    }

    fn is_ended(&self) -> bool {
        self.done
    }

    fn body(&mut self) -> Result<String, StreamError> {
        let Some(message) = self.message.as_ref().filter(|_| self.done) else {
            return Err(StreamError::Cut);
        };
        let mut content = Vec::new();
        for block in in_order(&self.blocks, |block| block.index.parse().ok()) {
            let mut whole = block.block.clone();
            let input = block.input.trim();
            if !input.is_empty() {
                if !is_received_object(input) {
                    let name = block.block.text("name").unwrap_or_default().to_owned();
                    return Err(StreamError::Arguments { name });
                }
                whole.set("input", Tree::Raw(input.to_owned()));
            }
            content.push(Tree::Object(whole));
        }
        let mut message = message.clone();
        message.set("content", Tree::List(content));
        Ok(message.to_json())
    }

    fn partial(&self) -> PartialReply {
        let of = |kind: &str, key: &str| -> String {
            let of_kind = self.blocks.iter().filter(|block| block.kind() == kind);
            of_kind.filter_map(|block| block.block.text(key)).collect()
        };
        let mut partial = PartialReply::new(of("text", "text"));
        partial.reasoning = of("thinking", "thinking");
        for block in self.blocks.iter().filter(|block| block.is_call()) {
            let text = |key: &str| block.block.text(key).unwrap_or_default().to_owned();
            let arguments = block.arguments();
            let whole = block.ended && is_received_object(&arguments);
            let call = ToolCall { id: text("id"), name: text("name"), arguments };
            partial = partial.call(call, whole);
        }
        if let Some(message) = &self.message {
            partial.id = message.text("id").map(str::to_owned);
            partial.model = message.text("model").map(str::to_owned);
            partial.usage = message.read("usage", usage);
        }
        partial
    }
}

impl Stream {
    fn block(&mut self, index: &str) -> Option<&mut Block> {
        self.blocks.iter_mut().rfind(|block| block.index == index)
    }

    /// Returns the index of a block among the calls.
    fn call_index(&self, index: &str) -> usize {
        self.blocks
            .iter()
            .take_while(|block| block.index != index)
            .filter(|block| block.is_call())
            .count()
    }

    fn begin(&mut self, fields: &Fields<'_>, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        let index = fields.require("index")?.raw.to_owned();
        let block = Members::parse(&fields.require("content_block")?)?;
        let block = Block { index, block, input: String::new(), ended: false };
        if block.is_call() {
            let name = block.block.text("name").unwrap_or_default().to_owned();
            on_piece(ReplyDelta::Call { index: self.call_index(&block.index), name });
        }
        if let Some(text) = block.block.text("text").filter(|text| !text.is_empty()) {
            on_piece(ReplyDelta::Text(text.to_owned()));
        }
        self.blocks.push(block);
        Ok(())
    }

    fn grow(&mut self, fields: &Fields<'_>, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        let index = fields.require("index")?;
        let call_index = self.call_index(index.raw);
        let delta = fields.require("delta")?.object()?;
        let text =
            |key: &'static str| -> Result<String, ImportError> { delta.require(key)?.string() };
        let Some(block) = self.block(index.raw) else {
            return Err(index.expected("the index of a block that has begun").into());
        };
        match delta.text("type").as_deref() {
            Some("text_delta") => {
                let text = text("text")?;
                block.block.push_text("text", &text);
                on_piece(ReplyDelta::Text(text));
            }
            Some("thinking_delta") => {
                let text = text("thinking")?;
                block.block.push_text("thinking", &text);
                on_piece(ReplyDelta::Reasoning(text));
            }
            Some("signature_delta") => {
                block.block.set("signature", Tree::Text(text("signature")?));
            }
            Some("input_json_delta") => {
                let text = text("partial_json")?;
                block.input.push_str(&text);
                if block.is_call() && !text.is_empty() {
                    on_piece(ReplyDelta::Arguments { index: call_index, text });
                }
            }
            Some("citations_delta") => {
                let citation = Tree::parse(&delta.require("citation")?)?;
                block.block.push_element("citations", citation);
            }
            // Deltas of later versions. They are in the raw stream.
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, fields: &Fields<'_>) -> Result<(), StreamError> {
        let Some(message) = &mut self.message else {
            return Err(
                ImportError::Missing { path: String::new(), member: "message_start" }.into()
            );
        };
        if let Some(delta) = fields.some("delta") {
            message.set_all(Members::parse(&delta)?);
        }
        for (key, node) in fields.nodes().filter(|(_, node)| !node.is_null()) {
            if !matches!(key, "type" | "delta" | "usage") {
                message.set(key, Tree::parse(&node)?);
            }
        }
        if let Some(counts) = fields.some("usage") {
            let counts = Members::parse(&counts)?;
            match message.get_mut("usage") {
                Some(Tree::Object(usage)) => {
                    // The counts of `message_start` stay where the end states none.
                    for (key, value) in counts.0.into_iter().filter(|(_, value)| !value.is_null()) {
                        usage.set(&key, value);
                    }
                }
                _ => message.set("usage", Tree::Object(counts)),
            }
        }
        Ok(())
    }
}
