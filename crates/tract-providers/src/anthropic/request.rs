//! Requests out: instructions apart, neighbors of one role as one message, results first.

use tract_compile::{Item, Repair, RepairKind, Speaker, speaker};
use tract_core::{CommitId, Message};
use tract_schema::Dialect;

use super::lower::{self, Block, BlockKind};
use crate::adapter::{DialectAdapter as _, Members};
use crate::prefix::PrefixSource;
use crate::raw::{self, Fields, Node};
use crate::sheet::RequestWriter;

/// A message that is being put together.
struct Turn<'a> {
    role: &'static str,
    /// The message around the blocks, as received, where that says more than role and content.
    around: Option<Fields<'a>>,
    /// The whole message as received: sent when nothing is added to it.
    received: Option<&'a str>,
    blocks: Vec<(PrefixSource, Block)>,
    /// Whether it is one recorded message, whose order was accepted.
    recorded: bool,
    last: Option<Row>,
}

/// Where the last row of a turn stands.
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
}

/// Writes `system` and `messages`.
pub(crate) fn members(sheet: &mut RequestWriter<'_>) -> Members {
    let mut members = Vec::new();
    if let Some(system) = instructions(sheet) {
        members.push(("system".to_owned(), system));
    }
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for item in sheet.items {
        match item {
            Item::Message(message) if is_apart(message) => {}
            Item::Message(message) => add(sheet, message, &mut turns),
            Item::StandIn(answer) => {
                let sent = sheet.ids.call(answer.answers.slot, answer.answers.index);
                let id = sent.map_or(answer.call_id.as_str(), |sent| &sent.id);
                let block = (
                    PrefixSource::Repair(Some(answer.answers.slot)),
                    lower::placeholder_result(answer, id),
                );
                match turns.last_mut().filter(|turn| turn.role == "user") {
                    Some(turn) => {
                        turn.recorded = false;
                        turn.received = None;
                        turn.last = None;
                        turn.blocks.push(block);
                    }
                    None => {
                        let mut turn = Turn::new("user");
                        turn.blocks.push(block);
                        turns.push(turn);
                    }
                }
            }
        }
    }
    if sheet.repairing {
        for turn in &mut turns {
            in_order(turn, &mut sheet.repairs);
        }
    }
    if sheet.closing {
        close(sheet, &mut turns);
    }
    let mut messages = Vec::with_capacity(turns.len());
    for turn in turns {
        let content = raw::array(turn.blocks.iter().map(|(_, block)| block.text.as_str()));
        messages.push(match (turn.received, &turn.around) {
            (Some(received), _) => received.to_owned(),
            (None, Some(around)) => lower::around(around, &content),
            (None, None) => lower::message(turn.role, &content),
        });
        for (origin, block) in turn.blocks {
            sheet.blocks.push(origin, &block.text);
        }
    }
    members.push(("messages".to_owned(), raw::array(messages)));
    members
}

/// Instructions go to `system`, but for those that Anthropic itself had within the conversation.
fn is_apart(message: &Message) -> bool {
    speaker(message) == Speaker::System
        && message.form.as_deref() != Some(Dialect::Anthropic.form())
}

/// Writes `system`: as received when it is one row's, else all blocks in order.
fn instructions(sheet: &mut RequestWriter<'_>) -> Option<String> {
    let mut blocks: Vec<(PrefixSource, Block)> = Vec::new();
    let (mut count, mut received, mut spoken) = (0, None, false);
    for item in sheet.items {
        let message = match item {
            Item::Message(message) if is_apart(message) => message,
            Item::Message(_) | Item::StandIn(_) => {
                spoken = true;
                continue;
            }
        };
        let origin = PrefixSource::System(message.commit);
        let own = sheet.verbatim(message);
        let made = match own {
            Some(raw) => from_content(raw),
            None => sheet.lowered(message, lower::blocks),
        };
        if spoken && !made.is_empty() {
            let text = "instructions within the conversation: moved to its beginning";
            sheet.repairs.push(Repair::new(RepairKind::SystemMoved, Some(message.slot), text));
        }
        count += usize::from(own.is_some() || !made.is_empty());
        received = own;
        blocks.extend(made.into_iter().map(|block| (origin.clone(), block)));
    }
    let value = match received {
        Some(received) if count == 1 => received.to_owned(),
        _ => raw::array(blocks.iter().map(|(_, block)| block.text.as_str())),
    };
    for (origin, block) in blocks {
        sheet.blocks.push(origin, &block.text);
    }
    (count > 0).then_some(value)
}

/// Blocks of a content as received; a text counts as the block that it abbreviates.
fn from_content(raw: &str) -> Vec<Block> {
    let node = Node::root(raw);
    match node.array() {
        Ok(blocks) => blocks.iter().map(|block| Block::received(block.raw)).collect(),
        Err(_) if node.is_string() => {
            let text = format!(r#"{{"type":"text","text":{}}}"#, node.raw);
            vec![Block { sort: BlockKind::Other, text }]
        }
        Err(_) => Vec::new(),
    }
}

fn add<'a>(sheet: &mut RequestWriter<'a>, message: &'a Message, turns: &mut Vec<Turn<'a>>) {
    let role = match speaker(message) {
        Speaker::Assistant => "assistant",
        Speaker::User | Speaker::Tool => "user",
        Speaker::System => "system",
    };
    let own = sheet.dialect.owns(message.form.as_deref());
    let row =
        Row { slot: message.slot, key: sheet.compiled.row(message.slot).map(|row| row.key), own };
    let received = sheet.verbatim(message);
    let around =
        received.filter(|raw| raw.starts_with('{')).and_then(|raw| Node::root(raw).object().ok());
    let blocks = match (&around, received) {
        (Some(fields), _) => fields.raw("content").map(from_content).unwrap_or_default(),
        (None, Some(raw)) => from_content(raw),
        (None, None) => sheet.lowered(message, lower::blocks),
    };
    if blocks.is_empty() && !own && sheet.repairing {
        let text = "a message with nothing to say: left out";
        sheet.repairs.push(Repair::new(RepairKind::EmptyMessage, Some(message.slot), text));
        return;
    }
    let origin = PrefixSource::Message(message.commit);
    let blocks = blocks.into_iter().map(|block| (origin.clone(), block));
    if let Some(turn) = turns.last_mut().filter(|turn| turn.role == role) {
        let next = turn.last.is_some_and(|last| follows(last, row));
        let joins = next && turn.last.map(|last| last.slot) == message.joins;
        // Neighbors that were recorded so stay apart; in `keep` all rows do.
        let apart = match sheet.repairing {
            true => own && next && turn.last.is_some_and(|last| last.own),
            false => true,
        };
        if joins || !apart {
            turn.blocks.extend(blocks);
            turn.recorded &= joins && own;
            turn.received = None;
            turn.last = Some(row);
            return;
        }
    }
    let mut turn = Turn::new(role);
    turn.received = received.filter(|_| around.is_some());
    turn.around = around;
    turn.blocks.extend(blocks);
    turn.recorded = own;
    turn.last = Some(row);
    turns.push(turn);
}

/// Whether a row was written right after another one. A row between them, skipped or removed by
/// now, has taken a key.
fn follows(before: Row, row: Row) -> bool {
    match (before.key, row.key) {
        (Some(before), Some(key)) => key.checked_sub(before).is_some_and(|gap| gap <= 1),
        _ => false,
    }
}

/// No text after a call, no text before a result.
fn in_order(turn: &mut Turn<'_>, repairs: &mut Vec<Repair>) {
    if turn.recorded {
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

/// Whether a tool of Anthropic's own is at work: such a turn goes back as it is, and the model
/// continues it (`pause_turn`).
fn is_paused(turn: &Turn<'_>) -> bool {
    #[derive(serde::Deserialize)]
    struct Used {
        #[serde(rename = "type")]
        kind: String,
        id: Option<String>,
        tool_use_id: Option<String>,
    }
    let used = turn.blocks.iter().filter_map(|(_, block)| serde_json::from_str(&block.text).ok());
    let mut open: Vec<String> = Vec::new();
    for Used { kind, id, tool_use_id } in used {
        match (kind.as_str(), id, tool_use_id) {
            ("server_tool_use" | "mcp_tool_use", Some(id), _) => open.push(id),
            (_, _, Some(answered)) => open.retain(|id| *id != answered),
            _ => {}
        }
    }
    !open.is_empty()
}

/// A conversation that ends with the model's words would have it go on in the middle of them.
fn close(sheet: &mut RequestWriter<'_>, turns: &mut Vec<Turn<'_>>) {
    let last = turns.iter().rev().find(|turn| turn.role != "system");
    let found = match last {
        Some(turn) if turn.role == "assistant" && is_paused(turn) => return,
        Some(turn) if turn.role == "assistant" => "the conversation ends with the assistant",
        // Instructions alone are no conversation; where nothing is shown, there is nothing to say.
        None if sheet.compiled.message_count() > 0 => "there is nothing to answer",
        Some(_) | None => return,
    };
    let text = r#"{"type":"text","text":"Continue."}"#.to_owned();
    let mut turn = Turn::new("user");
    turn.blocks.push((PrefixSource::Repair(None), Block { sort: BlockKind::Other, text }));
    turns.push(turn);
    let text = format!("{found}: closed with \"Continue.\"");
    sheet.repairs.push(Repair::new(RepairKind::Closed, None, text));
}
