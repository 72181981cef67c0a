//! Undo and redo: moving refs back and forth along the ref log, one operation at a time.
//!
//! An undo reverts all moves of one operation, or none. The moves of the operation have to join
//! on every ref, and end where the ref is now; where they do not, another operation came between,
//! and the undo is refused with its name. The entries of an undo name an entry of the operation
//! that it reverts; the next undo continues before that one, and a redo reverts the undo.

mod history;

use std::collections::BTreeMap;

use tract_core::{Applied, CommitId, LogEntry, OperationId, RefName, RefTarget};

use self::history::{History, RefMoves, Segment, is_undo, refs_of};
use crate::repo::Repo;
use crate::repo::error::{Error, Result, UndoConflict};
use crate::repo::operation::Operation;
use crate::write::txn::{Txn, WriteOptions};

/// A ref that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefMove {
    /// The ref.
    pub name: RefName,
    /// Where it pointed; `None` when there was none.
    pub before: Option<RefTarget>,
    /// Where it points; `None` when it is gone.
    pub after: Option<RefTarget>,
}

/// What was undone or redone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UndoReport {
    /// The verb of the operation that was undone, or redone.
    pub what: String,
    /// The operation.
    pub operation: OperationId,
    /// What moved, sorted by name.
    pub moves: Vec<RefMove>,
}

/// The verbs in the ref log.
const UNDO: &str = "undo";
const REDO: &str = "redo";

impl Repo {
    /// Reverts the last operation that moved this ref, with all other refs that it moved. Commits
    /// stay; only refs move. Tool effects and decisions of people are not undone. `HEAD` moves
    /// back where the branch that it names is undone.
    ///
    /// # Behavior
    /// - The refs are again where they were before the operation, all of them, or none moves. A branch
    ///   that would show an erased message gets the edit of the erasure on top, so an erasure is not
    ///   undone: the operation before it is.
    /// - An operation that is still writing is reverted as far as it has come: nothing tells whether
    ///   more of its writes will follow. What it writes later comes after the undo, so it cannot be
    ///   undone as a whole any more: another undo is refused and names the first one.
    /// - When the operation itself writes on meanwhile, the undo is tried again, for as long as
    ///   [`RepoOptions::retry_for`](crate::RepoOptions::retry_for) says.
    ///
    /// # Errors
    /// [`Error::NothingToUndo`]; [`Error::MovedSince`] when another operation moved one of the
    /// refs since, or this one does not stop; [`Error::Collected`] when a commit to which a ref would
    /// go back was deleted by garbage collection. Nothing moves then.
    pub async fn undo(&self, name: &RefName) -> Result<UndoReport> {
        let mut moves = RefMoves::of(self, name);
        let mut races = self.races();
        loop {
            let Some(done) = moves.last(&[UNDO, REDO]).await? else {
                return Err(Error::NothingToUndo { what: UNDO, name: name.clone() });
            };
            let own = done.note.operation;
            match self.reverted(UNDO, &done, done.note.what.clone()).await {
                Ok(Some(undone)) => return Ok(undone),
                Ok(None) => {}
                // Its own writes do not come between: it is still being carried out.
                Err(Error::MovedSince(moved))
                    if moved.by.as_ref().is_some_and(|by| by.note.operation == own)
                        && !races.is_over() =>
                {
                    races.lose().await?;
                    moves = RefMoves::of(self, name);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reverts the last undo of this ref.
    ///
    /// # Errors
    /// As [`undo`](Self::undo); there is nothing to redo once something else was done.
    pub async fn redo(&self, name: &RefName) -> Result<UndoReport> {
        let mut moves = RefMoves::of(self, name);
        let mut of_head = self.undo_of_head(name).await?;
        loop {
            let undo = match of_head.take() {
                Some(undo) => Some(undo),
                // `None` when something else was done since.
                None => moves.last(&[REDO]).await?.filter(is_undo),
            };
            let Some(undo) = undo else {
                return Err(Error::NothingToUndo { what: REDO, name: name.clone() });
            };
            let done = History(self).undone_by(&undo).await?;
            let what = done.map_or_else(|| UNDO.to_owned(), |done| done.note.what);
            if let Some(undone) = self.reverted(REDO, &undo, what).await? {
                return Ok(undone);
            }
        }
    }

    /// Returns the undo that brought `HEAD` to this branch, when nothing was done on the branch
    /// since: the branch that it undid is gone, so a redo is asked for here.
    async fn undo_of_head(&self, name: &RefName) -> Result<Option<LogEntry>> {
        let head = RefName::head();
        if self.ref_target(&head).await? != Some(RefTarget::Ref(name.clone())) {
            return Ok(None);
        }
        let undo = History(self).newest(&head, None).await?;
        let mut last = None;
        for name in refs_of(name) {
            last = last.max(History(self).newest(&name, None).await?.map(|entry| entry.seq));
        }
        Ok(undo.filter(|undo| is_undo(undo) && last < Some(undo.seq)))
    }

    /// Reverts the operation of an entry; `None` when it left everything as it was.
    async fn reverted(
        &self,
        verb: &'static str,
        of: &LogEntry,
        what: String,
    ) -> Result<Option<UndoReport>> {
        let mut races = self.races();
        loop {
            match self.revert_once(verb, of, what.clone()).await {
                // Something was erased meanwhile, which the branches must not show.
                Err(Error::Conflict { name, .. }) if name == RefName::newest_erasure() => {
                    races.lose().await?;
                }
                done => return done,
            }
        }
    }

    async fn revert_once(
        &self,
        verb: &'static str,
        of: &LogEntry,
        what: String,
    ) -> Result<Option<UndoReport>> {
        let operation = of.note.operation;
        let segments = History(self).segments(of).await?;
        let names: Vec<RefName> =
            segments.keys().cloned().chain(std::iter::once(RefName::head())).collect();
        let targets = self.store().refs(self.name(), &names).await?;
        let present: BTreeMap<RefName, Option<RefTarget>> =
            names.into_iter().zip(targets).collect();
        let mut moves = Vec::new();
        for (name, segments) in &segments {
            let now = present.get(name).cloned().flatten();
            if let Some(step) = self.back(verb, &what, name, segments, now).await? {
                moves.push(step);
            }
        }
        if moves.is_empty() {
            return Ok(None);
        }
        let head = present.get(&RefName::head()).cloned().flatten();
        self.bring_head(verb, &what, &segments, head.clone(), &mut moves).await?;
        moves.sort_by(|one, other| one.name.cmp(&other.name));

        let back: Vec<CommitId> =
            moves.iter().filter_map(|step| step.after.as_ref()?.commit()).collect();
        self.require_uncollected(&back).await?;
        let own = Operation::begin()?;
        let mut txn = Txn::within(self, Some(&own))?;
        for step in &moves {
            txn.move_from(&step.name, step.before.clone(), step.after.clone());
        }
        // Where a branch goes back to an erased message, it gets the edits of the erasure again. So
        // an erasure is not undone, and what was done before it is next.
        txn.mend_erased().await?;
        for step in moves.iter_mut().filter(|step| step.name.branch_name().is_some()) {
            step.after = txn.target(&step.name).await?;
        }
        moves.retain(|step| step.before != step.after);
        if moves.is_empty() {
            return Ok(None);
        }
        let deletes = |step: &RefMove| step.after.is_none() && step.name.branch_name().is_some();
        if moves.iter().any(deletes) {
            // The branch is not checked out while it goes.
            txn.hold(&RefName::head(), head);
        }
        let batch = txn.id();
        match txn.apply_undoing(verb, &WriteOptions::default(), Some(of.seq)).await? {
            Applied::Done | Applied::Already if History(self).has(batch).await? => {
                Ok(Some(UndoReport { what, operation, moves }))
            }
            // To a store, a ref that is at its target already has moved there: another undo of the
            // same operation was faster.
            Applied::Done | Applied::Already => {
                let Some(RefMove { name, .. }) = moves.first() else { return Ok(None) };
                let by = History(self).newest(name, None).await?;
                Err(moved_since(verb, &what, name, by))
            }
            Applied::Conflict(conflict) if conflict.name == RefName::newest_erasure() => {
                Err(conflict.into())
            }
            // The move that won the race is named. Another operation is not undone in its place.
            Applied::Conflict(conflict) => {
                let by = History(self).newest(&conflict.name, None).await?;
                Err(moved_since(verb, &what, &conflict.name, by))
            }
        }
    }

    /// Refuses what the ref log names and garbage collection deleted.
    pub(crate) async fn require_uncollected(&self, commits: &[CommitId]) -> Result<()> {
        let found = self.store().commits(self.name(), commits).await?;
        let mut absent = commits.iter().zip(found).filter(|(_, commit)| commit.is_none());
        absent.next().map_or(Ok(()), |(commit, _)| Err(Error::Collected { commit: *commit }))
    }

    /// Returns how a ref gets back to where it was before an operation.
    async fn back(
        &self,
        verb: &'static str,
        what: &str,
        name: &RefName,
        segments: &[Segment],
        now: Option<RefTarget>,
    ) -> Result<Option<RefMove>> {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return Ok(None);
        };
        if is_left(name, first.before.is_none() && now == last.after) {
            return Ok(None);
        }
        let mut pairs = segments.iter().zip(segments.iter().skip(1));
        if let Some((_, later)) = pairs.find(|(earlier, later)| earlier.after != later.before) {
            let by = History(self).newest(name, Some(later.first)).await?;
            return Err(moved_since(verb, what, name, by));
        }
        // An operation that left the ref where it found it has nothing to move back, wherever the ref
        // is now.
        if first.before == last.after {
            return Ok(None);
        }
        if now != last.after
            && !self.is_at_but_for_erasures(now.as_ref(), last.after.as_ref()).await?
        {
            // An erasure, which is not undone.
            if self.is_at_but_for_erasures(last.after.as_ref(), first.before.as_ref()).await? {
                return Ok(None);
            }
            let by = History(self).newest(name, None).await?;
            return Err(moved_since(verb, what, name, by));
        }
        let step = RefMove { name: name.clone(), before: now, after: first.before.clone() };
        // A document stays as it is where what it said before was erased.
        if let Some(RefTarget::Blob(id)) = step.after
            && self.erasure_of(id).await?.is_some()
        {
            return Ok(None);
        }
        Ok(Some(step).filter(|step| step.before != step.after))
    }

    /// Moves `HEAD` back as well, where it would be left on a branch that is gone.
    async fn bring_head(
        &self,
        verb: &'static str,
        what: &str,
        segments: &BTreeMap<RefName, Vec<Segment>>,
        head: Option<RefTarget>,
        moves: &mut Vec<RefMove>,
    ) -> Result<()> {
        let gone =
            |name: &RefName| moves.iter().any(|one| one.name == *name && one.after.is_none());
        let Some(RefTarget::Ref(branch)) = &head else { return Ok(()) };
        let moves_head = moves.iter().any(|one| one.name == RefName::head());
        if moves_head || !gone(branch) {
            return Ok(());
        }
        // Where it was before the operation: what moved it to the branch came later.
        let first = segments.values().flatten().map(|segment| segment.first).min();
        let newest = History(self).newest(&RefName::head(), None).await?;
        let was = History(self).newest(&RefName::head(), first).await?.and_then(|one| one.after);
        if was == head {
            return Ok(());
        }
        if let Some(RefTarget::Ref(to)) = &was {
            let is_there = !gone(to) && self.ref_target(to).await?.is_some();
            // A branch without a commit loses nothing if it had none then.
            let then = History(self).newest(to, first).await?.and_then(|one| one.after);
            if is_there || then.is_none() {
                moves.push(RefMove { name: RefName::head(), before: head, after: was });
                return Ok(());
            }
        }
        Err(moved_since(verb, what, &RefName::head(), newest))
    }
}

fn moved_since(verb: &'static str, what: &str, name: &RefName, by: Option<LogEntry>) -> Error {
    let what = what.to_owned();
    Error::MovedSince(Box::new(UndoConflict { verb, what, name: name.clone(), by }))
}

/// Whether an undo leaves a ref where it is; `is_new` says that the operation made it and nothing
/// moved it since.
fn is_left(name: &RefName, is_new: bool) -> bool {
    match name.as_str().split_once('/') {
        // What happened outside of the store is not undone.
        _ if name.is_effect() => true,
        // It says what a writer stored, and that writer ends it.
        _ if name.is_lease() => true,
        // Of a merge, decisions are undone like the merge itself.
        Some(("pending" | "decisions", id)) if id.starts_with("m-") => false,
        // What people decided stays decided, and what was erased is gone.
        Some(("decisions" | "erasures" | "pending-erasures", _)) => true,
        // A pending approval goes with the operation that asked for it, as long as it waits. What
        // was decided since, or by this operation, stays decided.
        Some(("pending", _)) => !is_new,
        _ => false,
    }
}
