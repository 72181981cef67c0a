//! Undo and redo: moving refs back and forth along the ref log, one operation at a time.
//!
//! An undo reverts all moves of one operation, or none. On every ref the moves of the operation
//! have to form one unbroken sequence that ends at the current target; otherwise another operation
//! came in between, and the undo is refused with its name. The ref log entries of an undo name an
//! entry of the operation that it reverts. The next undo continues before that entry, and a redo
//! reverts the undo.

mod history;

use std::collections::BTreeMap;

use tract_core::{Applied, CommitId, LogEntry, OperationId, RefName, RefTarget};

use self::history::{History, RefMoves, Segment, is_undo, refs_of};
use crate::repo::Repo;
use crate::repo::error::{Error, Result, UndoConflict};
use crate::repo::operation::Operation;
use crate::write::erasures::is_at_but_for_erasures;
use crate::write::txn::{Txn, WriteOptions, mend_erased};

/// A ref that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefMove {
    /// The ref.
    pub name: RefName,
    /// The target before; `None` if the ref did not exist.
    pub before: Option<RefTarget>,
    /// The target after; `None` if the ref was deleted.
    pub after: Option<RefTarget>,
}

/// The result of an undo or redo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoReport {
    /// The verb of the operation that was undone, or redone.
    pub what: String,
    /// The operation.
    pub operation: OperationId,
    /// The moved refs, sorted by name.
    pub moves: Vec<RefMove>,
}

/// The verbs in the ref log.
const UNDO: &str = "undo";
const REDO: &str = "redo";

/// Reverts an operation as [`Repo::undo`] does.
pub(crate) async fn undo(repo: &Repo, name: &RefName) -> Result<UndoReport> {
    let mut moves = RefMoves::of(repo, name);
    let mut races = repo.races();
    loop {
        let Some(done) = moves.last(&[UNDO, REDO]).await? else {
            return Err(Error::NothingToUndo { what: UNDO, name: name.clone() });
        };
        let own = done.note.operation;
        match reverted(repo, UNDO, &done, done.note.what.clone()).await {
            Ok(Some(undone)) => return Ok(undone),
            Ok(None) => {}
            // A conflict with its own writes: the operation is still running, so retry.
            Err(Error::MovedSince(moved))
                if moved.by.as_ref().is_some_and(|by| by.note.operation == own)
                    && !races.is_over() =>
            {
                races.lose().await?;
                moves = RefMoves::of(repo, name);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reverts an undo as [`Repo::redo`] does.
pub(crate) async fn redo(repo: &Repo, name: &RefName) -> Result<UndoReport> {
    let mut moves = RefMoves::of(repo, name);
    let mut of_head = undo_of_head(repo, name).await?;
    loop {
        let undo = match of_head.take() {
            Some(undo) => Some(undo),
            // `None` after another operation.
            None => moves.last(&[REDO]).await?.filter(is_undo),
        };
        let Some(undo) = undo else {
            return Err(Error::NothingToUndo { what: REDO, name: name.clone() });
        };
        let done = History(repo).undone_by(&undo).await?;
        let what = done.map_or_else(|| UNDO.to_owned(), |done| done.note.what);
        if let Some(undone) = reverted(repo, REDO, &undo, what).await? {
            return Ok(undone);
        }
    }
}

/// Returns the undo that moved `HEAD` to this branch, if the branch did not move since. The
/// branch that was undone is gone, so its redo is requested on this one.
async fn undo_of_head(repo: &Repo, name: &RefName) -> Result<Option<LogEntry>> {
    let head = RefName::head();
    if repo.ref_target(&head).await? != Some(RefTarget::Ref(name.clone())) {
        return Ok(None);
    }
    let undo = History(repo).newest(&head, None).await?;
    let mut last = None;
    for name in refs_of(name) {
        last = last.max(History(repo).newest(&name, None).await?.map(|entry| entry.seq));
    }
    Ok(undo.filter(|undo| is_undo(undo) && last < Some(undo.seq)))
}

/// Reverts the operation of an entry; `None` if that changes nothing.
async fn reverted(
    repo: &Repo,
    verb: &'static str,
    of: &LogEntry,
    what: String,
) -> Result<Option<UndoReport>> {
    let mut races = repo.races();
    loop {
        match revert_once(repo, verb, of, what.clone()).await {
            // A message was erased since the check; the branches must not show it.
            Err(Error::Conflict { name, .. }) if name == RefName::newest_erasure() => {
                races.lose().await?;
            }
            done => return done,
        }
    }
}

async fn revert_once(
    repo: &Repo,
    verb: &'static str,
    of: &LogEntry,
    what: String,
) -> Result<Option<UndoReport>> {
    let operation = of.note.operation;
    let segments = History(repo).segments(of).await?;
    let names: Vec<RefName> =
        segments.keys().cloned().chain(std::iter::once(RefName::head())).collect();
    let targets = repo.store().refs(repo.name(), &names).await?;
    let present: BTreeMap<RefName, Option<RefTarget>> = names.into_iter().zip(targets).collect();
    let mut moves = Vec::new();
    for (name, segments) in &segments {
        let now = present.get(name).cloned().flatten();
        if let Some(step) = moved_back(repo, verb, &what, name, segments, now).await? {
            moves.push(step);
        }
    }
    if moves.is_empty() {
        return Ok(None);
    }
    let head = present.get(&RefName::head()).cloned().flatten();
    bring_head(repo, verb, &what, &segments, head.clone(), &mut moves).await?;
    moves.sort_by(|one, other| one.name.cmp(&other.name));

    let back: Vec<CommitId> =
        moves.iter().filter_map(|step| step.after.as_ref()?.commit()).collect();
    repo.require_uncollected(&back).await?;
    let own = Operation::begin()?;
    let mut txn = Txn::within(repo, Some(&own))?;
    for step in &moves {
        txn.move_from(&step.name, step.before.clone(), step.after.clone());
    }
    // A branch that goes back to an erased message gets the edits of the erasure again. So
    // erasures are not undone, and the operation before them is next.
    mend_erased(&mut txn).await?;
    for step in moves.iter_mut().filter(|step| step.name.branch_name().is_some()) {
        step.after = txn.target(&step.name).await?;
    }
    moves.retain(|step| step.before != step.after);
    if moves.is_empty() {
        return Ok(None);
    }
    let deletes = |step: &RefMove| step.after.is_none() && step.name.branch_name().is_some();
    if moves.iter().any(deletes) {
        // Hold `HEAD`, so that no branch is checked out while it is deleted.
        txn.hold(&RefName::head(), head);
    }
    let batch = txn.id();
    match txn.apply_undoing(verb, &WriteOptions::default(), Some(of.seq)).await? {
        Applied::Done | Applied::Already if History(repo).has(batch).await? => {
            Ok(Some(UndoReport { what, operation, moves }))
        }
        // A store reports success for a ref that already has its target. Without a log entry of
        // this batch, another undo of the same operation was faster.
        Applied::Done | Applied::Already => {
            let Some(RefMove { name, .. }) = moves.first() else { return Ok(None) };
            let by = History(repo).newest(name, None).await?;
            Err(moved_since(verb, &what, name, by))
        }
        Applied::Conflict(conflict) if conflict.name == RefName::newest_erasure() => {
            Err(conflict.into())
        }
        // Name the move that won the race, rather than undo another operation instead.
        Applied::Conflict(conflict) => {
            let by = History(repo).newest(&conflict.name, None).await?;
            Err(moved_since(verb, &what, &conflict.name, by))
        }
        Applied::Moved(_) => Err(Error::KeptMoving { attempts: 1 }),
    }
}

/// Returns the move that takes a ref back to its target from before an operation.
async fn moved_back(
    repo: &Repo,
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
        let by = History(repo).newest(name, Some(later.first)).await?;
        return Err(moved_since(verb, what, name, by));
    }
    // If the operation left the ref unchanged overall, there is nothing to move back,
    // regardless of its current target.
    if first.before == last.after {
        return Ok(None);
    }
    if now != last.after && !is_at_but_for_erasures(repo, now.as_ref(), last.after.as_ref()).await?
    {
        // The operation was an erasure, which is not undone.
        if is_at_but_for_erasures(repo, last.after.as_ref(), first.before.as_ref()).await? {
            return Ok(None);
        }
        let by = History(repo).newest(name, None).await?;
        return Err(moved_since(verb, what, name, by));
    }
    let step = RefMove { name: name.clone(), before: now, after: first.before.clone() };
    // Keep the current document if the previous one was erased.
    if let Some(RefTarget::Blob(id)) = step.after
        && repo.erasure_of(id).await?.is_some()
    {
        return Ok(None);
    }
    Ok(Some(step).filter(|step| step.before != step.after))
}

/// Moves `HEAD` back too, if it would be left on a deleted branch.
async fn bring_head(
    repo: &Repo,
    verb: &'static str,
    what: &str,
    segments: &BTreeMap<RefName, Vec<Segment>>,
    head: Option<RefTarget>,
    moves: &mut Vec<RefMove>,
) -> Result<()> {
    let gone = |name: &RefName| moves.iter().any(|one| one.name == *name && one.after.is_none());
    let Some(RefTarget::Ref(branch)) = &head else { return Ok(()) };
    let moves_head = moves.iter().any(|one| one.name == RefName::head());
    if moves_head || !gone(branch) {
        return Ok(());
    }
    // Use the target of `HEAD` from before the operation: the checkout of the branch came
    // later.
    let first = segments.values().flatten().map(|segment| segment.first).min();
    let newest = History(repo).newest(&RefName::head(), None).await?;
    let was = History(repo).newest(&RefName::head(), first).await?.and_then(|one| one.after);
    if was == head {
        return Ok(());
    }
    if let Some(RefTarget::Ref(to)) = &was {
        let is_there = !gone(to) && repo.ref_target(to).await?.is_some();
        // Going back to a branch without a commit loses nothing if it had none then either.
        let then = History(repo).newest(to, first).await?.and_then(|one| one.after);
        if is_there || then.is_none() {
            moves.push(RefMove { name: RefName::head(), before: head, after: was });
            return Ok(());
        }
    }
    Err(moved_since(verb, what, &RefName::head(), newest))
}

fn moved_since(verb: &'static str, what: &str, name: &RefName, by: Option<LogEntry>) -> Error {
    let what = what.to_owned();
    Error::MovedSince(Box::new(UndoConflict { verb, what, name: name.clone(), by }))
}

/// Returns whether an undo leaves a ref unchanged. `is_new` means that the operation created it and
/// that it was not moved since.
fn is_left(name: &RefName, is_new: bool) -> bool {
    match name.as_str().split_once('/') {
        // Effects happened outside of the store, and cannot be undone.
        _ if name.is_effect() => true,
        // A lease protects objects that a writer stored, and only that writer ends it.
        _ if name.is_lease() => true,
        // Its rows stay as they are, so their position does too.
        _ if name.is_search_index() => true,
        // Decisions about merges are undone like the merge itself.
        Some(("pending" | "decisions", id)) if id.starts_with("m-") => false,
        // Decisions of people and erasures are final.
        Some(("decisions" | "erasures" | "pending-erasures", _)) => true,
        // A pending approval is removed with the operation that created it while it is undecided.
        // Approvals that were decided since, or by this operation, stay decided.
        Some(("pending", _)) => !is_new,
        _ => false,
    }
}
