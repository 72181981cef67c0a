//! A request that is being written, with the ids and names chosen for it.

use tract_compile::{Compiled, Item, PlaceholderResult, Repair, RepairKind, Speaker, speaker};
use tract_core::{Content, Message, json};

use crate::format::MessageFormat;
use crate::ids::Ids;
use crate::neutral::OutgoingMessage;
use crate::params::Members;
use crate::prefix::{Blocks, PrefixSource};
use crate::raw::{self, Node, Object};

/// A request that is being written.
pub(crate) struct RequestWriter<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) format: &'static MessageFormat,
    pub(crate) repairing: bool,
    /// Whether a turn is added after a conversation that ends with the assistant.
    pub(crate) closing: bool,
    /// Whether each message is written separately. Its successor is unknown, so nothing can be left
    /// out because of it.
    pub(crate) separate: bool,
    /// The model that the request is for, if it is known.
    pub(crate) model: Option<String>,
    pub(crate) items: &'a [Item<'a>],
    pub(crate) ids: &'a Ids,
    pub(crate) repairs: Vec<Repair>,
    pub(crate) blocks: Blocks,
}

impl<'a> RequestWriter<'a> {
    /// Returns the message's own bytes, if they can be sent: it was recorded in this dialect, and
    /// no repair applies to it.
    pub(crate) fn verbatim(&self, message: &'a Message) -> Option<&'a str> {
        let own = self.format.owns(message.form.as_deref());
        let bytes = message.verbatim.as_ref().filter(|_| own && !self.ids.touches(message))?;
        // Bytes from a caller may not be JSON, and must not break the body.
        bytes.text().filter(|text| json::check(text).is_ok())
    }

    /// Writes a message with `write`, and collects its repairs.
    pub(crate) fn lowered<T>(
        &mut self,
        message: &'a Message,
        write: impl FnOnce(&mut OutgoingMessage<'a>) -> T,
    ) -> T {
        let mut out = OutgoingMessage::compiled(message, self.format, self.ids, self.repairing);
        let written = write(&mut out);
        let repair = |(kind, text)| Repair::new(kind, Some(message.slot), text);
        self.repairs.extend(out.notes.into_iter().map(repair));
        written
    }

    /// Replaces an empty list of content, which no provider accepts, even in a recorded message.
    /// Returns `None` if the message has nothing else.
    fn with_content(&mut self, message: &Message, text: String) -> Option<String> {
        if !self.repairing || self.separate || !text.contains("[]") {
            return Some(text);
        }
        let Ok(fields) = Node::root(&text).object() else { return Some(text) };
        let is_empty = |list: &Node<'_>| list.array().is_ok_and(|list| list.is_empty());
        if !fields.get("content").is_some_and(|content| is_empty(&content)) {
            return Some(text);
        }
        // Servers accept it next to calls, and recordings have it there.
        if fields.get("tool_calls").is_some_and(|calls| !is_empty(&calls)) {
            return Some(text);
        }
        let mut report = |kind, what: &str| {
            self.repairs.push(Repair::new(kind, Some(message.slot), what));
        };
        if speaker(message) == Speaker::Assistant {
            report(RepairKind::EmptyMessage, "a message without content: left out");
            return None;
        }
        report(RepairKind::Changed, "an empty list of content is sent as an empty text");
        let mut out = Object::new();
        for (key, raw) in &fields.members {
            out.raw(key, if key == "content" { "\"\"" } else { raw });
        }
        Some(out.end())
    }

    /// Writes `messages` one by one, for dialects in which a message is a block.
    pub(crate) fn messages(
        &mut self,
        write: impl Fn(&mut OutgoingMessage<'a>) -> Option<String>,
        stand_in: impl Fn(&PlaceholderResult, &str, &str) -> String,
    ) -> Members {
        let mut messages = Vec::with_capacity(self.items.len());
        for item in self.items {
            let (origin, text) = match item {
                Item::Message(message) => {
                    let own = self.verbatim(message).filter(|text| text.starts_with('{'));
                    let text = match own {
                        Some(text) if is_answer(message) => {
                            let sent = (self.format.sent_answer)(text);
                            Some(sent.unwrap_or_else(|| text.to_owned()))
                        }
                        Some(text) => Some(text.to_owned()),
                        None => self.lowered(message, &write),
                    };
                    let text = text.and_then(|text| self.with_content(message, text));
                    (PrefixSource::Message(message.commit), text)
                }
                Item::StandIn(answer) => {
                    let (id, name) = self.ids.of_placeholder(answer);
                    let origin = PrefixSource::Repair(Some(answer.answers.slot));
                    (origin, Some(stand_in(answer, id, name)))
                }
            };
            if let Some(text) = text {
                self.blocks.push(origin, &text);
                messages.push(text);
            }
        }
        vec![("messages".to_owned(), raw::array(messages))]
    }
}

/// Returns whether a message was received as an answer. A message of a recorded request lacks a
/// generation config; it is sent as its client sent it.
pub(crate) fn is_answer(message: &Message) -> bool {
    matches!(message.content, Content::Assistant(_)) && message.generation_config.is_some()
}
