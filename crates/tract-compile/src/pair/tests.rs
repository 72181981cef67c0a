use std::collections::HashMap;

use proptest::prelude::*;
use tract_core::{CallRef, CommitId, Content, Kind, Message, Part, Priority, Role};

use super::*;
use crate::compiled::TokenCount;
use crate::view::{Row, View};

const OWN: &str = "theirs-1";

/// A row of a random context.
#[derive(Clone, Debug)]
struct Plan {
    what: Entry,
    shown: bool,
    own: bool,
}

#[derive(Clone, Debug)]
enum Entry {
    Say(Kind, Role),
    Call(usize),
    /// Answers the call at this place among all calls made so far; none is an orphan.
    Answer(Option<usize>),
}

fn slot(place: usize) -> CommitId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(place as u64 + 1).to_be_bytes());
    CommitId::from_bytes(bytes)
}

fn message(place: usize, content: Content, role: Role, own: bool) -> Message {
    Message {
        commit: slot(place),
        slot: slot(place),
        role,
        priority: Priority::Normal,
        form: own.then(|| OWN.to_owned()),
        ..Message::unrecorded(content)
    }
}

fn compiled(plans: &[Plan]) -> Compiled {
    let (mut rows, mut messages, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for (place, plan) in plans.iter().enumerate() {
        let mut answers = None;
        let message = match &plan.what {
            Entry::Say(kind, role) => {
                let body = tract_core::Body::text("t");
                let content = Content::of_body(kind.clone(), body).expect("a kind with parts");
                message(place, content, role.clone(), plan.own)
            }
            Entry::Call(count) => {
                let mut parts = Vec::new();
                for index in 0..*count {
                    parts.push(Part::call(format!("c{}", calls.len()), "f", "{}"));
                    calls.push(CallRef { slot: slot(place), index: index as u32 });
                }
                let content = Content::Assistant(tract_core::Body { parts, name: None });
                message(place, content, Role::Assistant, plan.own)
            }
            Entry::Answer(call) => {
                answers = call.and_then(|call| calls.get(call % calls.len().max(1)).copied());
                let id = call
                    .map_or("none".to_owned(), |call| format!("c{}", call % calls.len().max(1)));
                message(place, Content::tool_result(id, "r"), Role::Tool, plan.own)
            }
        };
        let id = slot(place);
        rows.push(Row { slot: id, key: place as u64, version: id, mark: None, answers });
        if plan.shown {
            messages.push(Message { answers, ..message });
        }
    }
    context(rows, messages)
}

/// The context of rows, all of whose commits are in it.
fn context(rows: Vec<Row>, messages: Vec<Message>) -> Compiled {
    let next = rows.len() as u64;
    let tokens = TokenCount { count: 0, source: "approx".into() };
    Compiled::new(None, View::from_parts(rows, None, next), messages, Vec::new(), tokens, next)
}

/// The same items as rows of a context of their own: a placeholder becomes a result.
fn again(items: &[Item<'_>]) -> Compiled {
    let (mut rows, mut messages) = (Vec::new(), Vec::new());
    let mut moved: HashMap<CommitId, CommitId> = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        let id = slot(place);
        let (content, answers) = match item {
            Item::Message(old) => {
                moved.insert(old.slot, id);
                let new = Message { slot: id, commit: id, ..(*old).clone() };
                (new, old.answers)
            }
            Item::StandIn(answer) => {
                // It would be its call's neighbor, in its call's form.
                let own = messages.iter().any(|message: &Message| {
                    moved.get(&answer.answers.slot) == Some(&message.slot) && message.form.is_some()
                });
                let content = Content::tool_result(answer.call_id.clone(), "r");
                (message(place, content, Role::Tool, own), Some(answer.answers))
            }
        };
        let answers = answers.map(|of| CallRef { slot: moved[&of.slot], index: of.index });
        rows.push(Row { slot: id, key: place as u64, version: id, mark: None, answers });
        messages.push(Message { answers, ..content });
    }
    context(rows, messages)
}

fn answered(item: &Item<'_>) -> Option<CallRef> {
    match item {
        Item::Message(message) => message.answers,
        Item::StandIn(answer) => Some(answer.answers),
    }
}

fn by(item: &Item<'_>) -> Speaker {
    match item {
        Item::Message(message) => speaker(message),
        Item::StandIn(_) => Speaker::Tool,
    }
}

/// What is wrong with items, judged by walking them as a server would.
fn broken(items: &[Item<'_>], rules: &Rules) -> Vec<String> {
    let mut broken = Vec::new();
    let mut waiting: Vec<CallRef> = Vec::new();
    for (n, item) in items.iter().enumerate() {
        match (by(item), item) {
            (Speaker::Tool, _) => match answered(item) {
                Some(of) if waiting.contains(&of) => waiting.retain(|open| *open != of),
                other => broken.push(format!("{n}: {other:?} is not waited for")),
            },
            (Speaker::System, _) if rules.turns => {}
            // Own rows may mix text and results, or have the results anywhere.
            (Speaker::User | Speaker::System | Speaker::Assistant, Item::Message(_))
                if rules.anywhere => {}
            (Speaker::User, _) if rules.turns && waiting.is_empty() => {}
            (Speaker::Assistant, _) if rules.turns && n > 0 => {
                let before = items[..n].iter().rev().find(|item| by(item) != Speaker::System);
                let in_turn = before.is_some_and(|before| by(before) == Speaker::Assistant);
                if !in_turn && !waiting.is_empty() {
                    broken.push(format!("{n}: a new turn while {waiting:?} wait"));
                }
            }
            _ if !waiting.is_empty() => broken.push(format!("{n}: {waiting:?} wait")),
            _ => {}
        }
        if let (Speaker::Assistant, Item::Message(message)) = (by(item), item) {
            for (index, _) in (0..).zip(message.content.calls()) {
                waiting.push(CallRef { slot: message.slot, index });
            }
        }
    }
    if !waiting.is_empty() {
        broken.push(format!("end: {waiting:?} wait"));
    }
    broken
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let what = prop_oneof![
        2 => Just(Entry::Say(Kind::User, Role::User)),
        2 => Just(Entry::Say(Kind::Assistant, Role::Assistant)),
        1 => Just(Entry::Say(Kind::System, Role::System)),
        1 => Just(Entry::Say(Kind::Reasoning, Role::Assistant)),
        4 => (1usize..4).prop_map(Entry::Call),
        7 => (0usize..12).prop_map(|call| Entry::Answer(Some(call))),
        1 => Just(Entry::Answer(None)),
    ];
    let plan = (what, prop::bool::weighted(0.85), any::<bool>())
        .prop_map(|(what, shown, own)| Plan { what, shown, own });
    prop::collection::vec(plan, 0..24)
}

fn all_rules() -> [Rules; 3] {
    [
        Rules::new([OWN]),
        Rules { turns: true, ..Rules::new([OWN]) },
        Rules { anywhere: true, ..Rules::new([OWN]) },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_rows_pair_in_repair(plans in plans()) {
        let context = compiled(&plans);
        for rules in all_rules() {
            let paired = pair(&context, Pairing::Repair, &rules).unwrap();
            let broken = broken(&paired.items, &rules);
            prop_assert!(broken.is_empty(), "{broken:?}\n{:?}", paired.items);
            let strict = pair(&context, Pairing::Strict, &rules);
            prop_assert_eq!(strict.is_ok(), paired.repairs.is_empty());
        }
    }

    #[test]
    fn paired_messages_are_unchanged(plans in plans()) {
        let context = compiled(&plans);
        for rules in all_rules() {
            let once = again(&pair(&context, Pairing::Repair, &rules).unwrap().items);
            let twice = pair(&once, Pairing::Repair, &rules).unwrap();
            prop_assert_eq!(&twice.repairs, &Vec::new());
            prop_assert_eq!(&twice.items, &pair(&once, Pairing::Keep, &rules).unwrap().items);
        }
    }

    #[test]
    fn nothing_but_results_and_reasoning_is_left_out(plans in plans()) {
        let context = compiled(&plans);
        for rules in all_rules() {
            let paired = pair(&context, Pairing::Repair, &rules).unwrap();
            let kept = |kinds: &[Speaker], messages: Vec<&Message>| -> Vec<CommitId> {
                let reasoning = |message: &Message| message.content.kind() == Kind::Reasoning;
                let wanted = |message: &&Message| kinds.contains(&speaker(message)) && !reasoning(message);
                messages.into_iter().filter(wanted).map(|message| message.slot).collect()
            };
            let kinds = [Speaker::System, Speaker::User, Speaker::Assistant];
            let sent = paired.items.iter().filter_map(|item| match item {
                Item::Message(message) => Some(*message),
                Item::StandIn(_) => None,
            });
            prop_assert_eq!(kept(&kinds, sent.collect()), kept(&kinds, context.messages().collect()));
        }
    }
}

fn plan(what: Entry) -> Plan {
    Plan { what, shown: true, own: false }
}

#[track_caller]
fn check(plans: &[Plan], rules: &Rules, kinds: &[RepairKind], order: &[&str]) {
    let context = compiled(plans);
    let paired = pair(&context, Pairing::Repair, rules).unwrap();
    let found: Vec<_> = paired.repairs.iter().map(|repair| repair.kind).collect();
    let sent: Vec<String> = paired
        .items
        .iter()
        .map(|item| match item {
            Item::Message(message) => context.row(message.slot).unwrap().key.to_string(),
            Item::StandIn(answer) => answer.text().to_owned(),
        })
        .collect();
    assert_eq!((found.as_slice(), sent), (kinds, order.iter().map(|s| (*s).to_owned()).collect()));
}

#[test]
fn results_follow_their_calls_in_call_order() {
    let rows = [
        plan(Entry::Call(2)),
        plan(Entry::Say(Kind::User, Role::User)),
        plan(Entry::Answer(Some(1))),
        plan(Entry::Answer(Some(0))),
    ];
    let moved = [RepairKind::Moved, RepairKind::Moved];
    check(&rows, &Rules::new([]), &moved, &["0", "3", "2", "1"]);
    check(&rows, &Rules { turns: true, ..Rules::new([]) }, &moved, &["0", "3", "2", "1"]);
}

#[test]
fn own_rows_that_satisfy_the_rules_stay() {
    let own = |what| Plan { own: true, ..plan(what) };
    let rows = [
        own(Entry::Call(1)),
        own(Entry::Say(Kind::Assistant, Role::Assistant)),
        own(Entry::Say(Kind::User, Role::User)),
        own(Entry::Answer(Some(0))),
    ];
    check(
        &rows[..2],
        &Rules { turns: true, ..Rules::new([OWN]) },
        &[RepairKind::NotExecuted],
        &["0", "no result is recorded", "1"],
    );
    let answered = [rows[0].clone(), rows[1].clone(), rows[3].clone(), rows[2].clone()];
    check(&answered, &Rules { turns: true, ..Rules::new([OWN]) }, &[], &["0", "1", "2", "3"]);
    check(&rows, &Rules { anywhere: true, ..Rules::new([OWN]) }, &[], &["0", "1", "2", "3"]);
    check(&rows, &Rules::new([OWN]), &[RepairKind::Moved], &["0", "3", "1", "2"]);
}

#[test]
fn a_message_between_a_call_and_its_result_comes_after_the_result() {
    let own = |what| Plan { own: true, ..plan(what) };
    let rows =
        [own(Entry::Call(1)), own(Entry::Say(Kind::User, Role::User)), own(Entry::Answer(Some(0)))];
    let turns = Rules { turns: true, ..Rules::new([OWN]) };
    check(&rows, &turns, &[RepairKind::Moved], &["0", "2", "1"]);
    // Text and result in one recorded message stay as the provider took them.
    let apart = compiled(&rows);
    let mut messages: Vec<Message> = apart.messages().cloned().collect();
    messages[2].joins = Some(messages[1].slot);
    let rows = apart.rows().map(|(row, _)| *row).collect();
    let context = context(rows, messages);
    assert_eq!(pair(&context, Pairing::Repair, &turns).unwrap().repairs, []);
}

#[test]
fn skipped_rows_take_along_or_leave_a_placeholder() {
    let skipped = |what| Plan { shown: false, ..plan(what) };
    let rows = [plan(Entry::Call(1)), skipped(Entry::Answer(Some(0)))];
    check(&rows, &Rules::new([]), &[RepairKind::SkippedResult], &["0", "[skipped]"]);
    let rows = [
        plan(Entry::Say(Kind::Reasoning, Role::Assistant)),
        skipped(Entry::Call(1)),
        plan(Entry::Answer(Some(0))),
    ];
    check(&rows, &Rules::new([]), &[RepairKind::CallSkipped, RepairKind::CallSkipped], &[]);
}

#[test]
fn orphans_and_second_results_are_left_out_and_open_calls_answered() {
    let rows = [
        plan(Entry::Answer(None)),
        plan(Entry::Call(2)),
        plan(Entry::Answer(Some(0))),
        plan(Entry::Answer(Some(0))),
    ];
    let kinds = [RepairKind::Orphan, RepairKind::SecondResult, RepairKind::NotExecuted];
    check(&rows, &Rules::new([]), &kinds, &["1", "2", "no result is recorded"]);
    assert!(pair(&compiled(&rows), Pairing::Strict, &Rules::new([])).is_err());
    let kept = compiled(&rows);
    assert_eq!(pair(&kept, Pairing::Keep, &Rules::new([])).unwrap().items.len(), 4);
}
