//! Whether a snapshot says what its commit's line says.

use tract_core::{CommitId, DerivedKind};

use crate::compiler::Compiler;
use crate::error::{CompileError, Result};
use crate::ids::IdMap;
use crate::state::{State, Stop};

/// What became of a snapshot that was looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotCheck {
    /// There is none at this commit.
    Absent,
    /// It says what the line says, folded from its root.
    Sound,
    /// Its bytes are damaged, or those of a snapshot that it builds on.
    Damaged,
    /// It is whole but says something else.
    Wrong,
}

impl Compiler {
    /// Folds a commit's line from its root and compares it with the snapshot there, rows held
    /// apart included. Linear in the history.
    ///
    /// # Errors
    /// As [`line`](Self::line): a line that does not fold is not the snapshot's fault.
    pub async fn verify_snapshot(&self, commit: CommitId) -> Result<SnapshotCheck> {
        let kind = DerivedKind::Snapshot;
        let found = self.store().derived(self.repo(), kind, &[commit]).await?;
        let Some(bytes) = found.into_iter().flatten().next() else {
            return Ok(SnapshotCheck::Absent);
        };
        let partial = self.read_snapshot(commit, &bytes, false).await?;
        let whole = self.read_snapshot(commit, &bytes, true).await?;
        let (Some(partial), Some(whole)) = (partial, whole) else {
            return Ok(SnapshotCheck::Damaged);
        };
        let folded = self.folded(commit).await?;
        let sound = same(&partial, &folded) && same(&whole, &folded) && whole.view == folded.view;
        Ok(if sound { SnapshotCheck::Sound } else { SnapshotCheck::Wrong })
    }

    async fn folded(&self, commit: CommitId) -> Result<State> {
        let chain = self.chain_from_root(commit).await?;
        match self.follow(&chain, &IdMap::default()).await? {
            Ok(reached) => Ok(reached.waiting()),
            Err(Stop::Invalid(invalid)) => Err(CompileError::Change(invalid)),
            Err(Stop::Partial) => unreachable!("a state that begins at the root is whole"),
        }
    }
}

/// Compares all that counts for what is compiled.
fn same(a: &State, b: &State) -> bool {
    let fact = |fact: &crate::Fact| crate::Fact { hint: None, ..fact.clone() };
    a.head == b.head
        && a.commit_count == b.commit_count
        && a.tools_set == b.tools_set
        && a.view.tools() == b.view.tools()
        && a.view.next() == b.view.next()
        && a.shown_count == b.shown_count
        && a.context.len() == b.context.len()
        && a.context.iter().zip(b.context.iter()).all(|((_, a), (_, b))| {
            let shown = a.fact.is_shown() || b.fact.is_shown();
            a.row == b.row && (!shown || fact(&a.fact) == fact(&b.fact))
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tract_core::{
        ApproxCounter, Batch, BatchId, Blob, By, Commit, CommitRecord, Content, LogNote, Op,
        OperationId, Priority, RepoName, Store, block_on, memory,
    };

    use super::*;
    use crate::snapshot;

    /// Whoever can write the store can make a checksum: only folding again tells.
    #[test]
    fn a_whole_snapshot_that_lies_is_named_wrong() {
        let store: Arc<dyn Store> = Arc::new(memory());
        let repo = RepoName::default();
        let blob = Blob::seal(Content::user("one").to_blob().unwrap());
        let mut record = CommitRecord::new(Op::append(), By::User);
        (record.content, record.kind) = (Some(blob.id()), Some(tract_core::Kind::User));
        let commit = Commit::seal(record).unwrap();
        let fresh = || Compiler::new(store.clone(), repo.clone(), Arc::new(ApproxCounter));
        let batch = |number: u8| {
            let note = LogNote {
                operation: OperationId::from_bytes([number; 16]),
                what: String::new(),
                who: String::new(),
                why: None,
                undoes: None,
                at: 0,
            };
            Batch::new(BatchId::from_bytes([number; 16]), note)
        };
        let mut first = batch(1);
        (first.blobs, first.commits) = (vec![blob], vec![commit.clone()]);
        let _ = block_on(store.apply(&repo, first)).unwrap();
        let line = block_on(fresh().line(Some(commit.id()))).unwrap();
        let lies: [fn(&mut State); 5] = [
            |state| state.commit_count = 7,
            |state| state.tools_set = true,
            |state| state.view = state.view.clone_with_next(9),
            |state| {
                let (place, entry) = state.context.iter().next().unwrap();
                let (place, mut entry) = (*place, entry.clone());
                let mut fact = crate::Fact::clone(&entry.fact);
                fact.mark(Some(Priority::Pinned));
                entry.fact = Arc::new(fact);
                state.context.insert(place, entry);
            },
            |state| state.context = Default::default(),
        ];
        let put = |number: u8, state: &State| {
            let mut batch = batch(number);
            batch.derived.extend(snapshot::take(state).map(|(row, _)| row));
            let _ = block_on(store.apply(&repo, batch)).unwrap();
            block_on(fresh().verify_snapshot(commit.id())).unwrap()
        };
        assert_eq!(block_on(fresh().verify_snapshot(commit.id())).unwrap(), SnapshotCheck::Absent);
        assert_eq!(put(2, &line.state), SnapshotCheck::Sound);
        for (n, lie) in lies.iter().enumerate() {
            let mut state = State::clone(&line.state);
            lie(&mut state);
            assert_eq!(put(3 + n as u8, &state), SnapshotCheck::Wrong, "lie {n}");
        }
    }
}
