//! Writes requests for providers with turns: neighbors of one role as one message, results first.

use tract_compile::{Item, PlaceholderResult, Repair, RepairKind, Speaker, speaker};
use tract_core::{Blob, CommitId, Content, Draft, Message, Part, Role};

use crate::drafts::draft;
use crate::format::MessageFormat;
use crate::neutral::{OutgoingMessage, arguments_object};
use crate::params::Members;
use crate::prefix::PrefixSource;
use crate::raw::{self, Fields, Node, Object};
use crate::sheet::{RequestWriter, is_answer};

/// The kind of a block, which determines its place in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Call,
    Result,
    Other,
}

/// One block of content as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) sort: BlockKind,
    pub(crate) text: String,
}

/// Returns whether blocks equal the received ones. They are compared one by one, without building
/// the list, which may be large.
pub(crate) fn is_same(blocks: &[Block], received: &[&str]) -> bool {
    let mut pairs = blocks.iter().zip(received);
    blocks.len() == received.len()
        && pairs.all(|(block, received)| raw::same(&block.text, received))
}

/// Writes a received message with other blocks.
pub(crate) fn around(fields: &Fields<'_>, member: &str, mut blocks: String) -> String {
    let mut message = Object::new();
    let last = fields.members.iter().rposition(|(key, _)| key == member);
    for (n, (key, raw)) in fields.members.iter().enumerate() {
        if Some(n) == last {
            message.nest(key, std::mem::take(&mut blocks));
        } else {
            message.raw(key, if key == member { &blocks } else { raw });
        }
    }
    message.end()
}

/// Writes the parts of a message that is not a result, calls and other parts each with a function.
pub(crate) fn blocks(
    out: &mut OutgoingMessage<'_>,
    parts: &[Part],
    write_call: fn(&str, &str, &str) -> String,
    write: fn(&mut OutgoingMessage<'_>, &Part, Speaker) -> Option<String>,
) -> Vec<Block> {
    let speaker = out.speaker();
    let mut blocks = Vec::with_capacity(parts.len());
    let mut calls = out.content.calls().zip(0u32..);
    for part in parts {
        if let Part::ToolCall(_) = part {
            let Some((call, index)) = calls.next() else { continue };
            if speaker != Speaker::Assistant {
                out.left_out("a tool call outside of an assistant's message");
                continue;
            }
            let (id, name) = out.call(index, call);
            let text = write_call(&id, &name, arguments_object(out, &id, &call.arguments));
            blocks.push(Block { sort: BlockKind::Call, text });
        } else if let Some(text) = write(out, part, speaker) {
            blocks.push(Block { sort: BlockKind::Other, text });
        }
    }
    blocks
}

/// The names of members in a provider's turns, and the functions that write them.
pub(crate) struct Wording {
    pub(crate) format: &'static MessageFormat,
    /// The role of the assistant.
    pub(crate) assistant: &'static str,
    /// The member of a message that holds its blocks.
    pub(crate) blocks_member: &'static str,
    /// Writes the blocks of a message.
    pub(crate) lower: fn(&mut OutgoingMessage<'_>) -> Vec<Block>,
    /// Returns the blocks of a content as received.
    pub(crate) from_content: fn(&str) -> Vec<Block>,
    /// Writes the placeholder of a call's missing result, by the call's id and tool.
    pub(crate) placeholder_result: fn(&PlaceholderResult, &str, &str) -> Block,
    /// Writes the instructions from the list of their blocks.
    pub(crate) system: fn(String) -> String,
    /// Writes a block of text.
    pub(crate) text: fn(&str) -> String,
    /// Writes a message with a role and blocks.
    pub(crate) message: fn(&str, &str) -> String,
    /// Returns whether the model continues its last turn, so that nothing is added after it.
    pub(crate) is_paused: fn(&[(PrefixSource, Block)]) -> bool,
    /// Whether the first turn must be the user's.
    pub(crate) begins_with_user: bool,
    /// Signs the first call of a turn that was not recorded from this provider; `None` if the call
    /// already has a signature. Absent if calls need no signature.
    pub(crate) sign: Option<fn(&str) -> Option<String>>,
    /// Returns whether a model also requires signatures in turns that were recorded from this
    /// provider, because older models do not make any.
    pub(crate) needs_signatures: fn(&str) -> bool,
    /// Whether results must be the first blocks of a turn, even of a recorded one.
    pub(crate) results_first: bool,
    /// Repairs a block that the provider rejects, even a recorded one; returns it with the repair.
    pub(crate) repaired: fn(&str) -> Option<(String, &'static str)>,
    /// Returns why the provider rejects a block, even a recorded one.
    pub(crate) why_refused: fn(&str) -> Option<&'static str>,
    /// Returns whether the provider rejects a turn of this block alone.
    pub(crate) is_nothing: fn(&str) -> bool,
}

impl Wording {
    /// Returns whether the role is the only member of a message besides its blocks.
    pub(crate) fn says_only_role(&self, fields: &Fields<'_>, word: &str) -> bool {
        let received = around(fields, self.blocks_member, "[]".to_owned());
        raw::same(&(self.message)(word, "[]"), &received)
    }

    /// Makes the drafts of one message from its contents, each with its received blocks. A draft
    /// keeps its blocks if lowering would write other JSON, and the first draft keeps the message
    /// around them.
    pub(crate) fn drafts(
        &self,
        fields: &Fields<'_>,
        word: &str,
        role: &Role,
        contents: Vec<(Content, Vec<&str>)>,
    ) -> impl Iterator<Item = Draft> {
        contents.into_iter().enumerate().map(move |(place, (content, raws))| {
            let speaks = match content {
                Content::ToolResult(_) => Role::Tool,
                _ => role.clone(),
            };
            let mut draft = draft(content, Some(speaks.clone()), self.format.form);
            draft.joins_previous = place > 0;
            let blocks = || (self.lower)(&mut OutgoingMessage::recorded(&draft.content, &speaks));
            let says_more = place == 0 && !self.says_only_role(fields, word);
            if says_more || !is_same(&blocks(), &raws) {
                let received = match place {
                    0 => around(fields, self.blocks_member, raw::array(raws)),
                    _ => raw::array(raws),
                };
                draft.verbatim = Some(Blob::seal(received.into_bytes()));
            }
            draft
        })
    }
}

/// A message that is being assembled.
struct Turn<'a> {
    role: &'static str,
    /// The received members around the blocks, if there are others than role and content.
    around: Option<Fields<'a>>,
    /// The whole message as received; sent if nothing is added to it.
    received: Option<&'a str>,
    blocks: Vec<(PrefixSource, Block)>,
    /// Whether it is a single recorded message, whose order the provider has accepted.
    recorded: bool,
    last: Option<Row>,
}

/// The position of the last row of a turn.
#[derive(Clone, Copy)]
struct Row {
    slot: CommitId,
    key: Option<u64>,
    own: bool,
}

impl<'a> Turn<'a> {
    fn new(role: &'static str) -> Self {
        let blocks = Vec::new();
        Self { role, around: None, received: None, blocks, recorded: false, last: None }
    }

    fn with_block(mut self, block: (PrefixSource, Block)) -> Self {
        self.blocks.push(block);
        self
    }
}

/// Writes the members with the instructions, if there are any, and with the messages.
pub(crate) fn members(sheet: &mut RequestWriter<'_>, wording: &Wording) -> Members {
    let format = wording.format;
    let system = instructions(sheet, wording);
    let system = format.system.zip(system).map(|(key, text)| (key.to_owned(), text));
    let list = (format.list.to_owned(), messages(sheet, wording));
    system.into_iter().chain([list]).collect()
}

/// Writes the list of messages.
fn messages(sheet: &mut RequestWriter<'_>, wording: &Wording) -> String {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for item in sheet.items {
        match item {
            Item::Message(message) if is_separate(message, wording) => {}
            Item::Message(message) => add(sheet, wording, message, &mut turns),
            Item::StandIn(answer) => {
                let (id, name) = sheet.ids.of_placeholder(answer);
                let origin = PrefixSource::Repair(Some(answer.answers.slot));
                let block = (origin, (wording.placeholder_result)(answer, id, name));
                let turn = match turns.pop_if(|turn| turn.role == "user") {
                    Some(turn) => Turn { recorded: false, received: None, last: None, ..turn },
                    None => Turn::new("user"),
                };
                turns.push(turn.with_block(block));
            }
        }
    }
    if sheet.repairing {
        let needs_signatures = sheet.model.as_deref().is_some_and(wording.needs_signatures);
        for turn in &mut turns {
            leave_out_refused(turn, wording, &mut sheet.repairs);
            if !sheet.separate {
                repair_blocks(turn, wording, &mut sheet.repairs);
            }
            let results_first = wording.results_first && !sheet.separate && turn.role == "user";
            in_order(turn, results_first, &mut sheet.repairs);
            let is_signed = turn.recorded && !needs_signatures;
            if let Some(sign) =
                wording.sign.filter(|_| turn.role == wording.assistant && !is_signed)
                && sign_first_call(turn, sign)
                && turn.recorded
            {
                let slot = turn.last.map(|last| last.slot);
                let text = "a call without a signature gets the one that Gemini 3 ignores";
                sheet.repairs.push(Repair::new(RepairKind::Changed, slot, text));
            }
        }
        // The transcripts of other tools contain empty turns.
        if sheet.separate {
            let is_kept = |turn: &Turn<'_>| turn.received.is_some() || turn.recorded;
            turns.retain(|turn| !turn.blocks.is_empty() || is_kept(turn));
        } else {
            leave_out_empty(&mut turns, wording, &mut sheet.repairs);
        }
    }
    if sheet.closing {
        close(sheet, wording, &mut turns);
    }
    let mut messages = Vec::with_capacity(turns.len());
    for turn in turns {
        let content = raw::array(turn.blocks.iter().map(|(_, block)| block.text.as_str()));
        messages.push(match (turn.received, &turn.around) {
            (Some(received), _) => received.to_owned(),
            (None, Some(around)) => self::around(around, wording.blocks_member, content),
            (None, None) => (wording.message)(turn.role, &content),
        });
        // In the order in which they are sent: the hashes of the prefix are chained.
        for (origin, block) in turn.blocks {
            sheet.blocks.push(origin, &block.text);
        }
    }
    raw::array(messages)
}

/// Returns whether instructions are written separately. Those that the provider itself had within
/// the conversation are not.
fn is_separate(message: &Message, wording: &Wording) -> bool {
    speaker(message) == Speaker::System && message.form.as_deref() != Some(wording.format.form)
}

/// Writes the instructions, as received if they are one message; `None` if there are none.
fn instructions(sheet: &mut RequestWriter<'_>, wording: &Wording) -> Option<String> {
    let mut blocks: Vec<(PrefixSource, Block)> = Vec::new();
    let (mut count, mut received, mut spoken) = (0, None, false);
    for item in sheet.items {
        let message = match item {
            Item::Message(message) if is_separate(message, wording) => message,
            Item::Message(_) | Item::StandIn(_) => {
                spoken = true;
                continue;
            }
        };
        let origin = PrefixSource::System(message.commit);
        let own = sheet.verbatim(message);
        let mut made = match own {
            Some(raw) => (wording.from_content)(raw),
            None => sheet.lowered(message, wording.lower),
        };
        let before = made.len();
        if sheet.repairing && !sheet.separate && own.is_none_or(|raw| !raw.starts_with('"')) {
            made.retain(|block| {
                let why = (wording.why_refused)(&block.text);
                let report = |why| {
                    let text = format!("{why}: left out");
                    Repair::new(RepairKind::PartLeftOut, Some(message.slot), text)
                };
                sheet.repairs.extend(why.map(report));
                why.is_none()
            });
        }
        let own = own.filter(|_| made.len() == before);
        if spoken && !made.is_empty() {
            let text = "instructions within the conversation: moved to its beginning";
            sheet.repairs.push(Repair::new(RepairKind::SystemMoved, Some(message.slot), text));
        }
        count += usize::from(own.is_some() || !made.is_empty());
        received = own;
        blocks.extend(made.into_iter().map(|block| (origin.clone(), block)));
    }
    let mut texts = Vec::with_capacity(blocks.len());
    for (origin, block) in blocks {
        sheet.blocks.push(origin, &block.text);
        texts.push(block.text);
    }
    match received.filter(|_| count == 1) {
        Some(received) => Some(received.to_owned()),
        None => (count > 0).then(|| (wording.system)(raw::array(texts))),
    }
}

fn add<'a>(
    sheet: &mut RequestWriter<'a>,
    wording: &Wording,
    message: &'a Message,
    turns: &mut Vec<Turn<'a>>,
) {
    let role = match speaker(message) {
        Speaker::Assistant => wording.assistant,
        Speaker::User | Speaker::Tool => "user",
        Speaker::System => "system",
    };
    let own = sheet.format.owns(message.form.as_deref());
    let row =
        Row { slot: message.slot, key: sheet.compiled.row(message.slot).map(|row| row.key), own };
    let received = sheet.verbatim(message);
    let around =
        received.filter(|raw| raw.starts_with('{')).and_then(|raw| Node::root(raw).object().ok());
    let blocks = match (&around, received) {
        (Some(fields), _) => {
            fields.raw(wording.blocks_member).map(wording.from_content).unwrap_or_default()
        }
        (None, Some(raw)) => (wording.from_content)(raw),
        (None, None) => sheet.lowered(message, wording.lower),
    };
    if blocks.is_empty() && !own && sheet.repairing {
        let text = "a message with nothing to say: left out";
        sheet.repairs.push(Repair::new(RepairKind::EmptyMessage, Some(message.slot), text));
        return;
    }
    let (mut blocks, mut received) = (blocks, received);
    if own && is_answer(message) {
        for block in &mut blocks {
            if let Some(text) = (sheet.format.sent_answer)(&block.text) {
                block.text = text;
                // The message is written around its blocks.
                received = None;
            }
        }
    }
    let origin = PrefixSource::Message(message.commit);
    let blocks = blocks.into_iter().map(|block| (origin.clone(), block));
    if let Some(turn) = turns.last_mut().filter(|turn| turn.role == role) {
        // Neighbors in the request are not always neighbors in the history. With a row between them
        // that is now skipped, the provider never saw the two messages as one.
        let next = turn.last.is_some_and(|last| follows(last, row));
        let joins = next && turn.last.map(|last| last.slot) == message.joins;
        // Recorded neighbors are not merged; with `keep` no messages are.
        let apart = !sheet.repairing || (own && next && turn.last.is_some_and(|last| last.own));
        if joins || !apart {
            turn.blocks.extend(blocks);
            turn.recorded &= joins && own;
            turn.received = None;
            turn.last = Some(row);
            return;
        }
    }
    let received = received.filter(|_| around.is_some());
    let (blocks, last) = (blocks.collect(), Some(row));
    turns.push(Turn { role, around, received, blocks, recorded: own, last });
}

/// Returns whether a row was written right after another. If a row between them was skipped or
/// removed later, there is a gap in the keys.
fn follows(before: Row, row: Row) -> bool {
    let gap = before.key.zip(row.key).and_then(|(before, key)| key.checked_sub(before));
    gap.is_some_and(|gap| gap <= 1)
}

/// Removes the blocks that the provider rejects.
fn leave_out_refused(turn: &mut Turn<'_>, wording: &Wording, repairs: &mut Vec<Repair>) {
    let before = turn.blocks.len();
    let slot = turn.last.map(|last| last.slot);
    turn.blocks.retain(|(_, block)| {
        let why = (wording.why_refused)(&block.text);
        let report = |why| Repair::new(RepairKind::PartLeftOut, slot, format!("{why}: left out"));
        repairs.extend(why.map(report));
        why.is_none()
    });
    // `received` is the provider's own text of the whole turn and is sent instead of the blocks.
    // Every change of the blocks has to drop it, or the change is not sent.
    if turn.blocks.len() < before {
        (turn.received, turn.recorded) = (None, false);
    }
}

/// Repairs the blocks of recorded turns that the provider rejects.
fn repair_blocks(turn: &mut Turn<'_>, wording: &Wording, repairs: &mut Vec<Repair>) {
    let slot = turn.last.map(|last| last.slot);
    for (_, block) in &mut turn.blocks {
        if let Some((text, what)) = (wording.repaired)(&block.text) {
            block.text = text;
            repairs.push(Repair::new(RepairKind::PartLeftOut, slot, what));
            (turn.received, turn.recorded) = (None, false);
        }
    }
}

/// Leaves out the turns without content, which no provider accepts.
fn leave_out_empty(turns: &mut Vec<Turn<'_>>, wording: &Wording, repairs: &mut Vec<Repair>) {
    turns.retain(|turn| {
        let is_empty = turn.blocks.iter().all(|(_, block)| (wording.is_nothing)(&block.text));
        // The others were reported with the blocks that they lost.
        if is_empty && (turn.recorded || !turn.blocks.is_empty()) {
            let slot = turn.last.map(|last| last.slot);
            let text = "a message without content: left out";
            repairs.push(Repair::new(RepairKind::EmptyMessage, slot, text));
        }
        !is_empty
    });
}

/// Signs the first call of a turn if it lacks a signature. Returns whether it did.
fn sign_first_call(turn: &mut Turn<'_>, sign: fn(&str) -> Option<String>) -> bool {
    let call = turn.blocks.iter_mut().find(|(_, block)| block.sort == BlockKind::Call);
    if let Some((_, block)) = call
        && let Some(signed) = sign(&block.text)
    {
        block.text = signed;
        turn.received = None;
        return true;
    }
    false
}

/// Sorts the blocks of a turn: text before calls, and results before text. The order of a recorded
/// turn is kept, unless the provider requires `results_first` and it begins with another block.
fn in_order(turn: &mut Turn<'_>, results_first: bool, repairs: &mut Vec<Repair>) {
    let begins = |block: &Block| block.sort == BlockKind::Result;
    let begins_late = turn.blocks.first().is_some_and(|(_, block)| !begins(block));
    if turn.recorded && !(results_first && begins_late) {
        return;
    }
    let place = |block: &Block| match (turn.role, block.sort) {
        ("user", BlockKind::Result) => 0,
        ("user", BlockKind::Call | BlockKind::Other) => 1,
        (_, BlockKind::Call) => 1,
        (_, BlockKind::Result | BlockKind::Other) => 0,
    };
    if turn.blocks.is_sorted_by_key(|(_, block)| place(block)) {
        return;
    }
    let mut blocks = std::mem::take(&mut turn.blocks);
    blocks.sort_by_key(|(_, block)| place(block));
    let what = match turn.role {
        "user" => "results moved before the text of their message",
        _ => "text moved before the calls of its message",
    };
    let slot = turn.last.map(|last| last.slot);
    repairs.push(Repair::new(RepairKind::Reordered, slot, what));
    turn.blocks = blocks;
    turn.received = None;
}

/// Ends a conversation with a turn that the provider accepts. After the assistant's turn a provider
/// would continue in the middle of it; some also reject a conversation that begins with it.
fn close(sheet: &mut RequestWriter<'_>, wording: &Wording, turns: &mut Vec<Turn<'_>>) {
    let filler = |says: &str| {
        let block = Block { sort: BlockKind::Other, text: (wording.text)(says) };
        Turn::new("user").with_block((PrefixSource::Repair(None), block))
    };
    let begins = turns.iter().find(|turn| turn.role != "system");
    if wording.begins_with_user && begins.is_some_and(|turn| turn.role == wording.assistant) {
        turns.insert(0, filler("Begin."));
        let text = "the conversation begins with the assistant: opened with \"Begin.\"";
        sheet.repairs.push(Repair::new(RepairKind::Closed, None, text));
    }
    let last = turns.iter().rev().find(|turn| turn.role != "system");
    let found = match last {
        Some(turn) if turn.role == wording.assistant && (wording.is_paused)(&turn.blocks) => return,
        Some(turn) if turn.role == wording.assistant => "the conversation ends with the assistant",
        // Instructions alone are not a conversation. An empty context is not reported.
        None if sheet.compiled.message_count() > 0 => "there is nothing to answer",
        Some(_) | None => return,
    };
    turns.push(filler("Continue."));
    let text = format!("{found}: closed with \"Continue.\"");
    sheet.repairs.push(Repair::new(RepairKind::Closed, None, text));
}
