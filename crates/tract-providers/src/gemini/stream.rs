//! Reads streams: responses that each contain a piece of the answer. The last one has the reason
//! why it ended, which is the only mark of the end.

use std::collections::BTreeMap;

use tract_core::{PartialReply, ReplyDelta, ToolCall};

use super::lower::UNNAMED;
use super::reply::usage;
use crate::answers::{choice_index, kept_json};
use crate::openai::provider_error;
use crate::raw::{Fields, Node};
use crate::stream::event::{Accumulate, OnPiece, StreamError};
use crate::stream::tree::{Members, Tree};

/// A partially received response.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    top: Members,
    first: Candidate,
    /// The other candidates, by index.
    others: BTreeMap<u64, Candidate>,
    done: bool,
}

/// Members of a candidate whose lists contain the elements of their piece of the answer.
const LISTS_OF_PIECES: [&str; 2] = ["citationMetadata", "logprobsResult"];

/// Adds the members of a later piece. A list is appended, unless it repeats the elements so far.
fn append_lists(into: &mut Members, more: Members) {
    for (key, value) in more.0 {
        match (into.get_mut(&key), value) {
            (Some(Tree::List(old)), Tree::List(new)) => {
                let is_same = |(old, new): (&Tree, &Tree)| old.to_json() == new.to_json();
                let is_repeated = new.len() >= old.len() && old.iter().zip(&new).all(is_same);
                match is_repeated {
                    true => *old = new,
                    false => old.extend(new),
                }
            }
            (_, value) => into.set(&key, value),
        }
    }
}

/// A partially received candidate.
#[derive(Debug, Default)]
struct Candidate {
    /// Its members, without the content.
    members: Members,
    /// The content without its parts.
    content: Members,
    parts: Vec<Members>,
}

impl Accumulate for Stream {
    fn event(&mut self, _name: &str, data: &str, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        let fields = Node::root(data).object()?;
        if let Some(error) = fields.some("error") {
            return Err(provider_error(&error));
        }
        for (key, _) in &fields.members {
            let Some(node) = fields.some(key) else { continue };
            if key != "candidates" {
                self.top.set(key, Tree::parse(&node)?);
                continue;
            }
            for (place, candidate) in (0_u64..).zip(node.array()?) {
                let candidate = candidate.object()?;
                match candidate.raw("index").map_or(place, choice_index) {
                    0 => {
                        self.first.take(&candidate, on_piece)?;
                        self.done |= candidate.some("finishReason").is_some();
                    }
                    index => self.others.entry(index).or_default().take(&candidate, &mut |_| {})?,
                }
            }
        }
        // A blocked prompt gets a response without candidates.
        let is_refused = fields.get("promptFeedback").and_then(|node| node.object().ok());
        self.done |= is_refused.is_some_and(|feedback| feedback.some("blockReason").is_some());
        Ok(())
    }

    fn is_ended(&self) -> bool {
        let is_ended = |candidate: &Candidate| candidate.members.get("finishReason").is_some();
        self.done && self.others.values().all(is_ended)
    }

    fn body(&mut self) -> Result<String, StreamError> {
        if self.first.is_empty()
            && let Some((_, only)) = self.others.pop_first()
        {
            // Some servers do not count from 0.
            self.done |= only.members.get("finishReason").is_some();
            self.first = only;
        }
        if !self.done {
            return Err(StreamError::Cut);
        }
        let mut body = Members::default();
        if !self.first.members.0.is_empty() {
            let others = self.others.values().map(Candidate::to_tree);
            let candidates = std::iter::once(self.first.to_tree()).chain(others).collect();
            body.set("candidates", Tree::List(candidates));
        }
        body.set_all(self.top.clone());
        Ok(body.to_json())
    }

    fn partial(&self) -> PartialReply {
        let of = |thought: bool| -> String {
            let texts = self.first.parts.iter().filter(|part| is_thought(part) == thought);
            texts.filter_map(|part| part.text("text")).collect()
        };
        let mut partial = PartialReply::new(of(false));
        partial.reasoning = of(true);
        for (n, call) in self.first.parts.iter().filter_map(function).enumerate() {
            // A call is never split.
            partial = partial.call(call_of(call, n), true);
        }
        partial.id = self.top.text("responseId").map(str::to_owned);
        partial.model = self.top.text("modelVersion").map(str::to_owned);
        partial.usage = self.top.read("usageMetadata", usage);
        let others = self.others.values().map(|candidate| candidate.to_tree().to_json());
        partial.other_choices = others.map(|candidate| kept_json(&candidate)).collect();
        partial
    }
}

impl Candidate {
    fn is_empty(&self) -> bool {
        self.members.0.is_empty() && self.content.0.is_empty() && self.parts.is_empty()
    }

    /// Returns the candidate as an unstreamed answer has it.
    fn to_tree(&self) -> Tree {
        let mut candidate = Members::default();
        let mut content = self.content.clone();
        let parts = self.parts.iter().cloned().map(Tree::Object).collect();
        content.set("parts", Tree::List(parts));
        candidate.set("content", Tree::Object(content));
        candidate.set_all(self.members.clone());
        Tree::Object(candidate)
    }

    fn take(&mut self, candidate: &Fields<'_>, on_piece: OnPiece<'_>) -> Result<(), StreamError> {
        for (key, _) in &candidate.members {
            let Some(node) = candidate.some(key) else { continue };
            if key != "content" {
                match (self.members.get_mut(key), Tree::parse(&node)?) {
                    (Some(Tree::Object(old)), Tree::Object(more))
                        if LISTS_OF_PIECES.contains(&key.as_str()) =>
                    {
                        append_lists(old, more);
                    }
                    (_, value) => self.members.set(key, value),
                }
                continue;
            }
            for (key, value) in Members::parse(&node)?.0 {
                match value {
                    Tree::List(parts) if key == "parts" => {
                        for part in parts {
                            if let Tree::Object(part) = part {
                                self.part(part, on_piece);
                            }
                        }
                    }
                    value => self.content.set(&key, value),
                }
            }
        }
        Ok(())
    }

    /// Adds a part. Text continues the last part if that is text of the same type without a
    /// signature; everything else starts a new part.
    fn part(&mut self, part: Members, on_piece: OnPiece<'_>) {
        if let Some(text) = part.text("text").filter(|text| !text.is_empty()) {
            on_piece(match is_thought(&part) {
                true => ReplyDelta::Reasoning(text.to_owned()),
                false => ReplyDelta::Text(text.to_owned()),
            });
        }
        if let Some(call) = function(&part) {
            let index = self.parts.iter().filter_map(function).count();
            let ToolCall { name, arguments, .. } = call_of(call, index);
            on_piece(ReplyDelta::Call { index, name });
            on_piece(ReplyDelta::Arguments { index, text: arguments });
        }
        // Pieces of one text are joined. A signature is for the text of its part, so nothing is
        // added to a part that has one.
        let continued = self.parts.last_mut().filter(|last| {
            let is_text = |part: &Members| part.get("text").is_some();
            is_text(last)
                && is_text(&part)
                && is_thought(last) == is_thought(&part)
                && last.get("thoughtSignature").is_none()
        });
        match continued {
            Some(last) => {
                for (key, value) in part.0 {
                    match (key.as_str(), value) {
                        ("text", Tree::Text(more)) => last.push_text("text", &more),
                        (_, value) => last.set(&key, value),
                    }
                }
            }
            None => self.parts.push(part),
        }
    }
}

fn is_thought(part: &Members) -> bool {
    matches!(part.get("thought"), Some(Tree::Raw(raw)) if raw == "true")
}

fn function(part: &Members) -> Option<&Members> {
    part.get("functionCall").and_then(Tree::members)
}

fn call_of(call: &Members, index: usize) -> ToolCall {
    let arguments = call.get("args").map_or_else(|| "{}".to_owned(), Tree::to_json);
    let id = call.text("id").map_or_else(|| format!("{UNNAMED}{index}"), str::to_owned);
    ToolCall { id, name: call.text("name").unwrap_or_default().to_owned(), arguments }
}
