//! Named cases of the model that live at this level.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::sync::Arc;

use common::counting::Counts;
use common::{Snap, TestHistory, calling, compiler, facts, snapshots, toolset};
use tract_compile::{CompileError, SnapshotCheck};
use tract_core::{
    Batch, Blob, CallRef, Change, Changes, Commit, CommitId, CommitRecord, CommitRef, Content,
    DerivedKind, JsonText, Op, Part, Priority, RepoName, RowFields, Store, block_on,
};
use tract_testkit::WatchedStore;
use tract_testkit::fixtures::{batch, deriving, row};

#[test]
fn revert_head_restores() {
    let mut history = TestHistory::new();
    let a = history.user("one");
    history.tools(&[r#"{"name":"grep"}"#]);
    let b = history.user("two");
    let before = history.compile();
    let steps: [fn(&mut TestHistory, CommitId, CommitId) -> CommitId; 4] = [
        |history, a, _| history.edit(a, Content::user("one, edited")),
        |history, a, b| history.annotate(&[a, b], Priority::Skip),
        |history, a, b| history.compress(&[a, b], "both"),
        |history, _, _| history.tools(&[]),
    ];
    for step in steps {
        let done = step(&mut history, a, b);
        assert_ne!(history.compile().view_id(), before.view_id());
        let revert = history.revert(done).expect("the head can be reverted");
        assert_eq!(history.compile().view_id(), before.view_id());
        assert_eq!(facts(&history.cold(Some(revert))).rows, facts(&before).rows);
    }
}

#[test]
fn revert_of_revert_restores() {
    let mut history = TestHistory::new();
    let a = history.user("one");
    let b = history.user("two");
    let summary = history.compress(&[a, b], "both");
    let before = facts(&history.compile());
    let revert = history.revert(summary).unwrap();
    history.revert(revert).unwrap();
    let after = facts(&history.compile());
    assert_eq!((after.rows, after.view_id), (before.rows, before.view_id));
}

/// 3,000 plain appends: the rule never asks, however often it is asked.
#[test]
fn append_only_history_writes_no_snapshot() {
    let mut history = TestHistory::new();
    for n in 0..3000 {
        history.user(&format!("message {n}"));
    }
    assert_eq!(snapshots(&history), []);
    assert_eq!(history.folded().since_snapshot(), 3000);
}

/// A window of 50 messages over 4,000: what a cold compile reads and what snapshots take stays
/// bounded, and the rows of old are there when asked for.
#[test]
fn skip_trimmed_history_is_bounded() {
    const WINDOW: usize = 50;
    let counting = Arc::new(WatchedStore::new(Arc::new(tract_kv::memory()), Counts::default()));
    let mut history = TestHistory::over(counting.clone());
    let mut slots = Vec::new();
    for n in 0..4000 {
        slots.push(history.user(&format!("message {n} of a conversation that is very long")));
        if n >= WINDOW {
            history.annotate(&[slots[n - WINDOW]], Priority::Skip);
        }
    }
    let repo = RepoName::default();
    counting.watch().reset();
    let cold = history.cold(history.head);
    assert_eq!(cold.message_count(), WINDOW);
    let commits = Counts::count(&counting.watch().commits);
    assert!(commits <= 256 + 2 * WINDOW as u64 + 64, "{commits} commits read");
    assert_eq!(Counts::count(&counting.watch().blobs), WINDOW as u64);
    assert_eq!(Counts::count(&counting.watch().derived), 1);
    assert_eq!(facts(&cold), facts(&history.compile()));

    let stats = block_on(history.store.stats(&repo)).unwrap();
    let stored = stats.blob_bytes + stats.commit_bytes;
    let per_commit = stats.derived_bytes / history.commits.len() as u64;
    assert!(per_commit <= 60, "{per_commit} B of snapshots a commit, {stored} B of objects");

    // A message skipped long ago comes back: the rows held apart are read, all of them.
    let fresh = compiler(&history.store);
    let folded = block_on(fresh.fold(history.head)).unwrap();
    assert_eq!(folded.view(), history.view());
    assert_eq!(folded.view().len(), 4000);
    history.annotate(&[slots[7]], Priority::Normal);
    let back = history.cold(history.head);
    assert_eq!(back.messages().next().unwrap().slot, slots[7]);
    assert_eq!(facts(&back), facts(&history.compile()));
    for id in snapshots(&history) {
        assert_eq!(block_on(fresh.verify_snapshot(id)).unwrap(), SnapshotCheck::Sound);
    }
}

#[test]
fn compile_after_an_append_reads_nothing() {
    let counting = Arc::new(WatchedStore::new(Arc::new(tract_kv::memory()), Counts::default()));
    let mut history = TestHistory::over(counting.clone());
    history.tools(&[r#"{"name":"grep"}"#]);
    let first = history.user("one");
    history.compile();
    counting.watch().reset();
    history.user("two");
    history.edit(first, Content::user("uno"));
    history.tools(&[r#"{"name":"sed"}"#]);
    let compiled = history.compile();
    assert_eq!(Counts::count(&counting.watch().calls), 0);
    assert_eq!(history.texts(), ["uno", "two"]);
    assert_eq!(compiled.tools()[0].name, "sed");
}

#[test]
fn clock_backwards_time_travel() {
    let mut history = TestHistory::new();
    let mut ids = Vec::new();
    // Times of commits from the root; `None` counts as the parent's, 0 at a root.
    for at in [None, Some(50), None, Some(10), Some(90), None, Some(40)] {
        let (mut record, blobs) =
            history.saying(Op::append(), &Content::user(format!("at {at:?} {}", ids.len())));
        record.created_at = at;
        ids.push(history.write(record, &blobs, &[], Snap::WhenDue));
    }
    let check = |at: i64, expected: Option<usize>| {
        let found = block_on(history.compiler.view_at_time(history.head, at)).unwrap();
        assert_eq!(found, expected.map(|n| ids[n]), "at {at}");
    };
    check(1000, Some(6));
    check(40, Some(6));
    check(39, Some(3));
    check(10, Some(3));
    check(9, Some(0));
    check(0, Some(0));
    check(-1, None);
    let found = block_on(history.compiler.view_at_time(Some(ids[5]), 90)).unwrap();
    assert_eq!(found, Some(ids[5]), "a commit without a time has its parent's");
    let found = block_on(history.compiler.view_at_time(Some(ids[5]), 60)).unwrap();
    assert_eq!(found, Some(ids[3]));
    assert_eq!(block_on(history.compiler.view_at_time(None, 60)).unwrap(), None);
}

#[test]
fn time_travel_gives_priorities_and_tools_as_they_were() {
    let mut history = TestHistory::new();
    history.tools(&[r#"{"name":"old"}"#]);
    let slot = history.user("one");
    let before = history.head;
    history.annotate(&[slot], Priority::Skip);
    history.tools(&[r#"{"name":"new"}"#, r#"{"name":"new"}"#]);
    let now = history.compile();
    assert_eq!((now.message_count(), now.tools().len()), (0, 2));
    let then = block_on(history.compiler.compile(before)).unwrap();
    assert_eq!((then.message_count(), then.tools()[0].name.as_str()), (1, "old"));
    history.tools(&[]);
    assert!(history.compile().tools().is_empty());
    assert!(history.compile().toolset().is_some(), "none now is not never any");
}

#[test]
fn custom_kind_without_registry() {
    let mut history = TestHistory::new();
    let content =
        Content::Custom { kind: "weather".to_owned(), body: tract_core::Body::text("rain") };
    let (mut record, blobs) = history.saying(Op::append(), &content);
    record.role = Some(tract_core::Role::User);
    history.write(record, &blobs, &[], Snap::Always);
    for compiled in [history.compile(), history.cold(history.head)] {
        let message = compiled.messages().next().unwrap();
        assert_eq!((&message.content, message.role.as_str()), (&content, "user"));
        assert_eq!(message.priority, Priority::Normal);
    }
}

#[test]
fn unknown_op_folds() {
    let mut history = TestHistory::new();
    let a = history.user("one");
    let b = history.user("two");
    let fields = JsonText::new(r#"{"how":"backwards","priority":"pinned"}"#).unwrap();
    let op = Op::Unknown { name: "reorder".to_owned(), fields };
    let row = history.row(a).fields();
    let moved = RowFields { key: 2, mark: Some(CommitRef::This), ..row };
    let slot = CommitRef::Id(a);
    let head =
        history.change(op, vec![Change::Remove { slot, row }, Change::Add { slot, row: moved }]);
    assert_eq!(history.texts(), ["two", "one"]);
    assert_eq!(facts(&history.cold(Some(head))), facts(&history.compile()));
    // What it asked means nothing here, so its mark states nothing.
    assert_eq!(history.compile().message(a).unwrap().priority, Priority::Normal);
    assert_eq!(history.compile().messages().next().unwrap().slot, b);
}

#[test]
fn a_version_without_content_is_a_typed_error() {
    let mut history = TestHistory::new();
    let a = history.user("one");
    let op = Op::Unknown { name: "odd".to_owned(), fields: JsonText::new("{}").unwrap() };
    let change =
        Change::Version { slot: CommitRef::Id(a), from: CommitRef::Id(a), to: CommitRef::This };
    history.change(op, vec![change]);
    assert_eq!(history.compile().message_count(), 0, "what has no kind is skipped");
    history.annotate(&[a], Priority::Pinned);
    let refused = block_on(history.compiler.compile(history.head)).unwrap_err();
    assert!(matches!(refused, CompileError::NoContent { slot, .. } if slot == a), "{refused}");
    assert_eq!(refused.notes().len(), 1);
    assert!(block_on(history.compiler.fold(history.head)).is_ok(), "the line can continue");
}

#[test]
fn edit_drops_verbatim() {
    let mut history = TestHistory::new();
    let (mut record, mut blobs) = history.saying(Op::append(), &Content::user("one"));
    let raw = Blob::seal(r#"{ "role": "user", "content": "one" }"#);
    record.verbatim = Some(raw.id());
    record.form = Some("openai-chat-1".to_owned());
    blobs.push(raw.clone());
    let slot = history.write(record, &blobs, &[], Snap::Always);
    for compiled in [history.compile(), history.cold(history.head)] {
        let message = compiled.messages().next().unwrap();
        assert_eq!(message.verbatim.as_ref(), Some(&raw));
        assert_eq!(message.form.as_deref(), Some("openai-chat-1"));
    }
    history.edit(slot, Content::user("uno"));
    assert_eq!(history.compile().messages().next().unwrap().verbatim, None);
}

#[test]
fn results_of_one_message_rejoin_only_while_they_touch() {
    let mut history = TestHistory::new();
    let calls = vec![Part::call("a", "f", "{}"), Part::call("b", "f", "{}")];
    let call = history.append(calling(calls));
    let answers = |index| CallRef { slot: call, index };
    let first = history.append_with(Content::tool_result("a", "1"), Some(answers(0)), None);
    let op = Op::Append { slot: None, answers: Some(answers(1)), priority: None, retention: None };
    let (mut record, blobs) = history.saying(op, &Content::tool_result("b", "2"));
    record.joins = Some(first);
    let second = history.write(record, &blobs, &[], Snap::Always);
    let joins = |history: &TestHistory| {
        let found = history.compile().message(second).unwrap().joins;
        assert_eq!(history.cold(history.head).message(second).unwrap().joins, found);
        found
    };
    assert_eq!(joins(&history), Some(first));
    history.edit(second, Content::tool_result("b", "two"));
    assert_eq!(joins(&history), Some(first), "an edit copies it");
    let summary = history.compress(&[first], "one result");
    assert_eq!(joins(&history), None, "another row precedes it");
    history.revert(summary).unwrap();
    assert_eq!(joins(&history), Some(first));
}

#[test]
fn log_op_and_changes_agree() {
    use tract_compile::{Changed, shape};
    let mut history = TestHistory::new();
    let a = history.user("one");
    let edit = history.edit(a, Content::user("uno"));
    let target = history.commits[&edit].clone();
    let slot = CommitRef::Id(a);
    let version = Change::Version { slot, from: CommitRef::Id(a), to: CommitRef::This };
    let mark = Change::Mark { slot, from: None, to: Some(CommitRef::This) };
    let remove = Change::Remove { slot, row: history.row(a).fields() };
    let undo = Change::Version { slot, from: CommitRef::Id(edit), to: CommitRef::Id(a) };
    let summary = RowFields { key: 0, version: CommitRef::This, mark: None, answers: None };
    let add = Change::Add { slot: CommitRef::This, row: summary };
    let annotate =
        Op::Annotate { targets: vec![a], priority: Priority::Skip, reason: None, retention: None };
    let compress = Op::Compress { targets: vec![a] };
    let revert = Op::Revert { targets: vec![edit], cascade: false };
    let check = |op: &Op, changes: &[Change], good: bool| {
        let mut record = history.record(op.clone());
        record.changes = Changes::List(changes.to_vec());
        let commit = Commit::seal(record).unwrap();
        let Changes::List(list) = &target.changes else { unreachable!("one change") };
        let targets = [Changed { commit: &target, changes: list }];
        let found = shape(Changed { commit: &commit, changes }, &targets);
        assert_eq!(found.is_ok(), good, "{} {changes:?}: {found:?}", op.name());
    };
    let edits = Op::Edit { target: a };
    for (op, good) in [
        (&Op::append(), &[][..]),
        (&Op::Note, &[]),
        (&Op::Tools, &[]),
        (&edits, &[version]),
        (&annotate, &[mark]),
        (&compress, &[remove, add]),
        (&revert, &[undo]),
    ] {
        check(op, good, true);
        for bad in [version, mark, remove, add, undo] {
            if !good.contains(&bad) {
                check(op, &[good, &[bad]].concat(), false);
            }
        }
    }
    for op in [&edits, &annotate, &compress] {
        check(op, &[], false);
    }
    check(&compress, &[remove], false);
    check(&compress, &[add], false);
}

#[test]
fn a_commit_that_does_not_fit_is_an_error_and_no_partial_view() {
    let mut history = TestHistory::new();
    let a = history.user("one");
    let good = history.head;
    let change =
        Change::Version { slot: CommitRef::Id(a), from: CommitRef::This, to: CommitRef::This };
    let (mut record, blobs) = history.saying(Op::Edit { target: a }, &Content::user("x"));
    record.changes = Changes::List(vec![change]);
    let commit = Commit::seal(record).unwrap();
    let folded = history.folded();
    let refused =
        block_on(history.compiler.advance(&folded, std::slice::from_ref(&commit), &blobs));
    assert!(matches!(refused, Err(CompileError::Change(_))), "{refused:?}");
    let write = Batch { blobs, commits: vec![commit.clone()], ..batch("test") };
    let _ = block_on(history.store.apply(&RepoName::default(), write)).unwrap();
    let refused = block_on(history.compiler.compile(Some(commit.id()))).unwrap_err();
    assert!(matches!(&refused, CompileError::Change(change) if change.commit == commit.id()));
    assert_eq!(facts(&history.cold(good)), facts(&history.compile()));
}

#[test]
fn a_damaged_snapshot_is_passed_by_and_named() {
    let mut history = TestHistory::new();
    let mut last = None;
    for n in 0..6 {
        history.user(&format!("message {n}"));
        let slot = history.user("to be skipped");
        history.annotate(&[slot], Priority::Skip);
        let record = history.record(Op::Note);
        last = Some(history.write(record, &[], &[], Snap::Always));
    }
    let id = last.expect("six snapshots");
    history.user("after");
    let (repo, kind) = (RepoName::default(), DerivedKind::Snapshot);
    let good = block_on(history.store.derived(&repo, kind, &[id])).unwrap().remove(0).unwrap();
    let expected = facts(&history.cold(history.head));
    let put = |commit: CommitId, bytes: Vec<u8>| {
        let write = deriving([row(kind, commit, bytes)]);
        let _ = block_on(history.store.apply(&repo, write)).unwrap();
    };
    let check = |expect: SnapshotCheck| {
        let fresh = compiler(&history.store);
        assert_eq!(facts(&block_on(fresh.compile(history.head)).unwrap()), expected);
        assert_eq!(block_on(fresh.fold(history.head)).unwrap().view(), history.view());
        assert_eq!(block_on(fresh.verify_snapshot(id)).unwrap(), expect);
    };
    check(SnapshotCheck::Sound);
    for at in 0..good.len() {
        let mut bytes = good.to_vec();
        bytes[at] ^= 1 << (at % 8);
        put(id, bytes);
        check(SnapshotCheck::Damaged);
    }
    put(id, good[..good.len() / 2].to_vec());
    check(SnapshotCheck::Damaged);
    put(id, Vec::new());
    check(SnapshotCheck::Damaged);
    put(id, good.to_vec());
    check(SnapshotCheck::Sound);
    // The one before is damaged: what counts is still right, and so are the rows held apart.
    let before = *snapshots(&history).iter().find(|other| **other != id).unwrap();
    put(before, vec![1, 2, 3]);
    check(SnapshotCheck::Damaged);
}

#[test]
fn a_missing_content_names_the_commit() {
    let history = TestHistory::new();
    let content = Content::user("never stored");
    let (record, blobs) = history.saying(Op::append(), &content);
    // Compiles a commit of which the compiler has the line, and no object.
    let refused = |record: CommitRecord| {
        let commit = Commit::seal(record).unwrap();
        let commits = std::slice::from_ref(&commit);
        let folded = block_on(history.compiler.advance(&history.folded(), commits, &[])).unwrap();
        history.compiler.remember(&folded);
        let refused = block_on(history.compiler.compile(Some(commit.id()))).unwrap_err();
        (commit.id(), refused)
    };
    let (id, missing) = refused(record);
    assert!(matches!(&missing, CompileError::Missing { commit: by, .. } if *by == id), "{missing}");
    history.compiler.remember_objects(&[], &blobs, &[]);
    assert_eq!(block_on(history.compiler.compile(Some(id))).unwrap().message_count(), 1);
    let (set, _) = toolset(&[r#"{"name":"f"}"#]);
    let mut record = history.record(Op::Tools);
    record.toolset = Some(set.id());
    let (_, missing) = refused(record);
    assert!(matches!(missing, CompileError::MissingTool { .. }), "{missing}");
}

#[test]
fn more_than_64_changes_are_in_a_blob() {
    let mut history = TestHistory::new();
    let slots: Vec<CommitId> = (0..100).map(|n| history.user(&format!("m {n}"))).collect();
    let head = history.annotate(&slots, Priority::Skip);
    assert!(matches!(history.commits[&head].changes, Changes::Blob(_)));
    for compiled in [history.compile(), history.cold(history.head)] {
        assert_eq!((compiled.message_count(), compiled.rows().count()), (0, 0));
    }
    assert_eq!(history.folded().view().len(), 100);
}
