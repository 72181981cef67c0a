//! Completes a transaction and submits it as one batch.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tract_core::{Applied, CommitId, Expect, ObjectId, RefEdit, RefName, RefTarget};

use super::mend::mend_erased;
use super::{StagedRef, Txn};
use crate::history::turns::NewRow;
use crate::plan::BranchTip;
use crate::repo::batch::{apply_once, tell};
use crate::repo::error::Result;
use crate::repo::heads::Turn;
use crate::write::txn::{WriteOptions, ref_edit};

impl Txn<'_> {
    /// Stores everything durably, or nothing.
    ///
    /// # Errors
    /// When the store fails. A lost race is not an error but [`Applied::Conflict`].
    pub async fn apply(mut self, what: &str, options: &WriteOptions) -> Result<Applied> {
        self.apply_undoing(what, options, None).await
    }

    /// Stores everything, and leaves the transaction empty. `undoes` is the sequence number of the
    /// ref log entry that it undoes.
    pub(crate) async fn apply_undoing(
        &mut self,
        what: &str,
        options: &WriteOptions,
        undoes: Option<u64>,
    ) -> Result<Applied> {
        let rows = self.complete(what, options, undoes).await?;
        let applied = self.apply_with_rows().await?;
        if applied.is_stored() {
            // Caches first: `keep` wakes the writers that wait for this branch, and they plan from
            // these caches.
            self.remember();
            for edit in self.batch.refs.iter().filter(|edit| edit.name.branch_name().is_some()) {
                // After `Already` others may have moved the branch since, so its tip is unknown.
                let tip = self.tip_after(edit, &rows).filter(|_| applied == Applied::Done);
                self.repo.heads().keep(&edit.name, tip);
            }
            self.recorded().await;
        }
        Ok(applied)
    }

    /// Stores everything like [`apply_undoing`](Self::apply_undoing). With a turn, the next write
    /// of the branch plans as soon as this one is with the store.
    pub(crate) async fn apply_in_turn(
        &mut self,
        branch: &RefName,
        what: &str,
        options: &WriteOptions,
        turn: Option<Turn>,
    ) -> Result<Applied> {
        let Some(turn) = turn else { return self.apply_undoing(what, options, None).await };
        let rows = self.complete(what, options, None).await?;
        // A conflict with an erasure is not repaired here, as `apply_with_rows` does it: a write
        // with a turn has no expected head, so its caller plans it again.
        let edit = self.batch.refs.iter().find(|edit| edit.name == *branch);
        let tip = edit.and_then(|edit| self.tip_after(edit, &rows));
        let mut applying = pin!(apply_once(self.repo, &self.batch));
        // A store takes a batch in when it is first polled, and applies batches in that order. So
        // the turn must not be passed on before this poll: the next write could get in front, and
        // would be refused because it expects this one.
        let first = poll_fn(|context| Poll::Ready(applying.as_mut().poll(context))).await;
        // The store may answer with the first poll, for example in memory. A refusal is then known
        // before anyone plans on this write, and the tip must not be passed on.
        let under_way = match &first {
            Poll::Ready(Err(_) | Ok(Applied::Conflict(_) | Applied::Moved(_))) => {
                self.repo.heads().forget(branch);
                drop(turn);
                None
            }
            Poll::Ready(Ok(_)) | Poll::Pending => Some(turn.pass_on(tip)),
        };
        let applied = match first {
            Poll::Ready(applied) => applied?,
            Poll::Pending => applying.await?,
        };
        if applied.is_stored() {
            // Fill the caches before `done`, which wakes the writers that wait to plan on this
            // write.
            self.remember();
            if let Some(under_way) = under_way {
                under_way.done();
            }
            self.recorded().await;
        }
        Ok(applied)
    }

    /// Completes the batch, once nothing more is added to the transaction.
    async fn complete(
        &mut self,
        what: &str,
        options: &WriteOptions,
        undoes: Option<u64>,
    ) -> Result<Vec<NewRow>> {
        if let Some(operation) = &options.operation
            && operation.id() != self.operation.id()
        {
            // Only the prefix of the batch id changes. Commits that were sealed before this line
            // name the earlier id, which the ref log will not have.
            self.operation = operation.clone();
            self.batch.id = operation.adopt(self.batch.id);
        }
        // Mending adds commits and moves refs, so it comes before all steps that look at the heads.
        // Rows of the turn index are made from the histories that `fold_heads` leaves in memory.
        // Refs become edits last: nothing may move one after that.
        mend_erased(self).await?;
        if undoes.is_none() && !self.any_name {
            // An undo may restore a ref whose name only an older version allowed, so it is not
            // checked.
            let is_new = |moved: &StagedRef| moved.found.is_none() && moved.to.is_some();
            let made = self.refs.iter().filter(|(_, moved)| is_new(moved));
            made.map(|(name, _)| name).try_for_each(RefName::check_new)?;
        }
        self.fold_heads().await?;
        self.date_tools().await?;
        let rows = self.add_turn_rows().await;
        let batch = &mut self.batch;
        (batch.note.operation, batch.note.what) = (self.operation.id(), what.to_owned());
        (batch.note.why, batch.note.undoes) = (options.why.clone(), undoes);
        let mut requires: Vec<CommitId> = self.requires.difference(&self.made).copied().collect();
        requires.sort_unstable();
        batch.requires = requires.into_iter().map(ObjectId::Commit).collect();
        let refs = std::mem::take(&mut self.refs);
        batch.refs.reserve_exact(refs.len());
        batch.refs.extend(
            refs.into_iter()
                // A ref that was only read is not part of the batch: others may move it without
                // making this write conflict. Where that would be wrong, the caller holds it.
                .filter(|(_, moved)| moved.held || moved.to != moved.found)
                .map(|(name, moved)| ref_edit(name, moved.found, moved.to)),
        );
        batch.require_targets();
        let known = self.known_erasures.as_ref().map(|known| &known.mark);
        // The batch expects the newest erasure to be the one that was read earlier. An erasure in
        // between makes it conflict, so no branch or derived row brings an erased message back.
        if let Some(mark) = known.or(self.mark.as_ref())
            && batch.refs.iter().all(|edit| edit.name != RefName::newest_erasure())
        {
            mark.hold(batch);
        }
        Ok(rows)
    }

    /// Applies the batch. If something was erased since the messages of its derived rows were read,
    /// applies it again without those rows: they may quote an erased message, and queries work
    /// without them.
    async fn apply_with_rows(&mut self) -> Result<Applied> {
        let applied = apply_once(self.repo, &self.batch).await?;
        match applied {
            Applied::Conflict(conflict)
                if self.mark.is_some()
                    && self.known_erasures.is_none()
                    && conflict.name == RefName::newest_erasure() =>
            {
                self.mark = None;
                self.batch.derived.clear();
                self.batch.refs.retain(|edit| edit.name != RefName::newest_erasure());
                apply_once(self.repo, &self.batch).await
            }
            applied => Ok(applied),
        }
    }

    /// Updates the operation's count of ref moves and notifies the hooks.
    async fn recorded(&self) {
        let batch = &self.batch;
        // Counts what the store logs: setting a ref to its current target is not an entry.
        let moves = |edit: &&RefEdit| match &edit.expect {
            Expect::Is(at) => edit.to.as_ref() != Some(at),
            Expect::Any | Expect::Absent => edit.to.is_some(),
        };
        let moves = batch.refs.iter().filter(moves).count();
        let (store, name) = (self.repo.store().as_ref(), self.repo.name());
        self.operation.recorded(store, name, batch.id, moves).await;
        if !batch.refs.is_empty() {
            tell(self.repo, batch.id).await;
        }
    }

    /// Caches the stored objects.
    fn remember(&self) {
        let batch = &self.batch;
        let compiler = self.repo.compiler();
        compiler.remember_objects(&batch.commits, &batch.blobs, &batch.toolsets);
        for edit in &batch.refs {
            let head = edit.to.as_ref().and_then(RefTarget::commit);
            if let Some(history) = head.and_then(|head| self.histories.get(&head)) {
                compiler.remember(history);
            }
        }
    }

    /// Returns the tip that the next write may assume for a branch that this write moves.
    fn tip_after(&self, edit: &RefEdit, rows: &[NewRow]) -> Option<BranchTip> {
        let head = edit.to.as_ref().and_then(RefTarget::commit)?;
        let run = self.tip.filter(|tip| tip.head == Some(head));
        let mut tip = self.histories.get(&head).map(BranchTip::from).or(run)?;
        tip.silence = match rows.iter().find(|row| row.at == head) {
            Some(row) => Some(row.silence()),
            None => run.and_then(|run| run.silence),
        };
        Some(tip)
    }
}
