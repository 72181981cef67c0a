//! Repair in two passes over the rows: the first filters them, the second orders them.

use std::collections::{HashMap, HashSet};

use tract_core::{CallRef, CommitId, Content, Kind, Message, ToolCall};

use super::rules::{Rules, Speaker, speaker};
use super::{Item, PairedMessages, PlaceholderResult, Repair, RepairKind};
use crate::compiled::Compiled;
use crate::view::Row;

/// A row that is sent, in row order.
enum PairEntry<'a> {
    Message(&'a Message),
    Result { of: CallRef, message: &'a Message },
    Skipped { of: CallRef, slot: CommitId },
}

impl<'a> PairEntry<'a> {
    /// Returns the call that it answers.
    fn answers(&self) -> Option<CallRef> {
        match self {
            Self::Message(_) => None,
            Self::Result { of, .. } | Self::Skipped { of, .. } => Some(*of),
        }
    }

    /// Returns the message if the model wrote it.
    fn assistant(&self) -> Option<&'a Message> {
        match self {
            Self::Message(message) if speaker(message) == Speaker::Assistant => Some(message),
            Self::Message(_) | Self::Result { .. } | Self::Skipped { .. } => None,
        }
    }

    fn is_assistant(&self) -> bool {
        self.assistant().is_some()
    }

    fn is_system(&self) -> bool {
        matches!(self, Self::Message(message) if speaker(message) == Speaker::System)
    }
}

pub(super) fn repair<'a>(compiled: &'a Compiled, rules: &Rules) -> PairedMessages<'a> {
    let mut repairs = Vec::new();
    let entries = take_part(compiled, &mut repairs);
    let staying = staying(&entries, rules);
    // `take_part` has left one answer for each call.
    let mut answers: HashMap<CallRef, usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(of) = entry.answers() {
            answers.insert(of, at);
        }
    }
    let mut items = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        match entry {
            PairEntry::Message(message) => {
                items.push(Item::Message(message));
                if !staying.contains(&message.slot) {
                    answer(message, at, &entries, &answers, &mut items, &mut repairs);
                }
            }
            PairEntry::Result { of, message } if staying.contains(&of.slot) => {
                items.push(Item::Message(message));
            }
            PairEntry::Skipped { of, slot } if staying.contains(&of.slot) => {
                items.push(placeholder(call(compiled, *of), *of, Some(*slot), &mut repairs));
            }
            // Already sent, directly after its call.
            PairEntry::Result { .. } | PairEntry::Skipped { .. } => {}
        }
    }
    PairedMessages { items, repairs }
}

/// Filters out rows that no request can contain: orphans, second results, and the results and
/// reasoning of skipped calls.
fn take_part<'a>(compiled: &'a Compiled, repairs: &mut Vec<Repair>) -> Vec<PairEntry<'a>> {
    let rows: Vec<(&Row, Option<&Message>)> = compiled.rows().collect();
    let skipped_calls: HashSet<CommitId> = rows
        .iter()
        .filter_map(|(row, _)| row.answers)
        .map(|answers| answers.slot)
        .filter(|slot| compiled.row(*slot).is_some() && compiled.message(*slot).is_none())
        .collect();
    let mut left_out: HashSet<CommitId> = HashSet::new();
    for (at, (row, _)) in rows.iter().enumerate() {
        if skipped_calls.contains(&row.slot) {
            let before = rows.get(..at).unwrap_or_default().iter().rev();
            let reasoning = before.map_while(|(row, message)| match message {
                Some(message) => {
                    (message.content.kind() == Kind::Reasoning).then_some(Some(row.slot))
                }
                None => Some(None),
            });
            left_out.extend(reasoning.flatten());
        }
    }
    let mut answered: HashSet<CallRef> = HashSet::new();
    let mut entries = Vec::with_capacity(rows.len());
    for (row, message) in rows {
        let Some(message) = message else {
            if let Some(of) = row.answers
                && call(compiled, of).is_some()
                && answered.insert(of)
            {
                entries.push(PairEntry::Skipped { of, slot: row.slot });
            }
            continue;
        };
        let mut leave = |kind, text: String| repairs.push(Repair::new(kind, Some(row.slot), text));
        if left_out.contains(&row.slot) {
            leave(RepairKind::CallSkipped, "reasoning of a skipped call: left out".to_owned());
            continue;
        }
        let Content::ToolResult(result) = &message.content else {
            entries.push(PairEntry::Message(message));
            continue;
        };
        let id = &result.call_id;
        match row.answers {
            Some(of) if call(compiled, of).is_some() => {
                if answered.insert(of) {
                    entries.push(PairEntry::Result { of, message })
                } else {
                    leave(
                        RepairKind::SecondResult,
                        format!("call {id:?} has a second result: left out"),
                    )
                }
            }
            Some(of) if skipped_calls.contains(&of.slot) => {
                leave(RepairKind::CallSkipped, format!("call {id:?} is skipped: result left out"));
            }
            Some(_) | None => {
                leave(RepairKind::Orphan, format!("result for {id:?} answers no call: left out"));
            }
        }
    }
    entries
}

/// Returns a call if its message is shown.
fn call(compiled: &Compiled, of: CallRef) -> Option<&ToolCall> {
    let message = compiled.message(of.slot)?;
    match speaker(message) {
        Speaker::Assistant => message.content.calls().nth(usize::try_from(of.index).ok()?),
        Speaker::System | Speaker::User | Speaker::Tool => None,
    }
}

/// Returns the messages whose calls are already answered where the rules require it. A turn is
/// checked as a whole, because an answer inserted into it would separate another call from its
/// answer.
fn staying(entries: &[PairEntry<'_>], rules: &Rules) -> HashSet<CommitId> {
    let mut staying = HashSet::new();
    let mut at = 0;
    while let Some(entry) = entries.get(at) {
        let start = at;
        at += 1;
        if !entry.is_assistant() {
            continue;
        }
        if rules.turns {
            // Instructions are separate, so they do not end a turn. Those after the turn's last
            // message are left to the next iteration.
            while entries.get(at).is_some_and(|next| next.is_assistant() || next.is_system()) {
                at += 1;
            }
            while entries.get(at - 1).is_some_and(PairEntry::is_system) {
                at -= 1;
            }
        }
        let turn = entries.get(start..at).unwrap_or_default().iter();
        let turn: Vec<&Message> = turn.filter_map(PairEntry::assistant).collect();
        if answered_in_place(&turn, entries.get(at..).unwrap_or_default(), rules) {
            staying.extend(turn.iter().map(|message| message.slot));
        }
    }
    staying
}

fn answered_in_place(turn: &[&Message], rest: &[PairEntry<'_>], rules: &Rules) -> bool {
    let calls: Vec<CallRef> = turn
        .iter()
        .flat_map(|message| {
            (0u32..)
                .zip(message.content.calls())
                .map(|(index, _)| CallRef { slot: message.slot, index })
        })
        .collect();
    if calls.is_empty() {
        return true;
    }
    let order: HashMap<CallRef, usize> = calls.iter().copied().zip(0..).collect();
    let calling = |message: &&&Message| message.content.calls().next().is_some();
    let own = turn.iter().filter(calling).all(|message| rules.own(message))
        && rest.iter().all(|entry| match entry {
            PairEntry::Result { of, message } => !order.contains_key(of) || rules.own(message),
            PairEntry::Message(_) | PairEntry::Skipped { .. } => true,
        });
    let (mut found, mut last, mut spoken) = (0, None, false);
    for entry in rest {
        let (of, joins) = match entry {
            PairEntry::Result { of, message } => (of, message.joins.is_some()),
            PairEntry::Skipped { of, .. } => (of, false),
            PairEntry::Message(_) if rules.turns && entry.is_system() => continue,
            PairEntry::Message(_) if rules.anywhere && own => continue,
            PairEntry::Message(_) if rules.turns && !entry.is_assistant() => {
                spoken = true;
                continue;
            }
            PairEntry::Message(_) => break,
        };
        let Some(place) = order.get(of).copied() else { continue };
        // Within one recorded message the provider accepted text before the result. As a message of
        // its own, the text would end the turn that must contain the result.
        if spoken && !(own && joins) || !own && last.is_some_and(|last| place < last) {
            return false;
        }
        last = Some(place);
        found += 1;
    }
    found == calls.len()
}

/// Appends the answer of each call of a message, in call order.
fn answer<'a>(
    message: &'a Message,
    at: usize,
    entries: &[PairEntry<'a>],
    answers: &HashMap<CallRef, usize>,
    items: &mut Vec<Item<'a>>,
    repairs: &mut Vec<Repair>,
) {
    if speaker(message) != Speaker::Assistant {
        return;
    }
    let mut next = at + 1;
    for (index, call) in (0u32..).zip(message.content.calls()) {
        let of = CallRef { slot: message.slot, index };
        let found = answers.get(&of).and_then(|at| Some((*at, entries.get(*at)?)));
        match found {
            Some((at, PairEntry::Result { message: result, .. })) => {
                if at == next {
                    next += 1;
                } else {
                    repairs.push(Repair::new(
                        RepairKind::Moved,
                        Some(result.slot),
                        format!("result of call {:?}: moved right after its call", call.id),
                    ));
                }
                items.push(Item::Message(result));
            }
            Some((at, PairEntry::Skipped { slot, .. })) => {
                if at == next {
                    next += 1;
                }
                items.push(placeholder(Some(call), of, Some(*slot), repairs));
            }
            Some((_, PairEntry::Message(_))) | None => {
                items.push(placeholder(Some(call), of, None, repairs));
            }
        }
    }
}

fn placeholder<'a>(
    call: Option<&ToolCall>,
    of: CallRef,
    skipped: Option<CommitId>,
    repairs: &mut Vec<Repair>,
) -> Item<'a> {
    let (call_id, name) = call.map(|call| (call.id.clone(), call.name.clone())).unwrap_or_default();
    repairs.push(match skipped {
        Some(slot) => Repair::new(
            RepairKind::SkippedResult,
            Some(slot),
            format!("result of call {call_id:?} is skipped: sent as [skipped]"),
        ),
        None => Repair::new(
            RepairKind::NotExecuted,
            Some(of.slot),
            format!("call {call_id:?} has no result: sent as \"no result is recorded\""),
        ),
    });
    Item::StandIn(PlaceholderResult { answers: of, call_id, name, skipped })
}
