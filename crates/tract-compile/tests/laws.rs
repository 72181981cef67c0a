//! Random histories, built from changes alone: warm, cold, from snapshots and without any derived
//! data they compile to what a plain fold over all records says.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::oracle::expected;
use common::{Snap, TestHistory, calling, compiler, facts, snapshots};
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::Arc;
use tract_compile::{Compiled, Compiler, FoldedHistory, SnapshotCheck, View, fold};
use tract_core::{
    ApproxCounter, Blob, CallRef, Change, CommitId, CommitRef, Content, DerivedKind, JsonText, Op,
    Part, Priority, RepoName, RowFields, StoreExt, block_on,
};

#[derive(Clone, Debug)]
enum Step {
    Say(u8, Option<usize>, Option<Priority>),
    Answer(Index),
    Edit(Index),
    Mark(Vec<Index>, Priority),
    Squeeze(Index, u8),
    Revert(Index),
    /// A later version's operation: moves a row to another place.
    Move(Index, Index),
    Tools(u8),
    Fork(Index),
}

fn priority() -> impl Strategy<Value = Priority> {
    use Priority::{Important, Normal, Pinned, Skip};
    prop::sample::select(vec![Skip, Skip, Skip, Normal, Important, Pinned])
}

fn act() -> impl Strategy<Value = (Step, bool)> {
    let index = any::<Index>;
    let act = prop_oneof![
        6 => (0u8..5, prop::option::of(0usize..3), prop::option::weighted(0.2, priority()))
            .prop_map(|(kind, joins, priority)| Step::Say(kind, joins, priority)),
        3 => index().prop_map(Step::Answer),
        2 => index().prop_map(Step::Edit),
        4 => (prop::collection::vec(index(), 1..4), priority()).prop_map(|(at, to)| Step::Mark(at, to)),
        1 => (index(), 1u8..4).prop_map(|(at, rows)| Step::Squeeze(at, rows)),
        2 => index().prop_map(Step::Revert),
        1 => (index(), index()).prop_map(|(at, key)| Step::Move(at, key)),
        1 => (0u8..4).prop_map(Step::Tools),
        1 => index().prop_map(Step::Fork),
    ];
    (act, prop::bool::weighted(0.25))
}

fn perform(history: &mut TestHistory, act: &Step, order: &mut Vec<CommitId>, n: usize) {
    let rows = history.rows();
    let before = history.head;
    match act {
        Step::Say(kind, joins, priority) => {
            let content = match kind {
                0 => Content::user(format!("user {n}")),
                1 => calling(vec![
                    Part::call(format!("c{n}"), "grep", "{}"),
                    Part::call(format!("d{n}"), "sed", "{}"),
                ]),
                2 => Content::Reasoning(tract_core::Body::text(format!("hm {n}"))),
                3 => Content::Note(JsonText::new("[1]").unwrap()),
                _ => Content::system(format!("rule {n}")),
            };
            let op = Op::Append { slot: None, answers: None, priority: *priority, retention: None };
            let (mut record, blobs) = history.saying(op, &content);
            record.joins = joins.and_then(|back| rows.iter().rev().nth(back)).map(|row| row.slot);
            if n.is_multiple_of(3) {
                record.generation_config = Some(JsonText::new(r#"{"model":"m"}"#).unwrap());
                record.form = Some("openai-chat-1".to_owned());
            }
            history.write(record, &blobs, &[], Snap::WhenDue);
        }
        Step::Answer(at) if !rows.is_empty() => {
            let call = CallRef { slot: at.get(&rows).slot, index: 0 };
            history.append_with(Content::tool_result("c", format!("out {n}")), Some(call), None);
        }
        Step::Edit(at) if !rows.is_empty() => {
            let row = *at.get(&rows);
            let kind = history.commits[&row.version].kind.clone().unwrap();
            let text = match kind {
                tract_core::Kind::ToolResult => Content::tool_result("c", format!("edit {n}")),
                tract_core::Kind::Note => return,
                kind => Content::from_blob(&kind, &format!("\"edit {n}\"")).unwrap(),
            };
            history.edit(row.slot, text);
        }
        Step::Mark(at, priority) if !rows.is_empty() => {
            let mut slots: Vec<CommitId> = at.iter().map(|at| at.get(&rows).slot).collect();
            slots.sort();
            slots.dedup();
            history.annotate(&slots, *priority);
        }
        Step::Squeeze(at, count) if !rows.is_empty() => {
            let start = at.index(rows.len());
            let slots: Vec<CommitId> =
                rows.iter().skip(start).take(usize::from(*count)).map(|row| row.slot).collect();
            history.compress(&slots, &format!("sum {n}"));
        }
        Step::Revert(at) if !order.is_empty() => drop(history.revert(*at.get(order))),
        Step::Move(at, key) if !rows.is_empty() => {
            let row = *at.get(&rows);
            let to = key.index(usize::try_from(history.view().next()).unwrap() + 1) as u64;
            let op = Op::Unknown {
                name: "shuffle".to_owned(),
                fields: JsonText::new(r#"{"why":"later"}"#).unwrap(),
            };
            let fields = row.fields();
            let slot = CommitRef::Id(row.slot);
            let moved = RowFields { key: to, ..fields };
            let changes =
                vec![Change::Remove { slot, row: fields }, Change::Add { slot, row: moved }];
            history.change(op, changes);
        }
        Step::Tools(0) => drop(history.tools(&[])),
        Step::Tools(count) => {
            let schema = format!(r#"{{"name":"t{count}"}}"#);
            history.tools(&[&schema, r#"{"name":"same"}"#]);
        }
        Step::Fork(at) if !order.is_empty() => history.head = Some(*at.get(order)),
        _ => {}
    }
    if history.head != before && !matches!(act, Step::Fork(_)) {
        order.extend(history.head);
    }
}

#[track_caller]
fn agree(history: &TestHistory, compiled: &Compiled) {
    let (rows, view_id) = expected(history, compiled.head());
    let found: Vec<_> = compiled.rows().collect();
    assert_eq!(found.len(), rows.len(), "rows that count");
    for ((row, message), expected) in found.into_iter().zip(&rows) {
        assert_eq!(*row, expected.row);
        let message = message.map(|message| common::oracle::ExpectedMessage {
            role: message.role.clone(),
            priority: message.priority,
            joins: message.joins,
            content: Blob::seal(message.content.to_blob().unwrap()).id(),
        });
        assert_eq!(message, expected.shown);
    }
    assert_eq!(compiled.view_id(), view_id);
    let counted: u64 = compiled.messages().map(|message| message.token_count).sum();
    let tools: u64 =
        compiled.tools().iter().map(|tool| tool.schema.chars().count().div_ceil(4) as u64).sum();
    let around = if compiled.message_count() > 0 { 3 } else { 0 };
    assert_eq!(compiled.token_count().count, counted + tools + around);
    assert_eq!(compiled.message_count(), compiled.messages().count());
}

/// A skipped call that a shown result answers counts for what is compiled. Its message joins the one before
/// it, so when that goes together with the result, the call is looked at for both reasons.
#[test]
fn a_call_that_leaves_the_context_with_the_row_before_it_is_in_the_next_snapshot() {
    let mut history = TestHistory::new();
    let first = history.user("Look it up.");
    let call = calling(vec![Part::call("c", "grep", "{}")]);
    let (mut record, blobs) = history.saying(Op::append(), &call);
    record.joins = Some(first);
    history.write(record, &blobs, &[], Snap::Never);
    let call = history.head.unwrap();
    history.annotate(&[call], Priority::Skip);
    let note = |history: &mut TestHistory| {
        let record = history.record(Op::Note);
        history.write(record, &[], &[], Snap::Always);
    };
    note(&mut history);
    let answers = Some(CallRef { slot: call, index: 0 });
    let result = history.append_with(Content::tool_result("c", "found".to_owned()), answers, None);
    // Since that snapshot it has another version.
    history.edit(call, calling(vec![Part::call("c", "grep", r#"{"in":"src"}"#)]));
    let removed = [result, first].map(|slot| {
        let row = history.row(slot).fields();
        Change::Remove { slot: CommitRef::Id(slot), row }
    });
    let name = "forget".to_owned();
    let fields = JsonText::new("{}").unwrap();
    history.change(Op::Unknown { name, fields }, removed.to_vec());
    history.user("And now?");
    note(&mut history);
    let folded = block_on(compiler(&history.store).fold(history.head)).unwrap();
    assert_eq!(folded.view(), history.view());
    assert_eq!(folded.view().get(call), Some(&history.row(call)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn warm_is_cold_is_from_snapshots_is_from_the_root(
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut history = TestHistory::new();
        let mut order = Vec::new();
        for (n, (act, snap)) in acts.iter().enumerate() {
            perform(&mut history, act, &mut order, n);
            if *snap && history.head.is_some() {
                // The snapshot belongs to a commit of its own, as the write path stores it.
                let mut record = history.record(Op::Note);
                record.message = Some(format!("note {n}"));
                history.write(record, &[], &[], Snap::Always);
                order.extend(history.head);
            }
            agree(&history, &history.compile());
        }
        let store = history.store.clone();
        let uncached = Compiler::with_cache(
            store.clone(), RepoName::default(), Arc::new(ApproxCounter), 0,
        );
        let one = compiler(&store);
        let warm: Vec<_> = order
            .iter()
            .map(|id| facts(&block_on(history.compiler.compile(Some(*id))).unwrap()))
            .collect();
        for (id, warm) in order.iter().zip(&warm) {
            let cold = history.cold(Some(*id));
            agree(&history, &cold);
            prop_assert_eq!(&facts(&cold), warm);
            prop_assert_eq!(&facts(&block_on(uncached.compile(Some(*id))).unwrap()), warm);
            prop_assert_eq!(&facts(&block_on(one.compile(Some(*id))).unwrap()), warm);
            let folded = block_on(compiler(&store).fold(Some(*id))).unwrap();
            prop_assert_eq!(folded.view(), &history.views[&Some(*id)]);
        }
        for id in snapshots(&history) {
            let check = block_on(compiler(&store).verify_snapshot(id)).unwrap();
            prop_assert_eq!(check, SnapshotCheck::Sound);
            // So it is when the line is folded once and all snapshots on it are compared on the way.
            let (uncached, repo) = (compiler(&store), RepoName::default());
            let mut chain = block_on(store.walk_all(&repo, id)).unwrap();
            chain.reverse();
            let mut folded = FoldedHistory::default();
            for commit in chain {
                folded = block_on(uncached.fold_onto(&folded, std::slice::from_ref(&commit))).unwrap();
                let ids = [commit.id()];
                let row = store.derived(&repo, DerivedKind::Snapshot, &ids);
                let Some(bytes) = block_on(row).unwrap().remove(0) else { continue };
                let check = block_on(uncached.check_snapshot(&mut folded, &bytes)).unwrap();
                prop_assert_eq!(check, SnapshotCheck::Sound);
            }
        }
        block_on(store.drop_derived(&RepoName::default())).unwrap();
        prop_assert_eq!(snapshots(&history).len(), 0);
        for (id, warm) in order.iter().zip(&warm) {
            prop_assert_eq!(&facts(&history.cold(Some(*id))), warm);
        }
    }

    #[test]
    fn fold_inverse_is_nothing(acts in prop::collection::vec(act(), 1..40)) {
        let mut history = TestHistory::new();
        history.warm = false;
        let mut order = Vec::new();
        for (n, (act, _)) in acts.iter().enumerate() {
            perform(&mut history, act, &mut order, n);
        }
        for id in &order {
            let commit = &history.commits[id];
            let Some(undo) = history.undoing(*id) else { continue };
            let before = &history.views[&commit.parent()];
            let after = &history.views[&Some(*id)];
            let mut record = history.record(Op::Revert { targets: vec![*id], cascade: false });
            record.parents = vec![*id];
            let revert = tract_core::Commit::seal(record).unwrap();
            let back = fold(after, &revert, &undo).unwrap();
            prop_assert!(back.rows().eq(before.rows()), "the rows are as they were");
            prop_assert_eq!(back.next(), after.next(), "`next` never falls");
            // A planted fault: every change, bent in one field, is refused.
            for (n, change) in undo.iter().enumerate() {
                let mut bent = undo.clone();
                bent[n] = bend(change);
                prop_assert!(fold(after, &revert, &bent).is_err(), "{:?} was taken", bent[n]);
            }
        }
    }
}

/// Changes what a change expects to find, or adds beyond the end.
fn bend(change: &Change) -> Change {
    let other = CommitRef::Id(CommitId::from_bytes([0xee; 32]));
    match *change {
        Change::Add { slot, row } => Change::Add { slot, row: RowFields { key: 1 << 60, ..row } },
        Change::Remove { slot, row } => {
            Change::Remove { slot, row: RowFields { version: other, ..row } }
        }
        Change::Version { slot, to, .. } => Change::Version { slot, from: other, to },
        Change::Mark { slot, to, .. } => Change::Mark { slot, from: Some(other), to },
    }
}

#[test]
fn the_view_before_the_first_commit_is_empty() {
    let history = TestHistory::new();
    let compiled = history.compile();
    assert_eq!(compiled.message_count(), 0);
    assert_eq!(compiled.token_count().count, 0);
    assert_eq!(history.folded().view(), &View::empty());
}
