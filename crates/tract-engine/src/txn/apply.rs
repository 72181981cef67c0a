//! The end of a write: one batch for all of it.

use tract_core::{Applied, Batch, CommitId, LogNote, ObjectId, OperationId, RefEdit, RefTarget};

use super::Txn;
use crate::error::Result;
use crate::plan::Stand;
use crate::turns::NewRow;
use crate::write::{WriteOptions, apply_once, tell};

impl Txn<'_> {
    /// Stores all of it, durably, or nothing.
    ///
    /// # Errors
    /// When the store fails. A race that is lost is no error but [`Applied::Conflict`].
    pub async fn apply(mut self, what: &str, options: &WriteOptions) -> Result<Applied> {
        self.apply_undoing(what, options, None).await
    }

    /// Stores all of it, and leaves nothing here to be stored.
    pub(crate) async fn apply_undoing(
        &mut self,
        what: &str,
        options: &WriteOptions,
        undoes: Option<u64>,
    ) -> Result<Applied> {
        // What is one write is known by one id, which the log keeps once.
        let alone = || OperationId::from_bytes(*self.id.as_bytes());
        let operation = options.operation.unwrap_or_else(alone);
        let note = LogNote {
            operation,
            what: what.to_owned(),
            who: self.repo.who().to_owned(),
            why: options.why.clone(),
            undoes,
            at: self.at_us,
        };
        self.fold_heads().await?;
        let rows = self.add_turn_rows().await;
        let mut batch = Batch::new(self.id, note);
        let mut requires: Vec<CommitId> = self.requires.difference(&self.made).copied().collect();
        requires.sort_unstable();
        batch.requires = requires.into_iter().map(ObjectId::Commit).collect();
        let refs = std::mem::take(&mut self.refs);
        batch.refs.reserve_exact(refs.len());
        batch.refs.extend(
            refs.into_iter()
                .filter(|(_, moved)| moved.to != moved.found)
                .map(|(name, moved)| RefEdit { name, expect: moved.expect, to: moved.to }),
        );
        batch.blobs = std::mem::take(&mut self.blobs);
        batch.toolsets = std::mem::take(&mut self.toolsets);
        batch.commits = std::mem::take(&mut self.commits);
        batch.tools = std::mem::take(&mut self.tools);
        batch.derived = std::mem::take(&mut self.derived);
        let applied = apply_once(self.repo, &batch).await?;
        if matches!(applied, Applied::Conflict(_)) {
            return Ok(applied);
        }
        let compiler = self.repo.compiler();
        compiler.remember_objects(&batch.commits, &batch.blobs, &batch.toolsets);
        for edit in &batch.refs {
            let head = edit.to.as_ref().and_then(RefTarget::commit);
            if let Some(line) = head.and_then(|head| self.lines.get(&head)) {
                compiler.remember(line);
            }
            if applied == Applied::Done && edit.name.branch_name().is_some() {
                let stand = head.and_then(|head| self.stand_at(head, &rows));
                self.repo.heads().keep(&edit.name, stand);
            }
        }
        if !batch.refs.is_empty() {
            tell(self.repo, self.id).await;
        }
        Ok(applied)
    }

    /// What a write after this one has to know of a branch that this one leaves at `head`.
    fn stand_at(&self, head: CommitId, rows: &[NewRow]) -> Option<Stand> {
        let run = self.stand.filter(|stand| stand.head == Some(head));
        let mut stand = self.lines.get(&head).map(Stand::from).or(run)?;
        stand.silence = match rows.iter().find(|row| row.at == head) {
            Some(row) => Some(row.silence()),
            None => run.and_then(|run| run.silence),
        };
        Some(stand)
    }
}
