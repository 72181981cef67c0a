//! Checks snapshots against the folded history of their commit.

use std::sync::Arc;

use bytes::Bytes;
use tract_core::{Commit, CommitId};

use crate::chain::{Chain, SeparateRows};
use crate::compiler::Compiler;
use crate::error::Result;
use crate::snapshot;
use crate::state::State;
use crate::view::View;

/// The result of checking a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotCheck {
    /// The commit has no snapshot.
    Absent,
    /// It matches the history folded from the root.
    Sound,
    /// It, or a snapshot that it builds on, is damaged.
    Damaged,
    /// It is intact but differs from the history.
    Wrong,
}

/// A history folded from its root, with the separate rows of the snapshots passed on the way.
///
/// Snapshots of one history are compared in commit order. Each comparison costs only the changes
/// since the previous snapshot, not the length of the history. A clone shares all structure.
#[derive(Clone, Debug, Default)]
pub struct FoldedHistory {
    state: Arc<State>,
    last: LastSnapshot,
}

/// The last compared snapshot of a history.
#[derive(Clone, Debug, Default)]
enum LastSnapshot {
    #[default]
    None,
    /// It cannot be read, and neither can snapshots that build on it.
    Unreadable(CommitId),
    Read(Arc<ReadSnapshot>),
}

#[derive(Debug)]
struct ReadSnapshot {
    commit: CommitId,
    /// Whether it matches the history. Then only rows changed since can differ.
    is_sound: bool,
    /// The whole view at its commit, as folded.
    view: View,
    /// The rows of its main part.
    main: View,
    apart: SeparateRows,
}

impl FoldedHistory {
    /// Returns the newest commit; `None` at the root.
    pub fn head(&self) -> Option<CommitId> {
        self.state.head
    }
}

impl Compiler {
    /// Folds commits onto a history, oldest first; each must continue the one before.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    pub async fn fold_onto(
        &self,
        history: &FoldedHistory,
        commits: &[Commit],
    ) -> Result<FoldedHistory> {
        let commits = commits.iter().map(|commit| (commit.clone(), None)).collect();
        self.folded_onto(history, Chain { base: history.state.clone(), commits }).await
    }

    async fn folded_onto(&self, history: &FoldedHistory, chain: Chain) -> Result<FoldedHistory> {
        let mut state =
            self.follow_whole(&chain, &crate::fetch::GivenObjects::default()).await?.waiting();
        // This state is never compiled or snapshotted, so both lists would only grow.
        state.unloaded = imbl::Vector::new();
        state.since.gone = imbl::OrdSet::new();
        Ok(FoldedHistory { state: Arc::new(state), last: history.last.clone() })
    }

    /// Compares the snapshot at the head of a history with that history, including separate rows.
    ///
    /// # Errors
    /// The store's, if a predecessor of the snapshot was not compared before and has to be read.
    pub async fn check_snapshot(
        &self,
        history: &mut FoldedHistory,
        bytes: &Bytes,
    ) -> Result<SnapshotCheck> {
        let Some(commit) = history.state.head else { return Ok(SnapshotCheck::Absent) };
        let (last, check) = self.compare(commit, history, bytes).await?;
        history.last = last;
        Ok(check)
    }

    async fn compare(
        &self,
        commit: CommitId,
        history: &FoldedHistory,
        bytes: &Bytes,
    ) -> Result<(LastSnapshot, SnapshotCheck)> {
        let unreadable = (LastSnapshot::Unreadable(commit), SnapshotCheck::Damaged);
        let Some(partial) = snapshot::decode(commit, bytes) else { return Ok(unreadable) };
        let (view, main) = (&history.state.view, partial.view.clone());
        let (apart, agree) = if partial.is_partial() {
            let Some(own) = snapshot::separate_rows(commit, bytes) else { return Ok(unreadable) };
            let known = match (&history.last, own.previous) {
                (_, None) => None,
                (LastSnapshot::Unreadable(last), Some(previous)) if *last == previous => {
                    return Ok(unreadable);
                }
                (LastSnapshot::Read(last), Some(previous)) if last.commit == previous => {
                    Some(Arc::clone(last))
                }
                _ => None,
            };
            let mut apart = match (&known, own.previous) {
                (Some(last), _) => last.apart.clone(),
                (None, None) => SeparateRows::default(),
                (None, Some(previous)) => match self.inner.separate_rows(previous, None).await? {
                    Some(rows) => rows,
                    None => return Ok(unreadable),
                },
            };
            let slots: Vec<CommitId> = own.rows.iter().map(|(slot, _)| *slot).collect();
            apart.extend(own.rows);
            let suspects: Vec<CommitId> = match known.filter(|last| last.is_sound) {
                // A row that has not changed and was in the separate part of the last snapshot
                // matched then, and still does.
                Some(last) => {
                    let held_there = last.main.rows().map(|row| row.slot);
                    slots
                        .into_iter()
                        .chain(view.changed_slots(&last.view))
                        .chain(held_there)
                        .collect()
                }
                None => view.rows().map(|row| row.slot).chain(apart.keys().copied()).collect(),
            };
            let own_rows = main.rows().map(|row| row.slot);
            let agree = agrees(view, &main, &apart, suspects.into_iter().chain(own_rows));
            (apart, agree)
        } else {
            (SeparateRows::default(), main == *view)
        };
        let is_sound = agree && same(&partial, &history.state);
        let read = ReadSnapshot { commit, is_sound, view: view.clone(), main, apart };
        let check = if is_sound { SnapshotCheck::Sound } else { SnapshotCheck::Wrong };
        Ok((LastSnapshot::Read(Arc::new(read)), check))
    }

    /// Folds the history of a commit from its root and compares it with the commit's snapshot,
    /// including separate rows. Linear in the history; to check several snapshots of one history,
    /// fold it once with [`fold_onto`](Self::fold_onto).
    ///
    /// # Errors
    /// As [`fold`](Self::fold). A history that does not fold is an error, not a wrong snapshot.
    pub async fn verify_snapshot(&self, commit: CommitId) -> Result<SnapshotCheck> {
        let Some(bytes) = self.inner.snapshot(commit).await? else {
            return Ok(SnapshotCheck::Absent);
        };
        let chain = self.inner.chain_from_root(commit).await?;
        let mut history = self.folded_onto(&FoldedHistory::default(), chain).await?;
        self.check_snapshot(&mut history, &bytes).await
    }
}

/// Returns whether these slots have the same row in a view as in a snapshot, either in its main
/// part or in the separate rows. `same` compares the facts of the main rows.
fn agrees(
    view: &View,
    main: &View,
    apart: &SeparateRows,
    slots: impl IntoIterator<Item = CommitId>,
) -> bool {
    slots.into_iter().all(|slot| match main.get(slot) {
        Some(row) => view.get(slot) == Some(row),
        None => view.get(slot) == apart.get(&slot).and_then(Option::as_ref),
    })
}

/// Compares two states in everything that affects compiling.
fn same(a: &State, b: &State) -> bool {
    let fact = |fact: &crate::RowFact| crate::RowFact { hint: None, ..fact.clone() };
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
mod cost;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tract_core::{ApproxCounter, DerivedKind, Op, Priority, RepoName, Store, block_on};
    use tract_kv::memory;
    use tract_testkit::fixtures::{batch, push, record, seal};

    use super::*;
    use crate::snapshot;

    /// Anyone who can write the store can make a checksum: only folding again finds the damage.
    #[test]
    fn a_snapshot_that_names_itself_as_the_one_before_is_passed_by() {
        let store: Arc<dyn Store> = Arc::new(memory());
        let repo = RepoName::default();
        let fresh = || Compiler::new(store.clone(), repo.clone(), Arc::new(ApproxCounter));
        let mut write = batch("append");
        let id = push(&mut write, None, "one").id();
        let _ = block_on(store.apply(&repo, write)).unwrap();
        let history = block_on(fresh().fold(Some(id))).unwrap();
        let mut forged = State::clone(&history.state);
        (forged.since.snapshot, forged.since.apart) = (Some(id), 1);
        let (row, _) = snapshot::take(&forged).unwrap();
        let mut write = batch("forge");
        write.derived = vec![row];
        let _ = block_on(store.apply(&repo, write)).unwrap();
        assert_eq!(block_on(fresh().fold(Some(id))).unwrap().view(), history.view());
        assert_ne!(block_on(fresh().verify_snapshot(id)).unwrap(), SnapshotCheck::Sound);
    }

    #[test]
    fn a_whole_snapshot_that_lies_is_named_wrong() {
        let store: Arc<dyn Store> = Arc::new(memory());
        let repo = RepoName::default();
        let fresh = || Compiler::new(store.clone(), repo.clone(), Arc::new(ApproxCounter));
        let mut first = batch("append");
        let commit = push(&mut first, None, "one");
        let _ = block_on(store.apply(&repo, first)).unwrap();
        let history = block_on(fresh().fold(Some(commit.id()))).unwrap();
        let lies: [fn(&mut State); 5] = [
            |state| state.commit_count = 7,
            |state| state.tools_set = true,
            |state| state.view = View::from_parts(state.view.rows().copied(), None, 9),
            |state| {
                let (place, entry) = state.context.iter().next().unwrap();
                let (place, mut entry) = (*place, entry.clone());
                let mut fact = crate::RowFact::clone(&entry.fact);
                fact.mark(Some(Priority::Pinned));
                entry.fact = Arc::new(fact);
                state.context.insert(place, entry);
            },
            |state| state.context = Default::default(),
        ];
        let put = |state: &State| {
            let mut batch = batch("snapshot");
            batch.derived.extend(snapshot::take(state).map(|(row, _)| row));
            let _ = block_on(store.apply(&repo, batch)).unwrap();
            block_on(fresh().verify_snapshot(commit.id())).unwrap()
        };
        assert_eq!(block_on(fresh().verify_snapshot(commit.id())).unwrap(), SnapshotCheck::Absent);
        assert_eq!(put(&history.state), SnapshotCheck::Sound);
        for (n, lie) in lies.iter().enumerate() {
            let mut state = State::clone(&history.state);
            lie(&mut state);
            assert_eq!(put(&state), SnapshotCheck::Wrong, "lie {n}");
        }
    }

    /// Reads of separate rows only look up single slots, so each snapshot compares all of its own.
    #[test]
    fn wrong_separate_rows_are_named_by_every_snapshot_that_builds_on_them() {
        let store: Arc<dyn Store> = Arc::new(memory());
        let repo = RepoName::default();
        let compiler = Compiler::new(store.clone(), repo.clone(), Arc::new(ApproxCounter));
        let (mut history, mut commits) = (block_on(compiler.fold(None)).unwrap(), Vec::new());
        for n in 0..6u8 {
            let (mut record, blob) = record(history.head(), &n.to_string());
            let priority = (n % 2 == 0).then_some(Priority::Skip);
            record.op = Op::Append { slot: None, answers: None, priority, retention: None };
            let commit = seal(record);
            let mut write = batch("append");
            (write.blobs, write.commits) = (vec![blob], vec![commit.clone()]);
            history = block_on(compiler.advance(&history, &write.commits, &write.blobs)).unwrap();
            // Every commit has a snapshot; the third of them lies about a row that it holds apart.
            let (row, after) = match n {
                2 => {
                    let mut lying = State::clone(&history.state);
                    lying.view.remove_row(commits[0]);
                    lying.since.gone.insert(commits[0]);
                    let (row, _) = snapshot::take(&lying).unwrap();
                    (row, snapshot::take(&history.state).unwrap().1)
                }
                _ => snapshot::take(&history.state).unwrap(),
            };
            history.state = Arc::new(after);
            write.derived = vec![row];
            let _ = block_on(store.apply(&repo, write)).unwrap();
            commits.push(commit.id());
        }
        let chain = block_on(store.commits(&repo, &commits)).unwrap();
        let mut folded = FoldedHistory::default();
        let mut found = Vec::new();
        for commit in chain.into_iter().flatten() {
            folded = block_on(compiler.fold_onto(&folded, std::slice::from_ref(&commit))).unwrap();
            let ids = [commit.id()];
            let row = store.derived(&repo, DerivedKind::Snapshot, &ids);
            let bytes = block_on(row).unwrap().remove(0).unwrap();
            let along = block_on(compiler.check_snapshot(&mut folded, &bytes)).unwrap();
            let alone = block_on(compiler.verify_snapshot(commit.id())).unwrap();
            assert_eq!(along, alone, "{} commits", found.len() + 1);
            found.push(along);
        }
        let (sound, wrong) = (SnapshotCheck::Sound, SnapshotCheck::Wrong);
        // Those that build on it hold the same lie.
        assert_eq!(found, [sound, sound, wrong, wrong, wrong, wrong]);
    }
}
