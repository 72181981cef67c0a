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
    let calls = shown_calls(compiled);
    let entries = take_part(compiled, &calls, &mut repairs);
    // `take_part` has left one answer for each call.
    let mut answers: HashMap<CallRef, usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(of) = entry.answers() {
            answers.insert(of, at);
        }
    }
    let staying = staying(&entries, &answers, rules);
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
                let call = calls.get(of).copied();
                items.push(placeholder(call, *of, Some(*slot), &mut repairs));
            }
            // Already sent, directly after its call.
            PairEntry::Result { .. } | PairEntry::Skipped { .. } => {}
        }
    }
    PairedMessages { items, repairs }
}

/// Filters out rows that no request can contain: orphans, second results, and the results and
/// reasoning of skipped calls.
fn take_part<'a>(
    compiled: &'a Compiled,
    calls: &HashMap<CallRef, &ToolCall>,
    repairs: &mut Vec<Repair>,
) -> Vec<PairEntry<'a>> {
    let rows: Vec<(&Row, Option<&Message>)> = compiled.rows().collect();
    let skipped_calls: HashSet<CommitId> = rows
        .iter()
        .filter_map(|(row, _)| row.answers)
        .map(|answers| answers.slot)
        .filter(|slot| compiled.row(*slot).is_some() && compiled.message(*slot).is_none())
        .collect();
    let mut left_out: HashSet<CommitId> = HashSet::new();
    // The reasoning since the last message of another kind.
    let mut reasoning: Vec<CommitId> = Vec::new();
    for (row, message) in &rows {
        match message {
            Some(message) if message.content.kind() == Kind::Reasoning => reasoning.push(row.slot),
            Some(_) => reasoning.clear(),
            None if skipped_calls.contains(&row.slot) => left_out.extend(reasoning.drain(..)),
            None => {}
        }
    }
    let mut answered: HashSet<CallRef> = HashSet::new();
    let mut entries = Vec::with_capacity(rows.len());
    for (row, message) in rows {
        let Some(message) = message else {
            if let Some(of) = row.answers
                && calls.contains_key(&of)
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
            Some(of) if calls.contains_key(&of) => {
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

/// Returns the calls of all messages that are shown.
fn shown_calls(compiled: &Compiled) -> HashMap<CallRef, &ToolCall> {
    let messages = compiled.messages().filter(|message| speaker(message) == Speaker::Assistant);
    let calls = messages.flat_map(|message| {
        let calls = (0u32..).zip(message.content.calls());
        calls.map(|(index, call)| (CallRef { slot: message.slot, index }, call))
    });
    calls.collect()
}

/// Returns the messages whose calls are already answered where the rules require it. A turn is
/// checked as a whole, because an answer inserted into it would separate another call from its
/// answer.
fn staying(
    entries: &[PairEntry<'_>],
    answers: &HashMap<CallRef, usize>,
    rules: &Rules,
) -> HashSet<CommitId> {
    let bounds = Bounds::of(entries, rules);
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
        if answered_in_place(&turn, at, entries, answers, &bounds, rules) {
            staying.extend(turn.iter().map(|message| message.slot));
        }
    }
    staying
}

/// For each entry the next one that limits the place of answers. Both have one element more than
/// there are entries. They are computed once, since searching from each turn would take quadratic
/// time.
struct Bounds {
    /// The next message before which the answers have to be.
    ends: Vec<usize>,
    /// The next message of the user; only with rules for turns.
    spoken: Vec<usize>,
}

impl Bounds {
    fn of(entries: &[PairEntry<'_>], rules: &Rules) -> Self {
        let none = entries.len();
        let mut bounds = Self { ends: vec![none; none + 1], spoken: vec![none; none + 1] };
        let (mut end, mut speech) = (none, none);
        let places = bounds.ends.iter_mut().zip(&mut bounds.spoken);
        for ((at, entry), (ends, spoken)) in entries.iter().enumerate().zip(places).rev() {
            let is_message = matches!(entry, PairEntry::Message(_));
            if is_message && (!rules.turns || entry.is_assistant()) {
                end = at;
            } else if is_message && !entry.is_system() {
                speech = at;
            }
            (*ends, *spoken) = (end, speech);
        }
        bounds
    }
}

/// Returns whether all calls of a turn that ends before `at` are answered where the rules require
/// it.
fn answered_in_place(
    turn: &[&Message],
    at: usize,
    entries: &[PairEntry<'_>],
    answers: &HashMap<CallRef, usize>,
    bounds: &Bounds,
    rules: &Rules,
) -> bool {
    let mut own = true;
    let mut found = Vec::new();
    for message in turn {
        for (index, _) in (0u32..).zip(message.content.calls()) {
            let of = CallRef { slot: message.slot, index };
            let place = answers.get(&of).filter(|place| **place >= at);
            let Some((place, entry)) = place.and_then(|place| Some((*place, entries.get(*place)?)))
            else {
                return false;
            };
            let joins = match entry {
                PairEntry::Result { message, .. } => {
                    own &= rules.own(message);
                    message.joins.is_some()
                }
                PairEntry::Skipped { .. } | PairEntry::Message(_) => false,
            };
            own &= rules.own(message);
            found.push((place, joins));
        }
    }
    let is_sorted = found.is_sorted_by_key(|(place, _)| *place);
    if rules.anywhere && own {
        return true;
    }
    let bound = |bounds: &[usize]| bounds.get(at).copied().unwrap_or(entries.len());
    let (end, spoken) = (bound(&bounds.ends), bound(&bounds.spoken));
    // Within one recorded message the provider accepted text before the result. As a message of
    // its own, the text would end the turn that must contain the result.
    let is_placed =
        |(place, joins): &(usize, bool)| *place < end && (*place < spoken || own && *joins);
    (own || is_sorted) && found.iter().all(is_placed)
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
