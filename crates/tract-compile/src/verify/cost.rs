//! The cost of checking a large summary and its revert is linear, not quadratic.

use std::sync::Arc;

use tract_core::commit::MAX_INLINE_CHANGES;
use tract_core::{
    ApproxCounter, AuthorKind, Blob, CallRef, Change, Changes, Commit, CommitId, CommitRecord,
    CommitRef, Kind, Op, RepoName, RowFields, Store, block_on,
};
use tract_kv::memory;
use tract_testkit::{fixtures, visits};

use super::{FoldedHistory, SnapshotCheck};
use crate::compiler::Compiler;
use crate::fold::{fold, inverse, resolved};
use crate::shape::{Changed, shape};
use crate::snapshot;
use crate::view::View;

/// Commits in order, each with its changes.
#[derive(Default)]
struct GeneratedHistory {
    commits: Vec<(Commit, Vec<Change>)>,
    blobs: Vec<Blob>,
}

impl GeneratedHistory {
    fn add(&mut self, op: Op, kind: Option<Kind>, changes: Vec<Change>) -> CommitId {
        let mut record = CommitRecord::new(op, AuthorKind::User);
        record.parents.extend(self.commits.last().map(|(commit, _)| commit.id()));
        if let Some(kind) = kind {
            let blob = Blob::seal(format!("{{\"text\":\"{}\"}}", self.commits.len()));
            (record.content, record.kind) = (Some(blob.id()), Some(kind));
            self.blobs.push(blob);
        }
        record.changes = if changes.len() > MAX_INLINE_CHANGES {
            let blob = Blob::seal(Changes::to_blob(&changes));
            let id = blob.id();
            self.blobs.push(blob);
            Changes::Blob(id)
        } else {
            Changes::List(changes.clone())
        };
        let commit = Commit::seal(record).unwrap();
        let id = commit.id();
        self.commits.push((commit, changes));
        id
    }

    fn append(&mut self, kind: Kind, answers: Option<CallRef>) -> CommitId {
        let op = Op::Append { slot: None, answers, priority: None, retention: None };
        self.add(op, Some(kind), Vec::new())
    }

    fn view(&self) -> View {
        let folded = |view: View, (commit, changes): &(Commit, Vec<Change>)| {
            fold(&view, commit, changes).unwrap()
        };
        self.commits.iter().fold(View::empty(), folded)
    }

    /// Replaces all rows with a summary, and reverts that.
    fn compress_and_revert(&mut self) {
        let view = self.view();
        let removed =
            |row: &crate::Row| Change::Remove { slot: row.slot.into(), row: row.fields() };
        let mut changes: Vec<Change> = view.rows().map(removed).collect();
        let (key, version) = (view.next(), CommitRef::This);
        let row = RowFields { key, version, mark: None, answers: None };
        changes.push(Change::Add { slot: CommitRef::This, row });
        let targets = view.rows().map(|row| row.version).collect();
        let summary = self.add(Op::Compress { targets }, Some(Kind::Assistant), changes.clone());
        let undone = changes.iter().rev().map(|change| inverse(&resolved(change, summary)));
        let undone = undone.collect();
        self.add(Op::Revert { targets: vec![summary], cascade: false }, None, undone);
    }

    /// Returns the number of visits of a complete check: the shape of each commit, the view, the
    /// history, and the snapshots before the summary, at it and at its revert.
    fn visits_of_verify(&self) -> usize {
        let store: Arc<dyn Store> = Arc::new(memory());
        let repo = RepoName::default();
        let mut batch = fixtures::batch("append");
        batch.blobs = self.blobs.clone();
        batch.commits = self.commits.iter().map(|(commit, _)| commit.clone()).collect();
        let _ = block_on(store.apply(&repo, batch)).unwrap();

        let compiler = Compiler::with_cache(store, repo, Arc::new(ApproxCounter), 0);
        visits::take();
        let (mut view, mut history) = (View::empty(), FoldedHistory::default());
        let compared = self.commits.len() - 3;
        for (place, (commit, changes)) in self.commits.iter().enumerate() {
            let target = match &commit.op {
                Op::Revert { targets, .. } => {
                    self.commits.iter().rev().find(|(target, _)| targets.contains(&target.id()))
                }
                _ => None,
            };
            let targets = target.map(|(commit, changes)| Changed { commit, changes });
            shape(Changed { commit, changes }, targets.as_slice()).unwrap();
            view = fold(&view, commit, changes).unwrap();
            history = block_on(compiler.fold_onto(&history, std::slice::from_ref(commit))).unwrap();
            if place >= compared {
                let (row, _) = snapshot::take(&history.state).unwrap();
                let check = block_on(compiler.check_snapshot(&mut history, &row.bytes)).unwrap();
                assert_eq!(check, SnapshotCheck::Sound);
            }
        }
        assert_eq!(view, history.state.view);
        visits::take()
    }
}

/// Quadruples the size. A quadratic cost would be sixteen times as large.
#[track_caller]
fn is_near_linear(made: impl Fn(usize) -> GeneratedHistory) {
    let size = 1_000;
    let [small, large] = [size, 4 * size].map(|size| {
        let mut made = made(size);
        made.compress_and_revert();
        made.visits_of_verify()
    });
    assert!(small > size, "{small} for {size}: nothing is counted");
    assert!(large < 8 * small, "{small} for {size}, {large} for {}", 4 * size);
}

#[test]
fn checking_the_revert_of_a_large_summary_looks_at_each_message_a_few_times() {
    is_near_linear(|size| {
        let mut made = GeneratedHistory::default();
        for _ in 0..size {
            made.append(Kind::User, None);
        }
        made
    });
}

#[test]
fn checking_the_revert_of_a_summary_of_many_answers_looks_at_each_a_few_times() {
    is_near_linear(|size| {
        let mut made = GeneratedHistory::default();
        let slot = made.append(Kind::Assistant, None);
        for index in 0..size as u32 {
            made.append(Kind::ToolResult, Some(CallRef { slot, index }));
        }
        made
    });
}
